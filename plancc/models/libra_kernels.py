"""Loops of the greedy vertex-cut, in numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit

_LOAD = 2**26
"""Load and number of a part are one key, ``load * _LOAD + part``: the least is the first of the
least loaded parts. Larger than any number of parts."""
_NONE = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def degrees(indptr: Any, indices: Any) -> Any:
    """Nonzeros off the diagonal, and whether the diagonal is stored.

    Parameters:
        indptr: int64[n + 1].
        indices: int32[nnz].

    Returns:
        in_row, in_column : int64[n]
        diagonal: bool[n]
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
        in_row[i] = indptr[i + 1] - indptr[i] - diagonal[i]
    return in_row, in_column, diagonal


class Ahead(NamedTuple):
    """The nonzeros between a vertex and those of a higher rank, by column.

    Attributes:
        start, end (int64[n]): The nonzeros (i, j) of column j with a higher rank of i are
            ``start[j]:end[j]`` of `pairs`.
        pairs (int32[nnz, 2], or int64 where nnz is 2**31 or more): Ascending i, which the owner
            replaces once it is known, and the nonzero's place in CSR.
    """

    start: Any
    end: Any
    pairs: Any


def ahead(indptr: Any, indices: Any, in_column: Any, rank: Any) -> Ahead:
    """`Ahead` of a pattern.

    Parameters:
        indptr: int64[n + 1].
        indices: int32[nnz].
        in_column (int64[n]): Of `degrees`.
        rank: int32[n].
    """
    start = np.cumsum(in_column) - in_column
    end = start.copy()
    width = np.int32 if len(indices) < 2**31 else np.int64
    pairs = np.empty((len(indices), 2), dtype=width)
    _fill(indptr, indices, rank, end, pairs)
    return Ahead(start, end, pairs)


@njit(cache=True, nogil=True)
def _fill(indptr: Any, indices: Any, rank: Any, end: Any, pairs: Any) -> None:
    """Put the nonzeros into the `pairs` of their columns; `end` moves from start to end."""
    for i in range(len(rank)):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if rank[j] < rank[i]:
                pairs[end[j], 0] = i
                pairs[end[j], 1] = k
                end[j] += 1


class Parts(NamedTuple):
    """The parts that hold every vertex: a bit for each part, or a list where that is shorter.

    Vertices go by rank, so first those with a list, then those with bits.

    Attributes:
        held (uint64[num_places]): A list has a place per nonzero: parts + 1, then zeros.
        ptr (int64[first + 1]): The list of rank r is ``held[ptr[r]:ptr[r + 1]]``; then come the
            bits.
        first: The first rank with bits.
        words: Places for bits, 64 parts each.
    """

    held: Any
    ptr: Any
    first: int
    words: int


def no_parts(degree: Any, num_parts: int) -> Parts:
    """Room for the parts of vertices with so many nonzeros off the diagonal, int64[n], by rank."""
    words = -(-num_parts // 64)
    first = int(np.searchsorted(degree, words))
    ptr = np.zeros(first + 1, dtype=np.int64)
    np.cumsum(degree[:first], out=ptr[1:])
    num_places = int(ptr[first]) + (len(degree) - first) * words
    return Parts(np.zeros(num_places, dtype=np.uint64), ptr, first, words)


@njit(cache=True, nogil=True)
def _places(parts: Any, r: int) -> Any:
    """Where in `held` the parts of rank r begin and end."""
    if r >= parts.first:
        start = parts.ptr[parts.first] + (r - parts.first) * parts.words
        return start, start + parts.words
    return parts.ptr[r], parts.ptr[r + 1]


@njit(cache=True, nogil=True)
def assign_edges(
    by_rank: Any,
    rank: Any,
    indptr: Any,
    indices: Any,
    ahead: Any,
    diagonal: Any,
    parts: Any,
    room: int,
    num_parts: int,
    nonzero_owner: Any,
) -> Any:
    """Part of every edge by the rule of `LibraModel`; `assign_rest` completes `nonzero_owner`.

    Parameters:
        by_rank (int32[n]): The vertices in ascending number of nonzeros.
        rank (int32[n]): Its inverse.
        indptr: int64[n + 1].
        indices: int32[nnz], ascending in every row.
        ahead (Ahead): Owners take the place of rows.
        diagonal: bool[n].
        parts: Parts.
        room: Nonzeros that a part may have while others are relevant.
        nonzero_owner: int32[nnz].

    Returns:
        int64[num_parts]: Nonzeros off the diagonal.
    """
    held, words, pairs = parts.held, parts.words, ahead.pairs
    key = np.arange(num_parts)
    first = np.zeros(num_parts, dtype=np.int64)  # diagonals among the load
    seen = np.zeros(len(by_rank), dtype=np.bool_)
    low, place = np.int64(0), np.int64(0)
    for r in range(len(by_rank)):
        u = by_rank[r]
        mine, mine_end = _places(parts, r)
        a, a_end = indptr[u], indptr[u + 1]
        b, b_end = ahead.start[u], ahead.end[u]
        while True:
            while a < a_end and rank[indices[a]] <= r:  # visited, or the diagonal
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

            its, its_end = _places(parts, s)
            full = (room - weight + 1) * _LOAD
            best = _least_of_both(held, mine, mine_end, its, its_end, words, key)
            old = best < full
            if not old:
                best = _least_of(held, mine, mine_end, words, key)
                if best >= full:
                    best = _least_of(held, its, its_end, words, key)
                if best >= full:
                    low, place = _least(key, low, place)
                    best = key[place]
            c = best % _LOAD
            key[c] += weight * _LOAD
            if not old:  # else c holds both
                _add(held, mine, mine_end, words, c)
                _add(held, its, its_end, words, c)
                for x in (r, s):
                    if not seen[x]:
                        seen[x] = True
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
    """Fill in what `ahead` has, and the diagonal, which goes with its row.

    Parameters:
        indptr: int64[n + 1].
        indices: int32[nnz], ascending in every row.
        ahead (Ahead): With owners.
        diagonal: bool[n].
        owner (int32[n]): Of the rows.
        nonzero_owner: int32[nnz].
    """
    pairs = ahead.pairs
    for i in range(len(owner)):
        for b in range(ahead.start[i], ahead.end[i]):
            nonzero_owner[pairs[b, 1]] = pairs[b, 0]
        if diagonal[i]:
            start, end = indptr[i], indptr[i + 1]
            nonzero_owner[start + np.searchsorted(indices[start:end], i)] = owner[i]


@njit(cache=True, nogil=True)
def num_held(parts: Any, n: int) -> Any:
    """How many parts hold every vertex, int32[n], by rank."""
    held = parts.held
    count = np.zeros(n, dtype=np.int32)
    for r in range(n):
        start, end = _places(parts, r)
        for k in range(start, end):
            count[r] += _num_bits(held[k]) if r >= parts.first else held[k] > 0
    return count


@njit(cache=True, nogil=True)
def choose_owners(order: Any, parts: Any, load: Any) -> Any:
    """Owner of every vertex, int32[n], by rank: of the parts that hold it the least loaded.

    Parameters:
        order (int64[n]): Ranks, in the order in which vertices choose; those that no part holds
            take the least loaded of all.
        parts: Parts.
        load (int64[num_parts]): Of the edges; a row counts 1.
    """
    held, words = parts.held, parts.words
    key = load * _LOAD + np.arange(len(load))
    owner = np.empty(len(order), dtype=np.int32)
    low, place = load.min(), np.int64(0)
    for r in order:
        start, end = _places(parts, r)
        best = _least_of(held, start, end, words, key)
        if best == _NONE:
            low, place = _least(key, low, place)
            best = key[place]
        owner[r] = best % _LOAD
        key[best % _LOAD] += _LOAD
    return owner


@njit(cache=True, nogil=True)
def _least(key: Any, low: int, place: int) -> Any:
    """The load and the number of the first of the least loaded parts.

    Loads only grow, and nowhere is one below `low` nor, before `place`, one at `low`: called with
    what it returned, it takes in all as many steps as the loads have grown.
    """
    while key[place] >= (low + 1) * _LOAD:
        place += 1
        if place == len(key):
            low, place = low + 1, 0
    return low, place


@njit(cache=True, nogil=True)
def _least_of(held: Any, start: int, end: int, words: int, key: Any) -> Any:
    """The least key of the parts of ``held[start:end]``, or `_NONE`."""
    best = np.int64(_NONE)
    if end - start == words:
        for w in range(words):
            best = _least_bit(held[start + w], 64 * w, key, best)
        return best
    for k in range(start, end):
        if held[k] == 0:
            break
        best = min(best, key[np.int64(held[k]) - 1])
    return best


@njit(cache=True, nogil=True)
def _least_of_both(
    held: Any, start: int, end: int, other: int, other_end: int, words: int, key: Any
) -> Any:
    """The least key of the parts in both places, the first of which are not more, or `_NONE`."""
    best = np.int64(_NONE)
    if end - start == words:
        for w in range(words):
            best = _least_bit(held[start + w] & held[other + w], 64 * w, key, best)
        return best
    for k in range(start, end):
        if held[k] == 0:
            break
        c = np.int64(held[k]) - 1
        if key[c] < best and _holds(held, other, other_end, words, c):
            best = key[c]
    return best


@njit(cache=True, nogil=True)
def _least_bit(bits: Any, first: int, key: Any, best: Any) -> Any:
    """The least of `best` and the keys of these bits, the lowest of which is part `first`."""
    while bits:
        below = ~bits & (bits - np.uint64(1))
        best = min(best, key[first + _num_bits(below)])
        bits &= bits - np.uint64(1)
    return best


@njit(cache=True, nogil=True)
def _holds(held: Any, start: int, end: int, words: int, c: int) -> bool:
    """Whether part c is in these places."""
    if end - start == words:
        return (held[start + c // 64] >> np.uint64(c % 64)) & np.uint64(1) > 0
    found = False
    for k in range(start, end):
        found |= held[k] == np.uint64(c + 1)
    return found


@njit(cache=True, nogil=True)
def _add(held: Any, start: int, end: int, words: int, c: int) -> None:
    """Put part c into these places."""
    if end - start == words:
        held[start + c // 64] |= np.uint64(1) << np.uint64(c % 64)
        return
    for k in range(start, end):
        if held[k] == 0 or held[k] == np.uint64(c + 1):
            held[k] = c + 1
            break


@njit(cache=True, nogil=True)
def _num_bits(bits: Any) -> Any:
    """How many bits of a uint64 are set."""
    ones, twos, fours = 0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F
    bits -= (bits >> np.uint64(1)) & np.uint64(ones)
    bits = (bits & np.uint64(twos)) + ((bits >> np.uint64(2)) & np.uint64(twos))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(fours)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))
