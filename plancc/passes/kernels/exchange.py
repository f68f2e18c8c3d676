"""Exchanges of vertices between two parts, which lower the overload and add few rows to the volume.

With several constraints, single moves are soon impossible, since every part is full in one of them.
An exchange can lower one weight of a part and nearly keep the others. Exchanges of two vertices for
one did not help in the ablation (`python -m benchmarks ablation`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.state import move
from plancc.passes.kernels.volume import gain_of
from plancc.passes.presets import GROUP, MAX_STEPS, SAMPLE, TINY


class Chains(NamedTuple):
    """The vertices of every part, as a doubly linked list for each part; -1 ends a list.

    Attributes:
        first (int32[num_parts]): First vertex of every list.
        after, before (int32[num_vertices]): Next and previous vertex in the list.
        size (int64[num_parts]): Length of every list.
    """

    first: Any
    after: Any
    before: Any
    size: Any


class Rules(NamedTuple):
    """Limits of the parts, and rules that every exchange must follow.

    Attributes:
        limit (float64[num_parts, num_constraints]): Largest weights of the parts.
        unit (float64[num_parts, num_constraints]): Overload per unit of weight above the limit.
        share: Smallest share of the giving part's overload that an exchange must remove.
        tries: Largest number of parts that are tried as partners in an exchange.
    """

    limit: Any
    unit: Any
    share: float
    tries: int


class Scratch(NamedTuple):
    """Vertices that one part could give to another in an exchange of vertices.

    Attributes:
        vertices (int32[SAMPLE]): The vertices.
        weights (int64[SAMPLE, num_constraints]): Their weights.
        gains (int64[SAMPLE]): For every vertex, the rows saved if it moves to the other part.
    """

    vertices: Any
    weights: Any
    gains: Any


@njit(cache=True, nogil=True)
def chains(vertices: Any, owner: Any, num_parts: int) -> Any:
    """Return `Chains`: for every part, a list of its vertices in reverse order of `vertices`."""
    first = np.full(num_parts, -1, dtype=np.int32)
    after = np.full(len(owner), -1, dtype=np.int32)
    before = np.full(len(owner), -1, dtype=np.int32)
    size = np.zeros(num_parts, dtype=np.int64)
    found = Chains(first, after, before, size)
    # each vertex is linked to the front of the list, so the last vertex comes first
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
    """Move vertex v to part `there`, and to this part's linked list in `chain` (`Chains`)."""
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
    """Return the part of a random pin of a random net of v; v's own part if v has no nets."""
    start, end = nets.vertex_ptr[v], nets.vertex_ptr[v + 1]
    if start == end:
        return state.owner[v]
    # the part of a random pin of a random net of v
    e = nets.nets[rng.integers(start, end)]
    return state.owner[nets.pins[rng.integers(nets.net_ptr[e], nets.net_ptr[e + 1])]]


@njit(cache=True, nogil=True)
def _sorted_by_weight(q: int, c: int, sorted_by: Any, chain: Any, nets: Any) -> Any:
    """Return the vertices of part q in ascending order of their weight in constraint c."""
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
    """Move v to part `there`, also in `sorted_by`: lists of a part's vertices, sorted by weight."""
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
    """Choose at most SAMPLE vertices whose move to `there` costs few rows; return how many."""
    num = min(len(members), SAMPLE)
    for k in range(num):
        # Cut the members, sorted by weight, into `num` stretches, and choose one vertex of each, so
        # that all weights occur. Rate about GROUP vertices of a stretch, and take the best.
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
    """Return how much the overload of two parts falls if weights `change` move between them.

    The weights, one for each constraint, move from part `here` to part `there`.
    """
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
    """Return part q's overload times ``rules.unit``, summed over the constraints.

    The second result is the index of the constraint with the largest of these overloads.
    """
    total, most, worst = 0.0, 0.0, 0
    for c in range(rules.limit.shape[1]):
        over = rules.unit[q, c] * max(state.sums[q, c] - rules.limit[q, c], 0.0)
        total += over
        if over > most:
            most, worst = over, c
    return total, worst


@njit(cache=True, nogil=True)
def _pairs(here: int, there: int, num: Any, mine: Any, theirs: Any, state: Any, rules: Any) -> Any:
    """Find the move or swap of vertices that lowers the overload most per additional row sent.

    `mine` and `theirs` list ``num[0]`` vertices of part `here` and ``num[1]`` of part `there`.

    Returns:
        value, i, j: The fall per row; indices of the vertices in `mine` and `theirs`, or -1.
    """
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
                # Relief per row that the exchange costs; an exchange that saves rows costs nothing.
                value = relief / (1 + max(-gain, 0))
                if value > best:
                    best, best_i, best_j = value, i, j
    return best, best_i, best_j


@njit(cache=True, nogil=True)
def exchange(
    over: Any, roomy: Any, num_roomy: Any, chain: Any, nets: Any, state: Any, rules: Any, rng: Any
) -> int:
    """Exchange vertices to lower the overload of parts in `over`; return the number of exchanges.

    Overload is weight above the limits. No exchange raises the total overload of all parts, and no
    exchange empties a part.

    Parameters:
        over (int64[k]): Parts above their limits.
        roomy (int64[num_constraints + 1, num_parts]): Every row has all parts, sorted by descending
            room, (limit - weight) * unit: in row c the room in constraint c, in the last row the
            least room in any constraint.
        num_roomy (int64[num_constraints]): For every constraint, the number of parts with room.
        chain (Chains): The vertices that may move, in every part.
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
            own = _sorted_by_weight(here, c, sorted_by, chain, nets)
            best, target, given, taken = 0.0, -1, -1, -1
            for t in range(min(rules.tries, number)):
                # Try all parts with room if there are few. Otherwise half of the tries are
                # neighbours of a random vertex, a quarter the parts with most room by this
                # constraint, an eighth those by all constraints, an eighth random parts.
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
                other = _sorted_by_weight(there, c, sorted_by, chain, nets)
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
