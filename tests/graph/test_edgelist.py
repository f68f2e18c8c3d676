"""Edge lists: against a parser of its own, and what bad files get."""

import gzip
import json

import numpy as np
import pytest
from graph_helpers import entries, merged, refused, symmetrized, write_parquet
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.edgelist import EdgeListEntries
from plancc.graph.folders import to_folder
from plancc.graph.formats import read_graph, reading_of


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
    assume(triples[0][2 if valued else 1] != len(triples) - 1)  # it may be a line of sizes
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
    assert graph.directed == ({(j, i) for i, j in entries(graph)} != entries(graph).keys())
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


@pytest.mark.parametrize("name", ["a.txt", "a.el.gz", "a.edges", "a.csv"])
@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("FromNodeId\tToNodeId\n5\t7\n7\t9\n", ()),
        ("# c\n\nsrc,dst\n# c\n5,7\n7,9\n", ("src", "dst")),
        ("kind;dst;src\n1;7;5\n1;9;7\n", ("src", "dst")),
    ],
)
def test_names_above_numbers(tmp_path, name, memory, text, columns):
    """A first line of words is one of column names whatever the file is called."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    if memory:
        graph = read_graph(path, columns=columns)
        assert entries(graph) == {(0, 1): 1, (1, 2): 1}
        assert graph.original_ids.tolist() == [5, 7, 9]
    else:
        read = EdgeListEntries(path, columns=columns)
        assert [(u.tolist(), v.tolist()) for u, v, _ in read] == [([0, 1], [1, 2])]


@pytest.mark.parametrize(
    "first", ["+0,+1", '"+0","1"', "0_0,1_0", "\uff10,\uff11", "'0,'1", "nan,inf"]
)
def test_a_first_line_of_odd_numbers_is_no_line_of_names(tmp_path, first):
    (tmp_path / "a.csv").write_text(f"{first}\n1,2\n")
    with pytest.raises(InputError, match="line 1: this is not a whole number"):
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
    "weight vanishes": ("0 1 0.5\n1 2\n", 2, "1 2"),
    "empty column": ("0,1\n2,,3\n", 2, "2,,3"),
    "empty weight": ("0,1,0.5\n2,3,\n", 2, "2,3,"),
    "word": ("0 1\n\n1 x\n", 3, "x"),
    "float id": ("0 1\n1.5 2\n", 2, "1.5"),
    "float id beside weight": ("0 1 0.5\n1 2.5 0.5\n", 2, "2.5"),
    "negative beside weight": ("0 1 0.5\n1 -2 0.5\n", 2, "-2"),
    "negative beside whole weight": ("0 1 5\n1 -2 5\n", 2, "-2"),
    "overflow": ("0 1 0.5\n1 2 1e999\n", 2, "1e999"),
    "weight": ("0 1 0.5\n1 2 heavy\n", 2, "heavy"),
    "large id": ("0 1\n1 9999999999999999999\n", 2, "9999999999999999999"),
    "large id beside weight": ("0 1 .5\n1 9999999999999999999 .5\n", 2, "9999999999999999999"),
    "python's underscore": ("0 1 .5\n1 2 1_0\n", 2, "1_0"),
    "two signs": ("0 1 .5\n1 2 +-0.5\n", 2, "+-0.5"),
    "vertical tab": ("0 1\n1 \v\n", 2, "\ufffd"),
    "vertical tab beside weight": ("0 1 .5\n1\v2 .5\n", 2, "1\ufffd2"),
    "two separators": ("0,1\n1;2\n", 2, "1;2"),
    "lost column": ("0,1\n;1,2\n", 2, ";1"),
    "names of vertices": ("1 2\nbob carol\n", 2, "bob"),
    "marks in place of names": ("? ?\n7 8\n", 1, "?"),
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


TABLES = {
    # text, columns, entries by ids
    "numbers": ("5 7 1 x\n7 5 2 y\n", "1,2", {(5, 7): 1, (7, 5): 1}),
    "turned": ("5 7 1 x\n7 9 2 y\n", "2,1", {(7, 5): 1, (9, 7): 1}),
    "weights first": ("0.5 a 5 7\n2 b 7 9\n", "3,4,1", {(5, 7): 0.5, (7, 9): 2}),
    "comments": ("# c\n5 7 1 x\n\n% c\r\n7 5 2 y\r\n", "1,2,3", {(5, 7): 1, (7, 5): 2}),
    "no last newline": ("5,7,,x\n7,5,2,", "1,2", {(5, 7): 1, (7, 5): 1}),
    "tabs": ("5\ta b\t7\t\n7\t\t5\tx\n", "1,3", {(5, 7): 1, (7, 5): 1}),
    "quotes": ('5,"a,b",7\n7,"c",5\n', "1,3", {(5, 7): 1, (7, 5): 1}),
    "commas": ("5;x;7;0,5\n7;y;5;2,25\n", "1,3,4", {(5, 7): 0.5, (7, 5): 2.25}),
    "names": ("a,b,time,w\n5,7,9,.5\n7,5,8,2\n", "b,a,w", {(7, 5): 0.5, (5, 7): 2}),
    "usual names": ("id,weight,target,source\n1,.5,7,5\n2,2,5,7\n", "", {(5, 7): 0.5, (7, 5): 2}),
    "target first": ("Target,Source\n5,7\n7,9\n", "", {(7, 5): 1, (9, 7): 1}),
    "target first, weights": ("dst,src,x\n5,7,2\n7,9,3\n", "", {(7, 5): 2, (9, 7): 3}),
    "target first by wish": ("v,u\n5,7\n7,9\n", "v,u", {(5, 7): 1, (7, 9): 1}),
    "Gephi": ("Source,Target,Type,Weight\n5,7,Directed,.5\n", "", {(5, 7): 0.5}),
    "pandas": (",source,target\n0,5,7\n1,7,5\n", "", {(5, 7): 1, (7, 5): 1}),
}


@pytest.mark.parametrize("memory", [1, None])
@pytest.mark.parametrize("case", TABLES)
def test_columns(tmp_path, monkeypatch, case, memory):
    monkeypatch.setattr("plancc.graph.edgelist.CHUNK", 40)
    text, columns, expected = TABLES[case]
    path = tmp_path / ("a.csv" if "," in text.splitlines()[0] else "a.txt")
    path.write_text(text)
    options = {"columns": tuple(columns.split(","))} if columns else {}
    graph = to_folder(path, tmp_path / "folder", memory=memory, **options)
    ids = graph.original_ids.tolist()
    assert {(ids[i], ids[j]): w for (i, j), w in entries(graph).items()} == expected
    made_of = json.loads((tmp_path / "folder" / "graph.json").read_text())["made_of"]
    assert reading_of(made_of["reading"]) == options


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_target_before_source_is_said(tmp_path, name):
    """By their names in both formats."""
    table = {"target": [5, 7], "source": [7, 9]}
    if name.endswith(".csv"):
        (tmp_path / name).write_text("target,source\n5,7\n7,9\n")
    else:
        write_parquet(tmp_path / name, table)
    said = (
        "column .source. holds rows, and .target. the rows they need .`columns` target,source swaps"
    )
    with pytest.warns(PlanccWarning, match=said):
        graph = read_graph(tmp_path / name)
    assert entries(graph) == {(1, 0): 1, (2, 1): 1}
    assert graph.source.columns == "source,target"


@pytest.mark.parametrize("name", ["a.txt", "a.parquet"])
@pytest.mark.parametrize("memory", [1, None])
def test_both_directions_make_the_plan_of_a_symmetric_matrix(tmp_path, name, memory):
    """The direction is seen, in memory and sorted on the disk; one entry less, and it is none."""
    n, ring = 9, np.arange(9)
    u, v = np.r_[ring, (ring + 1) % n, 4], np.r_[(ring + 1) % n, ring, 4]
    head = f"%%MatrixMarket matrix coordinate pattern symmetric\n{n} {n} {n + 1}\n"
    lines = [f"{max(i, j) + 1} {min(i, j) + 1}\n" for i, j in zip(u[:n], v[:n], strict=True)]
    (tmp_path / "a.mtx").write_text(head + "".join(lines) + "5 5\n")
    hashes = []
    for entries_left in (len(u), len(u) - 2):
        path = tmp_path / f"{entries_left}{name}"
        if name.endswith(".txt"):
            np.savetxt(path, np.c_[u, v][:entries_left], "%d")
        else:
            write_parquet(path, {"u": u[:entries_left], "v": v[:entries_left]})
        folder = to_folder(path, tmp_path / f"folder{entries_left}", memory=memory)
        assert folder.directed == read_graph(path).directed == (entries_left < len(u))
        hashes.append(plancc.compile(folder, "block", 3).content_sha256())
    wanted = plancc.compile(tmp_path / "a.mtx", "block", 3).content_sha256()
    assert [each == wanted for each in hashes] == [True, False]


def test_a_last_line_behind_comments_alone(tmp_path):
    """It has no newline, and what is read before it has no edge."""
    path = tmp_path / "a.csv"
    path.write_text("# c\nsource,target\n5,7")
    graph = to_folder(path, tmp_path / "folder", memory=1)
    assert entries(graph) == entries(read_graph(path)) == {(0, 1): 1}
    path.write_text("# c\nsource,target\n")
    with pytest.raises(InputError, match="the file holds no edge"):
        to_folder(path, tmp_path / "other", memory=1)


@pytest.mark.parametrize(
    ("text", "columns", "words"),
    [
        ("a,b,c,d\n1,2,3,4\n", "", "Name them with `columns`: 'a', 'b', 'c', 'd'"),
        ("1 2 3 4\n", "1,5", "column '5' is missing; there are '1', '2', '3', '4'"),
        ("1 2 3 4\n", "1,1", "`columns` 1,1: give two or three names"),
        ("a,b,c,d\n1,2,3,4\n", "a,x", "column 'x' is missing; there are 'a', 'b', 'c', 'd'"),
        (
            "1 2 3 4\n1 2 3\n",
            "1,2",
            "line 2: 4 columns are expected, as in the first line, not '1 2 3'",
        ),
        ("1,2,3\n\n1,,3\n", "1,2", "line 3: column 2 is empty: '1,,3'"),
        ("1 2 a\n1 x a\n", "1,2", "line 2: this is not a whole number 'x'"),
        ("1 2 a\n1 2 b\n", "1,2,3", "line 1: the weight is not a number"),
    ],
)
def test_columns_that_are_not_there(tmp_path, text, columns, words):
    path = tmp_path / ("a.csv" if text[0] == "a" else "a.txt")
    path.write_text(text)
    options = {"columns": tuple(columns.split(","))} if columns else {}
    refused(lambda p: read_graph(p, **options), path, words)


@pytest.mark.parametrize(
    "text", ["5;7;0,5\n7;5;2\n", "5 7 0,5\n7 5 2\n", "5\t7\t,5\n7\t5\t2,0e0\n", "5;7;2\n7;5;,5\n"]
)
@pytest.mark.parametrize("chunk", [8, 1 << 20])
def test_decimal_commas(tmp_path, monkeypatch, text, chunk):
    monkeypatch.setattr("plancc.graph.edgelist.CHUNK", chunk)
    path = tmp_path / "a.txt"
    path.write_text(text)
    expected = {(0, 1): 2, (1, 0): 0.5} if text.startswith("5;7;2") else {(0, 1): 0.5, (1, 0): 2}
    assert entries(read_graph(path)) == expected
    assert entries(to_folder(path, tmp_path / "folder", memory=1)) == expected


def test_ids_beside_weights_have_as_many_digits(tmp_path):
    ids = [999999999999999999, 999999999999999998]
    (tmp_path / "a.txt").write_text(f"# c\n{ids[0]},{ids[1]},0.5\n\n{ids[1]},{ids[0]},2.25\n")
    for pattern in (False, True):
        graph = read_graph(tmp_path / "a.txt", pattern=pattern)
        assert graph.original_ids.tolist() == ids[::-1]
        assert entries(graph) == {(1, 0): 1 if pattern else 0.5, (0, 1): 1 if pattern else 2.25}


@pytest.mark.parametrize("data", ["{}", "{'weight': 0.5}"])
def test_edges_as_networkx_writes_them(tmp_path, data):
    path = tmp_path / "a.edgelist.txt"
    path.write_text(f"1 2 {data}\n")
    words = (
        "line 1: the data of an edge is a dict; write the file with nx.write_edgelist(graph, path, "
    )
    refused(read_graph, path, words, "data=False), or data=['weight']", data)
