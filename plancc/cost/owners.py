"""The metrics of an owner vector, without building its plan. Knows matrices and owners only."""

from __future__ import annotations

import numpy as np
from numba import njit

from plancc.graph.chunks import in_chunks
from plancc.graph.graph import Graph
from plancc.models.random import random_owner
from plancc.plan.metrics import Traffic
from plancc.plan.plan import Int32Array, Int64Array
from plancc.plan.receive_sets import count_marked, grouped, mark

BASELINE_SEED = 1


def random_traffic(matrix: Graph, num_parts: int) -> Traffic:
    """Load and communication of the baseline: an even random partition with a fixed seed.

    The same as model ``rp`` with seed 1, so that plans of one graph are compared with one baseline
    whatever their own seed.
    """
    owner = random_owner(matrix.num_vertices, num_parts, BASELINE_SEED)
    return traffic_of_owners(matrix, owner, num_parts)


def traffic_of_owners(matrix: Graph, owner: Int32Array, num_parts: int) -> Traffic:
    """Load and communication of every part under an owner vector.

    Parameters
    ----------
    matrix : Graph
    owner : int32[n]
    num_parts : int
    """
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


@njit(cache=True, nogil=True)
def _count_received(  # type: ignore[no-untyped-def]
    start, row_ptr, indices, position, part_ptr, first, last
):
    """What parts first..last-1 receive, charged to both ends. Row r of the parts' order has the
    ``row_ptr[r + 1] - row_ptr[r]`` columns from ``indices[start[r]]`` on.

    Returns rows and messages sent by all parts, int64[num_parts] each, and rows and messages
    received by these, int64[last - first] each.
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
        for k in range(size):  # on its own: then these look-ups, which miss the cache, overlap
            place[k] = position[place[k]]
        mark(place[:size], row0, row1, bitmap)
        received[m - first], messages_received[m - first] = count_marked(
            bitmap, part_ptr, sent, messages_sent
        )
    return sent, messages_sent, received, messages_received
