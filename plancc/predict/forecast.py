"""The predicted epoch time of a plan, the time of a random partition, and a lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.plan.plan import Plan
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of
from plancc.text import four_digits

ALIKE = 0.01
"""Relative difference between predictions of different random partitions."""

RECORDED = ("machine", "dims", "epoch_seconds", "random_epoch_seconds", "bound_seconds")
"""Names of the entries that `Forecast.provenance` returns."""


@dataclass(frozen=True)
class Forecast:
    """Predicted seconds of one epoch, which the compiler records in the plan's provenance.

    Attributes:
        seconds: Seconds with the plan; None if a width is below the number of process columns.
        random_seconds: Seconds with a random row partition on as many ranks.
        bound_seconds: Seconds if all work were evenly spread and no rows were exchanged.
    """

    predictor: Predictor
    seconds: float | None
    random_seconds: float
    bound_seconds: float

    @classmethod
    def of(cls, predictor: Predictor, plan: Plan, matrix: Graph) -> Forecast:
        """Return the predicted seconds of an epoch for a plan of this matrix, as a forecast."""
        ranks = plan.header.num_ranks
        try:
            seconds = predictor.epoch(tables_of(plan)).seconds
        except InputError:  # the grid has more columns than one of the widths
            seconds = None
        return cls(
            predictor,
            seconds,
            predictor.of_random(matrix, ranks).seconds,
            predictor.bound(matrix.num_vertices, matrix.num_nonzeros, ranks),
        )

    @property
    def slower(self) -> bool:
        """Whether an epoch takes longer than with a random partition, by more than 1% (`ALIKE`)."""
        return self.seconds is not None and self.seconds > (1 + ALIKE) * self.random_seconds

    @property
    def comparison(self) -> str:
        """A sentence: the seconds of plan and random partition, the machine, and the widths."""
        assert self.seconds is not None
        machine, dims = self.predictor.machine, ",".join(map(str, self.predictor.dims))
        own, random = (four_digits(1e3 * each) for each in (self.seconds, self.random_seconds))
        more = f"{100 * (self.seconds / self.random_seconds - 1):.0f}%"
        return (
            f"this plan is predicted to train slower than an even random partition, by {more}: "
            f"{own} ms an epoch, random {random} ms (machine {machine.title}, dims {dims})"
        )

    def provenance(self) -> Mapping[str, Any]:
        """Return machine, widths and seconds, by the names that they have in the provenance."""
        seconds = {} if self.seconds is None else {"epoch_seconds": self.seconds}
        return {
            "machine": self.predictor.machine.to_json(),
            "dims": ",".join(map(str, self.predictor.dims)),
            **seconds,
            "random_epoch_seconds": self.random_seconds,
            "bound_seconds": self.bound_seconds,
        }
