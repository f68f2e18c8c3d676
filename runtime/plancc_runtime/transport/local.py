"""Ranks as threads of this process, without launcher or library; messages are copies in memory."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from plancc.errors import PlanccError
from plancc.threads import usable_cores
from plancc_runtime.transport.base import TIMEOUT, Channel, Group, Transport, TransportError
from plancc_runtime.transport.group import MessageGroup
from plancc_runtime.transport.messages import (
    Addressed,
    Buffer,
    MessagePiece,
    flat,
    name_ranks,
    overdue,
    pieces,
    traffic_of,
    unfinished,
)

GRACE = 5.0  # seconds that the other ranks have to end their work after one rank has failed

T = TypeVar("T")
E = TypeVar("E", bound="LocalTransport")


def run_ranks(
    num_ranks: int, work: Callable[[LocalTransport], T], timeout: float | None = TIMEOUT
) -> list[T]:
    """Call ``work(transport)`` in one thread for each rank; return the results in rank order.

    torch keeps settings such as `torch.no_grad` for each thread, so set them inside `work`. The
    message of a rank's PlanccError begins with the rank's number. After any other exception, a rank
    may still be computing: end the process.
    """
    group = Threads(num_ranks)
    return run_threads(group, lambda rank: LocalTransport(group, rank, timeout), work)


def run_threads(group: Threads, end: Callable[[int], E], work: Callable[[E], T]) -> list[T]:
    """Run ranks as `run_ranks` does; ``end(rank)`` makes a transport in the rank's thread."""
    import torch

    results: list[Any] = [None] * group.size

    def be(rank: int) -> None:
        transport = end(rank)
        try:
            # otherwise torch would run the backward passes of all ranks in one thread per device,
            # where they would wait for each other for ever
            torch.autograd.set_multithreading_enabled(False)
            results[rank] = work(transport)
        except BaseException as error:
            group.fail(error, None if error is transport.agreed_error else rank)
        with group.lock:
            group.running -= 1
            group.news.notify()

    threads = [
        threading.Thread(target=be, args=(rank,), name=f"rank {rank}", daemon=True)
        for rank in range(group.size)
    ]
    for thread in threads:
        thread.start()
    try:
        with group.lock:
            while group.running and group.error is None:
                group.news.wait()
    except BaseException as error:  # KeyboardInterrupt
        group.fail(error, None)
    if group.error is not None:
        deadline = time.monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        raise group.error
    return results


class LocalTransport(Transport):
    """The transport of one rank of `run_ranks`; all-reduces add in the order of the ranks.

    All ranks share the objects that `gather_bytes` returns.
    """

    def __init__(self, group: Threads, rank: int, timeout: float | None) -> None:
        super().__init__(rank, group.size, timeout)
        self._group, self.thread = group, rank

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        return LocalChannel(self, sends, receives)

    def subgroup(self, ranks: Sequence[int]) -> Group:
        return MessageGroup(self, ranks)

    def allreduce_sum(self, array: Buffer) -> None:
        self.traffic.add_reduction(self._allreduce(array, lambda x, y: x.add_(y)))

    def allreduce_max(self, array: Buffer) -> None:
        import torch

        self._allreduce(array, lambda x, y: torch.maximum(x, y, out=x))

    def _allreduce(self, array: Buffer, combine: Callable[[Any, Any], Any]) -> int:
        """Combine the arrays of all ranks into `array`, in rank order; return the size in words."""
        mine = _tensor(array)
        bounds = [len(mine) * r // self.size for r in range(self.size + 1)]
        share = slice(bounds[self.rank], bounds[self.rank + 1])
        first, *others = self._meet(mine)
        total = first[share].to(mine.device, copy=True)
        for other in others:
            combine(total, other[share].to(mine.device))
        for r, part in enumerate(self._meet(total)):
            mine[bounds[r] : bounds[r + 1]].copy_(part)
        return len(mine)

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        return np.array([row[self.rank] for row in self._meet(array.copy())], array.dtype)

    def gather_bytes(self, data: bytes) -> list[bytes]:
        return self._meet(data)

    def cores_per_rank(self) -> int:
        return max(1, len(usable_cores()) // self.size)

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)

    def wait(self, done: Callable[[], bool], what: Callable[[], str]) -> None:
        """Wait until ``done()`` is true; ``what()`` says what the rank waits for.

        The caller holds the lock. Raises TransportError after the timeout or another rank's error.
        """
        group, deadline = self._group, time.monotonic() + self.timeout
        group.waiting[self.rank] = what
        try:
            while not done():
                group.check()
                left = deadline - time.monotonic()
                if left <= 0:
                    group.end_all(self.timeout)
                group.conditions[self.rank].wait(min(left, threading.TIMEOUT_MAX))
        finally:
            del group.waiting[self.rank]

    def _meet(self, value: Any) -> list[Any]:
        """Wait until all ranks have called this method. Return the values of all ranks."""
        group, everyone = self._group, set(range(self.size))
        with group.lock:
            meeting = group.meeting
            meeting[self.rank] = value
            if len(meeting) == self.size:
                group.meeting = {}
                group.wake(everyone)
            self.wait(
                lambda: len(meeting) == self.size,
                lambda: f"{name_ranks(everyone - meeting.keys())} to reach a collective call",
            )
        return [meeting[rank] for rank in range(self.size)]


class Threads:
    """State that all ranks of a process share, under one lock."""

    def __init__(self, size: int) -> None:
        self.size = self.running = size
        self.lock = threading.Lock()
        self.conditions = [threading.Condition(self.lock) for _ in range(size)]
        self.news = threading.Condition(self.lock)  # a rank has ended
        self.meeting: dict[int, Any] = {}  # rank -> its value in the next collective call
        self.ends: dict[_Place, deque[_End]] = defaultdict(deque)
        self.waiting: dict[int, Callable[[], str]] = {}
        self.error: BaseException | None = None
        self._failed: int | None = None

    def wake(self, ranks: Iterable[int]) -> None:
        """Wake these ranks, so that they check what they wait for. The caller holds the lock."""
        for rank in ranks:
            self.conditions[rank].notify()

    def fail(self, error: BaseException, rank: int | None) -> None:
        """Make all ranks end after an error: of `rank` alone, or of all ranks if `rank` is None."""
        with self.lock:
            if self.error is not None:
                return
            self._failed = rank
            if rank is not None and isinstance(error, PlanccError):
                self.error = type(error)(f"rank {rank}: {error}")
                self.error.__cause__ = error
                for note in getattr(error, "__notes__", ()):
                    self.error.add_note(note)
            else:
                self.error = error
                if rank is not None:
                    error.add_note(f"in rank {rank}")
            self._spread()

    def end_all(self, timeout: float) -> NoReturn:
        """Make all ranks end after a timeout, with an error that says what each rank waits for.

        The caller holds the lock.
        """
        waiting = sorted(self.waiting.items())
        parts = [f"rank {rank}: {overdue(what(), timeout)}" for rank, what in waiting]
        self.error = TransportError("; ".join(parts))
        self._spread()
        raise self.error

    def check(self) -> None:
        """Raise TransportError if the ranks must end. The caller holds the lock."""
        if self.error is not None:
            who = "another rank" if self._failed is None else f"rank {self._failed}"
            raise TransportError(f"{who} has ended")

    def _spread(self) -> None:
        self.wake(range(self.size))
        self.news.notify()


class _Place(NamedTuple):
    """Key of a message, the same in every round: sender, receiver and tag."""

    sender: int
    receiver: int
    tag: int


class _End(NamedTuple):
    """One end of one message of one round: the sender's or the receiver's."""

    exchange: LocalChannel
    piece: MessagePiece
    outgoing: bool


class LocalChannel(Channel):
    """A channel between threads.

    The thread that comes last, sender or receiver, copies the message.
    """

    def __init__(self, transport: LocalTransport, sends: Addressed, receives: Addressed) -> None:
        self._transport, self._group = transport, transport._group
        words = transport.max_words
        inward = pieces([(peer, _tensor(buffer)) for peer, buffer in receives], words)
        self._outward = pieces([(peer, _tensor(buffer)) for peer, buffer in sends], words)
        self._traffic = traffic_of(sends, receives, words, transport.far)
        self._num_pieces = [len(parts) for parts in inward]
        self._inward = list(chain.from_iterable(inward))
        # state of the round, under the lock of the group
        self._missing: list[int] = []  # number of pieces of every receive that have not arrived
        self._receiving: Counter[int] = Counter()  # peer -> pieces that the peer still has to send
        self._sending: Counter[int] = Counter()  # peer -> pieces that the peer still has to take
        self._arrived: deque[int] = deque()

    def start(self) -> None:
        self._transport.traffic.add(self._traffic)
        self._missing = self._num_pieces.copy()
        self._arrived = deque(k for k, number in enumerate(self._missing) if number == 0)
        self._receiving = Counter(piece.peer for piece in self._inward)
        self._sending = Counter()
        rank = self._transport.rank
        for piece in self._inward:
            mine = _End(self, piece, False)
            other = self._meet(mine, _Place(piece.peer, rank, piece.tag))
            if other is not None:
                self._copy(other, mine)

    def send(self, k: int) -> None:
        rank = self._transport.rank
        for piece in self._outward[k]:
            self._sending[piece.peer] += 1
            mine = _End(self, piece, True)
            other = self._meet(mine, _Place(rank, piece.peer, piece.tag))
            if other is not None:
                self._copy(mine, other)

    def arrivals(self) -> Iterator[int]:
        for _ in self._num_pieces:
            with self._group.lock:
                self._transport.wait(lambda: bool(self._arrived), self._unfinished)
                k = self._arrived.popleft()
            yield k

    def finish(self) -> None:
        with self._group.lock:
            self._transport.wait(
                lambda: not (self._receiving.total() or self._sending.total()), self._unfinished
            )

    def _meet(self, mine: _End, place: _Place) -> _End | None:
        """Return a message's other end if it came first; else keep this end, with key `place`."""
        with self._group.lock:
            ends = self._group.ends[place]
            if ends and ends[0].outgoing != mine.outgoing:
                return ends.popleft()
            ends.append(mine)
            return None

    def _copy(self, sent: _End, received: _End) -> None:
        """Copy a message, and update the state of both ends."""
        received.piece.data.copy_(sent.piece.data)
        sender, receiver, k = sent.exchange, received.exchange, received.piece.number
        with self._group.lock:
            receiver._missing[k] -= 1
            if receiver._missing[k] == 0:
                receiver._arrived.append(k)
            receiver._receiving[received.piece.peer] -= 1
            sender._sending[sent.piece.peer] -= 1
            self._group.wake([sent.piece.peer, received.piece.peer])

    def _unfinished(self) -> str:
        return unfinished(+self._receiving, +self._sending)


def _tensor(buffer: Buffer) -> Any:
    """Return a flat tensor that shares the memory of the buffer."""
    import torch

    return torch.from_numpy(flat(buffer)) if isinstance(buffer, np.ndarray) else flat(buffer)
