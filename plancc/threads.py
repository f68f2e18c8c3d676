"""Cores that there are, and how many threads may be asked for: too many end the process."""

import os

from plancc.errors import InputError

MOST_THREADS = 1024
"""Threads of one process."""


def check_threads(threads: int | None) -> None:
    """InputError unless `threads` is in 1..`MOST_THREADS`, or None."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise InputError(f"`threads` {threads}: must be in 1..{MOST_THREADS}")


def usable_cores() -> set[int]:
    """Numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))
