"""Whether a search still pays: seconds that it takes against seconds of epochs that it may save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from plancc.graph.owners import Owners
from plancc.passes.deadline import Stop
from plancc.search.presets import MAY_SAVE


@dataclass
class Payback:
    """Ends a search whose steps in vain, and the next one, take longer than what it may still save.

    That is `MAY_SAVE` of what all epochs take above their bound. A step is in vain if its epochs
    save less than it takes; one that is not renews the allowance. The first owners are waited for.

    Attributes:
        epochs: That the plan is made for.
        seconds: Predicted seconds of an epoch of owners.
        bound: Seconds of an epoch that no owners undercut, as a rule.
        stop: Whoever else may end the search.
        waits: Whether nothing is judged before `begin`.
        best: Seconds of the best epoch so far.
        vain: Seconds of the steps in vain since the last other one.
        step: Seconds of the last step; until then, of the longest of those that were waited for.
    """

    epochs: float
    seconds: Callable[[Owners], float]
    bound: float = 0.0
    stop: Stop | None = None
    waits: bool = False
    best: float | None = None
    vain: float = 0.0
    step: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def begin(self, owners: Owners) -> None:
        """Judge steps from these owners on."""
        self.best, self.waits = self.seconds(owners), False

    def note(self, spent: float, owners: Owners) -> None:
        """Take note of a step that took `spent` seconds."""
        if self.waits or self.best is None:
            self.step = max(self.step, spent)
            if not self.waits:
                self.begin(owners)
            return
        reached = self.seconds(owners)
        with self._lock:
            pays = self.epochs * (self.best - reached) >= spent
            self.vain = 0.0 if pays else self.vain + spent
            self.best, self.step = min(self.best, reached), spent

    def over(self) -> bool:
        """Whether to end the search."""
        if self.stop is not None and self.stop():
            return True
        if self.waits or self.best is None:
            return False
        allowed = MAY_SAVE * self.epochs * (self.best - self.bound)
        return self.vain + self.step > allowed
