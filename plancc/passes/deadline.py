"""When refinement is to stop. Knows the clock, nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np


@dataclass
class Deadline:
    """A moment after which no further sweep starts; whoever shares it may move it.

    Attributes
    ----------
    at : float
        Seconds on the clock of `time.perf_counter`.
    """

    at: float = np.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """That many seconds from now; None: never."""
        return cls() if seconds is None else cls(time.perf_counter() + seconds)

    def seconds_left(self) -> float:
        return self.at - time.perf_counter()

    def passed(self) -> bool:
        return time.perf_counter() > self.at
