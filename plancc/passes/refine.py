"""Passes that refine the owners of rows for objectives that partitioners cannot minimise exactly.

The better of two partitions has less overload or, if both have the same, the lower objective. A
pass returns the best owners that it finds, or the given owners if none are better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError
from plancc.graph.owners import Owner, Owners
from plancc.models.problem import Hypergraph
from plancc.passes.bound import least_volume, reaches
from plancc.passes.context import Context
from plancc.passes.kernels.nets import Nets, nets_of
from plancc.passes.kernels.state import State, boundary, state_of, volume
from plancc.passes.kernels.traffic import PairTraffic, Tariff, flow_of, sweep_traffic
from plancc.passes.multilevel import VOLUME, Goal, Sweeps
from plancc.passes.presets import (
    CUTS,
    MAX_VOLUME_ROUNDS,
    MESSAGE_ROUNDS,
    TIME_ROUNDS,
    V_CYCLES,
    Fees,
    TrafficRounds,
    VCycles,
)
from plancc.registry import check_choice


class Merit(NamedTuple):
    """Score of a partition; the first attribute that differs decides, and lower is better.

    Attributes:
        overload: Weight above the limits, divided by the mean weight of a part.
        value: Value of the pass's objective (`plancc.cost.objectives`).
        volume: Number of rows sent in a product.
    """

    overload: float
    value: float
    volume: int


@dataclass(frozen=True)
class Refined:
    """The result of a pass.

    Attributes:
        owners: The best owners.
        before, after: Scores (`Merit`) of the given owners, and of the best owners.
        evaluations: How often the gain of moving a vertex to a part was computed.
        least: Lower bound on the volume within the limits; 0 if the pass computes none.
    """

    owners: Owners
    before: Merit
    after: Merit
    cycles: int = 0
    evaluations: int = 0
    least: int = 0

    @property
    def owner(self) -> Owner:
        """Owners of the hypergraph's vertices, which are the rows in a row plan."""
        return self.owners.rows


class _Run:
    """One run of a pass: its nets, its sweeps, the current state, and the best owners so far."""

    def __init__(
        self, options: RefineVolume, owner: Owner, problem: Hypergraph, context: Context
    ) -> None:
        goal, self.context = options._goal(problem, context), context
        self.nets = nets_of(problem, sized=goal.reach is not None)
        limits, rng = context.limits, context.rng()
        deadline, threads = context.deadline, context.threads
        self.sweeps = Sweeps(limits, rng, deadline, goal, threads, options.numbers)
        self.least = 0
        self.other: Owner | None = None
        self.owner = owner
        self.back()
        self.best = options._merit(self)

    def back(self) -> None:
        """Reset the state to the best owners so far."""
        self.state = state_of(self.nets, self.owner, self.context.num_parts)

    def merit(self, value: float) -> Merit:
        """Return overload, objective and volume of the current owners, as a `Merit`.

        `value`: the value of the objective.
        """
        overload = self.sweeps.limits.overload(self.state.sums)
        return Merit(overload, value, volume(self.nets, self.state))

    def keep(self, merit: Merit) -> None:
        """Copy the owners of the current state: they are the best so far, with this merit."""
        self.owner, self.best = self.state.owner.copy(), merit


@dataclass(frozen=True)
class RefineVolume:
    """Lower the volume by sweeps over boundary vertices, minimum cuts, and then V-cycles.

    The passes for other objectives derive from this class.

    Attributes:
        cycles: Largest number of V-cycles; the first sweeps on the finest level do not count.
        polishes: Whether minimum cuts run before the first V-cycle, and local searches at the end.
    """

    objective: ClassVar[str] = "volume"
    _ends_in_vain: ClassVar[bool] = False
    """Whether the pass ends after the first V-cycle that finds nothing better."""

    cycles: int = 4
    polishes: bool = True
    numbers: VCycles = V_CYCLES

    def refine(
        self, owner: Owner, problem: Hypergraph, context: Context, other: Owner | None = None
    ) -> Refined:
        """Refine a partition of the vertices of `problem`.

        Parameters:
            owner (int32[num_vertices]): The partition; not changed.
            problem: Hypergraph of model hp; other objectives than the volume need `net_sources`.
            other (int32[num_vertices], optional): A second partition. If the objective is the
                volume or the expected volume, the first V-cycle combines it with `owner`.
        """
        run = _Run(self, owner, problem, context)
        run.other, before = other, run.best
        cycles, tried = self._refine(run), run.sweeps.evaluations
        return Refined(Owners(run.owner), before, run.best, cycles, tried, run.least)

    def _goal(self, problem: Hypergraph, context: Context) -> Goal:
        """Return the objective of sweeps; raise InputError if the problem or context lacks data."""
        return VOLUME

    def _merit(self, run: _Run) -> Merit:
        return run.merit(run.sweeps.goal.value(run.nets, run.state))

    def _refine(self, run: _Run) -> int:
        """Run the sweeps and V-cycles; keep the best owners, and return the number of V-cycles."""
        nets, sweeps = run.nets, run.sweeps

        def settle(cuts: bool = True) -> None:
            sweeps.settle(nets, run.state)
            tried_cuts = cuts and sweeps.cut(nets, run.state, (CUTS,)) > 0
            reached = self._merit(run)
            if reached < run.best:
                run.keep(reached)
            elif tried_cuts and reached.value > (1 + self.numbers.max_drift) * run.best.value:
                run.back()

        def reached_least() -> bool:
            return reaches(run.best.volume, run.best.overload, run.least)

        if sweeps.goal is VOLUME:
            run.least = least_volume(nets, sweeps.limits)
        cycle = 0
        settle(self.polishes)  # first improve the given owners by small steps
        if reached_least():
            return cycle
        if run.other is None:
            sweeps.anneal(nets, run.state)
            settle(self.polishes)
        while cycle < self.cycles and not (sweeps.deadline.passed() or reached_least()):
            cycle += 1
            current, before = run.state.owner, run.best
            del run.state  # its counts are not needed while the hypergraph is coarsened
            run.state = sweeps.v_cycle(nets, current, other=run.other)
            run.other = None
            settle()
            if run.best == before and self._ends_in_vain:
                break
        run.back()
        if self.polishes and not reached_least() and sweeps.polish(nets, run.state) > 0:
            reached = self._merit(run)
            if reached < run.best:
                run.keep(reached)
        return cycle


@dataclass(frozen=True, eq=False)
class RefineExpected(RefineVolume):
    """Lower the expected volume of mini-batches: `RefineVolume` with another objective.

    Attributes:
        reach (float64[m + 1]): Entry c is the probability that a part with c pins of net j needs
            row j (`plancc.sampling.batch.Inclusion`). No net has more than m pins. If ``reach[1]``
            is 0, the pass lowers the edge cut.
    """

    objective: ClassVar[str] = "expected volume"
    _ends_in_vain: ClassVar[bool] = True

    reach: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))

    def _goal(self, problem: Hypergraph, context: Context) -> Goal:
        most = int(np.diff(problem.net_ptr).max(initial=0))
        if problem.net_sources is None:
            raise InputError("the expected volume needs a hypergraph with `net_sources`")
        if len(self.reach) <= most:
            raise InputError(f"`reach` has {len(self.reach)} entries, but needs more than {most}")
        if len(self.reach) < 2 or self.reach[1] == 0:  # the edge cut, the limit of tiny batches
            return Goal(np.arange(most + 1, dtype=np.float64))
        return Goal(self.reach / self.reach[1], float(self.reach[1]))


@dataclass(frozen=True)
class _RefineTraffic(RefineVolume, ABC):
    """Base class of passes that run rounds of V-cycles with prices on traffic.

    If a round lowers the objective but raises the volume too much, the next round continues from
    its owners at lower prices, so that messages that it removed stay removed. All other rounds
    start from the best owners.

    Attributes:
        max_extra_volume: Largest increase of the given owners' volume, divided by this volume.
    """

    cycles: int = 8
    max_extra_volume: float = 0.05

    schedule: ClassVar[TrafficRounds]

    @abstractmethod
    def _value(self, run: _Run, flow: PairTraffic) -> float:
        """Return the value of the objective for the current state of the run."""

    @abstractmethod
    def _tariff(self, strength: float, run: _Run, flow: PairTraffic) -> Tariff:
        """Return the prices of traffic, which are proportional to `strength`."""

    def _held(self, value: float) -> Tariff | None:
        """Return prices that hinder moves which raise the objective above `value`, or None."""
        return None

    def _goal(self, problem: Hypergraph, context: Context) -> Goal:
        if problem.net_sources is None:
            raise InputError(f"objective '{self.objective}' needs a hypergraph with `net_sources`")
        return VOLUME

    def _flow(self, nets: Nets, state: State) -> PairTraffic:
        return flow_of(nets, state, OBJECTIVES[self.objective].counts_messages)

    def _merit(self, run: _Run) -> Merit:
        return run.merit(self._value(run, self._flow(run.nets, run.state)))

    def _refine(self, run: _Run) -> int:
        rounds = _Rounds(self, run)
        cycle = rounds.push()
        rounds.shave()
        rounds.recover()
        return cycle


class _Rounds:
    """One run of a `_RefineTraffic` pass: `push`, then `shave`, then `recover`."""

    def __init__(self, options: _RefineTraffic, run: _Run) -> None:
        self.options, self.run, self.sweeps = options, run, run.sweeps
        self.free = np.zeros_like(run.sweeps.limits.limit)  # no price of overweight
        self.strength, self.within = options.schedule.first, False
        self.allowed = 0
        self._allow(run.best.volume)

    def _allow(self, volume: int) -> None:
        self.allowed = max(self.allowed, int(volume * (1 + self.options.max_extra_volume)))

    def push(self) -> int:
        """Run rounds with prices on traffic; return the number of V-cycles."""
        run, schedule = self.run, self.options.schedule
        fruitless, cycle, reached = 0, 0, run.best
        for cycle in range(self.options.cycles + 1):
            if cycle == 0:
                self._refine_level(run.nets, run.state)
            else:
                less = reached.overload == 0 and reached.value < run.best.value
                begin = run.state.owner if less else run.owner
                run.state = self.sweeps.v_cycle(run.nets, begin, self._refine_level)
            reached = self._settled()
            better = reached < run.best
            if reached.overload < run.best.overload:  # balance comes before volume
                self._allow(reached.volume)
            elif reached.volume > self.allowed:
                self.strength *= schedule.weaker
                better = False
            else:
                self.strength *= schedule.stronger
            fruitless = 0 if better else fruitless + 1
            if better:
                run.keep(reached)
            elif schedule.of_busiest:
                self.within = not self.within
            if fruitless == schedule.patience or self.sweeps.deadline.passed():
                break
        return cycle

    def shave(self) -> None:
        """Try several times to reach a value slightly below the best value of the objective."""
        how = self.options.schedule
        if how.shavings == 0:
            return
        run, share, vain = self.run, how.shaved, 0
        run.back()
        for _ in range(how.shavings):
            value = run.best.value
            reached = self._hold(min(int((1 - share) * value), value - 1), how.holds)
            if reached.volume > self.allowed:
                return
            if reached < run.best:
                run.keep(reached)
                vain = 0
            else:
                vain, share = vain + 1, 2 * share
            if vain == how.shaved_in_vain or self.sweeps.deadline.passed():
                return

    def recover(self) -> None:
        """Lower the volume by sweeps in which the objective hardly exceeds its best value."""
        run = self.run
        if self.options._held(run.best.value) is None:
            return
        run.back()
        reached = self._hold(run.best.value, self.options.schedule.last_holds)
        if reached < run.best and reached.volume <= self.allowed:
            run.keep(reached)

    def _tariff(self, price: float, flow: PairTraffic) -> Tariff:
        return self.options._tariff(self.strength * price, self.run, flow)

    def _refine_level(self, level: Nets, state: State) -> None:
        """Run the sweeps of one level; only if `self.within`, no part may exceed its limits."""
        flow, prices = self.options._flow(level, state), self.options.schedule.prices
        if self.within:
            ladder = [(self.free, self._tariff(price, flow)) for price in (1.0, prices[-1])]
            self._sweep(level, state, flow, ladder, self.sweeps.limits.limit)
            return
        unit = self.sweeps.price_unit(level, state)
        ladder = [
            (weight * unit, self._tariff(price, flow))
            for weight, price in zip(self.sweeps.numbers.annealing.prices, prices, strict=True)
        ]
        self._sweep(level, state, flow, ladder)

    def _settled(self) -> Merit:
        """Restore the balance on the finest level, run the last sweeps, and return the `Merit`."""
        run, schedule, limits = self.run, self.options.schedule, self.sweeps.limits
        if schedule.of_busiest:
            flow = self.options._flow(run.nets, run.state)
            tariff = self._tariff(schedule.prices[-1], flow)
            unit = self.sweeps.price_unit(run.nets, run.state)
            for price in self.sweeps.numbers.restoring.prices:
                if limits.overload(run.state.sums) == 0:
                    break
                self._sweep(run.nets, run.state, flow, [(price * unit, tariff)])
        self.sweeps.restore_balance(run.nets, run.state)
        flow = self.options._flow(run.nets, run.state)
        ladder = [(self.free, self._tariff(schedule.prices[-1], flow))] * schedule.climbs
        self._sweep(run.nets, run.state, flow, ladder, limits.limit)
        reached = run.merit(self.options._value(run, flow))
        best = run.best.value
        near = reached.overload == 0 and reached.value < (1 + schedule.near) * best
        if schedule.shavings > 0 and near:
            return self._hold(min(reached.value, best - 1), schedule.holds)
        return reached

    def _hold(self, value: float, times: int) -> Merit:
        """Run `times` sweeps that hinder an objective above `value`; return the result's merit."""
        run, tariff = self.run, self.options._held(value)
        flow = self.options._flow(run.nets, run.state)
        ladder = [(self.free, tariff)] * times
        self._sweep(run.nets, run.state, flow, ladder, self.sweeps.limits.limit)
        return run.merit(self.options._value(run, flow))

    def _sweep(
        self, level: Nets, state: State, flow: PairTraffic, ladder: Any, cap: Any = None
    ) -> None:
        """Run a sweep for each pair in `ladder`: (price of overweight, `Tariff` of traffic)."""
        sweeps = self.sweeps
        for price, tariff in ladder:
            if sweeps.deadline.passed():
                break
            order = boundary(level, state)
            sweeps.rng.shuffle(order)
            bounds = sweeps.limits.bounds(price, cap)
            _, tried = sweep_traffic(order, level, state, flow, tariff, bounds)
            sweeps.evaluations += int(tried)


def message_size(traffic: Any, share: float) -> float:
    """Return `share` times the mean number of rows in a message, but at least 1."""
    return max(share * traffic.sent.sum() / max(traffic.messages_sent.sum(), 1), 1.0)


def message_fees(size: float, first: float) -> npt.NDArray[np.float64]:
    """Return the fee of each row of a message: ``first * exp(-k / size)`` for row k, float64[m].

    The last entry is 0: the fee of row m - 1 and of all further rows. m is about ``8 * size``.
    """
    size = min(size, Fees.max_size)
    fees = first * np.exp(-np.arange(int(8 * size) + 2) / size)
    fees[-1] = 0.0
    return fees


@dataclass(frozen=True)
class RefineMaxVolume(_RefineTraffic):
    """Lower the number of rows that the busiest part sends or receives.

    As in GVB (Mukhopadhyay et al., 2024), the maximum falls while the total rises only a little.
    In V-cycles, the rows by which a part exceeds a ceiling, between mean and maximum, have a price.
    """

    objective: ClassVar[str] = "max-volume"
    schedule: ClassVar[TrafficRounds] = MAX_VOLUME_ROUNDS

    max_extra_volume: float = 0.03

    def _value(self, run: _Run, flow: PairTraffic) -> float:
        return int(max(flow.sent.max(), flow.received.max()))

    def _tariff(self, strength: float, run: _Run, flow: PairTraffic) -> Tariff:
        mean, best = flow.sent.mean(), run.best.value
        ceiling = mean + Fees.ceiling * (best - mean)
        return Tariff(1.0, 0.0, ceiling, strength / max(best - ceiling, 1.0), np.zeros(1))

    def _held(self, value: float) -> Tariff:
        return Tariff(1.0, 0.0, float(value), self.schedule.hold, np.zeros(1))


@dataclass(frozen=True)
class RefineMessages(_RefineTraffic):
    """Lower the number of messages: in the objective, a message's first two rows cost a fee.

    On coarse levels a cluster has many rows, so that one move can remove whole messages. Fees fall
    from round to round until the volume is low enough.
    """

    objective: ClassVar[str] = "messages"
    schedule: ClassVar[TrafficRounds] = MESSAGE_ROUNDS

    max_extra_volume: float = 0.08

    def _value(self, run: _Run, flow: PairTraffic) -> float:
        return int(flow.messages_sent.sum())

    def _tariff(self, strength: float, run: _Run, flow: PairTraffic) -> Tariff:
        fees = strength * np.array([1.0, Fees.second_row, 0.0])
        return Tariff(0.0, 0.0, np.inf, 0.0, fees)

    def _held(self, value: float) -> Tariff:
        return Tariff(0.0, 0.0, np.inf, 0.0, np.array([self.schedule.hold, 0.0]))


@dataclass(frozen=True)
class RefineTime(_RefineTraffic):
    """Lower the predicted time of an epoch (`plancc.predict.predictor.Predictor`).

    Ranks wait for each other after every exchange and product. So the pass lowers two things at
    once: the work of the slowest rank, by limits, and the traffic of the busiest rank, by prices
    (`EpochTime.rates`).
    """

    objective: ClassVar[str] = "time"
    schedule: ClassVar[TrafficRounds] = TIME_ROUNDS

    cycles: int = 4

    def _goal(self, problem: Hypergraph, context: Context) -> Goal:
        if context.time is None:
            raise InputError("objective 'time' needs a prediction of epoch times (`time`)")
        return super()._goal(problem, context)

    def _value(self, run: _Run, flow: PairTraffic) -> float:
        assert run.context.time is not None
        return run.context.time.seconds(Owners(run.state.owner))

    def _tariff(self, strength: float, run: _Run, flow: PairTraffic) -> Tariff:
        assert run.context.time is not None
        rates = run.context.time.rates
        row, message = max(rates.row, 1e-300), rates.message
        ends = (
            rates.row * flow.sent + message * flow.messages_sent,
            rates.row * flow.received + message * flow.messages_received,
        )
        mean, most = 0.5 * (ends[0] + ends[1]).mean(), max(ends[0].max(), ends[1].max())
        ceiling = mean + Fees.ceiling * (most - mean)
        # In the busiest part, a row above the ceiling costs `strength` more than a row below.
        pressure = strength / max(row * (most - ceiling), 1e-300)
        size = message_size(flow, 1.0)
        fees = message_fees(size, strength * min(message / row, size) / size)
        return Tariff(rates.row, message, ceiling, pressure, fees)


_PASSES: dict[str, type[Any]] = {
    cls.objective: cls for cls in (RefineVolume, RefineMaxVolume, RefineMessages, RefineTime)
}


def refiner(
    objective: str, cycles: int | None = None, max_extra_volume: float | None = None
) -> RefineVolume:
    """Return the pass that refines owners of rows for `objective`.

    `cycles` and `max_extra_volume` are fields of the pass; None means the field's default.
    """
    check_choice("objective", objective, _PASSES)
    asked = {"cycles": cycles, "max_extra_volume": max_extra_volume}
    known = {field.name for field in fields(_PASSES[objective])}
    options = {k: v for k, v in asked.items() if k in known and v is not None}
    return _PASSES[objective](**options)
