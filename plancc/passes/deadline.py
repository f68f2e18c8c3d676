"""`Deadline`: the moment at which refinement stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from plancc.clock import wall_seconds

Stop = Callable[[], object]
"""A function that returns whether to end with the present result; any thread calls it often."""


@dataclass
class Deadline:
    """A moment after which no further sweep starts. Everyone who shares the deadline may move it.

    Attributes:
        at: The moment, in seconds on the clock of `plancc.clock`.
        stop: Returns whether to stop before the moment; None: never.
    """

    at: float = np.inf
    stop: Stop | None = None

    @classmethod
    def after(cls, seconds: float | None, stop: Stop | None = None) -> Deadline:
        """Return the deadline in `seconds` from now; None for no deadline."""
        return cls(np.inf if seconds is None else wall_seconds() + seconds, stop)

    def earlier(self, seconds: float) -> Deadline:
        """The deadline this many seconds earlier; infinite deadlines stay as they are."""
        return replace(self, at=self.at - seconds) if np.isfinite(self.at) else self

    def seconds_left(self) -> float:
        return -np.inf if self.stopped() else self.at - wall_seconds()

    def stopped(self) -> bool:
        """Whether everything must end at once, native partitioners too."""
        return self.at == -np.inf or (self.stop is not None and bool(self.stop()))

    def passed(self) -> bool:
        return wall_seconds() > self.at or self.stopped()
