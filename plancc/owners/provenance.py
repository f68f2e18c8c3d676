"""What `compile` and `refine` write into a provenance, and how they measure owners for it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plancc.cost.objectives import objective_value
from plancc.cost.owners import traffic
from plancc.cost.rates import EpochTime
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.loads import Loads
from plancc.search.record import Record

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation

MAX_WORDS = 16
"""Longest list that a provenance spells out."""


def now() -> str:
    """UTC, from SOURCE_DATE_EPOCH where it is set, so that builds can be repeated to the byte."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def in_words(value: Any) -> str:
    """An option for the provenance; an array by its kind, since it may be as long as the graph."""
    if isinstance(value, list | tuple) and len(value) <= MAX_WORDS:
        return ",".join(map(str, value))
    return str(value) if np.ndim(value) == 0 else f"<{type(value).__name__}>"


def empty_parts(owner: npt.NDArray[np.int32], num_parts: int) -> list[str]:
    """A warning if parts have no rows."""
    empty = num_parts - np.count_nonzero(np.bincount(owner, minlength=num_parts))
    return [f"{empty} of {num_parts} parts have no rows"] if empty else []


@dataclass(frozen=True)
class Steps:
    """Owners of the rows of `matrix`, measured exactly and noted step by step.

    Attributes
    ----------
    matrix : Graph
    loads : Loads
    num_parts : int
    objective : str
        In `plancc.cost.objectives.OBJECTIVES`.
    time : EpochTime, for objective "time" only
    expectation : Expectation, in place of the objective
    record : Record
        What was noted; it keeps the best owners.
    """

    matrix: Graph
    loads: Loads
    num_parts: int
    objective: str
    time: EpochTime | None = None
    expectation: Expectation | None = None
    record: Record = field(default_factory=Record)

    def note(self, step: str, seconds: float, owner: npt.NDArray[np.int32]) -> None:
        owners = Owners(owner)
        parts = traffic(self.matrix, owners, self.num_parts)
        if self.expectation is None:
            value = objective_value(self.objective, parts, owners, self.time)
        else:
            value = self.expectation.value(owner, self.num_parts)
        self.record.add(
            step,
            seconds,
            owners,
            self.loads.overload(owner, self.num_parts),
            value,
            int(parts.sent.sum()),
        )
