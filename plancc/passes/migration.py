"""Owners of a graph that has changed: few rows move, the most useful ones first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.kernels.local_search import end_search, local_search, new_search
from plancc.passes.kernels.nets import Nets, nets_of
from plancc.passes.kernels.placement import place
from plancc.passes.kernels.state import State, boundary, state_of, volume
from plancc.passes.kernels.volume import relief_costs, relieve
from plancc.passes.multilevel import Owner, Sweeps
from plancc.passes.presets import LEAST_MIGRATION, MIGRATION, LocalSearch


def with_all_placed(owner: Owner, nets: Nets, context: Context) -> Owner:
    """Owners with a part for every vertex: -1 becomes the part where it costs the fewest rows.

    Parameters:
        owner (int32[num_vertices]): Parts in -1..num_parts-1; not changed.
    """
    free = np.flatnonzero(owner < 0)
    if len(free) == 0:
        return owner
    limits, nowhere = context.limits, context.num_parts
    state = state_of(nets, np.where(owner < 0, np.int32(nowhere), owner), nowhere + 1)
    place(free, nets, state, limits.limit.astype(np.float64), 1 / limits.relative)
    return state.owner


@dataclass(frozen=True)
class Migrate:
    """Fewer rows moved by an epoch, for few rows that change their owner.

    Vertices leave parts above the limit first, where that costs the fewest rows. Then searches from
    the whole boundary make the moves that save most, one after the other, also some that pay only
    together with later ones; what follows the best moment is undone.

    Attributes:
        most: Vertices that have an owner and may get another one.
    """

    most: int
    numbers: LocalSearch = MIGRATION

    def refine(self, owner: Owner, problem: Hypergraph, context: Context) -> Owner:
        """New owners: int32[num_vertices].

        Parameters:
            owner (int32[num_vertices]): -1 where there is none yet. Not changed.
            problem: Of the changed matrix (model hp).
        """
        nets = nets_of(problem)
        state = state_of(nets, with_all_placed(owner, nets, context), context.num_parts)
        state = self._within_limits(owner, nets, state, context)
        rows = int(volume(nets, state))
        saved = rows
        while saved > LEAST_MIGRATION * rows and not context.deadline.passed():
            left = self.most - _moved(owner, state)
            saved = self._search(nets, state, context, left) if left > 0 else 0
        return state.owner

    def _within_limits(self, owner: Owner, nets: Nets, state: State, context: Context) -> State:
        """The state after moves, then exchanges, that lower the overload."""
        limits = context.limits
        if limits.overload(state.sums) > 0:
            costs = relief_costs(nets, state, limits.limit)
            order = np.argsort(costs, kind="stable")[: np.isfinite(costs).sum()]
            relieve(order[: self.most], nets, state, limits.limit)
        if limits.overload(state.sums) > 0:
            before = state.owner.copy()
            Sweeps(limits, context.rng(), context.deadline).trade(nets, state)
            if _moved(owner, state) > self.most:
                return state_of(nets, before, context.num_parts)
        return state

    def _search(self, nets: Nets, state: State, context: Context, most: int) -> int:
        """One search from the whole boundary; returns the rows saved."""
        how, limits = self.numbers, context.limits
        order, search = boundary(nets, state), new_search(len(state.owner))
        limit = np.maximum(limits.limit, state.sums).astype(np.float64)
        effort = max(len(order), 1), how.patience, how.max_pins, how.work, most
        keys, finished = np.empty(64, dtype=np.int64), False
        while not (finished or context.deadline.passed()):
            keys, finished = local_search(
                order, keys, *effort, limit, 1 / limits.relative, search, nets, state
            )
        end_search(search, nets, state)
        return int(search.rows[0])


def _moved(owner: Owner, state: State) -> int:
    """Vertices with another owner than before."""
    return int(np.count_nonzero((owner >= 0) & (owner != state.owner)))
