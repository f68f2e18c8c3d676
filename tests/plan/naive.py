"""Row plans the slow way: sets, dictionaries and dense arrays. Shares no code with the package.

The letters are those of Demirci et al. 2022, section 4.1: part m owns the rows of ``A_m``;
``cols(A_m)`` are the columns of their nonzeros.
"""

from __future__ import annotations

import numpy as np
from naive_edge import NaiveEdgePlan, entries_of_part, halo_vertices, product

__all__ = [
    "NaivePlan",
    "adjoint",
    "dense_of",
    "entries_of_part",
    "halo_vertices",
    "pattern_of",
    "product",
]


def dense_of(graph) -> np.ndarray:
    """The matrix as float64[n, n]."""
    n = len(graph.indptr) - 1
    array = np.zeros((n, n))
    for i in range(n):
        for k in range(graph.indptr[i], graph.indptr[i + 1]):
            array[i, graph.indices[k]] += 1.0 if graph.values is None else float(graph.values[k])
    return array


def pattern_of(graph) -> set[tuple[int, int]]:
    return {
        (i, int(graph.indices[k]))
        for i in range(len(graph.indptr) - 1)
        for k in range(graph.indptr[i], graph.indptr[i + 1])
    }


class NaivePlan(NaiveEdgePlan):
    """What Eq. 8 and 9 say of a pattern and owners: nonzeros are with the owner of their row.

    send[m][n] is the set X_mn: vertices that part m sends to part n; receive[m][n] the vertices
    that part m receives from part n (n in R_m). Empty sets are not stored.
    """

    def __init__(self, pattern, owner, num_parts):
        super().__init__({(i, j): int(owner[i]) for i, j in pattern}, owner, num_parts)
        parts = range(num_parts)
        self.nonzeros = [len(held) for held in self.held]
        self.interior = [self.rows[m] - self.boundary[m] for m in parts]
        self.send = self.expand
        self.receive = [{n: self.send[n][m] for n in parts if m in self.send[n]} for m in parts]


def adjoint(parts, g: np.ndarray) -> np.ndarray:
    """A.T @ g by the same plan, read in the other direction: what was received is sent back."""
    result = np.zeros(g.shape)
    for m, part in enumerate(parts):
        partial = np.zeros((part.num_rows + part.num_halo, g.shape[1]))
        for r in range(part.num_rows):
            for k in range(part.row_ptr[r], part.row_ptr[r + 1]):
                partial[part.column[k]] += float(part.value[k]) * g[part.global_id[r]]
        for r, vertex in enumerate(part.global_id):
            result[vertex] += partial[r]
        for k, peer in enumerate(part.recv_peer.tolist()):
            back = partial[part.num_rows :][part.recv_ptr[k] : part.recv_ptr[k + 1]]
            for row, value in zip(parts[peer].send_mask(m), back, strict=True):
                result[parts[peer].global_id[row]] += value
    return result
