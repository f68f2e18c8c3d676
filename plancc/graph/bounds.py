"""Bounds on the memory that a reader may take; they grow with the size of the source in bytes.

A header can claim any size, and compressed data expand up to a thousand times. So readers compare a
claimed size with the size of the source before they take memory. `allow_large` removes the bounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from plancc.errors import InputError
from plancc.files import StrPath

VERTICES = 1 << 20
"""Number of vertices that a source of any size may have."""
VERTICES_PER_BYTE = 8
"""Number of vertices that every byte of a source adds to `VERTICES`."""
UNPACKED = 64 << 20
"""Bytes that the data of any file may take."""
UNPACKED_PER_BYTE = 200
"""Bytes that every byte of a file adds to `UNPACKED`."""
DENSE_PER_BYTE = 1000
"""Bytes that every byte of a file adds to `UNPACKED` if sparse features are made dense."""
CLASSES = 1024
"""Class numbers below this one are always allowed."""
CLASSES_PER_CLASS = 16
"""Each occurring class raises the bound of class numbers by this amount."""
CLUSTERS = 1024
"""Cluster numbers below this one are always allowed, and those below the number of vertices."""

_CURE = "if the number is right, read the source with `allow_large`"
_source: ContextVar[int | None] = ContextVar("bytes of the source that is read", default=None)
_large: ContextVar[bool] = ContextVar("whether sources may be large", default=False)


@contextmanager
def bounded(size: int, *, allow_large: bool = False) -> Iterator[None]:
    """Context in which `check_vertices` refuses graphs too large for a source of `size` bytes."""
    before = _source.set(size)
    try:
        with allowing(large=allow_large):
            yield
    finally:
        _source.reset(before)


@contextmanager
def allowing(*, large: bool) -> Iterator[None]:
    """Context manager: inside it, the checks of this module allow any size if `large` is true."""
    before = _large.set(large or _large.get())
    try:
        yield
    finally:
        _large.reset(before)


def large_allowed() -> bool:
    """Return whether this code runs in a context that sets no bounds on sizes."""
    return _large.get()


def largest(*paths: StrPath, per_byte: int = UNPACKED_PER_BYTE) -> int | None:
    """Return how many bytes the unpacked data of these files may have; None: any number."""
    return None if _large.get() else UNPACKED + per_byte * _size(paths)


def _size(paths: Iterable[StrPath]) -> int:
    return sum(os.path.getsize(path) for path in paths)


def check_unpacked(
    claimed: int, paths: StrPath | Sequence[StrPath], what: str, per_byte: int = UNPACKED_PER_BYTE
) -> None:
    """Raise InputError if `claimed`, bytes of data, is more than the sizes of the files allow."""
    paths = [paths] if isinstance(paths, str | os.PathLike) else paths
    most = largest(*paths, per_byte=per_byte)
    if most is not None and claimed > most:
        bound = f"a file of {_size(paths):,} bytes can only hold {most:,}"
        raise InputError(f"{what} takes {claimed:,} bytes, but {bound}; {_CURE}")


def check_vertices(num_vertices: int, where: str) -> None:
    """Raise InputError if a graph has more vertices than `bounded` allows.

    `where` names the source in the message.
    """
    size = _source.get()
    if size is None or _large.get():
        return
    if num_vertices > VERTICES + VERTICES_PER_BYTE * size:
        bound = f"the source has only {size:,} bytes"
        raise InputError(f"{where}: {num_vertices} vertices are too many: {bound}; {_CURE}")


def check_classes(largest_class: int, occurring: int, what: str) -> None:
    """Raise InputError if class numbers are far above the number of classes that occur.

    A network would have an output for every class number up to the largest.
    """
    if not _large.get() and largest_class >= CLASSES + CLASSES_PER_CLASS * occurring:
        told = f"a network would have an output for each of {largest_class + 1:,} classes"
        cure = "number the classes from 0, or read them with `allow_large`"
        raise InputError(
            f"{what} is '{largest_class}', but only {occurring:,} classes occur: {told}; {cure}"
        )


def max_clusters(num_vertices: int) -> int:
    """Return the bound on cluster ids of `num_vertices` vertices; every id must be below it."""
    return max(num_vertices, CLUSTERS)
