"""A kernel that gives parts to vertices without a part, so that few additional rows are sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.state import move
from plancc.passes.kernels.volume import fits, rate


@njit(cache=True, nogil=True)
def _lighter(q: int, other: int, state: Any, scale: Any) -> bool:
    """Whether part q is lighter than part `other` in the first constraint."""
    return state.sums[q, 0] * scale[q] < state.sums[other, 0] * scale[other]


@njit(cache=True, nogil=True)
def place(order: Any, nets: Any, state: Any, limit: Any, scale: Any) -> None:
    """Move vertices out of the last part of `state`, which holds vertices without a part.

    A vertex goes to the part with room that saves the most rows; on a tie, to the lightest of these
    parts. If no part that its nets touch has room, it goes to the lightest part.
    """
    nowhere = len(limit)
    score = np.zeros(nowhere + 1, dtype=np.int64)
    seen = np.empty(nowhere + 1, dtype=np.int64)
    left, placed = len(order), 1
    pending = order.copy()
    # A round places vertices with neighbours in parts. The others wait until a round places none.
    while left > 0:
        waiting = 0
        for k in range(left):
            v = pending[k]
            num, _ = rate(v, nets, state, score, seen)
            best, most, near = -1, np.int64(0), False
            for i in range(num):
                q = seen[i]
                rows = score[q]
                score[q] = 0
                if q == nowhere:
                    continue
                near = True
                more = best < 0 or rows > most or (rows == most and _lighter(q, best, state, scale))
                if more and fits(v, q, nets, state, limit):
                    best, most = q, rows
            if not near and placed > 0:
                pending[waiting] = v
                waiting += 1
                continue
            # If no neighbouring part has room, or there is none, take the lightest part.
            if best < 0:
                best = 0
                for q in range(1, nowhere):
                    best = q if _lighter(q, best, state, scale) else best
            move(v, best, nets, state)
        placed, left = left - waiting, waiting
