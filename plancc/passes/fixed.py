"""Refine a partition in which some vertices are fixed: these vertices must stay in their parts.

The fixed vertices of each part are merged into one vertex, and an extra constraint allows one
merged vertex per part. So all passes can refine the smaller hypergraph unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plancc.graph.owners import Owner, Owners
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.kernels.coarsening import contract
from plancc.passes.kernels.nets import nets_of
from plancc.passes.refine import RefineVolume


@dataclass(frozen=True, eq=False)
class Around:
    """A problem with fixed vertices, made smaller by merging the fixed vertices of each part.

    Attributes:
        given: Limits of the given problem.
        problem: The smaller problem: free vertices, then merged vertices (see `Hypergraph.fixed`).
        limits: Limits of the smaller problem; every part may hold one merged vertex.
        label (int32[num_vertices]): For every given vertex, its vertex in the smaller problem.
    """

    given: Limits
    problem: Hypergraph
    limits: Limits
    label: Owner

    @classmethod
    def of(cls, fixed: Owner, problem: Hypergraph, limits: Limits, sized: bool = False) -> Around:
        """Merge the fixed vertices of each part into one; `fixed` has -1 for free vertices.

        All parts must have the same capacity. If `sized`, the problem gets `Hypergraph.pin_sizes`,
        which the expected volume needs.
        """
        free = fixed < 0
        parts, place = np.unique(fixed[~free], return_inverse=True)
        label, number = np.empty(len(fixed), np.int32), int(np.count_nonzero(free))
        label[free], label[~free] = np.arange(number), number + place
        nets = contract(nets_of(problem, sized), label)
        of_vertices = np.full(len(nets.weight), -1, np.int32)
        of_vertices[number:] = parts
        around = Limits(
            np.hstack([nets.weight, of_vertices[:, None] >= 0]),
            limits.num_parts,
            [*limits.epsilon, 0.0],
            names=(*limits.names, "fixed"),
        )
        weights = nets.weight if problem.vertex_weights.ndim > 1 else nets.weight[:, 0]
        smaller = Hypergraph(
            nets.net_ptr,
            nets.pins,
            weights,
            nets.cost,
            nets.source if len(nets.source) else None,
            of_vertices,
            nets.size if sized else None,
        )
        return cls(limits, smaller, around, label)

    @property
    def refinable(self) -> Hypergraph:
        """The smaller problem with a further weight per vertex: 1 if it is merged, 0 if free."""
        return replace(self.problem, vertex_weights=self.limits.weights)

    @property
    def fixed(self) -> Owner:
        """Part of every vertex of the given problem, int32[num_vertices]; -1 for free vertices."""
        assert self.problem.fixed is not None
        return self.problem.fixed[self.label]

    @property
    def _parts(self) -> Owner:
        assert self.problem.fixed is not None
        return self.problem.fixed[self.problem.fixed >= 0]

    def inside(self, owner: Owner) -> Owner:
        """Return owners of the smaller problem's vertices, from owners of the given problem."""
        found = np.empty(self.problem.num_vertices, np.int32)
        found[self.label] = owner
        return found

    def outside(self, owner: Owner) -> Owner:
        """Return owners of the given problem's vertices, from owners of the smaller problem.

        Parts are renumbered so that fixed vertices keep their parts.
        """
        return numbered_by(self._parts, owner, self.limits.num_parts)[self.label]

    def holds(self, owner: Owner) -> bool:
        """Whether every part holds at most one merged vertex (one made of fixed vertices)."""
        number = len(self._parts)
        return len(np.unique(owner[len(owner) - number :])) == number

    def within(self, context: Context) -> Context:
        """Convert a pass's context from the given problem to the smaller problem."""
        time = context.time
        if time is not None:
            seconds = time.seconds
            time = replace(time, seconds=lambda owners: seconds(Owners(self.outside(owners.rows))))
        return replace(context, limits=self.limits, time=time)


def refine_around(
    fixed: npt.NDArray[np.bool_],
    refinement: RefineVolume,
    owner: Owner,
    problem: Hypergraph,
    context: Context,
) -> Owner:
    """Refine owners by a pass, while the vertices in `fixed` keep their owners.

    Returns `owner` itself if no better owners are found. The net sources of `problem` must be
    known, and all parts must have the same capacity.
    """
    around = Around.of(np.where(fixed, owner, np.int32(-1)), problem, context.limits)
    begin, context = around.inside(owner), around.within(context)
    found = refinement.refine(begin, around.refinable, context).owner
    # if the pass could not reach the balance, a part may hold two merged vertices
    return around.outside(found) if around.holds(found) else owner


def numbered_by(parts: Owner, owner: Owner, num_parts: int) -> Owner:
    """Return new owners, after renumbering parts: the last m vertices are in `parts`, int32[m]."""
    last, number = slice(len(owner) - len(parts), None), np.full(num_parts, -1, np.int32)
    number[owner[last]] = parts
    number[number < 0] = np.setdiff1d(np.arange(num_parts), number)
    found = number[owner]
    found[last] = parts  # needed if two of these vertices were in one part
    return found
