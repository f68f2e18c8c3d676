"""When refinement is to stop. Knows the clock, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.clock import wall_seconds


@dataclass
class Deadline:
    """A moment after which no further sweep starts; whoever shares it may move it.

    Attributes
    ----------
    at : float
        Seconds on the clock of `plancc.clock`.
    """

    at: float = np.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """That many seconds from now; None: never."""
        return cls() if seconds is None else cls(wall_seconds() + seconds)

    def seconds_left(self) -> float:
        return self.at - wall_seconds()

    def passed(self) -> bool:
        return wall_seconds() > self.at
