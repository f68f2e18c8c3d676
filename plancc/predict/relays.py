"""The search for relays that make the predicted epoch of a plan shortest. Rows take 2 or 3 hops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plancc.plan.plan import Plan
from plancc.plan.routes import with_routes
from plancc.plan.topology import Topology
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of

SIZES = (0.25, 0.5, 1, 2)
"""Sizes of groups to try, as multiples of the square root of the number of parts. With groups of
about this size, parts send few messages."""


def best_relays(plan: Plan, predictor: Predictor, most: int) -> tuple[Plan, float, str]:
    """Return the plan with the best relays, its predicted seconds per epoch, and the relays' name.

    The plan is a row or edge plan, whose present hops are replaced. `most` is the largest number of
    hops of a row, 2 or 3. For example, the name "16x16 in 2 hops" means 16 groups of 16 parts.
    """
    ranks = predictor.machine.node.ranks
    found = (
        (with_routes(plan, groups, hops), f"{groups} in {hops} hops")
        for groups in _groups(plan.num_parts, ranks)
        for hops in range(2, most + 1)
    )
    timed = ((each, predictor.epoch(tables_of(each)).seconds, how) for each, how in found)
    return min(timed, key=lambda each: each[1])


def _groups(num_parts: int, ranks_per_node: int) -> Iterator[Topology]:
    """Yield divisions of the parts into groups of equal size; the last group may be smaller."""
    root = 2 ** round(np.log2(num_parts) / 2)
    sizes = {int(root * share) for share in SIZES} | {ranks_per_node}
    for size in sorted(each for each in sizes if 1 < each <= num_parts // 2) or [num_parts]:
        rest = num_parts % size
        yield Topology.parse(f"{num_parts // size}x{size}" + f"+1x{rest}" * (rest > 0))
