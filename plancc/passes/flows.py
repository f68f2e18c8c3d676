"""Refine pairs of parts by minimum cuts, for graphs with short boundaries.

On meshes and road networks, a minimum cut moves whole layers of vertices, where moves of single
vertices do not help. The pairs of a round are disjoint; rounds are chosen by the active block
scheduling of Sanders and Schulz, 2011. The result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.models.limits import Limits
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.flows import (
    Region,
    adjacent_parts,
    cut_nets_of_pairs,
    exchange_between,
    split_pair,
)
from plancc.passes.kernels.nets import Nets
from plancc.passes.kernels.state import State, volume
from plancc.passes.presets import CUTS, Cuts


@dataclass(frozen=True, eq=False)
class Flows:
    """Minimum cuts between neighbouring parts, repeated as long as they lower the volume.

    A part above its limit does not get heavier; all other parts stay within their limits.

    Attributes:
        deadline: After the deadline, no cut is searched for any further pair of parts.
        threads: Number of pairs that are refined at once.
        most: Largest number of vertices that may move in total; None: any number. A pair whose cut
            would exceed this number stays as it is.
    """

    limits: Limits
    deadline: Deadline = field(default_factory=Deadline)
    threads: int = 1
    numbers: Cuts = CUTS
    most: int | None = None

    def refine(self, nets: Nets, state: State) -> int:
        """Lower the volume of `state`, never raising the overload; return the work.

        The work is roughly how often searches visit a node of a flow network. It is 0 if no cut is
        tried, because of `Cuts.max_neighbours` or `Cuts.max_unevenness`.
        """
        how = self.numbers
        if _unevenness(nets) > how.max_unevenness:
            return 0
        active = np.ones(len(state.sums), dtype=np.bool_)
        rows, work = volume(nets, state), 0
        scratch: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self.threads):
            scratch.put(np.full(len(nets.weight) + len(nets.cost), -1, dtype=np.int32))
        moved_at = np.zeros(len(nets.weight), dtype=np.int32)  # last batch that moved the vertex
        solved_at: dict[tuple[int, int], int] = {}
        number, left = 0, len(nets.weight) if self.most is None else self.most
        most_pairs = how.max_neighbours * len(active) // 2
        solve = partial(self._solve, nets, state, scratch)
        with ThreadPoolExecutor(self.threads) as pool:
            side_by_side: Any = pool.map if self.threads > 1 else map
            for _ in range(how.max_rounds):
                one, two, cost = adjacent_parts(how.max_spread, most_pairs, nets, state)
                if len(one) > most_pairs:
                    break
                due = np.flatnonzero(active[one] | active[two])
                due = due[np.argsort(-cost[due], kind="stable")]
                active[:] = False
                saved, tried = 0, 0
                enough = how.tried * cost.sum()
                due_pairs = np.stack([one[due], two[due]], axis=1)
                for batch in _disjoint(due_pairs, len(active)):
                    pairs = list(due_pairs[batch])
                    if self.deadline.passed():
                        return work
                    if tried >= enough and saved < how.least_yield * tried:
                        break
                    tried += int(cost[due][batch].sum())
                    number += 1
                    known = [(moved_at, solved_at.get((int(a), int(b)), -1)) for a, b in pairs]
                    cut_nets = _cut_nets(pairs, how.max_spread, state)
                    found = list(side_by_side(solve, pairs, cut_nets, known))
                    for pair, (vertices, effort) in zip(pairs, found, strict=True):
                        work += effort
                        solved_at[int(pair[0]), int(pair[1])] = number - (len(vertices) > 0)
                        if 0 < len(vertices) <= left:
                            left -= 0 if self.most is None else len(vertices)
                            moved_at[vertices] = number
                            active[pair] = True
                            saved += _exchange(vertices, pair, nets, state)
                rows -= saved
                if saved <= how.least_gain * rows:
                    break
        return work

    def _solve(
        self,
        nets: Nets,
        state: State,
        scratch: SimpleQueue[Any],
        pair: Any,
        cut_nets: Any,
        history: Any,
    ) -> tuple[npt.NDArray[np.int32], int]:
        """Return the vertices that two parts should exchange, and the work done to find them."""
        if self.deadline.passed():
            return np.empty(0, dtype=np.int32), 0
        how, sums = self.numbers, state.sums[pair]
        least = how.least_reach / max(len(nets.weight), 1) * self.limits.total
        room = np.maximum(how.reach * sums, np.minimum(least, how.whole_reach * sums))
        region = Region(room, how.max_degree, how.max_pins, how.max_work)
        most = np.maximum(self.limits.limit[pair], sums)
        most = np.minimum(most, sums.sum(axis=0))
        place = scratch.get()
        try:
            vertices, work = split_pair(
                pair, cut_nets, region, most.astype(np.float64), history, place, nets, state
            )
        finally:
            scratch.put(place)
        return vertices, int(work)


def _unevenness(nets: Nets) -> float:
    """Return the mean square of the nets' sizes, divided by the square of their mean size."""
    size = np.diff(nets.net_ptr).astype(np.float64)
    return float((size * size).sum() * len(size) / max(size.sum(), 1.0) ** 2)


def _disjoint(pairs: npt.NDArray[np.int64], num_parts: int) -> Iterator[npt.NDArray[np.int64]]:
    """Divide pairs of parts into batches of disjoint pairs; yield the indices of each batch."""
    left = np.arange(len(pairs))
    while len(left) > 0:
        free = np.ones(num_parts, dtype=np.bool_)
        chosen = np.zeros(len(left), dtype=np.bool_)
        for k, (one, two) in enumerate(pairs[left].tolist()):
            if free[one] and free[two]:
                free[one] = free[two] = False
                chosen[k] = True
        yield left[chosen]
        left = left[~chosen]


def _cut_nets(
    pairs: list[npt.NDArray[np.int64]], max_spread: int, state: State
) -> list[npt.NDArray[np.int32]]:
    """Return, for each pair of parts, the nets that touch both, and at most `max_spread` in all."""
    partner = np.arange(len(state.sums))
    one, two = np.transpose(pairs)
    partner[one], partner[two] = two, one
    ptr, found = cut_nets_of_pairs(partner, max_spread, state)
    return [found[ptr[q] : ptr[q + 1]] for q in one]


def _exchange(
    vertices: npt.NDArray[np.int32], pair: npt.NDArray[np.int64], nets: Nets, state: State
) -> int:
    """Move each of `vertices` to the other part of `pair`; return by how much the volume falls.

    Since the flow network leaves out some nets, the volume may rise. In this case, the moves are
    undone, and the result is 0.
    """
    saved = int(exchange_between(vertices, pair[0], pair[1], nets, state))
    if saved >= 0:
        return saved
    return saved + int(exchange_between(vertices, pair[0], pair[1], nets, state))
