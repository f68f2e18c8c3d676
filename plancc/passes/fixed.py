"""Refinement around vertices that stay where they are.

All fixed vertices of a part are one vertex of a smaller hypergraph, and every part may hold one of
these, by a constraint of its own. So every pass may be used as it is: in the end the parts are
numbered by the fixed vertex that they have.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.kernels.coarsening import contract
from plancc.passes.kernels.nets import nets_of
from plancc.passes.multilevel import Owner
from plancc.passes.refine import RefineVolume


def refine_around(
    fixed: npt.NDArray[np.bool_],
    refinement: RefineVolume,
    owner: Owner,
    problem: Hypergraph,
    context: Context,
) -> Owner:
    """Refined owners, those of fixed vertices the same.

    Parameters:
        fixed: bool[num_vertices].
        refinement: For an objective that nets tell, which is any but "time".
        owner (int32[num_vertices]): Not changed.
        problem: With net sources.
        context: All parts have one capacity.

    Returns:
        int32[num_vertices]: `owner` itself if no better ones are found.
    """
    label, parts = one_for_each_part(np.where(fixed, owner, np.int32(-1)))
    free = int(np.count_nonzero(~fixed))
    nets = contract(nets_of(problem), label)
    once = np.zeros((len(nets.weight), 1), np.int64)
    once[free:] = 1
    given = context.limits
    limits = Limits(
        np.hstack([nets.weight, once]),
        given.num_parts,
        [*given.epsilon, 0.0],
        names=(*given.names, "fixed"),
    )
    smaller = Hypergraph(nets.net_ptr, nets.pins, limits.weights, nets.cost, nets.source)
    of_label = np.empty(len(nets.weight), np.int32)
    of_label[label] = owner
    found = refinement.refine(of_label, smaller, replace(context, limits=limits)).owner
    if len(np.unique(found[free:])) < len(parts):  # balance was out of reach otherwise
        return owner
    return numbered_by(parts, found, given.num_parts)[label]


def one_for_each_part(fixed: Owner) -> tuple[Owner, Owner]:
    """New vertices: one for all that are fixed in a part, after the others.

    Parameters:
        fixed (int32[num_vertices]): The part of fixed vertices; -1: of others.

    Returns:
        label (int32[num_vertices]), parts (int32[k]): The new vertex of every vertex; the parts of
        the last k ones.
    """
    free = fixed < 0
    parts, place = np.unique(fixed[~free], return_inverse=True)
    label, number = np.empty(len(fixed), np.int32), int(np.count_nonzero(free))
    label[free], label[~free] = np.arange(number), number + place
    return label, parts


def numbered_by(parts: Owner, owner: Owner, num_parts: int) -> Owner:
    """Owners whose parts are numbered so that the last vertices are in these parts."""
    last, number = slice(len(owner) - len(parts), None), np.full(num_parts, -1, np.int32)
    number[owner[last]] = parts
    number[number < 0] = np.setdiff1d(np.arange(num_parts), number)
    found = number[owner]
    found[last] = parts  # where two of them were in one part
    return found


def agreeing(owner: Owner, wanted: Owner, num_parts: int) -> Owner:
    """Owners whose parts are numbered like most of the wanted rows, which get their wanted parts.

    Parameters:
        wanted (int32[num_vertices]): -1: any.
    """
    from scipy.optimize import linear_sum_assignment

    fixed = wanted >= 0
    overlap = np.zeros((num_parts, num_parts), np.int64)
    np.add.at(overlap, (owner[fixed], wanted[fixed]), 1)
    overlap[np.arange(num_parts), np.arange(num_parts)] *= 2  # of equals, those that stay
    _, number = linear_sum_assignment(overlap, maximize=True)
    return np.where(fixed, wanted, number.astype(np.int32)[owner])
