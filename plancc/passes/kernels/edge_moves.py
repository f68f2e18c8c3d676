"""Kernels that move nonzeros and owners of rows, to lower the cost of an edge partition.

The cost is the volume, plus prices of overweight and traffic. Sweeps minimise::

    volume + sum over parts   weight / 2 * max(0, nonzeros - target)^2
                            + pressure / 2 * (excess(sent side)^2 + excess(received side)^2)
           + sum over pairs   fee(rows from q to m in one step)

    side   = row * rows + message * messages + scale * (nonzero * nonzeros + own_row * own rows)
    excess = max(0, side - ceiling)

A pair is a sender q and a receiver m. A side is what one part sends or receives. The factors and
bounds in the formulas are fields of `Prices`. Nets are the rows and columns of the matrix, as
defined in ``edges.py``. There are three kinds of moves:

- One nonzero moves.
- All nonzeros that a net has in one part move, so that the net leaves this part.
- A row gets another owner. Nonzeros of the row and of its column that are in the old owner's part
  move too, if this lowers the cost.

After every move, the loads of the parts are updated exactly. But a move is chosen by the prices of
traffic before the move.
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
"""Row numbers of the array of tolls, float64[6, num_parts]. For every part, BURDEN is the cost of
one more nonzero (inf if there is no room), RELIEF the cost saved by one nonzero less. GIVE and TAKE
are the costs of one more unit of load, sent and received. OUT and INTO are the loads of its two
sides."""


class Prices(NamedTuple):
    """Prices of overweight and traffic, as in the formula at the top of this module.

    Attributes:
        target (float64[num_parts]): Number of nonzeros up to which a part costs nothing.
        weight (float64[num_parts]): Price of nonzeros above the target.
        cap (float64[num_parts]): Number of nonzeros above which no move may fill a part.
        scale (float64[num_parts]): Mean capacity of the parts, divided by the part's capacity;
            multiplies nonzeros and loads before parts are compared.
        row, message, nonzero, own_row: Factors in the formula for the load of a side, which is what
            one part sends, or what it receives.
        ceiling, pressure: Load of a side above which it has a cost, and the price of the excess.
        fees (float64[m], m at least 1): Fee of row k of a message; never rises with k. The last
            applies to all further rows. Fees and prices of messages need ``EdgeState.pair``.
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
    """Compute column q of `toll`: the costs and loads of part q, in rows `BURDEN` to `INTO`."""
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
    """Whether part r has fewer nonzeros than part q, each divided by the part's capacity."""
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
    # All parts that the two nets touch now exchange rows with another part.
    for e in (v, n + v):
        for s in range(state.slot_ptr[e], last_slot(e, state)):
            if state.count[s] > 0:
                _update(state.part[s], state, prices, toll)


@njit(cache=True, nogil=True)
def _touched(e: int, state: Any, parts: Any) -> Any:
    """Write the parts of net e into `parts`, ascending, and return them; slow for many parts."""
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
    """Whether messages, or the rows of a message, have a price."""
    return state.pair.shape[1] > 0 and (prices.message > 0.0 or prices.fees[0] > 0.0)


@njit(cache=True, nogil=True)
def _fee(step: int, q: int, m: int, more: int, pair: Any, prices: Any, toll: Any) -> float:
    """Return the fee (`Prices.fees`) of a row that a message gains (`more` 0) or loses (-1).

    If the row is the message's only row, the price of a message is added. Part q owns the net's
    vertex. The message goes from q to m in the expand (`step` 1), from m to q in the fold (0).
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
    """Return the cost of net e that is saved if its nonzeros leave part q.

    Part q must not own the net's vertex.
    """
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
    """Write the number of pins of net e in every part into `mine`; `_clear_counts` resets it."""
    for s in range(state.slot_ptr[e], last_slot(e, state)):
        mine[state.part[s]] = state.count[s]


@njit(cache=True, nogil=True)
def _clear_counts(e: int, state: Any, mine: Any) -> None:
    for s in range(state.slot_ptr[e], last_slot(e, state)):
        mine[state.part[s]] = 0


@njit(cache=True, nogil=True)
def sweep_nets(order: Any, pattern: Any, state: Any, prices: Any, anywhere: bool) -> int:
    """Move nonzeros of the nets in `order` where this lowers the cost; return how many moved.

    If `anywhere`, a nonzero of an overweight part may also move to the lightest part.
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
    # `idle_net[q]` and `idle[q]`: the net, and the number of moves so far, at the last failed try
    # of a nonzero in part q whose other net is within q. Further such nonzeros would fail too.
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
                # If nonzeros came to q from parts before q, q waits for the next sweep.
                if q != owner and 0 < mine[q] == len(pins):
                    moved += _leave(e, q, pins, mine, added, goal, pattern, state, prices, toll)
        _clear_counts(e, state, mine)
    return moved


@njit(cache=True, nogil=True)
def _best_part(  # type: ignore[no-untyped-def]
    e, f, q, saved, lightest, mine, theirs, state, prices, toll
):
    """Return the best part for a nonzero that is in nets e and f and in part q; -1: it stays."""
    n = len(state.owner)
    paired = _charged(state, prices)
    step_e, step_f = (1, 0) if e >= n else (0, 1)
    owner_e, owner_f = state.owner[e % n], state.owner[f % n]
    base_e = 1.0 + prices.row * toll[TAKE - step_e, owner_e]
    base_f = 1.0 + prices.row * toll[TAKE - step_f, owner_f]
    best, least = -1, np.inf
    # Parts that the other net f touches already: f costs no row there.
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
    # If no such part is free: parts that only e touches, where f costs a row.
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
        # A part that neither net touches costs two rows: only to relieve an overweight part.
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
    # A move that saves nothing must improve the balance, or sweeps would not end.
    after = (state.sums[best] + 1) * prices.scale[best]
    if saved <= TINY and after >= state.sums[q] * prices.scale[q]:
        return -1
    return best


@njit(cache=True, nogil=True)
def _leave(  # type: ignore[no-untyped-def]
    e, q, pins, mine, added, goal, pattern, state, prices, toll
):
    """Move all nonzeros of net e out of part q if the cost falls; return how many moved.

    The nonzeros go to parts that e touches already. Part q must not own the net's vertex.
    """
    n = len(state.owner)
    owner = state.owner[e % n]
    paired = _charged(state, prices)
    step = 0 if e >= n else 1  # the step of the other nets
    value = _saved(e, q, state, prices, toll)
    relief = toll[RELIEF, q]
    # Upper bound of the saving by each remaining nonzero, to give up early. It does not hold if
    # loads have a price.
    most = 1.0 + relief + prices.fees[0]
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
        # If there is none: the cheapest part that e touches, where f costs one row more.
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
    """Whether it is certain that the cost would not fall if all nonzeros of net e left part q.

    `value` is the cost that this saves for net e itself. `relief` is the cost saved, per nonzero,
    because q has fewer nonzeros. A nonzero is a pin of two nets; `most` bounds the cost saved by
    moving a nonzero whose other net has no other pin in q.
    """
    for k in pins:
        f = other(k, e, pattern)
        # An upper bound of the sum in `_leave`, which visits no parts.
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
    """Change the owners of vertices in `order` where the cost falls; return how many changed.

    If it helps, nonzeros of the vertex's row and column leave the old part too. Fees of messages
    are ignored.
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
        # Try the move: first the owner, then the nonzeros. If the nonzeros stay and the two nets
        # touch more parts than before, undo the move.
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
    """Return the cost saved if net e leaves part q, and the number of nonzeros that move.

    Part q owns the net's vertex. The saving is -inf if a nonzero may not move. The indices of the
    nonzeros, without the diagonal, go into `pins`. ``bonus[r]`` rises by the cost that is saved in
    addition if they move to part r.
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
    """Return the part that should own vertex v instead of part q; -1 if no part is better."""
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
            # whether the net leaves part q: only the owner's pins are there, or all nonzeros leave
            left = num[side] == 0
            if not left and state.sums[r] + weight + num[side] <= prices.cap[r]:
                gain = 1.0 + base[side] + bonus[side, r] - burden * num[side]
                if gain > TINY:
                    left = True
                    value += gain - 1.0
            # Besides the owner's part, the net touches `before` parts now and `after` parts then.
            enters = mine[side, r] == 0
            after = before + enters - left
            value += before - after
            # The net's other parts then exchange rows with r instead of q; q may be among them.
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
    """Return how much the penalty rises if what a part sends (or receives) grows by `more`."""
    cost = penalty(load + more, prices.ceiling, prices.pressure)
    return cost - penalty(load, prices.ceiling, prices.pressure)
