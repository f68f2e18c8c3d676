"""Arrays whose content is in a file, mapped into memory."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

FLOAT32 = np.dtype(np.float32)
KEPT = (FLOAT32, np.dtype(np.float16), np.dtype(np.int8))
"""Types of features that stay as they are; others become float32."""


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
    """Rows of a mapped matrix in the type of `feature_type`, read when they are looked at.

    ``rows[key]`` is an array of the rows that a slice, or numbers of rows, name; numpy's functions
    take it as the whole matrix, which is made in memory for them.

    Parameters:
        source (number[m, width]): Mapped; of any type of numbers.
        order (int[num_rows], optional): Which of its rows these are; None: all.
    """

    ndim = 2

    def __init__(
        self, source: npt.NDArray[Any], order: npt.NDArray[np.integer] | None = None
    ) -> None:
        self._source, self._order = source, order
        self.dtype = feature_type(source.dtype.newbyteorder("="))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._source.shape[1]

    @property
    def size(self) -> int:
        return len(self) * self._source.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix, as an array."""
        return self.dtype.itemsize * self.size

    def __len__(self) -> int:
        return len(self._source if self._order is None else self._order)

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        if isinstance(key, tuple) or np.ndim(key) > 1:
            return self[:][key]
        rows = self._source[key if self._order is None else self._order[key]]
        return np.ascontiguousarray(rows, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def take(self, order: npt.NDArray[np.integer]) -> MappedRows:
        """Reorder: row k of the result is row ``order[k]``."""
        return MappedRows(self._source, order if self._order is None else self._order[order])
