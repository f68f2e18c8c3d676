"""Moves of nonzeros and of owners that lower the volume, with prices on weight and on traffic.

What sweeps minimise::

    volume + sum over parts   weight / 2 * max(0, nonzeros - target)^2
                            + pressure / 2 * (excess(sent side)^2 + excess(received side)^2)
           + sum over pairs   fee(rows from q to m in one step)

    side   = row * rows + message * messages + scale * (nonzero * nonzeros + own_row * own rows)
    excess = max(0, side - ceiling)

Three moves, for nets as in ``edges.py``: one nonzero; all nonzeros that a net has in one part, so
that it leaves that part; an owner, together with what its row and its column have in its old part
where that pays. Loads are followed exactly, move by move; only the choice of a move takes traffic
at its present prices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.edges import move, move_owner, other
from plancc.passes.kernels.state import last_slot, pins_in
from plancc.passes.kernels.volume import penalty
from plancc.passes.presets import SHORT, TINY

BURDEN, RELIEF, GIVE, TAKE, OUT, INTO = range(6)
"""Rows of the tolls of all parts, float64[6, num_parts]: what one nonzero more costs (inf: there is
no room), what one less saves; what a unit of load sent, and received, costs; both sides."""


class Prices(NamedTuple):
    """Prices of weight and traffic, see the module.

    Attributes:
        target, weight (float64[num_parts]): Nonzeros up to which a part's weight costs nothing, and
            the price above.
        cap (float64[num_parts]): No move fills a part above it.
        scale (float64[num_parts]): Nonzeros of two parts are compared times this, and so are loads
            of nonzeros and own rows: 1 over their capacities, times the mean.
        row, message, nonzero, own_row: Loads.
        fees (float64[m], m at least 1): Fees of the first, second, ... row of a message, the last
            for all that follow; they never rise. Messages and fees need ``EdgeState.pair``.
    """

    target: Any
    weight: Any
    cap: Any
    scale: Any
    row: float
    message: float
    nonzero: float
    own_row: float
    ceiling: float
    pressure: float
    fees: Any


@njit(cache=True, nogil=True)
def _update(q: int, state: Any, prices: Any, toll: Any) -> None:
    """Bring the tolls of part q up to date."""
    # Loads of both sides: OUT and INTO; their excess over the ceiling gives GIVE and TAKE.
    load = float(state.sums[q])
    nonzero = prices.nonzero * prices.scale[q]
    own = nonzero * load + prices.own_row * prices.scale[q] * state.rows[q]
    toll[OUT, q] = own + prices.row * state.sent[q] + prices.message * state.messages_sent[q]
    toll[INTO, q] = own + prices.row * state.received[q]
    toll[INTO, q] += prices.message * state.messages_received[q]
    toll[GIVE, q] = prices.pressure * max(0.0, toll[OUT, q] - prices.ceiling)
    toll[TAKE, q] = prices.pressure * max(0.0, toll[INTO, q] - prices.ceiling)
    strain = nonzero * (toll[GIVE, q] + toll[TAKE, q])
    # The price rises linearly with the weight; a move by one costs its value at the midpoint,
    # half a nonzero above (BURDEN) or below (RELIEF) the present load.
    toll[BURDEN, q] = strain + prices.weight[q] * max(0.0, load + 0.5 - prices.target[q])
    toll[RELIEF, q] = strain + prices.weight[q] * max(0.0, load - 0.5 - prices.target[q])
    if load + 1 > prices.cap[q]:
        toll[BURDEN, q] = np.inf


@njit(cache=True, nogil=True)
def _lighter(r: int, q: int, state: Any, prices: Any) -> bool:
    """Whether part r has fewer nonzeros than part q, over their capacities."""
    return state.sums[r] * prices.scale[r] < state.sums[q] * prices.scale[q]


@njit(cache=True, nogil=True)
def _tolls(state: Any, prices: Any) -> Any:
    toll = np.empty((6, len(state.sums)))
    for q in range(len(state.sums)):
        _update(q, state, prices, toll)
    return toll


@njit(cache=True, nogil=True)
def _move(k: int, there: int, pattern: Any, state: Any, prices: Any, toll: Any) -> None:
    here = state.nonzeros[k]
    move(k, there, pattern, state)
    row, column = state.owner[pattern.row[k]], state.owner[pattern.column[k]]
    # Parts that the move changes: both ends, and the owners that send or receive for it.
    for q in (here, np.int32(there), row, column):
        _update(q, state, prices, toll)


@njit(cache=True, nogil=True)
def _move_owner(v: int, there: int, pattern: Any, state: Any, prices: Any, toll: Any) -> None:
    n = len(state.owner)
    here = state.owner[v]
    move_owner(v, there, pattern, state)
    _update(here, state, prices, toll)
    # All parts that the two nets touch trade with another part now.
    for e in (v, n + v):
        for s in range(state.slot_ptr[e], last_slot(e, state)):
            if state.count[s] > 0:
                _update(state.part[s], state, prices, toll)


@njit(cache=True, nogil=True)
def _touched(e: int, state: Any, parts: Any) -> Any:
    """The parts that net e touches, ascending, in the first places of `parts`: for short nets."""
    num = 0
    for s in range(state.slot_ptr[e], last_slot(e, state)):
        if state.count[s] > 0:
            at = num
            # insertion sort: few parts
            while at > 0 and parts[at - 1] > state.part[s]:
                parts[at] = parts[at - 1]
                at -= 1
            parts[at] = state.part[s]
            num += 1
    return parts[:num]


@njit(cache=True, nogil=True)
def _charged(state: Any, prices: Any) -> bool:
    """Whether messages have a price."""
    return state.pair.shape[1] > 0 and (prices.message > 0.0 or prices.fees[0] > 0.0)


@njit(cache=True, nogil=True)
def _fee(step: int, q: int, m: int, more: int, pair: Any, prices: Any, toll: Any) -> float:
    """Cost that messages add to the next row (`more` 0), or to the last one (-1).

    Of a net whose owner is part q, in part m; `step` is 1 in the expand, 0 in the fold.
    """
    sender, receiver = (q, m) if step == 1 else (m, q)
    rows = pair[step, sender, receiver] + more
    cost = prices.fees[max(0, min(rows, len(prices.fees) - 1))]
    # the row opens (or closes) the message
    if rows == 0:
        cost += prices.message * (toll[GIVE, sender] + toll[TAKE, receiver])
    return cost


@njit(cache=True, nogil=True)
def _saved(e: int, q: int, state: Any, prices: Any, toll: Any) -> float:
    """Cost that net e saves when it leaves part q, not its owner's."""
    n = len(state.owner)
    # Nets below n are rows (fold: parts send to the owner), from n on columns (expand: the
    # owner sends to parts); `GIVE + step` and `TAKE - step` are the tolls of either direction.
    owner, step = state.owner[e % n], 1 if e >= n else 0
    cost = 1.0 + prices.row * (toll[GIVE + step, q] + toll[TAKE - step, owner])
    if _charged(state, prices):
        cost += _fee(step, owner, q, -1, state.pair, prices, toll)
    return cost


@njit(cache=True, nogil=True)
def _load_counts(e: int, state: Any, mine: Any) -> None:
    """Pins of net e by part; `_clear_counts` sets them back to 0."""
    for s in range(state.slot_ptr[e], last_slot(e, state)):
        mine[state.part[s]] = state.count[s]


@njit(cache=True, nogil=True)
def _clear_counts(e: int, state: Any, mine: Any) -> None:
    for s in range(state.slot_ptr[e], last_slot(e, state)):
        mine[state.part[s]] = 0


@njit(cache=True, nogil=True)
def sweep_nets(order: Any, pattern: Any, state: Any, prices: Any, anywhere: bool) -> int:
    """Move nonzeros of the nets in `order`, one by one and then part by part, where that gains.

    With `anywhere` a nonzero of an overweight part may also go to the lightest part.

    Returns how many nonzeros moved.
    """
    num_parts = len(state.sums)
    toll = _tolls(state, prices)
    mine = np.zeros(num_parts, dtype=np.int64)
    theirs = np.zeros(num_parts, dtype=np.bool_)
    added = np.zeros(num_parts, dtype=np.int64)
    size = np.zeros(num_parts, dtype=np.int64)
    end = np.empty(num_parts, dtype=np.int64)
    every, some = np.arange(num_parts), np.empty(num_parts, dtype=np.int64)
    longest = 0
    for e in order:
        longest = max(longest, pattern.net_ptr[e + 1] - pattern.net_ptr[e])
    by_part = np.empty(longest, dtype=np.int64)
    goal = np.empty(longest, dtype=np.int32)
    # The net, and the moves made, when a nonzero of a part was tried in vain whose other net is
    # within that part: the next such nonzero of the part fares the same.
    idle_net = np.full(num_parts, -1, dtype=np.int64)
    idle = np.zeros(num_parts, dtype=np.int64)
    moved = 0
    for e in order:
        first, last = pattern.net_ptr[e], pattern.net_ptr[e + 1]
        _load_counts(e, state, mine)
        lightest = np.argmin(state.sums * prices.scale) if anywhere else -1
        for a in range(first, last):
            k = pattern.pins[a]
            if not pattern.movable[k]:
                continue
            q, f = state.nonzeros[k], other(k, e, pattern)
            within = state.spread[f] == 1
            if within and idle_net[q] == e and idle[q] == moved:
                continue
            saved = toll[RELIEF, q]
            # The nonzero is the last pin of a net in q: the net leaves q with it.
            if mine[q] == 1:
                saved += _saved(e, q, state, prices, toll)
            if pins_in(f, q, state) == 1:
                saved += _saved(f, q, state, prices, toll)
            # nothing to gain, and no weight to lose
            if saved <= TINY and state.sums[q] <= prices.target[q]:
                continue
            r = _best_part(e, f, q, saved, lightest, mine, theirs, state, prices, toll)
            if r >= 0:
                _move(k, r, pattern, state, prices, toll)
                mine[q] -= 1
                mine[r] += 1
                moved += 1
            elif within:
                idle_net[q], idle[q] = e, moved
        if state.spread[e] > 1:
            # Then part by part. A counting sort of the pins of the net by their part.
            short = SHORT * (last - first) < num_parts
            parts = _touched(e, state, some) if short else every
            for a in range(first, last):
                size[state.nonzeros[pattern.pins[a]]] += 1
            total = 0
            for q in parts:
                end[q] = total
                total += size[q]
            for a in range(first, last):
                k = pattern.pins[a]
                by_part[end[state.nonzeros[k]]] = k
                end[state.nonzeros[k]] += 1
            owner = state.owner[e % len(state.owner)]
            for q in parts:
                pins = by_part[end[q] - size[q] : end[q]]
                size[q] = 0
                # Others may have come to q from parts before it: then it waits for a next sweep.
                if q != owner and 0 < mine[q] == len(pins):
                    moved += _leave(e, q, pins, mine, added, goal, pattern, state, prices, toll)
        _clear_counts(e, state, mine)
    return moved


@njit(cache=True, nogil=True)
def _best_part(  # type: ignore[no-untyped-def]
    e, f, q, saved, lightest, mine, theirs, state, prices, toll
):
    """The part that a nonzero of nets e and f in part q should move to, or -1.

    `saved` is what its leaving q saves; `mine` counts the pins of e by part; `theirs` is all false,
    before and after.
    """
    n = len(state.owner)
    paired = _charged(state, prices)
    step_e, step_f = (1, 0) if e >= n else (0, 1)
    owner_e, owner_f = state.owner[e % n], state.owner[f % n]
    base_e = 1.0 + prices.row * toll[TAKE - step_e, owner_e]
    base_f = 1.0 + prices.row * toll[TAKE - step_f, owner_f]
    best, least = -1, np.inf
    # Parts that the other net f touches already: it costs no row there.
    for s in range(state.slot_ptr[f], last_slot(f, state)):
        r = state.part[s]
        if state.count[s] == 0 or r == q:
            continue
        theirs[r] = True
        cost = toll[BURDEN, r]
        if mine[r] == 0:
            cost += base_e + prices.row * toll[GIVE + step_e, r]
            if paired and cost <= least:
                cost += _fee(step_e, owner_e, r, 0, state.pair, prices, toll)
        if cost < least or (cost == least and best >= 0 and _lighter(r, best, state, prices)):
            best, least = r, cost
    # If those are not free: parts that only e touches, where f costs a row.
    heavy = state.sums[q] > prices.target[q]
    if least > TINY and (heavy or saved > base_f - TINY):
        for s in range(state.slot_ptr[e], last_slot(e, state)):
            r = state.part[s]
            if state.count[s] == 0 or theirs[r] or r == q:
                continue
            cost = toll[BURDEN, r] + base_f + prices.row * toll[GIVE + step_f, r]
            if paired and cost <= least:
                cost += _fee(step_f, owner_f, r, 0, state.pair, prices, toll)
            if cost < least or (cost == least and best >= 0 and _lighter(r, best, state, prices)):
                best, least = r, cost
        # A part that neither touches costs two rows: only to relieve an overweight part.
        r = lightest
        if heavy and r >= 0 and mine[r] == 0 and not theirs[r]:
            cost = toll[BURDEN, r] + base_e + base_f
            cost += prices.row * (toll[GIVE, r] + toll[TAKE, r])
            if paired:
                cost += _fee(step_e, owner_e, r, 0, state.pair, prices, toll)
                cost += _fee(step_f, owner_f, r, 0, state.pair, prices, toll)
            if cost < least:
                best, least = r, cost
    for s in range(state.slot_ptr[f], last_slot(f, state)):
        theirs[state.part[s]] = False
    if best < 0 or least > saved + TINY:
        return -1
    # A move that saves nothing must even out the weights, or sweeps would not end.
    after = (state.sums[best] + 1) * prices.scale[best]
    if saved <= TINY and after >= state.sums[q] * prices.scale[q]:
        return -1
    return best


@njit(cache=True, nogil=True)
def _leave(  # type: ignore[no-untyped-def]
    e, q, pins, mine, added, goal, pattern, state, prices, toll
):
    """Move all nonzeros of net e in part q, not its owner's, to its other parts, if that gains.

    Returns how many nonzeros moved.

    Parameters:
        pins (int64[m]): These nonzeros.
        mine (int64[num_parts]): Pins of e by part; kept up to date.
        added (int64[num_parts]): Zero, before and after.
        goal (int32[at least m]): Scratch.
    """
    n = len(state.owner)
    owner = state.owner[e % n]
    paired = _charged(state, prices)
    step = 0 if e >= n else 1  # of the other nets
    value = _saved(e, q, state, prices, toll)
    relief = toll[RELIEF, q]
    # Bound for giving up early: all nonzeros that are left save this much each, at most.
    most = 1.0 + relief + prices.fees[0]  # that a nonzero can save, unless loads have a price
    if prices.pressure > 0.0:
        most = np.inf
    if len(pins) >= SHORT and _stuck(e, q, pins, pattern, state, value, relief, most):
        return 0
    chosen = 0
    for k in pins:
        if not pattern.movable[k] or value + (len(pins) - chosen) * most <= TINY:
            value = -np.inf
            break
        f = other(k, e, pattern)
        owner_f = state.owner[f % n]
        best, least = -1, np.inf
        value += relief
        # The cheapest part that both nets touch.
        for s in range(state.slot_ptr[f], last_slot(f, state)):
            r = state.part[s]
            if mine[r] == 0 or state.count[s] == 0:
                continue
            if r == q:
                if state.count[s] == 1:
                    value += _saved(f, q, state, prices, toll)
            elif state.sums[r] + added[r] + 1 <= prices.cap[r]:
                cost = toll[BURDEN, r] + prices.weight[r] * added[r] * (toll[BURDEN, r] > 0)
                if cost < least:
                    best, least = r, cost
        # None: the cheapest part of e, where f costs one row more.
        if best < 0:
            base = 1.0 + prices.row * toll[TAKE - step, owner_f]
            for s in range(state.slot_ptr[e], last_slot(e, state)):
                r = state.part[s]
                free = prices.weight[r] == 0.0
                if r == q or state.count[s] == 0 or (best == owner and free):
                    continue
                if state.sums[r] + added[r] + 1 > prices.cap[r]:
                    continue
                cost = toll[BURDEN, r] + prices.weight[r] * added[r] * (toll[BURDEN, r] > 0)
                cost += base + prices.row * toll[GIVE + step, r]
                if paired and r != owner_f and cost <= least:
                    cost += _fee(step, owner_f, r, 0, state.pair, prices, toll)
                if cost < least or (r == owner and cost == least):
                    best, least = r, cost
        if best < 0:
            value = -np.inf
            break
        value -= least
        goal[chosen] = best
        added[best] += 1
        chosen += 1
    # All or nothing: only when the last nonzero leaves, e saves its row in q.
    for t in range(chosen):
        added[goal[t]] = 0
    if value <= TINY:
        return 0
    for t in range(chosen):
        _move(pins[t], goal[t], pattern, state, prices, toll)
        mine[goal[t]] += 1
    mine[q] -= chosen
    return chosen


@njit(cache=True, nogil=True)
def _stuck(  # type: ignore[no-untyped-def]
    e, q, pins, pattern, state, value, relief, most
):
    """Whether net e cannot leave part q with gain, since most other nets of `pins` are within q.

    Such a net is cut when its nonzero leaves, which costs a row. `value` is what e itself saves;
    `most` what one nonzero can save if it is the last that its other net has in q.
    """
    for k in pins:
        f = other(k, e, pattern)
        # The same sum as in `_leave`, bounded above without looking at parts.
        value += relief
        if pins_in(f, q, state) == 1:
            if most == np.inf:
                return False
            value += most - relief
        elif state.spread[f] == 1:
            value -= 1.0
    return value <= 0.0


@njit(cache=True, nogil=True)
def sweep_owners(order: Any, pattern: Any, state: Any, prices: Any) -> int:
    """Give the vertices in `order` other owners where that gains; returns how many moved.

    The nonzeros that a row or a column has in the old owner's part come along, or go to other
    parts, if all of them can leave that part with gain. Fees are not looked at.
    """
    n, num_parts = len(state.owner), len(state.sums)
    toll = _tolls(state, prices)
    mine = np.zeros((2, num_parts), dtype=np.int64)
    bonus = np.zeros((2, num_parts))
    added = np.zeros(num_parts, dtype=np.int64)
    longest = 0
    for v in order:
        for e in (v, n + v):
            longest = max(longest, pattern.net_ptr[e + 1] - pattern.net_ptr[e])
    pins = np.empty((2, longest), dtype=np.int64)
    goal = np.empty(longest, dtype=np.int32)
    base, num = np.zeros(2), np.zeros(2, dtype=np.int64)
    moved = 0
    for v in order:
        q = state.owner[v]
        if not pattern.free[v] or state.rows[q] == 1:
            continue
        # row and column are within one part: nothing to gain
        if state.spread[v] == 1 and state.spread[n + v] == 1:
            continue
        for side in range(2):
            e = v + side * n
            _load_counts(e, state, mine[side])
            base[side], num[side] = _staying(
                e, q, pins[side], mine[side], bonus[side], pattern, state, toll
            )
        weight = 1 if pattern.diagonal[v] >= 0 else 0
        best = _best_owner(v, q, weight, mine, base, num, bonus, state, prices, toll)
        for side in range(2):
            _clear_counts(v + side * n, state, mine[side])
            bonus[side] = 0.0
        if best < 0:
            continue
        # Try: move the owner, then the nonzeros. If these stay and more parts are touched than
        # before, take the move back.
        before = state.spread[v] + state.spread[n + v]
        _move_owner(v, best, pattern, state, prices, toll)
        left = 0
        for side in range(2):
            e = v + side * n
            if num[side] > 0:
                found = pins[side, : num[side]]
                _load_counts(e, state, mine[side])
                left += _leave(e, q, found, mine[side], added, goal, pattern, state, prices, toll)
                _clear_counts(e, state, mine[side])
        if left == 0 and state.spread[v] + state.spread[n + v] > before:
            _move_owner(v, q, pattern, state, prices, toll)
        else:
            moved += 1
    return moved


@njit(cache=True, nogil=True)
def _staying(
    e: int, q: int, pins: Any, mine: Any, bonus: Any, pattern: Any, state: Any, toll: Any
) -> Any:
    """Gain of moving all that net e has in its owner's part q, but for the owner's pins.

    Fills `pins` with these nonzeros and `bonus` with what more it gains, by part, when the net
    touches that part too.

    Returns:
        base, num: -inf where some of them may not move; and how many they are.
    """
    num, base = 0, 0.0
    for a in range(pattern.net_ptr[e], pattern.net_ptr[e + 1]):
        k = pattern.pins[a]
        if state.nonzeros[k] != q or pattern.row[k] == pattern.column[k]:
            continue
        pins[num] = k
        num += 1
        if not pattern.movable[k]:
            base = -np.inf
        if base == -np.inf:
            continue
        f = other(k, e, pattern)
        base += toll[RELIEF, q]
        start, end = state.slot_ptr[f], last_slot(f, state)
        # `kept`: the other net stays in a part that e touches too, so the nonzero can go there.
        kept = False
        for s in range(start, end):
            count, r = state.count[s], state.part[s]
            if r == q:
                base += count == 1
            else:
                kept |= count > 0 and mine[r] > 0
        if not kept:
            base -= 1.0
            for s in range(start, end):
                if state.count[s] > 0:
                    bonus[state.part[s]] += 1.0
    return base, num


@njit(cache=True, nogil=True)
def _best_owner(  # type: ignore[no-untyped-def]
    v, q, weight, mine, base, num, bonus, state, prices, toll
):
    """The part that vertex v of part q should move to, with its `weight` nonzeros; or -1."""
    n = len(state.owner)
    best, best_value = -1, TINY
    for r in range(len(state.sums)):
        if r == q or state.sums[r] + weight > prices.cap[r]:
            continue
        burden = toll[BURDEN, r] if prices.weight[r] > 0.0 or prices.nonzero > 0.0 else 0.0
        value = weight * (toll[RELIEF, q] - burden)
        sent_here = received_here = sent_there = received_there = 0  # more rows at q and at r
        for side in range(2):
            before = state.spread[v + side * n] - 1
            # whether the net leaves part q: it has nothing there but the owner, or all of that goes
            left = num[side] == 0
            if not left and state.sums[r] + weight + num[side] <= prices.cap[r]:
                gain = 1.0 + base[side] + bonus[side, r] - burden * num[side]
                if gain > TINY:
                    left = True
                    value += gain - 1.0
            # The net touched `before` parts beside the owner's, and `after` parts then.
            enters = mine[side, r] == 0
            after = before + enters - left
            value += before - after
            # The other parts that the net touches trade with r instead of q; q may be among them.
            if side == 0:
                received_here -= before
                received_there += after
                sent_here += not left
                sent_there -= not enters
            else:
                sent_here -= before
                sent_there += after
                received_here += not left
                received_there -= not enters
        if value > best_value or prices.pressure > 0.0:
            if prices.pressure > 0.0:
                value -= _strain(toll[OUT, q], prices.row * sent_here, prices)
                value -= _strain(toll[INTO, q], prices.row * received_here, prices)
                value -= _strain(toll[OUT, r], prices.row * sent_there, prices)
                value -= _strain(toll[INTO, r], prices.row * received_there, prices)
            if value > best_value:
                best, best_value = r, value
    return best


@njit(cache=True, nogil=True)
def _strain(load: float, more: float, prices: Any) -> float:
    """Cost of more load on one side of a part."""
    cost = penalty(load + more, prices.ceiling, prices.pressure)
    return cost - penalty(load, prices.ceiling, prices.pressure)
