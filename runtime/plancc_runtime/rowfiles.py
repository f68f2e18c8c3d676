"""Files with one row per vertex, of numbers or short strings: CSV and .npz, written in pieces.

In a CSV, a matrix `probability` becomes the columns ``probability_0``, ``probability_1`` and so on.
Ids that are names (bytes in UTF-8) are written as text.
"""

from __future__ import annotations

import csv
import math
import os
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

import numpy as np

from plancc.errors import InputError, output_error
from plancc.files import StrPath, atomic_write
from plancc.text import shown

FORMATS = (".csv", ".npz")
LONGEST_NAME = 255
"""Largest number of characters of an array's name."""
TEXTS = 1 << 16
"""Largest number of numbers that are converted to text at a time."""

Arrays = Mapping[str, np.ndarray]


class Column(NamedTuple):
    """Dtype of an array, and shape of one of its rows."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def check_name(path: StrPath) -> None:
    """Raise InputError if a file name contains "{part}", or has no extension in `FORMATS`."""
    name = os.fspath(path)
    if _format(name) not in FORMATS:
        raise InputError(f"{name}: choose a name that ends in {', '.join(FORMATS)}")
    if "{part}" in name:
        raise InputError(f"{name}: rows of all ranks go to one file; leave out {{part}}")


def check_columns(path: str, columns: Mapping[str, Column]) -> None:
    """Raise InputError if the file cannot hold these arrays beside the ids."""
    for name, (dtype, shape) in columns.items():
        if not name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise InputError(
                f"{path}: '{shown(name, 40)}' is not a name for an array; choose a name "
                f"of 1 to {LONGEST_NAME} printable characters"
            )
        if _format(path) == ".npz" and ("/" in name or "\\" in name):  # names of files in it
            raise InputError(f"{path}: {name}: a name in an .npz cannot have / or \\; rename it")
        if dtype.kind not in "biufUS":
            raise InputError(f"{path}: {name} has dtype {dtype}; give real numbers")
        if _format(path) != ".npz" and len(shape) > 1:
            raise InputError(
                f"{path}: rows of {name} have shape {list(shape)}, but a row of a CSV has "
                "one dimension; choose .npz"
            )
    if _format(path) != ".npz":
        counts = Counter(["id", *_names(columns)])
        for name in (name for name, count in counts.items() if count > 1):
            raise InputError(f"{path}: two columns have the name {name}; rename one of them")


class RowFile(ABC):
    """A file that grows by blocks of rows; see `open_row_file`."""

    def __init__(
        self, path: str, temporary: str, columns: Mapping[str, Column], num_rows: int
    ) -> None:
        self._path, self._columns, self._num_rows = path, columns, num_rows

    @property
    def passes(self) -> Sequence[Sequence[str]]:
        """Return the names of the arrays to write in each pass over all rows.

        A pass writes all arrays or, for an .npz file, one array.
        """
        return [list(self._columns)]

    def write(self, block: Arrays) -> None:
        """Append the rows of `block`, arrays by name; raise OutputError if this is impossible."""
        try:
            self._write({name: _decoded(each) for name, each in block.items()})
        except OSError as error:
            raise output_error(self._path, error) from error

    @abstractmethod
    def _write(self, block: Arrays) -> None: ...

    def close(self) -> None:
        """Finish the file: write all data that are still in memory, and close it."""
        self._stream.close()

    _stream: IO[Any]


class CsvFile(RowFile):
    """CSV file with a header line; numbers have the fewest digits that keep their exact values."""

    def __init__(self, path: str, temporary: str, *how: Any) -> None:
        super().__init__(path, temporary, *how)
        self._stream = open(temporary, "w", encoding="utf-8", newline="")  # noqa: SIM115
        csv.writer(self._stream, lineterminator="\n").writerow(_names(self._columns))

    def _write(self, block: Arrays) -> None:
        arrays = [_flat_rows(a) for a in block.values()]
        step = max(1, TEXTS // max(1, sum(a.shape[1] for a in arrays)))
        for start in range(0, len(arrays[0]), step):
            texts = [_texts(a[start : start + step]) for a in arrays]
            lines = map(",".join, np.concatenate(texts, axis=1).tolist())
            self._stream.writelines(f"{line}\n" for line in lines)


class NpzFile(RowFile):
    """NumPy .npz file; it holds the arrays one after the other, uncompressed."""

    def __init__(self, path: str, temporary: str, *how: Any) -> None:
        super().__init__(path, temporary, *how)
        self._archive, self._name = zipfile.ZipFile(temporary, "w"), ""

    @property
    def passes(self) -> Sequence[Sequence[str]]:
        return [[name] for name in self._columns]

    def _write(self, block: Arrays) -> None:
        [(name, array)] = block.items()
        if name != self._name:
            if self._name:
                self._stream.close()
            self._name = name
            self._stream = self._archive.open(f"{name}.npy", "w", force_zip64=True)
            _write_header(self._stream, self._columns[name], self._num_rows)
        self._stream.write(number_bytes(array))

    def close(self) -> None:
        if self._name:
            self._stream.close()
        self._archive.close()


@contextmanager
def open_row_file(path: str, columns: Mapping[str, Column], num_rows: int) -> Iterator[RowFile]:
    """Context manager that opens a new file of rows, in the format that its extension names.

    If the ``with`` block ends with an error, no file is left. `num_rows` is the number of rows of
    all ranks.
    """
    kind = NpzFile if _format(path) == ".npz" else CsvFile
    texts = {
        name: Column(_decoded(np.empty(0, dtype)).dtype, shape)
        for name, (dtype, shape) in columns.items()
    }
    with atomic_write(path) as temporary:
        file = kind(path, os.fspath(temporary), texts, num_rows)
        try:
            yield file
        except BaseException:
            with suppress(OSError):
                file.close()
            raise
        file.close()


def number_bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, uint8[...]: a view, or a copy if it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _flat_rows(array: np.ndarray) -> np.ndarray:
    """Return the array as a matrix [rows, numbers per row], even if there are no rows."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _decoded(array: np.ndarray) -> np.ndarray:
    """Return an array of bytes as strings, and any other array unchanged."""
    if array.dtype.kind != "S":
        return array
    return np.char.decode(array, "utf-8", "replace").astype(f"U{array.dtype.itemsize}")


def _names(columns: Mapping[str, Column]) -> list[str]:
    """Return the names of the columns of a CSV, one for every number of a row."""
    return [
        name if not shape else f"{name}_{k}"
        for name, (_, shape) in columns.items()
        for k in range(math.prod(shape))
    ]


def _texts(array: np.ndarray) -> np.ndarray:
    texts = (array.astype(np.int8) if array.dtype.kind == "b" else array).astype(np.str_)
    if array.dtype.kind != "U":
        return texts
    quoted = np.any([np.char.find(texts, mark) >= 0 for mark in ',"\r\n'], axis=0)
    return np.where(
        quoted, np.char.add(np.char.add('"', np.char.replace(texts, '"', '""')), '"'), texts
    )


def _write_header(stream: IO[bytes], column: Column, num_rows: int) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(column.dtype),
        "fortran_order": False,
        "shape": (num_rows, *column.shape),
    }
    np.lib.format.write_array_header_1_0(stream, header)


def _format(path: str) -> str:
    return os.path.splitext(path)[1]
