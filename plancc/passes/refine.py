"""Better owners than given, by exact objective: what no single partitioner minimises.

Every pass returns the best owners it met, the given ones included: first by the overload of parts
above the limit, then by its objective. Knows hypergraphs with sources, no plan and no file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from plancc.cost.objectives import NEEDS_DIMS
from plancc.cost.rates import EpochRates
from plancc.errors import InputError
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.passes.deadline import Deadline
from plancc.passes.multilevel import (
    PRICES,
    Goal,
    Owner,
    anneal,
    price_unit,
    restore_balance,
    settle,
    v_cycle,
)
from plancc.registry import check_choice

if TYPE_CHECKING:
    from plancc.passes.kernels.nets import Nets
    from plancc.passes.kernels.traffic import Flow, Tariff

SMALL = 0.1
"""A message of this share of the average rows pays 1 - 1/e of the fees that any message pays."""
MAX_FEE_SIZE = 4096.0
"""Fees are spread over no more rows of a message than a few times this."""
CEILING = 0.5
"""Where traffic starts to be priced: this far from the mean to the maximum."""


@dataclass(frozen=True)
class Refined:
    """Owners and how they were found.

    Attributes
    ----------
    owner : int32[num_vertices]
    value_before, value : float
        Of the pass's objective (`plancc.cost.objectives`), before and after.
    volume_before, volume : int
        Rows moved, before and after.
    overload_before, overload : float
        Weight of all parts above the limit, over that of an average part, before and after.
    cycles : int
        Rounds that were made.
    evaluations : int
        Pairs of vertex and part whose gain was computed.
    seconds : float
    """

    owner: npt.NDArray[np.int32]
    value_before: float
    value: float
    volume_before: int
    volume: int
    overload_before: float
    overload: float
    cycles: int
    evaluations: int
    seconds: float

    @classmethod
    def of(
        cls,
        owner: npt.NDArray[np.int32],
        before: tuple[float, float, int],
        after: tuple[float, float, int],
        cycles: int,
        evaluations: int,
        start: float,
    ) -> Refined:
        """From (overload, value, volume) before and after, and when it started."""
        return cls(
            owner=owner,
            value_before=before[1],
            value=after[1],
            volume_before=before[2],
            volume=after[2],
            overload_before=before[0],
            overload=after[0],
            cycles=cycles,
            evaluations=evaluations,
            seconds=time.perf_counter() - start,
        )


@dataclass(frozen=True)
class RefineVolume:
    """Fewer rows moved: sweeps over boundary vertices, within the limit and beyond, then V-cycles.

    Attributes
    ----------
    epsilon : float
        Allowed imbalance of every constraint.
    cycles : int
        V-cycles after the first round, which sweeps over the finest level only.
    seed : int
        The same seed gives the same owners (without a budget).
    budget : float, optional
        Seconds after which no further sweep starts.
    """

    objective: ClassVar[str] = "volume"

    epsilon: float = 0.01
    cycles: int = 4
    seed: int = 1
    budget: float | None = None

    def run(
        self,
        problem: Hypergraph,
        owner: Owner,
        num_parts: int,
        *,
        nonzeros: npt.NDArray[np.int64] | None = None,
        deadline: Deadline | None = None,
    ) -> Refined:
        """Refine a partition of the vertices of `problem`.

        Parameters
        ----------
        problem : Hypergraph
            Its connectivity - 1 is the volume (model hp).
        owner : int32[num_vertices]
            Not changed.
        num_parts : int
        nonzeros : not used
        deadline : Deadline, optional
            In place of the budget.

        Raises
        ------
        InputError
            Owners of another number of vertices, or outside 0..num_parts-1.
        """
        from plancc.passes.kernels.nets import nets_of
        from plancc.passes.kernels.state import State, state_of, volume

        start = time.perf_counter()
        deadline = deadline or Deadline.after(self.budget)
        rng = np.random.default_rng(self.seed)
        goal = self._goal(problem)
        nets = nets_of(problem, sized=goal.reach is not None)
        limits = Limits.of(nets.weight, num_parts, self.epsilon)

        def improve(level: Nets, state: State, _: Any) -> int:
            return anneal(level, state, limits, rng, deadline=deadline, goal=goal)

        def measured(state: State) -> tuple[float, float, int]:
            value = goal.value(nets, state)
            return limits.overload(state.sums), value, int(volume(nets, state))

        state = state_of(nets, owner, num_parts)
        before = measured(state)
        best_owner, best = owner, before
        evaluations = settle(nets, state, limits, rng, deadline, goal)  # what is nearest
        reached = measured(state)
        if reached < best:
            best_owner, best = state.owner.copy(), reached
        evaluations += anneal(nets, state, limits, rng, deadline=deadline, goal=goal)
        cycle = 0
        while True:
            evaluations += settle(nets, state, limits, rng, deadline, goal)
            current, reached = state.owner, measured(state)
            if reached < best:
                best_owner, best = current, reached
            if cycle >= self.cycles or deadline.passed():
                break
            del state  # its counts are not needed while the hypergraph is coarsened
            cycle += 1
            state, tried = v_cycle(
                nets, current, num_parts, rng, improve, deadline=deadline, overlap=goal.overlap
            )
            evaluations += tried
        return Refined.of(best_owner, before, best, cycle, evaluations, start)

    def _goal(self, problem: Hypergraph) -> Goal:
        return Goal()


@dataclass(frozen=True, eq=False)
class RefineExpected(RefineVolume):
    """Fewer rows moved by a mini-batch, in expectation: `RefineVolume` with another goal.

    Attributes
    ----------
    reach : float64[m + 1]
        Probability that a part needs a row, by the rows of it that use it
        (`plancc.sampling.batch.Inclusion`); m is at least the most pins of a net. Where reach[1] is
        0, as for batches of one vertex, the edge cut is what falls.
    """

    objective: ClassVar[str] = "expected volume"

    reach: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))

    def _goal(self, problem: Hypergraph) -> Goal:
        most = int(np.diff(problem.net_ptr).max(initial=0))
        if problem.net_sources is None:
            raise InputError("the expected volume needs a hypergraph with net sources")
        if len(self.reach) <= most:
            raise InputError(f"{len(self.reach)} probabilities: a net has {most} pins")
        if len(self.reach) < 2 or self.reach[1] == 0:  # the limit of smaller and smaller batches
            return Goal(np.arange(most + 1, dtype=np.float64))
        return Goal(self.reach / self.reach[1], float(self.reach[1]))


TRAFFIC_PRICES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Pressure on traffic from sweep to sweep, over the strength of the round."""
WEAKER, STRONGER = 0.6, 1.25
"""Strength of the next round over this one's, after one above the allowed volume or any other."""
MAX_FRUITLESS = 3
"""Rounds one after the other that find nothing better before a pass gives up."""
CLIMBS = 3
"""Sweeps within the limit that end a round."""


@dataclass(frozen=True)
class _RefineTraffic:
    """Rounds of V-cycles with prices on traffic; each starts from the best owners so far.

    Attributes
    ----------
    epsilon : float
        Allowed imbalance of every constraint.
    cycles : int
        V-cycles after the first round, which sweeps over the finest level only.
    seed : int
        The same seed gives the same owners (without a budget).
    budget : float, optional
        Seconds after which no further sweep starts.
    max_extra_volume : float
        By which share the volume may rise above that of the given owners.
    """

    objective: ClassVar[str]
    with_pairs: ClassVar[bool] = False

    epsilon: float = 0.01
    cycles: int = 8
    seed: int = 1
    budget: float | None = None
    max_extra_volume: float = 0.05

    def run(
        self,
        problem: Hypergraph,
        owner: Owner,
        num_parts: int,
        *,
        nonzeros: npt.NDArray[np.int64] | None = None,
        deadline: Deadline | None = None,
    ) -> Refined:
        """Refine a partition of the vertices of `problem`.

        Parameters
        ----------
        problem : Hypergraph
            With `net_sources` (model hp).
        owner : int32[num_vertices]
            Not changed.
        num_parts : int
        nonzeros : int64[num_vertices], for `RefineTime` only
            Of every row.
        deadline : Deadline, optional
            In place of the budget.

        Raises
        ------
        InputError
            Owners of another number of vertices, or outside 0..num_parts-1; no net sources.
        """
        from plancc.passes.kernels.nets import nets_of
        from plancc.passes.kernels.state import State, boundary, state_of, volume
        from plancc.passes.kernels.traffic import flow_of, sweep_traffic

        if problem.net_sources is None:
            raise InputError(f"objective '{self.objective}' needs a hypergraph with net sources")
        start = time.perf_counter()
        deadline = deadline or Deadline.after(self.budget)
        rng = np.random.default_rng(self.seed)
        nets = nets_of(problem)
        limits = Limits.of(nets.weight, num_parts, self.epsilon)
        own = self._own_loads(len(owner), nonzeros)
        free = np.full(len(limits.limit), np.inf)

        def sweeps(level: Nets, state: State, flow: Flow, ladder: Any, cap: Any) -> int:
            """One sweep for every (price of overweight, tariff)."""
            tried = 0
            for price, tariff in ladder:
                if deadline.passed():
                    break
                order = boundary(level, state)
                rng.shuffle(order)
                tried += sweep_traffic(
                    order, level, state, flow, tariff, limits.target, price, cap
                )[1]
            return tried

        def round_on(level: Nets, state: State, loads: npt.NDArray[np.float64]) -> int:
            flow = flow_of(level, state, loads, self.with_pairs)
            unit = price_unit(level, state, limits)
            tariffs = [
                self._tariff(strength * step, best[1], flow, loads) for step in TRAFFIC_PRICES
            ]
            ladder = [(price * unit, tariff) for price, tariff in zip(PRICES, tariffs, strict=True)]
            return sweeps(level, state, flow, ladder, free)

        state = state_of(nets, owner, num_parts)
        flow = flow_of(nets, state, own, self.with_pairs)
        before = limits.overload(state.sums), self._value(flow), int(volume(nets, state))
        best_owner, best = owner, before
        allowed = int(before[2] * (1 + self.max_extra_volume))
        strength, fruitless = 1.0, 0
        evaluations, cycle = 0, 0
        for cycle in range(self.cycles + 1):
            if cycle == 0:
                state = state_of(nets, best_owner, num_parts)
                evaluations += round_on(nets, state, own)
            else:
                state, tried = v_cycle(
                    nets, best_owner, num_parts, rng, round_on, loads=own, deadline=deadline
                )
                evaluations += tried
            restore_balance(nets, state, limits, rng, deadline)
            flow = flow_of(nets, state, own, self.with_pairs)
            tariff = self._tariff(strength * TRAFFIC_PRICES[-1], best[1], flow, own)
            ladder = [(np.zeros_like(free), tariff)] * CLIMBS
            evaluations += sweeps(nets, state, flow, ladder, limits.limit)
            reached = limits.overload(state.sums), self._value(flow), int(volume(nets, state))
            fruitless += 1
            if reached[0] < best[0]:  # balance comes first, whatever it costs
                best_owner, best, fruitless = state.owner.copy(), reached, 0
                allowed = max(allowed, int(reached[2] * (1 + self.max_extra_volume)))
            elif reached[2] > allowed:
                strength *= WEAKER
            else:
                strength *= STRONGER
                if reached < best:
                    best_owner, best, fruitless = state.owner.copy(), reached, 0
            if fruitless == MAX_FRUITLESS or deadline.passed():
                break
        return Refined.of(best_owner, before, best, cycle, evaluations, start)

    def _own_loads(
        self, num_vertices: int, nonzeros: npt.NDArray[np.int64] | None
    ) -> npt.NDArray[np.float64]:
        return np.zeros(num_vertices)

    def _value(self, flow: Flow) -> float:
        raise NotImplementedError

    def _tariff(self, strength: float, best: float, flow: Flow, own: Any) -> Tariff:
        raise NotImplementedError


@dataclass(frozen=True)
class RefineMaxVolume(_RefineTraffic):
    """Fewer rows sent and received by the busiest part.

    The idea of GVB (Mukhopadhyay et al., 2024): lower the maximum without giving up much of the
    total. Rows above a ceiling between the mean and the maximum have a price.
    """

    objective: ClassVar[str] = "max-volume"

    max_extra_volume: float = 0.03

    def _value(self, flow: Flow) -> float:
        return int(max(flow.sent.max(), flow.received.max()))

    def _tariff(self, strength: float, best: float, flow: Flow, own: Any) -> Tariff:
        from plancc.passes.kernels.traffic import Tariff

        mean = flow.sent.mean()
        ceiling = mean + CEILING * (best - mean)
        return Tariff(1.0, 0.0, ceiling, strength / max(best - ceiling, 1.0), np.zeros(1), own)


@dataclass(frozen=True)
class RefineMessages(_RefineTraffic):
    """Fewer ordered pairs of parts that talk: the rows of small messages are dear."""

    objective: ClassVar[str] = "messages"
    with_pairs: ClassVar[bool] = True

    max_extra_volume: float = 0.05

    def _value(self, flow: Flow) -> float:
        return int(flow.messages_sent.sum())

    def _tariff(self, strength: float, best: float, flow: Flow, own: Any) -> Tariff:
        from plancc.passes.kernels.traffic import Tariff

        size = max(SMALL * flow.sent.sum() / max(flow.messages_sent.sum(), 1), 1.0)
        size = min(size, MAX_FEE_SIZE)
        fees = strength * np.exp(-np.arange(int(8 * size) + 2) / size)
        fees[-1] = 0.0
        return Tariff(0.0, 0.0, np.inf, 0.0, fees, own)


@dataclass(frozen=True)
class RefineTime(_RefineTraffic):
    """Less predicted time of an epoch at the slowest part (`plancc.predict.machine`).

    Attributes
    ----------
    rates : EpochRates
        Of the widths and the machine.
    """

    objective: ClassVar[str] = "time"
    with_pairs: ClassVar[bool] = True

    rates: EpochRates | None = None

    def _rates(self) -> EpochRates:
        if self.rates is None:
            raise InputError(NEEDS_DIMS)
        return self.rates

    def _own_loads(
        self, num_vertices: int, nonzeros: npt.NDArray[np.int64] | None
    ) -> npt.NDArray[np.float64]:
        if nonzeros is None:
            raise InputError("objective 'time' needs the nonzeros of every row")
        rates = self._rates()
        return (rates.nonzero * nonzeros + rates.own_row).astype(np.float64)

    def _value(self, flow: Flow) -> float:
        rates = self._rates()
        messages = np.maximum(flow.messages_sent, flow.messages_received)
        rows = np.maximum(flow.sent, flow.received)
        return float((rates.message * messages + rates.row * rows + flow.load).max())

    def _tariff(self, strength: float, best: float, flow: Flow, own: Any) -> Tariff:
        from plancc.passes.kernels.traffic import Tariff

        rates = self._rates()
        ends = flow.sent + flow.received, flow.messages_sent + flow.messages_received
        mean = (flow.load + 0.5 * (rates.row * ends[0] + rates.message * ends[1])).mean()
        ceiling = mean + CEILING * max(best - mean, 0.0)
        # A row over the ceiling costs `strength` more than one below it where the maximum is.
        pressure = strength / max(rates.row * (best - ceiling), 1e-300)
        size = max(flow.sent.sum() / max(flow.messages_sent.sum(), 1), 1.0)
        fee = min(rates.message / max(rates.row, 1e-300), size) / size
        size = min(size, MAX_FEE_SIZE)
        fees = strength * fee * np.exp(-np.arange(int(8 * size) + 2) / size)
        fees[-1] = 0.0
        return Tariff(rates.row, rates.message, ceiling, pressure, fees, own)


_PASSES: dict[str, Any] = {
    cls.objective: cls for cls in (RefineVolume, RefineMaxVolume, RefineMessages, RefineTime)
}


def refiner(objective: str, **options: Any) -> Any:
    """The pass for an objective of `plancc.cost.objectives`, with those options that it has.

    Options that are None keep the pass's default; `rates` and `max_extra_volume` are dropped where
    the pass has none.
    """
    check_choice("objective", objective, _PASSES)
    cls = _PASSES[objective]
    idle = {"rates", "max_extra_volume"} - {field.name for field in fields(cls)}
    return cls(**{k: v for k, v in options.items() if k not in idle and v is not None})
