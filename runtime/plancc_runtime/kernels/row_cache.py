"""Rows of an open file through a cache: each row has one place there, as in a processor's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from plancc.kernel import njit
from plancc_runtime.kernels.claims import pointer

_pread = types.ExternalFunction(
    "pread", types.int64(types.int32, types.voidptr, types.uint64, types.int64)
)


@njit(cache=True, nogil=True)
def take_rows(file: Any, start: Any, rows: Any, tags: Any, kept: Any, out: Any) -> Any:
    """Copy rows to `out`, from the cache or from the file, from where they go to the cache.

    Parameters:
        file (int): Descriptor.
        start (int): Where row 0 begins in the file, in bytes.
        rows (int64[m]): Rows of the file.
        tags (int64[places]): The row that is in each place of the cache; -1: none.
        kept (uint8[places, row bytes]): The cache.
        out (uint8[m, row bytes]): Where the rows go.

    Returns:
        int: Rows that are there now; fewer than m if the file could not be read.
    """
    size, places = out.shape[1], len(tags)
    address = np.int64(out.ctypes.data)
    k = 0
    while k < len(rows):
        row = rows[k]
        if places and tags[row % places] == row:
            out[k] = kept[row % places]
            k += 1
            continue
        end = k + 1  # of a run of rows in the file
        while end < len(rows) and rows[end] == rows[end - 1] + 1:
            if places and tags[rows[end] % places] == rows[end]:
                break
            end += 1
        read, at, left = 0, start + row * size, (end - k) * size
        while read < left:
            into = pointer(address + k * size + read)
            count = _pread(np.int32(file), into, np.uint64(left - read), np.int64(at + read))
            if count <= 0:
                return k + read // size
            read += count
        if places:
            for each in range(k, end):
                tags[rows[each] % places] = rows[each]
                kept[rows[each] % places] = out[each]
        k = end
    return len(rows)
