"""Processes: let a child end with its parent, say why a process ended, record temporary files.

A process that is killed in native code cannot clean up: the command line removes its files.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

temporary: set[str] = set()
"""Temporary files and folders that may exist."""
written: dict[str, None] | None = None
"""Complete files, in the order of writing; None if they are not recorded."""


@contextlib.contextmanager
def unfinished(path: str) -> Iterator[None]:
    """Context manager that records a temporary file or folder while the ``with`` block runs."""
    temporary.add(path)
    try:
        yield
    finally:
        temporary.discard(path)


def note_written(path: str) -> None:
    """Record that a file is complete, unless it is in a recorded temporary folder."""
    if written is not None and not any(path.startswith(each + os.sep) for each in (*temporary,)):
        written[path] = None


def fate(code: int) -> str:
    """Return a phrase that says how a process ended; negative codes are numbers of signals."""
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
    """Return the PYTHONPATH with which a child finds the modules of this process."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


def die_with_parent(parent: int) -> None:
    """Make Linux kill this process when `parent`, which started it, ends; elsewhere do nothing."""
    pr_set_pdeathsig = 1
    if _prctl(pr_set_pdeathsig, signal.SIGKILL) and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendant processes when their own parent ends (Linux only)."""
    pr_set_child_subreaper = 36
    _prctl(pr_set_child_subreaper, 1)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    return True


def descendants(ancestor: int) -> list[int]:
    """Return the process ids of all descendants of a process, without zombies."""
    import psutil

    found = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(ancestor).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
    return found
