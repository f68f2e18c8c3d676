"""Large dense tensors that are used again as soon as nobody else holds them. Knows sizes only.

A fresh block of memory costs a page fault every 4 kB when it is first written, which is as long as
the arithmetic on it; the C library returns large blocks to the system when they are freed. Every
thread (of ranks that are threads, each) has its own workspace.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

LEAST_BYTES = 2**19
"""Below this the C library is quick enough."""
PATIENCE = 64
"""Requests after which a tensor that no request wanted is given back."""


class Workspace:
    """The tensors of one thread."""

    def __init__(self) -> None:
        self._requests = 0
        self._kept: list[_Kept] = []

    def empty(self, rows: int, width: int, like: Tensor) -> Tensor:
        """Tensor[rows, width] of any content, contiguous, of the dtype and device of `like`.

        It may share its memory with any tensor that this workspace gave before and that nothing
        refers to any more, autograd's saved tensors and views included.
        """
        size = rows * width
        if like.device.type != "cpu" or size * like.element_size() < LEAST_BYTES:
            return like.new_empty(rows, width)
        self._requests += 1
        for kept in self._kept:
            if kept.flat.numel() == size and kept.flat.dtype == like.dtype and kept.is_free():
                break
        else:
            late = self._requests - PATIENCE
            self._kept = [k for k in self._kept if k.last >= late or not k.is_free()]
            kept = _Kept(like.new_empty(size))
            self._kept.append(kept)
        kept.last = self._requests
        return kept.flat.view(rows, width)


class _Kept:
    """A tensor, and when it was last asked for."""

    def __init__(self, flat: Tensor) -> None:
        self.flat, self.last = flat, 0
        self._storage = flat.untyped_storage()
        self._own = self._references()  # flat and the storage's own handle

    def is_free(self) -> bool:
        """Whether no other tensor shares the memory."""
        return self._references() == self._own

    def _references(self) -> int:
        return torch._C._storage_Use_Count(self._storage._cdata)


class _Local(threading.local):
    def __init__(self) -> None:
        self.workspace = Workspace()


_local = _Local()


def empty(rows: int, width: int, like: Tensor) -> Tensor:
    """`Workspace.empty` of this thread's workspace."""
    return _local.workspace.empty(rows, width, like)
