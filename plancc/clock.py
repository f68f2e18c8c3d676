"""Wall-clock seconds, without those in which kernels are compiled; in all, and by phase.

numba compiles a kernel at its first call after an installation, and keeps it on disk. That may take
45 seconds once, and would count as the time of the kernel's first caller.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer, get_ident
from typing import Any

BEGIN = time.time()
"""When this program began to import plancc, about, in seconds since 1970."""
ANNOUNCED_AFTER = 1.0
"""Seconds of compilation after which it is announced."""
PHASES = ("draw", "mask", "features", "pack", "wait", "spmm", "dense", "allreduce")
"""Phases of an epoch; they never overlap, so that they add up to its time."""


class Compilation:
    """Listens to numba: what this process has spent on compiling kernels.

    An interrupt (Ctrl-C) that comes while LLVM calls Python is lost there; it is raised again when
    the kernel is compiled.

    Attributes:
        count (int): Kernels so far, with the one at work.
        announce (callable or None): Called once, without arguments, when kernels have been compiled
            for `ANNOUNCED_AFTER`; from a thread if that is in the middle of a kernel.
    """

    def __init__(self) -> None:
        self.count = 0
        self.announce: Callable[[], None] | None = None
        self._depth = 0
        self._state = 0.0, 0.0, False  # seconds until the last start or end, its time, at work
        self._timer: Timer | None = None
        self._outer_hook: Callable[[Any], object] = sys.unraisablehook
        self._hook = self._unraisable  # one object, to be known again
        self._swallowed = False

    def on_start(self, event: Any) -> None:
        """A kernel begins to compile; numba's lock is held, and others may compile inside."""
        if self._depth == 0:
            self.count += 1
            self._state = self._state[0], time.perf_counter(), True
            self._outer_hook, sys.unraisablehook = sys.unraisablehook, self._hook
            if self.announce is not None:
                self._timer = Timer(max(0.0, ANNOUNCED_AFTER - self._state[0]), self._announce)
                self._timer.daemon = True
                self._timer.start()
        self._depth += 1

    def _announce(self) -> None:
        announce, self.announce = self.announce, None
        if announce is not None:
            announce()

    def on_end(self, event: Any) -> None:
        """A kernel is compiled, or failed to."""
        self._depth -= 1
        if self._depth == 0:
            done, begin, _ = self._state
            end = time.perf_counter()
            self._state = done + end - begin, end, False
            if self._timer is not None:
                self._timer.cancel()
            if sys.unraisablehook is self._hook:
                sys.unraisablehook = self._outer_hook
            if self._swallowed:
                self._swallowed = False
                _thread.interrupt_main()

    def _unraisable(self, unraisable: Any) -> None:
        """The compiler called Python, which raised what cannot be passed on: Ctrl-C is kept."""
        interrupt = isinstance(unraisable.exc_value, KeyboardInterrupt)
        self._swallowed |= interrupt
        if not interrupt or self._outer_hook is not sys.__unraisablehook__:
            self._outer_hook(unraisable)

    @property
    def at_work(self) -> bool:
        """Whether a kernel is compiled at this moment."""
        return self._depth > 0

    def seconds(self) -> float:
        """Seconds so far, including a kernel that is running."""
        done, last, at_work = self._state
        return done + (time.perf_counter() - last if at_work else 0.0)

    def others(self) -> float:
        """Seconds on the same clock without these; never less than another thread has read."""
        now = time.perf_counter()
        done, last, at_work = self._state  # read at once: a kernel may end in between
        return (last if at_work else max(now, last)) - done


_listener = Compilation()


def compilation() -> Compilation:
    """This process's listener; `plancc.jit` has numba tell it, once numba is there."""
    return _listener


def wall_seconds() -> float:
    """Seconds on a clock that stands still while kernels are compiled; for differences only."""
    return compilation().others()


@contextmanager
def announcing(announce: Callable[[], None]) -> Iterator[None]:
    """Call `announce` once, if kernels take long to compile in here."""
    listener = compilation()
    before, listener.announce = listener.announce, announce
    try:
        yield
    finally:
        listener.announce = before


class Clock:
    """Seconds per phase since the last `restart`; what no phase claims is "other".

    Phases nest: an inner one interrupts the outer one, so that no second counts twice. Seconds of
    other threads than the one that restarted it last are left out.

    Parameters:
        now: The time in seconds.  [default: wall-clock time without that in which kernels are
            compiled]
    """

    def __init__(self, now: Callable[[], float] = wall_seconds) -> None:
        self.now = now
        self._running: list[str] = []
        self.restart()

    def enter(self, stage: str) -> None:
        """Begin a stage of an epoch, such as "layer 1 forward": for clocks that keep stages."""

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
            self._seconds[self._running[-1]] += now - self._since
        self._since = now
