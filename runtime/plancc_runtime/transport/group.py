"""Collective operations of some of a transport's ranks. Knows ranks and buffers; must not know
grids, rows or layers.

A *group* is made once by all of its members (`Transport.subgroup`), and used any number of times.
All methods are collective among the members, who call the same ones in the same order; buffers are
contiguous, and of the same size where the operation says so. Operations that `start` begins are
finished by `wait`; a member may have several under way, and finishes them in the order in which it
started them.

Counted in `Transport.traffic` is what has to arrive, however the library routes it; g members:

    broadcast(m words)        the root sends m words to each of the g - 1 others, who receive them
    reduce_sum                the same backward: every other member sends m words to the root
    allgather                 every member sends its own words to each of the others
    reduce_scatter_sum        the same backward
    alltoall                  as an exchange of messages
    allreduce_sum(m words)    one reduction of m words at every member (as `Transport`'s)

A message is one buffer from one member to another; empty ones do not count, and none travels from a
member to itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plancc_runtime.transport.base import Buffer

if TYPE_CHECKING:
    from plancc_runtime.transport.base import Transport


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
    """Some ranks of a transport, in an order of their own.

    Attributes
    ----------
    transport : Transport
    ranks : tuple of int
        Of the members in the transport; ascending and distinct.
    rank : int
        This member's place among them.
    """

    def __init__(self, transport: Transport, ranks: Sequence[int]) -> None:
        self.transport, self.ranks = transport, tuple(ranks)
        self.rank = self.ranks.index(transport.rank)

    @property
    def size(self) -> int:
        return len(self.ranks)

    @abstractmethod
    def start_broadcast(self, buffer: Buffer, root: int) -> Pending:
        """Give every member the root's `buffer`. `root` is a place among the members."""

    @abstractmethod
    def start_reduce_sum(self, buffer: Buffer, root: int) -> Pending:
        """Replace the root's `buffer` by the sum over the members; the others' become undefined."""

    @abstractmethod
    def allreduce_sum(self, buffer: Buffer) -> None:
        """Replace every member's `buffer` by the sum over the members."""

    @abstractmethod
    def start_allgather(self, pieces: Sequence[Buffer]) -> Pending:
        """``pieces[k]`` of member k goes to all; sizes may differ, and are the same everywhere."""

    @abstractmethod
    def reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        """Replace ``pieces[k]`` of member k by the sum over all members' ``pieces[k]``.

        The other pieces become undefined.
        """

    @abstractmethod
    def start_alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending:
        """``sends[k]`` of this member becomes ``receives[this member]`` of member k.

        This member's own piece is copied.
        """

    def broadcast(self, buffer: Buffer, root: int) -> None:
        self.start_broadcast(buffer, root).wait()

    def reduce_sum(self, buffer: Buffer, root: int) -> None:
        self.start_reduce_sum(buffer, root).wait()

    def allgather(self, pieces: Sequence[Buffer]) -> None:
        self.start_allgather(pieces).wait()

    def alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> None:
        self.start_alltoall(sends, receives).wait()


def empty_like(buffer: Buffer) -> Buffer:
    """A buffer of the same size and kind."""
    if hasattr(buffer, "new_empty"):
        return buffer.new_empty(buffer.shape)
    import numpy as np

    return np.empty_like(buffer)


class MessageGroup(Group):
    """Collectives out of messages, for transports without any of their own.

    Sums are made in the order of the members: the same inputs give the same bits.
    """

    def start_broadcast(self, buffer: Buffer, root: int) -> Pending:
        if self.rank == root:
            return self._exchanged([(k, buffer) for k in range(self.size) if k != root], [])
        return self._exchanged([], [(root, buffer)])

    def start_reduce_sum(self, buffer: Buffer, root: int) -> Pending:
        if self.rank != root:
            return self._exchanged([(root, buffer)], [])
        parts = [(k, empty_like(buffer)) for k in range(self.size) if k != root]
        arriving = self._exchanged([], parts)

        def finish() -> None:
            arriving.wait()
            _put_sum(buffer, [*parts[:root], (root, buffer), *parts[root:]])

        return Pending(finish)

    def allreduce_sum(self, buffer: Buffer) -> None:
        # as one operation: a reduction is not counted as messages
        traffic = self.transport.traffic
        before = dict(vars(traffic))
        own = empty_like(buffer)
        own[...] = buffer
        others = [(k, empty_like(buffer)) for k in range(self.size) if k != self.rank]
        self._exchanged([(k, own) for k, _ in others], others).wait()
        _put_sum(buffer, sorted([*others, (self.rank, own)], key=lambda part: part[0]))
        vars(traffic).update(before)
        traffic.reductions += 1
        traffic.words_reduced += buffer.size if isinstance(buffer.size, int) else buffer.numel()

    def start_allgather(self, pieces: Sequence[Buffer]) -> Pending:
        others = [k for k in range(self.size) if k != self.rank]
        return self._exchanged(
            [(k, pieces[self.rank]) for k in others], [(k, pieces[k]) for k in others]
        )

    def reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        others = [k for k in range(self.size) if k != self.rank]
        own = pieces[self.rank]
        parts = [(k, empty_like(own)) for k in others]
        self._exchanged([(k, pieces[k]) for k in others], parts).wait()
        _put_sum(own, [*parts[: self.rank], (self.rank, own), *parts[self.rank :]])

    def start_alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending:
        receives[self.rank][...] = sends[self.rank]
        others = [k for k in range(self.size) if k != self.rank]
        return self._exchanged([(k, sends[k]) for k in others], [(k, receives[k]) for k in others])

    def _exchanged(
        self, sends: list[tuple[int, Buffer]], receives: list[tuple[int, Buffer]]
    ) -> Pending:
        exchange = self.transport.exchange(
            [(self.ranks[k], buffer) for k, buffer in sends],
            [(self.ranks[k], buffer) for k, buffer in receives],
        )
        exchange.start()
        for k in range(len(sends)):
            exchange.send(k)
        return Pending(exchange.finish)


def _put_sum(out: Buffer, parts: Sequence[tuple[int, Buffer]]) -> None:
    total = parts[0][1] + 0
    for _, part in parts[1:]:
        total += part
    out[...] = total
