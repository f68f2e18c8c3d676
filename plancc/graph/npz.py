"""Matrices in ``.npz`` files: files of scipy.sparse.save_npz, and plain archives.

A plain archive holds ``indptr``, ``indices`` and ``num_nodes``, where row i needs the rows
``indices[indptr[i]:indptr[i + 1]]``. Or it holds ``edge_index``, sources and targets as in PyTorch
Geometric, with or without ``num_nodes``. Pickled objects are never loaded.
"""

from __future__ import annotations

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import PARSING, StrPath, open_file
from plancc.graph.bounds import check_unpacked
from plancc.graph.canonical import (
    as_values,
    build_graph,
    check_edge_index,
    detect_direction,
    graph_of_rows,
)
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, as_offsets, check_num_vertices, check_range
from plancc.graph.textfile import check_readable
from plancc.graph.union import rectangular
from plancc.text import shown

Array = npt.NDArray[Any]
_MAGIC = b"\x93NUMPY"
HOLDS = " holds '{}',"
_RAISED = (ValueError, OSError, EOFError, MemoryError, NotImplementedError, RuntimeError,
           zlib.error, zipfile.BadZipFile, SyntaxError, RecursionError, OverflowError, TypeError,
           KeyError, struct.error, tokenize.TokenError)  # fmt: skip
"""Exceptions that numpy and zipfile raise for damaged files."""
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def claimed_bytes(stream: IO[bytes]) -> int:
    """Return the size in bytes that the header of an .npy stream declares; 0 for other streams."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        return 0
    version = stream.read(2)
    read = _HEADERS.get((version[0], version[1]) if len(version) == 2 else (0, 0))
    if read is None:
        raise ValueError("the version of its header is unknown")
    shape, _, dtype = read(stream)
    return math.prod(shape) * dtype.itemsize


def check_integers(array: Array, where: str) -> npt.NDArray[np.integer]:
    """Return the array; raise InputError unless it has one axis, and holds integers."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        what = f"'{array.dtype}' of shape {array.shape}"
        raise InputError(f"{where} must be a list of integers, not {what}")
    return array


class Archive(Mapping[str, Array]):
    """An .npz file; an array is read each time it is used, and errors name the file and the key."""

    def __init__(self, path: StrPath) -> None:
        check_readable(path)
        self.name = os.fspath(path)
        self._stream = open_file(path)
        try:
            file = np.load(self._stream, allow_pickle=False)
        except _RAISED as error:
            # numpy raises ValueError for a file that is neither zip nor npy: it expects a pickle
            why = "" if isinstance(error, ValueError) else f" ({shown(error)})"
            raise InputError(f"{self.name}: is not an .npz archive{why}") from error
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise InputError(f"{self.name}: is a single numpy array, not an .npz archive")
        self._file = file

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()

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
            check_unpacked(self._claimed(key), self.name, f"{self.name}: key '{key}'")
            value = self._file[key]
        except _RAISED as error:
            why = f"cannot be read ({shown(error)})"
            if "allow_pickle" in str(error):
                why = "holds Python objects, which are not loaded; save numbers, as "
                why += "array.astype(np.float32)"
            raise InputError(f"{self.name}: key '{key}' {why}") from error
        if not isinstance(value, np.ndarray):
            raise InputError(f"{self.name}: key '{key}' is not a numpy array")
        return value

    def _claimed(self, key: str) -> int:
        """Return an array's size in bytes: the larger of the archive's and the header's number."""
        archive = self._file.zip
        assert archive is not None
        info = archive.getinfo(key if key in archive.NameToInfo else f"{key}.npy")
        with archive.open(info) as stream:
            return max(info.file_size, claimed_bytes(stream))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the array of this name, or `default` if the archive has none."""
        if key not in self:
            return default
        return self[key]

    def integers(self, key: str, length: int | None = None) -> npt.NDArray[np.integer]:
        """Return the array `key` of `length` integers (None: any number), or raise InputError."""
        value = check_integers(self[key], f"{self.name}: key '{key}'")
        if length is not None and len(value) != length:
            rule = f"must have {length} entries, not '{len(value)}'"
            raise InputError(f"{self.name}: key '{key}' {rule}")
        return value

    def offsets(self, key: str, count: int, end: int) -> npt.NDArray[np.int64]:
        """Return the array `key`, int64[count + 1]; check that it ascends from 0 to `end`."""
        return as_offsets(self.integers(key, count + 1), end, f"{self.name}: key '{key}'")

    def indices(self, key: str, bound: int) -> npt.NDArray[np.integer]:
        """Return the array `key` of integers.

        Raise InputError if a number is outside 0..bound-1.
        """
        value = self.integers(key)
        check_range(value, bound, f"{self.name}: key '{key}'", HOLDS)
        return value


def map_array(path: StrPath) -> Array:
    """Map the array of an .npy file, read in pages on use; changes do not reach the file."""
    check_readable(path)
    name = os.fspath(path)
    try:
        with PARSING:
            return np.asarray(np.load(name, mmap_mode="c", allow_pickle=False))
    except _RAISED as error:
        raise InputError(f"{name}: is not an .npy array ({shown(error)})") from error


def read_npz_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> Archive:
    """Return the arrays of an archive; the caller applies `split` and `keys`."""
    return Archive(path)


def read_npz(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """Read a sparse matrix from an .npz of ``scipy.sparse.save_npz``, or from a plain archive.

    Boolean matrices are read without values. The graph is undirected if its pattern is symmetric. A
    rectangular matrix is a graph of two vertex types (`plancc.graph.union.rectangular`).
    """
    source = Source.of_file(path, "npz", "'data'")
    reading: dict[str, Any] = {"transpose": transpose, "symmetrize": symmetrize, "source": source}
    with Archive(path) as archive:
        found = _entries_of(archive, pattern)
    if found.shape[0] != found.shape[1]:
        return rectangular(found.shape, (found.row, found.column, found.values), **reading)
    n = found.shape[0]
    if found.indptr is not None:
        graph = graph_of_rows(n, found.indptr, found.column, found.values, **reading)
    else:
        graph = build_graph(n, found.row, found.column, found.values, **reading)
    return detect_direction(graph)


class _ArchiveEntries(NamedTuple):
    """The entries of an archive.

    Attributes:
        shape: Number of rows, and number of columns.
        indptr (int64[rows + 1] or None): Offsets; None if rows are not compressed.
        place (int[entries] or None): Row of every entry; None if rows are compressed.
    """

    shape: tuple[int, int]
    indptr: Array | None
    place: Array | None
    column: Array
    values: Array | None

    @property
    def row(self) -> Array:
        """Row of every entry, int[entries]."""
        if self.place is not None:
            return self.place
        assert self.indptr is not None
        return _row_of(self.indptr)


def _entries_of(archive: Archive, pattern: bool) -> _ArchiveEntries:
    """Return the entries of an archive of scipy or of graph arrays, without values if `pattern`."""
    name = archive.name
    if "format" in archive:
        return _scipy_entries(archive, pattern)
    if {"indptr", "indices", "num_nodes"} <= set(archive):
        n = _num_nodes(archive)
        indptr, column = _compressed(archive, n, n)
        return _ArchiveEntries((n, n), indptr, None, column, None)
    if "edge_index" not in archive:
        raise InputError(
            f"{name}: is neither a scipy.sparse.save_npz file nor an archive with the keys "
            f"'indptr', 'indices', 'num_nodes' or 'edge_index'; it has '{', '.join(archive)}'"
        )
    column, row = check_edge_index(archive["edge_index"], name)
    if "num_nodes" in archive:
        n = _num_nodes(archive)
    else:
        n = int(max(column.max(initial=-1), row.max(initial=-1))) + 1
        check_num_vertices(n, name)
    for ends in (column, row):
        check_range(ends, n, f"{name}: key 'edge_index'", HOLDS)
    return _ArchiveEntries((n, n), None, row, column, None)


def _scipy_entries(archive: Archive, pattern: bool) -> _ArchiveEntries:
    """Return the entries of a file of scipy.sparse.save_npz, in the file's order."""
    name, held = archive.name, archive["format"]
    given: Any = held.item() if held.ndim == 0 else b""
    layout = given.decode("latin-1") if isinstance(given, bytes) else str(given)
    if layout not in ("csr", "csc", "coo"):
        raise InputError(f"{name}: the format is '{layout}'; save matrix.tocsr() instead")
    rows, columns = archive.integers("shape", 2).tolist()
    for n in (rows, columns, rows + columns if rows != columns else rows):
        check_num_vertices(n, name)
    values, indptr, row = archive["data"], None, None
    if layout == "coo":
        row, column = archive.indices("row", rows), archive.indices("col", columns)
    elif layout == "csc":  # keep the file's order, in which edge features are listed
        offsets, row = _compressed(archive, columns, rows)
        column = _row_of(offsets)
    else:
        indptr, column = _compressed(archive, rows, columns)
    of_rows = column if row is None else row
    if not values.ndim == 1 or not len(of_rows) == len(column) == len(values):
        raise InputError(f"{name}: key 'data' must have one value per nonzero")
    found = _ArchiveEntries((rows, columns), indptr, row, column, None)
    if values.dtype == np.bool_ and not pattern and not values.all():
        return found._replace(indptr=None, place=found.row[values], column=column[values])
    if pattern or values.dtype == np.bool_:
        return found
    return found._replace(values=as_values(values, name))


def _num_nodes(archive: Archive) -> int:
    size = archive["num_nodes"]
    if size.size != 1 or size.dtype.kind not in "iu":
        raise InputError(f"{archive.name}: key 'num_nodes' must be one integer")
    n = int(size.reshape(-1)[0])
    check_num_vertices(n, archive.name)
    return n


def _compressed(archive: Archive, major: int, bound: int) -> tuple[Array, Array]:
    """Return offsets and indices of the `major` rows (CSR) or columns (CSC); indices < `bound`."""
    minor = archive.indices("indices", bound)
    return archive.offsets("indptr", major, len(minor)), minor


def _row_of(ptr: Array) -> Array:
    """Return the row of every entry of compressed rows, int32[entries]."""
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))


FORMAT = Format(
    (".npz",),
    read_npz,
    gzip=False,
    read_data=read_npz_data,
    what="scipy.sparse.save_npz, and plain CSR archives",
)
