"""Processes: whom they die with, how they ended, and what must go with them when they are ended.

Whoever is ended in the middle of native code cannot clean up. Therefore temporary files are named
here for as long as they are there, and the thread of the command line that ends the process
(`plancc_cli.signals`) removes them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

TWICE = 1.0
"""Seconds within which a second signal counts as the first: a batch system sends it to every
process of a job, and mpirun passes its own on to the ranks."""
KILLED = 0.5
"""Seconds for the system to end what was killed."""

_is_command = False  # else nobody asks what was written
_answers = False  # whether a thread ends the process when a signal comes
_stopping = False
_temporary: set[str] = set()
_written: dict[str, None] = {}  # in this order
_sentence = ""
_ending = threading.RLock()  # held by the thread that says why the process ends, until it has ended
_code = 1


def begin_command(*, answers: bool) -> None:
    """Begin to note what is written, which an interruption says.

    Parameters:
        answers: Whether the process is a command alone, and a thread of it answers signals.
    """
    global _is_command, _answers, _sentence
    _is_command, _answers, _sentence = True, answers, ""
    _temporary.clear()
    _written.clear()


@contextlib.contextmanager
def unfinished(path: str) -> Iterator[None]:
    """A block in which a temporary file or folder may be there; `clean_up` removes it."""
    _temporary.add(path)
    try:
        yield
    finally:
        _temporary.discard(path)


def note_written(path: str) -> None:
    """Note that a file is complete; not one in a temporary folder, with which it goes."""
    if _is_command and not any(path.startswith(each + os.sep) for each in tuple(_temporary)):
        _written[path] = None


def say_if_interrupted(sentence: str) -> None:
    """Name the sentence that an interruption says from now on."""
    global _sentence
    _sentence = sentence


def interrupted() -> str:
    """What to say of interrupted work: the sentence named before, else the files written."""
    if _sentence:
        return _sentence
    files = list(_written)
    if not files:
        return "interrupted; nothing was written"
    some = ", ".join(files[:3]) + f" and {len(files) - 3} more" * (len(files) > 3)
    return f"interrupted; {some} {'was' if len(files) == 1 else 'were'} written before"


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


def clean_up() -> None:
    """Kill all that this command has started, and remove its temporary files."""
    if not _answers:  # the process is somebody else's, or a launcher ends it
        return
    end = time.monotonic() + KILLED
    while (living := descendants(os.getpid())) and time.monotonic() < end:
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    while _temporary:
        path = _temporary.pop()
        with contextlib.suppress(OSError):
            if not os.path.isdir(path) or os.path.islink(path):
                os.unlink(path)
                continue
            import shutil

            shutil.rmtree(path, ignore_errors=True)


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
