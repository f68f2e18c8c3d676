"""`State`: the owners of a partition, and the number of pins that every net has in every part."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.graph.owners import check_owners
from plancc.kernel import njit
from plancc.passes.kernels.nets import Nets


class State(NamedTuple):
    """A partition of `Nets`; every array except `slot_ptr` changes with every move.

    The slots of a net hold the parts that the net touches, and its number of pins in each part (or
    the sum of the pins' sizes, if pins have sizes). A net with fewer pins than there are parts has
    one slot per pin; the first ``spread[e]`` slots are in use, in any order. Every other net has
    one slot per part: slot q belongs to part q, and is in use if its count is above 0::

        5 parts     net of 3 pins in parts 4 4 1     net of 7 pins in parts 0 3 3 3 0 4 0
        part        4 1 .                            0 1 2 3 4
        count       2 1 .                            3 0 0 3 1
        spread      2                                3

    Attributes:
        owner (int32[num_vertices]): Part of every vertex.
        slot_ptr (int64[num_nets + 1]): Offsets of the nets' slots.
        part, count (int32[num_slots]): Part, and number of pins, of every slot.
        spread (int32[num_nets]): Number of parts that every net touches.
        sums (int64[num_parts, num_constraints]): Weights of the parts.
    """

    owner: Any
    slot_ptr: Any
    part: Any
    count: Any
    spread: Any
    sums: Any


def state_of(nets: Nets, owner: Any, num_parts: int) -> State:
    """Copy the owners, and count the pins of every net in every part."""
    check_owners(owner, len(nets.weight), num_parts)
    size = np.minimum(np.diff(nets.net_ptr), num_parts)
    slot_ptr = np.concatenate([[0], np.cumsum(size)])
    owner = np.array(owner, dtype=np.int32)
    return State(owner, slot_ptr, *_count(nets, owner, slot_ptr, num_parts))


@njit(cache=True, nogil=True)
def _count(nets: Any, owner: Any, slot_ptr: Any, num_parts: int) -> Any:
    num_nets, sized = len(nets.net_ptr) - 1, len(nets.size) > 0
    part = np.empty(slot_ptr[num_nets], dtype=np.int32)
    count = np.zeros(slot_ptr[num_nets], dtype=np.int32)
    spread = np.zeros(num_nets, dtype=np.int32)
    place = np.zeros(num_parts, dtype=np.int64)
    for e in range(num_nets):
        start, end = slot_ptr[e], slot_ptr[e]
        if slot_ptr[e + 1] - start == num_parts:
            for q in range(num_parts):
                part[start + q] = q
            for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                at = start + owner[nets.pins[k]]
                end += count[at] == 0
                count[at] += nets.size[k] if sized else 1
        else:
            for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                q = owner[nets.pins[k]]
                at = place[q]
                if at < start or at >= end or part[at] != q:
                    at = end
                    place[q] = at
                    part[at] = q
                    end += 1
                count[at] += nets.size[k] if sized else 1
        spread[e] = end - start
    sums = np.zeros((num_parts, nets.weight.shape[1]), dtype=np.int64)
    for v in range(len(owner)):
        for c in range(sums.shape[1]):
            sums[owner[v], c] += nets.weight[v, c]
    return part, count, spread, sums


def volume(nets: Nets, state: State) -> int:
    """Return the number of rows sent: the sum over nets of cost times (parts with pins - 1)."""
    return int(nets.cost @ (state.spread.astype(np.int64) - 1))


@njit(cache=True, nogil=True)
def boundary(nets: Any, state: Any) -> Any:
    """Return the vertices with at least one net that touches several parts: int64[m], ascending."""
    found = np.zeros(len(state.owner), dtype=np.bool_)
    for e in range(len(state.spread)):
        if state.spread[e] > 1:
            for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                found[nets.pins[k]] = True
    return np.flatnonzero(found)


@njit(cache=True, nogil=True)
def must_stay(v: int, nets: Any, state: Any) -> bool:
    """Whether v must stay in its part, since no other vertex of the part has weight."""
    here, alone = state.owner[v], True
    for c in range(nets.weight.shape[1]):
        alone &= state.sums[here, c] == nets.weight[v, c]
    return alone


@njit(cache=True, nogil=True)
def last_slot(e: int, state: Any) -> int:
    """Return the end of the slots of net e that are in use; they begin at ``slot_ptr[e]``.

    A slot has a part and the number of pins in it (see `State`), which may be 0.
    """
    start = state.slot_ptr[e]
    dense = state.slot_ptr[e + 1] - start == len(state.sums)
    return start + (len(state.sums) if dense else state.spread[e])


@njit(cache=True, nogil=True)
def pins_in(e: int, q: int, state: Any) -> int:
    """Return the number of pins of net e in part q; if pins have sizes, the sum of their sizes."""
    start = state.slot_ptr[e]
    if state.slot_ptr[e + 1] - start == len(state.sums):
        return state.count[start + q]
    # search the list of the parts that the net touches
    for k in range(start, start + state.spread[e]):
        if state.part[k] == q:
            return state.count[k]
    return 0


@njit(cache=True, nogil=True)
def move(v: int, there: int, nets: Any, state: Any) -> None:
    """Move vertex v to part `there`, which is not its part, and update all counts."""
    here = state.owner[v]
    num_parts, num_constraints = state.sums.shape
    sized = len(nets.size_at_vertex) > 0
    state.owner[v] = there
    for c in range(num_constraints):
        state.sums[here, c] -= nets.weight[v, c]
        state.sums[there, c] += nets.weight[v, c]
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        size = nets.size_at_vertex[a] if sized else 1
        start = state.slot_ptr[e]
        # A net with a slot for every part finds its counts at once.
        if state.slot_ptr[e + 1] - start == num_parts:
            state.count[start + here] -= size
            state.spread[e] -= state.count[start + here] == 0
            state.spread[e] += state.count[start + there] == 0
            state.count[start + there] += size
            continue
        # Otherwise find the slots of both parts first.
        end = start + state.spread[e]
        new = start
        while new < end and state.part[new] != there:
            new += 1
        old = start
        while state.part[old] != here:
            old += 1
        state.count[old] -= size
        # If the net touches the new part already, count there, and close a gap in the old slot.
        if new < end:
            state.count[new] += size
            if state.count[old] == 0:
                end -= 1
                state.part[old] = state.part[end]
                state.count[old] = state.count[end]
        else:
            # Otherwise the new part takes over an empty old slot, or gets a new slot.
            if state.count[old] == 0:
                new = old
            else:
                end += 1
            state.part[new] = there
            state.count[new] = size
        state.spread[e] = end - start
