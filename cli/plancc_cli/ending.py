"""How a command ends: its exit code, what an interruption says, and what goes with the process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType

from plancc import processes

KILLED = 0.5
"""Seconds for the system to end what was killed, and for a sentence to be said."""

_answers = False  # whether a thread ends the process when a signal comes
stopped = threading.Event()
"""Set once a signal interrupts the work: native code may lose that, and fail in another way."""
_sentence = ""
_ending = threading.RLock()  # held by the thread that says why the process ends, until it has ended
_code = 1


def begin_command(*, answers: bool) -> None:
    """Begin to note what is written, which an interruption says.

    Parameters:
        answers: Whether the process is a command alone, and a thread of it answers signals.
    """
    global _answers, _sentence
    _answers, _sentence = answers, ""
    processes.temporary.clear()
    processes.written = {}


def say_if_interrupted(sentence: str) -> None:
    """Name the sentence that an interruption says from now on."""
    global _sentence
    _sentence = sentence


def interrupted() -> str:
    """What to say of interrupted work: the sentence named before, else the files written."""
    if _sentence:
        return _sentence
    files = list(processes.written or ())
    if not files:
        return "interrupted; nothing was written"
    some = ", ".join(files[:3]) + f" and {len(files) - 3} more" * (len(files) > 3)
    return f"interrupted; {some} {'was' if len(files) == 1 else 'were'} written before"


def only_wake(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing: the signal is read from `signal.set_wakeup_fd`.

    SIG_IGN would not wake anybody, and the programs that this one starts would inherit it.
    """


def ends_with(code: int) -> None:
    """Name the exit code of a command, which is about to say why; nothing interrupts it any more.

    Another thread that calls this waits until the process has ended.
    """
    global _code
    if not _answers:
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with contextlib.suppress(ValueError):  # not in the main thread
            if callable(signal.getsignal(number)):
                signal.signal(number, only_wake)
    _ending.acquire()
    _code = code


def end_code() -> int | None:
    """The exit code if another thread says why the process ends; None: the caller is to say it."""
    return None if _ending.acquire(timeout=KILLED) else _code


def clean_up() -> None:
    """Kill all that this command has started, and remove its temporary files."""
    if not _answers:  # the process is somebody else's, or a launcher ends it
        return
    end = time.monotonic() + KILLED
    while (living := processes.descendants(os.getpid())) and time.monotonic() < end:
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)  # the system ends them soon
    while processes.temporary:
        path = processes.temporary.pop()
        with contextlib.suppress(OSError):
            if not os.path.isdir(path) or os.path.islink(path):
                os.unlink(path)
                continue
            import shutil

            shutil.rmtree(path, ignore_errors=True)
