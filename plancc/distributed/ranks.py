"""Collective operations on arrays, for ranks that compile one graph together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class RankGroup(Protocol):
    """The collective operations that `Ranks` needs from a group of all ranks."""

    def allgather(self, pieces: Sequence[Array]) -> None: ...

    def alltoall(self, sends: Sequence[Array], receives: Sequence[Array]) -> None: ...

    def allreduce_sum(self, buffer: Array) -> None: ...


class Collectives(Protocol):
    """The methods of `plancc_runtime.transport.base.Transport` that this package uses."""

    rank: int
    size: int

    def subgroup(self, ranks: Sequence[int]) -> Any: ...

    def alltoall(self, array: Array) -> Array: ...

    def gather(self, value: Any) -> list[Any]: ...

    def agreement(self) -> AbstractContextManager[None]: ...

    def check_alike(self, asked: Mapping[str, Any]) -> None: ...

    def ranks_here(self) -> int: ...


class Ranks:
    """All ranks of a job. Every method is collective.

    Attributes:
        rank, size (int): This rank, counted from 0, and the number of ranks.
        here (int): Number of ranks on this computer.
    """

    def __init__(self, transport: Collectives) -> None:
        self._transport = transport
        self.rank, self.size = transport.rank, transport.size
        self._group: RankGroup = transport.subgroup(range(self.size))
        self.here = transport.ranks_here()

    def agreement(self) -> AbstractContextManager[None]:
        """Return a context manager: if a rank fails in the context, all ranks raise its error.

        The statements in the context must not be collective.
        """
        return self._transport.agreement()

    def check_alike(self, asked: Mapping[str, Any]) -> None:
        """Raise InputError on all ranks if an option, by name in `asked`, differs between ranks."""
        self._transport.check_alike(asked)

    def broadcast(self, value: Any) -> Any:
        """Return the value of rank 0 on every rank. The value is a small plain Python object."""
        return self._transport.gather(value if self.rank == 0 else None)[0]

    def gathered(self, value: Any) -> list[Any]:
        """Return the values of all ranks, small plain Python objects, in the order of ranks."""
        return self._transport.gather(value)

    def total(self, number: int) -> int:
        """Return the sum of `number` over all ranks."""
        return int(self.sums(np.array([number], np.int64))[0])

    def before(self, number: int) -> int:
        """Return the sum of `number` over the ranks below this rank."""
        return int(self.concatenated(np.array([number], np.int64))[: self.rank].sum())

    def sums(self, array: Array) -> Array:
        """Replace `array`, which has one shape on all ranks, by its sum over ranks; return it."""
        self._group.allreduce_sum(array)
        return array

    def concatenated(self, array: Array) -> Array:
        """Return the arrays of all ranks as one, on every rank; dtypes and widths must be equal."""
        lengths = self._transport.alltoall(np.full(self.size, len(array), np.int64))
        every = np.empty((int(lengths.sum()), *array.shape[1:]), array.dtype)
        pieces = np.split(every, np.cumsum(lengths)[:-1])
        pieces[self.rank][...] = array
        self._group.allgather(pieces)
        return every

    def swapped(self, pieces: Sequence[Array]) -> list[Array]:
        """Send ``pieces[k]`` to rank k; return pieces by sender. All have one dtype and width."""
        lengths = self._transport.alltoall(np.array([len(each) for each in pieces], np.int64))
        every = np.empty((int(lengths.sum()), *pieces[0].shape[1:]), pieces[0].dtype)
        received = np.split(every, np.cumsum(lengths)[:-1])
        self._group.alltoall([np.ascontiguousarray(each) for each in pieces], received)
        return received

    def collected(self, pieces: Sequence[Array]) -> Array:
        """Send ``pieces[k]`` to rank k. Return the pieces that this rank receives, as one array."""
        received = self.swapped(pieces)
        return received[0] if received[0].base is None else received[0].base

    def sent(self, array: Array, to: Array) -> Array:
        """Send row k to rank ``to[k]``; return the received rows, sorted by sending rank."""
        return self.collected([array[to == rank] for rank in range(self.size)])

    def at_root(self, array: Array) -> Array:
        """Concatenate the arrays of all ranks, and return the result on rank 0.

        Other ranks get an empty array.
        """
        return self.collected([array, *[array[:0]] * (self.size - 1)])

    def from_root(self, array: Array | None, dtype: npt.DTypeLike) -> Array:
        """Return, on every rank, the array of rank 0, converted to `dtype`."""
        mine = np.empty(0, dtype) if array is None or self.rank else np.asarray(array, dtype)
        return self.concatenated(mine)
