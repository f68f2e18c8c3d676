"""Localised k-way search with rollback: moves that cost volume at first, undone unless they pay.

Searches start from a few vertices of the boundary each and take the best move next to what they
have moved, worse ones too; what follows the best moment of a search is undone. The localised
multi-try FM of Sanders and Schulz (2011) and Akhremtsev, Sanders and Schulz (2017), with gains that
are exact in the connectivity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from plancc.passes.kernels.heap import pop, push
from plancc.passes.kernels.state import move, pins_in
from plancc.passes.kernels.volume import fits, rate

OFFSET = 1 << 29
"""Gains are told apart between plus and minus this."""


@njit(cache=True, nogil=True)
def _best_move(v: int, limit: Any, scale: Any, nets: Any, state: Any, score: Any, seen: Any) -> Any:
    """The part that v had best move to, and the rows that this saves; -1 where none has room.

    Of equal ones the lightest. No move takes the last weight out of a part.
    """
    num, base = rate(v, nets, state, score, seen)
    here = state.owner[v]
    alone = True
    for c in range(limit.shape[1]):
        alone &= state.sums[here, c] == nets.weight[v, c]
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
    """Larger for a larger gain."""
    return ((max(-OFFSET, min(OFFSET, gain)) + OFFSET) << 32) + v


@njit(cache=True, nogil=True)
def local_search(
    order: Any,
    width: int,
    patience: int,
    max_pins: int,
    limit: Any,
    scale: Any,
    nets: Any,
    state: Any,
) -> Any:
    """Search from the vertices in `order`, `width` of them at a time.

    A vertex moves at most once, undone moves included.

    Parameters
    ----------
    order : int64[m]
    width : int
    patience : int
        Moves since the best moment after which a search ends.
    max_pins : int
        Larger nets lead a search to no other vertex.
    limit : float64[num_parts, num_constraints]
        No move fills a part above it.
    scale : float64[num_parts]
        See `plancc.passes.kernels.volume.Bounds`.

    Returns
    -------
    gained, tried
        Rows saved, and moves that were made, undone ones included.
    """
    n, num_parts = len(state.owner), len(state.sums)
    score = np.zeros(num_parts, dtype=np.int64)
    seen = np.empty(num_parts, dtype=np.int64)
    done = np.zeros(n, dtype=np.bool_)
    met = np.zeros(n, dtype=np.int64)  # the search that a vertex was rated in, after the move
    keys = np.empty(64, dtype=np.int64)
    moved = np.empty(n, dtype=np.int32)
    came_from = np.empty(n, dtype=np.int32)
    gained: Any = np.int64(0)
    tried, stamp = 0, 0
    for first in range(0, len(order), width):
        number, length, best_length = 0, 0, 0
        total: Any = np.int64(0)
        best_total: Any = np.int64(0)
        for v in order[first : first + width]:
            if not done[v]:
                q, gain = _best_move(v, limit, scale, nets, state, score, seen)
                if q >= 0:
                    if number == len(keys):
                        keys = np.concatenate((keys, np.empty_like(keys)))
                    number = push(keys, number, _key(v, gain))
        while number > 0 and length - best_length <= patience:
            key, number = pop(keys, number)
            v = key & 0xFFFFFFFF
            if done[v]:
                continue
            q, gain = _best_move(v, limit, scale, nets, state, score, seen)
            if q < 0:
                continue
            if _key(v, gain) < key:  # less than it was
                number = push(keys, number, _key(v, gain))
                continue
            here = state.owner[v]
            done[v] = True
            move(v, q, nets, state)
            moved[length], came_from[length] = v, here
            length += 1
            tried += 1
            total += gain
            if total > best_total:
                best_total, best_length = total, length
            stamp += 1
            for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
                e = nets.nets[a]
                if nets.net_ptr[e + 1] - nets.net_ptr[e] > max_pins:
                    continue
                if pins_in(e, here, state) > 1 and pins_in(e, q, state) > 2:
                    continue  # its other pins gain what they gained before
                for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                    u = nets.pins[k]
                    if done[u] or met[u] == stamp:
                        continue
                    met[u] = stamp
                    there, gain = _best_move(u, limit, scale, nets, state, score, seen)
                    if there >= 0:
                        if number == len(keys):
                            keys = np.concatenate((keys, np.empty_like(keys)))
                        number = push(keys, number, _key(u, gain))
        gained += best_total
        for k in range(length - 1, best_length - 1, -1):
            move(moved[k], came_from[k], nets, state)
    return gained, tried
