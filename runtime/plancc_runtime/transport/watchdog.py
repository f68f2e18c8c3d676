"""A watchdog that ends this process when one of its waits lasts too long.

Waits in MPI, gloo and NCCL cannot be interrupted, so a separate thread checks the deadline.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from plancc_runtime.transport.messages import overdue

GRACE = (
    2.0  # seconds between the last sentence of this rank and its end, for other ranks' sentences
)
RUNNING: weakref.WeakSet[Watchdog] = weakref.WeakSet()
"""Watchdogs whose threads are running. The threads are stopped before Python shuts down."""


@atexit.register
def _stop_all() -> None:
    for watchdog in list(RUNNING):
        watchdog.stop()


class Waiter(Protocol):
    """What a watchdog reads from a transport or, while none exists yet, from a substitute."""

    rank: int
    timeout: float
    say: Callable[[str], None]


class Watchdog:
    """Watches the waits of one rank, which must not be nested: ``with watchdog(what): wait()``.

    After `Waiter.timeout` seconds the rank prints ``what()``, and the process ends with status 1.
    """

    def __init__(self, waiter: Waiter) -> None:
        self._waiter = waiter
        self._begun = math.inf
        self._what: Callable[[], str] = str
        self._device: tuple[Callable[[], bool], Callable[[], str], float] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def __call__(self, what: Callable[[], str]) -> Watchdog:
        self._what = what
        return self

    def __enter__(self) -> None:
        self._begun = time.monotonic()
        if self._thread is None:
            self._start()

    def __exit__(self, *_: object) -> None:
        self._begun = math.inf
        self._what = str  # so that this watchdog keeps no exchange alive

    def later(self, done: Callable[[], bool], what: Callable[[], str]) -> None:
        """Watch work in a device's queue until ``done()``; ``what()`` says what the work waits for.

        Only the oldest unfinished work is watched, because later work cannot end earlier.
        """
        if self._device is None or self._device[0]():
            self._device = done, what, time.monotonic() + self._waiter.timeout
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()
        RUNNING.add(self)

    def stop(self) -> None:
        """End the thread, because it could abort the process if it ran while Python shuts down."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(GRACE)

    def _watch(self) -> None:
        while not self._stopped.wait(min(0.5, self._waiter.timeout / 10)):
            begun, what, device, now = self._begun, self._what, self._device, time.monotonic()
            if now > begun + self._waiter.timeout and begun == self._begun:
                self._end(what)
            if device is not None and now > device[2] and not device[0]():
                self._end(device[1])

    def _end(self, what: Callable[[], str]) -> None:
        try:
            self._waiter.say(f"rank {self._waiter.rank}: {overdue(what(), self._waiter.timeout)}")
            time.sleep(GRACE)  # other ranks can print what they wait for before the job ends
        finally:
            os._exit(1)
