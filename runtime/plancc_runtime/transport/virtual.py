"""Ranks as threads that take turns, each with a virtual clock: a large run on a small machine.

One rank computes at a time. What it computes counts as long as its thread needed the processor for;
what happens inside the transport counts nothing, but the time that `virtual_time` gives it.
Messages are copies in memory, sums are made in the same order as by `local`: the results are those
of `local.run_ranks`, bit by bit.

Ranks that take turns find each other's data in the caches. What a rank computes can therefore be
measured apart: done once for real with all messages kept on a *tape*, then several times by that
rank alone, which takes its messages from the tape, and at last once more for real, with the times
that were measured (`VirtualTransport.on_tape`, `alone`, `pace`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count, repeat
from typing import Any, TypeVar

import numpy as np

from plancc_runtime.clock import Clock
from plancc_runtime.transport.base import Channel, Group, Pending
from plancc_runtime.transport.group import MessageGroup
from plancc_runtime.transport.links import Collective, Links
from plancc_runtime.transport.local import End, LocalChannel, LocalTransport, Threads, in_threads
from plancc_runtime.transport.messages import Addressed, Buffer, name_ranks
from plancc_runtime.transport.virtual_time import Moment, VirtualTime

T = TypeVar("T")
SAMPLES = 1001
"""Calls of a clock by which it is known how long one takes."""


def run_virtual_ranks(
    links: Links,
    work: Callable[[VirtualTransport], T],
    cpu: Callable[[], float] = time.thread_time,
) -> list[T]:
    """Call ``work(transport)`` for every rank, in virtual time.

    As `local.run_ranks`, but that a rank never waits in vain: where all wait for good, it ends at
    once.

    Parameters
    ----------
    links : Links
        Has the slowness of every rank, and so their number.
    work : callable
        The same on all ranks; collective. It must make the settings of torch that belong to a
        thread, among them a single thread for products.
    cpu : callable
        Seconds for which the calling thread has had the processor.

    Raises
    ------
    As `local.run_ranks`.
    """
    turns = _Turns(links, cpu)
    return in_threads(turns, lambda rank: VirtualTransport(turns, rank), work)


class VirtualTransport(LocalTransport):
    """One rank's end of `run_virtual_ranks`.

    Attributes
    ----------
    outside : context manager
        A block that takes the rank no time. It may be used again, and be nested.
    clocks : list of Clock
        Those that `clock` made, which record.
    tape : Tape
        What arrived, where that is kept or used again.
    """

    times_threads = True

    def __init__(self, turns: _Turns, rank: int) -> None:
        super().__init__(turns, rank, None)
        self._turns = turns
        self.outside = turns.outside[rank]
        self.clocks: list[Clock] = []
        self.tape = Tape()
        self._num_groups = count()
        self._everyone = _TimedGroup(self, range(self.size), [tuple(range(self.size))])

    @property
    def turns(self) -> _Turns:
        """What the ranks share."""
        return self._turns

    @property
    def time(self) -> VirtualTime:
        """The clocks of all ranks."""
        return self._turns.time

    def clock(self) -> Clock:
        clock = _VirtualClock(partial(self._turns.now, self.rank), self.outside)
        clock.record()
        self.clocks.append(clock)
        return clock

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        return _VirtualChannel(self, sends, receives)

    def subgroup(self, ranks: Sequence[int]) -> Group:
        groups = sorted(set(self.gather(tuple(ranks))))
        if len(set(map(len, groups))) > 1:  # then what they share of the network does not count
            groups = [tuple(ranks)]
        return _TimedGroup(self, ranks, groups)

    @contextmanager
    def on_tape(self) -> Iterator[None]:
        """A block of which all that arrives is kept, until the next one; messages take no time.

        Whoever a rank exchanges messages with is in such a block too.
        """
        self.tape = Tape(keeps=True)
        yield
        self.tape.keeps = False

    @contextmanager
    def alone(self) -> Iterator[list[float]]:
        """A block, within `outside`, that does again what the last one `on_tape` did.

        Nothing is sent: what arrives is what arrived then. It takes no virtual time.

        Yields
        ------
        list of float
            Seconds of every step that is computed, once the block has ended.
        """
        self.tape.begin()
        with self.outside.measured() as steps:
            yield steps
        self.tape.end()

    def pace(self, steps: Sequence[float]) -> None:
        """Let the next steps take so many seconds, as `alone` measures them.

        Further ones take what they take.
        """
        self.outside.pace(iter(steps))

    def number_of_group(self) -> int:
        """Counts the groups of this rank, which all ranks make in the same order."""
        return next(self._num_groups)

    def allreduce_sum(self, array: Buffer) -> None:
        add = super().allreduce_sum
        self._everyone.timed("allreduce", [array], lambda: add(array), [array]).wait()

    def allreduce_max(self, array: Buffer) -> None:
        with self.outside:
            if not self.tape.plays:
                super().allreduce_max(array)
            self.tape.pass_on([array])

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        find = super().alltoall
        with self.outside:
            received: np.ndarray = self.tape.value(lambda: find(array))
        return received

    def gather(self, value: Any) -> list[Any]:
        find = super().gather
        with self.outside:
            every: list[Any] = self.tape.value(lambda: find(value))
        return every

    def nodes_of_ranks(self) -> list[str]:
        per_node = self._turns.links.ranks_per_node
        return [str(rank // per_node) for rank in range(self.size)]

    def _meet(self, value: Any) -> list[Any]:
        """All ranks' values, at the time when the last of them has come."""
        turns, everyone = self._turns, set(range(self.size))
        with self.outside, turns.lock:
            meeting = turns.come(self.rank, value)
            self.wait(
                lambda: meeting.over,
                lambda: (
                    f"{name_ranks(everyone - meeting.values.keys())} to reach a collective call"
                ),
            )
        return [meeting.values[rank] for rank in range(self.size)]


class _VirtualChannel(LocalChannel):
    """Buffers are copied at once; the time at which the other end sees them is virtual."""

    _transport: VirtualTransport

    def __init__(self, transport: VirtualTransport, sends: Addressed, receives: Addressed) -> None:
        super().__init__(transport, sends, receives)
        self._outside, self._turns = transport.outside, transport.turns
        self._receives = [buffer for _, buffer in receives]
        self._left: set[int] = set()  # receives of the round that the caller has not seen

    def start(self) -> None:
        with self._outside:
            self._left = set(range(len(self._receives)))
            if not self._transport.tape.plays:
                super().start()

    def send(self, k: int) -> None:
        with self._outside:
            if not self._transport.tape.plays:
                super().send(k)

    def arrivals(self) -> Iterator[int]:
        tape, arrived = self._transport.tape, super().arrivals()
        for _ in self._receives:
            with self._outside:
                k = tape.value(lambda: next(arrived))
                tape.pass_on([self._receives[k]])
                self._left.discard(k)
            yield k

    def finish(self) -> None:
        tape = self._transport.tape
        with self._outside:
            if not tape.plays:
                super().finish()
            tape.pass_on([self._receives[k] for k in sorted(self._left)])
            self._left.clear()

    def _deliver(self, sent: End, received: End) -> None:
        if self._transport.tape.keeps:  # what is kept matters, not when it came
            super()._deliver(sent, received)
        else:
            self._turns.send(sent, received, super()._deliver)

    def _note(self) -> _Post:
        return self._turns.post(self._transport.rank)


class _TimedGroup(Group):
    """Collectives that take the time of `Links.collective` once all members are there."""

    transport: VirtualTransport

    def __init__(
        self, transport: VirtualTransport, ranks: Sequence[int], groups: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__(transport, ranks)
        self._groups, self._number = tuple(groups), groups.index(self.ranks)
        self._calls = zip(repeat(transport.number_of_group()), count())
        # buffers move at once and for nothing; those of an all-to-all are messages like others
        self._data = MessageGroup(LocalTransport(transport.turns, transport.rank, None), ranks)
        self._messages = MessageGroup(transport, ranks)

    def timed(
        self,
        kind: str,
        buffers: Sequence[Buffer],
        start: Callable[[], Pending | None],
        filled: Sequence[Buffer],
    ) -> Pending:
        """What `start` begins, as a collective of its own.

        Parameters
        ----------
        kind : str
            One of `links.COLLECTIVES`.
        buffers : sequence of buffer
            Those whose sizes count.
        start : callable
        filled : sequence of buffer
            Those that have another content afterwards.
        """
        transport, turns = self.transport, self.transport.turns
        what = Collective(kind, self._groups, self._number, tuple(b.nbytes for b in buffers))
        plays, over, started = transport.tape.plays, set[int](), None
        with transport.outside:
            if not plays:
                key = (self.ranks, *next(self._calls))
                over = turns.join(key, transport.rank, what)
                started = start()

        def finish() -> None:
            with transport.outside:
                if started is not None:
                    started.wait()
                if not plays:
                    with turns.lock:
                        transport.wait(lambda: transport.rank in over, self._others_to_join)
                transport.tape.pass_on(filled)

        return Pending(finish)

    def _broadcast(self, data: Buffer, root: int) -> Pending:
        filled = [] if self.rank == root else [data]
        return self.timed("broadcast", [data], lambda: self._data._broadcast(data, root), filled)

    def _reduce_sum(self, data: Buffer, root: int) -> Pending:
        filled = [data] if self.rank == root else []
        return self.timed("broadcast", [data], lambda: self._data._reduce_sum(data, root), filled)

    def _allreduce_sum(self, data: Buffer) -> None:
        add = self._data._allreduce_sum
        self.timed("allreduce", [data], lambda: add(data), [data]).wait()

    def _allgather(self, pieces: Sequence[Buffer]) -> Pending:
        filled = [pieces[k] for k in self._others()]
        return self.timed("allgather", pieces, lambda: self._data._allgather(pieces), filled)

    def _reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        add = self._data._reduce_scatter_sum
        self.timed("allgather", pieces, lambda: add(pieces), [pieces[self.rank]]).wait()

    def _alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending:
        return self._messages._alltoall(sends, receives)


class Tape:
    """What arrives at a rank, in order: kept, or used again in place of what would arrive."""

    def __init__(self, keeps: bool = False) -> None:
        self.keeps, self.plays = keeps, False
        self._kept: list[Any] = []
        self._next = 0

    def begin(self) -> None:
        """Use again what is kept, from its beginning."""
        self.plays, self._next = True, 0

    def end(self) -> None:
        """Take again what arrives."""
        self.plays = False

    def clear(self) -> None:
        """Forget what is kept."""
        self._kept.clear()

    def value(self, find: Callable[[], Any]) -> Any:
        """What `find` returns, or has returned."""
        if self.plays:
            self._next += 1
            return self._kept[self._next - 1]
        found = find()
        if self.keeps:
            self._kept.append(found)
        return found

    def pass_on(self, buffers: Sequence[Buffer]) -> None:
        """Keep the content of buffers that have just been filled, or fill them as they were."""
        if self.plays:
            for buffer, content in zip(buffers, self.value(list), strict=True):
                buffer[...] = content
        elif self.keeps:
            self._kept.append(
                [b.copy() if isinstance(b, np.ndarray) else b.clone() for b in buffers]
            )


class _Outside:
    """A block of a rank that is no computing; what is between two of them is.

    Parameters
    ----------
    compute : callable
        Gets the seconds of every *step* of computing: from one block, or `mark`, to the next.
    cpu : callable
        As `run_virtual_ranks` has it.
    cost : float
        Seconds that a call of it takes itself, which do not count.
    """

    def __init__(
        self, compute: Callable[[float], None], cpu: Callable[[], float], cost: float
    ) -> None:
        self._compute, self._cpu, self._cost = compute, cpu, cost
        self._depth, self._since = 1, 0.0  # until the rank's first turn
        self._pace: Iterator[float] = iter(())

    def __enter__(self) -> None:
        self.mark()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._since = self._cpu()

    def mark(self) -> None:
        """End a step, and begin the next, if the rank computes."""
        if self._depth == 0:
            now = self._cpu()
            spent = max(0.0, now - self._since - self._cost)
            self._since = now
            self._compute(next(self._pace, spent))

    def pace(self, steps: Iterator[float]) -> None:
        """Let the next steps take so many seconds, whatever they take."""
        self._pace = steps

    @contextmanager
    def measured(self) -> Iterator[list[float]]:
        """A block, within others, that is computing again; its steps are only noted."""
        steps: list[float] = []
        depth, compute = self._depth, self._compute
        self._depth, self._compute, self._since = 0, steps.append, self._cpu()
        yield steps
        self.mark()
        self._depth, self._compute = depth, compute


class _VirtualClock(Clock):
    """A rank's clock: the time of phase "wait" is the network's, not that of calls of Python."""

    def __init__(self, now: Callable[[], float], outside: _Outside) -> None:
        super().__init__(now)
        self._outside = outside

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        with super().__call__(phase), self._outside if phase == "wait" else nullcontext():
            yield


class _Post:
    """One end of a message: when its rank came there, and what then follows."""

    def __init__(self) -> None:
        self.moment: Moment | None = None
        self.start: Callable[[], None] | None = None

    def here(self, moment: Moment) -> None:
        self.moment = moment
        if self.start is not None:
            self.start()


class _Call:
    """A collective: its members that have called it, that have come there, that are done."""

    def __init__(self) -> None:
        self.calls = 0
        self.joined: list[Moment] = []
        self.over: set[int] = set()


class _Meeting:
    """A collective of all ranks that takes no time: what they bring, and when they have come."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.came: list[Moment] = []
        self.over = False


class _Turns(Threads):
    """Lets one rank work at a time, whichever virtual time lets go on.

    Attributes
    ----------
    links : Links
    time : VirtualTime
    outside : list of context manager
        A block in which a rank computes nothing, for every rank.
    """

    def __init__(self, links: Links, cpu: Callable[[], float]) -> None:
        super().__init__(len(links.slowness))
        self.links = links
        self.time = VirtualTime(links, self._waited)
        cost = _cost_of(cpu)
        self.outside = [
            _Outside(partial(self.time.compute, rank), cpu, cost) for rank in range(self.size)
        ]
        self._turn: int | None = None  # the rank that works; None: scripts are played
        self._cause = Moment(0, 0.0)  # of what happens then
        self._done: dict[int, Callable[[], bool]] = {}  # what ranks wait for
        self._calls: dict[tuple[Any, ...], _Call] = {}  # collectives that some have not called
        self._meeting = _Meeting()
        self._begun = False

    def now(self, rank: int) -> float:
        """The clock of a rank, in seconds."""
        self.outside[rank].mark()
        return self.time.mark(rank)

    @contextmanager
    def taking_part(self, rank: int) -> Iterator[None]:
        with self.lock:
            if not self._begun:
                self._begun = True
                self._pass_on()
            self._await_turn(rank)
        outside = self.outside[rank]
        outside.__exit__()
        yield
        outside.__enter__()
        with self.lock:
            self._turn = None
            self.time.block(rank)
            self._pass_on()

    def wait(self, rank: int, done: Callable[[], bool], timeout: float) -> None:
        self.check()
        if not done():  # else it is done whenever the rank comes there
            self._done[rank] = done
            self._turn = None
            self.time.block(rank)
            self._pass_on()
            self._await_turn(rank)

    def wake(self, ranks: Iterable[int]) -> None:
        cause = self._cause if self._turn is None else Moment(self._turn, self.time.now)
        for rank in ranks:
            if self.time.is_waiting(rank):
                self._resume(rank, cause)

    def post(self, rank: int) -> _Post:
        """One end of a message, there when the rank comes to where it is now."""
        post = _Post()
        self.time.do(rank, lambda: post.here(Moment(rank, self.time.now)))
        return post

    def send(self, sent: End, received: End, deliver: Callable[[End, End], None]) -> None:
        """A message whose ends have found each other; the lock is held."""
        ends, size = (sent.note, received.note), sent.piece.data.nbytes

        def done(cause: Moment) -> None:
            self._cause = cause
            deliver(sent, received)

        def start() -> None:
            there, here = (end.moment for end in ends)
            if there is not None and here is not None:
                self.time.message(there, here, size, done)

        for end in ends:
            end.start = start

    def come(self, rank: int, value: Any) -> _Meeting:
        """Let a rank come to the present meeting; the lock is held."""
        meeting = self._meeting
        meeting.values[rank] = value
        if len(meeting.values) == self.size:
            self._meeting = _Meeting()

        def here() -> None:
            meeting.came.append(Moment(rank, self.time.now, "meeting"))
            if len(meeting.came) == self.size:
                meeting.over, self._cause = True, meeting.came[-1]
                self.wake(range(self.size))

        self.time.do(rank, here)
        return meeting

    def join(self, key: tuple[Any, ...], rank: int, what: Collective) -> set[int]:
        """Let a rank join a collective.

        Parameters
        ----------
        key : tuple
            The same at all members, and that of no other collective.
        rank : int
        what : Collective

        Returns
        -------
        set of int
            Members at which it is over; grows.
        """
        with self.lock:
            call = self._calls.setdefault(key, _Call())
            call.calls += 1
            if call.calls == len(what.ranks):
                del self._calls[key]

        def done(member: int, cause: Moment) -> None:
            self._cause = cause
            call.over.add(member)
            self.wake([member])

        def here() -> None:
            call.joined.append(Moment(rank, self.time.now, what.kind))
            if len(call.joined) == len(what.ranks):
                self.time.collective(call.joined, self.time.links.collective(what), done)

        self.time.do(rank, here)
        return call.over

    def _waited(self, rank: int) -> None:
        """A rank has played its script."""
        self._resume(rank, Moment(rank, self.time.now))

    def _resume(self, rank: int, cause: Moment) -> None:
        """Let a rank that waits go on if what it waits for is done."""
        if rank in self._done and self._done[rank]():
            del self._done[rank]
            self.time.resume(rank, cause)

    def _pass_on(self) -> None:
        """Let another rank work; the lock is held, and this one waits or has ended."""
        self._turn = self.time.next()
        if self._turn is not None:
            self.conditions[self._turn].notify()
        elif self._done:
            self.end_all(lambda what: f"waits for good for {what}")

    def _await_turn(self, rank: int) -> None:
        while self._turn != rank:
            self.check()
            self.conditions[rank].wait()
        self.check()


def _copied(buffer: Buffer) -> Buffer:
    return buffer.copy() if isinstance(buffer, np.ndarray) else buffer.clone()


def _cost_of(cpu: Callable[[], float]) -> float:
    """Seconds that a call takes by its own account."""
    begin = [cpu() for _ in range(SAMPLES)]
    return float(np.median(np.diff(begin)))
