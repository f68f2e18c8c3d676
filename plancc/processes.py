"""Processes: whom they die with, how they ended, and what they tell the one that supervises them.

The command line works in a process that another one supervises (`plancc_cli.supervisor`). Who is
killed in the middle of native code cannot clean up; therefore temporary files are told to the
supervisor before they are made. A process without a supervisor, such as a user's script, tells
nobody.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from types import FrameType

BEGUN, GONE, WRITTEN, SENTENCE, HANDLED, CODE = b"+", b"-", b"=", b"i", b"h", b"c"
"""First byte of what is told: a temporary file or folder is about to be made, is no more; a file
is complete; what to say of an interruption; the number of a signal that the work answers by itself,
however long that takes, or minus that number when it does so no longer; the exit code of the work,
which is done."""

TWICE = 1.0
"""Seconds within which a second signal counts as the first: a batch system sends it to every
process of a job, and mpirun passes its own on to the ranks."""

_supervisor: int | None = None
_is_command = False  # else nobody asks what was written
_stopping = False
_temporary: set[str] = set()
_written: dict[str, None] = {}  # in this order
_sentence = ""  # the last one told


def report_to(descriptor: int | None) -> None:
    """Tell the supervisor at the other end of this pipe; None: nobody supervises this command."""
    global _supervisor, _is_command, _sentence
    _supervisor, _is_command, _sentence = descriptor, True, ""
    _temporary.clear()
    _written.clear()


def tell(what: bytes, value: str | int) -> None:
    """Tell the supervisor: one of the constants above, and a path, a sentence or a number."""
    global _sentence
    if what == SENTENCE:
        _sentence = str(value)
    elif what == BEGUN:
        _temporary.add(str(value))
    elif what == GONE:
        _temporary.discard(str(value))
    elif what == WRITTEN:
        if any(str(value).startswith(folder + os.sep) for folder in tuple(_temporary)):
            return  # it goes with its folder
        if _is_command:
            _written[str(value)] = None
    if _supervisor is not None:
        with contextlib.suppress(OSError):  # the supervisor is gone
            os.write(_supervisor, what + os.fsencode(str(value)) + b"\0")


def interrupted(written: Iterable[str] | None = None) -> str:
    """What to say of interrupted work: the sentence told, else of the files `written`, or told."""
    if _sentence:
        return _sentence
    files = list(_written if written is None else written)
    if not files:
        return "interrupted; nothing was written"
    some = ", ".join(files[:3]) + f" and {len(files) - 3} more" * (len(files) > 3)
    return f"interrupted; {some} {'was' if len(files) == 1 else 'were'} written before"


def ends_with(code: int) -> None:
    """Tell the exit code of the work, which is about to say why; nothing interrupts it any more.

    An interrupt after that would be answered by the supervisor too, with a second sentence.
    """
    if _supervisor is None:
        return
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with contextlib.suppress(ValueError):  # not in the main thread
            if callable(signal.getsignal(number)):
                signal.signal(number, only_wake)
    tell(CODE, code)


def begin_to_stop() -> None:
    """Note that a signal interrupts the work of this process."""
    global _stopping
    _stopping = True


def is_stopping() -> bool:
    """Whether a signal interrupts the work: native code may lose that, and fail in another way."""
    return _stopping


def only_wake(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing: the signal is read from `signal.set_wakeup_fd`.

    SIG_IGN would not wake anybody, and the programs that this one starts would inherit it.
    """


def fate(code: int) -> str:
    """How a process ended, from its exit status or, negative, the number of a signal."""
    if code >= 0:
        return f"failed (exit status {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        return "was killed (SIGKILL; is the machine out of memory?)"
    return f"crashed ({name})"


def search_path() -> str:
    """What PYTHONPATH must be for a child that is to find the modules of this process."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


def die_with_parent(parent: int) -> None:
    """Have the system kill this process when the process `parent`, which started it, ends.

    Linux only; elsewhere nothing happens.
    """
    pr_set_pdeathsig = 1
    if _prctl(pr_set_pdeathsig, signal.SIGKILL) and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of what descendants of this process leave behind (Linux only)."""
    pr_set_child_subreaper = 36
    _prctl(pr_set_child_subreaper, 1)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    return True


def descendants(ancestor: int) -> list[int]:
    """Numbers of all processes that a process has started, with those that they have started.

    Zombies do not count.
    """
    import psutil

    found = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(ancestor).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
    return found
