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
    from plancc.passes.kernels.coarsening import contract
    from plancc.passes.kernels.nets import nets_of

    parts, held = np.unique(owner[fixed], return_inverse=True)
    label = np.empty(len(owner), np.int32)
    free = int(np.count_nonzero(~fixed))
    label[~fixed], label[fixed] = np.arange(free), free + held
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
    homes = found[free:]
    if len(np.unique(homes)) < len(homes):  # balance was out of reach otherwise
        return owner
    number = np.full(given.num_parts, -1, np.int32)
    number[homes] = parts
    left = np.setdiff1d(np.arange(given.num_parts), parts)
    number[number < 0] = left
    return number[found[label]]


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
