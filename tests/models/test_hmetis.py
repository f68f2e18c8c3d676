"""hMETIS files, to the letter."""

import numpy as np
import pytest
from hypothesis import given
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


@pytest.mark.parametrize(
    ("ptr", "pins", "weights", "words"),
    [
        ([0, 2], [0, 1], np.ones((2, 3), int), "one weight per vertex, not 3"),
        ([0, 0, 0], [], np.ones(2, int), "no net"),
    ],
)
def test_what_hmetis_cannot_say(tmp_path, ptr, pins, weights, words):
    problem = Hypergraph(np.array(ptr), np.array(pins, np.int32), weights)
    with pytest.raises(InputError, match=rf"a\.hgr: .*{words}"):
        write_hmetis(problem, tmp_path / "a.hgr")
    assert list(tmp_path.iterdir()) == []
