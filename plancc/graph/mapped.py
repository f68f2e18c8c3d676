"""The class of a matrix in a file that is mapped into memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from plancc.graph.arrays import Array, IntArray

FLOAT32 = np.dtype(np.float32)
KEPT = (FLOAT32, np.dtype(np.float16), np.dtype(np.int8))
"""Types that features may have in a plan; features of other types become float32."""
PIECE = 1 << 22
"""Number of entries of a matrix that are read at a time."""


def feature_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that features have in a plan if they have `dtype` in the source."""
    return dtype if dtype in KEPT else FLOAT32


def is_mapped(array: Any) -> bool:
    """Whether an array is mapped from a file."""
    while array is not None:
        if isinstance(array, MappedRows | mmap.mmap):
            return True
        array = getattr(array, "base", None)
    return False


class MappedRows:
    """Rows of a memory-mapped matrix, which are read and converted to a plan's dtype on use.

    ``rows[key]`` returns an array of the rows at `key`: a slice or row numbers. NumPy's functions
    load the whole matrix.

    Parameters:
        order (int[num_rows], optional): Row of `source` for each row of this object; None: all
            rows.
    """

    ndim = 2

    def __init__(self, source: Array, order: IntArray | None = None) -> None:
        self.source, self.order = source, order
        self.dtype = feature_type(source.dtype.newbyteorder("="))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.source.shape[1]

    @property
    def size(self) -> int:
        return len(self) * self.source.shape[1]

    @property
    def nbytes(self) -> int:
        """Number of bytes that the whole matrix would take as an array in memory."""
        return self.dtype.itemsize * self.size

    def __len__(self) -> int:
        return len(self.source if self.order is None else self.order)

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, tuple) or np.ndim(key) > 1:
            return self[:][key]
        rows = self.source[key if self.order is None else self.order[key]]
        return np.ascontiguousarray(rows, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self[:].astype(dtype or self.dtype, copy=False)

    def take(self, order: IntArray) -> MappedRows:
        """Return the rows `order`: row k of the result is row ``order[k]``."""
        return MappedRows(self.source, order if self.order is None else self.order[order])

    def pieces(self, start: int, stop: int) -> Iterator[Array]:
        """Yield the rows ``start:stop`` in pieces of at most `PIECE` numbers."""
        step = max(1, PIECE // max(1, self.shape[1]))
        for first in range(start, stop, step):
            yield self[first : min(first + step, stop)]
