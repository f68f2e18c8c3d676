"""Lowering of edge plans: from a matrix and the owners of its rows and nonzeros to the tables.

The same steps as in `plancc.plan.lowering`, twice: the foreign columns of a part's nonzeros are
what it receives (expand), their foreign rows are what it sends partial sums of (fold).

    nonzeros of part m     own columns | received columns
                         +-------------+------------------+
             own rows    |             |                  |
                         +-------------+------------------+
             folded rows |             |                  |  --> partial rows, to their owners
                         +-------------+------------------+
"""

from __future__ import annotations

import numpy as np
from numba import njit

from plancc.graph.chunks import in_chunks
from plancc.graph.graph import Graph
from plancc.plan.lowering import exchanges
from plancc.plan.nonzeros import by_part
from plancc.plan.plan import Fold, Header, Int32Array, Plan
from plancc.plan.receive_sets import grouped, list_marked, mark


def lower_edges(
    matrix: Graph,
    owner: Int32Array,
    nonzero_owner: Int32Array,
    num_parts: int,
    *,
    normalization: str,
    self_loops: bool,
) -> Plan:
    """Edge plan of ``matrix @ H``.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix, with values.
    owner : int32[n]
        Part of row i of H and of the product, in ``0..num_parts-1``. Parts may be empty.
    nonzero_owner : int32[nnz]
        Part of every nonzero, in CSR order; of the diagonal it is the row's.
    num_parts : int
    normalization, self_loops
        What made `matrix`, for the header.

    Returns
    -------
    Plan
        Without provenance, vertex data and metrics baseline.
    """
    assert matrix.values is not None
    boundary = np.empty(matrix.num_vertices, dtype=np.int64)
    _boundary(matrix.indptr, matrix.indices, owner, nonzero_owner, boundary)
    rows, position, key_ptr = grouped(2 * owner.astype(np.int64) + boundary, 2 * num_parts)
    part_ptr = key_ptr[::2].copy()
    nonzeros = by_part(matrix, nonzero_owner, num_parts, rows, position)
    column = np.empty(matrix.num_nonzeros, dtype=np.int32)
    value = np.empty(matrix.num_nonzeros, dtype=matrix.values.dtype)

    def lower_parts(first: int, last: int) -> tuple[tuple[Int32Array, ...], ...]:
        return _lower_parts(part_ptr, *nonzeros, matrix.values, first, last, column, value)

    chunks = zip(*in_chunks(lower_parts, nonzeros.ptr), strict=True)
    expanded, folded, degrees = (list(chunk) for chunk in chunks)
    receive, send = exchanges(expanded, num_parts)
    fold = Fold(*exchanges(folded, num_parts))
    return Plan(
        header=Header(
            layout="edge",
            num_vertices=matrix.num_vertices,
            num_nonzeros=matrix.num_nonzeros,
            num_parts=num_parts,
            directed=matrix.directed,
            normalization=normalization,
            self_loops=self_loops,
        ),
        part_ptr=part_ptr,
        global_id=rows,
        num_interior=key_ptr[1::2] - part_ptr[:-1],
        row_ptr=np.concatenate([[0], *degrees]).cumsum(),
        column=column,
        value=value,
        send=send,
        receive=receive,
        fold=fold,
    )


@njit(cache=True, nogil=True)
def _boundary(indptr, indices, owner, nonzero_owner, boundary):  # type: ignore[no-untyped-def]
    """1 for rows that have a nonzero with a foreign column at their owner, else 0."""
    for i in range(len(owner)):
        boundary[i] = 0
        for k in range(indptr[i], indptr[i + 1]):
            if nonzero_owner[k] == owner[i] and owner[indices[k]] != owner[i]:
                boundary[i] = 1
                break


@njit(cache=True, nogil=True)
def _lower_parts(  # type: ignore[no-untyped-def]
    part_ptr, ptr, row, column_of, at, values, first, last, column, value
):
    """Number rows and columns of parts first..last-1 locally; fill their `column` and `value`.

    Returns the received rows and the folded rows of these parts, each as (rows as their owner
    numbers them, length of every message, its part, its owner), and the nonzeros of every local
    row, int64.
    """
    num_rows = part_ptr[-1]
    most = ptr[last] - ptr[first]
    limit = min(most, (last - first) * (len(part_ptr) - 2))
    bitmap = np.zeros(num_rows // 64 + 1, dtype=np.uint64)
    local_column, local_row = np.empty(num_rows, np.int32), np.empty(num_rows, np.int32)
    halo, folded = np.empty(most, np.int32), np.empty(most, np.int32)  # upper bounds
    lengths, owners = np.zeros((2, limit), np.int64), np.empty((2, limit), np.int32)
    parts = np.empty((2, limit), np.int32)
    degree = np.zeros(part_ptr[last] - part_ptr[first] + most, np.int64)
    received, sent, local_rows = 0, 0, 0
    messages, partial_messages = 0, 0
    for m in range(first, last):
        row0, row1 = part_ptr[m], part_ptr[m + 1]
        for r in range(row0, row1):
            local_column[r] = r - row0
            local_row[r] = r - row0
        before = messages
        mark(column_of[ptr[m] : ptr[m + 1]], row0, row1, bitmap)
        received, messages = list_marked(
            bitmap, part_ptr, row1 - row0, local_column, halo, received, lengths[0], owners[0],
            messages,
        )  # fmt: skip
        parts[0, before:messages] = m
        before, sent_before = partial_messages, sent
        mark(row[ptr[m] : ptr[m + 1]], row0, row1, bitmap)
        sent, partial_messages = list_marked(
            bitmap, part_ptr, row1 - row0, local_row, folded, sent, lengths[1], owners[1],
            partial_messages,
        )  # fmt: skip
        parts[1, before:partial_messages] = m
        held = row1 - row0 + sent - sent_before
        mine = degree[local_rows : local_rows + held]
        local_rows += held
        _fill(
            ptr[m], row[ptr[m] : ptr[m + 1]], column_of, at, values, local_row, local_column,
            row1 - row0, mine, column, value,
        )  # fmt: skip
    a, b = messages, partial_messages
    return (
        (halo[:received].copy(), lengths[0, :a].copy(), parts[0, :a].copy(), owners[0, :a].copy()),
        (folded[:sent].copy(), lengths[1, :b].copy(), parts[1, :b].copy(), owners[1, :b].copy()),
        degree[:local_rows].copy(),
    )


@njit(cache=True, nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    start, row, column_of, at, values, local_row, local_column, num_own, degree, column, value
):
    """Local CSR of one part, from entry `start` on: own columns first in a row; `degree` too."""
    for e in range(len(row)):
        degree[local_row[row[e]]] += 1
    free = np.empty(len(degree), dtype=np.int64)
    total = start
    for r in range(len(degree)):
        free[r] = total
        total += degree[r]
    for foreign in (False, True):
        for e in range(len(row)):
            c = local_column[column_of[start + e]]
            if (c >= num_own) == foreign:
                r = local_row[row[e]]
                column[free[r]] = c
                value[free[r]] = values[at[start + e]]
                free[r] += 1
