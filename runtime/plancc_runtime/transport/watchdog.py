"""Ends this process when one of its waits lasts too long.

The waits of MPI, gloo and NCCL are native calls that cannot be interrupted, so a separate thread
looks at the deadline. Arming it sets a few variables. Before it ends the process it asks the other
ranks of the job what they do (`rollcall`), if the job has a roll call.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from plancc_runtime.transport.messages import overdue
from plancc_runtime.transport.rollcall import LAST_WORDS, STOPPED, RankPlace, RollCall

GRACE = 2.0  # seconds between the last sentence of this rank and its end, for those of others
NOTICE = 10.0  # seconds of a wait after which a stopped rank is named, long before the timeout
RUNNING: weakref.WeakSet[Watchdog] = weakref.WeakSet()
"""Those whose threads run; they are stopped before Python shuts down."""


_roll: list[RollCall] = []  # of this process, which is one rank; none or one


@atexit.register
def _stop_all() -> None:
    for watchdog in list(RUNNING):
        watchdog.stop()
    for roll in _roll:
        roll.stop()


def take_part(place: RankPlace) -> None:
    """Take part in the roll call of the job, where the system has what that takes."""
    if not _roll:
        with suppress(OSError):
            _roll.append(RollCall(place))


class Waiter(Protocol):
    """Who waits: a transport, or a rank that has none yet."""

    rank: int
    size: int
    timeout: float
    patient: bool
    say: Callable[..., None]


class Watchdog:
    """Watches the waits of one rank: ``with watchdog(what): wait()``.

    ``what()`` says what the wait is for. When the wait has lasted `Waiter.timeout` seconds, the
    rank says so (`Waiter.say`) and which ranks are late, and the process ends with code 1 a moment
    later; the launcher then ends the other ranks. Of several ranks that have waited too long, one
    speaks. A waiter that is `patient` waits on as long as nobody is stopped or gone and one rank
    computes, or is on another machine. Waits do not nest.

    After `NOTICE` seconds the first of the ranks that wait names those that a signal has stopped.
    """

    def __init__(self, waiter: Waiter) -> None:
        self._waiter = waiter
        self._begun = math.inf
        self._patience = -math.inf
        self._what: Callable[[], str] = str
        self._device: tuple[Callable[[], bool], Callable[[], str], float] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def __call__(self, what: Callable[[], str]) -> Watchdog:
        self._what = what
        return self

    def __enter__(self) -> None:
        self._begun = time.monotonic()
        if _roll:
            _roll[0].waits = self.waits
        if self._thread is None:
            self._start()

    def __exit__(self, *_: object) -> None:
        self._begun = math.inf
        self._what = str  # keeps no exchange alive

    def waits(self) -> str:
        """What this rank waits for now; "" for nothing."""
        device = self._device
        return self._what() or ("" if device is None or device[0]() else device[1]())

    def others(self, what: str) -> str:
        """Which ranks are late, as the end of a sentence; "" if nobody can say."""
        roll = self._own_roll()
        if roll is None:
            return ""
        answers = roll.call()
        if answers is None:
            time.sleep(GRACE)  # another rank speaks, and the launcher ends this one
            return ""
        return answers.sentence(what)

    def _own_roll(self) -> RollCall | None:
        """The roll call, if its ranks are those of the waiter."""
        waiter = self._waiter
        own = [r for r in _roll if (r.place.rank, r.place.size) == (waiter.rank, waiter.size)]
        return own[0] if own else None

    def later(self, done: Callable[[], bool], what: Callable[[], str]) -> None:
        """Watch work that nobody waits for yet (a device's queue); ``done()`` asks after it.

        Only the oldest unfinished work is kept: what was queued after it cannot end before it.
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
        """End the thread: one that wakes while Python shuts down may abort the process."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(GRACE)

    def _watch(self) -> None:
        noticed = math.inf  # when the wait began that `_notice` has looked at
        while not self._stopped.wait(min(0.5, self._waiter.timeout / 10)):
            begun, what, device, now = self._begun, self._what, self._device, time.monotonic()
            if now > max(begun + self._waiter.timeout, self._patience) and begun == self._begun:
                if self._one_computes():
                    self._patience = time.monotonic() + self._waiter.timeout
                elif begun == self._begun:
                    self._end(what)
            elif now > begun + NOTICE and begun != noticed:
                noticed = begun
                self._notice(what)
            if device is not None and now > device[2] and not device[0]():
                self._end(device[1])

    def _notice(self, what: Callable[[], str]) -> None:
        """Say, as the first of the ranks that wait, which ranks are stopped."""
        waiter, roll, said = self._waiter, self._own_roll(), what()
        answers = None if roll is None or not said else roll.look()
        if answers is None or STOPPED not in answers.missing.values():
            return
        if all(waiter.rank < rank for rank, other in answers.waiting.items() if other):
            ends = f"; the job ends after {waiter.timeout:g} s" * (waiter.timeout < math.inf)
            waited = f"rank {waiter.rank}: still waiting after {NOTICE:g} s for {said}"
            waiter.say(f"{waited}{answers.sentence(said)}{ends}", False)

    def _one_computes(self) -> bool:
        """Whether there is a reason to be patient."""
        roll = self._own_roll() if self._waiter.patient else None
        return roll is not None and roll.look().one_computes

    def _end(self, what: Callable[[], str]) -> None:
        waiter, roll, said = self._waiter, self._own_roll(), what()
        sentence = f"rank {waiter.rank}: {overdue(said, waiter.timeout)}"
        try:
            if roll is None:
                waiter.say(sentence)
                time.sleep(GRACE)
                return
            answers = roll.call()
            if answers is None:  # another rank speaks, and ends this one too
                time.sleep(GRACE)
                return
            waiter.say(sentence + answers.sentence(said))
            time.sleep(LAST_WORDS)
            roll.end_job(answers.late)
        finally:
            os._exit(1)
