"""The metrics of owners of rows and nonzeros, without building their plan. Knows no partitioner."""

from __future__ import annotations

import numpy as np
from numba import njit

from plancc.graph.chunks import in_chunks
from plancc.graph.graph import Graph
from plancc.plan.metrics import Step, Traffic
from plancc.plan.nonzeros import by_part
from plancc.plan.plan import Int32Array, Int64Array
from plancc.plan.receive_sets import count_marked, grouped, mark


def traffic_of_edge_owners(
    matrix: Graph, owner: Int32Array, nonzero_owner: Int32Array, num_parts: int
) -> Traffic:
    """Load and communication of every part under owners of rows and of nonzeros.

    Parameters
    ----------
    matrix : Graph
    owner : int32[n]
    nonzero_owner : int32[nnz]
        In CSR order; ``owner[i]`` for every nonzero (i, j) makes it a row plan.
    num_parts : int
    """
    rows, position, part_ptr = grouped(owner, num_parts)
    nonzeros = by_part(matrix, nonzero_owner, num_parts, rows, position)

    def count(first: int, last: int) -> tuple[Int64Array, ...]:
        return _count(nonzeros.ptr, nonzeros.row, nonzeros.column, part_ptr, first, last)

    at_owners, at_parts = zip(*in_chunks(count, nonzeros.ptr), strict=True)
    sent, messages_sent, received, messages_received = np.sum(at_owners, axis=0)
    halo, halo_messages, folded, folded_messages, foreign = np.concatenate(at_parts, axis=1)
    return Traffic.of_steps(
        np.diff(part_ptr),
        np.diff(nonzeros.ptr),
        expand=Step(sent, halo, messages_sent, halo_messages),
        fold=Step(folded, received, folded_messages, messages_received),
        copies=np.diff(part_ptr) + foreign,
    )


@njit(cache=True, nogil=True)
def _count(ptr, row, column, part_ptr, first, last):  # type: ignore[no-untyped-def]
    """What parts first..last-1 need of columns and have of rows that other parts own.

    Returns int64[4, num_parts]: rows and messages of the owners in expand and in fold; and
    int64[5, last - first]: rows and messages of these parts in both, and foreign vertices.
    """
    num_parts = len(part_ptr) - 1
    words = part_ptr[-1] // 64 + 1
    columns, rows = np.zeros(words, dtype=np.uint64), np.zeros(words, dtype=np.uint64)
    at_owners = np.zeros((4, num_parts), dtype=np.int64)
    at_parts = np.zeros((5, last - first), dtype=np.int64)
    nobody = np.zeros((2, num_parts), dtype=np.int64)
    for m in range(first, last):
        row0, row1 = part_ptr[m], part_ptr[m + 1]
        mark(column[ptr[m] : ptr[m + 1]], row0, row1, columns)
        mark(row[ptr[m] : ptr[m + 1]], row0, row1, rows)
        either = columns | rows
        mine = at_parts[:, m - first]
        mine[0], mine[1] = count_marked(columns, part_ptr, at_owners[0], at_owners[1])
        mine[2], mine[3] = count_marked(rows, part_ptr, at_owners[2], at_owners[3])
        mine[4] = count_marked(either, part_ptr, nobody[0], nobody[1])[0]
    return at_owners, at_parts
