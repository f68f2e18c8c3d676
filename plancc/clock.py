"""Clocks that measure wall-clock seconds, in total and by phase, and stop during compilation.

numba compiles a kernel at its first call and keeps the result on disk; all kernels together may
take 45 seconds.
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
"""Approximate time when this program began to import plancc, in seconds since 1970."""
ANNOUNCED_AFTER = 1.0
"""Number of seconds of compilation after which the user is told that kernels are compiled."""
PHASES = ("draw", "mask", "features", "pack", "wait", "spmm", "dense", "allreduce")
"""Phases of an epoch. They never overlap; with the time outside them, "other", they add up to the
time of the epoch."""


class Compilation:
    """A listener for events of numba that measures how long this process has compiled kernels.

    LLVM loses an interrupt (Ctrl-C) that comes while LLVM calls Python; the listener raises the
    interrupt again after the kernel is compiled.

    Attributes:
        announce (callable or None): Called once, from a second thread, after `ANNOUNCED_AFTER`
            seconds of compilation.
    """

    def __init__(self) -> None:
        self.count = 0
        self.announce: Callable[[], None] | None = None
        self._depth = 0
        self._state = 0.0, 0.0, False  # seconds until the last start or end, its time, is compiling
        self._timer: Timer | None = None
        self._outer_hook: Callable[[Any], object] = sys.unraisablehook
        self._hook = self._unraisable  # one object, so that `is` recognises it
        self._swallowed = False

    def on_start(self, event: Any) -> None:
        """Record that numba begins to compile a kernel, perhaps while it compiles another."""
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
        """Record that numba has compiled a kernel, or has failed to compile it."""
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
        """Record a Ctrl-C that the compiler cannot pass on; `on_end` raises the Ctrl-C again."""
        interrupt = isinstance(unraisable.exc_value, KeyboardInterrupt)
        self._swallowed |= interrupt
        if not interrupt or self._outer_hook is not sys.__unraisablehook__:
            self._outer_hook(unraisable)

    @property
    def at_work(self) -> bool:
        """Whether a kernel is being compiled at this moment."""
        return self._depth > 0

    def seconds(self) -> float:
        """Return the seconds of compilation so far, including a kernel that is being compiled."""
        done, last, at_work = self._state
        return done + (time.perf_counter() - last if at_work else 0.0)

    def others(self) -> float:
        """Return the seconds of a clock that stops during compilation and never runs backwards."""
        now = time.perf_counter()
        done, last, at_work = self._state  # read at once: a kernel may end in between
        return (last if at_work else max(now, last)) - done


_listener = Compilation()


def compilation() -> Compilation:
    """Return this process's `Compilation`, which `plancc.jit` registers when numba is imported."""
    return _listener


def wall_seconds() -> float:
    """Return the seconds of a clock that stops during compilation; only differences are useful."""
    return compilation().others()


@contextmanager
def announcing(announce: Callable[[], None]) -> Iterator[None]:
    """Call `announce` once if kernels take long to compile in the ``with`` block."""
    listener = compilation()
    before, listener.announce = listener.announce, announce
    try:
        yield
    finally:
        listener.announce = before


class Clock:
    """Seconds per phase since the last `restart`; seconds outside all phases are "other".

    An inner phase interrupts the outer phase. Only seconds of the thread that restarted the clock
    last are counted.

    Parameters:
        now: Function that returns seconds; by default wall-clock time without compilation.
    """

    def __init__(self, now: Callable[[], float] = wall_seconds) -> None:
        self.now = now
        self._running: list[str] = []
        self.restart()

    def enter(self, stage: str) -> None:
        """Begin a stage of an epoch, such as "layer 1 forward"; this clock ignores stages."""

    def restart(self) -> None:
        """Set all phases to zero; must be called outside of all phases."""
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._start = self._since = self.now()
        self._thread = get_ident()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count the time of the ``with`` block as `phase`, less the time of phases inside it."""
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
        """Return the seconds since `restart`, by name: of every phase, "other" and "total".

        The entry "communication" is the sum of the phases "pack" and "wait".
        """
        total, seconds = self.now() - self._start, self._seconds
        return {
            **seconds,
            "communication": seconds["pack"] + seconds["wait"],
            "other": total - sum(seconds.values()),
            "total": total,
        }

    def _close(self) -> None:
        """Count the time since the last call (or `restart`) as time of the running phase."""
        now = self.now()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now
