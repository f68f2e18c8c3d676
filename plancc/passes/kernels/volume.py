"""Moves that lower the volume, with a price on overweight parts.

What a sweep minimises is ``volume + sum over parts and constraints of
price / 2 * max(0, weight - target)^2``: low prices let parts grow while vertices find better
places, high prices bring the balance back where that costs least volume. Counts must be of pins: on
coarse levels of nets with sizes they are not, and these kernels must not be used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from plancc.passes.kernels.state import move

NOTHING, DONE = 1e-9, 1 - 1e-9
"""Shares of an overload: relieving less counts as nothing, relieving more as all of it."""


class Bounds(NamedTuple):
    """What parts may weigh in a sweep; all arrays are float64.

    Attributes
    ----------
    target : [num_parts, num_constraints]
        Weight up to which a part costs nothing.
    price : [num_parts, num_constraints]
    cap : [num_parts, num_constraints]
        No move fills a part above it.
    scale : [num_parts]
        Weights of two parts are compared times this: 1 over their capacities, times the mean.
    """

    target: Any
    price: Any
    cap: Any
    scale: Any


@njit(cache=True, nogil=True)
def penalty(weight: float, target: float, price: float) -> float:
    over = weight - target
    return 0.5 * price * over * over if over > 0 else 0.0


@njit(cache=True, nogil=True)
def rate(v: int, nets: Any, state: Any, score: Any, seen: Any) -> Any:
    """Rows that moving v to other parts saves, without any balance.

    Fills ``seen[:num]`` with the parts that nets of v touch (v's own among them) and ``score`` of
    each, to be set back to 0 by the caller. Moving v to part q gains ``base + score[q]`` rows,
    ``base`` to a part that is not among them. Nets that touch every part tell none from the
    others: their parts are listed only if v has no other cut nets.

    Returns
    -------
    num, base
    """
    here = state.owner[v]
    num_parts = len(state.sums)
    base, num = np.int64(0), 0
    everywhere = False
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        cost = nets.cost[e]
        spread = state.spread[e]
        if spread == num_parts:
            base += cost  # touches every part: entering is free, and so it is among all of `seen`
        base -= cost
        if spread == 1:
            continue
        start = state.slot_ptr[e]
        if state.slot_ptr[e + 1] - start == num_parts:
            if state.count[start + here] == 1:
                base += cost
            if spread == num_parts:
                everywhere = True
                continue
            for q in range(num_parts):
                if state.count[start + q] > 0:
                    if score[q] == 0:
                        seen[num] = q
                        num += 1
                    score[q] += cost
        else:
            for k in range(start, start + spread):
                q = state.part[k]
                if score[q] == 0:
                    seen[num] = q
                    num += 1
                score[q] += cost
                if q == here and state.count[k] == 1:
                    base += cost
    if everywhere and num == 0:
        num = num_parts
        for q in range(num_parts):
            seen[q] = q
    return num, base


@njit(cache=True, nogil=True)
def fits(v: int, q: int, nets: Any, state: Any, cap: Any) -> bool:
    for c in range(cap.shape[1]):  # noqa: SIM110 - numba knows no all(...)
        if state.sums[q, c] + nets.weight[v, c] > cap[q, c]:
            return False
    return True


@njit(cache=True, nogil=True)
def lightens(v: int, q: int, nets: Any, state: Any, scale: Any) -> bool:
    """Whether part q stays lighter, with v, than v's part is now: by the first constraint."""
    here = state.owner[v]
    after = (state.sums[q, 0] + nets.weight[v, 0]) * scale[q]
    return after < state.sums[here, 0] * scale[here]


@njit(cache=True, nogil=True)
def sweep(order: Any, nets: Any, state: Any, bounds: Any) -> Any:
    """Move every vertex in `order` to the part where volume and penalty fall most, if any.

    No move takes the last weight out of a part.

    Parameters
    ----------
    order : int64[m]
    bounds : Bounds

    Returns
    -------
    moved, gained, evaluations
        Vertices moved, rows saved, and pairs of vertex and part whose gain was computed.
    """
    target, price, cap, scale = bounds
    num_parts, num_constraints = state.sums.shape
    score = np.zeros(num_parts, dtype=np.int64)
    seen = np.empty(num_parts, dtype=np.int64)
    moved, gained, evaluations = 0, np.int64(0), 0
    idle = np.full(num_parts, -1, dtype=np.int64)  # moves made when all parts were tried in vain
    idle_base = np.zeros(num_parts, dtype=np.int64)
    idle_weight = np.zeros((num_parts, num_constraints), dtype=np.int64)
    for v in order:
        num, base = rate(v, nets, state, score, seen)
        if num == 0:
            continue
        here = state.owner[v]
        # Its cut nets touch every part: all parts gain the same, as they do for others like it.
        everywhere = score[here] == 0
        if everywhere and idle[here] == moved and idle_base[here] == base:
            same = True
            for c in range(num_constraints):
                same &= idle_weight[here, c] == nets.weight[v, c]
            if same:
                continue
        saved, alone = 0.0, True
        for c in range(num_constraints):
            w, full = nets.weight[v, c], state.sums[here, c]
            alone &= w == full
            t, p = target[here, c], price[here, c]
            saved += penalty(full, t, p) - penalty(full - w, t, p)
        best, best_gain, best_value = -1, np.int64(0), 0.0
        for k in range(num):
            q = seen[k]
            gain = base + score[q]
            score[q] = 0
            if q == here or alone or not fits(v, q, nets, state, cap):
                continue
            evaluations += 1
            value = gain + saved
            for c in range(num_constraints):
                w, full = nets.weight[v, c], state.sums[q, c]
                value -= penalty(full + w, target[q, c], price[q, c])
                value += penalty(full, target[q, c], price[q, c])
            if best < 0 or value > best_value:
                best, best_gain, best_value = q, gain, value
        stays = best < 0 or best_value < 0
        if stays or (best_value == 0 and not lightens(v, best, nets, state, scale)):
            if everywhere:
                idle[here], idle_base[here] = moved, base
                idle_weight[here] = nets.weight[v]
            continue
        move(v, best, nets, state)
        moved += 1
        gained += best_gain
    return moved, gained, evaluations


@njit(cache=True, nogil=True)
def _overload(state: Any, q: int, v: int, sign: int, nets: Any, limit: Any) -> float:
    """Overload of part q with v's weight added (sign 1), taken out (-1) or as it is (0)."""
    total = 0.0
    for c in range(limit.shape[1]):
        over = state.sums[q, c] + sign * nets.weight[v, c] - limit[q, c]
        if over > 0:
            total += over / max(limit[q, c], 1.0)
    return total


@njit(cache=True, nogil=True)
def _relief_here(v: int, nets: Any, state: Any, limit: Any) -> float:
    """Overload that v's part loses when v leaves it; 0 if v is all that it has."""
    here = state.owner[v]
    alone = True
    for c in range(limit.shape[1]):
        alone &= state.sums[here, c] == nets.weight[v, c]
    if alone:
        return 0.0
    return _overload(state, here, v, 0, nets, limit) - _overload(state, here, v, -1, nets, limit)


@njit(cache=True, nogil=True)
def _burden(v: int, there: int, nets: Any, state: Any, limit: Any) -> float:
    """Overload that part `there` gains when v enters it."""
    return _overload(state, there, v, 1, nets, limit) - _overload(state, there, v, 0, nets, limit)


@njit(cache=True, nogil=True)
def _best_relief(v: int, nets: Any, state: Any, limit: Any, score: Any, seen: Any) -> Any:
    """The part to which v's move relieves its overweight part for the fewest rows.

    Returns
    -------
    part, rows, relieved
        Part -1: no move lowers the overload.
    """
    here = state.owner[v]
    most = _relief_here(v, nets, state, limit)
    if most <= 0:
        return -1, np.int64(0), 0.0
    num, base = rate(v, nets, state, score, seen)
    best, best_gain, best_relief = -1, np.int64(0), 0.0
    for k in range(num):
        q = seen[k]
        gain = base + score[q]
        score[q] = 0
        if q == here or (best >= 0 and gain <= best_gain):
            continue
        relief = most - _burden(v, q, nets, state, limit)
        if relief > NOTHING * most:
            best, best_gain, best_relief = q, gain, relief
    if best < 0:  # none that it has nets in: any part
        best_relief = NOTHING * most
        for q in range(len(state.sums)):
            if q != here:
                relief = most - _burden(v, q, nets, state, limit)
                if relief > best_relief:
                    best, best_gain, best_relief = q, base, relief
                    if relief >= DONE * most:
                        break
    return best, -best_gain, best_relief


@njit(cache=True, nogil=True)
def relief_costs(nets: Any, state: Any, limit: Any) -> Any:
    """Rows that relieving an overweight part by each of its vertices costs, over what it relieves.

    float64[num_vertices]; inf for vertices of other parts and those whose moves relieve nothing.
    """
    num_parts = len(state.sums)
    score = np.zeros(num_parts, dtype=np.int64)
    seen = np.empty(num_parts, dtype=np.int64)
    costs = np.full(len(state.owner), np.inf)
    for v in range(len(state.owner)):
        if _overload(state, state.owner[v], v, 0, nets, limit) > 0:
            q, rows, relieved = _best_relief(v, nets, state, limit, score, seen)
            if q >= 0:
                costs[v] = rows / relieved if rows > 0 else rows * relieved
    return costs


@njit(cache=True, nogil=True)
def relieve(order: Any, nets: Any, state: Any, limit: Any) -> int:
    """Move vertices in `order` out of parts above `limit`; returns how many moved."""
    num_parts = len(state.sums)
    score = np.zeros(num_parts, dtype=np.int64)
    seen = np.empty(num_parts, dtype=np.int64)
    moved = 0
    for v in order:
        if _overload(state, state.owner[v], v, 0, nets, limit) > 0:
            q, _, _ = _best_relief(v, nets, state, limit, score, seen)
            if q >= 0:
                move(v, q, nets, state)
                moved += 1
    return moved


@njit(cache=True, nogil=True)
def exchange(order: Any, others: Any, nets: Any, state: Any, limit: Any, share: float) -> int:
    """Swap vertices in `order`, of parts above `limit`, with some in `others`.

    Each with the first that brings its part below the limit, or else with that which lowers the
    overload most, if by more than `share` of its part's. Returns how many swaps were made.
    """
    swaps = 0
    for v in order:
        here = state.owner[v]
        whole = _overload(state, here, v, 0, nets, limit)
        if whole == 0:
            continue
        best, best_relief = -1, max(share, NOTHING) * whole
        for u in others:
            there = state.owner[u]
            if there == here:
                continue
            relief = 0.0
            for c in range(limit.shape[1]):
                change = nets.weight[v, c] - nets.weight[u, c]
                over_here, over_there = (
                    state.sums[here, c] - limit[here, c],
                    state.sums[there, c] - limit[there, c],
                )
                more = max(over_there + change, 0) - max(over_there, 0)
                less = max(over_here, 0) - max(over_here - change, 0)
                unit, other = max(limit[here, c], 1.0), max(limit[there, c], 1.0)
                relief += (less - more * (unit / other)) / unit
            if relief > best_relief:
                best, best_relief = u, relief
                if relief >= DONE * whole:
                    break
        if best >= 0:
            there = state.owner[best]
            move(v, there, nets, state)
            move(best, here, nets, state)
            swaps += 1
    return swaps
