"""Find usable cores, check the number of threads, and divide work on items among threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError

MOST_THREADS = 1024
"""Largest number of threads of one process; with more, the system could kill the process."""
MAX_THREADS = 8
CHUNKS_PER_THREAD = 4  # evens out ranges of equal load that take different times
LEAST_LOAD = 1 << 12  # below this load threads take longer to start than to work

Result = TypeVar("Result")


def check_threads(threads: int | None) -> None:
    """Raise InputError unless `threads` is in 1..`MOST_THREADS`, or None."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise InputError(f"`threads` {threads}: must be in 1..{MOST_THREADS}")


def usable_cores() -> set[int]:
    """Return the ids of the cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def in_chunks(work: Callable[[int, int], Result], load_ptr: npt.NDArray[np.int64]) -> list[Result]:
    """Call ``work(first, last)`` for ranges of items, in threads; return the results in order.

    `work` must release the GIL. Ranges have about equal loads; `load_ptr`, int64[items + 1], has
    the summed load before each item.
    """
    items = len(load_ptr) - 1
    if load_ptr[-1] < LEAST_LOAD:
        return [work(0, items)] if items else []
    threads = max(1, min(len(usable_cores()), MAX_THREADS, items))
    wanted = 1 if threads == 1 else CHUNKS_PER_THREAD * threads
    inner = np.searchsorted(load_ptr, load_ptr[-1] * np.arange(1, wanted) / wanted)
    bounds = np.unique(np.concatenate([[0], inner, [items]])).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda chunk: work(*chunk), pairwise(bounds)))
