"""What a search minimises: one number for each objective. Knows figures of parts, no owners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plancc.cost.rates import EpochRates
from plancc.errors import InputError
from plancc.plan.metrics import Traffic, summarize
from plancc.registry import check_choice


@dataclass(frozen=True)
class Objective:
    """A number to minimise.

    Attributes
    ----------
    what : str
        What it counts.
    value : callable
        ``value(parts, rates)``: the number, exactly, from the `Traffic` of a partition.
    of_busiest : bool
        Whether the busiest part counts alone; otherwise it is a sum over all parts.
    counts_messages : bool
        Whether messages count, not only rows.
    needs_rates : bool
        Whether it needs `EpochRates` (`plancc.predict.machine.epoch_rates`).
    """

    what: str
    value: Callable[[Traffic, EpochRates], int | float]
    of_busiest: bool = False
    counts_messages: bool = False
    needs_rates: bool = False

    @property
    def is_volume(self) -> bool:
        """Whether it is the sum of all rows, which every search minimises first."""
        return not (self.of_busiest or self.counts_messages)


OBJECTIVES = {
    "volume": Objective(
        "rows moved by one product: by the expand, and the fold if there is one",
        lambda parts, _: summarize(parts).volume,
    ),
    "max-volume": Objective(
        "rows sent or received, whichever is more, at the busiest part",
        lambda parts, _: summarize(parts).max_volume,
        of_busiest=True,
    ),
    "messages": Objective(
        "ordered pairs of parts that talk, in each of these steps",
        lambda parts, _: summarize(parts).messages,
        counts_messages=True,
    ),
    "time": Objective(
        "predicted seconds of an epoch at the slowest part",
        lambda parts, rates: float(rates.seconds(parts).max()),
        of_busiest=True,
        counts_messages=True,
        needs_rates=True,
    ),
}
"""The objectives of a search, by name."""
NEEDS_DIMS = "objective 'time' needs the widths of the layers (`dims`)"
"""Message for an objective without the rates that it needs."""
NO_RATES = EpochRates(0.0, 0.0, 0.0, 0.0)


def find_objective(name: str, rates: EpochRates | None = None) -> Objective:
    """The objective of that name.

    Raises
    ------
    InputError
        If there is none, or it needs rates and there are none.
    """
    check_choice("objective", name, OBJECTIVES)
    if OBJECTIVES[name].needs_rates and rates is None:
        raise InputError(NEEDS_DIMS)
    return OBJECTIVES[name]


def objective_value(name: str, parts: Traffic, rates: EpochRates | None = None) -> int | float:
    """The value of an objective, exactly; `find_objective` says what is raised."""
    return find_objective(name, rates).value(parts, rates or NO_RATES)
