"""Large arrays in files on the disk that have no name, where memory does not suffice.

The system keeps as much of them in memory as it has room for, and writes the rest behind. They are
gone with the process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import OutputError, output_error

_on_disk: ContextVar[bool] = ContextVar("whether large arrays are on the disk", default=False)
DISK = "/var/tmp"
"""Where the files are unless the environment's TMPDIR says otherwise."""


@contextmanager
def on_disk(wanted: bool) -> Iterator[None]:
    """Whether arrays that `large` and `moved` make within are on the disk."""
    before = _on_disk.set(wanted)
    try:
        yield
    finally:
        _on_disk.reset(before)


def folder() -> str:
    """Where the files are."""
    if "TMPDIR" not in os.environ and os.access(DISK, os.W_OK | os.X_OK):
        return DISK
    return tempfile.gettempdir()


def check_room(wanted: int) -> None:
    """Raise OutputError if the disk has less room than this."""
    free = shutil.disk_usage(folder()).free
    if wanted > free:
        raise OutputError(
            f"cannot write {folder()}: {wanted / 2**30:,.1f} GiB are needed beside the memory, and "
            f"{free / 2**30:,.1f} GiB are free; TMPDIR names another folder"
        )


def large(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of one dimension whose numbers are not set."""
    if not (_on_disk.get() and size):
        return np.empty(size, dtype)
    kind = np.dtype(dtype)
    try:
        with tempfile.TemporaryFile(dir=folder()) as file:
            os.posix_fallocate(file.fileno(), 0, size * kind.itemsize)
            return np.asarray(np.memmap(file, kind, "r+", shape=(size,)))
    except OSError as error:
        raise output_error(folder(), error) from error


def moved(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, or the same on the disk; then the caller lets go of the one in memory."""
    if not _on_disk.get():
        return array
    there = large(array.size, array.dtype)
    there[:] = array
    return there
