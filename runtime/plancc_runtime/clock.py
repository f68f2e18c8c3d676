"""Time that a rank spends in each phase. Phases never overlap, so they add up to the total."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident

from plancc.clock import wall_seconds

PHASES = ("draw", "mask", "features", "pack", "wait", "spmm", "dense", "allreduce")


class Clock:
    """Seconds per phase since the last `restart`; what no phase claims is "other".

    Phases nest: an inner one interrupts the outer one, so that no second counts twice. Those of
    other threads than the one that restarted it last are left out.

    Parameters:
        now: The time in seconds.  [default: wall-clock time without that in which kernels are
            compiled]

    Attributes:
        events (list of (phase, begin, end) or None): Every uninterrupted stretch of a phase since
            `record` was called, in seconds of `now`.
        stages (list of (stage, begin, end)): The stages of epochs since then, such as "layer 1
            forward"; no stretch reaches from one into another.
    """

    def __init__(self, now: Callable[[], float] = wall_seconds) -> None:
        self.now = now
        self.events: list[tuple[str, float, float]] | None = None
        self.stages: list[tuple[str, float, float]] = []
        self._running: list[str] = []
        self._stage, self._entered = "", 0.0
        self.restart()

    def record(self) -> None:
        """Keep every stretch of every phase from now on, and every stage."""
        self.events, self.stages = [], []

    def enter(self, stage: str) -> None:
        """Begin a stage, if stretches are kept; the last one ends. Empty: none begins."""
        if self.events is not None:
            self._close()
            if self._stage:
                self.stages.append((self._stage, self._entered, self._since))
            self._stage, self._entered = stage, self._since

    @property
    def stage(self) -> str:
        """The stage of now, if stretches are kept."""
        return self._stage

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keep stretches and stages within the block; what was kept before is left as it is."""
        before = self.events, self.stages
        self.record()
        try:
            yield
        finally:
            self._stage = ""
            self.events, self.stages = before

    def restart(self) -> None:
        """Set all phases to zero; to be called outside of them."""
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._start = self._since = self.now()
        self._thread = get_ident()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count the time of the block, except for phases within it, as `phase`."""
        if get_ident() != self._thread:
            yield
            return
        self._close()
        self._running.append(phase)
        try:
            yield
        finally:
            self._close()
            self._running.pop()

    def read(self) -> dict[str, float]:
        """Seconds of every phase, and "communication" (pack and wait), "other" and "total"."""
        total, seconds = self.now() - self._start, self._seconds
        return {
            **seconds,
            "communication": seconds["pack"] + seconds["wait"],
            "other": total - sum(seconds.values()),
            "total": total,
        }

    def _close(self) -> None:
        """End the current stretch of the running phase."""
        now = self.now()
        if self._running:
            phase = self._running[-1]
            self._seconds[phase] += now - self._since
            if self.events is not None:
                self.events.append((phase, self._since, now))
        self._since = now
