"""`Deadline`: the moment at which refinement stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from plancc.clock import wall_seconds

Stop = Callable[[], object]
"""A function that returns whether the search must stop and keep its result so far. It is called
often, in any thread."""


@dataclass
class Deadline:
    """A moment after which no further sweep starts. All threads of a search share one object.

    Attributes:
        at: The moment, in seconds of `plancc.clock`; minus infinity after a thread has failed.
        stop: Function that returns whether to stop earlier.
    """

    at: float = np.inf
    stop: Stop | None = None

    @classmethod
    def after(cls, seconds: float | None, stop: Stop | None = None) -> Deadline:
        """Return a deadline that is `seconds` from now. If `seconds` is None, it never passes."""
        return cls(np.inf if seconds is None else wall_seconds() + seconds, stop)

    def earlier(self, seconds: float) -> Deadline:
        """Return a deadline that is `seconds` earlier; an infinite deadline does not change."""
        return replace(self, at=self.at - seconds) if np.isfinite(self.at) else self

    def seconds_left(self) -> float:
        return -np.inf if self.stopped() else self.at - wall_seconds()

    def stopped(self) -> bool:
        """Whether all work must stop now, even a native partitioner that is still running."""
        return self.at == -np.inf or (self.stop is not None and bool(self.stop()))

    def passed(self) -> bool:
        return wall_seconds() > self.at or self.stopped()
