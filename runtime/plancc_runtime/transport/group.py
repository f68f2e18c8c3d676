"""Groups of ranks: collectives made of messages, and a transport whose ranks are a group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from plancc_runtime.transport.base import Channel, Group, Pending, Transport
from plancc_runtime.transport.host import HostBuffers
from plancc_runtime.transport.messages import Addressed, Buffer, Traffic, flat, split


class MessageGroup(Group):
    """A group whose collectives consist of messages, for libraries without collectives for groups.

    Sums are computed in the order of the members, so equal inputs give equal bits.
    """

    def _broadcast(self, data: Buffer, root: int) -> Pending:
        if self.rank == root:
            return self._exchanged([(k, data) for k in self._others()], [])
        return self._exchanged([], [(root, data)])

    def _reduce_sum(self, data: Buffer, root: int) -> Pending:
        if self.rank != root:
            return self._exchanged([(root, data)], [])
        parts = [(k, _empty_like(data)) for k in self._others()]
        arriving = self._exchanged([], parts)

        def finish() -> None:
            arriving.wait()
            self._put_sum(data, [part for _, part in parts])

        return Pending(finish)

    def _allreduce_sum(self, data: Buffer) -> None:
        bounds = [len(data) * k // self.size for k in range(self.size + 1)]
        shares = [data[a:b] for a, b in pairwise(bounds)]
        self._reduce_scatter_sum(shares)
        self._allgather(shares).wait()

    def _allgather(self, pieces: Sequence[Buffer]) -> Pending:
        others = self._others()
        return self._exchanged(
            [(k, pieces[self.rank]) for k in others], [(k, pieces[k]) for k in others]
        )

    def _reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        others, own = self._others(), pieces[self.rank]
        parts = [(k, _empty_like(own)) for k in others]
        self._exchanged([(k, pieces[k]) for k in others], parts).wait()
        self._put_sum(own, [part for _, part in parts])

    def _alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending:
        others = self._others()
        return self._exchanged([(k, sends[k]) for k in others], [(k, receives[k]) for k in others])

    def _exchanged(self, sends: Addressed, receives: Addressed) -> Pending:
        exchange = self.transport.exchange(
            [(self.ranks[k], buffer) for k, buffer in sends],
            [(self.ranks[k], buffer) for k, buffer in receives],
        )
        with uncounted(self.transport.traffic):
            exchange.start()
        for k in range(len(sends)):
            exchange.send(k)
        return Pending(exchange.finish)

    def _put_sum(self, own: Buffer, others: Sequence[Buffer]) -> None:
        """Set `own` to the sum of all members' buffers, added in the order of the members."""
        parts = [*others[: self.rank], own, *others[self.rank :]]
        total = parts[0] + 0
        for part in parts[1:]:
            total += part
        own[...] = total


class LibraryGroup(MessageGroup):
    """A group whose broadcasts and reductions are collectives of a library, such as MPI.

    The library chooses the order of summation. All other operations consist of messages.
    """

    def _broadcast(self, data: Buffer, root: int) -> Pending:
        start, source = partial(self._start_broadcast, root=root), self.ranks[root]
        if self.rank == root:
            return self._started(start, data)
        return self._started(start, data, lambda: f"a broadcast of rank {source}", changed=True)

    def _reduce_sum(self, data: Buffer, root: int) -> Pending:
        if not self._adds(data):
            return super()._reduce_sum(data, root)
        start = partial(self._start_reduce_sum, root=root)
        return self._started(start, data, changed=self.rank == root)

    @abstractmethod
    def _start_broadcast(self, words: Buffer, root: int) -> Any:
        """Start a broadcast of `words` from member `root`. Return the library's request."""

    @abstractmethod
    def _start_reduce_sum(self, words: Buffer, root: int) -> Any:
        """Start a sum of all members' `words` at member `root`. Return the library's request."""

    @abstractmethod
    def _waiting(self, what: Callable[[], str]) -> AbstractContextManager[None]:
        """Return a context manager for a wait in MPI or torch; ``what()`` says what is awaited."""

    @abstractmethod
    def _wait(self, requests: list[Any]) -> None:
        """Wait for requests of MPI or torch.distributed."""

    def _started(
        self,
        start: Callable[[Any], Any],
        data: Buffer,
        what: Callable[[], str] | None = None,
        changed: bool = False,
    ) -> Pending:
        """Start an operation of MPI or torch on `data`, or on a copy of `data` in host memory.

        If `changed` is true, the result in the copy is copied back to the device of `data`.
        """
        what, host = what or self._others_to_join, HostBuffers([(0, data)])
        host.fetch(0)
        with self._waiting(what):
            words = host.buffers[0][1]
            requests = [start(part) for part in split(words, self.transport.max_words)]

        def finish() -> None:
            with self._waiting(what):
                self._wait(requests)
            if changed:
                host.store(0)

        return Pending(finish)

    def _adds(self, data: Buffer) -> bool:
        """Whether the library can add numbers of this dtype; 16-bit numbers can only be sent."""
        return bool(data.itemsize != 2)


class GroupTransport(Transport):
    """A transport for the ranks of `group`, which are some of the ranks of another transport.

    Peers are positions in the group. `cores_per_rank` is collective over all ranks of the other
    transport, not only over the group.
    """

    def __init__(self, group: Group) -> None:
        whole = group.transport
        super().__init__(group.rank, group.size, whole.timeout)
        self._group, self._whole = group, whole
        self.traffic, self.max_words = whole.traffic, whole.max_words
        self.say, self.thread = whole.say, whole.thread

    @property
    def numbers(self) -> Sequence[int]:
        return [self._whole.numbers[rank] for rank in self._group.ranks]

    def subgroup(self, ranks: Sequence[int]) -> MessageGroup:
        return MessageGroup(self, ranks)

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        ranks = self._group.ranks
        return self._whole.exchange(
            [(ranks[peer], buffer) for peer, buffer in sends],
            [(ranks[peer], buffer) for peer, buffer in receives],
        )

    def allreduce_sum(self, array: Buffer) -> None:
        self._group.allreduce_sum(array)

    def allreduce_max(self, array: Buffer) -> None:
        own = flat(array)
        every = [own if k == self.rank else _empty_like(own) for k in range(self.size)]
        with uncounted(self.traffic):
            self._group.allgather(every)
        own[...] = _maximum(every)

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        array, received = np.ascontiguousarray(array), np.empty_like(array, order="C")
        with uncounted(self.traffic):
            self._group.alltoall(
                [array[k : k + 1] for k in range(self.size)],
                [received[k : k + 1] for k in range(self.size)],
            )
        return received

    def gather_bytes(self, data: bytes) -> list[bytes]:
        own = np.frombuffer(data, np.uint8)
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = len(own)
        with uncounted(self.traffic):
            self._group.allgather([lengths[k : k + 1] for k in range(self.size)])
            every = [np.empty(length, np.uint8) for length in lengths.tolist()]
            every[self.rank][:] = own
            self._group.allgather(every)
        return [each.tobytes() for each in every]

    def cores_per_rank(self) -> int:
        return self._whole.cores_per_rank()

    def abort(self, code: int) -> None:
        self._whole.abort(code)


@contextmanager
def uncounted(traffic: Traffic) -> Iterator[None]:
    """Context manager: `traffic` does not count the messages of statements in the context."""
    before = vars(traffic).copy()
    try:
        yield
    finally:
        vars(traffic).update(before)


def _empty_like(data: Buffer) -> Buffer:
    """Return a buffer of the same size and dtype on the same device."""
    return np.empty_like(data) if isinstance(data, np.ndarray) else data.new_empty(data.shape)


def _maximum(every: Sequence[Buffer]) -> Buffer:
    if isinstance(every[0], np.ndarray):
        return np.max(every, axis=0)
    import torch

    return torch.stack(list(every)).amax(0)
