"""Functions that sort any number of entries into rows on the disk, with a given amount of memory.

    entries, in any order  ->  one file for each bucket of rows  ->  each bucket sorted and merged

The result has the same rows as the graph that `plancc.graph.canonical.build_graph` makes in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from plancc.errors import OutputError
from plancc.graph.canonical import BOTH_WAYS, MERGED, ZEROS, as_values, check_finite
from plancc.graph.csr import write_head
from plancc.graph.edge_weights import WeightRange
from plancc.graph.graph import Source, check_range
from plancc.graph.kernels import mirror_sum
from plancc.graph.union import Entries

BUCKETS = 256
"""Number of files that entries are distributed to first."""
BYTES_PER_ENTRY = 64
"""Bytes of memory that an entry takes while its bucket is sorted."""
LEAST_ENTRIES = 1 << 16
"""Least number of entries that are sorted together, however small the memory is."""


class Entrywise(Protocol):
    """A source of a graph's entries, which are read chunk by chunk, any number of times.

    Attributes:
        most: Upper bound on the number of entries.
        directed: Whether the graph is directed; None if the source does not say.
        source: Name and format of the file or object that holds the graph, without a hash.
    """

    num_vertices: int
    most: int
    weighted: bool
    directed: bool | None
    original_ids: npt.NDArray[Any] | None
    source: Source

    def __iter__(self) -> Iterator[Entries]: ...


def convert(
    source: Entrywise,
    folder: Path,
    memory: int,
    *,
    pattern: bool = False,
    symmetrize: bool = False,
    transpose: bool = False,
) -> int:
    """Write a source as compressed rows (`plancc.graph.csr`); return the number of nonzeros.

    The empty `folder` also holds temporary files. OutputError is raised, before anything is
    written, if the disk has too little room.
    """
    mirrored = symmetrize and source.directed is not False
    weighted = source.weighted and not pattern
    _check_room(folder, source.most * (2 if mirrored else 1), weighted)

    n, name, found = source.num_vertices, source.source.name, WeightRange(source.source.weights)
    loops, has_loop = 0, np.zeros(n, bool)

    def entries() -> Iterator[Entries]:
        nonlocal loops
        for row, col, values in source:
            ends = (col, row) if transpose else (row, col)
            if weighted and values is not None and len(values):
                found.add(values)
            yield *ends, values if weighted else None
            own = row[row == col]
            loops += len(own)
            has_loop[own] = True

    if mirrored:
        # after the merge a sum has at most two terms, so A[i, j] == A[j, i] exactly
        between = folder / "merged"
        between.mkdir()
        repeated, _, _ = _sort(entries(), n, weighted, between, memory, name, drop_zeros=False)
        added, zeros, both = _sort(_mirrored(between), n, weighted, folder, memory, name)
        one_way = both - len(np.load(between / "indices.npy", mmap_mode="r"))
        shutil.rmtree(between)
    else:
        repeated, zeros, _ = _sort(entries(), n, weighted, folder, memory, name)
        added = one_way = 0
        if source.directed is False:  # a line off the diagonal made two entries: count it once
            repeated = (repeated + loops - int(np.count_nonzero(has_loop))) // 2
    if source.original_ids is not None:
        np.save(folder / "original_ids.npy", source.original_ids)
    made_of = replace(source.source, weights="", weight_range="")
    if weighted:
        made_of = found.described(source.source, repeated)
        made_of = made_of.counting(BOTH_WAYS, added, f" of {one_way:,}")
    made_of = made_of.counting(ZEROS if weighted else MERGED, zeros if weighted else repeated)
    indices = np.load(folder / "indices.npy", mmap_mode="r")
    directed = False if symmetrize else source.directed
    if directed is None:
        indptr = np.load(folder / "indptr.npy")
        directed = bool(mirror_sum(0, indptr, np.asarray(indices)))
    write_head(folder, directed, made_of)
    return len(indices)


def _check_room(folder: Path, most: int, weighted: bool) -> None:
    """Raise OutputError if the disk of `folder` has too little room to sort `most` entries."""
    wanted = most * (28 if weighted else 12)
    free = shutil.disk_usage(folder).free
    if wanted > free:
        told = f"sorting about {most:,} entries takes {wanted / 2**30:,.1f} GiB of the disk"
        room = f"{free / 2**30:,.1f} GiB are free"
        raise OutputError(f"cannot write {folder.parent}: {told}, but only {room}")


def _mirrored(folder: Path) -> Iterator[Entries]:
    """Yield the entries of the rows in `folder`, then the transposes of off-diagonal entries."""
    indptr = np.load(folder / "indptr.npy")
    indices = np.load(folder / "indices.npy", mmap_mode="r")
    held = folder / "values.npy"
    values = np.load(held, mmap_mode="r") if held.exists() else None
    step = 1 << 20
    for turned in (False, True):
        for start in range(0, len(indices), step):
            at = np.arange(start, min(start + step, len(indices)))
            row = (np.searchsorted(indptr, at, side="right") - 1).astype(np.int32)
            col = np.asarray(indices[start : start + step])
            some = None if values is None else np.asarray(values[start : start + step])
            if turned:
                off = row != col
                row, col = col[off], row[off]
                some = None if some is None else some[off]
            yield row, col, some


def _sort(
    entries: Iterable[Entries],
    num_rows: int,
    weighted: bool,
    folder: Path,
    memory: int,
    name: str,
    *,
    drop_zeros: bool = True,
) -> tuple[int, int, int]:
    """Write entries, sorted, as ``indptr.npy``, ``indices.npy`` and ``values.npy`` in `folder`.

    Returns the numbers of repeated entries (merged), of zeros (left out), and of given entries.
    """
    width = -(-num_rows // BUCKETS)
    fields = [("row", "<i4"), ("col", "<i4"), ("value", "<f8")]
    kind = np.dtype(fields if weighted else fields[:2])
    with ExitStack() as stack:
        files: dict[int, BinaryIO] = {}
        for row, col, values in entries:
            check_range(row, num_rows, name)
            check_range(col, num_rows, name)
            chunk = np.empty(len(row), kind)
            chunk["row"], chunk["col"] = row, col
            if weighted:
                assert values is not None
                chunk["value"] = as_values(values, name)
            bucket = chunk["row"] // width
            by_bucket = np.argsort(bucket, kind="stable")
            ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
            chunk = chunk[by_bucket]
            for k in np.unique(bucket).tolist():
                if k not in files:
                    files[k] = stack.enter_context(open(folder / f"bucket{k}", "wb"))
                files[k].write(chunk[ends[k - 1] if k else 0 : ends[k]].tobytes())
    together = max(LEAST_ENTRIES, memory // BYTES_PER_ENTRY)
    sizes, repeated, zeros, given = np.zeros(num_rows, np.int64), 0, 0, 0
    with ExitStack() as stack:
        columns = stack.enter_context(_Growing(folder / "indices.npy", "<i4"))
        if weighted:
            numbers = stack.enter_context(_Growing(folder / "values.npy", "<f8"))
        for k in sorted(files):
            path, first, last = folder / f"bucket{k}", k * width, min((k + 1) * width, num_rows)
            for start, end, chunk in _pieces(path, kind, first, last, together):
                matrix = _merged(chunk, start, end, num_rows)
                given += len(chunk)
                repeated += len(chunk) - matrix.nnz
                if weighted:
                    check_finite(matrix.data, name)
                if weighted and drop_zeros:
                    zeros += matrix.nnz
                    matrix.eliminate_zeros()
                    zeros -= matrix.nnz
                sizes[start:end] = np.diff(matrix.indptr)
                columns.write(matrix.indices)
                if weighted:
                    numbers.write(matrix.data)
            path.unlink()
    np.save(folder / "indptr.npy", np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    return repeated, zeros, given


def _pieces(
    path: Path, kind: np.dtype[Any], first: int, last: int, together: int
) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
    """Yield ranges of a bucket's rows, each with first row, last row + 1 and entries.

    A bucket is a file with the entries of rows ``first..last-1``, in any order. A bucket with more
    than `together` entries has several ranges.
    """
    every: Any = np.memmap(path, kind, "r")
    ranges = min(-(-len(every) // together), last - first)
    bounds = np.linspace(first, last, ranges + 1).astype(np.int64).tolist()
    for start, end in pairwise(bounds):
        yield start, end, every[(every["row"] >= start) & (every["row"] < end)]


def _merged(chunk: npt.NDArray[Any], start: int, end: int, num_columns: int) -> Any:
    """Return the scipy CSR matrix of rows start..end-1; repeated entries are summed."""
    from scipy.sparse import coo_array

    weighted = "value" in (chunk.dtype.names or ())
    data = chunk["value"] if weighted else np.ones(len(chunk), np.int8)
    places = (chunk["row"] - np.int32(start), chunk["col"])
    return coo_array((data, places), shape=(end - start, num_columns)).tocsr()


class _Growing:
    """An .npy file of one dimension that is written piece by piece."""

    def __init__(self, path: Path, kind: str) -> None:
        self._kind, self._length = np.dtype(kind), 0
        self._stream = open(path, "w+b")  # noqa: SIM115  closed by __exit__
        self._head()

    def _head(self) -> None:
        """Write the header, which has the same size for every length because numpy pads it."""
        shape: Any = {"descr": self._kind.str, "fortran_order": False, "shape": (self._length,)}
        self._stream.seek(0)
        np.lib.format.write_array_header_1_0(self._stream, shape)

    def write(self, array: npt.NDArray[Any]) -> None:
        self._stream.write(np.ascontiguousarray(array, self._kind).tobytes())
        self._length += len(array)

    def __enter__(self) -> _Growing:
        return self

    def __exit__(self, *_: object) -> None:
        self._head()
        self._stream.close()
