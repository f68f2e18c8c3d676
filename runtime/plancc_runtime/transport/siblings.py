"""The processes of this job on this machine (Linux). Knows /proc; no messages, no transport.

A launcher gives every rank its number in a variable of its environment. The *launcher* of a rank is
its nearest ancestor without that variable, and the ranks here are what that process has started, as
far as they have the variable: programs in between, such as a shell, belong to their rank.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

STOPPED = "Tt"
"""States of a process that a signal or a debugger has stopped."""


class Process(NamedTuple):
    """A process, which its number and its start name for ever.

    Attributes
    ----------
    pid, parent : int
    start : int
        When it began, in ticks of the system's clock.
    state : str
        A letter: see proc(5).
    """

    pid: int
    parent: int
    start: int
    state: str


def process(pid: int) -> Process | None:
    """The process of that number; None if there is none, or it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    state = words[0].decode()
    return None if state in "ZX" else Process(pid, int(words[1]), int(words[19]), state)


def launcher_of(variable: str) -> Process | None:
    """The launcher of this rank (see the module's docstring)."""
    own, found = os.environ.get(variable), process(os.getppid())
    while found is not None and found.parent and _value(found.pid, variable) == own:
        found = process(found.parent)
    return found


def ranks_here(variable: str) -> dict[int, list[Process]]:
    """The processes of every rank that this rank's launcher has started on this machine."""
    launcher, user = launcher_of(variable), os.getuid()
    found: dict[int, list[Process]] = {}
    for pid in _numbers():
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid != user:
                continue
            value, one = _value(pid, variable), process(pid)
            if one and launcher and value and value.isdecimal() and _descends(one, launcher):
                found.setdefault(int(value), []).append(one)
    return found


def kill(victim: Process) -> None:
    """Kill exactly this process: never another that has its number now."""
    with suppress(OSError):
        handle = os.pidfd_open(victim.pid)  # from here on the number is this one's
        try:
            now = process(victim.pid)
            if now is not None and now.start == victim.start:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _numbers() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _value(pid: int, variable: str) -> str | None:
    """What the environment of a process says; None if it says nothing, or may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            lines = file.read().split(b"\0")
    except OSError:
        return None
    start = os.fsencode(variable) + b"="
    return next((os.fsdecode(line[len(start) :]) for line in lines if line.startswith(start)), None)


def _descends(one: Process | None, ancestor: Process) -> bool:
    while one is not None and one.parent:
        if one.parent == ancestor.pid:
            return True
        one = process(one.parent)
    return False
