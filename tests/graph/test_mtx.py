"""MatrixMarket: against a parser of its own, against scipy, and what bad files get."""

import gzip
import warnings

import numpy as np
import pytest
import scipy.io
from cases import long
from graph_helpers import dense_entries, entries, merged, refused, same, shared, symmetrized
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.graph.canonical import build_graph
from plancc.graph.folders import to_folder
from plancc.graph.formats import read_graph, write_graph

HEAD = "%%MatrixMarket matrix coordinate {} {}\n"


def parse(text):
    """(n, triples) of a good coordinate file, mirrored as its header says."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("%")]
    field, symmetry = text.split()[3:5]
    triples = []
    for line in lines[1:]:
        words = line.split()
        value = 1.0 if field == "pattern" else float(words[2])
        i, j = int(words[0]) - 1, int(words[1]) - 1
        triples.append((i, j, value))
        if symmetry != "general" and i != j:
            triples.append((j, i, -value if symmetry == "skew-symmetric" else value))
    return int(lines[0].split()[0]), triples


@st.composite
def files(draw):
    n = draw(st.integers(1, 6))
    field = draw(st.sampled_from(["real", "integer", "unsigned-integer", "pattern"]))
    symmetry = draw(st.sampled_from(["general", "symmetric", "skew-symmetric"]))
    if field == "unsigned-integer" and symmetry == "skew-symmetric":
        symmetry = "general"
    pairs = st.tuples(st.integers(1, n), st.integers(1, n))
    if symmetry != "general":
        pairs = pairs.map(lambda p: (max(p), min(p)))
    if symmetry == "skew-symmetric":
        pairs = pairs.filter(lambda p: p[0] != p[1])
    value = {
        "real": st.integers(-6, 6).map(lambda v: v / 4),
        "integer": st.integers(-3, 3),
        "unsigned-integer": st.integers(0, 3),
        "pattern": st.just(""),
    }[field]
    rows = (
        []
        if symmetry == "skew-symmetric" and n == 1
        else draw(st.lists(st.tuples(pairs, value), max_size=12))
    )
    gap = draw(st.sampled_from([" ", "  ", "\t"]))
    body = "".join(f"{i}{gap}{j}{gap if v != '' else ''}{v}\n" for (i, j), v in rows)
    comment = draw(st.sampled_from(["", "% a comment\n%\n", "\n"]))
    return HEAD.format(field, symmetry) + comment + f"{n} {n} {len(rows)}\n" + body


@given(files(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_agrees_with_a_naive_parser(tmp_path_factory, text, zipped, pattern, symmetrize, transpose):
    path = tmp_path_factory.mktemp("mtx") / ("a.mtx.gz" if zipped else "a.mtx")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    graph = read_graph(path, pattern=pattern, symmetrize=symmetrize, transpose=transpose)
    n, triples = parse(text)
    field, symmetry = text.split()[3:5]
    if transpose:
        triples = [(j, i, value) for i, j, value in triples]
    if symmetrize and symmetry == "general":
        triples = symmetrized(triples)
    valued = field != "pattern" and not pattern
    assert entries(graph) == merged(triples, valued=valued)
    assert graph.num_vertices == n
    assert (graph.values is None) == (not valued)
    assert graph.directed == (symmetry == "general" and not symmetrize)
    assert graph.original_ids is None
    assert graph.vertex_weights is None


REAL, INTEGER, PATTERN = (HEAD.format(f, "general") for f in ("real", "integer", "pattern"))
BAD = {
    "banner": ("hello\n2 2 1\n1 1 1\n", 1, "hello"),
    "short banner": ("%%MatrixMarket matrix coordinate real\n1 1 0\n", 1, "coordinate real"),
    "hermitian": (HEAD.format("complex", "hermitian") + "1 1 1\n1 1 1 0\n", 1, "hermitian"),
    "field": (HEAD.format("quaternion", "general") + "1 1 1\n1 1 1\n", 1, "quaternion"),
    "symmetry": (HEAD.format("real", "odd") + "1 1 1\n1 1 1\n", 1, "odd"),
    "no size": (REAL + "% only comments\n", 3, "ROWS"),
    "bad size": (REAL + "2 x 2\n", 2, "2 x 2"),
    "size of two": (REAL + "2 2\n1 1 1\n", 2, "2 2"),
    "negative size": (REAL + "2 2 -1\n", 2, "2 2 -1"),
    "empty": (REAL + "0 0 0\n", 2, "no vertices"),
    "too large": (PATTERN + "99999999999 99999999999 1\n1 1\n", 2, "99999999999"),
    "truncated rectangle": (REAL + "2 3 7\n1 1 1\n", 3, "1 of 7"),
    "column of a rectangle": (PATTERN + "3 2 1\n1 3\n", 3, "out of range 1..2"),
    "symmetric rectangle": (HEAD.format("real", "symmetric") + "2 3 1\n1 1 1\n", 2, "2 x 3"),
    "nan": (REAL + "% c\n2 2 2\n1 1 1.0\n2 2 nan\n", 5, "nan"),
    "inf": (REAL + "2 2 2\n1 1 inf\n2 2 1\n", 3, "inf"),
    "overflow": (REAL + "2 2 2\n1 1 1\n2 2 1e999\n", 4, "1e999"),
    "row": (REAL + "2 2 2\n1 1 1\n3 2 1\n", 4, "3"),
    "column": (PATTERN + "2 2 2\n1 1\n1 7\n", 4, "7"),
    "zero": (PATTERN + "2 2 1\n0 1\n", 3, "0"),
    "negative": (PATTERN + "2 2 1\n1 -1\n", 3, "-1"),
    "truncated": (REAL + "2 2 3\n1 1 1\n", 3, "1 of 3"),
    "huge count": (REAL + "2 2 99999999999999\n1 1 1\n", 3, "99999999999999"),
    "too long": (PATTERN + "2 2 1\n1 1\n2 2\n", 4, "2 2"),
    "word": (REAL + "2 2 1\n1 x 1\n", 3, "x"),
    "value": (REAL + "2 2 1\n1 1 y\n", 3, "y"),
    "no value": (REAL + "2 2 1\n1 1\n", 3, "1 1"),
    "extra": (REAL + "2 2 1\n1 1 1.0 7\n", 3, "1 1 1.0 7"),
    "pattern with value": (PATTERN + "2 2 1\n1 1 5\n", 3, "1 1 5"),
    "float column": (REAL + "2 2 1\n1 1.5 1\n", 3, "1.5"),
    "float integer": (INTEGER + "2 2 1\n1 1 1.5\n", 3, "1.5"),
    "large integer": (INTEGER + "2 2 1\n1 1 99999999999999999999\n", 3, "99999999999999999999"),
    "trailing letters": (REAL + "2 2 1\n1 1 1.5abc\n", 3, "1.5abc"),
    "fortran exponent": (REAL + "2 2 1\n1 1 1.5D+00\n", 3, "1.5D+00"),
    "python's underscore": (REAL + "2 2 1\n1 1 1_0\n", 3, "1_0"),
    "python's underscore, integer": (INTEGER + "2 2 1\n1 1 1_0\n", 3, "1_0"),
    "plus sign": (REAL + "2 2 1\n1 1 +1.5\n", 3, "+1.5"),
    "integer of 2**63": (INTEGER + "2 2 1\n1 1 9223372036854775808\n", 3, "9223372036854775808"),
    "integer of 400 digits": (INTEGER + f"2 2 1\n1 1 {'9' * 400}\n", 3, "is not a 64-bit integer"),
    "carriage return": (REAL + "2 2 1\n1 \r1 2\n", 3, "control character"),
    "vertical tab": (REAL + "2 2 1\n1 1\v2\n", 3, "control character"),
    "NUL": (REAL + "2 2 1\n1 1 2\0\n", 3, "2\ufffd"),
    "NUL in a pattern": (PATTERN + "2 2 1\n1 1\0\0\0\n", 3, "1\ufffd\ufffd\ufffd"),
    "case of the banner": ("%%matrixmarket MATRIX" + REAL[21:] + "1 1 0\n", 1, "%%matrixmarket"),
    "unsigned skew": (HEAD.format("unsigned-integer", "skew-symmetric") + "1 1 0\n", 1, "unsigned"),
    "late comment": (REAL + "2 2 1\n% c\n1 1 1\n", 3, "% c"),
    "bytes": (PATTERN + "2 2 1\n1 \udcff\udcfe\n", 3, "column"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path, monkeypatch, case):
    """Small ones, and by the numba check of large ones."""
    text, line, value = BAD[case]
    data = text.encode("utf-8", "surrogateescape")
    (tmp_path / "bad.mtx").write_bytes(data)
    (tmp_path / "bad.mtx.gz").write_bytes(gzip.compress(data))
    for _ in range(2):
        for path in (tmp_path / "bad.mtx", tmp_path / "bad.mtx.gz"):
            refused(read_graph, path, f"{path}, line {line}: ", value)
        monkeypatch.setattr("plancc.graph.mtx._SMALL", 0)


def test_truncated_gzip(tmp_path):
    path = tmp_path / "a.mtx.gz"
    lines = "".join(f"{i} {i}\n" for i in range(1, 2001))
    data = gzip.compress((PATTERN + "2000 2000 2000\n" + lines).encode())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"a\.mtx\.gz.*gzip"):
        read_graph(path)
    path.write_bytes(b"not gzip at all")
    with pytest.raises(InputError, match=r"a\.mtx\.gz.*gzip"):
        read_graph(path)


@pytest.mark.parametrize("bad", [None, "1 1.5 1.0", "1 1 1.0 2", "1 1 nan"])
def test_large_files_are_checked_in_chunks(tmp_path, monkeypatch, bad):
    monkeypatch.setattr("plancc.graph.mtx._CHUNK", 1000)
    monkeypatch.setattr("plancc.graph.mtx._SMALL", 0)
    lines = [f"{i % 50 + 1} {i * 7 % 50 + 1} {i + 0.5}" for i in range(3000)]
    if bad:
        lines[2777] = bad
    path = tmp_path / "a.mtx"
    path.write_text(REAL + f"50 50 {len(lines)}\n" + "\n".join(lines))  # no last newline
    if bad:
        with pytest.raises(InputError, match=f"line {2777 + 3}: "):
            read_graph(path)
    else:
        assert entries(read_graph(path)) == dense_entries(scipy.io.mmread(path).toarray())


@pytest.mark.parametrize("end", ["", " ", "\t", " \r"])
def test_last_line_without_newline(tmp_path, end):
    path = tmp_path / "a.mtx"
    for head, value in ((PATTERN, ""), (REAL, " 1")):
        path.write_bytes((head + f"3 3 2\n2 1{value}\n1 3{value}{end}").encode())
        assert entries(read_graph(path)) == {(1, 0): 1.0, (0, 2): 1.0}


def graphs(values):
    @st.composite
    def build(draw):
        n = draw(st.integers(1, 7))
        pairs = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=20))
        row, col = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        data = None
        if draw(st.booleans()):
            data = np.array([draw(values) for _ in pairs], dtype=np.float64)
        return build_graph(n, row, col, data, symmetrize=draw(st.booleans()))

    return build()


@given(graphs(st.floats(allow_nan=False, allow_infinity=False, width=32)), st.booleans())
def test_round_trip(tmp_path_factory, graph, zipped):
    path = tmp_path_factory.mktemp("mtx") / ("a.mtx.gz" if zipped else "a.mtx")
    write_graph(graph, path)
    same(read_graph(path), graph)


def test_written_file_is_read_by_scipy(tmp_path):
    graph = build_graph(3, np.array([0, 1, 2]), np.array([1, 2, 2]), np.array([0.1, -2, 3e-300]))
    write_graph(graph, tmp_path / "a.mtx")
    matrix = scipy.io.mmread(tmp_path / "a.mtx").toarray()
    assert dense_entries(matrix) == entries(graph)
    write_graph(graph, tmp_path / "b.mtx", pattern=True)
    assert scipy.io.mminfo(tmp_path / "b.mtx")[3:] == ("coordinate", "pattern", "general")


LARGE = [pytest.param(name, marks=long) for name in ("soc-Slashdot0902", "bcsstk29")]


@pytest.mark.parametrize("name", ["Citeseer", "west0067", *LARGE])
def test_shared_graphs_as_scipy_reads_them(name):
    path = shared(f"{name}.mtx.gz")
    graph = read_graph(path)
    matrix = scipy.io.mmread(path).tocsr()
    matrix.sort_indices()
    assert np.array_equal(graph.indptr, matrix.indptr)
    assert np.array_equal(graph.indices, matrix.indices)
    assert graph.values is None
    assert graph.directed == (scipy.io.mminfo(path)[5] == "general")


ONE = "the banner begins with one '%', and is read as '%%MatrixMarket'"


@pytest.mark.parametrize(
    ("banner", "said"),
    [("%MatrixMarket", [ONE]), ("%%MatrixMarket", []), ("\ufeff%%MatrixMarket", [])],
)
def test_banners(tmp_path, monkeypatch, banner, said):
    """Read whole and sorted on the disk; a good file says nothing."""
    monkeypatch.setattr("plancc.graph.mtx._CHUNK", 8)
    path = tmp_path / "a.mtx"
    head = f"{banner} matrix coordinate real symmetric\n% a comment\n5 5 3\n"
    path.write_text(head + "2 1 .5\n3 2 2\n4 1 3\n", encoding="utf-8")
    for read in (read_graph, lambda p: to_folder(p, tmp_path / "folder", memory=1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            graph = read(path)
        edges = {(1, 0): 0.5, (2, 1): 2.0, (3, 0): 3.0}
        assert entries(graph) == edges | {(j, i): value for (i, j), value in edges.items()}
        assert [str(each.message).split(str(path))[1].lstrip(":, ") for each in caught] == said


@pytest.mark.parametrize(
    ("field", "body", "line"),
    [
        ("pattern", "5 5\n2 1\n", "5 5"),
        ("pattern", "2 x\n3 1\n", "2 x"),
        ("pattern", "12", "12"),  # cut short
        ("integer", "2 2 -1\n", "2 2 -1"),
    ],
)
def test_size_lines_that_say_nothing(tmp_path, field, body, line):
    path = tmp_path / "a.mtx"
    path.write_text(HEAD.format(field, "general") + body)
    words = f"line 2: three whole numbers 'ROWS COLUMNS ENTRIES' are expected, not '{line}'"
    refused(read_graph, path, words)
    with pytest.raises(InputError, match="three whole numbers"):
        to_folder(path, tmp_path / "folder", memory=1)
