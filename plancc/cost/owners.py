"""The metrics of an owner vector, without building its plan. Knows matrices and owners only."""

from __future__ import annotations

import numpy as np
from numba import njit

from plancc.cost.metrics import Traffic
from plancc.graph.graph import Graph
from plancc.models.random import random_owner
from plancc.plan.plan import Int32Array
from plancc.plan.receive_sets import receive_sets

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
    sets = receive_sets(matrix, owner, num_parts)
    received = np.concatenate([counts for _, counts in sets.found])
    sent = np.zeros(num_parts, dtype=np.int64)
    messages_sent = np.zeros(num_parts, dtype=np.int64)
    messages_received = np.zeros(num_parts, dtype=np.int64)
    for (first, _), (vertices, counts) in zip(sets.chunks, sets.found, strict=True):
        _count_sent(owner, vertices, counts, first, sent, messages_sent, messages_received)
    row_nonzeros = np.concatenate([[0], matrix.row_nonzeros()[sets.rows]]).cumsum()
    return Traffic(
        rows=np.diff(sets.part_ptr),
        nonzeros=np.diff(row_nonzeros[sets.part_ptr]),
        sent=sent,
        received=received,
        messages_sent=messages_sent,
        messages_received=messages_received,
    )


@njit(cache=True, nogil=True)
def _count_sent(  # type: ignore[no-untyped-def]
    owner, vertices, counts, first, sent, messages_sent, messages_received
):
    """Charge every received row to its owner, and every new pair of parts to both ends."""
    met = np.full(len(sent), -1, dtype=np.int64)
    at = 0
    for m in range(first, first + len(counts)):
        for _ in range(counts[m - first]):
            q = owner[vertices[at]]
            at += 1
            sent[q] += 1
            if met[q] != m:
                met[q] = m
                messages_sent[q] += 1
                messages_received[m] += 1
