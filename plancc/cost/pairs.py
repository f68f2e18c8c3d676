"""Count the rows that each part sends to each other part, from owners or from a plan.

All results are ``csr_array int64[p, p]``: entry (q, m) is the number of rows that part q sends to
part m in one expand. No zero is stored, and columns ascend.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from plancc.graph.graph import Graph
from plancc.kernel import njit
from plancc.plan.exchange import Int32Array, Int64Array, Side
from plancc.plan.receive_sets import grouped
from plancc.threads import in_chunks


def pair_volumes(matrix: Graph, owner: Int32Array, num_parts: int) -> sp.csr_array:
    """Return how many rows each part sends to each other part, csr_array int64[parts, parts]."""
    rows, _, part_ptr = grouped(owner, num_parts)
    nonzeros_ptr = np.concatenate([[0], matrix.row_nonzeros()[rows]]).cumsum()[part_ptr]

    def count(first: int, last: int) -> tuple[Int64Array, Int32Array, Int64Array]:
        return _count_senders(
            matrix.indptr, matrix.indices, owner, rows, part_ptr, nonzeros_ptr, first, last
        )

    senders, sender, volume = zip(*in_chunks(count, nonzeros_ptr), strict=True)
    ptr = np.concatenate([[0], *senders]).cumsum()
    by_receiver = (np.concatenate(volume), np.concatenate(sender), ptr)
    return sp.csc_array(by_receiver, shape=(num_parts, num_parts)).tocsr()


def pair_volumes_of_table(send: Side) -> sp.csr_array:
    """Return how many rows each part sends to each other part, counted from a plan's messages."""
    num_parts = len(send.ptr) - 1
    arrays = np.diff(send.row_ptr), send.peer, send.ptr
    return sp.csr_array(arrays, shape=(num_parts, num_parts))


@njit(cache=True, nogil=True)
def _count_senders(  # type: ignore[no-untyped-def]
    indptr, indices, owner, rows, part_ptr, nonzeros_ptr, first, last
):
    """Count the rows that parts first..last-1 receive from each sender.

    Part m has the rows ``rows[part_ptr[m]:part_ptr[m + 1]]`` with ``nonzeros_ptr[m + 1] -
    nonzeros_ptr[m]`` nonzeros. Returns the number of senders of each part, int64[last - first]; the
    senders, int32, ascending within a part; and the rows from each sender, int64.
    """
    num_parts = len(part_ptr) - 1
    most = np.int64(0)
    for m in range(first, last):
        most += min(num_parts - 1, nonzeros_ptr[m + 1] - nonzeros_ptr[m])
    senders = np.zeros(last - first, dtype=np.int64)
    sender, volume = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int64)
    received = np.zeros(num_parts, dtype=np.int64)  # rows of the current part, by sender
    seen_by = np.full(len(owner), -1, dtype=np.int32)  # the last part that needed the row
    size = 0
    for m in range(first, last):
        for r in range(part_ptr[m], part_ptr[m + 1]):
            for k in range(indptr[rows[r]], indptr[rows[r] + 1]):
                j = indices[k]
                if seen_by[j] != m:
                    seen_by[j] = m
                    received[owner[j]] += 1
        received[m] = 0
        for q in range(num_parts):
            if received[q] > 0:
                sender[size], volume[size] = q, received[q]
                received[q] = 0
                senders[m - first] += 1
                size += 1
    return senders, sender[:size].copy(), volume[:size].copy()
