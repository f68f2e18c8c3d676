"""Functions that turn entries into the canonical Graph; all readers of graphs call them.

Rules for all sources:

- Entry (i, j) is ``A[i, j]``: row i needs row j.
- Repeated entries are summed if the source has values; otherwise they count as one nonzero.
- Zeros are dropped, whether the source has them or a sum is zero: ``A[i, j] = 0`` means that i does
  not need j.
- Self loops are kept as given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.arrays import Array, IntArray, Mask
from plancc.graph.edge_weights import WeightRange
from plancc.graph.graph import Graph, Source, check_num_vertices, check_range
from plancc.graph.kernels import is_mirrored
from plancc.graph.listed_edges import is_listing, list_edges

MANY = 1 << 22
"""A pattern with more nonzeros is tested for symmetry without a transpose, which would take more
memory than the graph."""
BLOCK = 1 << 22
"""Number of entries that are checked at a time."""
MERGED, ZEROS = "repeated entries merged", "entries of value 0 left out (`pattern` keeps them)"
BOTH_WAYS = "entries listed both ways, whose values `symmetrize` adds"
"""Phrases that name the counts in `Source.counts`."""


def build_graph(
    num_vertices: int,
    row: IntArray,
    col: IntArray,
    values: Array | None = None,
    *,
    directed: bool = True,
    symmetrize: bool = False,
    transpose: bool = False,
    source: Source | None = None,
) -> Graph:
    """Turn entries in any order into a Graph: sorted, unique, without zeros.

    Entry k is ``A[row[k], col[k]]``, 0-based; int32 arrays are not copied. Values are float32, or
    else become float64. `symmetrize` adds (j, i) for every (i, j) of a directed source.
    """
    from scipy.sparse import coo_array

    source = source or Source()
    where = source.name
    check_num_vertices(num_vertices, where)
    check_range(row, num_vertices, where)
    check_range(col, num_vertices, where)
    if transpose:
        row, col = col, row
    list_edges(row, col, values=values)
    shape = (num_vertices, num_vertices)
    row, col = row.astype(np.int32, copy=False), col.astype(np.int32, copy=False)
    # the data of a pattern are never read, so their sums may overflow
    data = np.ones(len(row), np.int8) if values is None else as_values(values, where)
    matrix = coo_array((data, (row, col)), shape=shape).tocsr()
    repeated = len(row) - matrix.nnz
    if repeated and not directed:  # a line off the diagonal made two entries: count it once
        loops = np.count_nonzero(_rows_of(matrix) == matrix.indices)
        repeated = (repeated + np.count_nonzero(row == col) - loops) // 2
    source = with_weight_range(source, values, repeated)
    del data, row, col
    if symmetrize and directed:
        # after the merge a sum has at most two terms, so A[i, j] == A[j, i] exactly
        *ends, summands = both_ways(_rows_of(matrix), matrix.indices, matrix.data)
        assert summands is not None
        one_way = len(summands) - matrix.nnz
        matrix = coo_array((summands, tuple(ends)), shape=shape).tocsr()
        if values is not None:
            source = source.counting(BOTH_WAYS, len(summands) - matrix.nnz, f" of {one_way:,}")
    if values is not None:
        check_finite(matrix.data, where)  # sums may have overflowed
        entries = matrix.nnz
        matrix.eliminate_zeros()
        source = source.counting(ZEROS, entries - matrix.nnz)
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
    summed = None if values is None else matrix.data
    return Graph(indptr, indices, summed, directed and not symmetrize, source=source)


def _rows_of(matrix: Any) -> npt.NDArray[np.int32]:
    """Return the row of every entry of a scipy CSR matrix, int32[entries]."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))


def both_ways(
    row: IntArray, column: IntArray, values: Array | None, mutual: bool | Mask = True
) -> tuple[IntArray, IntArray, Array | None]:
    """Return rows, columns and values of the entries, followed by those of transposed entries.

    The entries that `mutual` selects are transposed, except on the diagonal.
    """
    back = mutual & (row != column)
    values = None if values is None else np.concatenate([values, values[back]])
    return np.concatenate([row, column[back]]), np.concatenate([column, row[back]]), values


def graph_of_rows(
    num_vertices: int,
    indptr: IntArray,
    indices: IntArray,
    values: Array | None = None,
    *,
    symmetrize: bool = False,
    transpose: bool = False,
    source: Source | None = None,
) -> Graph:
    """Return the graph of compressed rows (CSR); arrays that `is_canonical` accepts are not copied.

    `indptr`, int[num_vertices + 1], ascends from 0 to the number of entries. For `symmetrize` and
    `source` see `build_graph`.
    """
    source = source or Source()
    check_num_vertices(num_vertices, source.name)
    if values is not None:
        values = as_values(values, source.name)
    if not (symmetrize or transpose) and is_canonical(indptr, indices, values):
        ptr, columns = indptr.astype(np.int64, copy=False), indices.astype(np.int32, copy=False)
        graph = Graph(ptr, columns, values, source=with_weight_range(source, values))
        if is_listing():
            list_edges(graph.nonzero_rows(), indices, values=values)
        return graph
    row = np.repeat(np.arange(num_vertices, dtype=np.int32), np.diff(indptr))
    reading: dict[str, Any] = {"symmetrize": symmetrize, "transpose": transpose, "source": source}
    return build_graph(num_vertices, row, indices, values, **reading)


def with_weight_range(source: Source, values: Array | None, repeated: int = 0) -> Source:
    """Return `source` with the range of `values` (None: no weights).

    It also says that `repeated` entries were merged.
    """
    if values is None:
        return replace(source, weights="", weight_range="").counting(MERGED, repeated)
    found = WeightRange(source.weights)
    found.add(values)
    return found.described(source, repeated)


def is_canonical(indptr: IntArray, indices: IntArray, values: Array | None) -> bool:
    """Whether columns are strictly ascending in every row and no value is zero."""
    for start in range(0, len(indices), BLOCK):
        end = min(start + BLOCK, len(indices))
        if values is not None and not values[start:end].all():
            return False
        after = indices[start + 1 : end + 1]
        ascends = after > indices[start : start + len(after)]
        first, last = np.searchsorted(indptr, (start + 1, start + 1 + len(after)))
        ascends[indptr[first:last] - start - 1] = True  # the first entry of a row
        if not ascends.all():
            return False
    return True


def as_values(values: Array, where: str) -> npt.NDArray[np.floating]:
    """Return finite real values: float32 unchanged, others as float64; or raise InputError."""
    if values.dtype.kind == "c":
        raise InputError(f"{where}: complex values are not supported")
    if values.dtype.kind not in "biuf":
        raise InputError(f"{where}: values of type '{values.dtype}' are not numbers")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    check_finite(values, where)
    return values


def check_finite(values: npt.NDArray[np.floating], where: str) -> None:
    """Raise InputError if a value is NaN or infinite."""
    if not all_finite(values):
        bad = values[~np.isfinite(values)][0]
        raise InputError(f"{where}: value '{bad}' is not a finite number")


def all_finite(values: npt.NDArray[np.number]) -> bool:
    """Whether no value is NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite_sum = bool(np.isfinite(values.sum()))  # takes half the time of a test of each value
    return finite_sum or bool(np.isfinite(values).all())


def to_scipy(graph: Graph, dtype: Any = None) -> Any:
    """Return the matrix as ``scipy.sparse.csr_array``; all values are 1 if the graph has none."""
    from scipy.sparse import csr_array

    data = graph.values
    if data is None:
        data = np.ones(graph.num_nonzeros, dtype or np.float64)
    n = graph.num_vertices
    return csr_array((data, graph.indices, graph.indptr), shape=(n, n))


def is_symmetric(graph: Graph, *, values: bool = False, skew: bool = False) -> bool:
    """Whether (j, i) is a nonzero for every nonzero (i, j).

    If `values` is true, the values of the two must also be equal; if `skew` is true, one value must
    be the negative of the other.
    """
    if graph.num_nonzeros > MANY and not values and not skew:
        return bool(is_mirrored(graph.indptr, graph.indices))
    columns = np.bincount(graph.indices, minlength=graph.num_vertices)
    if not np.array_equal(columns, graph.row_nonzeros()):
        return False
    matrix = to_scipy(graph, np.int8)
    other = matrix.T.tocsr()
    if not np.array_equal(matrix.indices, other.indices):
        return False
    if skew:
        return bool(np.array_equal(matrix.data, -other.data))
    return not values or bool(np.array_equal(matrix.data, other.data))


def detect_direction(graph: Graph) -> Graph:
    """Return the graph, marked as undirected if its pattern is symmetric."""
    return replace(graph, directed=False) if graph.directed and is_symmetric(graph) else graph


def check_edge_index(pair: Array, where: str) -> IntArray:
    """Return `pair` unchanged; raise InputError unless it is an ``edge_index``, int[2, edges]."""
    if pair.ndim != 2 or pair.shape[0] != 2:
        rule = f"(2, edges), not {pair.shape}{': transpose it' * (pair.shape[1:] == (2,))}"
        raise InputError(f"{where}: the shape of 'edge_index' must be {rule}")
    if pair.dtype.kind not in "iu" and pair.size:
        rule = f"must be integers, not '{pair.dtype}'"
        raise InputError(f"{where}: vertex numbers in 'edge_index' {rule}")
    return pair
