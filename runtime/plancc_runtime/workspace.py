"""Memory for large dense tensors, reused when no tensor refers to it any more.

The C library returns large freed memory to the system, and page faults of fresh memory would take
as much time as the arithmetic. Every thread has its own workspace.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress

import torch
from torch import Tensor

LEAST_BYTES = 2**19
"""Smallest tensor of a workspace in bytes; for smaller tensors the C library is quick enough."""
SLACK = 1.25
"""Largest ratio of a piece of memory to the size of the tensor for which it is reused."""
PATIENCE = 64
"""Number of requests after which memory that none of them used is freed."""


class Workspace:
    """Pieces of memory that one thread reuses for its tensors."""

    def __init__(self) -> None:
        self._requests = 0
        self._kept: list[_Kept] = []

    def empty(self, rows: int, width: int, like: Tensor) -> Tensor:
        """Return an uninitialised Tensor[rows, width], with dtype and device of `like`.

        The result may reuse the memory of an earlier result to which nothing refers any more, not
        even autograd or a view. For autograd, the result is a new tensor.
        """
        size = rows * width * like.element_size()
        if like.device.type != "cpu" or size < LEAST_BYTES:
            return like.new_empty(rows, width)
        self._requests += 1
        if self._requests % PATIENCE == 0:
            late = self._requests - PATIENCE
            self._kept = [k for k in self._kept if k.last >= late or not k.is_free()]
        fitting = [k for k in self._kept if size <= k.num_bytes <= SLACK * size and k.is_free()]
        if fitting:
            kept = min(fitting, key=lambda k: k.num_bytes)
        else:
            kept = _Kept(size)
            self._kept.append(kept)
        kept.last = self._requests
        with torch.inference_mode(False):
            return like.new_empty(0).set_(kept.storage, 0, (rows, width), (width, 1))

    def release(self) -> None:
        """Free all memory that no tensor uses."""
        self._kept = [kept for kept in self._kept if not kept.is_free()]


class _Kept:
    """A piece of memory, with the index of the last request for which it was used."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes, self.last = num_bytes, 0
        self.storage = torch.UntypedStorage(num_bytes)
        self._own = self._references()

    def is_free(self) -> bool:
        """Return whether no tensor uses this piece of memory any more."""
        return self._references() == self._own

    def _references(self) -> int:
        return torch._C._storage_Use_Count(self.storage._cdata)


class _Local(threading.local):
    def __init__(self) -> None:
        self.workspace = Workspace()


_local = _Local()


def empty(rows: int, width: int, like: Tensor) -> Tensor:
    """Return an uninitialised Tensor[rows, width] from the workspace of this thread.

    See `Workspace.empty`.
    """
    return _local.workspace.empty(rows, width, like)


def converted(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the rows of x in another dtype; x itself if it has that dtype already."""
    if x.dtype == dtype:
        return x
    return empty(x.shape[0], x.shape[1], x.new_empty(0, dtype=dtype)).copy_(x)


def return_memory() -> None:
    """Return all unused memory to the system, even freed memory that glibc keeps for reuse."""
    _local.workspace.release()
    with suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)
