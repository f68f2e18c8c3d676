"""Splits a CSR matrix into column blocks, so that the rows of x that a block reads fit in a cache.

See Md et al. 2021, Algorithm 2.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

COUNTS = (1, 2, 4, 8, 16, 32)
SHARE = 0.75  # share of a cache for rows of x; the rest is for nonzeros and rows of out
WINDOW = 4  # number of nonzeros that are examined, as a multiple of the rows of x that fit
GAIN = 0.85  # largest ratio of estimated times at which a matrix is split
LEAST_PER_ROW = 24  # a matrix with fewer nonzeros per row is not split

# Extra times, in units of the time to read a row of x from the L2 cache: to read the row from the
# L3 cache; to read it from memory; and, for each further block, to read and write a row of out.
# They were measured at widths 32 and 128.
L3_COST, MEMORY_COST, OUT_COST = 1.0, 4.0, 4.0

Part = tuple[np.ndarray, np.ndarray, np.ndarray]


@cache
def cache_bytes() -> tuple[int, int]:
    """Return the sizes in bytes of the L2 and the L3 cache; without L3, the L2 size twice.

    If neither Linux nor the C library knows the sizes, the result is 1 MiB and 16 MiB.
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
    """Return the number of column blocks with the shortest estimated product time, from `COUNTS`.

    A product multiplies the matrix by x, and writes `out`. With B blocks, reads of x miss a cache
    as rarely as with a cache B times as large, but `out` is read and written B times. No time is
    measured, so the number is the same in every run.

    Parameters:
        row_ptr (int64[m + 1]), columns (int32[nnz]): CSR arrays of the matrix.
        row_bytes: Number of bytes of a row of x.
        caches: Bytes of the L2 and L3 cache; by default of this machine.
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
    """Estimate, for a product with x, the share of reads of rows of x that miss a cache.

    The cache has room for `held` rows of x.
    """
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
    """Split a CSR matrix into `count` ranges of columns, and return the CSR arrays of each.

    Columns keep their numbers, and the nonzeros of a row keep their order.
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
