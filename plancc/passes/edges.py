"""Better owners of rows and nonzeros than given, by exact objective.

Knows matrices and their owners; no plan, no file, no partitioner. The better owners are those with
less overload, then with the smaller value of the objective, then with the smaller volume.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plancc.cost.objectives import NEEDS_DIMS, OBJECTIVES, objective_value
from plancc.cost.rates import EpochRates
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.limits import Limits
from plancc.passes.deadline import Deadline
from plancc.passes.multilevel import PRICED_OVERWEIGHT, PRICES
from plancc.passes.refine import CEILING, MAX_FEE_SIZE, SMALL
from plancc.plan.metrics import Traffic
from plancc.registry import check_choice

if TYPE_CHECKING:
    from plancc.passes.kernels.edge_moves import Prices
    from plancc.passes.kernels.edges import Owners, Pattern

Owner = npt.NDArray[np.int32]

RESTORING_PRICES = (30.0, 100.0, 300.0, 1e3, 1e4, 1e6, 1e9, 1e12)
"""Prices until no part is above the limit."""
MAX_CLIMBS = 6
"""Sweeps within the limit that end a round ..."""
LEAST_PROGRESS = 0.002
"""... or until one saves less than this share of the volume."""
MAX_FRUITLESS = 3
"""Rounds in a row that gain less than `LEAST_PROGRESS` after which refinement stops."""
MAX_ROUNDS = 20
STRAY = 0.3
"""Price of traffic for the volume as well, in sweeps beyond the limit: owners leave the busiest
parts, and later sweeps find better places around them."""
FIRST_STRENGTH = {"volume": 0.0, "max-volume": 0.0, "messages": 4.0, "time": 0.0}
"""Price of traffic in the first round: only a message that is not there yet is never wanted."""
STRONGER, WEAKER = 1.5, 0.5
"""How the price of traffic changes after a round that lowered the maximum, or that did not."""


@dataclass(frozen=True)
class EdgeRefined:
    """Owners and how good they are.

    Attributes
    ----------
    owner : int32[n]
    nonzero_owner : int32[nnz]
    value_before, value : float
        Of the objective (`plancc.cost.objectives`), before and after.
    volume_before, volume : int
        Rows moved by expand and fold, before and after.
    overload_before, overload : float
        Nonzeros of all parts above the limit, over those of an average part, before and after.
    seconds : float
    """

    owner: Owner
    nonzero_owner: Owner
    value_before: float
    value: float
    volume_before: int
    volume: int
    overload_before: float
    overload: float
    seconds: float


@dataclass(frozen=True)
class RefineEdges:
    """Move nonzeros and owners of rows to other parts, so that an edge plan costs less.

    Rounds of sweeps: at first parts may grow beyond the limit at a price that rises from sweep to
    sweep, then the balance is restored where that costs least, then sweeps stay within the limit
    (`plancc.passes.kernels.edge_moves`). With another objective than the volume the rows, or the
    messages, of the busiest parts have a price as well.

    Attributes
    ----------
    objective : str
        In `plancc.cost.objectives.OBJECTIVES`.
    epsilon : float
        Allowed imbalance of nonzeros.
    seed : int
        The same seed gives the same owners (without a budget).
    rounds : int
        At most that many after the first climb; where a part is above the limit, one at least.
    budget : float, optional
        Seconds after which no further sweep starts, but for those that restore the balance.
    rates : EpochRates, for objective "time" only
        Of the widths and the machine (`plancc.predict.machine.epoch_rates`).
    """

    objective: str = "volume"
    epsilon: float = 0.01
    seed: int = 1
    rounds: int = MAX_ROUNDS
    budget: float | None = None
    rates: EpochRates | None = None

    def run(
        self,
        matrix: Graph,
        owner: Owner,
        nonzero_owner: Owner,
        num_parts: int,
        *,
        deadline: Deadline | None = None,
        movable: npt.NDArray[np.bool_] | None = None,
    ) -> EdgeRefined:
        """Refine owners; the given ones are not changed.

        Parameters
        ----------
        matrix : Graph
        owner : int32[n]
        nonzero_owner : int32[nnz]
            In CSR order. A nonzero of the diagonal belongs to the owner of its row.
        num_parts : int
        deadline : Deadline, optional
            In place of the budget.
        movable : bool[nnz], optional
            Nonzeros that may change their owner; None: all. The owner of a row may change if all
            nonzeros of the row may; one on the diagonal goes with it and never alone.

        Returns
        -------
        EdgeRefined
            Never worse than given, by overload, then value.

        Raises
        ------
        InputError
            An unknown objective, or "time" without rates; owners of another number of rows or
            nonzeros, outside 0..num_parts-1, or of a diagonal nonzero that is not its row's.
        """
        check_choice("objective", self.objective, OBJECTIVES)
        if self.objective == "time" and self.rates is None:
            raise InputError(NEEDS_DIMS)
        check_owners(matrix, owner, nonzero_owner, num_parts)
        start = time.perf_counter()
        deadline = deadline or Deadline.after(self.budget)
        search = _Search(self, matrix, owner, nonzero_owner, num_parts, movable, deadline)
        before = search.best
        search.run()
        return EdgeRefined(
            owner=search.owner,
            nonzero_owner=search.nonzero_owner,
            value_before=before[1],
            value=search.best[1],
            volume_before=before[2],
            volume=search.best[2],
            overload_before=before[0],
            overload=search.best[0],
            seconds=time.perf_counter() - start,
        )


def check_owners(matrix: Graph, owner: Owner, nonzero_owner: Owner, num_parts: int) -> None:
    """Raise an InputError unless these are owners of the rows and nonzeros of the matrix."""
    for what, given, size in (
        ("rows", owner, matrix.num_vertices),
        ("nonzeros", nonzero_owner, matrix.num_nonzeros),
    ):
        if len(given) != size:
            raise InputError(f"{len(given)} owners for {size} {what}")
        if size > 0 and not (int(given.min()) >= 0 and int(given.max()) < num_parts):
            raise InputError(
                f"owners {given.min()}..{given.max()} of {what}: must be in 0..{num_parts - 1}"
            )
    row = np.repeat(np.arange(matrix.num_vertices, dtype=np.int32), np.diff(matrix.indptr))
    wrong = (matrix.indices == row) & (nonzero_owner != owner[row])
    if wrong.any():
        raise InputError(f"nonzero ({row[wrong][0]}, {row[wrong][0]}) is not its row's owner's")


class _Search:
    """One run of `RefineEdges`: the state that its sweeps change, and the best owners so far."""

    def __init__(
        self,
        options: RefineEdges,
        matrix: Graph,
        owner: Owner,
        nonzero_owner: Owner,
        num_parts: int,
        movable: npt.NDArray[np.bool_] | None,
        deadline: Deadline,
    ) -> None:
        from plancc.passes.kernels.edges import pattern_of

        self.objective, self.rates = options.objective, options.rates
        self.rounds = options.rounds
        self.rng = np.random.default_rng(options.seed)
        self.deadline = deadline
        self.num_parts = num_parts
        self.pattern: Pattern = pattern_of(matrix.indptr, matrix.indices, movable)
        self.limits = Limits.of_nonzeros(matrix.num_nonzeros, num_parts, options.epsilon)
        self.state: Owners = self._state_of(owner, nonzero_owner)
        self.owner, self.nonzero_owner = owner, nonzero_owner
        self.best = self._measured()

    def _state_of(self, owner: Owner, nonzero_owner: Owner) -> Owners:
        from plancc.passes.kernels.edges import owners_of

        pairs = self.objective in ("messages", "time")
        return owners_of(self.pattern, owner, nonzero_owner, self.num_parts, pairs)

    def _measured(self) -> tuple[float, float, int]:
        """Overload, value and volume of the state."""
        from plancc.passes.kernels.edges import volume

        state = self.state
        parts = Traffic(
            rows=state.rows,
            nonzeros=state.load,
            sent=state.sent,
            received=state.received,
            messages_sent=state.messages_sent,
            messages_received=state.messages_received,
        )
        value = objective_value(self.objective, parts, self.rates)
        return self.limits.overload(state.load), value, volume(state)

    def run(self) -> None:
        """Rounds until several in a row found nothing better."""
        strength, fruitless = FIRST_STRENGTH[self.objective], 0
        self._climb(strength)
        self._keep()
        for _ in range(self.rounds or int(self.best[0] > 0)):
            if self.deadline.passed() or fruitless == MAX_FRUITLESS:
                break
            aside = STRAY if self.objective == "volume" else strength
            for price in PRICES:
                self._sweep(price, np.inf, aside)
            self._restore(strength)
            self._climb(strength)
            overload, value, _ = self.best
            better = self._keep()
            progress = self.best[0] < overload or self.best[1] < (1 - LEAST_PROGRESS) * value
            fruitless = 0 if progress else fruitless + 1
            if self.objective != "volume":
                strength = strength * (STRONGER if better else WEAKER) if strength else 1.0
            if not better:
                self.state = self._state_of(self.owner, self.nonzero_owner)

    def _keep(self) -> bool:
        """Note the state if it is the best so far."""
        reached = self._measured()
        if reached >= self.best:
            return False
        self.best = reached
        self.owner, self.nonzero_owner = self.state.owner.copy(), self.state.part.copy()
        return True

    def _climb(self, strength: float) -> None:
        from plancc.passes.kernels.edges import volume

        for _ in range(MAX_CLIMBS):
            before = volume(self.state)
            self._sweep(0.0, self.limits.limit, strength)
            if before - volume(self.state) <= LEAST_PROGRESS * before:
                return

    def _restore(self, strength: float) -> None:
        """Bring parts below the limit, also after the deadline."""
        for price in RESTORING_PRICES:
            if self.limits.overload(self.state.load) == 0:
                return
            self._sweep(price, np.inf, strength, restoring=True)

    def _sweep(self, price: float, cap: float, strength: float, *, restoring: bool = False) -> None:
        """Visit all owners, then all rows and columns that several parts have."""
        from plancc.passes.kernels.edge_moves import sweep_nets, sweep_owners

        if self.deadline.passed() and not restoring:
            return
        prices = self._prices(price, cap, strength)
        if self.objective != "messages" or restoring:  # a new owner means new messages
            order = np.flatnonzero(self.pattern.free)
            self.rng.shuffle(order)
            sweep_owners(order, self.pattern, self.state, prices)
        order = np.flatnonzero((self.state.spread > 1) | restoring)
        self.rng.shuffle(order)
        sweep_nets(order, self.pattern, self.state, prices, restoring)

    def _prices(self, price: float, cap: float, strength: float) -> Prices:
        from plancc.passes.kernels.edge_moves import Prices
        from plancc.passes.kernels.edges import volume

        mean = max(len(self.pattern.row) / self.num_parts, 1.0)
        unit = (
            max(volume(self.state), 1) / max(len(self.pattern.row), 1) / (PRICED_OVERWEIGHT * mean)
        )
        tariff = self._tariff(strength) if strength > 0 else {}
        none: dict[str, Any] = dict.fromkeys(Prices._fields, 0.0)
        none |= {"row": 1.0, "fees": np.zeros(1)}
        weight = {"target": self.limits.target, "weight": price * unit, "cap": cap}
        return Prices(**(none | tariff | weight))

    def _tariff(self, strength: float) -> dict[str, Any]:
        """The prices of traffic that the objective asks for, as in `plancc.passes.refine`."""
        state = self.state
        best = self.best[1]
        if self.objective == "volume":
            best = max(state.sent.max(), state.received.max())
        if self.objective == "messages":
            size = max(SMALL * state.sent.sum() / max(state.messages_sent.sum(), 1), 1.0)
            size = min(size, MAX_FEE_SIZE)
            fees = strength * np.exp(-np.arange(int(8 * size) + 2) / size)
            fees[-1] = 0.0
            return {"fees": fees}
        loads = {"row": 1.0}
        mean = state.sent.mean()
        if self.rates is not None and self.objective == "time":
            loads = self.rates._asdict()
            messages = state.messages_sent + state.messages_received
            mean = 0.5 * (self.rates.row * (state.sent + state.received)).mean()
            mean += 0.5 * (self.rates.message * messages).mean()
            mean += (self.rates.nonzero * state.load + self.rates.own_row * state.rows).mean()
        # A row over the ceiling costs `strength` more than one below it where the maximum is.
        ceiling = mean + CEILING * max(best - mean, 0.0)
        pressure = strength / max(best - ceiling, loads["row"]) / loads["row"]
        return loads | {"ceiling": ceiling, "pressure": pressure}
