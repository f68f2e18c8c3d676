"""Ejection chains: sequences of moves into full parts, where each full part ejects another vertex.

The ejected vertex, the cheapest to move, goes to a part with room or to the next full part. A
chain is undone as soon as its moves together save 0 rows or fewer. No cycle of moves that saves
rows is missed by this rule: every such cycle has a move such that, if the chain begins with it, the
rows saved so far are always positive.

Glover, 1996, "Ejection chains, reference structures and alternating path methods"; for balanced
partitions Sanders and Schulz, 2013, who search for negative cycles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.exchange import give
from plancc.passes.kernels.state import must_stay
from plancc.passes.kernels.volume import fits, rate


@njit(cache=True, nogil=True)
def _is_full(q: int, limit: Any, state: Any) -> bool:
    """Whether part q is above its limit in at least one constraint."""
    for c in range(limit.shape[1]):  # noqa: SIM110 - numba knows no any(...)
        if state.sums[q, c] > limit[q, c]:
            return True
    return False


@njit(cache=True, nogil=True)
def _relieves(v: int, limit: Any, nets: Any, state: Any) -> bool:
    """Whether the part of v would be within its limit if v left the part."""
    here = state.owner[v]
    for c in range(limit.shape[1]):
        if state.sums[here, c] - nets.weight[v, c] > limit[here, c]:
            return False
    return True


@njit(cache=True, nogil=True)
def _options(v: int, limit: Any, nets: Any, state: Any, score: Any, seen: Any) -> Any:
    """Find the best part for v among the parts with room for v, and among all parts; -1 if none.

    Returns:
        part, gain, any_part, any_gain: The two parts, each with the rows that a move to it saves.
        looked: Number of parts rated.
    """
    num, base = rate(v, nets, state, score, seen)
    here = state.owner[v]
    best, best_gain, free, free_gain = -1, np.int64(0), -1, np.int64(0)
    for k in range(num):
        q = seen[k]
        gain = base + score[q]
        score[q] = 0
        if q == here:
            continue
        if free < 0 or gain > free_gain:
            free, free_gain = q, gain
        if (best < 0 or gain > best_gain) and fits(v, q, nets, state, limit):
            best, best_gain = q, gain
    return best, best_gain, free, free_gain, num


@njit(cache=True, nogil=True)
def eject(
    order: Any, limit: Any, depth: int, tries: int, most: int, chain: Any, nets: Any, state: Any
) -> Any:
    """Run ejection chains from the vertices in `order`; the volume never rises.

    Parameters:
        order (int64[m]): Vertices from which chains start; only these vertices move.
        limit (float64[num_parts, num_constraints]): Limits, which all parts meet before the call.
        depth, tries: Largest number of moves in a chain, and of vertices tried in a full part.
        most: Number of computed gains after which no further chain begins.
        chain (Chains): The vertices of `order` in every part; updated.

    Returns:
        saved, work: Number of rows saved, and number of gains computed.
    """
    num_parts = len(state.sums)
    score = np.zeros(num_parts, dtype=np.int64)
    seen = np.empty(num_parts, dtype=np.int64)
    moved = np.empty(depth, dtype=np.int32)
    came_from = np.empty(depth, dtype=np.int32)
    met = np.full(len(state.owner), -1, dtype=np.int64)
    saved, work = np.int64(0), 0
    for i in range(len(order)):
        v = order[i]
        if work > most:
            break
        if must_stay(v, nets, state):
            continue
        part, gain, free, total, looked = _options(v, limit, nets, state, score, seen)
        work += looked
        if free < 0 or total <= 0:
            continue
        # A gainful move into a part with room needs no chain.
        if part >= 0 and gain > 0:
            give(v, part, chain, nets, state)
            saved += gain
            continue
        # Otherwise begin a chain: v enters the full part that saves most.
        moved[0], came_from[0], length = v, state.owner[v], 1
        met[v] = i
        give(v, free, chain, nets, state)
        full = free
        while full >= 0:
            # Choose among the vertices of the full part: `best` ends the chain in a part with
            # room, `other` continues it into another full part.
            best, best_to, best_gain = -1, -1, np.int64(0)
            other, other_to, other_gain = -1, -1, np.int64(0)
            u, tried = chain.first[full], 0
            while u >= 0 and tried < tries and length < depth:
                if met[u] != i:
                    tried += 1
                    part, gain, free, free_gain, looked = _options(
                        u, limit, nets, state, score, seen
                    )
                    work += looked
                    if _relieves(u, limit, nets, state):
                        if part >= 0 and (best < 0 or gain > best_gain):
                            best, best_to, best_gain = u, part, gain
                        if free >= 0 and (other < 0 or free_gain > other_gain):
                            other, other_to, other_gain = u, free, free_gain
                u = chain.after[u]
            # A chain goes on only while it has saved rows so far.
            if best >= 0 and total + best_gain > 0:
                u, there, gain = best, best_to, best_gain
            elif other >= 0 and total + other_gain > 0 and length + 1 < depth:
                u, there, gain = other, other_to, other_gain
            else:
                break
            moved[length], came_from[length] = u, full
            length += 1
            met[u] = i
            total += gain
            give(u, there, chain, nets, state)
            full = there if _is_full(there, limit, state) else -1
        # The chain ended within all limits.
        if full < 0:
            saved += total
            continue
        # It did not: undo all moves, the last one first.
        for k in range(length - 1, -1, -1):
            give(moved[k], came_from[k], chain, nets, state)
    return saved, work
