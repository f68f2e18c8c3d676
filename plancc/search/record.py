"""The record of a search: its steps, the figures of their owners, and the best owners so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from plancc.clock import wall_seconds
from plancc.cost.objectives import objective_value
from plancc.cost.owners import traffic
from plancc.cost.rates import EpochTime
from plancc.graph.graph import Graph
from plancc.graph.owners import Owner, Owners
from plancc.models.limits import Limits

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation


@dataclass(frozen=True)
class Trial:
    """One step of a search.

    Attributes:
        value: Objective of the step's owners; None if the step only maps parts to nodes.
        volume: Number of rows sent in a product, for the step's owners.
        overload: By how much the owners exceed the limits (`Limits.overload`); 0: not at all.
        best: Whether the owners were the best so far, by overload, value, volume.
    """

    step: str
    seconds: float
    value: float | None
    volume: int
    overload: float
    best: bool


@dataclass(frozen=True)
class SearchResult:
    """The best owners of a search, and how they were found.

    Attributes:
        value: Value of the objective for the best owners.
        volume: Number of rows that all parts send in one product, for the best owners.
        tried: The steps of the search, in the order in which they ended.
        others: Best owners of lower efforts, if they are at least as balanced. With a node-aware
            exchange, their epochs may be quicker.
        how: Other entries for the plan's provenance.
    """

    owners: Owners
    value: float
    volume: int
    tried: list[Trial]
    warnings: list[str]
    seconds: float
    others: list[Owners] = field(default_factory=list)
    how: dict[str, str] = field(default_factory=dict)

    def tried_json(self) -> str:
        """Return the steps of the search as JSON, for a plan's provenance."""
        return json.dumps([asdict(trial) for trial in self.tried])


@dataclass(frozen=True, eq=False)
class Member:
    """Owners and their figures. The operator < compares members by overload, then by volume.

    Attributes:
        overload: See `Trial`.
        value: Value of the objective.
        volume: Number of rows that all parts send in one product.
        spread (int32[num_nets], optional): Connectivity of every net.
    """

    overload: float
    value: float
    volume: int
    owners: Owners
    spread: Any = None

    def __lt__(self, other: Member) -> bool:
        return (self.overload, self.volume) < (other.overload, other.volume)

    @property
    def owner(self) -> Owner:
        """Owners of the rows, int32[n], without owners of nonzeros."""
        return self.owners.rows

    @property
    def merit(self) -> tuple[float, float, int]:
        """Key that compares members: overload, value of the objective, volume; smaller is best."""
        return self.overload, self.value, self.volume


@dataclass(frozen=True, eq=False)
class Judge:
    """Computes the exact figures of owners.

    Attributes:
        objective: A name in `plancc.cost.objectives.OBJECTIVES`.
        time: Computes the time of an epoch, for the objective "time".
        limits: Limits of the parts' rows, or of their nonzeros if nonzeros have owners.
        expectation: The expected volume that replaces the objective; None: `objective`.
    """

    matrix: Graph
    objective: str
    time: EpochTime | None
    limits: Limits
    expectation: Expectation | None = None

    def of(self, owners: Owners) -> Member:
        limits = self.limits
        parts = traffic(self.matrix, owners, limits.num_parts)
        load = limits.load(owners.rows) if owners.nonzeros is None else parts.nonzeros
        if self.expectation is None:
            value = objective_value(self.objective, parts, owners, self.time)
        else:
            value = self.expectation.value(owners.rows, limits.num_parts)
        return Member(limits.overload(load), value, int(parts.sent.sum()), owners)


@dataclass
class Record:
    """The steps of a search, and the best owners that they found; several threads may add steps.

    Attributes:
        report: Function that is called with every `Trial`.
        best: The best owners so far, by overload (weight above the limits), then by the objective,
            then by volume.
        effort: The effort to which new steps belong.
        best_of_effort: The best owners of every effort.
        start: Wall-clock second at which the search began.
    """

    report: Callable[[Trial], None] | None = None
    trials: list[Trial] = field(default_factory=list)
    best: Member | None = None
    effort: str = ""
    best_of_effort: dict[str, Member] = field(default_factory=dict)
    start: float = field(default_factory=wall_seconds)
    _lock: Lock = field(default_factory=Lock)

    def add(self, step: str, seconds: float, member: Member) -> Member:
        """Add a step that found the owners `member` to the record; return `member`.

        Of two equally good members, the one whose owners are smaller, compared as bytes, counts as
        better. So the best member does not depend on which thread ends first.
        """
        with self._lock:
            best = self.best
            better = best is None or member.merit < best.merit
            if better or (best and member.merit == best.merit and _bytes(member) < _bytes(best)):
                self.best = member
            known = self.best_of_effort.get(self.effort)
            if known is None or member.merit < known.merit:
                self.best_of_effort[self.effort] = member
            trial = Trial(step, seconds, *member.merit[1:], member.overload, better)
            self.trials.append(trial)
            if self.report is not None:
                self.report(trial)
        return member

    @property
    def least_volume(self) -> int:
        """Smallest volume that a step found, even if its parts exceeded the limits."""
        return min(trial.volume for trial in self.trials)

    @property
    def seconds(self) -> float:
        """Sum of the seconds of all steps."""
        return sum(trial.seconds for trial in self.trials)

    def found(self) -> Member:
        """Return the best owners so far, with their figures; at least one step must have ended."""
        assert self.best is not None
        return self.best

    def result(self, warnings: list[str]) -> SearchResult:
        best, seconds = self.found(), wall_seconds() - self.start
        others = [
            each.owners
            for each in self.best_of_effort.values()
            if each is not best and each.overload <= best.overload
        ]
        return SearchResult(
            best.owners, best.value, best.volume, self.trials, warnings, seconds, others
        )


def _bytes(member: Member) -> tuple[bytes, bytes]:
    nonzeros = member.owners.nonzeros
    return member.owner.tobytes(), b"" if nonzeros is None else nonzeros.tobytes()
