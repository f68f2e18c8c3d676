"""What every transport offers. Knows ranks and buffers; must not know rows, layers or files.

A *buffer* is a C-contiguous numpy array or tensor; it belongs to the caller, who leaves it alone
while a round is under way. An exchange is made once for its buffers and played any number of times:

    exchange = transport.exchange(sends, receives)    lists of (peer, buffer); nothing moves yet
    exchange.start()                                  a round begins: its receives are posted
    exchange.send(k)                                  sends[k] is packed; never blocks; any order
    ...                                               compute
    for k in exchange.arrivals(): ...                 receives[k] is complete (order of arrival)
    exchange.finish()                                 all is here, the send buffers are free again

Every send of a round is handed over before the first call of `arrivals`: transports that move all
messages of a round in one group (NCCL) launch it with the last send. Who needs no order of arrival
calls `finish` alone.

No wait is for ever: after `Transport.timeout` seconds a rank says whom it still waits for, and the
job ends (see `transport.watchdog`).
"""

from __future__ import annotations

import hashlib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plancc.errors import PlanccError

if TYPE_CHECKING:
    from plancc_runtime.transport.group import Group

Buffer = Any  # numpy.ndarray | torch.Tensor, without importing torch here
TIMEOUT = 600.0  # seconds
MAX_WORDS_PER_MESSAGE = 2**31 - 1  # counts of MPI and NCCL are C ints


class TransportError(PlanccError):
    """A rank did not answer in time, or is gone."""


@dataclass
class Traffic:
    """What one rank has handed to the network so far; a word is one number, whatever its dtype.

    The reductions (`Transport.allreduce_sum`) are counted apart from the messages of exchanges.
    """

    messages_sent: int = 0
    words_sent: int = 0
    bytes_sent: int = 0
    messages_received: int = 0
    words_received: int = 0
    bytes_received: int = 0
    reductions: int = 0
    words_reduced: int = 0

    def as_array(self) -> np.ndarray:
        """The counters as int64[8], in the order of the fields."""
        return np.array([getattr(self, f.name) for f in fields(self)], np.int64)


class Piece(NamedTuple):
    """What travels at once: a buffer, or a part of one that is too long for a message.

    Attributes
    ----------
    number : int
        Of the send or receive it belongs to.
    peer : int
    tag : int
        Counts the pieces between the same two ranks; the same at both ends.
    data : Buffer[words]
    """

    number: int
    peer: int
    tag: int
    data: Buffer


def pieces(buffers: Iterable[tuple[int, Buffer]], max_words: int) -> list[Piece]:
    """The messages for these buffers, flat and of at most `max_words` words; none for no words.

    Raises
    ------
    ValueError
        If a buffer is not contiguous.
    """
    tags: dict[int, int] = {}
    result = []
    for number, (peer, buffer) in enumerate(buffers):
        data, tag = flat(buffer), tags.get(peer, 0)
        whole = len(data) <= max_words
        for start in range(0, len(data), max_words):
            part = data if whole else data[start : start + max_words]
            result.append(Piece(number, peer, tag, part))
            tag += 1
        tags[peer] = tag
    return result


def flat(buffer: Buffer) -> Buffer:
    """One dimension, the same memory.

    Raises
    ------
    ValueError
        If the buffer is not contiguous.
    """
    numpy = isinstance(buffer, np.ndarray)
    if not (buffer.flags.c_contiguous if numpy else buffer.is_contiguous()):
        raise ValueError("a buffer must be contiguous")
    return buffer.reshape(-1)


class Exchange(ABC):
    """Rounds of messages over fixed buffers (see the module's docstring)."""

    @abstractmethod
    def start(self) -> None:
        """Begin a round: post the receives."""

    @abstractmethod
    def send(self, k: int) -> None:
        """Start sending buffer k; it must not change before `finish`."""

    @abstractmethod
    def arrivals(self) -> Iterator[int]:
        """Yield the number of every receive, each as soon as it is complete."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until every message of the round is done, received or sent."""


class RoundTraffic:
    """What one round of an exchange adds to the traffic of its rank."""

    def __init__(self, sends: Sequence[Piece], receives: Sequence[Piece]) -> None:
        self._totals = [
            total
            for side in (sends, receives)
            for total in (
                len(side),
                sum(len(piece.data) for piece in side),
                sum(piece.data.nbytes for piece in side),
            )
        ]

    def add_to(self, traffic: Traffic) -> None:
        messages_out, words_out, bytes_out, messages_in, words_in, bytes_in = self._totals
        traffic.messages_sent += messages_out
        traffic.words_sent += words_out
        traffic.bytes_sent += bytes_out
        traffic.messages_received += messages_in
        traffic.words_received += words_in
        traffic.bytes_received += bytes_in


class Transport(ABC):
    """A group of ranks that can exchange buffers, reduce arrays and agree on errors.

    Attributes
    ----------
    rank, size : int
        Number of this rank, and of all.
    traffic : Traffic
        The messages of a round count when it starts.
    timeout : float
        The most seconds that one wait may last; infinite: no limit.
    max_words : int
        A longer buffer travels as several messages.
    say : callable of str
        Prints what this rank says when it ends the job by itself.
    thread : int or None
        Number of this rank among the ranks of its process; None: it is the only one.
    agreed_error : PlanccError or None
        The last error that `agree` raised: it is known to be raised by every rank.
    """

    rank: int
    size: int
    traffic: Traffic
    timeout: float
    max_words: int = MAX_WORDS_PER_MESSAGE
    say: Callable[[str], None]
    thread: int | None = None
    agreed_error: PlanccError | None = None

    def __init__(self, rank: int, size: int, timeout: float | None = TIMEOUT) -> None:
        self.rank, self.size = rank, size
        self.traffic = Traffic()
        self.timeout = timeout or math.inf
        self.say = say

    @property
    def numbers(self) -> Sequence[int]:
        """What the user knows the ranks by; of some ranks of a larger transport, its numbers."""
        return range(self.size)

    @abstractmethod
    def exchange(
        self, sends: Sequence[tuple[int, Buffer]], receives: Sequence[tuple[int, Buffer]]
    ) -> Exchange:
        """An exchange of these buffers, each with its peer; not collective, moves nothing yet.

        Its rounds are collective among the ranks that exchange: every send needs its receive, of
        the same size, and two messages between the same two ranks arrive in the order in which
        they stand in `sends`, which is their order in the peer's `receives`.
        """

    def subgroup(self, ranks: Sequence[int]) -> Group:
        """Some ranks, for collectives of their own. Collective among *all* ranks.

        Every rank calls this equally often, with the group that it is in: the groups of one call
        are disjoint. Transports override it where they have collectives of their own.

        Parameters
        ----------
        ranks : sequence of int
            Ascending, this rank among them.

        Returns
        -------
        Group

        Raises
        ------
        ValueError
            If the ranks are not ascending, or this one is not among them.
        """
        from plancc_runtime.transport.group import MessageGroup

        return MessageGroup(self, ranks)

    @abstractmethod
    def allreduce_sum(self, array: Buffer) -> None:
        """Replace `array` on every rank by the sum over all ranks. Collective."""

    @abstractmethod
    def allreduce_max(self, array: Buffer) -> None:
        """Replace `array` on every rank by the maximum over all ranks. Collective; not counted."""

    @abstractmethod
    def alltoall(self, array: np.ndarray) -> np.ndarray:
        """Number k of `array` (one per rank) goes to rank k: what each sent here. Collective."""

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """Every rank's `value`, on every rank. Collective; small Python objects only."""

    @abstractmethod
    def cores_per_rank(self) -> int:
        """Cores this rank may use if all ranks of its machine share fairly. Collective."""

    @abstractmethod
    def abort(self, code: int) -> None:
        """End all ranks now; the last resort when only one rank knows that something is wrong."""

    def agree(self, error: PlanccError | None) -> None:
        """Raise on all ranks if any rank brings an error. Collective.

        One bit is reduced; only if it is set do the ranks tell each other what happened, and
        raise the same sentence, naming the ranks at fault.

        Raises
        ------
        PlanccError
            Of the class that the first rank at fault brought.
        """
        failed = np.array([error is not None], np.int8)
        self.allreduce_max(failed)
        if not failed[0]:
            return
        every = zip(self.numbers, self.gather(error), strict=True)
        reports = [(r, e) for r, e in every if e is not None]
        ranks_of: dict[str, list[int]] = {}
        for rank, report in reports:
            ranks_of.setdefault(str(report), []).append(rank)
        if self.size == 1 or (len(ranks_of) == 1 and len(reports) == self.size):
            sentence = str(reports[0][1])
        else:
            parts = [f"{name(ranks)}: {text}" for text, ranks in ranks_of.items()]
            sentence = "; ".join(parts[:3])
            if len(parts) > 3:
                sentence += f"; and {len(parts) - 3} more"
        self.agreed_error = type(reports[0][1])(sentence)
        raise self.agreed_error

    def all_equal(self, value: bytes) -> bool:
        """Whether all ranks bring the same `value`; the same answer on all. Collective."""
        digest = np.frombuffer(hashlib.sha256(value).digest(), np.int32).astype(np.int64)
        both = np.concatenate([digest, -digest])  # the maximum, and minus the minimum
        self.allreduce_max(both)
        return not (both[: len(digest)] + both[len(digest) :]).any()

    @contextmanager
    def agreement(self) -> Iterator[None]:
        """A block in which one rank alone may fail: `agree` on its error at the end. Collective.

        The block must not call anything collective. Lack of memory counts as an error; whatever
        else is not a `PlanccError` passes at once: it is a defect, and the caller ends the job
        with `abort`.
        """
        error: PlanccError | None = None
        try:
            yield
        except PlanccError as caught:
            error = caught
        except Exception as caught:
            if not is_lack_of_memory(caught):
                raise
            error = PlanccError("out of memory")
        self.agree(error)


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether Python, or torch on any device, found no memory."""
    if isinstance(error, RuntimeError):
        return "DefaultCPUAllocator" in str(error) or "out of memory" in str(error)
    return isinstance(error, MemoryError)


def name(ranks: Iterable[int]) -> str:
    """ "rank 3", "ranks 1, 2, 5"; ascending, each once, a long list cut short."""
    ranks = sorted(set(ranks))
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def unfinished(receiving: Iterable[int], sending: Iterable[int]) -> str:
    """What an exchange waits for: "a message from rank 1 and ranks 2, 3 to take one"."""
    receiving, sending = set(receiving), set(sending)
    parts = []
    if receiving:
        parts.append(f"a message from {name(receiving)}")
    if sending:
        parts.append(f"{name(sending)} to take one")
    return " and ".join(parts)


def overdue(what: str, timeout: float) -> str:
    """What a rank says whose wait outlasted the timeout."""
    return f"timeout of {timeout:g} s: still waiting for {what}"


def say(sentence: str) -> None:
    """Write a line to stderr in one call: torchrun's ranks write unbuffered, and theirs mingle."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
