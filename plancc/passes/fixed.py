"""Refinement around vertices that stay where they are.

All fixed vertices of a part are one vertex of a smaller hypergraph, and every part may hold one of
these, by a separate constraint. So every pass may be used as it is: in the end the parts are
numbered by the fixed vertex that they have.
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
    """A problem with one vertex for all that are fixed in a part, after the others.

    Attributes:
        given: Limits of the given vertices.
        problem: Its `fixed` are the parts of those vertices.
        limits: Of its vertices; every part may hold one of those.
        label (int32[given vertices]): The vertex that stands for every given one.
    """

    given: Limits
    problem: Hypergraph
    limits: Limits
    label: Owner

    @classmethod
    def of(cls, fixed: Owner, problem: Hypergraph, limits: Limits, sized: bool = False) -> Around:
        """The problem around fixed vertices.

        Parameters:
            fixed (int32[num_vertices]): The part of fixed vertices; -1: of others.
            limits: All parts have one capacity.
            sized: Whether pins keep their sizes, for an expected volume.
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
        """The problem for passes that keep to the limits."""
        return replace(self.problem, vertex_weights=self.limits.weights)

    @property
    def fixed(self) -> Owner:
        """The part of fixed vertices, -1 of others: int32[given vertices]."""
        assert self.problem.fixed is not None
        return self.problem.fixed[self.label]

    @property
    def _parts(self) -> Owner:
        assert self.problem.fixed is not None
        return self.problem.fixed[self.problem.fixed >= 0]

    def inside(self, owner: Owner) -> Owner:
        """Owners of the problem's vertices, from owners of the given vertices."""
        found = np.empty(self.problem.num_vertices, np.int32)
        found[self.label] = owner
        return found

    def outside(self, owner: Owner) -> Owner:
        """Owners of the given vertices, from the problem's; fixed ones are in their part."""
        return numbered_by(self._parts, owner, self.limits.num_parts)[self.label]

    def holds(self, owner: Owner) -> bool:
        """Whether no part has vertices that are fixed in several."""
        number = len(self._parts)
        return len(np.unique(owner[len(owner) - number :])) == number

    def within(self, context: Context) -> Context:
        """The context of a pass on the problem, by that of one on the given vertices."""
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
    """Refined owners; fixed vertices keep theirs.

    Parameters:
        fixed: bool[num_vertices].
        owner (int32[num_vertices]): Not changed.
        problem: With net sources.
        context: All parts have one capacity.

    Returns:
        int32[num_vertices]: `owner` itself if no better ones are found.
    """
    around = Around.of(np.where(fixed, owner, np.int32(-1)), problem, context.limits)
    begin, context = around.inside(owner), around.within(context)
    found = refinement.refine(begin, around.refinable, context).owner
    return around.outside(found) if around.holds(found) else owner  # balance was out of reach


def numbered_by(parts: Owner, owner: Owner, num_parts: int) -> Owner:
    """Owners whose parts are numbered so that the last vertices are in these parts."""
    last, number = slice(len(owner) - len(parts), None), np.full(num_parts, -1, np.int32)
    number[owner[last]] = parts
    number[number < 0] = np.setdiff1d(np.arange(num_parts), number)
    found = number[owner]
    found[last] = parts  # where two of them were in one part
    return found
