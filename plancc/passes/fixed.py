"""Refine a partition in which some vertices are fixed: these vertices must stay in their parts.

The fixed vertices of each part are merged into one vertex, which gives a smaller hypergraph. An
extra constraint allows at most one merged vertex in every part. So all passes can refine the
smaller hypergraph unchanged. Afterwards, the parts are renumbered so that every merged vertex is in
the part of its fixed vertices.
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

    The vertices of the smaller problem are the free vertices, followed by the merged vertices.

    Attributes:
        given: Limits of the given problem.
        problem: The smaller problem. `Hypergraph.fixed` has the parts of the merged vertices.
        limits: Limits of the smaller problem; every part may hold one merged vertex.
        label (int32[num_vertices]): For every vertex of the given problem, the vertex of the
            smaller problem that represents it.
    """

    given: Limits
    problem: Hypergraph
    limits: Limits
    label: Owner

    @classmethod
    def of(cls, fixed: Owner, problem: Hypergraph, limits: Limits, sized: bool = False) -> Around:
        """Make a problem smaller: merge the fixed vertices of each part.

        Parameters:
            fixed (int32[num_vertices]): Part of every fixed vertex; -1 for free vertices.
            problem: The given problem.
            limits: Limits of the given problem; all parts must have the same capacity.
            sized: Whether the smaller problem has pin sizes, which the expected volume needs.
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
        """The smaller problem (`problem`) as passes need it, with one more weight for every vertex.

        This weight is 1 for a merged vertex, which stands for all fixed vertices of a part, and 0
        for a free vertex: a part may hold only one merged vertex.
        """
        return replace(self.problem, vertex_weights=self.limits.weights)

    @property
    def fixed(self) -> Owner:
        """The part of every vertex of the given problem, -1 for free vertices: int32[num_vertices].

        A free vertex may be in any part.
        """
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
        """Convert owners of vertices from the smaller problem to the given problem.

        Parts are renumbered so that all fixed vertices are in their parts.
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
    """Refine owners by a pass, while fixed vertices keep their owners.

    Parameters:
        fixed (bool[num_vertices]): For every vertex, whether it keeps its owner.
        refinement: The pass.
        owner (int32[num_vertices]): Current owners; not changed.
        problem: The hypergraph; its net sources must be known.
        context: Context of the pass; all parts must have the same capacity.

    Returns:
        int32[num_vertices]: New owners; `owner` itself if no better owners are found.
    """
    around = Around.of(np.where(fixed, owner, np.int32(-1)), problem, context.limits)
    begin, context = around.inside(owner), around.within(context)
    found = refinement.refine(begin, around.refinable, context).owner
    # if the pass could not reach the balance, a part may hold two merged vertices
    return around.outside(found) if around.holds(found) else owner


def numbered_by(parts: Owner, owner: Owner, num_parts: int) -> Owner:
    """Renumber parts so that the last vertices are in the given parts; return the new owners.

    Parameters:
        parts (int32[m]): Parts of the last m vertices after the renumbering, all different.
        owner (int32[num_vertices]): Owners before the renumbering; not changed.
        num_parts: Number of parts.
    """
    last, number = slice(len(owner) - len(parts), None), np.full(num_parts, -1, np.int32)
    number[owner[last]] = parts
    number[number < 0] = np.setdiff1d(np.arange(num_parts), number)
    found = number[owner]
    found[last] = parts  # needed if two of these vertices were in one part
    return found
