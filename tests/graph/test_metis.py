"""METIS .graph: against a parser of its own, and what bad files get."""

import gzip
from functools import partial

import numpy as np
import pytest
from graph_helpers import entries, refused, same
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.graph.canonical import build_graph
from plancc.graph.formats import read_graph, write_graph


def render(n, edges, fmt, vertex, sizes, ncon_given):
    """A METIS file, line by line."""
    neighbours = {i: [] for i in range(n)}
    for (i, j), weight in edges.items():
        neighbours[i].append((j, weight))
        neighbours[j].append((i, weight))
    head = f"{n} {len(edges)}"
    if fmt != "000" or ncon_given:
        head += f" {fmt}"
    if ncon_given or (fmt[1] == "1" and len(vertex[0]) > 1):
        head += f" {len(vertex[0])}"
    lines = ["% comment", head]
    for i in range(n):
        words = [sizes[i]] if fmt[0] == "1" else []
        words += vertex[i] if fmt[1] == "1" else []
        for j, weight in neighbours[i]:
            words += [j + 1, weight] if fmt[2] == "1" else [j + 1]
        if i == 1:
            lines.append("% in between")
        lines.append(" ".join(map(str, words)))
    return "\n".join(lines) + "\n"


@st.composite
def files(draw):
    n = draw(st.integers(1, 7))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    pairs = pairs.map(lambda p: (min(p), max(p))).filter(lambda p: p[0] != p[1])
    edges = draw(st.dictionaries(pairs, st.integers(1, 9), max_size=10)) if n > 1 else {}
    fmt = "".join(draw(st.tuples(*[st.sampled_from("01")] * 3)))
    ncon = draw(st.integers(1, 3))
    vertex = draw(st.lists(st.lists(st.integers(0, 9), min_size=ncon, max_size=ncon),
                           min_size=n, max_size=n))  # fmt: skip
    sizes = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    return n, edges, fmt, vertex, sizes, draw(st.booleans())


@given(files(), st.booleans(), st.booleans())
def test_all_formats(tmp_path_factory, file, zipped, pattern):
    n, edges, fmt, vertex, _, _ = file
    text = render(*file).encode()
    path = tmp_path_factory.mktemp("metis") / ("a.graph.gz" if zipped else "a.metis")
    path.write_bytes(gzip.compress(text) if zipped else text)
    graph = read_graph(path, pattern=pattern)
    valued = fmt[2] == "1" and not pattern
    expected = {pair: float(w) if valued else 1.0 for pair, w in edges.items()}
    expected |= {(j, i): w for (i, j), w in expected.items()}
    assert entries(graph) == expected
    assert graph.num_vertices == n
    assert not graph.directed
    assert (graph.values is None) == (not valued)
    if fmt[1] == "1":
        assert graph.vertex_weights.tolist() == vertex
        assert graph.vertex_weights.dtype == np.int64
    else:
        assert graph.vertex_weights is None
    write_graph(graph, path)
    again = read_graph(path)
    same(again, graph)
    if fmt[1] == "1":
        assert np.array_equal(again.vertex_weights, graph.vertex_weights)


BAD = {
    "too few lines": ("3 1\n2\n1\n", 3, "3"),
    "too many lines": ("2 1\n2\n1\n1\n", 4, "1"),
    "out of range": ("2 1\n2\n3\n", 3, "3"),
    "negative neighbour": ("2 1\n2\n-1\n", 3, "-1"),
    "word": ("2 1\n2\nx1\n", 3, "x1"),
    "float": ("2 1\n2 \n1.0\n", 3, "1.0"),
    "huge": ("2 1\n2\n99999999999999999999\n", 3, "99999999999999999999"),
    "zero weight": ("2 1 1\n2 0\n1 0\n", 2, "0"),
    "negative weight": ("2 1 001\n2 5\n1 -5\n", 3, "-5"),
    "vertex weight": ("2 1 10\n3 2\n-4 1\n", 3, "-4"),
    "vertex size": ("2 1 100\n-3 2\n4 1\n", 2, "-3"),
    "missing vertex weights": ("2 0 10 2\n1 1\n1\n", 3, "1"),
    "one direction": ("3 1\n2\n\n\n", 2, "1 2"),
    "two weights": ("2 1 1\n2 5\n1 6\n", 2, "5"),
    "twice": ("2 2\n2 2\n1 1\n", 2, "2"),
    "short header": ("2\n2\n1\n", 1, "2"),
    "long header": ("2 1 0 1 7\n2\n1\n", 1, "2 1 0 1 7"),
    "fmt": ("2 1 2\n2\n1\n", 1, "2"),
    "ncon": ("2 1 10 0\n2\n1\n", 1, "0"),
    "negative edges": ("2 -1\n2\n1\n", 1, "-1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path, case):
    text, line, value = BAD[case]
    path = tmp_path / "bad.graph"
    path.write_text(text)
    advice = "read as a METIS graph; `format` edgelist reads an edge list"
    refused(read_graph, path, f"{path}, line {line}: ", f"'{value}'", advice)


@pytest.mark.parametrize(("text", "words"), [("0 0\n", "no vertices"), ("% c\n", "no header")])
def test_nothing(tmp_path, text, words):
    (tmp_path / "a.graph").write_text(text)
    with pytest.raises(InputError, match=words):
        read_graph(tmp_path / "a.graph")


def test_writer_drops_self_loops(tmp_path):
    graph = build_graph(3, np.array([0, 0, 1, 2]), np.array([0, 1, 0, 2]), np.array([9.5, 2, 2, 1]))
    write_graph(graph, tmp_path / "a.graph")
    assert (tmp_path / "a.graph").read_text() == "3 1 001\n2 2\n1 2\n\n"


@pytest.mark.parametrize(
    ("col", "values", "words"),
    [
        ([1, 2], None, "symmetrize"),
        ([1, 0], [1.0, 2.0], "not symmetric"),
        ([1, 0], [0.5, 0.5], "'0.5'"),
        ([1, 0], [-2.0, -2.0], "'-2.0'"),
    ],
)
def test_writer_refuses(tmp_path, col, values, words):
    values = None if values is None else np.array(values)
    graph = build_graph(3, np.array([0, 1]), np.array(col), values)
    refused(partial(write_graph, graph), tmp_path / "a.graph", words)
    assert list(tmp_path.iterdir()) == []


def test_writer_without_values(tmp_path):
    graph = build_graph(2, np.array([0, 1]), np.array([1, 0]), np.array([0.5, 0.7]))
    write_graph(graph, tmp_path / "a.graph", pattern=True)
    assert (tmp_path / "a.graph").read_text() == "2 1\n2\n1\n"
