"""`VectorOwners`: choose the owners of rows when the owners of nonzeros are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.kernel import njit
from plancc.passes.context import Context
from plancc.passes.kernels.nets import transpose


@dataclass(frozen=True)
class VectorOwners:
    """Choose the owner of every row among the parts that need the row or have its partial sums.

    ::

        parts with nonzeros of column v  0 1 3      owner 1 or 3 saves two rows, 0 or 4 one row
        parts with nonzeros of row v     1 3 4

    Row v of H and row v of the product have the same owner. If this owner is on both lists, two
    rows need not be sent; if it is on one list, one row. The owner is always a part that saves the
    most rows. If there are several such parts, the one with the least traffic is taken. Owners are
    chosen first for the vertices with the longest lists. This is the idea of Bisseling and Meesen
    (*Communication balancing in parallel sparse matrix-vector multiplication*, ETNA 2005), who
    choose two owners for a vertex, one for each vector. Then sweeps revise the owners one by one.

    Attributes:
        sweeps: Largest number of sweeps over all owners.
    """

    sweeps: int = 8

    def refine(self, owners: Owners, matrix: Graph, context: Context) -> Owners:
        """Return new owners of rows; of the nonzeros, only those on the diagonal change owners.

        Neither the volume nor, at equal volume, the busiest part's traffic rises. A nonzero on the
        diagonal moves with its row, unless the new part would then exceed its weight limit.
        """
        num_parts = context.num_parts
        owners.check(matrix, num_parts)
        owner, nonzero_owner = owners.rows, owners.of_nonzeros(matrix)
        needs = _needs(matrix.indptr, matrix.indices, nonzero_owner, num_parts)
        rng, limit = context.rng(), context.limits.limit[:, 0]
        tried = []
        for anew in (True, False):
            new, new_nonzero = owner.copy(), nonzero_owner.copy()
            order = rng.permutation(len(owner))
            heavy_first = order[np.argsort(-np.diff(needs[0])[order], kind="stable")]
            volume, busiest = _assign(
                *needs, new, new_nonzero, num_parts, limit, heavy_first, self.sweeps, anew
            )
            tried.append((volume, busiest, Owners(new, new_nonzero)))
        return min(tried, key=lambda found: found[:2])[2]


@njit(cache=True, nogil=True)
def _needs(indptr, indices, nonzero_owner, num_parts):  # type: ignore[no-untyped-def]
    """List, for every vertex, the parts with nonzeros of its row or column off the diagonal.

    Returns:
        ptr (int64[n + 1]), part (int32[m]): The parts of vertex v are ``part[ptr[v]:ptr[v + 1]]``.
        kind (int8[m]): Whether a part has nonzeros of the row (1), of the column (2), or both (3).
        diagonal (int64[n]): Index of nonzero (v, v) in the CSR; -1 if there is none.
    """
    n = len(indptr) - 1
    column_ptr, _, place = transpose(indptr, indices, np.arange(len(indices)), n)
    diagonal = np.full(n, -1, dtype=np.int64)
    bound = np.int64(0)
    for i in range(n):
        bound += min(num_parts, indptr[i + 1] - indptr[i] + column_ptr[i + 1] - column_ptr[i])
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] == i:
                diagonal[i] = k
    ptr = np.zeros(n + 1, dtype=np.int64)
    part = np.empty(bound, dtype=np.int32)
    kind = np.empty(bound, dtype=np.int8)
    last_place = np.full(num_parts, -1, dtype=np.int64)
    end = np.int64(0)
    for v in range(n):
        start = end
        for side in range(2):
            first, last = (
                (indptr[v], indptr[v + 1]) if side == 0 else (column_ptr[v], column_ptr[v + 1])
            )
            for k in range(first, last):
                at = k if side == 0 else place[k]
                if at == diagonal[v]:
                    continue
                q = nonzero_owner[at]
                if last_place[q] < start:
                    last_place[q] = end
                    part[end], kind[end] = q, 0
                    end += 1
                kind[last_place[q]] |= side + 1
        ptr[v + 1] = end
    return ptr, part[:end].copy(), kind[:end].copy(), diagonal


@njit(cache=True, nogil=True)
def _trade(ptr, part, kind, v, q, sign, sent, received):  # type: ignore[no-untyped-def]
    """Add `sign` times the rows sent for vertex v, owned by part q, to `sent` and `received`."""
    for a in range(ptr[v], ptr[v + 1]):
        m = part[a]
        if m != q:
            if kind[a] & 1:
                sent[m] += sign
                received[q] += sign
            if kind[a] & 2:
                sent[q] += sign
                received[m] += sign


@njit(cache=True, nogil=True)
def _assign(  # type: ignore[no-untyped-def]
    ptr, part, kind, diagonal, owner, nonzero_owner, num_parts, limit, order, sweeps, anew
):
    """Choose the owners of rows; return the volume, and the traffic of the busiest part.

    A row goes to the part for which the fewest rows are sent or, on a tie, to the least busy part.
    The traffic of a part is the larger of its rows sent and received. A nonzero on the diagonal
    moves with its row; if this exceeds the new part's `limit`, the row does not move. `owner` and
    `nonzero_owner` are updated. If `anew`, a row causes no traffic until it has its new owner.
    """
    sent = np.zeros(num_parts, dtype=np.int64)
    received = np.zeros(num_parts, dtype=np.int64)
    load = np.zeros(num_parts, dtype=np.int64)
    for k in range(len(nonzero_owner)):
        load[nonzero_owner[k]] += 1
    if not anew:
        for v in range(len(owner)):
            _trade(ptr, part, kind, v, owner[v], 1, sent, received)
    for sweep in range(sweeps):
        changed = 0
        placed = not anew or sweep > 0
        for v in order:
            if ptr[v] == ptr[v + 1]:
                continue
            q = owner[v]
            if placed:
                _trade(ptr, part, kind, v, q, -1, sent, received)
            rows = columns = 0
            for a in range(ptr[v], ptr[v + 1]):
                rows += kind[a] & 1
                columns += kind[a] >> 1
            best, best_saved, best_busy = q, -1, 0
            for a in range(ptr[v] - 1, ptr[v + 1]):
                r, with_row, with_column = q, 0, 0
                if a >= ptr[v]:
                    r, with_row, with_column = part[a], kind[a] & 1, kind[a] >> 1
                elif not _is_foreign(ptr, part, v, q):
                    continue
                if r != q and diagonal[v] >= 0 and load[r] + 1 > limit[r]:
                    continue
                saved = with_row + with_column
                busy = max(sent[r] + columns - with_column, received[r] + rows - with_row)
                if saved > best_saved or (
                    saved == best_saved and (busy < best_busy or (busy == best_busy and r == q))
                ):
                    best, best_saved, best_busy = r, saved, busy
            _trade(ptr, part, kind, v, best, 1, sent, received)
            if best != q:
                changed += 1
                owner[v] = best
                if diagonal[v] >= 0:
                    nonzero_owner[diagonal[v]] = best
                    load[q] -= 1
                    load[best] += 1
        if changed == 0 and placed:
            break
    busiest = np.int64(0)
    for q in range(num_parts):
        busiest = max(busiest, sent[q], received[q])
    return sent.sum(), busiest


@njit(cache=True, nogil=True)
def _is_foreign(ptr, part, v, q):  # type: ignore[no-untyped-def]
    """Whether part q has no nonzeros of the row or column of v, apart from the diagonal."""
    for a in range(ptr[v], ptr[v + 1]):  # noqa: SIM110 - numba knows no all(...)
        if part[a] == q:
            return False
    return True
