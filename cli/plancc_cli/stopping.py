"""Signals that ask work to stop tidily: a run with checkpoints, or a search that keeps its best."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from plancc_cli.ending import only_wake
from plancc_cli.signals import end_now

SIGNALS = ("USR1", "USR2", "HUP", "INT")
"""Names of signals that can be chosen beside TERM."""
TWICE = 1.0
"""Seconds within which a second signal counts as the first: a batch system sends it to every
process of a job, and mpirun passes its own on to the ranks."""


class StopSignals:
    """Listens to SIGTERM and other signals for as long as a block lasts.

        with StopSignals(["USR1"], end) as stop:
            ...             # stop() is "SIGUSR1" once that has come, "" before

    A thread of its own listens, so that a signal counts although Python waits in native code. The
    block must be entered in the main thread. Once a signal has come, the process is expected to
    end: after the block these signals do nothing more.

    Parameters:
        names: Some of `SIGNALS`; SIGTERM always counts.
        end: Called when another signal comes later than `TWICE` seconds after the first; it ends
            the process.
        heard: Called with the name of the first signal, in the thread that listens.
    """

    def __init__(
        self, names: Sequence[str], end: Callable[[], object], heard: Callable[[str], object] = str
    ) -> None:
        self._numbers = {signal.Signals[f"SIG{name}"] for name in ("TERM", *names)}
        self._end, self._heard = end, heard
        self._name, self._since = "", 0.0
        self._before: dict[signal.Signals, Any] = {}
        self._reading, self._writing = -1, -1
        self._outer = -1

    def __call__(self) -> str:
        """Name of the first signal that came; "" if none has."""
        return self._name

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        threading.Thread(target=self._listen, name="signals", daemon=True).start()
        self._outer = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in self._numbers:
            self._before[number] = signal.signal(number, only_wake)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._outer)
        for number, handler in self._before.items() if not self._name else ():
            signal.signal(number, handler)
        os.close(self._writing)  # which ends the thread

    def _listen(self) -> None:
        while numbers := os.read(self._reading, 256):
            for number in numbers:
                if number not in self._numbers:
                    if self._outer >= 0:
                        os.write(self._outer, bytes([number]))
                elif not self._name:
                    self._name, self._since = signal.Signals(number).name, time.monotonic()
                    self._heard(self._name)
                elif time.monotonic() - self._since > TWICE:
                    self._end()
        os.close(self._reading)


class KeepBest:
    """Ends a search with the best that it has found when SIGINT or SIGTERM comes.

        with KeepBest(report) as keep:
            plancc.compile(..., report=keep.report, stop=keep)

    Before the first step has ended there is nothing to keep: these signals end the program then, as
    does a second one later than `TWICE` seconds after the first.

    Parameters:
        report: Called with every step of the search.
    """

    def __init__(self, report: Callable[[Any], None]) -> None:
        self._report = report
        self._signals: StopSignals | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._signals is not None:
            self._signals.__exit__(*error)

    def __call__(self) -> str:
        """Name of the signal that came; "" if none has."""
        return "" if self._signals is None else self._signals()

    def report(self, trial: Any) -> None:
        """Take note of a step, which may be called in any thread."""
        if self._signals is None and threading.current_thread() is threading.main_thread():
            self._signals = StopSignals(["INT"], partial(end_now, "plancc")).__enter__()
        self._report(trial)
