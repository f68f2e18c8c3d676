"""A table of predicted epochs of several models on several numbers of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from plancc.predict.machine import Machine
from plancc.predict.schedule import COMPUTED, STEPS
from plancc.predict.simulation import Prediction

COMMUNICATION = tuple(step for step in STEPS if step not in COMPUTED)
"""Steps that move words."""


@dataclass(frozen=True)
class Cell:
    """The predicted epoch of a model on a number of ranks.

    Attributes:
        seconds: Seconds of an epoch; None if there is no prediction (see `why`).
        steps: Seconds by step in `plancc.predict.schedule.STEPS`; the sum is `seconds`.
        memory: Largest number of bytes that a rank needs.
        fits: Whether a rank's memory is enough; True if the machine's memory is unknown.
        notes: Assumptions, and warnings about the owners.
        compile_seconds: Seconds of the search for owners.
    """

    label: str
    num_ranks: int
    seconds: float | None = None
    steps: dict[str, float] = field(default_factory=dict)
    memory: int = 0
    fits: bool = True
    why: str = ""
    notes: tuple[str, ...] = ()
    compile_seconds: float = 0.0

    def predicted(self, epoch: Prediction, notes: Sequence[str] = ()) -> Cell:
        """Return this cell with the figures of a predicted epoch, and with `notes` added."""
        return replace(
            self,
            seconds=epoch.seconds,
            steps={step: epoch.of_step(step)[0] for step in STEPS},
            memory=epoch.memory["total"],
            fits=epoch.fits is not False,
            notes=(*self.notes, *notes),
        )

    @property
    def communication(self) -> float:
        """Seconds of the steps that move words: messages and collectives."""
        return sum(self.steps.get(name, 0.0) for name in COMMUNICATION)

    @property
    def computation(self) -> float:
        return sum(self.steps.get(name, 0.0) for name in COMPUTED)


@dataclass(frozen=True)
class Sweep:
    """The table of predictions: every model with every number of ranks.

    Attributes:
        vertices, nonzeros: Sizes of the normalised matrix.
        sequential: Predicted seconds of an epoch on one rank, to which speed-ups are relative.
        cells: Entries of the table, sorted by label, then by number of ranks.
        notes: Notes that are true of all cells, such as that numbers of halo rows are assumed.
    """

    name: str
    vertices: int
    nonzeros: int
    dims: list[int]
    machine: Machine
    sequential: float
    ranks: list[int]
    labels: list[str]
    cells: list[Cell]
    notes: list[str] = field(default_factory=list)

    def cell(self, label: str, num_ranks: int) -> Cell:
        """Return the prediction for a model and a number of ranks; raise KeyError if unknown."""
        for cell in self.cells:
            if (cell.label, cell.num_ranks) == (label, num_ranks):
                return cell
        raise KeyError((label, num_ranks))

    def speedup(self, cell: Cell) -> float | None:
        """Return the predicted speed-up over one rank for a cell (a model on a number of ranks).

        None if there is no prediction.
        """
        return self.sequential / cell.seconds if cell.seconds else None

    def best(self, num_ranks: int) -> Cell | None:
        """Return the cell of the fastest model that fits into memory; None if no model does."""
        there = [c for c in self.cells if c.num_ranks == num_ranks and c.seconds and c.fits]
        return min(there, key=lambda cell: cell.seconds or 0.0, default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return the sweep as values for JSON."""
        cells = [
            asdict(cell)
            | {
                "communication": cell.communication,
                "computation": cell.computation,
                "speedup": self.speedup(cell),
                "notes": list(cell.notes),
            }
            for cell in self.cells
        ]
        return {
            "name": self.name,
            "vertices": self.vertices,
            "nonzeros": self.nonzeros,
            "dims": list(self.dims),
            "machine": self.machine.as_dict(),
            "sequential_seconds": self.sequential,
            "ranks": self.ranks,
            "models": self.labels,
            "notes": self.notes,
            "cells": cells,
        }
