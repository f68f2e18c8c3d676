"""Nonzeros by the part that owns them. The lowering of edge plans and their metrics start here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from plancc.graph.graph import Graph
from plancc.plan.values import Int32Array, Int64Array


class Nonzeros(NamedTuple):
    """The nonzeros of a matrix part by part, in each by row, then by column.

    Attributes
    ----------
    ptr : int64[num_parts + 1]
        Nonzeros of part m are ``ptr[m]:ptr[m + 1]``.
    row, column : int32[num_nonzeros]
        Where the caller's order has them.
    at : int64[num_nonzeros]
        Place in the matrix' CSR.
    """

    ptr: Int64Array
    row: Int32Array
    column: Int32Array
    at: Int64Array


def by_part(
    matrix: Graph, nonzero_owner: Int32Array, num_parts: int, rows: Int32Array, position: Int32Array
) -> Nonzeros:
    """Group nonzeros by their owner.

    Parameters
    ----------
    matrix : Graph
    nonzero_owner : int32[nnz]
    num_parts : int
    rows, position : int32[n]
        All rows in the order that they are to be in, and the place of every row there: rows and
        columns of the result are such places, ascending by row in every part.
    """
    return Nonzeros(
        *_by_part(matrix.indptr, matrix.indices, nonzero_owner, num_parts, rows, position)
    )


@njit(cache=True, nogil=True)
def _by_part(indptr, indices, nonzero_owner, num_parts, rows, position):  # type: ignore[no-untyped-def]
    ptr = np.zeros(num_parts + 1, dtype=np.int64)
    for k in range(len(nonzero_owner)):
        ptr[nonzero_owner[k] + 1] += 1
    for m in range(num_parts):
        ptr[m + 1] += ptr[m]
    free = ptr[:-1].copy()
    row = np.empty(len(indices), dtype=np.int32)
    column = np.empty(len(indices), dtype=np.int32)
    at = np.empty(len(indices), dtype=np.int64)
    for r in range(len(rows)):
        i = rows[r]
        for k in range(indptr[i], indptr[i + 1]):
            e = free[nonzero_owner[k]]
            free[nonzero_owner[k]] = e + 1
            row[e], column[e], at[e] = r, position[indices[k]], k
    return ptr, row, column, at
