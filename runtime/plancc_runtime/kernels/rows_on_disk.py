"""Features that stay in the plan's file: a tensor whose rows are read when they are asked for."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from plancc.errors import PlanError
from plancc.graph.mapped import FileRows, MappedRows
from plancc_runtime.workspace import empty

ROWS = 1 << 13
"""Rows that are looked at at once."""
NEW = (torch.ops.aten.new_empty.default, torch.ops.aten.new_zeros.default)
"""Operations that take no more than the type of their tensor."""

Rows = range | npt.NDArray[np.int64]


class RowCache:
    """Rows of a file that are kept in memory, each in one place, as in a processor's cache.

    Attributes:
        tags (int64[places]): The row that is in each place; -1: none.
        rows (uint8[places, row bytes]): The rows.
    """

    def __init__(self, file: FileRows) -> None:
        self._file, self.lock = file, Lock()  # a thread may make the next batch
        self.resize(0)

    def resize(self, room: int) -> None:
        """Keep rows in at most `room` bytes, in place of what is kept."""
        self._places = min(max(0, room) // (self._file.row_bytes + 8), len(self._file))
        self.clear()

    def clear(self) -> None:
        """Keep no row, and take no memory before rows are read again."""
        places, size = self._places, self._file.row_bytes
        with self.lock:
            self.tags, self.rows = np.full(places, -1), np.empty((places, size), np.uint8)


class RowsOnDisk(Tensor):
    """Rows of a file, as a tensor without memory of its own.

    A slice of rows and `index_select` are of the same kind; `NEW` read nothing. Other operations of
    torch read all rows first, as `in_memory` does for kernels that work on addresses. Consecutive
    rows are read past the cache.

    Parameters:
        file (FileRows): A matrix.
        rows (range or int64[m]): Which of its rows these are.
        dtype (torch.dtype): Type of the tensor; the file's numbers are converted.
        cache (RowCache): Of the file.
    """

    cache: RowCache
    _file: FileRows
    _rows: Rows

    @staticmethod
    def __new__(cls, file: FileRows, rows: Rows, dtype: torch.dtype, cache: RowCache) -> RowsOnDisk:
        shape = (len(rows), file.shape[1])
        made: RowsOnDisk = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)
        return made

    def __init__(self, file: FileRows, rows: Rows, dtype: torch.dtype, cache: RowCache) -> None:
        self._file, self._rows, self.cache = file, rows, cache

    @classmethod
    def of(cls, rows: MappedRows, dtype: torch.dtype) -> RowsOnDisk:
        """All rows of a matrix in a file; nothing is kept yet."""
        file, order = rows.source, rows.order
        assert isinstance(file, FileRows)
        number = range(len(file)) if order is None else order.astype(np.int64)
        return cls(file, number, dtype, RowCache(file))

    def at(self, rows: slice | npt.NDArray[np.int64]) -> RowsOnDisk:
        """The same without other rows; nothing is read."""
        if isinstance(self._rows, range) and not isinstance(rows, slice):
            number: Any = rows + self._rows.start
        else:
            number = self._rows[rows]
        return RowsOnDisk(self._file, number, self.dtype, self.cache)

    def read(self) -> Tensor:
        """The rows in memory: Tensor[m, width].

        Raises:
            PlanError: If the file can no longer be read.
        """
        from plancc_runtime.kernels.row_cache import take_rows

        file, rows, cache = self._file, self._rows, self.cache
        like = torch.from_numpy(np.empty(0, file.dtype))
        found = empty(len(rows), file.shape[1], like)
        out = found.numpy()
        try:
            if isinstance(rows, range):
                file.read(rows.start, out)
            else:
                raw = out.view(np.uint8).reshape(len(rows), file.row_bytes)
                with cache.lock:
                    there = take_rows(file.file, file.start, rows, cache.tags, cache.rows, raw)
                if there < len(rows):  # says why, or goes on after an interruption
                    out[there:] = file[rows[there:]]
        except OSError as error:
            raise PlanError(f"features cannot be read from the plan any more: {error}") from error
        return found.to(self.dtype)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch types it as its own C function
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        x, aten = args[0], torch.ops.aten
        if isinstance(x, cls):
            if func is aten.slice.Tensor and args[1] == 0 and args[4:] in ((), (1,)):
                return x.at(slice(*args[2:4]))
            if func is aten.split.Tensor and len(args) == 2:
                firsts = range(0, max(len(x), 1), args[1])
                return [x.at(slice(first, first + args[1])) for first in firsts]
            if func is aten.index_select.default and args[1] == 0:
                return x.at(args[2].numpy())
            if func in (aten.detach.default, aten.alias.default):
                return x.at(slice(None))
            if func in NEW:
                return func(x.at(slice(0, 0)).read(), *args[1:], **(kwargs or {}))
        return func(*tree_map(in_memory, args), **tree_map(in_memory, kwargs or {}))


def in_memory(x: Any) -> Any:
    """The same tensor with memory of its own; anything else as it is."""
    return x.read() if isinstance(x, RowsOnDisk) else x


def is_finite(x: Tensor) -> bool:
    """Whether all numbers are finite, some rows at a time: no matrix is made of them."""
    if x.dim() < 2:
        return bool(x.isfinite().all())
    step = max(1, min(ROWS, ROWS * 64 // max(1, x.shape[1])))
    return all(bool(x[k : k + step].isfinite().all()) for k in range(0, len(x), step))
