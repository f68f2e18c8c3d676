"""Folders of compressed rows: written by convert, mapped, and sorted on the disk."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
from cases import long, turns
from graph_helpers import entries, merged, same, symmetrized, write_parquet
from scipy.sparse import random as random_matrix

import plancc
from plancc.errors import InputError, OutputError
from plancc.graph import external, folders
from plancc.graph.csr import write_csr
from plancc.graph.edgelist import EdgeListEntries
from plancc.graph.external import convert
from plancc.graph.folders import to_folder
from plancc.graph.formats import find_format, read_graph
from plancc.graph.graph import Source
from plancc.graph.mapped import MappedRows, is_mapped
from plancc.graph.mtx import MtxEntries
from plancc.interop.parquet import ParquetEntries
from plancc.plan.reader import load
from plancc.plan.verify import verify

N = 40


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Many chunks and ranges of rows for few entries."""
    monkeypatch.setattr(external, "BUCKETS", 5)
    monkeypatch.setattr(external, "LEAST_ENTRIES", 20)
    monkeypatch.setattr("plancc.graph.mtx._CHUNK", 300)
    monkeypatch.setattr("plancc.graph.mtx._SMALL", 0)
    monkeypatch.setattr("plancc.graph.edgelist.CHUNK", 270)


def mtx_file(path, field, symmetry, seed):
    """A matrix with duplicates, self loops, and entries that sum to zero."""
    rng = np.random.default_rng(seed)
    row, col = rng.integers(1, N + 1, (2, 120))
    if symmetry != "general":
        row, col = np.maximum(row, col), np.minimum(row, col)
        if symmetry == "skew-symmetric":
            row, col = row[row != col], col[row != col]
    row, col = np.concatenate([row, row[:30]]), np.concatenate([col, col[:30]])
    value = rng.integers(1, 4, len(row)) / (4 if field == "real" else 1)
    value[-10:] = -value[:10]
    texts = [""] * len(row) if field == "pattern" else [f" {v:g}" for v in value]
    lines = [f"{i} {j}{text}" for i, j, text in zip(row, col, texts, strict=True)]
    head = f"%%MatrixMarket matrix coordinate {field} {symmetry}\n% a comment\n"
    path.write_text(head + f"{N} {N} {len(row)}\n" + "\n".join(lines))
    return path


TYPES = b'{"types": [%s], "relations": [["a", "to", "a"]]}'
PARALLEL = b'{"types": [["a", 40]], "relations": [["a", "to", "a"], ["a", "by", "a"]]}'
FLAGS = [{}, *({flag: True} for flag in ("symmetrize", "transpose", "pattern", "keep_ids"))]
FLAGS += [{"symmetrize": True, "pattern": True}, {"num_vertices": 10**5}]


@turns(field=["real", "integer", "pattern"], symmetry=["general", "symmetric", "skew-symmetric"])
def test_a_matrix_sorted_on_the_disk_is_the_one_in_memory(field, symmetry, tmp_path):
    path = mtx_file(tmp_path / "a.mtx", field, symmetry, 3)
    for k, flags in enumerate(FLAGS[:4] + FLAGS[5:6]):
        plain, folder = read_graph(path, **flags), tmp_path / f"folder{k}"
        same(to_folder(path, folder, memory=1, **flags), plain)
        values = [] if plain.values is None else ["values.npy"]
        assert sorted(p.name for p in folder.iterdir()) == [
            *("graph.json", "indices.npy", "indptr.npy"),
            *values,
        ]
        assert json.loads((folder / "graph.json").read_text())["made_of"] == vars(plain.source)


@turns(weights=[None, "whole", "decimal"], zipped=[False, True])
def test_an_edge_list_sorted_on_the_disk_is_the_one_in_memory(weights, zipped, tmp_path):
    rng = np.random.default_rng(5)
    u, v = rng.choice(10**5, 30, replace=False)[rng.integers(0, 30, (2, 150))]
    w = rng.integers(-2, 3, 150) / (8 if weights == "decimal" else 1)
    lines = [
        f"{i},{j}" + ("" if weights is None else f",{x:g}") for i, j, x in zip(u, v, w, strict=True)
    ]
    text = "\n".join(["source,target" + ("" if weights is None else ",w"), *lines, "# the end", ""])
    path = tmp_path / ("e.csv.gz" if zipped else "e.csv")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    for k, flags in enumerate(FLAGS[:3] + FLAGS[4:5] + FLAGS[6:]):
        plain = read_graph(path, **flags)
        found = to_folder(path, tmp_path / f"folder{k}", memory=1, **flags)
        if plain.num_vertices < 100:
            same(found, plain)
        np.testing.assert_array_equal(found.indptr, plain.indptr)
        np.testing.assert_array_equal(found.indices, plain.indices)
        np.testing.assert_array_equal(found.original_ids, plain.original_ids)


@turns(weighted=[False, True], memory=[1, 10**9])
def test_sorting_against_dictionaries(weighted, memory, tmp_path):
    rng = np.random.default_rng(8)
    row, col = rng.integers(0, N, (2, 400))
    row[:150] = 3  # a row that is larger than what is sorted at once
    value = rng.integers(-2, 3, 400).astype(float)

    class Given:
        num_vertices, most, original_ids, directed = N, 400, None, True
        source = Source("given")

        def __init__(self):
            self.weighted = weighted

        def __iter__(self):
            for at in np.array_split(np.arange(400), 7):
                yield row[at], col[at], value[at] if weighted else None

    triples = list(zip(row.tolist(), col.tolist(), value.tolist(), strict=True))
    for name, flags in (("a", {}), ("b", {"symmetrize": True}), ("c", {"transpose": True})):
        wanted = triples
        if name == "b":
            wanted = symmetrized(
                [(i, j, x) for (i, j), x in merged(triples, valued=weighted).items()]
            )
        if name == "c":
            wanted = [(j, i, x) for i, j, x in triples]
        folder = tmp_path / name
        folder.mkdir()
        number = convert(Given(), folder, memory, **flags)
        graph = read_graph(folder)
        expected = merged(wanted, valued=weighted)
        assert entries(graph) == expected
        assert number == len(expected)
        assert graph.directed == (name != "b")


def test_arrays_of_a_folder_are_the_files(tmp_path):
    matrix = random_matrix(N, N, 0.2, "csr", random_state=1)
    for name in ("indptr", "indices"):
        np.save(tmp_path / f"{name}.npy", getattr(matrix, name))
    assert find_format(tmp_path) == "csr"
    graph = read_graph(tmp_path)
    assert is_mapped(graph.indices)
    assert graph.values is None
    assert graph.directed  # nothing says so: looked at
    with_values = tmp_path / "values.npy"
    np.save(with_values, matrix.data)
    np.testing.assert_array_equal(read_graph(tmp_path).values, matrix.data)
    graph.indices[0] = 7  # reaches no file
    np.testing.assert_array_equal(np.load(tmp_path / "indices.npy"), matrix.indices)
    np.save(tmp_path / "indices.npy", matrix.indices[::-1])  # not in order: built in memory
    indices = [np.sort(matrix.indices[::-1][a:b]) for a, b in pairwise(matrix.indptr)]
    (tmp_path / "values.npy").unlink()
    found = read_graph(tmp_path)
    assert not is_mapped(found.indices)
    expected = [np.unique(columns) for columns in indices]
    np.testing.assert_array_equal(found.indices, np.concatenate(expected))


@pytest.mark.parametrize(
    "kind", [np.float16, *(pytest.param(k, marks=long) for k in (np.int8, np.float32))]
)
def test_a_plan_of_a_folder_is_that_of_the_graph(kind, tmp_path):
    """Features are read from their file as the plan is written."""
    rng = np.random.default_rng(2)
    features = rng.integers(-9, 9, (N, 3)).astype(kind)
    labels = rng.integers(0, 4, N)
    np.savez(tmp_path / "data.npz", features=features, labels=labels)
    path = mtx_file(tmp_path / "a.mtx", "pattern", "symmetric", 4)
    np.save(tmp_path / "x.npy", features)
    np.savez(tmp_path / "y.npz", labels=labels)
    plain = plancc.compile(path, num_parts=3, data=tmp_path / "data.npz")
    to_folder(path, tmp_path / "folder", data=[tmp_path / "x.npy", tmp_path / "y.npz"], memory=1)
    plan = plancc.compile(tmp_path / "folder", num_parts=3)
    assert isinstance(plan.vertex_data.features, MappedRows)
    assert plan.vertex_data.features.nbytes == features.itemsize * 3 * N
    assert plan.content_sha256() == plain.content_sha256()
    verify(plan)
    saved = [each.save(tmp_path / f"{k}.h5") for k, each in enumerate((plain, plan))]
    assert saved[0] == saved[1]
    verify(load(tmp_path / "1.h5"))
    for part in range(3):
        found, wanted = plan.part(part).vertex_data, plain.part(part).vertex_data
        np.testing.assert_array_equal(found.features, wanted.features)
        assert found.features.dtype == kind
    np.testing.assert_array_equal(np.asarray(plan.vertex_data.features), plain.vertex_data.features)


def test_what_is_mapped():
    assert not is_mapped(np.arange(3))
    rows = MappedRows(np.arange(8, dtype=np.int8).reshape(4, 2))
    assert is_mapped(rows)
    taken = rows.take(np.array([3, 0])).take(np.array([1, 0]))
    np.testing.assert_array_equal(np.asarray(taken), [[0, 1], [6, 7]])
    np.testing.assert_array_equal(taken[np.array([True, False])], [[0, 1]])
    assert (taken.shape, taken.size, taken.ndim, len(taken)) == ((2, 2), 4, 2, 2)


def damaged(tmp_path, name, array):
    folder = tmp_path / "folder"
    if not folder.exists():
        folder.mkdir()
        write_csr(read_graph(mtx_file(tmp_path / "a.mtx", "real", "general", 1)), folder)
    if array is None:
        (folder / name).unlink()
    elif callable(array):
        np.save(folder / name, array(len(np.load(folder / "indices.npy"))))
    elif isinstance(array, bytes):
        (folder / name).write_bytes(array)
    else:
        np.save(folder / name, array)
    return folder


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("indices.npy", None, "folder, but in none of the formats"),
        ("indices.npy", b"\x93NUMPY", "indices.npy: is not an .npy array"),
        ("indices.npy", b"", "indices.npy: the file is empty"),
        ("indices.npy", np.zeros(5, np.int32), "indptr.npy: does not ascend from 0 to 5"),
        ("indices.npy", np.zeros((2, 2), int), "indices.npy: must be a list of integers"),
        ("indptr.npy", np.zeros(5), "indptr.npy: must be a list of integers, not 'float64'"),
        ("indptr.npy", np.zeros(1, int), "indptr.npy: the graph has no vertices"),
        ("values.npy", np.zeros(3), "values.npy: must have"),
        ("original_ids.npy", np.zeros(N), "original_ids.npy: ids of type 'float64'"),
        ("indptr.npy", np.array([0, 3, 1], np.uint8), "indptr.npy: does not .*: entry 2 is '1'"),
        ("indptr.npy", np.array([0, 3, 1], np.uint64), "indptr.npy: does not .*: entry 2 is '1'"),
        ("indptr.npy", np.array([0, 2**63 - 1, -(2**63)]), f"entry 2 is '-{2**63}'"),
        ("values.npy", lambda k: np.full(k, np.nan), "folder/values.npy: value 'nan' is not"),
        ("original_ids.npy", np.full(N, 2**63, np.uint64), f"id '{2**63}' does not fit"),
        ("graph.json", b"[", "graph.json: is not JSON"),
        ("graph.json", b"[" * 200_000, "graph.json: is not JSON"),
        ("graph.json", b'{"directed": false}', r"entries \(i, j\) have no \(j, i\)"),
        ("graph.json", b'{"directed": 1}', "graph.json: 'directed' must be true or false"),
        ("graph.json", b'{"version": 2}', "graph.json: format version '2'; this plancc reads 1"),
        ("features.npy", np.zeros((3, 2)), "'features'"),
        ("graph.json", b'{"types": 1, "relations": []}', "graph.json: '1' and .* are not types"),
        ("graph.json", TYPES % b'["a", 3]', "graph.json: the types have 3 vertices, but .* has 40"),
        ("graph.json", TYPES % b'["a", 1], ["b", 39]', "row .*, column .*: the entry fits no"),
        ("graph.json", PARALLEL, "needs relation.npy: two relations join the same types"),
    ],
)
def test_a_damaged_folder(name, array, words, tmp_path):
    folder = damaged(tmp_path, name, array)
    with pytest.raises(InputError, match=words):
        plancc.compile(folder, num_parts=2)


def test_a_file_cut_short_and_an_index_out_of_range(tmp_path):
    folder = damaged(tmp_path, "graph.json", b"{}")
    indices = np.load(folder / "indices.npy")
    whole = (folder / "indices.npy").read_bytes()
    (folder / "indices.npy").write_bytes(whole[:-4])
    with pytest.raises(InputError, match=r"indices\.npy: is not an \.npy array"):
        read_graph(folder)
    for index in (N, -1):
        indices[5] = index
        np.save(folder / "indices.npy", indices)
        with pytest.raises(InputError, match=f"entry 5 is '{index}', out of range 0..{N - 1}"):
            read_graph(folder)


HEAD = "%%MatrixMarket matrix coordinate real general\n5 5 31\n"
ENTRIES, EDGES = HEAD + "1 2 0.5\n" * 30, "1 2\n" * 60


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.mtx", ENTRIES + "1 2\n", "line 33: 'ROW COLUMN VALUE' is expected"),
        ("a.mtx", ENTRIES + "1 99 1\n", "line 33: the column is out of range 1..5: '99'"),
        ("a.mtx", ENTRIES, "line 32: the file ends after 30 of 31 entries"),
        ("a.mtx", ENTRIES + "1 2 0.5\n" * 2, "line 34: the header declares 31 entries"),
        ("a.mtx", ENTRIES + "1 2 inf\n", "line 33"),
        ("a.txt", EDGES + "1 x\n", "line 61: this is not a whole number 'x'"),
        ("a.txt", EDGES + "1 -4\n", "line 61: a vertex id is negative .ids count from 0.: '-4'"),
        ("a.txt", EDGES + "1\n", "line 61: 2 columns are expected"),
        ("a.txt", "1 2 0.5\n" * 60 + "1 2 nan\n", "line 61"),
        ("a.txt", "# nothing\n", "the file holds no edge"),
    ],
)
def test_a_wrong_line_far_into_a_file(name, text, words, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        to_folder(path, tmp_path / "folder", memory=1)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_ids_and_choices(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 2\n5 9\n")
    with pytest.raises(InputError, match=r"'9' is out of range 0\.\.5"):
        to_folder(path, tmp_path / "folder", memory=1, num_vertices=6)
    path = mtx_file(tmp_path / "a.mtx", "real", "general", 1)
    with pytest.raises(InputError, match="`columns` is not for format 'mtx'"):
        to_folder(path, tmp_path / "folder", memory=1, columns=("a", "b"))


def test_a_disk_that_is_too_small(tmp_path, monkeypatch):
    path = mtx_file(tmp_path / "a.mtx", "real", "general", 1)
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr(external.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(OutputError, match="sorting about 150 entries takes"):
        to_folder(path, tmp_path / "folder", memory=1)
    assert not (tmp_path / "folder").exists()


def test_a_text_that_does_not_fit_is_refused_before_it_is_read(tmp_path):
    path = mtx_file(tmp_path / "a.mtx", "real", "symmetric", 1)
    claimed = MtxEntries(path).most
    assert claimed == 300
    folders.check_reading(path, folders.ENTRY * claimed)
    with pytest.raises(InputError, match=r"a\.mtx: reading the file takes .*`plancc convert`"):
        folders.check_reading(path, folders.ENTRY * claimed - 1)
    with pytest.raises(InputError, match=r"a\.mtx: reading the file takes"):
        plancc.compile(path, num_parts=2, memory=9000)
    edges = tmp_path / "e.txt"
    edges.write_text("1 2\n")
    with pytest.raises(InputError, match=r"e\.txt: reading the file takes"):
        folders.check_reading(edges, 31)
    to_folder(path, tmp_path / "folder")
    folders.check_reading(tmp_path / "folder", 1)  # it is mapped


@pytest.mark.parametrize("columns", ["a\nb", "a", "a,b,c", 7, None, ["a", "b"]])
def test_columns_that_nobody_wrote_are_not_said(tmp_path, columns):
    (tmp_path / "e.csv").write_text("a,b\n0,1\n1,2\n")
    assert to_folder(tmp_path / "e.csv", tmp_path / "folder").source.columns == "a,b"
    head = json.loads((tmp_path / "folder" / "graph.json").read_text())
    head["made_of"]["columns"] = columns
    (tmp_path / "folder" / "graph.json").write_text(json.dumps(head))
    assert read_graph(tmp_path / "folder").source.columns in ("", "['a', 'b']")


def test_a_file_that_changes_between_two_readings(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 2\n2 3\n")
    source = EdgeListEntries(path)
    path.write_text("1 2\n")
    with pytest.raises(InputError, match=r"a\.txt: the file changed while it was read"):
        list(source)


def parquet_folder(path, weighted, seed=6):
    """Edges between ids far apart, in two parts, some twice, some that sum to zero."""
    rng = np.random.default_rng(seed)
    u, v = 3 * rng.integers(0, N, (2, 150)) + 5
    u[-20:], v[-20:] = u[:20], v[:20]
    weight = rng.integers(1, 4, 150) / 4
    weight[-10:] = -weight[:10]
    path.mkdir()
    for k, part in enumerate((slice(0, 90), slice(90, 150))):
        columns = {"src": u[part], "dst": v[part]} | ({"w": weight[part]} if weighted else {})
        write_parquet(path / f"{k}.parquet", columns, row_group_size=40)
    return path


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore::plancc.errors.PlanccWarning")
def test_parquet_sorted_on_the_disk_is_what_is_read_in_memory(weighted, tmp_path, monkeypatch):
    monkeypatch.setattr("plancc.interop.parquet.BATCH", 25)
    path = parquet_folder(tmp_path / "edges", weighted)
    for k, flags in enumerate([*FLAGS[:2], *FLAGS[3:5], {"columns": ("dst", "src")}]):
        graph = to_folder(path, tmp_path / f"out{k}", memory=1, **flags)
        same(graph, read_graph(path, **flags))
    whole = to_folder(path / "0.parquet", tmp_path / "one", memory=1)
    same(whole, read_graph(path / "0.parquet"))


def test_parquet_that_does_not_fit_is_refused_before_it_is_read(tmp_path):
    path = parquet_folder(tmp_path / "edges", False)
    with pytest.raises(InputError, match=r"edges: reading the file takes .*`plancc convert`"):
        folders.check_reading(path, 100)
    folders.check_reading(path, 10**9)


@pytest.mark.filterwarnings("ignore::plancc.errors.PlanccWarning")
def test_parquet_that_is_wrong_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("plancc.interop.parquet.BATCH", 25)
    path = parquet_folder(tmp_path / "edges", False)
    source = ParquetEntries(path)
    write_parquet(path / "1.parquet", {"src": [5], "dst": [8]})
    with pytest.raises(InputError, match=r"the files changed while they were read|cannot be read"):
        list(source)
    write_parquet(path / "1.parquet", {"src": [-1], "dst": [8]})
    with pytest.raises(InputError, match="holds '-1', not a vertex id"):
        to_folder(path, tmp_path / "out", memory=1)
    (path / "1.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        to_folder(path, tmp_path / "out", memory=1)
    assert not (tmp_path / "out").exists()
