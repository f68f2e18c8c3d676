"""The processes of this job on this machine.

A launcher gives every rank its number in a variable of its environment. The *launcher* of a rank is
its nearest ancestor without that variable, and the ranks here are what that process has started, as
far as they have the variable: programs in between, such as a shell, belong to their rank.
"""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
"""States of a process that a signal or a debugger has stopped."""


def launcher_of(variable: str) -> psutil.Process | None:
    """The launcher of this rank (see the module's docstring); the first process if it has none."""
    above = psutil.Process().parents()
    own = os.environ.get(variable)
    without = (process for process in above if _value(process, variable) != own)
    return next(without, above[-1] if above else None)


def ranks_here(variable: str) -> dict[int, list[psutil.Process]]:
    """The processes of every rank that this rank's launcher has started on this machine."""
    found: dict[int, list[psutil.Process]] = {}
    launcher = launcher_of(variable)
    with suppress(psutil.Error):
        for process in launcher.children(recursive=True) if launcher else ():
            value = _value(process, variable)
            if value and value.isdecimal():
                found.setdefault(int(value), []).append(process)
    return found


def is_stopped(process: psutil.Process) -> bool:
    """Whether a signal or a debugger has stopped it."""
    try:
        return process.status() in STOPPED
    except psutil.Error:
        return False


def kill(process: psutil.Process) -> None:
    """Kill it, if it lives: never another that has its number now."""
    with suppress(psutil.Error):
        process.kill()


def _value(process: psutil.Process, variable: str) -> str | None:
    """What the environment of a process says; None if it says nothing, or may not be read."""
    try:
        return process.environ().get(variable)
    except (psutil.Error, OSError):
        return None
