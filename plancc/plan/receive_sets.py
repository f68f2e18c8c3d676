"""Which rows every part must receive, from a matrix and the owners of its rows.

Both the lowering and the metrics of an owner vector start here; no plan is needed for it. A set
of rows is a bitmap over an order in which the rows of a part are neighbours: marking a nonzero's
column sets a bit, reading the bits in order yields the set sorted and cut into messages.

Parts are independent, so passes over the nonzeros run in threads (the kernels release the GIL)
and no result depends on their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numba import njit

from plancc.plan.plan import Int32Array, Int64Array

MAX_THREADS = 8
CHUNKS_PER_THREAD = 4  # evens out what parts of equal nonzeros differ in

Result = TypeVar("Result")


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_chunks(work: Callable[[int, int], Result], load_ptr: Int64Array) -> list[Result]:
    """``work(first, last)`` for ranges of items, in threads; results in the items' order.

    Parameters
    ----------
    work : callable
        Does items ``first..last-1``; it must release the GIL.
    load_ptr : int64[items + 1]
        Load of all items before each; the ranges have about equal loads.
    """
    items = len(load_ptr) - 1
    threads = max(1, min(usable_cores(), MAX_THREADS, items))
    wanted = 1 if threads == 1 else CHUNKS_PER_THREAD * threads
    inner = np.searchsorted(load_ptr, load_ptr[-1] * np.arange(1, wanted) / wanted)
    bounds = np.unique(np.concatenate([[0], inner, [items]])).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda chunk: work(*chunk), pairwise(bounds)))


@njit(cache=True, nogil=True)
def grouped(key, num_groups):  # type: ignore[no-untyped-def]
    """Rows by their group, ascending in each.

    Returns (rows int32[n], where each row is among them int32[n], int64[num_groups + 1] offsets).
    """
    ptr = np.zeros(num_groups + 1, dtype=np.int64)
    for i in range(len(key)):
        ptr[key[i] + 1] += 1
    for group in range(num_groups):
        ptr[group + 1] += ptr[group]
    free = ptr[:-1].copy()
    rows = np.empty(len(key), dtype=np.int32)
    position = np.empty(len(key), dtype=np.int32)
    for i in range(len(key)):
        at = free[key[i]]
        free[key[i]] = at + 1
        rows[at] = i
        position[i] = at
    return rows, position, ptr


@njit(cache=True, nogil=True)
def mark_columns(indptr, indices, rows, position, row0, row1, bitmap, place, own):  # type: ignore[no-untyped-def]
    """Mark the foreign columns of the part whose rows are ``rows[row0:row1]``.

    Sets the bits of the columns' positions in `bitmap`, which comes clear. Writes the position of
    every nonzero's column to `place` and the number of own columns of every row to `own`.
    """
    t = 0
    for r in range(row0, row1):
        count = 0
        for k in range(indptr[rows[r]], indptr[rows[r] + 1]):
            at = position[indices[k]]
            place[t] = at
            t += 1
            bitmap[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
            count += row0 <= at < row1
        own[r - row0] = count
    for at in range(row0, row1):
        bitmap[at >> 6] &= ~(np.uint64(1) << np.uint64(at & 63))


@njit(cache=True, nogil=True)
def bits_below(word, at):  # type: ignore[no-untyped-def]
    """The lowest `at` bits of a word, all of them for `at` of 64 and more."""
    return word if at >= 64 else word & ((np.uint64(1) << np.uint64(at)) - np.uint64(1))


@njit(cache=True, nogil=True)
def count_bits(word):  # type: ignore[no-untyped-def]
    """Number of ones; LLVM makes one instruction of it."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def first_bit(word):  # type: ignore[no-untyped-def]
    """Number of the lowest one of a word that is not zero."""
    return count_bits(~word & (word - np.uint64(1)))
