"""Kernels of the greedy vertex cut of model ``libra``.

Here the *rank* of a vertex is its position, from 0, if vertices are sorted by their number of
nonzeros.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit

_LOAD = 2**26
"""The *key* of a part, ``load * _LOAD + part``, contains both its load and its number. The least
key belongs to the first of the least loaded parts. `_LOAD` is larger than any number of parts."""
_NONE = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def degrees(indptr: Any, indices: Any) -> Any:
    """Count nonzeros off the diagonal, and find which entries of the diagonal are stored.

    Returns:
        in_row, in_column (int64[n]): Off-diagonal nonzeros of every row, and of every column.
        diagonal (bool[n]): Whether the diagonal entry is stored.
    """
    n = len(indptr) - 1
    in_row, in_column = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    diagonal = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] == i:
                diagonal[i] = True
            else:
                in_column[indices[k]] += 1
        # all nonzeros of the row except the diagonal
        in_row[i] = indptr[i + 1] - indptr[i] - diagonal[i]
    return in_row, in_column, diagonal


class Ahead(NamedTuple):
    """For every column j, its nonzeros (i, j) where i has a higher rank (see the module) than j.

    Attributes:
        start, end (int64[n]): The nonzeros of column j are ``pairs[start[j]:end[j]]``.
        pairs (int32[nnz, 2], or int64 if nnz is 2**31 or more): Row i, ascending within a column,
            and position in the CSR arrays. `assign_edges` replaces i by the owner of the nonzero.
    """

    start: Any
    end: Any
    pairs: Any


def ahead(indptr: Any, indices: Any, in_column: Any, rank: Any) -> Ahead:
    """Find, in every column j, the nonzeros (i, j) with ``rank[i] > rank[j]``.

    `rank` is every vertex's position in the order of `LibraModel`; `in_column` counts every
    column's nonzeros off the diagonal.
    """
    start = np.cumsum(in_column) - in_column
    end = start.copy()
    width = np.int32 if len(indices) < 2**31 else np.int64
    pairs = np.empty((len(indices), 2), dtype=width)
    _fill(indptr, indices, rank, end, pairs)
    return Ahead(start, end, pairs)


@njit(cache=True, nogil=True)
def _fill(indptr: Any, indices: Any, rank: Any, end: Any, pairs: Any) -> None:
    """Fill `pairs` and `end` of `Ahead` with the nonzeros (i, j) with rank[i] > rank[j], by column.

    `rank` is every vertex's position in the order of `LibraModel`. At the call, ``end[j]`` is the
    place in `pairs` of column j's first nonzero; afterwards, the place after its last.
    """
    for i in range(len(rank)):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            # keep only nonzeros whose column has the lower rank
            if rank[j] < rank[i]:
                pairs[end[j], 0] = i
                pairs[end[j], 1] = k
                end[j] += 1


@njit(cache=True, nogil=True)
def assign_edges(
    by_rank: Any,
    rank: Any,
    indptr: Any,
    indices: Any,
    ahead: Any,
    diagonal: Any,
    held: Any,
    room: int,
    num_parts: int,
    nonzero_owner: Any,
) -> Any:
    """Assign every edge to a part by the rule of `LibraModel`; `assign_rest` completes the result.

    Parameters:
        by_rank (int32[n]): The vertices, sorted by their number of nonzeros.
        rank (int32[n]): Position of every vertex in `by_rank`.
        ahead (Ahead): The result of `ahead`. The rows in its `pairs` are replaced by owners.
        diagonal (bool[n]): Whether the diagonal entry is stored.
        held (uint64[n, ceil(num_parts / 64)]): Row ``rank[v]`` has a bit for each part that holds
            vertex v. All 0 at the start; set here.
        room: Largest number of nonzeros that a part may have.
        nonzero_owner (int32[nnz]): Set here for nonzeros (i, j) with rank[i] < rank[j].

    Returns:
        int64[num_parts]: Number of nonzeros off the diagonal in every part.
    """
    pairs = ahead.pairs
    key = np.arange(num_parts)
    first = np.zeros(num_parts, dtype=np.int64)  # diagonals in the load of every part
    seen = np.zeros(len(by_rank), dtype=np.bool_)
    low, place = np.int64(0), np.int64(0)
    # Vertices in ascending number of nonzeros; each assigns its edges to vertices of a higher
    # rank. Row entries `a` and column entries `b` are merged by the other end: a pair (i, j),
    # (j, i) is one edge of weight 2.
    for r in range(len(by_rank)):
        u = by_rank[r]
        a, a_end = indptr[u], indptr[u + 1]
        b, b_end = ahead.start[u], ahead.end[u]
        while True:
            while a < a_end and rank[indices[a]] <= r:  # skip vertices of lower rank, and u itself
                a += 1
            if a == a_end and b == b_end:
                break
            if b == b_end or (a < a_end and indices[a] <= pairs[b, 0]):
                in_row, v = True, np.int64(indices[a])
            else:
                in_row, v = False, np.int64(pairs[b, 0])
            in_column = b < b_end and pairs[b, 0] == v
            s = np.int64(rank[v])
            weight = np.int64(in_row) + np.int64(in_column)

            # A part has no room if its key is `full` or more.
            full = (room - weight + 1) * _LOAD
            # 1. the least loaded part that holds both ends
            best = _least_of(held, r, s, key)
            old = best < full
            if not old:
                # 2. the least loaded part that holds the end with fewer nonzeros, 3. the other
                # end, 4. any part
                best = _least_of(held, r, r, key)
                if best >= full:
                    best = _least_of(held, s, s, key)
                if best >= full:
                    low, place = _least(key, low, place)
                    best = key[place]
            c = best % _LOAD
            key[c] += weight * _LOAD
            if not old:  # c did not hold both ends
                # Set the bit of part c: 64 parts in a word.
                for x in (r, s):
                    held[x, c // 64] |= np.uint64(1) << np.uint64(c % 64)
                    if not seen[x]:
                        seen[x] = True
                        # The diagonal of a vertex goes to the first part that holds the vertex.
                        stored = diagonal[by_rank[x]]
                        key[c] += stored * _LOAD
                        first[c] += stored
            if in_row:
                nonzero_owner[a] = c
                a += 1
            if in_column:
                pairs[b, 0] = c
                b += 1
    return key // _LOAD - first


@njit(cache=True, nogil=True)
def assign_rest(
    indptr: Any, indices: Any, ahead: Any, diagonal: Any, owner: Any, nonzero_owner: Any
) -> None:
    """Copy the owners in `ahead` to `nonzero_owner`, and give diagonal nonzeros to the row's owner.

    `assign_edges` must run before. It writes the owners of some nonzeros off the diagonal into
    `ahead`, and the owners of all others into `nonzero_owner`.
    """
    pairs = ahead.pairs
    for i in range(len(owner)):
        for b in range(ahead.start[i], ahead.end[i]):
            nonzero_owner[pairs[b, 1]] = pairs[b, 0]
        if diagonal[i]:
            start, end = indptr[i], indptr[i + 1]
            nonzero_owner[start + np.searchsorted(indices[start:end], i)] = owner[i]


@njit(cache=True, nogil=True)
def num_held(held: Any) -> Any:
    """Return, for each row of `held`, how many parts hold its vertex: int32[n]."""
    count = np.zeros(len(held), dtype=np.int32)
    for r in range(len(held)):
        for w in range(held.shape[1]):
            count[r] += _num_bits(held[r, w])
    return count


@njit(cache=True, nogil=True)
def choose_owners(order: Any, held: Any, load: Any) -> Any:
    """Choose the owner of every vertex: the least loaded part that holds the vertex.

    A vertex that no part holds takes the least loaded of all parts. Vertices choose in the order
    `order`, and add 1 to the load of their owner. Return int32[n]; here and in `order`, vertices
    are numbered from the one with the fewest nonzeros to the one with the most.
    """
    key = load * _LOAD + np.arange(len(load))
    owner = np.empty(len(order), dtype=np.int32)
    low, place = load.min(), np.int64(0)
    for r in order:
        best = _least_of(held, r, r, key)
        if best == _NONE:
            low, place = _least(key, low, place)
            best = key[place]
        owner[r] = best % _LOAD
        key[best % _LOAD] += _LOAD
    return owner


@njit(cache=True, nogil=True)
def _least(key: Any, low: int, place: int) -> Any:
    """Return the least load of the parts, and the index of the first part with this load.

    `low` and `place` are the previous result. Loads only grow, so the search continues from there.
    ``key[q]`` contains the load of part q (`_LOAD`).
    """
    while key[place] >= (low + 1) * _LOAD:
        place += 1
        if place == len(key):
            low, place = low + 1, 0
    return low, place


@njit(cache=True, nogil=True)
def _least_of(held: Any, r: int, s: int, key: Any) -> Any:
    """Return the least key of the parts that hold both vertices; `_NONE` if there is no such part.

    r and s are the vertices' positions in ascending order of nonzeros. A part's key contains its
    load (`_LOAD`).
    """
    best = np.int64(_NONE)
    for w in range(held.shape[1]):
        bits = held[r, w] & held[s, w]
        while bits:
            below = ~bits & (bits - np.uint64(1))
            best = min(best, key[64 * w + _num_bits(below)])
            bits &= bits - np.uint64(1)
    return best


@njit(cache=True, nogil=True)
def _num_bits(bits: Any) -> Any:
    """Return the number of bits that are set in a uint64."""
    ones, twos, fours = 0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F
    bits -= (bits >> np.uint64(1)) & np.uint64(ones)
    bits = (bits & np.uint64(twos)) + ((bits >> np.uint64(2)) & np.uint64(twos))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(fours)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))
