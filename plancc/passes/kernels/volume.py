"""Moves that lower the volume, with a price on overweight parts.

What a sweep minimises is ``volume + sum over parts and constraints of
price / 2 * max(0, weight - target)^2``: low prices let parts grow while vertices find better
places, high prices bring the balance back where that costs least volume. Counts must be of pins: on
coarse levels of nets with sizes they are not, and these kernels must not be used.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.state import move, must_stay, pins_in
from plancc.passes.presets import BLOCKED_PINS, BLOCKS, LISTED, PENALTY_ROUNDING, STRIDE, TINY


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

    Returns:
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
        # A move loses cost where the net does not touch q yet: -cost for all, and +cost in
        # `score[q]` for parts that it touches.
        base -= cost
        if spread == 1:
            continue
        start = state.slot_ptr[e]
        # A net with a slot for every part has its counts by part; others list their parts.
        if state.slot_ptr[e + 1] - start == num_parts:
            # v is the last pin of its part: the part needs the row no longer.
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
def _add_where(cost: Any, count: Any, score: Any) -> None:
    """Add `cost` to the scores of all parts whose `count` is above 0; LLVM vectorises it."""
    for q in range(len(score)):
        score[q] += cost if count[q] > 0 else 0 * cost


@njit(cache=True, nogil=True)
def _count_above(least: Any, score: Any) -> int:
    """Number of scores of at least `least`; LLVM vectorises it."""
    found = 0
    for q in range(len(score)):
        found += score[q] >= least
    return found


@njit(cache=True, nogil=True)
def _score(v: int, nets: Any, state: Any, score: Any, seen: Any) -> Any:
    """`rate`, quicker: parts are no longer listed once they are many.

    Parameters:
        score (int32[num_parts] or int64[num_parts]): All 0; the costs of v's nets together must
            fit.
        seen (int64[num_parts + 1], or int64[0]): Empty: parts are never listed.

    Returns:
        num, base, everywhere: Number of parts in `seen`; -1: all parts whose score is above 0, or
            all parts if `everywhere`, which says that every cut net of v touches every part; 0: v
            has no cut net.
    """
    here = state.owner[v]
    num_parts = len(score)
    base, num, most = np.int64(0), 0, len(seen) // LISTED
    listing, full, some = most > 0, False, False
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        cost = nets.cost[e]
        spread = state.spread[e]
        if spread == num_parts:
            base += cost
        # as in `rate`
        base -= cost
        if spread == 1:
            continue
        start, end = state.slot_ptr[e], state.slot_ptr[e + 1]
        if end - start == num_parts:
            if state.count[start + here] == 1:
                base += cost
            if spread == num_parts:
                full = True
                continue
            # A net of many parts: adding to all scores at once is quicker than a list.
            some, listing = True, False
            _add_where(score.dtype.type(cost), state.count[start:end], score)
            continue
        some = True
        step = score.dtype.type(cost)
        end = start + spread
        if listing:
            for k in range(start, end):
                q = state.part[k]
                # Written always, counted only at the first touch: no branch.
                seen[num] = q
                num += score[q] == 0
                score[q] += step
                if q == here and state.count[k] == 1:
                    base += cost
            listing = num <= most
        else:
            parts, at = state.part[start:end], 0
            for k in range(spread):
                q = np.uint32(parts[k])  # no check for negative indices
                score[q] += step
                at = k if q == here else at  # no branch, hard to predict
            if state.count[start + at] == 1:
                base += cost
    if some:
        return (num if listing else -1), base, False
    return (-1 if full else 0), base, True


@njit(cache=True, nogil=True)
def _first_of(tied: Any, v: int, nets: Any, state: Any, score: Any) -> int:
    """The part among `tied` that `rate` lists first; their scores are set to -1."""
    # The tie is broken as if the parts had been listed, so that both ways give the same plan.
    for k in range(len(tied)):
        score[tied[k]] = -1
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        start, spread = state.slot_ptr[e], state.spread[e]
        if state.slot_ptr[e + 1] - start == len(score):
            if spread < len(score):
                for k in range(len(tied)):  # ascending
                    if state.count[start + tied[k]] > 0:
                        return tied[k]
        elif spread > 1:
            for k in range(start, start + spread):
                if score[state.part[k]] == -1:
                    return state.part[k]
    return tied[0]


@njit(cache=True, nogil=True)
def value_in(v: int, q: int, value: float, nets: Any, state: Any, bounds: Any) -> float:
    """`value` less what the penalty rises when v enters part q."""
    for c in range(bounds.target.shape[1]):
        w, full = nets.weight[v, c], state.sums[q, c]
        value -= penalty(full + w, bounds.target[q, c], bounds.price[q, c])
        value += penalty(full, bounds.target[q, c], bounds.price[q, c])
    return value


@njit(cache=True, nogil=True)
def saving(v: int, nets: Any, state: Any, bounds: Any) -> Any:
    """What the penalty falls when v leaves its part, and whether v must stay (`must_stay`)."""
    here, saved = state.owner[v], 0.0
    for c in range(bounds.target.shape[1]):
        w, full = nets.weight[v, c], state.sums[here, c]
        t, p = bounds.target[here, c], bounds.price[here, c]
        saved += penalty(full, t, p) - penalty(full - w, t, p)
    return saved, must_stay(v, nets, state)


@njit(cache=True, nogil=True)
def _choose(  # type: ignore[no-untyped-def]
    v, found, nets, state, bounds, highest, score, seen
):
    """The best part for a vertex; sets its scores back to 0.

    Parameters:
        v: int.
        found (tuple): What `_score` returned; num is not 0.
        highest (float): No part has a higher penalty.

    Returns:
        part, gain, evaluations: Part -1: v stays.
    """
    num, base, everywhere = found
    here, num_parts = state.owner[v], len(score)
    saved, alone = saving(v, nets, state, bounds)
    # Penalties only take from gain + saved, but for rounding: most parts need none.
    slack = PENALTY_ROUNDING * (abs(saved) + abs(base) + highest)
    best, best_gain, best_value, evaluations = -1, np.int64(0), 0.0, 0
    num_tied = 0
    if num >= 0:
        # A part can win only if its rows reach `least`; the bound rises with the best value.
        least = -slack - saved - base
        for k in range(num):
            q = seen[k]
            rows = score[q]
            score[q] = 0
            if rows < least or q == here or alone or not fits(v, q, nets, state, bounds.cap):
                continue
            value = value_in(v, q, base + rows + saved, nets, state, bounds)
            if best < 0 or value > best_value:
                best, best_gain, best_value = q, base + rows, value
                least = max(least, value - slack - saved - base)
        evaluations = 0 if alone else num - 1
    elif not alone:
        # Too many parts to list: skip strides in which no score reaches the bound.
        one = score.dtype.type(0 if everywhere else 1)
        evaluations = _count_above(one, score) - 1
        enough = score.dtype.type(np.ceil(max(float(one), -slack - saved - base)))
        for begin in range(0, num_parts, STRIDE):
            end = min(begin + STRIDE, num_parts)
            if _count_above(enough, score[begin:end]) == 0:
                continue
            for q in range(begin, end):
                rows = score[q]
                if rows < enough or q == here or not fits(v, q, nets, state, bounds.cap):
                    continue
                value = value_in(v, q, base + rows + saved, nets, state, bounds)
                if best < 0 or value > best_value:
                    best, best_gain, best_value = q, base + rows, value
                    least = max(float(enough), value - slack - saved - base)
                    enough = score.dtype.type(np.ceil(least))
                    num_tied = 0
                if value == best_value:
                    seen[num_tied] = q
                    num_tied += 1
    # A move of value 0 counts only if it evens out the weights.
    stays = best < 0 or best_value < 0
    if not stays and num_tied > 1 and not everywhere:
        best = _first_of(seen[:num_tied], v, nets, state, score)
    if num < 0:
        score[:] = 0
    if stays or (best_value == 0 and not lightens(v, best, nets, state, bounds.scale)):
        return -1, np.int64(0), evaluations
    return best, best_gain, evaluations


def sweep(order: Any, nets: Any, state: Any, bounds: Any, threads: int = 1) -> Any:
    """Move every vertex in `order` to the part where volume and penalty fall most, if any.

    No move takes the last weight out of a part. Where there are many pins, the vertices of a block
    choose their parts all at once, on as many threads as there are, and move one after the other:
    whoever gains nothing by then chooses again. The moves are the same with any number of threads.

    Parameters:
        order: int64[m].
        bounds: plancc.models.limits.Bounds.
        threads: int, default 1.

    Returns:
        moved, gained, evaluations: Vertices moved, rows saved, and pairs of vertex and part whose
            gain was computed.
    """
    kind = _score_type(nets)
    degree = np.cumsum(nets.vertex_ptr[order + 1] - nets.vertex_ptr[order])
    if len(order) < BLOCKS or degree[-1] < BLOCKED_PINS:
        return _sweep(order, nets, state, bounds, np.zeros(len(state.sums), dtype=kind))
    scores = np.zeros((threads, len(state.sums)), dtype=kind)
    best = np.empty(len(order), dtype=np.int32)
    total = np.zeros(3, dtype=np.int64)
    with ThreadPoolExecutor(threads) as pool:
        for block in np.array_split(np.arange(len(order)), BLOCKS):
            begin, end = int(block[0]), int(block[-1]) + 1
            # Threads get about the same number of pins each.
            goals = np.linspace(degree[begin], degree[end - 1], threads + 1)[1:-1]
            ends = [begin, *(begin + np.searchsorted(degree[begin:end], goals)), end]
            tasks = [
                pool.submit(_choose_all, order[i:j], best[i:j], nets, state, bounds, score)
                for (i, j), score in zip(pairwise(ends), scores, strict=True)
            ]
            tried = sum(task.result() for task in tasks)
            done = _move_all(order[begin:end], best[begin:end], nets, state, bounds, scores[0])
            total += [*done[:2], tried + done[2]]
    return tuple(total.tolist())


def _score_type(nets: Any) -> Any:
    """The smallest type that holds the costs of the nets of any vertex together."""
    most = int(nets.cost.max(initial=0)) * int(np.diff(nets.vertex_ptr).max(initial=0))
    return np.int32 if most <= np.iinfo(np.int32).max else np.int64


@njit(cache=True, nogil=True)
def _sweep(order: Any, nets: Any, state: Any, bounds: Any, score: Any) -> Any:
    """`sweep` with room for scores: 0, one per part."""
    num_parts, num_constraints = state.sums.shape
    seen = np.empty(num_parts + 1, dtype=np.int64)
    moved, gained, evaluations = 0, np.int64(0), 0
    idle = np.full(num_parts, -1, dtype=np.int64)  # moves made when all parts were tried in vain
    idle_base = np.zeros(num_parts, dtype=np.int64)
    idle_weight = np.zeros((num_parts, num_constraints), dtype=np.int64)
    highest = _highest(state, bounds)
    for v in order:
        found = _score(v, nets, state, score, seen)
        num, base, everywhere = found
        if num == 0:
            continue
        here = state.owner[v]
        # Its cut nets touch every part: all parts gain the same, as they do for others like it.
        if everywhere and idle[here] == moved and idle_base[here] == base:
            same = True
            for c in range(num_constraints):
                same &= idle_weight[here, c] == nets.weight[v, c]
            if same:
                continue
        best, gain, tried = _choose(v, found, nets, state, bounds, highest, score, seen)
        evaluations += tried
        if best < 0:
            if everywhere:
                # Nothing has moved since: such a vertex need not try again.
                idle[here], idle_base[here] = moved, base
                for c in range(num_constraints):
                    idle_weight[here, c] = nets.weight[v, c]
            continue
        move(v, best, nets, state)
        highest = max(highest, _penalties(best, state, bounds))
        moved += 1
        gained += gain
    return moved, gained, evaluations


@njit(cache=True, nogil=True)
def _choose_all(order: Any, best: Any, nets: Any, state: Any, bounds: Any, score: Any) -> int:
    """Write the best part of every vertex into `best`, -1 where it stays; returns evaluations."""
    seen = np.empty(len(score) + 1, dtype=np.int64)
    highest, evaluations = _highest(state, bounds), 0
    for k in range(len(order)):
        found = _score(order[k], nets, state, score, seen)
        best[k] = -1
        if found[0] != 0:
            best[k], _, tried = _choose(order[k], found, nets, state, bounds, highest, score, seen)
            evaluations += tried
    return evaluations


@njit(cache=True, nogil=True)
def _move_all(order: Any, best: Any, nets: Any, state: Any, bounds: Any, score: Any) -> Any:
    """Move vertices to the parts in `best`, or to others where these gain nothing any more.

    Returns:
        moved, gained, evaluations
    """
    seen = np.empty(len(score) + 1, dtype=np.int64)
    highest = _highest(state, bounds)
    moved, gained, evaluations = 0, np.int64(0), 0
    for k in range(len(order)):
        v, part = order[k], np.int64(best[k])
        if part < 0:
            continue
        # Others of the block have moved since v chose: look again at the chosen part.
        gain = gain_of(v, part, nets, state)
        saved, alone = saving(v, nets, state, bounds)
        evaluations += 1
        value = value_in(v, part, gain + saved, nets, state, bounds)
        fit = not alone and fits(v, part, nets, state, bounds.cap)
        if (
            not fit
            or value < 0
            or (value == 0 and not lightens(v, part, nets, state, bounds.scale))
        ):
            # The chosen part gains nothing any more: choose anew.
            found = _score(v, nets, state, score, seen)
            if found[0] == 0:
                continue
            part, gain, tried = _choose(v, found, nets, state, bounds, highest, score, seen)
            evaluations += tried
            if part < 0:
                continue
        move(v, part, nets, state)
        highest = max(highest, _penalties(part, state, bounds))
        moved += 1
        gained += gain
    return moved, gained, evaluations


@njit(cache=True, nogil=True)
def gain_of(v: int, there: int, nets: Any, state: Any) -> Any:
    """Rows that moving v to part `there` saves."""
    here, gain = state.owner[v], np.int64(0)
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        # +cost where v is the last pin here, -cost where it is the first one there
        gain += nets.cost[e] * (pins_in(e, here, state) == 1)
        gain -= nets.cost[e] * (pins_in(e, there, state) == 0)
    return gain


@njit(cache=True, nogil=True)
def _highest(state: Any, bounds: Any) -> float:
    """The highest penalty of any part."""
    highest = 0.0
    for q in range(len(state.sums)):
        highest = max(highest, _penalties(q, state, bounds))
    return highest


@njit(cache=True, nogil=True)
def _penalties(q: int, state: Any, bounds: Any) -> float:
    total = 0.0
    for c in range(bounds.target.shape[1]):
        total += penalty(state.sums[q, c], bounds.target[q, c], bounds.price[q, c])
    return total


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
    """Overload that v's part loses when v leaves it; 0 if v must stay."""
    here = state.owner[v]
    if must_stay(v, nets, state):
        return 0.0
    return _overload(state, here, v, 0, nets, limit) - _overload(state, here, v, -1, nets, limit)


@njit(cache=True, nogil=True)
def _burden(v: int, there: int, nets: Any, state: Any, limit: Any) -> float:
    """Overload that part `there` gains when v enters it."""
    return _overload(state, there, v, 1, nets, limit) - _overload(state, there, v, 0, nets, limit)


@njit(cache=True, nogil=True)
def _best_relief(v: int, nets: Any, state: Any, limit: Any, score: Any, seen: Any) -> Any:
    """The part to which v's move relieves its overweight part for the fewest rows.

    Returns:
        part, rows, relieved: Part -1: no move lowers the overload.
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
        # scores are set back as they are read
        score[q] = 0
        if q == here or (best >= 0 and gain <= best_gain):
            continue
        relief = most - _burden(v, q, nets, state, limit)
        if relief > TINY * most:
            best, best_gain, best_relief = q, gain, relief
    if best < 0:  # none that it has nets in: any part
        best_relief = TINY * most
        for q in range(len(state.sums)):
            if q != here:
                relief = most - _burden(v, q, nets, state, limit)
                if relief > best_relief:
                    best, best_gain, best_relief = q, base, relief
                    # no other part relieves more
                    if relief >= (1 - TINY) * most:
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
                # Cheap moves first: rows over relief; saved rows count more with more relief.
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
