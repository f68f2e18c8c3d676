"""Lower the overload of parts by exchanging few vertices, where moves of single ones no longer do.

The work follows the parts above their limit, not the pairs of parts: each looks at some parts with
room (`plancc.passes.kernels.exchange`), so that thousands of parts are no problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from plancc.models.limits import Limits
from plancc.passes.deadline import Deadline
from plancc.passes.presets import TRADING, Trading

if TYPE_CHECKING:
    from plancc.passes.kernels.nets import Nets
    from plancc.passes.kernels.state import State


@dataclass(frozen=True, eq=False)
class Trades:
    """Exchanges of vertices between two parts that lower the overload for the fewest rows.

    Attributes
    ----------
    limits : Limits
        Of several constraints, or of one in a column.
    rng : numpy.random.Generator
        Which vertices and parts are looked at, where there are many.
    deadline : Deadline
        No round starts after it.
    numbers : Trading
    """

    limits: Limits
    rng: np.random.Generator
    deadline: Deadline
    numbers: Trading = TRADING

    def run(self, nets: Nets, state: State) -> int:
        """Lower the overload of `state`; returns the number of exchanges.

        The overload never rises, and no part is emptied.
        """
        from plancc.passes.kernels.exchange import Rules, chains, exchange

        limits, numbers = self.limits, self.numbers
        limit = np.ascontiguousarray(limits.limit, dtype=np.float64)
        even = np.maximum(-(-limits.total // limits.num_parts), 1)
        unit = 1 / (limits.relative[:, None] * even)
        everyone = np.arange(len(state.owner))
        chain, made, last = None, 0, 0
        overload = limits.overload(state.sums)
        while overload > 0 and last <= numbers.max_last and not self.deadline.passed():
            if chain is None:
                chain = chains(everyone, state.owner, limits.num_parts)
                rounds = iter(numbers.rounds)
            how = next(rounds, numbers.last)
            room = (limit - state.sums) * unit
            roomy = np.argsort(-np.vstack([room.T, room.min(axis=1)]), axis=1, kind="stable")
            worst = np.maximum(-room, 0).sum(axis=1)
            over = np.argsort(-worst, kind="stable")[: np.count_nonzero(worst)]
            rules = Rules(limit, unit, *how)
            number = (room > 0).sum(axis=0)
            found = exchange(over, roomy, number, chain, nets, state, rules, self.rng)
            made += int(found)
            before, overload = overload, limits.overload(state.sums)
            if how is numbers.last:
                last += 1
                if overload > (1 - numbers.least_relief) * before:
                    break
        return made
