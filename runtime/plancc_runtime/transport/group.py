"""Collective operations of some of a transport's ranks. Knows ranks and buffers; must not know
grids, rows or layers.

A *group* is made once by all of its members (`Transport.subgroup`), and used any number of times.
All methods are collective among the members, who call the same ones in the same order; buffers are
contiguous, and of the same size where the operation says so. Operations that `start` begins are
finished by `wait`; a member may have several under way, and finishes them in the order in which it
started them. Two ranks with several groups in common, or with messages of an exchange under way,
begin all that they do together in the same order.

Counted in `Transport.traffic` is what has to arrive, however the library routes it; g members:

    broadcast(m words)        the root sends m words to each of the g - 1 others, who receive them
    reduce_sum                the same backward: every other member sends m words to the root
    allgather                 every member sends its own words to each of the others
    reduce_scatter_sum        the same backward
    alltoall                  as an exchange of messages
    allreduce_sum(m words)    one reduction of m words at every member (as `Transport`'s)

A message is one buffer from one member to another, or as many as it takes when it has more than
`Transport.max_words`; empty ones do not count, and none travels from a member to itself.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from plancc_runtime.transport.base import Buffer, Exchange, Traffic, Transport, flat, name


class Pending:
    """An operation under way; `wait` ends it, and does nothing when called again."""

    def __init__(self, finish: Callable[[], None] | None = None) -> None:
        self._finish = finish

    def wait(self) -> None:
        """Return when this member's buffers may be used again."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


class Group(ABC):
    """Some ranks of a transport.

    Buffers that are not contiguous or not as many as members, and a root that is no member's place,
    are a ValueError, of this member alone.

    What the methods with an underscore get is flat; they are called by groups of several members
    only, with buffers that are not empty (those of `_alltoall` and some of `_allgather` and
    `_reduce_scatter_sum` may be), and count nothing.

    Attributes
    ----------
    transport : Transport
    ranks : tuple of int
        Of the members in the transport; ascending and distinct.
    rank : int
        This member's place among them.
    size : int
        Number of members.
    """

    def __init__(self, transport: Transport, ranks: Sequence[int]) -> None:
        self.transport, self.ranks = transport, tuple(ranks)
        if self.ranks != tuple(sorted(set(ranks))) or transport.rank not in self.ranks:
            raise ValueError(f"ranks {self.ranks}: not ascending, or without {transport.rank}")
        self.rank, self.size = self.ranks.index(transport.rank), len(self.ranks)

    def start_broadcast(self, buffer: Buffer, root: int) -> Pending:
        """Give every member the root's `buffer`. `root` is a place among the members."""
        data = self._checked([buffer], 1, root)[0]
        if self.size == 1 or len(data) == 0:
            return Pending()
        if self.rank == root:
            self._count_sent(data, self.size - 1)
        else:
            self._count_received(data)
        return self._broadcast(data, root)

    def start_reduce_sum(self, buffer: Buffer, root: int) -> Pending:
        """Replace the root's `buffer` by the sum over the members; the others' become undefined."""
        data = self._checked([buffer], 1, root)[0]
        if self.size == 1 or len(data) == 0:
            return Pending()
        if self.rank == root:
            self._count_received(data, self.size - 1)
        else:
            self._count_sent(data)
        return self._reduce_sum(data, root)

    def allreduce_sum(self, buffer: Buffer) -> None:
        """Replace every member's `buffer` by the sum over the members."""
        data = flat(buffer)
        self.transport.traffic.reductions += 1
        self.transport.traffic.words_reduced += len(data)
        if self.size > 1 and len(data):
            self._allreduce_sum(data)

    def start_allgather(self, pieces: Sequence[Buffer]) -> Pending:
        """``pieces[k]`` of member k goes to all; sizes may differ, and are the same everywhere."""
        data = self._checked(pieces, self.size)
        if self.size == 1 or not any(map(len, data)):
            return Pending()
        self._count_sent(data[self.rank], self.size - 1)
        for k in self._others():
            self._count_received(data[k])
        return self._allgather(data)

    def reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        """Replace ``pieces[k]`` of member k by the sum over all members' ``pieces[k]``.

        The other pieces become undefined.
        """
        data = self._checked(pieces, self.size)
        if self.size == 1 or not any(map(len, data)):
            return
        for k in self._others():
            self._count_sent(data[k])
        self._count_received(data[self.rank], self.size - 1)
        self._reduce_scatter_sum(data)

    def start_alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending:
        """``sends[k]`` of this member becomes ``receives[this member]`` of member k.

        This member's own piece is copied.
        """
        out, back = self._checked(sends, self.size), self._checked(receives, self.size)
        if len(out[self.rank]) != len(back[self.rank]):
            raise ValueError("a member's piece for itself has two sizes")
        back[self.rank][...] = out[self.rank]
        if self.size == 1:
            return Pending()
        for k in self._others():
            self._count_sent(out[k])
            self._count_received(back[k])
        return self._alltoall(out, back)

    def broadcast(self, buffer: Buffer, root: int) -> None:
        self.start_broadcast(buffer, root).wait()

    def reduce_sum(self, buffer: Buffer, root: int) -> None:
        self.start_reduce_sum(buffer, root).wait()

    def allgather(self, pieces: Sequence[Buffer]) -> None:
        self.start_allgather(pieces).wait()

    def alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> None:
        self.start_alltoall(sends, receives).wait()

    @abstractmethod
    def _broadcast(self, data: Buffer, root: int) -> Pending: ...

    @abstractmethod
    def _reduce_sum(self, data: Buffer, root: int) -> Pending: ...

    @abstractmethod
    def _allreduce_sum(self, data: Buffer) -> None: ...

    @abstractmethod
    def _allgather(self, pieces: Sequence[Buffer]) -> Pending: ...

    @abstractmethod
    def _reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None: ...

    @abstractmethod
    def _alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending: ...

    def _others(self) -> list[int]:
        return [k for k in range(self.size) if k != self.rank]

    def _others_to_join(self) -> str:
        """What a member waits for in an operation that needs all."""
        return f"{name(self.ranks[k] for k in self._others())} to join a collective call"

    def _checked(self, buffers: Sequence[Buffer], number: int, root: int = 0) -> list[Buffer]:
        """The buffers, flat.

        Raises
        ------
        ValueError
            If they are not so many or not contiguous, or no member has the number `root`.
        """
        if len(buffers) != number or not 0 <= root < self.size:
            raise ValueError(
                f"{len(buffers)} buffers and root {root} for a group of {self.size} members"
            )
        return [flat(buffer) for buffer in buffers]

    def _count_sent(self, data: Buffer, times: int = 1) -> None:
        traffic = self.transport.traffic
        traffic.messages_sent += times * -(-len(data) // self.transport.max_words)
        traffic.words_sent += times * len(data)
        traffic.bytes_sent += times * data.nbytes

    def _count_received(self, data: Buffer, times: int = 1) -> None:
        traffic = self.transport.traffic
        traffic.messages_received += times * -(-len(data) // self.transport.max_words)
        traffic.words_received += times * len(data)
        traffic.bytes_received += times * data.nbytes


class MessageGroup(Group):
    """Collectives out of messages, for transports without any of their own.

    Sums are made in the order of the members: the same inputs give the same bits.
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

    def _exchanged(
        self, sends: list[tuple[int, Buffer]], receives: list[tuple[int, Buffer]]
    ) -> Pending:
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
        """Add the others' to this member's own, in the order of the members."""
        parts = [*others[: self.rank], own, *others[self.rank :]]
        total = parts[0] + 0
        for part in parts[1:]:
            total += part
        own[...] = total


class GroupTransport(Transport):
    """The members of a group as a transport of their own, for layouts that know of no groups.

    Ranks and peers are places among the members; traffic, timeout and the longest message are those
    of the group's transport, whose other ranks need not take part. `cores_per_rank` alone is
    collective among all of its ranks.
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

    def exchange(
        self, sends: Sequence[tuple[int, Buffer]], receives: Sequence[tuple[int, Buffer]]
    ) -> Exchange:
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
        largest = _maximum(every)
        own[...] = largest

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        array, received = np.ascontiguousarray(array), np.empty_like(array, order="C")
        with uncounted(self.traffic):
            self._group.alltoall(
                [array[k : k + 1] for k in range(self.size)],
                [received[k : k + 1] for k in range(self.size)],
            )
        return received

    def gather(self, value: Any) -> list[Any]:
        own = np.frombuffer(pickle.dumps(value), np.uint8)
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = len(own)
        with uncounted(self.traffic):
            self._group.allgather([lengths[k : k + 1] for k in range(self.size)])
            every = [np.empty(length, np.uint8) for length in lengths.tolist()]
            every[self.rank][:] = own
            self._group.allgather(every)
        return [pickle.loads(each.tobytes()) for each in every]

    def cores_per_rank(self) -> int:
        return self._whole.cores_per_rank()

    def abort(self, code: int) -> None:
        self._whole.abort(code)


def as_transport(group: Group) -> GroupTransport:
    """The members of `group` as a transport; not collective."""
    return GroupTransport(group)


@contextmanager
def uncounted(traffic: Traffic) -> Iterator[None]:
    """A block whose messages are not counted, or counted otherwise."""
    before = vars(traffic).copy()
    try:
        yield
    finally:
        vars(traffic).update(before)


def has_16_bits(data: Buffer) -> bool:
    """Whether the numbers are of a kind that most libraries can only move (see `host`)."""
    return bool(data.itemsize == 2)


def _empty_like(data: Buffer) -> Buffer:
    """A buffer of the same size and kind, on the same device."""
    return np.empty_like(data) if isinstance(data, np.ndarray) else data.new_empty(data.shape)


def _maximum(every: Sequence[Buffer]) -> Buffer:
    if isinstance(every[0], np.ndarray):
        return np.max(every, axis=0)
    import torch

    return torch.stack(list(every)).amax(0)
