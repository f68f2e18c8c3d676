"""Kernels that lower the volume; weight above a part's target has a price.

A sweep minimises the volume plus the penalty, which is the sum:

    sum over parts and constraints of price / 2 * max(0, weight - target)^2

The kernels must not run on coarse levels whose pins have sizes: there, `State.count` holds sums of
sizes, not pins.
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
    """Compute, for each part, how many rows a move of v to this part saves; return (num, base).

    A move to part q saves ``base + score[q]`` rows if q is in ``seen[:num]``, else `base` rows.
    ``seen[:num]`` has the parts that v's cut nets touch, also v's own part; nets that touch every
    part count only if v has no other cut nets. The caller resets the scores to 0.
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
            base += cost  # the net touches every part, so entering any part costs nothing
        # Entering a part that the net does not touch costs `cost`: subtract it for all parts, and
        # add it back in `score[q]` for parts that the net touches.
        base -= cost
        if spread == 1:
            continue
        start = state.slot_ptr[e]
        # A net with a slot for every part has its counts by part; other nets list their parts.
        if state.slot_ptr[e + 1] - start == num_parts:
            # If v is the last pin of its part, the part no longer needs the row.
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
    """Whether part q with v would be lighter than v's part is now, in the first constraint."""
    here = state.owner[v]
    after = (state.sums[q, 0] + nets.weight[v, 0]) * scale[q]
    return after < state.sums[here, 0] * scale[here]


@njit(cache=True, nogil=True)
def _add_where(cost: Any, count: Any, score: Any) -> None:
    """Add `cost` to the score of every part whose `count` is above 0; LLVM vectorises the loop."""
    for q in range(len(score)):
        score[q] += cost if count[q] > 0 else 0 * cost


@njit(cache=True, nogil=True)
def _count_above(least: Any, score: Any) -> int:
    """Return how many scores are not below `least`; LLVM vectorises the loop."""
    found = 0
    for q in range(len(score)):
        found += score[q] >= least
    return found


@njit(cache=True, nogil=True)
def _score(v: int, nets: Any, state: Any, score: Any, seen: Any) -> Any:
    """Compute the same scores as `rate`, but faster: if parts are many, `seen` does not list them.

    Returns:
        num: Number of parts listed in `seen`; 0 if v has no cut net; -1 if parts are not listed.
        base: See `rate`.
        everywhere: Whether every cut net of v touches every part.

    If num is -1, the parts that `rate` lists are all parts if `everywhere` is true, else the parts
    with a score above 0.
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
            # For a net of many parts, adding to all scores at once is faster than a list.
            some, listing = True, False
            _add_where(score.dtype.type(cost), state.count[start:end], score)
            continue
        some = True
        step = score.dtype.type(cost)
        end = start + spread
        if listing:
            for k in range(start, end):
                q = state.part[k]
                # Write the part always, but count it only at the first touch: no branch.
                seen[num] = q
                num += score[q] == 0
                score[q] += step
                if q == here and state.count[k] == 1:
                    base += cost
            listing = num <= most
        else:
            parts, at = state.part[start:end], 0
            for k in range(spread):
                q = np.uint32(parts[k])  # unsigned, so that no check for negative indices is made
                score[q] += step
                at = k if q == here else at  # compiles without a branch, which mispredicts often
            if state.count[start + at] == 1:
                base += cost
    if some:
        return (num if listing else -1), base, False
    return (-1 if full else 0), base, True


@njit(cache=True, nogil=True)
def _first_of(tied: Any, v: int, nets: Any, state: Any, score: Any) -> int:
    """Return the part in `tied` that comes first in the order in which `rate` lists parts.

    The parts in `tied` are equally good for v. Their entries in `score` become -1.
    """
    # So the tie is broken as if the parts had been listed, and both ways give the same plan.
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
    """Return `value` minus the amount by which the penalty rises when v enters part q."""
    for c in range(bounds.target.shape[1]):
        w, full = nets.weight[v, c], state.sums[q, c]
        value -= penalty(full + w, bounds.target[q, c], bounds.price[q, c])
        value += penalty(full, bounds.target[q, c], bounds.price[q, c])
    return value


@njit(cache=True, nogil=True)
def saving(v: int, nets: Any, state: Any, bounds: Any) -> Any:
    """Return how much the penalty falls when v leaves its part, and whether v must stay."""
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
    """Return the best part for v (-1: v stays), the rows that the move saves, and a number.

    The number counts the parts for which the gain of moving v was computed. v must have a cut net.
    `found` is the result of `_score` for v. `score` is reset to 0.
    """
    num, base, everywhere = found
    here, num_parts = state.owner[v], len(score)
    saved, alone = saving(v, nets, state, bounds)
    # Apart from rounding, a penalty only lowers gain + saved, so most parts need no penalty.
    slack = PENALTY_ROUNDING * (abs(saved) + abs(base) + highest)
    best, best_gain, best_value, evaluations = -1, np.int64(0), 0.0, 0
    num_tied = 0
    if num >= 0:
        # A part can win only if its score is at least `least`, which rises with the best value.
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
        # There are too many parts to list: skip strides in which no score reaches the bound.
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
    # A move of value 0 is made only if it improves the balance.
    stays = best < 0 or best_value < 0
    if not stays and num_tied > 1 and not everywhere:
        best = _first_of(seen[:num_tied], v, nets, state, score)
    if num < 0:
        score[:] = 0
    if stays or (best_value == 0 and not lightens(v, best, nets, state, bounds.scale)):
        return -1, np.int64(0), evaluations
    return best, best_gain, evaluations


def sweep(order: Any, nets: Any, state: Any, bounds: Any, threads: int = 1) -> Any:
    """Move every vertex in `order` to the part where volume plus penalty (see the module) is least.

    Returns three numbers: vertices moved, rows by which the volume falls, and gains computed. A
    vertex with all the weight of its part stays. The moves do not depend on `threads`.
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
            # Give every thread about the same number of pins.
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
    """Return int32 if it can hold, for every vertex, the total cost of its nets; else int64."""
    most = int(nets.cost.max(initial=0)) * int(np.diff(nets.vertex_ptr).max(initial=0))
    return np.int32 if most <= np.iinfo(np.int32).max else np.int64


@njit(cache=True, nogil=True)
def _sweep(order: Any, nets: Any, state: Any, bounds: Any, score: Any) -> Any:
    """Run `sweep` on one thread. `score` is working memory: an entry per part, all 0."""
    num_parts, num_constraints = state.sums.shape
    seen = np.empty(num_parts + 1, dtype=np.int64)
    moved, gained, evaluations = 0, np.int64(0), 0
    # `idle[q]`: number of moves made when a vertex in part q, whose cut nets touch every part, last
    # tried all parts without success; `idle_base`, `idle_weight`: base and weight of this vertex
    idle = np.full(num_parts, -1, dtype=np.int64)
    idle_base = np.zeros(num_parts, dtype=np.int64)
    idle_weight = np.zeros((num_parts, num_constraints), dtype=np.int64)
    highest = _highest(state, bounds)
    for v in order:
        found = _score(v, nets, state, score, seen)
        num, base, everywhere = found
        if num == 0:
            continue
        here = state.owner[v]
        # If v's cut nets touch every part, v gains as much as a vertex with equal base and weight.
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
                # Until the next move, such a vertex need not try again.
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
    """Write every vertex's best part (-1: stay) to `best`; return the number of gains computed."""
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
    """Move each vertex to its part in `best`; choose a part again if this move no longer helps.

    See `sweep`.
    """
    seen = np.empty(len(score) + 1, dtype=np.int64)
    highest = _highest(state, bounds)
    moved, gained, evaluations = 0, np.int64(0), 0
    for k in range(len(order)):
        v, part = order[k], np.int64(best[k])
        if part < 0:
            continue
        # Other vertices of the block have moved since v chose: rate the chosen part again.
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
            # The chosen part has no gain any more: choose again.
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
    """Return the number of rows that a move of v to part `there` saves."""
    here, gain = state.owner[v], np.int64(0)
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        # +cost if v is the last pin here, -cost if it becomes the first pin there
        gain += nets.cost[e] * (pins_in(e, here, state) == 1)
        gain -= nets.cost[e] * (pins_in(e, there, state) == 0)
    return gain


@njit(cache=True, nogil=True)
def _highest(state: Any, bounds: Any) -> float:
    """Return the penalty of the part that has the highest penalty."""
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
    """Return the overload of part q with v added (`sign` 1), removed (-1) or ignored (0)."""
    total = 0.0
    for c in range(limit.shape[1]):
        over = state.sums[q, c] + sign * nets.weight[v, c] - limit[q, c]
        if over > 0:
            total += over / max(limit[q, c], 1.0)
    return total


@njit(cache=True, nogil=True)
def _relief_here(v: int, nets: Any, state: Any, limit: Any) -> float:
    """Return how much the overload of v's part falls when v leaves; 0 if v must stay."""
    here = state.owner[v]
    if must_stay(v, nets, state):
        return 0.0
    return _overload(state, here, v, 0, nets, limit) - _overload(state, here, v, -1, nets, limit)


@njit(cache=True, nogil=True)
def _burden(v: int, there: int, nets: Any, state: Any, limit: Any) -> float:
    """Return how much the overload of part `there` rises when v enters."""
    return _overload(state, there, v, 1, nets, limit) - _overload(state, there, v, 0, nets, limit)


@njit(cache=True, nogil=True)
def _best_relief(v: int, nets: Any, state: Any, limit: Any, score: Any, seen: Any) -> Any:
    """Among the moves of v that lower the overload, find the move that costs the fewest rows.

    Returns:
        part, rows, relieved: Part, -1 if no move lowers the overload; rows that the move costs;
            fall of the overload.
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
        # reset each score after reading it
        score[q] = 0
        if q == here or (best >= 0 and gain <= best_gain):
            continue
        relief = most - _burden(v, q, nets, state, limit)
        if relief > TINY * most:
            best, best_gain, best_relief = q, gain, relief
    if best < 0:  # no part that v's nets touch relieves: try all parts
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
    """Return a number for each vertex, float64[num_vertices]: vertices with low numbers move first.

    Of the vertex's moves that lower the overload, take the cheapest; a is how much it lowers the
    overload. The vertex's number is r / a if this move costs r rows, and -r a if it saves r rows.
    The number is inf if there is no such move, or if the vertex's part is within its limits.
    """
    num_parts = len(state.sums)
    score = np.zeros(num_parts, dtype=np.int64)
    seen = np.empty(num_parts, dtype=np.int64)
    costs = np.full(len(state.owner), np.inf)
    for v in range(len(state.owner)):
        if _overload(state, state.owner[v], v, 0, nets, limit) > 0:
            q, rows, relieved = _best_relief(v, nets, state, limit, score, seen)
            if q >= 0:
                # Cheap moves come first: rows over relief, or rows times relief if rows are saved.
                costs[v] = rows / relieved if rows > 0 else rows * relieved
    return costs


@njit(cache=True, nogil=True)
def relieve(order: Any, nets: Any, state: Any, limit: Any) -> int:
    """Move vertices in `order` out of parts that still exceed `limit`; return how many moved."""
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
