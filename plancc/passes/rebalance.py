"""Bring parts back below their limit, whoever made them."""

from __future__ import annotations

from plancc.graph.owners import Owner
from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of
from plancc.passes.multilevel import Sweeps


def rebalance(owner: Owner, problem: Hypergraph, context: Context) -> Owner:
    """Owners with a lower overload: those vertices move that cost the fewest rows.

    Repairs the partitions of back ends that balance one weight only, or none. Vertices may be too
    heavy for balance; then the parts come as close as single moves and swaps bring them.

    Parameters:
        owner (int32[num_vertices]): Not changed.

    Returns:
        int32[num_vertices]: `owner` itself if no part is above the limit, or none can be brought
            closer to it.
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
