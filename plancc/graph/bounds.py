"""What reading a source may cost, by the bytes that the source has.

A header claims what it likes, and compressed data expand up to a thousand times. So a claim is
compared with the size of the source before memory is asked for: a source may have
`VERTICES_PER_BYTE` vertices for every byte, and data may become `UNPACKED_PER_BYTE` bytes for every
byte of their file (`DENSE_PER_BYTE` where sparse features are made dense). An amount that is always
allowed comes on top of both. `allow_large` lifts both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from plancc.errors import InputError

StrPath = str | os.PathLike[str]
VERTICES = 1 << 20
"""Vertices that a source of any size may have."""
VERTICES_PER_BYTE = 8
"""Vertices that every byte of a source adds."""
UNPACKED = 64 << 20
"""Bytes that a file of any size may become."""
UNPACKED_PER_BYTE = 200
"""Bytes that every byte of a file adds."""
DENSE_PER_BYTE = 1000
"""Bytes that every byte of a file adds where sparse features are made dense."""
CLASSES = 1024
"""Classes that vertices of any number may have."""
CLASSES_PER_CLASS = 16
"""Class numbers that every class that occurs adds."""
CLUSTERS = 1024
"""Clusters that vertices of any number may have; more vertices may have one each."""

_source: ContextVar[int | None] = ContextVar("bytes of the source that is read", default=None)
_large: ContextVar[bool] = ContextVar("whether sources may be large", default=False)


@contextmanager
def bounded(size: int, *, allow_large: bool = False) -> Iterator[None]:
    """What is read within belongs to a source of `size` bytes; `allow_large`: without bounds."""
    before = _source.set(size)
    try:
        with allowing(large=allow_large):
            yield
    finally:
        _source.reset(before)


@contextmanager
def allowing(*, large: bool) -> Iterator[None]:
    """What is read within has no bounds if it may be `large`."""
    before = _large.set(large or _large.get())
    try:
        yield
    finally:
        _large.reset(before)


def large_allowed() -> bool:
    """Whether what is read now has no bounds."""
    return _large.get()


def largest(*paths: StrPath, per_byte: int = UNPACKED_PER_BYTE) -> int | None:
    """Bytes that files may become; None without bounds."""
    return None if _large.get() else UNPACKED + per_byte * _size(paths)


def _size(paths: Iterable[StrPath]) -> int:
    return sum(os.path.getsize(path) for path in paths)


def check_unpacked(
    claimed: int, paths: StrPath | Sequence[StrPath], what: str, per_byte: int = UNPACKED_PER_BYTE
) -> None:
    """InputError if `what` of a file, or of several, takes more bytes than they may become."""
    paths = [paths] if isinstance(paths, str | os.PathLike) else paths
    most = largest(*paths, per_byte=per_byte)
    if most is not None and claimed > most:
        raise InputError(
            f"{what} takes {claimed:,} bytes, and a file of {_size(paths):,} bytes may "
            f"become {most:,}; read it with `allow_large` if this is right"
        )


def check_vertices(num_vertices: int, where: str) -> None:
    """InputError if the source that is read is too small for so many vertices."""
    size = _source.get()
    if size is None or _large.get():
        return
    if num_vertices > VERTICES + VERTICES_PER_BYTE * size:
        raise InputError(
            f"{where}: {num_vertices} vertices are more than a source of {size:,} bytes may have; "
            "read it with `allow_large` if this is right"
        )


def check_classes(largest_class: int, occurring: int, what: str) -> None:
    """InputError if class numbers are far above the number of classes that occur.

    A network has an output for every class number up to the largest.
    """
    if not _large.get() and largest_class >= CLASSES + CLASSES_PER_CLASS * occurring:
        raise InputError(
            f"{what} is '{largest_class}', and {occurring:,} classes occur: a network would "
            f"have an output for each of {largest_class + 1:,}; number the classes from 0, or read "
            "them with `allow_large`"
        )


def most_clusters(num_vertices: int) -> int:
    """Cluster numbers of so many vertices are below it."""
    return max(num_vertices, CLUSTERS)
