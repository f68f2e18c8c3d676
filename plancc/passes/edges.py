"""The pass `RefineEdges`, which refines the owners of rows and nonzeros of an edge plan.

The better of two partitions has less overload, then the lower objective, then the lower volume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from plancc.cost.objectives import Objective, find_objective, objective_value
from plancc.cost.rates import EpochRates
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.passes.context import Context
from plancc.passes.kernels.edge_moves import Prices, sweep_nets, sweep_owners
from plancc.passes.kernels.edges import EdgeState, MatrixPattern, owners_of, pattern_of, volume
from plancc.passes.presets import EDGE_ROUNDS, Annealing, EdgeRounds, Fees
from plancc.passes.refine import Merit, Refined, message_fees, message_size
from plancc.plan.metrics import Traffic

ROWS = EpochRates(message=0.0, row=1.0, nonzero=0.0, own_row=0.0)
"""Rates of objectives that count rows only."""


@dataclass(frozen=True)
class RefineEdges:
    """Move nonzeros and owners of rows to other parts, so that an edge plan costs less.

    A round is a series of sweeps: at first parts may exceed the limit, at a price that rises from
    sweep to sweep; then parts get back within the limit.

    Attributes:
        objective: A name in `plancc.cost.objectives.OBJECTIVES`.
        rounds: Largest number of rounds after the first sweeps. A part above its limit causes one
            round even if this is 0.
    """

    objective: str = "volume"
    rounds: int = 20
    numbers: EdgeRounds = EDGE_ROUNDS

    def refine(self, owners: Owners, matrix: Graph, context: Context) -> Refined:
        """Return refined owners, never with more overload or, at equal overload, a worse objective.

        A row may change its owner only if all its nonzeros may move. For objective "time", the
        capacity of a part is also taken as the speed of its rank.
        """
        objective = find_objective(self.objective)
        if objective.is_time and context.time is None:
            raise InputError("objective 'time' needs a prediction of epoch times (`time`)")
        owners.check(matrix, context.num_parts)
        search = _Search(self, objective, matrix, context)
        before = search.start(owners)
        search.run()
        return Refined(search.owners, before, search.best)


class _Search:
    """One run of `RefineEdges`: the state that its sweeps change, and the best owners so far."""

    def __init__(
        self, options: RefineEdges, objective: Objective, matrix: Graph, context: Context
    ) -> None:
        self.options, self.objective = options, objective
        self.numbers = options.numbers
        self.charges_messages = objective.counts_messages and not objective.of_busiest
        self.pairs = objective.counts_messages
        self.rng, self.deadline, self.context = context.rng(), context.deadline, context
        self.matrix, self.num_parts = matrix, context.num_parts
        self.pattern: MatrixPattern = pattern_of(matrix.indptr, matrix.indices, context.movable)
        if context.held is not None:
            self.pattern.free[context.held] = False
        self.limits = context.limits
        self.scale = 1 / self.limits.relative

    def start(self, owners: Owners) -> Merit:
        """Start the search from the given owners; return their merit, which ranks partitions."""
        self.owners = Owners(owners.rows, owners.of_nonzeros(self.matrix))
        self._back()
        self.best = self._merit()
        return self.best

    def _back(self) -> None:
        """Reset the state to the best owners so far."""
        nonzeros = self.owners.of_nonzeros(self.matrix)
        rows = self.owners.rows
        self.state: EdgeState = owners_of(self.pattern, rows, nonzeros, self.num_parts, self.pairs)

    def _merit(self) -> Merit:
        state = self.state
        parts = Traffic(
            rows=state.rows,
            nonzeros=state.sums,
            sent=state.sent,
            received=state.received,
            messages_sent=state.messages_sent,
            messages_received=state.messages_received,
        )
        owners = Owners(state.owner, state.nonzeros)
        value = objective_value(self.options.objective, parts, owners, self.context.time)
        return Merit(self.limits.overload(state.sums), value, volume(state))

    def run(self) -> None:
        """Run up to `options.rounds` rounds; if it is 0, one round if a part is above its limit."""
        how = self.numbers
        strength, fruitless = how.first_fees if self.charges_messages else 0.0, 0
        self._climb(strength)
        self._keep()
        for _ in range(self.options.rounds or int(self.best.overload > 0)):
            if self.deadline.passed() or fruitless == how.patience:
                break
            for price in how.prices:
                self._sweep(price, np.inf, strength)
            self._restore(strength)
            self._climb(strength)
            last = self.best
            better = self._keep()
            progress = self.best.overload < last.overload
            progress |= self.best.value < (1 - how.least_progress) * last.value
            fruitless = 0 if progress else fruitless + 1
            if not self.objective.is_volume:
                strength = strength * (how.stronger if better else how.weaker) if strength else 1.0
            if not better:
                self._back()

    def _keep(self) -> bool:
        """Copy the state's owners if they are the best so far; return whether they are."""
        reached = self._merit()
        if reached >= self.best:
            return False
        self.best = reached
        self.owners = Owners(self.state.owner.copy(), self.state.nonzeros.copy())
        return True

    def _climb(self, strength: float) -> None:
        for _ in range(self.numbers.max_climbs):
            before = volume(self.state)
            self._sweep(0.0, self.limits.limit[:, 0], strength)
            if before - volume(self.state) <= self.numbers.least_progress * before:
                return

    def _restore(self, strength: float) -> None:
        """Run sweeps at rising prices of overload until no part exceeds its limit, or prices end.

        The sweeps also run after the deadline.
        """
        for price in self.numbers.restoring:
            if self.limits.overload(self.state.sums) == 0:
                return
            self._sweep(price, np.inf, strength, restoring=True)

    def _sweep(self, price: float, cap: Any, strength: float, *, restoring: bool = False) -> None:
        """Run a sweep that changes owners of rows, then a sweep that moves nonzeros to other parts.

        If messages have fees (costs for each message's first rows), owners of rows change only if
        `restoring`. No move may give a part more than `cap` nonzeros. If `restoring`, the sweeps
        run even after the deadline.
        """
        if self.deadline.passed() and not restoring:
            return
        prices = self._prices(price, cap, strength)
        if not self.charges_messages or restoring:  # a new owner would mean new messages
            order = np.flatnonzero(self.pattern.free)
            self.rng.shuffle(order)
            sweep_owners(order, self.pattern, self.state, prices)
        order = np.flatnonzero((self.state.spread > 1) | restoring)
        self.rng.shuffle(order)
        sweep_nets(order, self.pattern, self.state, prices, restoring)

    def _prices(self, price: float, cap: Any, strength: float) -> Prices:
        number = len(self.pattern.row)
        mean = max(number / self.num_parts, 1.0)
        unit = max(volume(self.state), 1) / max(number, 1) / (Annealing.overweight * mean)
        tariff = self._tariff(strength) if strength > 0 else {}
        none: dict[str, Any] = dict.fromkeys(Prices._fields, 0.0)
        none |= {"row": 1.0, "fees": np.zeros(1)}
        weight = {
            "target": self.limits.target[:, 0],
            "weight": price * unit * self.scale,
            "cap": np.full(self.num_parts, cap, dtype=np.float64),
            "scale": self.scale,
        }
        return Prices(**(none | tariff | weight))

    def _tariff(self, strength: float) -> dict[str, Any]:
        """Return the fields of `Prices` for the objective's traffic, proportional to `strength`."""
        state, best = self.state, self.best.value
        if self.charges_messages:
            return {"fees": message_fees(message_size(state, Fees.small), strength)}
        rates = ROWS
        if self.context.time is not None and self.objective.is_time:
            rates = self.context.time.rates
            speed = float(np.mean(self.limits.capacities or 1.0))
            rates = rates._replace(nonzero=rates.nonzero / speed, own_row=rates.own_row / speed)
        work = (rates.nonzero * state.sums + rates.own_row * state.rows) * self.scale
        out = rates.row * state.sent + rates.message * state.messages_sent + work
        into = rates.row * state.received + rates.message * state.messages_received + work
        mean = 0.5 * (out + into).mean()
        if self.objective.is_time:  # the predicted time includes more than these two sums
            best = max(out.max(), into.max())
        # In the busiest part, a row above the ceiling costs `strength` more than a row below.
        ceiling = mean + Fees.ceiling * max(best - mean, 0.0)
        # `rates.row` is 0 if the work of a part takes longer than its exchange.
        pressure = strength / max(max(best - ceiling, rates.row) * rates.row, 1e-300)
        return rates._asdict() | {"ceiling": ceiling, "pressure": pressure}
