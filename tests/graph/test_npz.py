"""Matrices in .npz: against scipy, and what bad archives get."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import pairs, turns
from graph_helpers import dense_entries, entries, refused

from plancc.errors import InputError
from plancc.graph import canonical
from plancc.graph.formats import read_graph


def random_matrix(seed, n=30):
    rng = np.random.default_rng(seed)
    row, col = rng.integers(0, n, (2, 100))
    return sp.coo_array((rng.integers(-2, 3, 100) / 2, (row, col)), shape=(n, n))


@pairs(
    layout=["csr", "csc", "coo"],
    dtype=[np.float64, np.float32, np.int64, np.bool_],
    pattern=[False, True],
    transpose=[False, True],
)
def test_scipy_files(tmp_path, layout, dtype, pattern, transpose):
    matrix = random_matrix(0).astype(dtype).asformat(layout)
    sp.save_npz(tmp_path / "a.npz", matrix)
    graph = read_graph(tmp_path / "a.npz", pattern=pattern, transpose=transpose)
    if pattern:
        coo = matrix.tocoo()
        expected = dict.fromkeys(zip(*map(np.ndarray.tolist, coo.coords), strict=True), 1.0)
    else:
        dense = matrix.toarray()
        expected = dense_entries(dense)
    if transpose:
        expected = {(j, i): value for (i, j), value in expected.items()}
    assert entries(graph) == expected
    assert (graph.values is None) == (pattern or dtype == np.bool_)
    assert graph.directed
    if not pattern and dtype == np.float32:
        assert graph.values.dtype == np.float32


GOOD = {"indptr": [0, 1, 2], "indices": [1, 0], "num_nodes": 2}
CSR = {"format": b"csr", "shape": [2, 2], "indptr": [0, 1, 2], "indices": [1, 0], "data": [1.0, 2]}
BAD = {
    "pointers short": (GOOD | {"indptr": [0, 1]}, "'indptr' must have 3 entries, not '2'"),
    "pointers descend": (GOOD | {"indptr": [0, 3, 2]}, "'indptr' does not ascend"),
    "unsigned pointers": (
        GOOD | {"indptr": np.array([0, 3, 2], np.uint8)},
        "ascend from 0 to 2: entry 2 is '2'",
    ),
    "pointers end": (GOOD | {"indptr": [0, 1, 5]}, "'indptr' does not ascend"),
    "index": (GOOD | {"indices": [1, 2]}, "'indices' holds '2'"),
    "negative index": (GOOD | {"indices": [1, -4]}, "'indices' holds '-4'"),
    "float index": (GOOD | {"indices": [1, 0.5]}, "'indices' must be a list of integers"),
    "objects": (GOOD | {"indices": np.array([1, None])}, "'indices' holds Python objects"),
    "num_nodes": (GOOD | {"num_nodes": [1, 2]}, "'num_nodes'"),
    "empty": (GOOD | {"num_nodes": 0, "indptr": [0], "indices": []}, "no vertices"),
    "rectangle": (CSR | {"shape": [3, 2]}, "'indptr' must have 4 entries"),
    "bsr": (CSR | {"format": b"bsr"}, "'bsr'"),
    "nan": (CSR | {"data": [1.0, np.nan]}, "'nan'"),
    "inf": (CSR | {"data": [1.0, np.inf]}, "'inf'"),
    "complex": (CSR | {"data": [1.0, 2j]}, "complex"),
    "text": (CSR | {"data": ["a", "b"]}, "not numbers"),
    "short data": (CSR | {"data": [1.0]}, "'data'"),
    "missing data": ({k: v for k, v in CSR.items() if k != "data"}, "'data' is missing"),
    "object format": (CSR | {"format": np.array([None])}, "'format' holds Python objects"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_archives(tmp_path, case):
    arrays, words = BAD[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    refused(read_graph, tmp_path / "bad.npz", words)


def test_good_archive_is_good(tmp_path):
    np.savez(tmp_path / "a.npz", **GOOD)
    assert entries(read_graph(tmp_path / "a.npz")) == {(0, 1): 1, (1, 0): 1}
    np.savez(tmp_path / "b.npz", **CSR)
    assert entries(read_graph(tmp_path / "b.npz")) == {(0, 1): 1, (1, 0): 2}


def test_garbled_archives(tmp_path):
    path = tmp_path / "bad.npz"
    rng = np.random.default_rng(0)
    np.savez_compressed(
        path, indptr=np.arange(501), indices=rng.integers(0, 500, 500), num_nodes=500
    )
    data = path.read_bytes()
    middle = len(data) // 2
    for broken in (b"garbage", data[:middle], data[:middle] + b"xxxxxxxx" + data[middle + 8 :]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=r"bad\.npz") as caught:
            read_graph(path)
        assert "pickle" not in str(caught.value)
    with open(path, "wb") as stream:
        np.save(stream, np.eye(3))
    with pytest.raises(InputError, match="begins like a numpy array, not like npz"):
        read_graph(path)


def rows_like(case: str, rng: np.random.Generator) -> sp.csr_array:
    matrix = sp.random_array((60, 60), density=0.1, format="csr", rng=rng)
    matrix.sort_indices()
    if case == "unsorted":
        matrix.indices[:] = rng.integers(0, 60, matrix.nnz)
    if case == "twice":
        matrix.indices[1] = matrix.indices[0]
    if case == "zero":
        matrix.data[7] = 0
    if case == "last unsorted":
        full = np.flatnonzero(np.diff(matrix.indptr) > 1)[-1]
        first = matrix.indptr[full]
        matrix.indices[first : first + 2] = matrix.indices[first : first + 2][::-1]
    return matrix


@turns(
    block=[1, 3, 1 << 22],
    case=["canonical", "unsorted", "twice", "zero", "last unsorted", "symmetric"],
)
def test_rows_that_are_canonical_are_kept(monkeypatch, case, block) -> None:
    """Either way the graph is that of the entries one by one."""
    monkeypatch.setattr(canonical, "BLOCK", block)
    matrix = rows_like(case, np.random.default_rng(3))
    if case == "symmetric":
        matrix = sp.csr_array(matrix + matrix.T)
    for values in (matrix.data, matrix.data.astype(np.float32), None):
        if values is None and case == "zero":
            continue  # a pattern has none
        given = matrix.indptr, matrix.indices, values
        found = canonical.graph_of_rows(60, *given)
        row = np.repeat(np.arange(60), np.diff(matrix.indptr))
        expected = canonical.build_graph(60, row, matrix.indices, values)
        np.testing.assert_array_equal(found.indptr, expected.indptr)
        np.testing.assert_array_equal(found.indices, expected.indices)
        if values is not None:
            np.testing.assert_array_equal(found.values, expected.values)
        assert (found.indices is matrix.indices) == (case in ("canonical", "symmetric"))


@pytest.mark.parametrize("case", ["symmetric", "one missing", "one more", "directed", "empty"])
def test_symmetry_with_and_without_a_transpose(monkeypatch, case) -> None:
    matrix = sp.random_array((50, 50), density=0.1, rng=np.random.default_rng(6))
    dense = matrix.toarray() != 0
    if case != "directed":
        dense |= dense.T
    if case == "one missing":
        dense[tuple(np.argwhere(np.triu(dense, 1))[-1])] = False
    if case == "one more":
        dense[tuple(np.argwhere(~dense & ~np.eye(50, dtype=bool))[0])] = True
    if case == "empty":
        dense[:] = False
    graph = canonical.build_graph(50, *np.nonzero(dense))
    for most in (1 << 22, -1):
        monkeypatch.setattr(canonical, "MANY", most)
        assert canonical.is_symmetric(graph) == bool((dense == dense.T).all())


@pytest.mark.parametrize("more", [{}, {"num_nodes": np.int64(6)}])
def test_an_edge_index(tmp_path, more):
    """Sources and targets, as PyTorch Geometric has them: row i needs the sources of its edges."""
    source, target = np.array([0, 1, 4, 4]), np.array([1, 2, 0, 0])
    np.savez(tmp_path / "g.npz", edge_index=np.stack([source, target]), **more)
    graph = read_graph(tmp_path / "g.npz")
    n = int(more.get("num_nodes", 5))
    expected = np.zeros((n, n))
    expected[target, source] = 1
    found = np.zeros((n, n))
    found[np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices] = 1
    np.testing.assert_array_equal(found, expected)
