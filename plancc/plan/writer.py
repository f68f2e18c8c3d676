"""Plan to HDF5."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any

import h5py
import numpy.typing as npt

from plancc.files import atomic_write
from plancc.plan.attributes import digest_of_attributes, stored, write_attributes
from plancc.plan.digests import Digests, digests_of_plan, root_of
from plancc.plan.format import (
    DIGESTS,
    FORMAT,
    FORMAT_VERSION,
    PIECES,
    Arrays,
    header_attributes,
)
from plancc.plan.pieces import former_pieces, remove_pieces
from plancc.plan.values import Header

CHUNK_BYTES = 1 << 19
"""Size of an HDF5 chunk, in compressed files."""
CHUNKS_PER_WRITE = 64
"""Sizes of a chunk written between two checks for an interrupt."""
LIBVER = "v110"
"""HDF5 1.10, from 2016: the first whose structures in the file all have checksums of their own."""


def write_file(
    path: str | PathLike[str],
    header: Header,
    arrays: Arrays,
    attributes: Mapping[str, Mapping[str, Any]],
    *,
    compress: bool,
    known: tuple[Mapping[str, Digests], str] | None = None,
    more: Mapping[str, Any] | None = None,
    first: Callable[[], None] = lambda: None,
) -> str:
    """Write a plan file and return its content hash; see `plancc.plan.plan.Plan.save`.

    If the file that is replaced was a plan in pieces, these are removed.

    Parameters:
        arrays: Datasets by their names in the file.
        attributes: Attributes of every group in `plancc.plan.format.ATTRIBUTE_GROUPS`.
        known: Digests and content hash; None: those of the arrays.
        more: Attributes of the root that do not enter the content hash.
        first: Called when the file is complete, right before it gets its name.
    """
    former: list[Path | None] = []

    def last_moment() -> None:
        """Another writer of the plan may have come first; so this is as late as can be."""
        first()
        former.append(former_pieces(path))

    with atomic_write(path, first=last_moment) as temporary, ThreadPoolExecutor(2) as pool:

        def hashes() -> tuple[Mapping[str, Digests], str]:
            leaves = digests_of_plan(arrays)
            return leaves, root_of(header_attributes(header), leaves, arrays)

        hashed = pool.submit((lambda: known) if known is not None else hashes)
        stream = Stream(temporary, "r+")
        root = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **header_attributes(header),
            **(more or {}),
        }
        written = pool.submit(_write, stream, root, arrays, attributes, compress, hashed.result)
        try:
            written.result()
        except BaseException as error:  # Ctrl-C, which Python raises in the main thread only
            stream.stop(error)
            raise
    for folder in former:
        if folder is not None and folder.name != (more or {}).get(PIECES):
            remove_pieces(path, folder)
    return written.result()


class Stream(io.FileIO):
    """A file for HDF5 that fails afterwards.

    HDF5 crashes at the end of the process after a failed write. Hence this file keeps an error,
    drops everything after it, and `check` raises it.
    """

    _error: BaseException | None = None

    def stop(self, error: BaseException) -> None:
        self._error = self._error or error

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while len(rest) and self._error is None:
                rest = rest[super().write(rest) or 0 :]
        except OSError as error:
            self.stop(error)
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.stop(error)
        return size or 0


def _write(
    stream: Stream,
    root: Mapping[str, Any],
    arrays: Arrays,
    attributes: Mapping[str, Mapping[str, Any]],
    compress: bool,
    hashed: Callable[[], tuple[Mapping[str, Digests], str]],
) -> str:
    try:
        with h5py.File(stream, "w", libver=(LIBVER, LIBVER)) as file:
            write_attributes(file, root)
            of_attributes: dict[str, Digests] = {}
            for group, values in attributes.items():
                write_attributes(file.create_group(group), values)
                of_attributes[group] = digest_of_attributes(
                    stored(file[group], name) for name in values
                )
            for name, array in arrays.items():
                write_array(file, name, array, compress, stream.check)
            leaves, content = hashed()
            for name, array in {**leaves, **of_attributes}.items():
                write_array(file, f"{DIGESTS}/{name}", array, False, stream.check)
            write_attributes(file, {"content_sha256": content})
    finally:
        stream.close()
        stream.check()  # HDF5 may say anything after a failed write
    return content


def write_array(
    file: h5py.File,
    name: str,
    array: npt.NDArray[Any],
    compress: bool,
    check: Callable[[], None],
) -> None:
    """Write a dataset piece by piece; `check` raises where writing has failed.

    `array` may be anything with its `shape`, `dtype`, `size`, `nbytes` and slices.
    """
    dtype = array.dtype
    if dtype.kind == "S":
        dtype = h5py.string_dtype("utf-8", dtype.itemsize)
    if array.size == 0:  # HDF5 has no chunks of nothing
        file.create_dataset(name, shape=array.shape, dtype=dtype, track_times=False)
        return
    row_bytes = max(1, array.nbytes // len(array))
    chunk_rows = min(len(array), max(1, CHUNK_BYTES // row_bytes))
    storage: dict[str, Any] = {}
    if compress:
        chunks = (chunk_rows, *array.shape[1:])
        storage = {"chunks": chunks, "shuffle": True, "compression": "gzip", "compression_opts": 4}
    dataset = file.create_dataset(
        name, shape=array.shape, dtype=dtype, track_times=False, **storage
    )
    step = chunk_rows * CHUNKS_PER_WRITE
    for start in range(0, len(array), step):
        check()
        dataset[start : start + step] = array[start : start + step].view(dtype)
