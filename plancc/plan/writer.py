"""Write a plan file in HDF5, either completely or with room for entries that follow later."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt

from plancc.files import StrPath, atomic_write
from plancc.plan.attributes import digest_of_attributes, stored, write_attributes
from plancc.plan.digests import Digests, digests_of_plan, root_of
from plancc.plan.format import DIGESTS, FORMAT, FORMAT_VERSION, Arrays, header_attributes
from plancc.plan.values import Header

CHUNK_BYTES = 1 << 19
"""Size of an HDF5 chunk, in compressed files."""
CHUNKS_PER_WRITE = 64
"""Number of chunks written between two checks for an interrupt."""
LIBVER = "v110"
"""HDF5 1.10, from 2016: the first version with checksums in all structures of a file."""
ALIGNED = {"alignment_threshold": 1, "alignment_interval": 8}
"""Datasets begin at multiples of 8 bytes, so that they can be mapped into memory."""


def write_file(
    path: StrPath,
    header: Header,
    arrays: Arrays,
    attributes: Mapping[str, Mapping[str, Any]],
    *,
    compress: bool,
) -> str:
    """Write a plan file and return its content hash; see `plancc.plan.plan.Plan.save`."""
    with atomic_write(path) as temporary, ThreadPoolExecutor(2) as pool:

        def hashes() -> tuple[Mapping[str, Digests], str]:
            leaves = digests_of_plan(arrays)
            return leaves, root_of(header_attributes(header), leaves, arrays)

        hashed = pool.submit(hashes)
        stream = Stream(temporary, "r+")
        try:
            work = pool.submit(_write, stream, header, arrays, attributes, compress, hashed.result)
            work.result()
        except BaseException as error:  # also Ctrl-C, which Python raises in the main thread only
            stream.stop(error)
            raise
    return hashed.result()[1]


class Reserved(NamedTuple):
    """Dtype and shape of a dataset whose entries are written later."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def reserve_file(
    path: StrPath,
    header: Header,
    datasets: Mapping[str, npt.NDArray[Any] | Reserved],
    attributes: Mapping[str, Mapping[str, Any]],
    leaves: Mapping[str, Digests],
    content: str,
) -> dict[str, int]:
    """Write a plan file in which the entries of reserved datasets are still missing.

    Returns, for each reserved dataset, the position in the file, in bytes, at which its entries
    begin; 0 if it has no entries. `path` is an empty file. `leaves` has, for each dataset that is
    not reserved, a digest of every part's entries. `content` is the hash of the complete plan.
    """
    known = leaves, content
    return _write(Stream(path, "r+"), header, datasets, attributes, False, lambda: known)


class Stream(io.FileIO):
    """A file to which HDF5 writes. It keeps the first write error until `check` raises the error.

    `write` always reports success, and drops data after an error: HDF5 crashes at the end of a
    process in which a write failed.
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
    header: Header,
    datasets: Mapping[str, npt.NDArray[Any] | Reserved],
    attributes: Mapping[str, Mapping[str, Any]],
    compress: bool,
    hashed: Callable[[], tuple[Mapping[str, Digests], str]],
) -> dict[str, int]:
    """Write a plan file without the entries of reserved datasets.

    For every reserved dataset, by name, return where in the file its entries belong: the offset of
    the first entry in bytes.
    """
    places = {}
    try:
        with h5py.File(stream, "w", libver=(LIBVER, LIBVER), **ALIGNED) as file:
            write_attributes(file, {"format": FORMAT, "format_version": FORMAT_VERSION})
            write_attributes(file, header_attributes(header))
            of_attributes: dict[str, Digests] = {}
            for group, values in attributes.items():
                write_attributes(file.create_group(group), values)
                of_attributes[group] = digest_of_attributes(
                    stored(file[group], name) for name in values
                )
            for name, array in datasets.items():
                if isinstance(array, Reserved):
                    places[name] = _reserve(file, name, array)
                else:
                    write_array(file, name, array, compress, stream.check)
            leaves, content = hashed()
            for name, array in {**leaves, **of_attributes}.items():
                write_array(file, f"{DIGESTS}/{name}", array, False, stream.check)
            write_attributes(file, {"content_sha256": content})
    finally:
        stream.close()
        stream.check()  # raise the first error; after a failed write, HDF5 may raise any other
    return places


def _reserve(file: h5py.File, name: str, kind: Reserved) -> int:
    """Allocate a dataset in the file without writing entries; return its first byte in the file."""
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    early.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    dtype = _stored_type(kind.dtype)
    dataset = file.create_dataset(name, kind.shape, dtype, track_times=False, dcpl=early)
    return int(dataset.id.get_offset() or 0)


def _stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype with which HDF5 stores an array. Strings are stored as UTF-8."""
    return h5py.string_dtype("utf-8", dtype.itemsize) if dtype.kind == "S" else dtype


def write_array(
    file: h5py.File, name: str, array: npt.NDArray[Any], compress: bool, check: Callable[[], None]
) -> None:
    """Write a dataset in pieces.

    `check` is called before each piece, and must raise an error if writing has failed. `array` may
    be any object with `shape`, `dtype`, `size`, `nbytes` and slices.
    """
    dtype = _stored_type(array.dtype)
    if array.size == 0:  # HDF5 has no empty chunks
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
