"""How many threads may be asked for. Partitioners, torch and OpenMP end the process at too many."""

from __future__ import annotations

from plancc.errors import InputError

MOST_THREADS = 1024
"""Threads of one process."""


def check_threads(threads: int | None) -> None:
    """InputError unless `threads` is in 1..`MOST_THREADS`, or None."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise InputError(f"`threads` {threads}: must be in 1..{MOST_THREADS}")
