"""Arrays whose content is in a file that is mapped into memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from plancc.graph.arrays import Array, IntArray

FLOAT32 = np.dtype(np.float32)
KEPT = (FLOAT32, np.dtype(np.float16), np.dtype(np.int8))
"""Types of features that stay as they are; others become float32."""
PIECE = 1 << 22
"""Numbers of a matrix that are read at once."""


def feature_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that features of a type are kept in."""
    return dtype if dtype in KEPT else FLOAT32


def is_mapped(array: Any) -> bool:
    """Whether the numbers of an array are those of a file."""
    while array is not None:
        if isinstance(array, MappedRows | mmap.mmap):
            return True
        array = getattr(array, "base", None)
    return False


class MappedRows:
    """Rows of a matrix in a file in the type of `feature_type`, read when they are looked at.

    ``rows[key]`` is an array of the rows that a slice, or numbers of rows, name; numpy's functions
    take it as the whole matrix, which is made in memory for them.

    Parameters:
        source (number[m, width]): Mapped, of any type of numbers.
        order (int[num_rows], optional): Which of its rows these are; None: all.
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
        """Bytes of the matrix, as an array."""
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
        """Reorder: row k of the result is row ``order[k]``."""
        return MappedRows(self.source, order if self.order is None else self.order[order])

    def pieces(self, start: int, stop: int) -> Iterator[Array]:
        """The rows ``start:stop``, at most `PIECE` numbers at a time."""
        step = max(1, PIECE // max(1, self.shape[1]))
        for first in range(start, stop, step):
            yield self[first : min(first + step, stop)]
