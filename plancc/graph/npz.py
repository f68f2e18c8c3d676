"""Matrices in ``.npz``: what scipy.sparse.save_npz writes, and plain CSR archives.

A plain archive holds ``indptr``, ``indices`` and ``num_nodes``: row i needs the rows
``indices[indptr[i]:indptr[i + 1]]``. Pickled objects are never loaded.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.canonical import as_values, build_graph, detect_direction
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, check_num_vertices, check_square
from plancc.graph.textfile import StrPath, check_readable

Array = npt.NDArray[Any]


class Archive(Mapping[str, Array]):
    """An .npz file whose arrays are read at first use, with errors that name file and key."""

    def __init__(self, path: StrPath) -> None:
        check_readable(path)
        self.name = os.fspath(path)
        try:
            file = np.load(self.name, allow_pickle=False)
        except ValueError as error:  # neither zip nor npy: numpy takes it for a pickle
            raise InputError(f"{self.name}: not an .npz archive") from error
        except (OSError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{self.name}: not an .npz archive ({error})") from error
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise InputError(f"{self.name}: a single numpy array, not an .npz archive")
        self._file = file

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.files)

    def __len__(self) -> int:
        return len(self._file.files)

    def __contains__(self, key: object) -> bool:
        return key in self._file.files

    def __getitem__(self, key: str) -> Array:
        if key not in self._file.files:
            raise InputError(f"{self.name}: key '{key}' is missing")
        try:
            value = self._file[key]
        except (ValueError, OSError, EOFError, MemoryError, NotImplementedError, zlib.error,
                zipfile.BadZipFile, SyntaxError) as error:  # fmt: skip
            raise InputError(f"{self.name}: key '{key}' cannot be read ({error})") from error
        if not isinstance(value, np.ndarray):
            raise InputError(f"{self.name}: key '{key}' is not a numpy array")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The array, or `default` where the archive has none of this name."""
        if key not in self:
            return default
        return self[key]

    def integers(self, key: str, length: int | None = None) -> npt.NDArray[np.integer]:
        """A one-dimensional array of integers, of `length` if given."""
        value = self[key]
        if value.ndim != 1 or value.dtype.kind not in "iu":
            raise InputError(
                f"{self.name}: key '{key}' must be a list of integers, not {value.dtype} of shape "
                f"{value.shape}"
            )
        if length is not None and len(value) != length:
            raise InputError(
                f"{self.name}: key '{key}' must have {length} entries, not '{len(value)}'"
            )
        return value

    def pointers(self, key: str, count: int, end: int) -> npt.NDArray[np.integer]:
        """CSR offsets: `count` + 1 integers from 0 to `end`, never decreasing."""
        value = self.integers(key, count + 1).astype(np.int64, copy=False)
        if value[0] != 0 or value[-1] != end or (np.diff(value) < 0).any():
            raise InputError(f"{self.name}: key '{key}' does not ascend from 0 to {end}")
        return value

    def indices(self, key: str, bound: int) -> npt.NDArray[np.integer]:
        """Integers in 0..bound-1."""
        value = self.integers(key)
        if len(value) and (value.min() < 0 or value.max() >= bound):
            bad = value[(value < 0) | (value >= bound)][0]
            raise InputError(f"{self.name}: key '{key}' holds '{bad}', out of range 0..{bound - 1}")
        return value


def read_array(path: StrPath) -> Array:
    """The array of an .npy file, no pickled objects; InputError names the file."""
    check_readable(path)
    name = os.fspath(path)
    try:
        array = np.load(name, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError, SyntaxError) as error:
        raise InputError(f"{name}: not an .npy array ({_line(error)})") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{name}: an .npz archive, not a single .npy array")
    return array


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def read_npz_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> Archive:
    """The arrays of an archive; `split` and `keys` are looked up by the caller."""
    return Archive(path)


def read_npz(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """Read a sparse matrix from .npz.

    Either a file of ``scipy.sparse.save_npz`` (csr, csc or coo; boolean matrices have no values)
    or an archive with ``indptr``, ``indices``, ``num_nodes`` (no values; other keys are ignored).
    The graph is undirected if and only if its pattern is symmetric.

    Parameters
    ----------
    path, pattern, symmetrize, transpose
        As in `plancc.graph.formats.read_graph`.

    Raises
    ------
    InputError
        For a damaged archive, pickled objects, missing keys, offsets or indices out of range, a
        matrix that is not square, complex, NaN or infinity; the message names file, key, value.
    """
    with Archive(path) as archive:
        name = archive.name
        values: Array | None = None
        if "format" in archive:
            layout = archive["format"].item() if archive["format"].ndim == 0 else b""
            layout = layout.decode("latin-1") if isinstance(layout, bytes) else str(layout)
            if layout not in ("csr", "csc", "coo"):
                raise InputError(f"{name}: sparse format '{layout}'; csr, csc and coo can be read")
            shape = archive.integers("shape").tolist()
            check_square(shape, name)
            n = shape[0]
            check_num_vertices(n, name)
            values = archive["data"]
            if layout == "coo":
                row, col = archive.indices("row", n), archive.indices("col", n)
            else:
                row, col = _compressed(archive, n)
                if layout == "csc":
                    row, col = col, row
            if not values.ndim == 1 or not len(row) == len(col) == len(values):
                raise InputError(f"{name}: key 'data' must have one value per nonzero")
            if pattern or values.dtype == np.bool_:
                if values.dtype == np.bool_ and not pattern:
                    row, col = row[values], col[values]
                values = None
            else:
                values = as_values(values, name)
        elif {"indptr", "indices", "num_nodes"} <= set(archive):
            size = archive["num_nodes"]
            if size.size != 1 or size.dtype.kind not in "iu":
                raise InputError(f"{name}: key 'num_nodes' must be one integer")
            n = int(size.reshape(-1)[0])
            check_num_vertices(n, name)
            row, col = _compressed(archive, n)
        else:
            raise InputError(
                f"{name}: neither a scipy.sparse.save_npz file nor an archive with the keys "
                f"'indptr', 'indices', 'num_nodes'; it has '{', '.join(archive)}'"
            )
    source = Source.of_file(path, "npz")
    return detect_direction(
        build_graph(n, row, col, values, symmetrize=symmetrize, transpose=transpose, source=source)
    )


def _compressed(
    archive: Archive, n: int
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    minor = archive.indices("indices", n)
    ptr = archive.pointers("indptr", n, len(minor))
    return np.repeat(np.arange(n, dtype=np.int32), np.diff(ptr)), minor


FORMAT = Format(
    (".npz",),
    read_npz,
    gzip=False,
    read_data=read_npz_data,
    what="scipy.sparse.save_npz, and plain CSR archives",
)
