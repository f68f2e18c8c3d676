"""Wall-clock seconds, without those in which kernels are compiled.

numba compiles a kernel at its first call after an installation, and keeps it on disk. That may take
45 seconds once, and would count as the time of the kernel's first caller.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

BEGIN = time.time()
"""When this program began to import plancc, about, in seconds since 1970."""
ANNOUNCED_AFTER = 1.0
"""Seconds of compilation after which it is announced."""


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
        """Seconds so far, those of a kernel at work included."""
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
