"""hMETIS files, to the letter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.models.hmetis import write_hmetis
from plancc.models.problem import Hypergraph
from plancc_lab.partition.hmetis import read_hmetis


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
    if costs is not None and min(costs[k] for k in kept) < 1:
        return
    back = read_hmetis(path)
    assert back.net_ptr.tolist() == np.cumsum([0, *(len(nets[k]) for k in kept)]).tolist()
    assert back.pins.tolist() == [pin for k in kept for pin in nets[k]]
    assert back.vertex_weights.tolist() == weights
    assert (back.net_costs is None) == (costs is None)
    assert costs is None or back.net_costs.tolist() == [costs[k] for k in kept]


@pytest.mark.parametrize(
    ("ptr", "pins", "weights", "words"),
    [
        ([0, 2], [0, 1], np.ones((2, 3), int), "one weight per vertex, not 3"),
        ([0, 0, 0], [], np.ones(2, int), "no pins"),
    ],
)
def test_what_hmetis_cannot_say(tmp_path, ptr, pins, weights, words):
    problem = Hypergraph(np.array(ptr), np.array(pins, np.int32), weights)
    with pytest.raises(InputError, match=rf"a\.hgr: .*{words}"):
        write_hmetis(problem, tmp_path / "a.hgr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "costs", "weights"),
    [
        ("2 3\n1 2\n\n% no line\n2 3\n", None, [1, 1, 1]),
        ("2 3 0\n1 2\n2 3\n", None, [1, 1, 1]),
        ("2 3 1\n7 1 2\n5 2 3\n", [7, 5], [1, 1, 1]),
        ("2 3 10\n1 2\n2 3\n4\n0\n6\n", None, [4, 0, 6]),
        ("%\n2 3 11\n7 1 2\n5 2 3\n4\n0\n6", [7, 5], [4, 0, 6]),
    ],
)
def test_all_kinds_of_weights(tmp_path, text, costs, weights):
    path = tmp_path / "a.hgr"
    path.write_text(text)
    found = read_hmetis(path)
    assert (found.net_ptr.tolist(), found.pins.tolist()) == ([0, 2, 4], [0, 1, 1, 2])
    assert found.vertex_weights.tolist() == weights
    assert (None if found.net_costs is None else found.net_costs.tolist()) == costs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("% only\n", "the line 'NETS VERTICES .FMT.' is missing"),
        ("2\n", "line 1: the first line must be .* not '2'"),
        ("2 3 2\n", "line 1: FMT of 'NETS VERTICES .FMT.' must be .* not '2'"),
        ("-1 3\n", "line 1: the number of nets is negative: '-1'"),
        ("1 0\n", "line 1: the graph has no vertices"),
        ("1 99999999\n1 2\n", "line 1: 99999999 vertices are too many: the source has only 15"),
        ("2 3\n1 2\n", "line 2: the header declares 2 nets, .* the file has '1'"),
        ("1 3\n1 2\n\n2 3\n", "line 4: the header declares 1 nets, .* the file has '2'"),
        ("1 2 10\n1 2\n1\n", "line 3: the header declares 1 nets and 2 vertex weights"),
        ("1 3\n1 4\n", r"line 2: a pin is out of range 1\.\.3: '4'"),
        ("2 3\n1 2\n3 0\n", r"line 3: a pin is out of range 1\.\.3: '0'"),
        ("2 3\n1 2\n3 2 3\n", "line 3: a pin comes twice in a net: '3'"),
        ("1 3 1\n5\n", "line 2: a cost and pins are expected, not '5'"),
        ("1 3 1\n0 1 2\n", "line 2: the cost of a net must be at least 1, not '0'"),
        ("1 2 10\n1 2\n1\n-3\n", "line 4: the weight of a vertex is negative: '-3'"),
        ("1 2 10\n1 2\n1 1\n3\n", "line 3: one weight per line .* '2'"),
        ("1 2\n1 x\n", "line 2: this is not a whole number"),
    ],
)
def test_what_is_no_hypergraph(tmp_path, text, words):
    path = tmp_path / "a.hgr"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"a\.hgr.*{words}"):
        read_hmetis(path)
