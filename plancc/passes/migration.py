"""Find owners for a changed graph such that few rows change their owner."""

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


def place_all(owner: Owner, nets: Nets, context: Context) -> Owner:
    """Assign every vertex without a part to the part where it adds the fewest rows to the volume.

    Such vertices have -1 in `owner`. Returns `owner` itself if every vertex has a part.
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
    """Lower the volume, while few rows change their owner.

    Vertices first leave parts above the limit; then local searches run from all boundary vertices.
    On graphs such as meshes, minimum cuts between neighbouring parts follow.

    Attributes:
        most: Largest number of vertices that may get another owner; new vertices do not count.
    """

    most: int
    numbers: VCycles = MIGRATION

    def refine(self, owner: Owner, problem: Hypergraph, context: Context) -> Owner:
        """Return new owners, int32[num_vertices]; entries of `owner` are -1 for new vertices."""
        nets = nets_of(problem)
        limits = context.limits
        placed = place_all(owner, nets, context)
        state = state_of(nets, placed, limits.num_parts)
        sweeps = Sweeps(limits, context.rng(), context.deadline, numbers=self.numbers)
        state = self._within_limits(owner, nets, state, sweeps)
        self._search(owner, nets, state, sweeps)
        left = self.most - _moved(owner, state)
        if left > 0 and sweeps.cut(nets, state, (MIGRATION_CUTS,), left) > 0:
            self._search(owner, nets, state, sweeps)
        return state.owner

    def _search(self, owner: Owner, nets: Nets, state: State, sweeps: Sweeps) -> None:
        """Run local searches from all boundary vertices, until a search saves too few rows."""
        saved = rows = volume(nets, state)
        while saved > LEAST_MIGRATION * rows and not sweeps.deadline.passed():
            left = self.most - _moved(owner, state)
            if left <= 0:
                break
            order = boundary(nets, state)
            limit = np.maximum(sweeps.limits.limit, state.sums)
            saved, _ = sweeps.search_from(order, max(len(order), 1), left, limit, nets, state)

    def _within_limits(self, owner: Owner, nets: Nets, state: State, sweeps: Sweeps) -> State:
        """Lower the overload by moves, then by swaps; undo swaps if too many owners change.

        At most `most` vertices may leave their parts.
        """
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
    """Return the number of vertices that have left their part; new vertices do not count."""
    return int(np.count_nonzero((owner >= 0) & (owner != state.owner)))
