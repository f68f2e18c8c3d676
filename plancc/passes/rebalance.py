"""Bring parts back below their limit, whoever made them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.models.capacities import Capacities
from plancc.models.limits import Epsilon, Limits
from plancc.models.problem import Hypergraph
from plancc.passes.multilevel import Owner, Sweeps


@dataclass(frozen=True)
class Rebalance:
    """Move vertices until every constraint is within epsilon, those that cost the fewest rows.

    Repairs the partitions of back ends that balance one weight only, or none. Vertices may be too
    heavy for balance; then the parts come as close as single moves and swaps bring them.

    Attributes
    ----------
    epsilon : float or tuple of float
        Allowed imbalance: a part weighs at most ``(1 + epsilon) * ceil(total / num_parts)``, or as
        much as the heaviest vertex, by every constraint.
    seed : int
        The same seed gives the same owners.
    capacities : tuple of float, optional
        To which the even shares of the parts are in proportion; None: all alike.
    """

    epsilon: Epsilon = 0.01
    seed: int = 1
    capacities: Capacities = None

    def run(self, problem: Hypergraph, owner: Owner, num_parts: int) -> Owner:
        """Owners with a lower overload.

        Parameters
        ----------
        problem : Hypergraph
        owner : int32[num_vertices]
            Not changed.
        num_parts : int

        Returns
        -------
        int32[num_vertices]
            `owner` itself if no part is above the limit, or none can be brought closer to it.
        """
        from plancc.passes.kernels.nets import nets_of
        from plancc.passes.kernels.state import state_of

        nets = nets_of(problem)
        limits = Limits.of(nets.weight, num_parts, self.epsilon, self.capacities)
        state = state_of(nets, owner, num_parts)
        before = limits.overload(state.sums)
        if before == 0:
            return owner
        sweeps = Sweeps(limits, np.random.default_rng(self.seed))
        sweeps.anneal(nets, state)
        sweeps.restore_balance(nets, state)
        return state.owner if limits.overload(state.sums) < before else owner
