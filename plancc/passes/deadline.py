"""When refinement is to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from plancc.clock import wall_seconds

Stop = Callable[[], object]
"""Asked often, by any thread: whether to end with what there is."""


@dataclass
class Deadline:
    """A moment after which no further sweep starts; whoever shares it may move it.

    Attributes:
        at: Seconds on the clock of `plancc.clock`.
        stop: Says that the moment has come before.
    """

    at: float = np.inf
    stop: Stop | None = None

    @classmethod
    def after(cls, seconds: float | None, stop: Stop | None = None) -> Deadline:
        """Return the deadline in `seconds` from now; None for no deadline."""
        return cls(np.inf if seconds is None else wall_seconds() + seconds, stop)

    def earlier(self, seconds: float) -> Deadline:
        """The deadline this many seconds earlier; never stays never, at once stays at once."""
        return replace(self, at=self.at - seconds) if np.isfinite(self.at) else self

    def seconds_left(self) -> float:
        return -np.inf if self.stopped() else self.at - wall_seconds()

    def stopped(self) -> bool:
        """Whether everything is to end at once, native partitioners too."""
        return self.at == -np.inf or (self.stop is not None and bool(self.stop()))

    def passed(self) -> bool:
        return wall_seconds() > self.at or self.stopped()
