"""Which rows every part must receive, from a matrix and the owners of its rows.

Both the lowering and the metrics of an owner vector start here; no plan is needed for it. Parts
are independent, so the pass over the nonzeros runs in threads (the kernel releases the GIL) and
the result does not depend on their number.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from plancc.graph.graph import Graph
from plancc.plan.plan import Int32Array, Int64Array

MAX_THREADS = 8  # each thread keeps one int32 per vertex


class ReceiveSets(NamedTuple):
    """What every part must receive, before any order is given to it.

    Attributes
    ----------
    rows : int32[n], part_ptr : int64[num_parts + 1]
        Rows grouped by part, ascending in each.
    chunks : list of (first, last)
        Ranges of parts, one per thread.
    found : list of (int32[received by the chunk's parts], int64[last - first])
        For every chunk the foreign columns of its parts in the order in which they were met, and
        how many each part has.
    own_nonzeros : int64[n]
        Nonzeros of every row whose column its part owns.
    """

    rows: Int32Array
    part_ptr: Int64Array
    chunks: list[tuple[int, int]]
    found: list[tuple[Int32Array, Int64Array]]
    own_nonzeros: Int64Array


def receive_sets(matrix: Graph, owner: Int32Array, num_parts: int) -> ReceiveSets:
    """Receive sets of all parts (paper 000, Eq. 9), unsorted: the first pass over the nonzeros."""
    rows, part_ptr = _rows_by_part(owner, num_parts)
    chunks = _chunks(matrix.indptr, rows, part_ptr)
    own_nonzeros = np.empty(matrix.num_vertices, dtype=np.int64)

    def mark(chunk: tuple[int, int]) -> tuple[Int32Array, Int64Array]:
        return _mark(matrix.indptr, matrix.indices, rows, part_ptr, *chunk, own_nonzeros)

    with ThreadPoolExecutor(len(chunks)) as pool:
        return ReceiveSets(rows, part_ptr, chunks, list(pool.map(mark, chunks)), own_nonzeros)


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunks(indptr: Int64Array, rows: Int32Array, part_ptr: Int64Array) -> list[tuple[int, int]]:
    """Ranges of parts with about equal nonzeros, one per thread."""
    num_parts = len(part_ptr) - 1
    threads = max(1, min(usable_cores(), MAX_THREADS, num_parts))
    nonzeros = np.concatenate([[0], np.diff(indptr)[rows]]).cumsum()[part_ptr]
    inner = np.searchsorted(nonzeros, nonzeros[-1] * np.arange(1, threads) / threads)
    bounds = np.unique(np.concatenate([[0], inner, [num_parts]]))
    return list(pairwise(bounds.tolist()))


@njit(cache=True, nogil=True)
def _rows_by_part(owner, num_parts):  # type: ignore[no-untyped-def]
    """Rows grouped by part, ascending in each: int32[n], with offsets int64[num_parts + 1]."""
    part_ptr = np.zeros(num_parts + 1, dtype=np.int64)
    for i in range(len(owner)):
        part_ptr[owner[i] + 1] += 1
    for m in range(num_parts):
        part_ptr[m + 1] += part_ptr[m]
    free = part_ptr[:-1].copy()
    rows = np.empty(len(owner), dtype=np.int32)
    for i in range(len(owner)):
        m = owner[i]
        rows[free[m]] = i
        free[m] += 1
    return rows, part_ptr


@njit(cache=True, nogil=True)
def _mark(indptr, indices, rows, part_ptr, first, last, own_nonzeros):  # type: ignore[no-untyped-def]
    """Foreign columns of parts first..last-1, each once per part; counts own nonzeros of rows.

    ``mark[j]`` is 2m when column j belongs to part m, 2m + 1 when part m has met it already, so
    that one look-up per nonzero answers both questions.
    """
    mark = np.full(len(indptr) - 1, -1, dtype=np.int32)
    size = 0
    for r in range(part_ptr[first], part_ptr[last]):
        size += indptr[rows[r] + 1] - indptr[rows[r]]
    found = np.empty(size, dtype=np.int32)  # an upper bound; untouched pages cost nothing
    counts = np.zeros(last - first, dtype=np.int64)
    num_found = 0
    for m in range(first, last):
        own, seen = np.int32(2 * m), np.int32(2 * m + 1)
        before = num_found
        for r in range(part_ptr[m], part_ptr[m + 1]):
            mark[rows[r]] = own
        for r in range(part_ptr[m], part_ptr[m + 1]):
            i = rows[r]
            count = 0
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if mark[j] == own:
                    count += 1
                elif mark[j] != seen:
                    mark[j] = seen
                    found[num_found] = j
                    num_found += 1
            own_nonzeros[i] = count
        counts[m - first] = num_found - before
    return found[:num_found], counts
