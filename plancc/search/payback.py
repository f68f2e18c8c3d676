"""Whether a search still pays: seconds that it takes against seconds of epochs that it saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from plancc.graph.owners import Owners
from plancc.passes.deadline import Stop
from plancc.search.presets import JUDGING_STEPS


@dataclass
class Payback:
    """Ends a search once its last steps took longer than what they saved.

    Steps save less and less, so the next one is expected to save no more than the mean of the last
    `JUDGING_STEPS`, and to cost as much. The first owners are waited for.

    Attributes:
        epochs: That the plan is made for.
        seconds: Predicted seconds of an epoch of owners.
        stop: Whoever else may end the search.
        best: Seconds of the best epoch so far.
        steps: Seconds that every step after the first took, and those of an epoch that it saved.
    """

    epochs: float
    seconds: Callable[[Owners], float]
    stop: Stop | None = None
    best: float | None = None
    steps: list[tuple[float, float]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def note(self, spent: float, owners: Owners) -> None:
        """Take note of a step that took `spent` seconds."""
        reached = self.seconds(owners)
        with self._lock:
            if self.best is not None:
                self.steps.append((spent, max(self.best - reached, 0.0)))
            self.best = reached if self.best is None else min(self.best, reached)

    def over(self) -> bool:
        """Whether to end the search."""
        if self.stop is not None and self.stop():
            return True
        last = self.steps[-JUDGING_STEPS:]
        saved = self.epochs * sum(saved for _, saved in last)
        return len(last) == JUDGING_STEPS and saved < sum(spent for spent, _ in last)
