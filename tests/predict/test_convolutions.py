"""Other networks than GCN: the words of their epochs are those that the runtime counts."""

from __future__ import annotations

import pytest
import torch
from cases import pairs
from predict_helpers import rmat, trained

import plancc
from plancc.errors import InputError
from plancc.predict.convolutions import CONVOLUTIONS, GAT, SAGE
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Approximation, tables_of
from plancc_runtime.nn.network import Network, NetworkOptions

LAYERS, CLASSES = 2, 3
MACHINE = find_machine("cpu-cluster")
NETWORKS = {
    "gat": {"model": "gat", "heads": 2},
    "max": {"model": "sage", "aggregator": "max"},
    "mean": {"model": "sage", "aggregator": "mean"},
    "without own rows": {"model": "sage", "aggregator": "gcn"},
}


def convolution_of(model="gcn", **options):
    return CONVOLUTIONS[model](**options)


def predicted(plan, network, dims, passes, **left_out):
    tables = tables_of(plan, copies=bool(left_out), live_layers=LAYERS * (plan.fold is None))
    approximation = Approximation(**left_out)
    convolution = convolution_of(**network)
    return Predictor(dims, MACHINE, passes, approximation, convolution).epoch(tables)


@pairs(
    network=NETWORKS,
    passes=[(), ("order",), ("order", "constant"), ("order", "constant", "dead-rows")],
    hidden=[8, 20],  # narrower, wider
)
def test_words(plan, network, hidden, passes):
    found = predicted(plan, NETWORKS[network], (12, hidden, CLASSES), passes)
    how = {"hidden": hidden, "layers": LAYERS, "passes": passes, **NETWORKS[network]}
    assert found.words == trained(plan, epochs=2, **how)[-1].words_sent > 0


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_weights(network):
    dims = [12, 8, CLASSES]
    conv = {name: value for name, value in network.items() if name != "model"}
    built = Network(dims, NetworkOptions(model=network["model"], conv=conv), 0, torch.float32)
    weights = sum(each.numel() for each in built.parameters())
    assert convolution_of(**network).weights(dims) == weights


def test_more_is_computed_than_by_a_gcn(plan):
    dims, passes = (12, 8, CLASSES), ("order",)
    seconds = [
        predicted(plan, network, dims, passes).seconds
        for network in ({}, NETWORKS["without own rows"], NETWORKS["mean"], NETWORKS["max"])
    ]
    assert seconds[0] == seconds[1] < seconds[2] < seconds[3]
    heads = [
        predicted(plan, {"model": "gat", "heads": heads}, dims, passes).seconds for heads in (1, 4)
    ]
    assert seconds[0] < heads[0] < heads[1]


def test_with_boundary_sampling_and_edge_plans(plan):
    dims, passes = (12, 8, CLASSES), ("order",)
    for name in ("max", "mean"):
        exact = predicted(plan, NETWORKS[name], dims, passes)
        assert (
            predicted(plan, NETWORKS[name], dims, passes, boundary_sampling=0.3).words < exact.words
        )
    edge = plancc.compile(rmat(), "libra", 2)
    assert predicted(edge, NETWORKS["mean"], dims, passes).seconds > 0
    for name in ("gat", "max"):
        with pytest.raises(InputError, match="for row plans only"):
            predicted(edge, NETWORKS[name], dims, passes)
    with pytest.raises(InputError, match="model 'gat' is predicted for exact epochs only"):
        predicted(plan, NETWORKS["gat"], dims, passes, boundary_sampling=0.3)
    grid = plancc.compile(rmat(), "mop", 2)
    with pytest.raises(InputError, match="model 'sage' is predicted for row and edge plans"):
        Predictor(dims, MACHINE, passes, convolution=SAGE()).epoch(tables_of(grid))


def test_wrong_networks(plan):
    with pytest.raises(InputError, match="most"):
        SAGE("most")
    with pytest.raises(InputError, match="`heads` 0"):
        GAT(0)
    with pytest.raises(InputError, match="`heads` 3: must divide the width 8"):
        predicted(plan, {"model": "gat", "heads": 3}, (12, 8, CLASSES), ())
