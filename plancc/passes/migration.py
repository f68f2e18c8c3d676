"""Owners of a graph that has changed: few rows move, the most useful ones first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.graph.owners import Owner
from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.kernels.nets import Nets, nets_of
from plancc.passes.kernels.placement import place
from plancc.passes.kernels.state import State, boundary, state_of, volume
from plancc.passes.multilevel import Sweeps
from plancc.passes.presets import LEAST_MIGRATION, MIGRATION, MIGRATION_CUTS, VCycles


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
    together with later ones; what follows the best moment is undone. On meshes and roads minimum
    cuts move layers of vertices too.

    Attributes:
        most: Vertices that have an owner and may get another one.
    """

    most: int
    numbers: VCycles = MIGRATION

    def refine(self, owner: Owner, problem: Hypergraph, context: Context) -> Owner:
        """New owners: int32[num_vertices].

        Parameters:
            owner (int32[num_vertices]): -1 where there is none yet. Not changed.
            problem: Of the changed matrix (model hp).
        """
        nets = nets_of(problem)
        limits = context.limits
        placed = with_all_placed(owner, nets, context)
        state = state_of(nets, placed, limits.num_parts)
        sweeps = Sweeps(limits, context.rng(), context.deadline, numbers=self.numbers)
        state = self._within_limits(owner, nets, state, sweeps)
        self._search(owner, nets, state, sweeps)
        left = self.most - _moved(owner, state)
        if left > 0 and sweeps.cut(nets, state, (MIGRATION_CUTS,), left) > 0:
            self._search(owner, nets, state, sweeps)
        return state.owner

    def _search(self, owner: Owner, nets: Nets, state: State, sweeps: Sweeps) -> None:
        """Search from the whole boundary as long as that saves a share of the volume."""
        saved = rows = volume(nets, state)
        while saved > LEAST_MIGRATION * rows and not sweeps.deadline.passed():
            left = self.most - _moved(owner, state)
            if left <= 0:
                break
            order = boundary(nets, state)
            limit = np.maximum(sweeps.limits.limit, state.sums)
            saved, _ = sweeps.search_from(order, max(len(order), 1), left, limit, nets, state)

    def _within_limits(self, owner: Owner, nets: Nets, state: State, sweeps: Sweeps) -> State:
        """The state after moves, then exchanges, that lower the overload."""
        limits = sweeps.limits
        if limits.overload(state.sums) > 0:
            sweeps.relieve(nets, state, self.most)
        if limits.overload(state.sums) > 0:
            before = state.owner.copy()
            sweeps.trade(nets, state)
            if _moved(owner, state) > self.most:
                return state_of(nets, before, limits.num_parts)
        return state


def _moved(owner: Owner, state: State) -> int:
    """Vertices with another owner than before."""
    return int(np.count_nonzero((owner >= 0) & (owner != state.owner)))
