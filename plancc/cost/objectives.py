"""The objectives of a search: numbers that a search may minimise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plancc.cost.rates import EpochTime
from plancc.graph.owners import Owners
from plancc.plan.metrics import Traffic, summarize
from plancc.registry import check_choice


@dataclass(frozen=True)
class Objective:
    """A number that a search minimises.

    Attributes:
        what: Phrase that says what the number counts.
        value: Function from a partition's `Traffic` to the number; None for predicted time.
        of_busiest: Whether the number is the maximum over the parts, not the sum.
    """

    what: str
    value: Callable[[Traffic], int | float] | None
    of_busiest: bool = False
    counts_messages: bool = False

    @property
    def is_time(self) -> bool:
        """Whether this objective is the predicted time of an epoch, which needs an `EpochTime`."""
        return self.value is None

    @property
    def is_volume(self) -> bool:
        """Whether this objective is the volume, which every search minimises first."""
        return not (self.of_busiest or self.counts_messages)


OBJECTIVES = {
    "volume": Objective(
        "rows moved by one product: by the expand, and the fold if there is one",
        lambda parts: summarize(parts).volume,
    ),
    "max-volume": Objective(
        "rows sent or received, whichever is more, at the busiest part",
        lambda parts: summarize(parts).max_volume,
        of_busiest=True,
    ),
    "messages": Objective(
        "ordered pairs of parts that talk, in each of these steps",
        lambda parts: summarize(parts).messages,
        counts_messages=True,
    ),
    "time": Objective("predicted seconds of an epoch", None, of_busiest=True, counts_messages=True),
}
"""The objectives of a search, by name."""


def find_objective(name: str) -> Objective:
    """Return the objective called `name`; raise InputError for an unknown name."""
    check_choice("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def objective_value(
    name: str, parts: Traffic, owners: Owners, time: EpochTime | None = None
) -> int | float:
    """Return the exact value of an objective in `OBJECTIVES`; only "time" needs `time`."""
    objective = find_objective(name)
    if objective.value is not None:
        return objective.value(parts)
    assert time is not None
    return time.seconds(owners)
