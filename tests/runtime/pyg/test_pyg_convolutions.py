"""Every layer of `torch_geometric.nn.conv` on ranks, beside the same layer on one process."""

import pytest

pytest.importorskip("torch_geometric")

from cases import some
from convolutions import (
    CASES,
    REFUSED,
    REFUSED_CALLS,
    Called,
    of_class,
    spline_basis,
    spline_weighting,
)
from on_ranks import compare, on_ranks
from torch_geometric.nn import conv

from plancc.errors import InputError

RANKS = (1, 3)
ALONE = ("GCNConv", "GATConv", "PNAConv", "RGCNConv", "HGTConv", "DirGNNConv sage", "CGConv")
"""What is tried on one rank in every run."""


@pytest.fixture(autouse=True)
def _splines(monkeypatch, float64):
    monkeypatch.setattr(conv.spline_conv, "spline_basis", spline_basis)
    monkeypatch.setattr(conv.spline_conv, "spline_weighting", spline_weighting)


def test_every_layer_has_a_case_or_a_reason():
    run = {of_class(name) for name in CASES}
    layers = {*conv.classes} - {"MessagePassing"}
    assert run | {*REFUSED} == layers
    assert not run & {*REFUSED}
    assert len(run) >= 58 or len(layers) != 66


@some(lambda name, ranks: ranks > 1 or name in ALONE, name=CASES, ranks=RANKS)
def test_layer_gives_what_one_process_gives(name, ranks):
    make, call = CASES[name]
    graph = "four" if name == "MeshCNNConv" else "directed"
    compare(lambda: Called(make(), call), ranks, graph)


@pytest.mark.parametrize("name", REFUSED_CALLS)
def test_layer_that_cannot_be_exact_is_refused_by_name(name):
    make, call = REFUSED_CALLS[name]
    with pytest.raises(InputError, match=r"layer 'layer[.a-z]*' \((\w+Conv|MultiheadAttention)\)"):
        on_ranks(lambda: Called(make(), call), 2)
