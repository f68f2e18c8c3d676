"""Ranks as threads of this process, which can record their steps for a `replay`.

A step ends where the rank calls its transport or its clock, and takes the CPU time of the rank's
thread. A rank that repeats its steps alone has no messages; rows that would arrive are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

import numpy as np

from plancc.clock import Clock, wall_seconds
from plancc_lab.rehearse.links import RecordedCollective
from plancc_lab.rehearse.replay import MEETING, Step
from plancc_runtime.transport.base import Channel, Pending
from plancc_runtime.transport.group import MessageGroup
from plancc_runtime.transport.local import LocalChannel, LocalTransport, Threads
from plancc_runtime.transport.messages import Addressed, Buffer

SAMPLES = 1001
"""Number of calls of a clock that measure the time of one call."""


class RecordingThreads(Threads):
    """State that the threads of all ranks share; while recording, one rank computes at a time."""

    def __init__(self, size: int, ranks_per_node: int, cpu: Callable[[], float]) -> None:
        super().__init__(size)
        self.ranks_per_node, self.cpu, self.processor = ranks_per_node, cpu, Lock()
        self.cost = float(np.median(np.diff([cpu() for _ in range(SAMPLES)])))  # of a call of it


class RecordedClock(Clock):
    """A clock that keeps its measurements.

    Attributes:
        events (list of (phase, begin, end)): Intervals in which a phase ran without interruption.
        stages (list of (stage, begin, end)): Stages, such as "layer 1 forward"; a stage contains
            several events.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._begin()
        super().__init__(now)

    def _begin(self) -> None:
        self.events: list[tuple[str, float, float]] = []
        self.stages: list[tuple[str, float, float]] = []
        self._stage, self._entered = "", 0.0

    def enter(self, stage: str) -> None:
        """End the present stage, and begin the stage of this name; "" begins no stage."""
        self._close()
        if self._stage:
            self.stages.append((self._stage, self._entered, self._since))
        self._stage, self._entered = stage, self._since

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Context manager that empties `events` and `stages` when it begins and when it ends."""
        self._begin()
        try:
            yield
        finally:
            self._begin()

    def _close(self) -> None:
        begin = self._since
        super()._close()
        if self._running:
            self.events.append((self._running[-1], begin, self._since))


class RecordingTransport(LocalTransport):
    """The transport of one rank, as in `local.run_ranks`, which can record the rank's steps.

    `kept` is a list of all integer arrays that arrived, in order. What a rank computes depends on
    these integers, so a rank that repeats its steps alone reads them again.
    """

    is_timed = False

    def __init__(self, group: RecordingThreads, rank: int) -> None:
        super().__init__(group, rank, None)
        self._threads, self.count = group, count()
        self._steps: list[Step] | None = None
        # `_keeps` is False for the messages of which a collective consists.
        self._moves, self._since, self._keeps = True, 0.0, True
        self.kept: list[Buffer] = []
        self._again: Iterator[Buffer] = iter(())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Context manager: while its statements run, no other rank computes. Collective."""
        self._meet(None)
        with self._threads.processor:
            yield
        self._meet(None)

    @contextmanager
    def recorded(self, moves: bool) -> Iterator[list[Step]]:
        """Record the steps in a ``with`` block, with a barrier at its end.

        If `moves`, messages are really sent: all ranks must enter the context, and compute one
        after the other. If not, this context must be inside the context `alone`.
        """
        with self._threads.processor if moves else nullcontext():
            self._again = iter(self.kept)
            self._moves, self._steps, self._since = moves, [], self._threads.cpu()
            try:
                yield self._steps
                self._meet(None)
            finally:
                self._moves, self._steps = True, None

    @contextmanager
    def call(self, *event: Any) -> Iterator[bool]:
        """Record the ``with`` block as one event, if recording; yield whether to send messages."""
        steps, threads = self._steps, self._threads
        if steps is None:
            yield True
            return
        self._end_step(steps, event)
        self._steps = None  # calls in the statements belong to this event
        if self._moves:
            threads.processor.release()
        try:
            yield self._moves
        finally:
            if self._moves:
                threads.processor.acquire()
            self._steps, self._since = steps, threads.cpu()

    def _end_step(self, steps: list[Step], event: tuple[Any, ...]) -> None:
        now = self._threads.cpu()
        steps.append((max(0.0, now - self._since - self._threads.cost), event))
        self._since = now

    def clock(self) -> RecordedClock:
        """Return a clock; while steps are recorded, it counts recorded steps, not seconds."""
        return RecordedClock(self._now)

    def _now(self) -> float:
        if self._steps is None:
            return wall_seconds()
        self._end_step(self._steps, ("mark",))
        return len(self._steps) - 1

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        return _RecordedChannel(self, sends, receives)

    def subgroup(self, ranks: Sequence[int]) -> _RecordedGroup:
        groups = sorted(set(self.gather(tuple(ranks))))
        if len(set(map(len, groups))) > 1:  # then what they share of the network does not count
            groups = [tuple(ranks)]
        return _RecordedGroup(self, ranks, *groups)

    def begin(
        self,
        kind: str,
        move: Callable[[], Pending | None],
        buffers: Sequence[Buffer] = (),
        filled: Sequence[Buffer] = (),
        groups: tuple[tuple[int, ...], ...] = (),
    ) -> Pending:
        """Record that a collective begins; if messages are really sent, call `move` to begin it.

        The sizes of `buffers` are recorded; the buffers `filled` receive the result. Without
        `groups`, all ranks are one group.
        """
        groups = groups or (tuple(range(self.size)),)
        own = next(number for number, ranks in enumerate(groups) if self.rank in ranks)
        what = RecordedCollective(kind, groups, own, tuple(buffer.nbytes for buffer in buffers))
        number, moving = next(self.count), None
        with self.call("join", number, what) as moves:
            if moves:
                with self._of_collective():
                    moving = move()
            else:
                clear(filled)

        def finish() -> None:
            with self.call("over", number) as moves:
                if moving is not None:
                    with self._of_collective():
                        moving.wait()
                self.keep(filled, moves)

        return Pending(finish)

    @contextmanager
    def _of_collective(self) -> Iterator[None]:
        """Context manager in which all messages belong to one collective.

        The contents of these messages are not recorded.
        """
        before, self._keeps = self._keeps, False
        try:
            yield
        finally:
            self._keeps = before

    def keep(self, filled: Sequence[Buffer], moves: bool) -> None:
        """Record the integers in `filled` if `moves`; else overwrite them with recorded integers.

        `moves` says whether messages have been sent.
        """
        if not self._keeps:
            return
        whole = [buffer for buffer in filled if str(buffer.dtype).endswith(("int32", "int64"))]
        if moves:
            self.kept += [buffer + 0 for buffer in whole]
        else:
            for buffer in whole:
                buffer[...] = next(self._again)

    def allreduce_sum(self, array: Buffer) -> None:
        self.begin("allreduce", partial(super().allreduce_sum, array), [array]).wait()

    def allreduce_max(self, array: Buffer) -> None:
        self.begin(MEETING, partial(super().allreduce_max, array)).wait()

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        found = np.empty_like(array)

        def swap() -> None:
            found[...] = super(RecordingTransport, self).alltoall(array)

        self.begin(MEETING, swap, filled=[found]).wait()
        return found

    def _meet(self, value: Any) -> list[Any]:
        values = [value] * self.size

        def meet() -> None:
            values[:] = LocalTransport._meet(self, value)

        self.begin(MEETING, meet).wait()
        return values

    def cores_per_rank(self) -> int:
        return 1  # a rank's thread does all of its work

    def nodes_of_ranks(self) -> list[str]:
        return [str(rank // self._threads.ranks_per_node) for rank in range(self.size)]


class _RecordedChannel(LocalChannel):
    """A channel that records its rounds; messages arrive in the order of the channel's receives."""

    _transport: RecordingTransport

    def __init__(
        self, transport: RecordingTransport, sends: Addressed, receives: Addressed
    ) -> None:
        super().__init__(transport, sends, receives)
        self._number, self._receives = 0, [buffer for _, buffer in receives]
        self._posted = [(piece.peer, piece.tag, piece.number) for piece in self._inward]
        self._sent = [
            [(piece.peer, piece.tag, piece.data.nbytes) for piece in sent] for sent in self._outward
        ]

    def start(self) -> None:
        self._number = next(self._transport.count)
        with self._transport.call("start", self._number, self._num_pieces, self._posted) as moves:
            if moves:
                super().start()
            else:
                clear(self._receives)

    def send(self, k: int) -> None:
        with self._transport.call("send", self._number, self._sent[k]) as moves:
            if moves:
                super().send(k)

    def arrivals(self) -> Iterator[int]:
        arrived = super().arrivals()
        for k in range(len(self._receives)):
            with self._transport.call("arrive", self._number, k) as moves:
                if moves and k == 0:
                    list(arrived)
            yield k

    def finish(self) -> None:
        with self._transport.call("finish", self._number) as moves:
            if moves:
                super().finish()
            self._transport.keep(self._receives, moves)


class _RecordedGroup(MessageGroup):
    """A group that records each collective as one event.

    An all-to-all is the exception: its single messages are recorded.
    """

    def __init__(
        self, transport: RecordingTransport, ranks: Sequence[int], *groups: tuple[int, ...]
    ) -> None:
        super().__init__(transport, ranks)
        self._begin = partial(transport.begin, groups=groups)

    def _broadcast(self, data: Buffer, root: int) -> Pending:
        filled = [data] if self.rank != root else []
        return self._begin("broadcast", partial(super()._broadcast, data, root), [data], filled)

    def _reduce_sum(self, data: Buffer, root: int) -> Pending:
        return self._begin("broadcast", partial(super()._reduce_sum, data, root), [data])

    def _allreduce_sum(self, data: Buffer) -> None:
        self._begin("allreduce", partial(super()._allreduce_sum, data), [data]).wait()

    def _allgather(self, pieces: Sequence[Buffer]) -> Pending:
        others = [pieces[k] for k in self._others()]
        return self._begin("allgather", partial(super()._allgather, pieces), pieces, others)

    def _reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        self._begin("allgather", partial(super()._reduce_scatter_sum, pieces), pieces).wait()


def clear(buffers: Sequence[Buffer]) -> None:
    """Set buffers to zero."""
    for buffer in buffers:
        buffer[...] = 0
