"""Edge lists: against a parser of its own, and what bad files get."""

import gzip

import numpy as np
import pytest
from cases import long
from graph_helpers import entries, merged, refused, shared, symmetrized
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.graph.formats import read_graph


@st.composite
def files(draw):
    """(text, separator, triples) with ids that may have gaps."""
    largest = draw(st.sampled_from([3, 20, 10**14]))
    ids = st.integers(0, largest)
    weight = draw(st.sampled_from(["none", "whole", "real"]))
    value = {
        "none": st.just(1.0),
        "whole": st.integers(-3, 3),
        "real": st.integers(-6, 6).map(lambda v: v / 4),
    }[weight]
    triples = draw(st.lists(st.tuples(ids, ids, value), min_size=1, max_size=15))
    separator = draw(st.sampled_from([" ", "\t", ",", ", ", ";", "   "]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [separator.join(map(str, triple[: 2 if weight == "none" else 3])) for triple in triples]
    for _ in range(draw(st.integers(0, 3))):
        extra = draw(st.sampled_from(["# a, comment", "% 1 2", ""]))
        lines.insert(draw(st.integers(0, len(lines))), extra)
    text = newline.join(lines) + draw(st.sampled_from(["", newline]))
    return text, weight != "none", triples


@settings(max_examples=40)  # 6 separators, 3 kinds of weights and 4 ways to read
@given(files(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_agrees_with_a_naive_parser(tmp_path_factory, file, zipped, pattern, symmetrize, transpose):
    text, valued, triples = file
    path = tmp_path_factory.mktemp("el") / ("a.txt.gz" if zipped else "a.el")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    graph = read_graph(path, pattern=pattern, symmetrize=symmetrize, transpose=transpose)
    ids = sorted({u for u, _, _ in triples} | {v for _, v, _ in triples})
    number = {original: k for k, original in enumerate(ids)}
    triples = [(number[u], number[v], value) for u, v, value in triples]
    if transpose:
        triples = [(v, u, value) for u, v, value in triples]
    if symmetrize:
        once = merged(triples, valued=valued and not pattern)
        triples = symmetrized([(i, j, value) for (i, j), value in once.items()])
    assert entries(graph) == merged(triples, valued=valued and not pattern)
    assert graph.num_vertices == len(ids)
    assert graph.directed == (not symmetrize)
    if ids == list(range(len(ids))):
        assert graph.original_ids is None
    else:
        assert graph.original_ids.tolist() == ids
        assert graph.original_ids.dtype == np.int64


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz"])
def test_column_names(tmp_path, name):
    text = b"# c\nsource,target,weight\n5,7,0.5\n7,5,2\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    graph = read_graph(tmp_path / name)
    assert entries(graph) == {(0, 1): 0.5, (1, 0): 2.0}
    assert graph.original_ids.tolist() == [5, 7]


@pytest.mark.parametrize(
    "first", ["+0,+1", '"0","1"', "0_0,1_0", "\uff10,\uff11", "'0,'1", "nan,inf"]
)
def test_a_first_line_of_odd_numbers_is_no_line_of_names(tmp_path, first):
    (tmp_path / "a.csv").write_text(f"{first}\n1,2\n")
    with pytest.raises(InputError, match="line 1: not a whole number"):
        read_graph(tmp_path / "a.csv")


@pytest.mark.parametrize("names", ["s1.5", "source,target,weight", "a b c"])
def test_as_many_names_as_columns(tmp_path, names):
    (tmp_path / "a.csv").write_text(f"{names}\n1,2\n")
    refused(read_graph, tmp_path / "a.csv", "line 2: as many columns as there are names", "1,2")


def test_weights_keep_all_digits(tmp_path):
    weights = np.random.default_rng(0).standard_normal(500)
    text = "".join(f"{k} {k + 1} {w!r}\n" for k, w in enumerate(weights.tolist()))
    (tmp_path / "a.txt").write_text(text)
    assert np.array_equal(read_graph(tmp_path / "a.txt").values, weights)


BAD = {
    "one column": ("0 1\n2\n", 2, "2"),
    "first line": ("0\n0 1\n", 1, "0"),
    "four columns": ("# c\n1 2 3 4\n", 2, "1 2 3 4"),
    "third column appears": ("0 1\n1 2 5\n", 2, "1 2 5"),
    "weight vanishes": ("0 1 0.5\n1 2\n", 2, "1 2"),
    "empty column": ("0,1\n2,,3\n", 2, "2,,3"),
    "empty last column": ("0,1\n2,\n", 2, "2,"),
    "empty weight": ("0,1,0.5\n2,3,\n", 2, "2,3,"),
    "word": ("0 1\n\n1 x\n", 3, "x"),
    "float id": ("0 1\n1.5 2\n", 2, "1.5"),
    "float id beside weight": ("0 1 0.5\n1 2.5 0.5\n", 2, "2.5"),
    "negative": ("0 1\n% c\n-3 1\n", 3, "-3"),
    "negative beside weight": ("0 1 0.5\n1 -2 0.5\n", 2, "-2"),
    "negative beside whole weight": ("0 1 5\n1 -2 5\n", 2, "-2"),
    "nan": ("0 1 0.5\n1 2 nan\n", 2, "nan"),
    "inf": ("0 1 0.5\n1 2 -inf\n", 2, "-inf"),
    "overflow": ("0 1 0.5\n1 2 1e999\n", 2, "1e999"),
    "weight": ("0 1 0.5\n1 2 heavy\n", 2, "heavy"),
    "large id": ("0 1\n1 9999999999999999999\n", 2, "9999999999999999999"),
    "large id beside weight": ("0 1 .5\n1 9999999999999999 .5\n", 2, "9999999999999999"),
    "python's underscore": ("0 1 .5\n1 2 1_0\n", 2, "1_0"),
    "plus sign": ("0 1 .5\n1 2 +0.5\n", 2, "+0.5"),
    "vertical tab": ("0 1\n1 \v\n", 2, "\ufffd"),
    "vertical tab beside weight": ("0 1 .5\n1\v2 .5\n", 2, "1\ufffd2"),
    "two separators": ("0,1\n1;2\n", 2, "1;2"),
    "lost column": ("0,1\n;1,2\n", 2, ";1"),
    "names in .txt": ("source target\n0 1\n", 1, "source"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path, case):
    text, line, value = BAD[case]
    path = tmp_path / "bad.txt"
    path.write_text(text)
    refused(read_graph, path, f"{path}, line {line}: ", f"'{value}")


@pytest.mark.parametrize("text", ["0,1\n1,2\n", "a,b\n0,1\n1,2\n", "# c, d\n0,1\n1,2\n"])
def test_byte_order_marks(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8-sig")
    assert entries(read_graph(path)) == {(0, 1): 1, (1, 2): 1}
    path.write_text(text, encoding="utf-16")
    with pytest.raises(InputError, match="UTF-16"):
        read_graph(path)


def test_comments_with_separators_are_no_reason_to_look_at_every_line(tmp_path, monkeypatch):
    monkeypatch.setattr("plancc.graph.edgelist._explain", None)
    (tmp_path / "a.csv").write_text("# nodes, edges\n0,1,.5\n% a, b\n1,2,.5\n")
    assert entries(read_graph(tmp_path / "a.csv")) == {(0, 1): 0.5, (1, 2): 0.5}


@pytest.mark.parametrize("text", ["# nothing\n", "\n\n# a\n% b"])
def test_no_edges(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=r"a\.txt: the file holds no edge"):
        read_graph(tmp_path / "a.txt")


@long
def test_shared_graph_as_edge_list(tmp_path):
    expected = read_graph(shared("wiki-Vote.mtx.gz"))
    row = np.repeat(np.arange(expected.num_vertices), expected.row_nonzeros())
    np.savetxt(tmp_path / "a.txt", np.column_stack([row, expected.indices]) * 3 + 7, fmt="%d")
    graph = read_graph(tmp_path / "a.txt")
    used = np.union1d(row, expected.indices)
    assert np.array_equal(graph.original_ids, used * 3 + 7)
    assert np.array_equal(used[graph.indices], expected.indices)
    assert np.array_equal(graph.row_nonzeros(), expected.row_nonzeros()[used])
