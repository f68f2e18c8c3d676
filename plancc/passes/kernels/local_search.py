"""Local search with rollback: moves may raise the volume, and may be undone at the end.

A search starts from some boundary vertices. Again and again, it makes the best move of one of these
vertices, or of a neighbour of a moved vertex. All moves after its *best moment*, when the volume
was lowest, are undone.

The method is the localised multi-try FM of Sanders and Schulz (2011) and Akhremtsev, Sanders and
Schulz (2017), with exact gains.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.heap import pop, push
from plancc.passes.kernels.state import move, must_stay, pins_in
from plancc.passes.kernels.volume import fits, rate

OFFSET = 1 << 29
"""Gains in keys are clipped to the range from minus to plus this number."""


@njit(cache=True, nogil=True)
def _best_move(v: int, limit: Any, scale: Any, nets: Any, state: Any, score: Any, seen: Any) -> Any:
    """Return the part to which a move of v saves most rows, and the number of these rows.

    If several parts save most rows, the part whose weight times `scale` is least is returned. The
    part is -1 if v has all the weight of its part, or if no part of v's nets has room for v.
    """
    num, base = rate(v, nets, state, score, seen)
    here, alone = state.owner[v], must_stay(v, nets, state)
    best, best_gain, best_weight = -1, np.int64(0), 0.0
    for k in range(num):
        q = seen[k]
        gain = base + score[q]
        score[q] = 0
        if q == here or alone or (best >= 0 and gain < best_gain):
            continue
        weight = state.sums[q, 0] * scale[q]
        if best >= 0 and gain == best_gain and weight >= best_weight:
            continue
        if fits(v, q, nets, state, limit):
            best, best_gain, best_weight = q, gain, weight
    return best, best_gain


@njit(cache=True, nogil=True)
def _key(v: int, gain: Any) -> Any:
    """Return the key of a move of v in the heap; a larger gain has a larger key."""
    # A key packs the gain, shifted by OFFSET to be positive, above 32 bits of the vertex.
    return ((max(-OFFSET, min(OFFSET, gain)) + OFFSET) << 32) + v


class Search(NamedTuple):
    """The progress of a series of local searches, which start from the vertices of one list.

    Attributes:
        done (bool[num_vertices]): Whether a search has moved the vertex.
        met (int64[num_vertices]): For every vertex, the value of `TRIED` when it was last rated.
        moved, came_from (int32[num_vertices]): Moved vertices of the current search, in order, and
            the parts that they left.
        number (int64[6]): Six counts. `USED`: vertices of the list from which searches have
            started; `TRIED`: moves of all searches, undone moves too. Of the current search,
            `KEYS`: keys in its heap; `LENGTH`: moves; `BEST_LENGTH`: moves up to the moment with
            the least volume; `TOTAL`: rows saved.
        rows (int64[2]): Rows saved by all finished searches; and by the current search, up to the
            moment with the least volume.
    """

    done: Any
    met: Any
    moved: Any
    came_from: Any
    number: Any
    rows: Any


USED, TRIED, KEYS, LENGTH, BEST_LENGTH, TOTAL = range(6)
"""Indices of the counts in ``Search.number``."""


@njit(cache=True, nogil=True)
def _listed(v: int, gain: Any, keys: Any, number: Any) -> Any:
    """Add a move of v to the heap `keys`; return the heap, a larger copy if `keys` was full."""
    if number[KEYS] == len(keys):
        keys = np.concatenate((keys, np.empty_like(keys)))
    number[KEYS] = push(keys, number[KEYS], _key(v, gain))
    return keys


def new_search(num_vertices: int) -> Search:
    """Make a `Search`: a series of local searches, none of which has begun."""
    return Search(
        np.zeros(num_vertices, dtype=np.bool_),
        np.zeros(num_vertices, dtype=np.int64),
        np.empty(num_vertices, dtype=np.int32),
        np.empty(num_vertices, dtype=np.int32),
        np.zeros(6, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def end_search(search: Any, nets: Any, state: Any) -> None:
    """End the current search, if there is one, and undo the moves after its lowest volume."""
    number, rows = search.number, search.rows
    # Undo from the last move back to the best moment.
    for k in range(number[LENGTH] - 1, number[BEST_LENGTH] - 1, -1):
        move(search.moved[k], search.came_from[k], nets, state)
    rows[0] += rows[1]
    rows[1] = 0
    number[KEYS:] = 0


@njit(cache=True, nogil=True)
def local_search(
    order: Any,
    keys: Any,
    width: int,
    patience: int,
    max_pins: int,
    max_work: int,
    most: int,
    limit: Any,
    scale: Any,
    search: Any,
    nets: Any,
    state: Any,
) -> Any:
    """Run local searches one after another; each starts from the next `width` vertices of `order`.

    A vertex moves at most once, even if the move is undone. A caller that stops before all searches
    have ended must call `end_search`.

    Parameters:
        keys (int64[k]): Heap of the current search; any contents in the first call.
        patience: A search ends if more than this number of moves follow its best moment.
        max_pins: A search does not follow nets with more pins than this number.
        max_work: Nets and pins visited before the call returns; the next call continues.
        most: Largest number of moves in one search, including moves that are undone.
        limit (float64[num_parts, num_constraints]): Largest weights to which moves may fill parts.
        scale (float64[num_parts]): See `plancc.models.limits.Bounds`.

    Returns:
        keys, finished: The heap for the next call, and whether all searches have ended.
    """
    done, met, moved, came_from = search.done, search.met, search.moved, search.came_from
    number, rows = search.number, search.rows
    num_parts = len(state.sums)
    score = np.zeros(num_parts, dtype=np.int64)
    seen = np.empty(num_parts, dtype=np.int64)
    work = 0
    while True:
        while number[KEYS] > 0 and number[LENGTH] - number[BEST_LENGTH] <= patience:
            if number[LENGTH] >= most:
                break
            if work > max_work:
                return keys, False
            key, number[KEYS] = pop(keys, number[KEYS])
            # the vertex is in the low 32 bits
            v = key & 0xFFFFFFFF
            if done[v]:
                continue
            work += nets.vertex_ptr[v + 1] - nets.vertex_ptr[v]
            q, gain = _best_move(v, limit, scale, nets, state, score, seen)
            if q < 0:
                continue
            # Gains in the heap may be outdated: rate again, and put v back if its gain has fallen.
            if _key(v, gain) < key:
                number[KEYS] = push(keys, number[KEYS], _key(v, gain))
                continue
            here = state.owner[v]
            done[v] = True
            move(v, q, nets, state)
            moved[number[LENGTH]], came_from[number[LENGTH]] = v, here
            number[LENGTH] += 1
            number[TRIED] += 1
            number[TOTAL] += gain
            if number[TOTAL] > rows[1]:
                rows[1], number[BEST_LENGTH] = number[TOTAL], number[LENGTH]
            for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
                e = nets.nets[a]
                if nets.net_ptr[e + 1] - nets.net_ptr[e] > max_pins:
                    continue
                if pins_in(e, here, state) > 1 and pins_in(e, q, state) > 2:
                    continue  # the gains of the net's other pins are unchanged
                work += nets.net_ptr[e + 1] - nets.net_ptr[e]
                for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                    u = nets.pins[k]
                    # rate a vertex once per move, even if it shares several nets
                    if done[u] or met[u] == number[TRIED]:
                        continue
                    met[u] = number[TRIED]
                    work += nets.vertex_ptr[u + 1] - nets.vertex_ptr[u]
                    there, gain = _best_move(u, limit, scale, nets, state, score, seen)
                    if there >= 0:
                        keys = _listed(u, gain, keys, number)
        end_search(search, nets, state)
        if number[USED] == len(order) or work > max_work:
            return keys, number[USED] == len(order)
        # The next search starts from the next `width` vertices of the order.
        seeds = order[number[USED] : number[USED] + width]
        number[USED] += len(seeds)
        for v in seeds:
            work += 1
            if done[v]:
                continue
            work += nets.vertex_ptr[v + 1] - nets.vertex_ptr[v]
            q, gain = _best_move(v, limit, scale, nets, state, score, seen)
            if q >= 0:
                keys = _listed(v, gain, keys, number)
