"""Where the time of a rank goes. Phases never overlap, so they add up to the total."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

PHASES = ("communication", "spmm", "dense", "allreduce")


class Clock:
    """Seconds per phase since the last `restart`; what no phase claims is "other"."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._start = perf_counter()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Add the time of the block to `phase`; blocks must not be nested."""
        start = perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += perf_counter() - start

    def read(self) -> dict[str, float]:
        """Seconds of every phase, of "other", and in "total"."""
        total = perf_counter() - self._start
        return {**self._seconds, "other": total - sum(self._seconds.values()), "total": total}
