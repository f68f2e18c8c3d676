"""hMETIS files and part vectors."""

import gzip

import numpy as np
import pytest
from graph_helpers import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.errors import InputError, OutputError
from plancc.graph.hmetis import read_hmetis, write_hmetis
from plancc.graph.partvector import read_part_vector, write_part_vector
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
    found = read_hmetis(path)
    assert found.num_vertices == len(weights)
    assert found.vertex_weights.tolist() == weights
    assert [x.tolist() for x in np.split(found.pins, found.net_ptr[1:-1])] == [
        nets[k] for k in kept
    ]
    assert (found.net_costs is None) == (costs is None)
    if costs is not None:
        assert found.net_costs.tolist() == [costs[k] for k in kept]


def test_hmetis_without_pins(tmp_path):
    hypergraph = Hypergraph(np.zeros(3, np.int64), np.zeros(0, np.int32), np.ones(2, np.int64))
    with pytest.raises(InputError, match=r"a\.hgr: no net"):
        write_hmetis(hypergraph, tmp_path / "a.hgr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "line", "value"),
    [
        ("1\n", 1, "1"), ("1 2 3\n1 2\n", 1, "1 2 3"), ("2 2\n1 2\n", 2, "2"),
        ("1 2\n1 2\n1\n", 3, "3"), ("1 2\n% c\n1 3\n", 3, "3"), ("2 2\n1\n1 0\n", 3, "0"),
        ("1 2 10\n1 2\n5\n5 6\n", 4, "5 6"), ("1 2\n1 b\n", 2, "b"),
    ],
)  # fmt: skip
def test_bad_hmetis(tmp_path, text, line, value):
    path = tmp_path / "bad.hgr"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_hmetis(path)
    assert f"{path}, line {line}: " in str(caught.value)
    assert f"'{value}'" in str(caught.value)


@pytest.mark.parametrize("name", ["ibm01", "ibm01.weight"])
def test_shared_hypergraphs(name):
    path = SHARED / f"{name}.hgr.gz"
    if not path.exists():
        pytest.skip("no shared data")
    found = read_hmetis(path)
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    nets = int(lines[0].split()[0])
    assert found.num_vertices == int(lines[0].split()[1])
    expected = [int(word) - 1 for line in lines[1 : nets + 1] for word in line.split()]
    assert found.pins.tolist() == expected
    assert (found.vertex_weights is None) == (name == "ibm01")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=30))
def test_part_vector(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("part") / "a.part.4"
    write_part_vector(np.array(parts), path)
    assert path.read_text() == "".join(f"{part}\n" for part in parts)
    found = read_part_vector(path, len(parts))
    assert found.dtype == np.int32
    assert found.tolist() == parts


@pytest.mark.parametrize(
    ("text", "line", "value"),
    [
        ("0\n1\n-1\n", 3, "-1"), ("0\n1.5\n", 2, "1.5"), ("0\nx\n", 2, "x"), ("0 1\n", 1, "0 1"),
        ("0\n1\n", 2, "2"), ("0\n1\n0\n1\n", 4, "4"), ("0\n\n3000000000\n", 3, "3000000000"),
    ],
)  # fmt: skip
def test_bad_part_vector(tmp_path, text, line, value):
    path = tmp_path / "a.part.2"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_part_vector(path, 3)
    assert f"{path}, line {line}: " in str(caught.value)
    assert f"'{value}'" in str(caught.value)


def test_part_vector_errors(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_part_vector(tmp_path / "none")
    with pytest.raises(InputError, match="integers >= 0"):
        write_part_vector(np.array([0, -1]), tmp_path / "a")
    with pytest.raises(OutputError, match="does not exist"):
        write_part_vector(np.array([0]), tmp_path / "none" / "a")
