"""Bring the parts of any partition within their limits."""

from __future__ import annotations

from plancc.graph.owners import Owner
from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of
from plancc.passes.multilevel import Sweeps


def rebalance(owner: Owner, problem: Hypergraph, context: Context) -> Owner:
    """Lower the overload of a partition, so that as few additional rows as possible are sent.

    Returns `owner` itself if no part is above the limit, or the overload cannot be lowered. Parts
    with too heavy vertices stay above their limits.
    """
    nets = nets_of(problem)
    limits = context.limits
    state = state_of(nets, owner, limits.num_parts)
    before = limits.overload(state.sums)
    if before == 0:
        return owner
    sweeps = Sweeps(limits, context.rng())
    sweeps.anneal(nets, state)
    sweeps.restore_balance(nets, state)
    return state.owner if limits.overload(state.sums) < before else owner
