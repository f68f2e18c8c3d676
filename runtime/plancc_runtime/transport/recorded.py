"""Ranks as threads of this process that can record what they do, step by step, for a `replay`.

A rank alone (`RecordingTransport.alone`) does again what it has done with the others: nothing
moves, and what would arrive is zeros. What is between two calls of the transport, or of its clock,
counts as long as its thread needed the processor for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

import numpy as np

from plancc.clock import wall_seconds
from plancc_runtime.clock import Clock
from plancc_runtime.transport.base import Channel, Pending
from plancc_runtime.transport.group import MessageGroup
from plancc_runtime.transport.links import Collective
from plancc_runtime.transport.local import LocalChannel, LocalTransport, Threads
from plancc_runtime.transport.messages import Addressed, Buffer
from plancc_runtime.transport.replay import MEETING, Step

SAMPLES = 1001
"""Calls of a clock by which it is known how long one takes."""


class RecordingThreads(Threads):
    """State that the ranks share, of which one at a time is measured.

    Parameters
    ----------
    size, ranks_per_node : int
    cpu : callable
        Seconds for which the calling thread has had the processor.
    """

    def __init__(
        self, size: int, ranks_per_node: int, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        super().__init__(size)
        self.ranks_per_node, self.cpu, self.processor = ranks_per_node, cpu, Lock()
        self.cost = float(np.median(np.diff([cpu() for _ in range(SAMPLES)])))  # of a call of it


class RecordingTransport(LocalTransport):
    """One rank's end, as of `local.run_ranks`."""

    times_threads = True

    def __init__(self, group: RecordingThreads, rank: int) -> None:
        super().__init__(group, rank, None)
        self._shared, self._numbers = group, count()
        self._moves, self._since = True, 0.0
        self._steps: list[Step] | None = None
        self._everyone = (tuple(range(self.size)),)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A block in which this rank alone works. Collective."""
        self._meet(None)
        with self._shared.processor:
            yield
        self._meet(None)

    @contextmanager
    def recorded(self, moves: bool) -> Iterator[list[Step]]:
        """A block whose steps are recorded; with a meeting of all at the end. Collective if `moves`.

        Parameters
        ----------
        moves : bool
            Whether messages move; then ranks compute in turns. If not, the block is in one of
            `alone`.
        """
        with self._shared.processor if moves else nullcontext():
            self._moves, self._steps = moves, []
            self._since = self._shared.cpu()
            try:
                yield self._steps
                self._meet(None)
            finally:
                self._moves, self._steps = True, None

    @contextmanager
    def call(self, *event: Any) -> Iterator[bool]:
        """A block that takes no time: an event, if steps are recorded.

        Yields
        ------
        bool
            Whether anything moves.
        """
        steps, shared = self._steps, self._shared
        if steps is None:
            yield True
            return
        spent = shared.cpu() - self._since - shared.cost
        steps.append((max(0.0, spent), event))
        self._steps = None  # what happens within belongs to it
        if self._moves:
            shared.processor.release()
        try:
            yield self._moves
        finally:
            if self._moves:
                shared.processor.acquire()
            self._steps, self._since = steps, shared.cpu()

    def clock(self) -> Clock:
        """A clock whose times are numbers of steps where these are recorded."""
        clock = Clock(self._now)
        clock.record()
        return clock

    def _now(self) -> float:
        if self._steps is None:
            return wall_seconds()
        with self.call("mark"):
            pass
        return len(self._steps) - 1

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        return _RecordedChannel(self, sends, receives)

    def subgroup(self, ranks: Sequence[int]) -> _RecordedGroup:
        groups = sorted(set(self.gather(tuple(ranks))))
        if len(set(map(len, groups))) > 1:  # then what they share of the network does not count
            groups = [tuple(ranks)]
        return _RecordedGroup(self, ranks, groups)

    def begin(
        self, what: Collective, start: Callable[[], Pending | None], filled: Sequence[Buffer] = ()
    ) -> Pending:
        """Begin a collective by `start`.

        Parameters
        ----------
        what : Collective
        start : callable
        filled : sequence of buffer
            Those that have another content afterwards, but for sums.
        """
        number, started = next(self._numbers), None
        with self.call("join", number, what) as moves:
            if moves:
                started = start()
            else:
                clear(filled)

        def finish() -> None:
            with self.call("over", number):
                if started is not None:
                    started.wait()

        return Pending(finish)

    def allreduce_sum(self, array: Buffer) -> None:
        add = partial(super().allreduce_sum, array)
        self.begin(self._of_all("allreduce", array.nbytes), add).wait()

    def allreduce_max(self, array: Buffer) -> None:
        self.begin(self._of_all(MEETING), partial(super().allreduce_max, array)).wait()

    def _meet(self, value: Any) -> list[Any]:
        values, meet = [value] * self.size, super()._meet

        def start() -> None:
            values[:] = meet(value)

        self.begin(self._of_all(MEETING), start).wait()
        return values

    def _of_all(self, kind: str, *sizes: int) -> Collective:
        return Collective(kind, self._everyone, 0, sizes)

    def nodes_of_ranks(self) -> list[str]:
        return [str(rank // self._shared.ranks_per_node) for rank in range(self.size)]

    def number(self) -> int:
        """A number for a round, as no other of this rank has."""
        return next(self._numbers)


class _RecordedChannel(LocalChannel):
    """Rounds that are recorded, with their receives in order."""

    _transport: RecordingTransport

    def __init__(
        self, transport: RecordingTransport, sends: Addressed, receives: Addressed
    ) -> None:
        super().__init__(transport, sends, receives)
        self._receives = [buffer for _, buffer in receives]
        self._left: set[int] = set()  # receives of the round that are to be cleared
        self._number = 0
        self._posted = [(piece.peer, piece.tag, piece.number) for piece in self._inward]
        self._sent = [
            [(piece.peer, piece.tag, piece.data.nbytes) for piece in parts]
            for parts in self._outward
        ]

    def start(self) -> None:
        self._number = self._transport.number()
        with self._transport.call("start", self._number, self._num_pieces, self._posted) as moves:
            self._left = set() if moves else set(range(len(self._receives)))
            if moves:
                super().start()

    def send(self, k: int) -> None:
        with self._transport.call("send", self._number, self._sent[k]) as moves:
            if moves:
                super().send(k)

    def arrivals(self) -> Iterator[int]:
        """Yield the receives in their order, which nobody may count on."""
        arrived = super().arrivals()
        for k in range(len(self._receives)):
            with self._transport.call("arrive", self._number, k) as moves:
                if moves and k == 0:
                    list(arrived)
                self._clear([k])
            yield k

    def finish(self) -> None:
        with self._transport.call("finish", self._number) as moves:
            if moves:
                super().finish()
            self._clear([*self._left])

    def _clear(self, numbers: Sequence[int]) -> None:
        """Let the receives be zeros, where nothing moves."""
        clear([self._receives[k] for k in self._left.intersection(numbers)])
        self._left.difference_update(numbers)


class _RecordedGroup(MessageGroup):
    """Collectives that are recorded as such; an all-to-all is messages like others."""

    transport: RecordingTransport

    def __init__(
        self,
        transport: RecordingTransport,
        ranks: Sequence[int],
        groups: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__(transport, ranks)
        self._groups, self._number = tuple(groups), groups.index(self.ranks)

    def _begin(
        self,
        kind: str,
        buffers: Sequence[Buffer],
        start: Callable[[], Pending | None],
        filled: Sequence[Buffer] = (),
    ) -> Pending:
        what = Collective(kind, self._groups, self._number, tuple(b.nbytes for b in buffers))
        return self.transport.begin(what, start, filled)

    def _broadcast(self, data: Buffer, root: int) -> Pending:
        start = partial(super()._broadcast, data, root)
        return self._begin("broadcast", [data], start, [] if self.rank == root else [data])

    def _reduce_sum(self, data: Buffer, root: int) -> Pending:
        return self._begin("broadcast", [data], partial(super()._reduce_sum, data, root))

    def _allreduce_sum(self, data: Buffer) -> None:
        self._begin("allreduce", [data], partial(super()._allreduce_sum, data)).wait()

    def _allgather(self, pieces: Sequence[Buffer]) -> Pending:
        others = [pieces[k] for k in self._others()]
        return self._begin("allgather", pieces, partial(super()._allgather, pieces), others)

    def _reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        self._begin("allgather", pieces, partial(super()._reduce_scatter_sum, pieces)).wait()


def clear(buffers: Sequence[Buffer]) -> None:
    """Let buffers be zeros."""
    for buffer in buffers:
        buffer[...] = 0
