"""Column blocks of a CSR matrix, whose rows of x stay in a cache (Md et al. 2021, Algorithm 2)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

COUNTS = (1, 2, 4, 8, 16, 32)
SHARE = 0.75  # of a cache that rows of x may fill: nonzeros and out pass through it too
WINDOW = 4  # nonzeros looked at, in rows of x that fit
GAIN = 0.85  # largest ratio of estimated times at which a matrix is split
LEAST_PER_ROW = 24  # nonzeros of a row below which nothing is split

# Times in the time in which a row of x is read from the L2 cache, measured at widths 32 and 128:
# what reading it from the L3 cache and from memory takes besides, and what a row of out takes to
# be read and written by another block.
L3_COST, MEMORY_COST, OUT_COST = 1.0, 4.0, 4.0

Part = tuple[np.ndarray, np.ndarray, np.ndarray]


@cache
def cache_bytes() -> tuple[int, int]:
    """Sizes of the L2 and the L3 cache of the first core, in bytes.

    As Linux tells them, else as the C library does, else 1 MiB and 16 MiB. A CPU without L3 cache
    has the L2 cache's size twice.
    """
    sizes = {2: 0, 3: 0}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            which, size = ((index / name).read_text().strip() for name in ("level", "size"))
            scale = {"K": 2**10, "M": 2**20, "G": 2**30}.get(size[-1:], 1)
            sizes[int(which)] = int(size.rstrip("KMG")) * scale
        except (OSError, ValueError):
            continue
    for level in (2, 3):
        name = f"SC_LEVEL{level}_CACHE_SIZE"
        if not sizes[level] and name in os.sysconf_names:
            sizes[level] = max(0, os.sysconf(name))
    level2, level3 = sizes[2], sizes[3]
    if not level2:
        return 2**20, max(level3, 2**24)
    return level2, max(level2, level3)


def best_count(
    row_ptr: np.ndarray,
    columns: np.ndarray,
    num_columns: int,
    row_bytes: int,
    caches: tuple[int, int] | None = None,
) -> int:
    """How many column blocks a product should have: a number of `COUNTS`, 1 where none pay.

    Estimated from nonzeros per row, the bytes of a row of x and the sizes of the caches, with the
    misses that a window of the nonzeros has (`_miss`): few where neighbouring rows share their
    columns, as in meshes. B blocks have as many misses as a cache B times as large, and pass over
    out B times. Nothing is measured: the same machine always finds the same number.

    Parameters:
        row_ptr: int64[m + 1].
        columns: int32[nnz].
        row_bytes: Bytes of a row of x.
        caches: Bytes of the L2 and the L3 cache; by default this machine's.
    """
    level2, level3 = (int(SHARE * size) // row_bytes for size in caches or cache_bytes())
    num_rows = len(row_ptr) - 1
    if num_columns <= level2 or len(columns) < LEAST_PER_ROW * num_rows:
        return 1
    per_row = len(columns) / num_rows

    def estimate(count: int) -> float:
        near, far = (_miss(columns, num_columns, rows * count) for rows in (level2, level3))
        return per_row * (1 + L3_COST * near + MEMORY_COST * far) + OUT_COST * (count - 1)

    times = {count: estimate(count) for count in COUNTS}
    best = min(times, key=times.__getitem__)
    return best if times[best] <= GAIN * times[1] else 1


def _miss(columns: np.ndarray, num_columns: int, held: int) -> float:
    """The share of gathered rows that a cache of `held` rows lacks, from nonzeros in the middle."""
    length = min(len(columns), WINDOW * held)
    if num_columns <= held or length <= held:
        return 0.0
    begin = (len(columns) - length) // 2
    seen = np.zeros(num_columns, bool)
    seen[columns[begin : begin + length]] = True
    return max(0, int(np.count_nonzero(seen)) - held) / (length - held)


def split(
    row_ptr: np.ndarray, columns: np.ndarray, values: np.ndarray, num_columns: int, count: int
) -> list[Part]:
    """A CSR matrix as the sum of `count` ones, of about equally many columns each.

    Returns:
        list of (int64[m + 1], int32[k], values[k]): CSR arrays with the column numbers of the
            whole; nonzeros of a row stay in their order.
    """
    num_rows = len(row_ptr) - 1
    block = (columns // max(1, -(-num_columns // count))).astype(np.uint8)
    order = np.argsort(block, kind="stable")
    columns, values = columns[order], values[order]
    del order
    row = np.repeat(np.arange(num_rows), np.diff(row_ptr))
    row += block.astype(np.int64) * num_rows
    nonzeros = np.bincount(row, minlength=count * num_rows).reshape(count, num_rows)
    del row
    ends = np.cumsum(nonzeros.sum(axis=1))
    parts = []
    for in_row, end in zip(nonzeros, ends, strict=True):
        ptr = np.concatenate([[0], np.cumsum(in_row)])
        at = slice(end - ptr[-1], end)
        parts.append((ptr, columns[at], values[at]))
    return parts
