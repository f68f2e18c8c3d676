"""hMETIS files, to the letter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.models.hmetis import write_hmetis
from plancc.models.problem import Hypergraph


@st.composite
def hypergraphs(draw):
    n = draw(st.integers(1, 8))
    pins = st.sets(st.integers(0, n - 1)).map(sorted)
    nets = draw(st.lists(pins, min_size=1, max_size=8).filter(any))
    integers = st.integers(0, 10**12)
    weights = draw(st.lists(integers, min_size=n, max_size=n))
    costs = draw(st.none() | st.lists(integers, min_size=len(nets), max_size=len(nets)))
    return nets, weights, costs


@settings(max_examples=60, deadline=None)
@given(hypergraphs())
def test_hmetis(tmp_path_factory, case):
    nets, weights, costs = case
    path = tmp_path_factory.mktemp("hgr") / "a.hgr"
    hypergraph = Hypergraph(
        np.cumsum([0, *map(len, nets)]),
        np.array([pin for net in nets for pin in net], dtype=np.int32),
        np.array(weights),
        None if costs is None else np.array(costs),
    )
    write_hmetis(hypergraph, path)
    kept = [k for k, net in enumerate(nets) if net]
    lines = [f"{len(kept)} {len(weights)} {10 if costs is None else 11}"]
    for k in kept:
        words = ([] if costs is None else [costs[k]]) + [pin + 1 for pin in nets[k]]
        lines.append(" ".join(map(str, words)))
    lines += map(str, weights)
    assert path.read_text() == "\n".join(lines) + "\n"


def test_hmetis_has_one_weight_per_vertex(tmp_path):
    hypergraph = Hypergraph(np.array([0, 2]), np.arange(2, dtype=np.int32), np.ones((2, 3), int))
    with pytest.raises(InputError, match=r"a\.hgr: .* one weight per vertex, not 3"):
        write_hmetis(hypergraph, tmp_path / "a.hgr")
    assert list(tmp_path.iterdir()) == []


def test_hmetis_without_pins(tmp_path):
    hypergraph = Hypergraph(np.zeros(3, np.int64), np.zeros(0, np.int32), np.ones(2, np.int64))
    with pytest.raises(InputError, match=r"a\.hgr: no net"):
        write_hmetis(hypergraph, tmp_path / "a.hgr")
    assert list(tmp_path.iterdir()) == []
