"""Kernels that lower the expected volume of mini-batches, and a penalty for parts above the limit.

A part with c pins of a net, but not the net's source, needs the source's row with probability
``reach[c]`` (`plancc.sampling.batch.Inclusion`). So a partition costs

    sum over nets of cost * sum over parts other than the source's of reach[pins in the part]

With reach 0, 1, 1, ... the cost is the volume; with 0, 1, 2, ... the edge cut. On coarse levels, a
pin counts as the number of original pins that it represents, so that the cost is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.state import last_slot, move
from plancc.passes.kernels.volume import fits, lightens, saving, value_in
from plancc.passes.presets import BOUND_ROUNDING, TINY


@njit(cache=True, nogil=True)
def expected(nets: Any, state: Any, reach: Any) -> float:
    """Return the expected number of rows sent, if vertex j of every net j is in the mini-batch."""
    total = 0.0
    for e in range(len(state.spread)):
        if state.spread[e] == 1:
            continue
        own = state.owner[nets.source[e]]
        of_net = 0.0
        for k in range(state.slot_ptr[e], last_slot(e, state)):
            if state.part[k] != own:
                of_net += reach[state.count[k]]
        total += nets.cost[e] * of_net
    return total


@njit(cache=True, nogil=True)
def _is_wide(v: int, e: int, nets: Any, state: Any) -> bool:
    """Whether net e is wide for v: v is not the net's source, and several parts have pins.

    The state must also store a count of pins for every part, even if the count is 0.
    """
    dense = state.slot_ptr[e + 1] - state.slot_ptr[e] == len(state.sums)
    return dense and nets.source[e] != v and state.spread[e] > 1


@njit(cache=True, nogil=True)
def _rate(v: int, nets: Any, state: Any, reach: Any, score: Any, touched: Any, seen: Any) -> Any:
    """Compute upper bounds on the cost saved by moving v to each part; return num and base.

    The bound is ``base + score[q]`` for a part q in ``seen[:num]``, and `base` for all other parts.
    `touched` marks the parts in `seen`; the caller resets it, and `score`.
    """
    here, base, num = state.owner[v], 0.0, 0
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        cost, size = nets.cost[e], nets.size_at_vertex[a]
        source = nets.source[e]
        own, enter = state.owner[source], reach[size]
        start = state.slot_ptr[e]
        # For a wide net take the largest possible gain, as if the net touched every part.
        if _is_wide(v, e, nets, state):
            if own != here:
                count = state.count[start + here]
                base += cost * (reach[count] - reach[count - size])
            continue
        # Entering a part that the net does not touch costs reach[size], equally for all parts.
        # `score` returns some or all of this cost for parts that the net touches.
        if source != v:
            base -= cost * enter
            if state.spread[e] == 1:
                continue
        for k in range(start, last_slot(e, state)):
            count = state.count[k]
            if count == 0:
                continue
            q = state.part[k]
            if q == here:
                # If the source leaves, its old part needs the row for the pins that stay.
                if source == v:
                    base -= cost * reach[count - size]
                elif own != here:
                    base += cost * (reach[count] - reach[count - size])
                continue
            if not touched[q]:
                touched[q] = True
                seen[num] = q
                num += 1
            # If the source enters, part q need not receive the row any more.
            if source == v:
                score[q] += cost * reach[count]
            # the part of the source has the row with any pins
            elif q == own:
                score[q] += cost * enter
            else:
                score[q] += cost * (enter - (reach[count + size] - reach[count]))
    return num, base


@njit(cache=True, nogil=True)
def _rate_wide(
    v: int,
    num: int,
    base: float,
    nets: Any,
    state: Any,
    reach: Any,
    score: Any,
    touched: Any,
    seen: Any,
) -> Any:
    """Turn `_rate`'s upper bounds on the saved cost into exact values; return new `num` and `base`.

    `num`, `base`, and the arrays `score`, `seen` and `touched` are as after the call of `_rate`.
    """
    here, num_parts = state.owner[v], len(state.sums)
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        if not _is_wide(v, e, nets, state):
            continue
        cost, size = nets.cost[e], nets.size_at_vertex[a]
        own, enter = state.owner[nets.source[e]], reach[size]
        start = state.slot_ptr[e]
        # Undo the assumption of `_rate`, then add the gain for parts that the net really touches.
        base -= cost * enter
        for q in range(num_parts):
            count = state.count[start + q]
            if count == 0 or q == here:
                continue
            if not touched[q]:
                touched[q] = True
                seen[num] = q
                num += 1
            known = 0.0 if q == own else reach[count + size] - reach[count]
            score[q] += cost * (enter - known)
    return num, base


@njit(cache=True, nogil=True)
def sweep_expected(order: Any, nets: Any, state: Any, reach: Any, bounds: Any) -> Any:
    """Move every vertex in `order` to the part with the least cost plus penalty.

    Returns the numbers of vertices moved and of gains computed. ``reach[c]`` is the probability
    that a part needs the row of a net whose pins in the part have the total size c.
    """
    num_parts = len(state.sums)
    score = np.zeros(num_parts)
    touched = np.zeros(num_parts, dtype=np.bool_)
    seen = np.empty(num_parts, dtype=np.int64)
    moved, evaluations = 0, 0
    for v in order:
        num, base = _rate(v, nets, state, reach, score, touched, seen)
        saved, alone = saving(v, nets, state, bounds)
        most = 0.0
        for k in range(num):
            most = max(most, score[seen[k]])
        # If not even the upper bound is a gain, the many parts of wide nets need no rating.
        stays = alone or base + most + saved < -BOUND_ROUNDING
        if not stays:
            num, base = _rate_wide(v, num, base, nets, state, reach, score, touched, seen)
        best, best_value = -1, 0.0
        for k in range(num):
            q = seen[k]
            value = base + score[q] + saved
            score[q] = 0.0
            touched[q] = False
            if stays or not fits(v, q, nets, state, bounds.cap):
                continue
            evaluations += 1
            value = value_in(v, q, value, nets, state, bounds)
            if best < 0 or value > best_value:
                best, best_value = q, value
        if best < 0 or best_value < -TINY:
            continue
        if best_value < TINY and not lightens(v, best, nets, state, bounds.scale):
            continue
        move(v, best, nets, state)
        moved += 1
    return moved, evaluations
