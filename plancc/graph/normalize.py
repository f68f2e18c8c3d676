"""The named normalisation step: from the adjacency matrix to the matrix that is multiplied.

Knows the three normalisations and nothing of partitions or files.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.chunks import in_chunks
from plancc.graph.graph import NORMALIZATIONS, Graph
from plancc.jit import njit
from plancc.registry import check_choice
from plancc.scratch import large


def normalize(
    graph: Graph,
    normalization: str = "sym",
    *,
    self_loops: bool = True,
    dtype: npt.DTypeLike = np.float32,
) -> Graph:
    """The matrix of the distributed product, with its values spelled out.

    With ``B = A + I`` (or ``B = A`` without self loops) and ``d_i = sum_j B[i, j]``:

    ========  =================================================================
    ``sym``   ``B[i, j] / sqrt(d_i d_j)`` (Demirci et al. 2022, section 3.1; row sums on both sides)
    ``row``   ``B[i, j] / d_i`` (mean over the neighbours)
    ``none``  ``B[i, j]``
    ========  =================================================================

    Everything is computed in float64 and rounded once to `dtype`. Where ``d_i`` is 0 because
    row i is empty, its factor is 0, which with ``sym`` empties column i too. Zeros are dropped, as
    everywhere: no row needs what it multiplies by nothing.

    Parameters
    ----------
    graph : Graph
    normalization : {"sym", "row", "none"}
    self_loops : bool
        Add the identity first; a self loop that the graph has already is added to, not replaced.
    dtype : float32 or float64

    Returns
    -------
    Graph
        `values` is an array of `dtype`, never None.

    Raises
    ------
    InputError
        For a row that sums to zero or less or to infinity (it has no square root or inverse), and
        for values that `dtype` cannot hold.
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    dtype = np.dtype(dtype)
    values = np.empty(0) if graph.values is None else graph.values
    missing = _missing_diagonal(graph.indptr, graph.indices) if self_loops else None
    if missing is None:
        indptr = graph.indptr
    else:
        indptr = graph.indptr.copy()
        indptr[1:] += np.cumsum(missing)
    scale = np.ones(graph.num_vertices)
    if normalization != "none":
        row_sum = _row_sums(graph.indptr, values) + (1.0 if self_loops else 0.0)
        used = np.diff(indptr) > 0
        bad = np.flatnonzero(used & ~((row_sum > 0) & np.isfinite(row_sum)))
        if len(bad):
            raise InputError(
                f"{graph.source.name}: the weights of vertex {bad[0]} (counted from 0, with its "
                f"self loop, if any) sum to {row_sum[bad[0]]:g}; `normalize` {normalization} needs "
                "positive and finite sums, use `normalize` none"
            )
        scale[used] = row_sum[used]
        scale[~used] = np.inf
        scale = 1.0 / (np.sqrt(scale) if normalization == "sym" else scale)
    out_values = large(indptr[-1], dtype)
    indices = graph.indices if missing is None else large(indptr[-1], np.int32)
    col_scale = scale if normalization == "sym" else np.empty(0)

    given, made = (graph.indptr, graph.indices, values), (indptr, indices, out_values)

    def fill(first: int, last: int) -> None:
        _fill(first, last, given, made, scale, col_scale, missing is not None)

    in_chunks(fill, indptr)
    if graph.values is not None and not np.isfinite(out_values).all():
        raise InputError(f"{graph.source.name}: a value is too large for {dtype}")
    if not out_values.all():  # columns of empty rows, 1 + -1 on the diagonal, underflow
        kept = out_values != 0
        indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
        indices, out_values = indices[kept], out_values[kept]
    return replace(graph, indptr=indptr, indices=indices, values=out_values)


@njit(cache=True)
def _missing_diagonal(indptr, indices):  # type: ignore[no-untyped-def]
    """1 for every row without a diagonal entry, else 0: int64[n]."""
    missing = np.ones(len(indptr) - 1, dtype=np.int64)
    for i in range(len(missing)):
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] >= i:
                if indices[k] == i:
                    missing[i] = 0
                break
    return missing


@njit(cache=True)
def _row_sums(indptr, values):  # type: ignore[no-untyped-def]
    """Sum of every row, float64[n]; an empty `values` stands for ones."""
    sums = np.zeros(len(indptr) - 1)
    for i in range(len(sums)):
        if len(values) == 0:
            sums[i] = indptr[i + 1] - indptr[i]
        else:
            for k in range(indptr[i], indptr[i + 1]):
                sums[i] += values[k]
    return sums


@njit(cache=True, nogil=True)
def _fill(first, last, given, made, row_scale, col_scale, add_identity):  # type: ignore[no-untyped-def]
    """Copy rows first..last-1, insert or raise their diagonal entries, and scale them.

    `given`, `made`: indptr, indices and values of a CSR, the second to be filled.
    """
    indptr, indices, values = given
    out_indptr, out_indices, out_values = made
    ones = len(values) == 0
    scale_columns = len(col_scale) > 0
    for i in range(first, last):
        out = out_indptr[i]
        need_diagonal = add_identity
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            value = 1.0 if ones else np.float64(values[k])
            if need_diagonal and j >= i:
                need_diagonal = False
                if j == i:
                    value += 1.0
                else:
                    factor = row_scale[i] * col_scale[i] if scale_columns else row_scale[i]
                    out_indices[out] = i
                    out_values[out] = factor
                    out += 1
            factor = row_scale[i] * col_scale[j] if scale_columns else row_scale[i]
            if add_identity:
                out_indices[out] = j
            out_values[out] = value * factor
            out += 1
        if need_diagonal:
            factor = row_scale[i] * col_scale[i] if scale_columns else row_scale[i]
            out_indices[out] = i
            out_values[out] = factor
