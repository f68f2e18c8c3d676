"""Exchanges of few vertices between two parts that lower the overload for the fewest rows.

A part that is above a limit gives a vertex to a part with room, and takes none or one back. Under
several constraints single moves soon end, since parts are full by one of them; a heavy vertex for a
light one changes one weight and hardly the others. Two vertices for one balanced no graph of the
ablation (`python -m benchmarks ablation`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.state import move
from plancc.passes.kernels.volume import gain_of
from plancc.passes.presets import GROUP, MAX_STEPS, SAMPLE, TINY


class Chains(NamedTuple):
    """The vertices of every part, as lists linked both ways; -1 ends a list.

    Attributes:
        first: int32[num_parts].
        after, before: int32[num_vertices].
        size: int64[num_parts].
    """

    first: Any
    after: Any
    before: Any
    size: Any


class Rules(NamedTuple):
    """What an exchange must do.

    Attributes:
        limit (float64[num_parts, num_constraints]): What parts may weigh.
        unit (float64[num_parts, num_constraints]): What the overload counts a weight above it.
        share: An exchange must relieve its part by this share of its overload.
        tries: Parts with room that are looked at for every exchange.
    """

    limit: Any
    unit: Any
    share: float
    tries: int


class Scratch(NamedTuple):
    """Vertices of two parts that may be exchanged: what they weigh, what moving them saves."""

    vertices: Any
    weights: Any
    gains: Any


@njit(cache=True, nogil=True)
def chains(vertices: Any, owner: Any, num_parts: int) -> Any:
    """The vertices of every part: `Chains`. Only those in `vertices` are listed, the last first."""
    first = np.full(num_parts, -1, dtype=np.int32)
    after = np.full(len(owner), -1, dtype=np.int32)
    before = np.full(len(owner), -1, dtype=np.int32)
    size = np.zeros(num_parts, dtype=np.int64)
    found = Chains(first, after, before, size)
    # linked in front of the list, so the last vertex comes first
    for v in vertices:
        _link(v, owner[v], found)
    return found


@njit(cache=True, nogil=True)
def _link(v: int, q: int, chain: Any) -> None:
    head = chain.first[q]
    chain.after[v], chain.before[v] = head, -1
    if head >= 0:
        chain.before[head] = v
    chain.first[q] = v
    chain.size[q] += 1


@njit(cache=True, nogil=True)
def give(v: int, there: int, chain: Any, nets: Any, state: Any) -> None:
    """Move v to part `there`, in its chain too."""
    here = state.owner[v]
    # Unlink v from the list of its part.
    left, right = chain.before[v], chain.after[v]
    if left >= 0:
        chain.after[left] = right
    else:
        chain.first[here] = right
    if right >= 0:
        chain.before[right] = left
    chain.size[here] -= 1
    _link(v, there, chain)
    move(v, there, nets, state)


@njit(cache=True, nogil=True)
def _neighbour(v: int, nets: Any, state: Any, rng: Any) -> int:
    """A part that shares a net with v, its own where none does: at random."""
    start, end = nets.vertex_ptr[v], nets.vertex_ptr[v + 1]
    if start == end:
        return state.owner[v]
    # the part of a random pin of a random net of v
    e = nets.nets[rng.integers(start, end)]
    return state.owner[nets.pins[rng.integers(nets.net_ptr[e], nets.net_ptr[e + 1])]]


@njit(cache=True, nogil=True)
def _by_weight(q: int, c: int, sorted_by: Any, chain: Any, nets: Any) -> Any:
    """Vertices of part q, the lightest by constraint c first; kept in `sorted_by`."""
    at = c * len(chain.size) + q
    # sorted at the first use; `_give` keeps the order
    if len(sorted_by[at]) == 0:
        members = np.empty(chain.size[q], dtype=np.int32)
        weight = np.empty(chain.size[q], dtype=np.int64)
        v, num = chain.first[q], 0
        while v >= 0:
            members[num], weight[num] = v, nets.weight[v, c]
            num += 1
            v = chain.after[v]
        sorted_by[at] = members[np.argsort(weight, kind="mergesort")]
    return sorted_by[at]


@njit(cache=True, nogil=True)
def _give(v: int, there: int, sorted_by: Any, chain: Any, nets: Any, state: Any) -> None:
    """Move v to part `there`; members that are kept by weight stay so, the last come first."""
    here = state.owner[v]
    give(v, there, chain, nets, state)
    for c in range(nets.weight.shape[1]):
        one, two = c * len(chain.size) + here, c * len(chain.size) + there
        sorted_by[one] = sorted_by[one][sorted_by[one] != v]
        members = sorted_by[two]
        if len(members) > 0:
            weights = nets.weight[:, c]
            k = np.searchsorted(weights[members], weights[v])
            new = np.full(1, v, np.int32)
            sorted_by[two] = np.concatenate((members[:k], new, members[k:]))


@njit(cache=True, nogil=True)
def _choose(members: Any, there: int, nets: Any, state: Any, chosen: Any, rng: Any) -> int:
    """Fill `chosen` with at most SAMPLE vertices that cost little to move; returns their number."""
    num = min(len(members), SAMPLE)
    for k in range(num):
        # The members, sorted by weight, are cut into `num` stretches: one vertex of each, so that
        # all weights are on offer. Of a stretch about GROUP vertices are rated, the best is taken.
        start, end = k * len(members) // num, (k + 1) * len(members) // num
        step = 1 + (end - start - 1) // GROUP
        best = -1
        for at in range(start + rng.integers(0, step), end, step):
            saved = gain_of(members[at], there, nets, state)
            if best < 0 or saved > chosen.gains[k]:
                best, chosen.gains[k] = members[at], saved
        if best < 0:
            best = members[start]
            chosen.gains[k] = gain_of(best, there, nets, state)
        chosen.vertices[k] = best
        for c in range(nets.weight.shape[1]):
            chosen.weights[k, c] = nets.weight[best, c]
    return num


@njit(cache=True, nogil=True)
def _relief(change: Any, here: int, there: int, state: Any, rules: Any) -> float:
    """Overload that weights `change`, taken from part `here` to part `there`, save together."""
    relief = 0.0
    for c in range(len(change)):
        # relief = unit * overload before - unit * overload after, at both parts
        over = state.sums[here, c] - rules.limit[here, c]
        relief += rules.unit[here, c] * (max(over, 0.0) - max(over - change[c], 0.0))
        over = state.sums[there, c] - rules.limit[there, c]
        relief -= rules.unit[there, c] * (max(over + change[c], 0.0) - max(over, 0.0))
    return relief


@njit(cache=True, nogil=True)
def _overload(q: int, state: Any, rules: Any) -> Any:
    """Overload of part q, and the constraint by which it is most above the limit."""
    total, most, worst = 0.0, 0.0, 0
    for c in range(rules.limit.shape[1]):
        over = rules.unit[q, c] * max(state.sums[q, c] - rules.limit[q, c], 0.0)
        total += over
        if over > most:
            most, worst = over, c
    return total, worst


@njit(cache=True, nogil=True)
def _pairs(here: int, there: int, num: Any, mine: Any, theirs: Any, state: Any, rules: Any) -> Any:
    """The best exchange of one vertex for one, or for none: value, and both places (-1: none)."""
    least = max(rules.share, TINY) * _overload(here, state, rules)[0]
    change = np.empty(rules.limit.shape[1], dtype=np.int64)
    best, best_i, best_j = 0.0, -1, -1
    for i in range(num[0]):
        # j = -1: nothing comes back
        for j in range(-1, num[1]):
            gain = mine.gains[i]
            for c in range(len(change)):
                change[c] = mine.weights[i, c]
            if j >= 0:
                gain += theirs.gains[j]
                for c in range(len(change)):
                    change[c] -= theirs.weights[j, c]
            relief = _relief(change, here, there, state, rules)
            if relief > least:
                # Relief per row that it costs; a gain in rows costs nothing.
                value = relief / (1 + max(-gain, 0))
                if value > best:
                    best, best_i, best_j = value, i, j
    return best, best_i, best_j


@njit(cache=True, nogil=True)
def exchange(
    over: Any, roomy: Any, num_roomy: Any, chain: Any, nets: Any, state: Any, rules: Any, rng: Any
) -> int:
    """Relieve the parts in `over` by exchanges, one part after the other.

    No exchange raises the overload of all parts together, and none empties a part.

    Parameters:
        over: int64[k].
        roomy (int64[num_constraints + 1, num_parts]): By constraint, and by the one that a part has
            least room by: parts, the roomiest first.
        num_roomy (int64[num_constraints]): How many of them have any.
        chain: Chains.
        rng: numpy.random.Generator.

    Returns:
        Exchanges made.
    """
    width = rules.limit.shape[1]
    mine = Scratch(
        np.empty(SAMPLE, np.int32), np.empty((SAMPLE, width), np.int64), np.empty(SAMPLE, np.int64)
    )
    theirs = Scratch(
        np.empty(SAMPLE, np.int32), np.empty((SAMPLE, width), np.int64), np.empty(SAMPLE, np.int64)
    )
    made, num = 0, np.empty(2, np.int64)
    sorted_by = [np.empty(0, np.int32) for _ in range(width * len(chain.size))]
    for here in over:
        for _ in range(MAX_STEPS):
            whole, c = _overload(here, state, rules)
            number = num_roomy[c]
            if whole == 0 or number == 0:
                break
            own = _by_weight(here, c, sorted_by, chain, nets)
            best, target, given, taken = 0.0, -1, -1, -1
            for t in range(min(rules.tries, number)):
                # Few roomy parts: try all. Else half of the tries are neighbours of a random
                # vertex, a quarter the roomiest parts by this constraint, an eighth the roomiest
                # by all constraints, an eighth random parts.
                if number <= rules.tries:
                    there = roomy[c, t]
                elif t % 2 == 0:
                    there = _neighbour(own[rng.integers(0, len(own))], nets, state, rng)
                elif t % 4 == 1:
                    there = roomy[c, t // 4]
                elif t % 8 == 3:
                    there = roomy[width, t // 8]
                else:
                    there = roomy[c, rng.integers(0, number)]
                if there == here or state.sums[there, c] >= rules.limit[there, c]:
                    continue
                num[0] = _choose(own, there, nets, state, mine, rng)
                other = _by_weight(there, c, sorted_by, chain, nets)
                num[1] = _choose(other, here, nets, state, theirs, rng)
                value, i, j = _pairs(here, there, num, mine, theirs, state, rules)
                if value > best and (j >= 0 or chain.size[here] > 1):
                    best, target, given = value, there, mine.vertices[i]
                    taken = theirs.vertices[j] if j >= 0 else -1
            if target < 0:
                break
            _give(given, target, sorted_by, chain, nets, state)
            if taken >= 0:
                _give(taken, here, sorted_by, chain, nets, state)
            made += 1
    return made
