"""Row plans the slow way: sets, dictionaries and dense arrays. Shares no code with the package.

The letters are those of Demirci et al. 2022, section 4.1: part m owns the rows of ``A_m``;
``cols(A_m)`` are the columns of their nonzeros.
"""

from __future__ import annotations

import numpy as np
from naive_edge import NaiveEdgePlan, entries_of_part, halo_vertices, local_vertices, product

__all__ = ["NaivePlan", "adjoint", "check_parts", "dense_of", "halo_vertices", "pattern_of"]


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
        for k, peer in enumerate(part.expand.receive.peer.tolist()):
            back = partial[part.num_rows :][
                part.expand.receive.row_ptr[k] : part.expand.receive.row_ptr[k + 1]
            ]
            for row, value in zip(parts[peer].send_mask(m), back, strict=True):
                result[parts[peer].global_id[row]] += value
    return result


def check_parts(parts, expected: NaiveEdgePlan, graph) -> None:
    """Every part holds what the naive plan says, and their products are the dense ones."""
    n, dense = graph.num_vertices, dense_of(graph)
    for m, part in enumerate(parts):
        ids, fold = part.global_id.tolist(), part.fold
        assert (part.index, part.num_parts) == (m, len(parts))
        assert set(ids) == expected.rows[m]
        assert len(ids) == len(expected.rows[m])
        assert part.first_row == sum(len(rows) for rows in expected.rows[:m])
        assert set(ids[part.num_interior :]) == expected.boundary[m]
        assert part.expand.send.peer.tolist() == sorted(expected.expand[m])
        assert part.expand.receive.peer.tolist() == [
            q for q, to in enumerate(expected.expand) if m in to
        ]
        for peer, rows in expected.expand[m].items():
            assert sorted(ids[r] for r in part.send_mask(peer)) == sorted(rows)
        assert sorted(halo_vertices(parts, m)) == sorted(expected.halo[m])
        found = entries_of_part(parts, m)
        assert len(found) == len(expected.held[m])
        assert {(i, j): v for i, j, v in found} == {ij: dense[ij] for ij in expected.held[m]}
        for r in range(len(part.row_ptr) - 1):
            foreign = part.column[part.row_ptr[r] : part.row_ptr[r + 1]] >= len(ids)
            assert foreign.tolist() == sorted(foreign.tolist())
        assert (part.column.dtype, part.row_ptr.dtype) == (np.int32, np.int64)
        check_types(part.expand)
        if fold is not None:
            check_fold(parts, m, expected)
    h = np.random.default_rng(n).standard_normal((n, 2))
    np.testing.assert_allclose(product(parts, h), dense @ h, rtol=1e-11, atol=1e-11)
    if all(part.fold is None for part in parts):
        np.testing.assert_allclose(adjoint(parts, h), dense.T @ h, rtol=1e-12, atol=1e-12)


def check_fold(parts, m, expected: NaiveEdgePlan) -> None:
    fold, rows = parts[m].fold, parts[m].num_rows
    assert fold.send.peer.tolist() == sorted(expected.fold[m])
    folded = local_vertices(parts, m)[rows:]
    for k, peer in enumerate(fold.send.peer.tolist()):
        of_message = folded[fold.send.row_ptr[k] : fold.send.row_ptr[k + 1]]
        assert sorted(of_message) == sorted(expected.fold[m][peer])
    assert fold.receive.peer.tolist() == [q for q, to in enumerate(expected.fold) if m in to]
    check_types(fold)


def check_types(exchange) -> None:
    for side in (exchange.send, exchange.receive):
        assert side.peer.dtype == side.row.dtype == np.int32
        assert side.ptr.dtype == side.row_ptr.dtype == np.int64
