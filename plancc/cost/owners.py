"""Functions that count the traffic of a plan with given owners, without building the plan."""

from __future__ import annotations

import numpy as np

from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.kernel import njit
from plancc.models.random import random_owner
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.metrics import StepTraffic, Traffic
from plancc.plan.receive_sets import count_marked, group_by_part, grouped, mark
from plancc.threads import in_chunks

BASELINE_SEED = 1


def random_traffic(matrix: Graph, num_parts: int) -> Traffic:
    """Return load and communication of the baseline, a random partition into equal parts.

    The baseline is model ``rp`` with seed 1, whatever the seed of a plan.
    """
    return traffic(
        matrix, Owners(random_owner(matrix.num_vertices, num_parts, BASELINE_SEED)), num_parts
    )


def traffic(matrix: Graph, owners: Owners, num_parts: int) -> Traffic:
    """Return load and communication of every part of the plan that `owners` would give."""
    if owners.nonzeros is None:
        return _row_traffic(matrix, owners.rows, num_parts)
    return _edge_traffic(matrix, owners.rows, owners.nonzeros, num_parts)


def _row_traffic(matrix: Graph, owner: Int32Array, num_parts: int) -> Traffic:
    rows, position, part_ptr = grouped(owner, num_parts)
    start = matrix.indptr[rows]
    row_ptr = np.concatenate([[0], matrix.row_nonzeros()[rows]]).cumsum()
    nonzeros_ptr = row_ptr[part_ptr]

    def count(first: int, last: int) -> tuple[Int64Array, ...]:
        return _count_received(start, row_ptr, matrix.indices, position, part_ptr, first, last)

    chunks = zip(*in_chunks(count, nonzeros_ptr), strict=True)
    sent, messages_sent, received, messages_received = chunks
    return Traffic(
        rows=np.diff(part_ptr),
        nonzeros=np.diff(nonzeros_ptr),
        sent=np.sum(sent, axis=0),
        received=np.concatenate(received),
        messages_sent=np.sum(messages_sent, axis=0),
        messages_received=np.concatenate(messages_received),
    )


def _edge_traffic(
    matrix: Graph, owner: Int32Array, nonzero_owner: Int32Array, num_parts: int
) -> Traffic:
    rows, position, part_ptr = grouped(owner, num_parts)
    nonzeros = group_by_part(matrix, nonzero_owner, num_parts, rows, position)

    def count(first: int, last: int) -> tuple[Int64Array, ...]:
        return _count_both_steps(nonzeros.ptr, nonzeros.row, nonzeros.column, part_ptr, first, last)

    at_owners, at_parts = zip(*in_chunks(count, nonzeros.ptr), strict=True)
    sent, messages_sent, received, messages_received = np.sum(at_owners, axis=0)
    halo, halo_messages, folded, folded_messages, foreign = np.concatenate(at_parts, axis=1)
    return Traffic.of_steps(
        np.diff(part_ptr),
        np.diff(nonzeros.ptr),
        expand=StepTraffic(sent, halo, messages_sent, halo_messages),
        fold=StepTraffic(folded, received, folded_messages, messages_received),
        copies=np.diff(part_ptr) + foreign,
    )


@njit(cache=True, nogil=True)
def _count_received(  # type: ignore[no-untyped-def]
    start, row_ptr, indices, position, part_ptr, first, last
):
    """Count the rows and messages that parts first..last-1 receive, by receiver and by sender.

    Rows are sorted by part; row r has ``row_ptr[r + 1] - row_ptr[r]`` columns from
    ``indices[start[r]]`` on. Vertex j is row ``position[j]``. Returns rows and messages by sender,
    int64[num_parts] each, then by receiver, int64[last - first] each.
    """
    num_parts = len(part_ptr) - 1
    bitmap = np.zeros(len(position) // 64 + 1, dtype=np.uint64)
    place = np.empty(np.diff(row_ptr[part_ptr[first : last + 1]]).max(), dtype=np.int32)
    sent = np.zeros(num_parts, dtype=np.int64)
    messages_sent = np.zeros(num_parts, dtype=np.int64)
    received = np.zeros(last - first, dtype=np.int64)
    messages_received = np.zeros(last - first, dtype=np.int64)
    for m in range(first, last):
        row0, row1 = part_ptr[m], part_ptr[m + 1]
        size = 0
        for r in range(row0, row1):
            for k in range(start[r], start[r] + row_ptr[r + 1] - row_ptr[r]):
                place[size] = indices[k]
                size += 1
        for k in range(size):  # a loop of its own: look-ups that miss the cache overlap
            place[k] = position[place[k]]
        mark(place[:size], row0, row1, bitmap)
        received[m - first], messages_received[m - first] = count_marked(
            bitmap, part_ptr, sent, messages_sent
        )
    return sent, messages_sent, received, messages_received


@njit(cache=True, nogil=True)
def _count_both_steps(ptr, row, column, part_ptr, first, last):  # type: ignore[no-untyped-def]
    """Count what parts first..last-1 receive in the expand and send in the fold.

    Returns int64[4, num_parts] with a column for each owner: rows and messages sent in the expand,
    rows and messages received in the fold. Then int64[5, last - first] with a column for each of
    these parts: rows and messages received in the expand, rows and messages sent in the fold, and
    vertices of other parts that the part's nonzeros touch.
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
