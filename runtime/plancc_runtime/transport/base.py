"""What every transport offers.

A *buffer* is a C-contiguous numpy array or tensor; it belongs to the caller, who leaves it alone
while a round is under way. An exchange is made once for its buffers and played any number of times:

    exchange = transport.exchange(sends, receives)    lists of (peer, buffer); nothing moves yet
    exchange.start()                                  a round begins: its receives are posted
    exchange.send(k)                                  sends[k] is packed; never blocks; any order
    ...                                               compute
    for k in exchange.arrivals(): ...                 receives[k] is complete (order of arrival)
    exchange.finish()                                 all is here, the send buffers are free again

Every send of a round is handed over before the first call of `arrivals`: transports that move all
messages of a round in one group (NCCL) launch it with the last send. If the order of arrival does
not matter, call `finish` alone.

A *group* is made once by all of its members (`Transport.subgroup`), and used any number of times.
All its methods are collective among the members, who call the same ones in the same order; buffers
are contiguous, and of the same size where the operation says so. Operations that `start` begins are
finished by `wait`; a member may have several under way, and finishes them in the order in which it
started them. Two ranks with several groups in common, or with messages of an exchange under way,
begin all that they do together in the same order.

A group counts in `Transport.traffic` what has to arrive, however the library routes it; g members:

    broadcast(m words)        the root sends m words to each of the g - 1 others, who receive them
    reduce_sum                the same backward: every other member sends m words to the root
    allgather                 every member sends its own words to each of the others
    reduce_scatter_sum        the same backward
    alltoall                  as an exchange of messages
    allreduce_sum(m words)    one reduction of m words at every member (as `Transport`'s)

A message is one buffer from one rank to another, or several when it has more than
`Transport.max_words`; empty ones do not count, and none travels from a member to itself.

No wait is for ever: after `Transport.timeout` seconds a rank says whom it still waits for, and the
job ends (see `transport.watchdog`).
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from plancc.clock import Clock
from plancc.errors import InputError, PlanccError
from plancc.text import message, shown
from plancc.threads import usable_cores
from plancc_runtime.transport.messages import (
    Addressed,
    Buffer,
    Traffic,
    flat,
    name_ranks,
    traffic_of,
)
from plancc_runtime.transport.values import packed, unpacked

TIMEOUT = 600.0  # seconds
MOST_DIFFERENCES = 3
"""Options that differ between ranks and are named in one sentence."""
MOST_VALUES = 4
"""Values of such an option that are named."""
MAX_WORDS_PER_MESSAGE = 2**31 - 1  # counts of MPI and NCCL are C ints


class TransportError(PlanccError):
    """A rank did not answer in time, or is gone."""


class Channel(ABC):
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

    A member raises ValueError by itself for a buffer that is not contiguous, for more or fewer
    buffers than members, and for a root that is no member's place.

    The methods with an underscore get flat buffers and count nothing. They are called only if the
    member sends or receives something; single buffers of several may be empty.

    Attributes:
        ranks: The members' ranks in the transport; ascending and distinct.
        rank (int): This member's place among them.
        size (int): Number of members.
    """

    def __init__(self, transport: Transport, ranks: Sequence[int]) -> None:
        self.transport, self.ranks = transport, tuple(ranks)
        if self.ranks != tuple(sorted(set(ranks))) or transport.rank not in self.ranks:
            raise ValueError(f"ranks {self.ranks}: not ascending, or without {transport.rank}")
        self.rank, self.size = self.ranks.index(transport.rank), len(self.ranks)

    def start_broadcast(self, buffer: Buffer, root: int) -> Pending:
        """Give every member the root's `buffer`. `root` is a place among the members."""
        [data] = self._checked([buffer], 1, root)
        to_others = [(k, data) for k in self._others()]
        sends, receives = (to_others, []) if self.rank == root else ([], [(root, data)])
        return self._broadcast(data, root) if self._counted(sends, receives) else Pending()

    def start_reduce_sum(self, buffer: Buffer, root: int) -> Pending:
        """Replace the root's `buffer` by the sum over the members; the others' become undefined."""
        [data] = self._checked([buffer], 1, root)
        from_others = [(k, data) for k in self._others()]
        sends, receives = ([], from_others) if self.rank == root else ([(root, data)], [])
        return self._reduce_sum(data, root) if self._counted(sends, receives) else Pending()

    def allreduce_sum(self, buffer: Buffer) -> None:
        """Replace every member's `buffer` by the sum over the members."""
        data = flat(buffer)
        self.transport.traffic.add_reduction(len(data))
        if self.size > 1 and len(data):
            self._allreduce_sum(data)

    def start_allgather(self, pieces: Sequence[Buffer]) -> Pending:
        """``pieces[k]`` of member k goes to all; sizes may differ, and are the same everywhere."""
        data, others = self._checked(pieces, self.size), self._others()
        sends, receives = [(k, data[self.rank]) for k in others], [(k, data[k]) for k in others]
        return self._allgather(data) if self._counted(sends, receives) else Pending()

    def reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        """Replace ``pieces[k]`` of member k by the sum over all members' ``pieces[k]``.

        The other pieces become undefined.
        """
        data, others = self._checked(pieces, self.size), self._others()
        if self._counted([(k, data[k]) for k in others], [(k, data[self.rank]) for k in others]):
            self._reduce_scatter_sum(data)

    def start_alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending:
        """``sends[k]`` of this member becomes ``receives[this member]`` of member k.

        This member's own piece is copied.
        """
        out, back = self._checked(sends, self.size), self._checked(receives, self.size)
        if len(out[self.rank]) != len(back[self.rank]):
            raise ValueError("a member's piece for itself has two sizes")
        back[self.rank][...] = out[self.rank]
        others = self._others()
        counted = self._counted([(k, out[k]) for k in others], [(k, back[k]) for k in others])
        return self._alltoall(out, back) if counted else Pending()

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
        return f"{name_ranks(self.ranks[k] for k in self._others())} to join a collective call"

    def _checked(self, buffers: Sequence[Buffer], number: int, root: int = 0) -> list[Buffer]:
        """The buffers, flat; ValueError if their number or the root is wrong."""
        if len(buffers) != number or not 0 <= root < self.size:
            raise ValueError(
                f"{len(buffers)} buffers and root {root} for a group of {self.size} members"
            )
        return [flat(buffer) for buffer in buffers]

    def _counted(self, sends: Addressed, receives: Addressed) -> bool:
        """Count messages of this member; whether there are any."""
        traffic = traffic_of(sends, receives, self.transport.max_words)
        self.transport.traffic.add(traffic)
        return traffic.messages_sent + traffic.messages_received > 0


class Transport(ABC):
    """A group of ranks that can exchange buffers, reduce arrays and agree on errors.

    Attributes:
        rank, size: Number of this rank, and of all.
        traffic: The messages of a round count when it starts.
        timeout: Longest wait in seconds; infinity for no limit.
        max_words: Longest message in words; a longer buffer travels as several.
        say: Prints the last sentence of a rank that ends the job by itself.
        thread: This rank's number in its process; None if it is the only rank there.
        agreed_error: The last error that `agree` raised, and with it every rank.
        far: Whether every rank is on another node, where that is known: for `traffic`.
    """

    rank: int
    size: int
    traffic: Traffic
    timeout: float
    max_words: int = MAX_WORDS_PER_MESSAGE
    say: Callable[[str], None]
    thread: int | None = None
    agreed_error: PlanccError | None = None
    far: Sequence[bool] | None = None

    def __init__(self, rank: int, size: int, timeout: float | None = TIMEOUT) -> None:
        self.rank, self.size = rank, size
        self.traffic = Traffic()
        self.timeout = timeout or math.inf
        self.say = say

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers by which the user knows the ranks: those of the whole job."""
        return range(self.size)

    @abstractmethod
    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        """An exchange of these buffers, each with its peer; not collective, moves nothing yet.

        Its rounds are collective among the ranks that exchange: every send needs its receive, of
        the same size, and two messages between the same two ranks arrive in the order in which
        they stand in `sends`, which is their order in the peer's `receives`.
        """

    def swap(self, sends: Addressed, receives: Addressed) -> None:
        """Play one round of an exchange of these buffers. Collective."""
        channel = self.exchange(sends, receives)
        channel.start()
        for k in range(len(sends)):
            channel.send(k)
        channel.finish()

    @abstractmethod
    def subgroup(self, ranks: Sequence[int]) -> Group:
        """Some ranks, for collectives of their own. Collective among *all* ranks.

        Every rank calls this equally often, with the group that it is in: the groups of one call
        are disjoint. A transport without collectives of its own returns a `group.MessageGroup`.

        Parameters:
            ranks: Ascending, this rank among them.

        Raises:
            ValueError: If the ranks are not ascending, or this one is not among them.
        """

    @abstractmethod
    def allreduce_sum(self, array: Buffer) -> None:
        """Replace `array` on every rank by the sum over all ranks. Collective."""

    @abstractmethod
    def allreduce_max(self, array: Buffer) -> None:
        """Replace `array` on every rank by the maximum over all ranks. Collective; not counted."""

    def largest(self, *numbers: int) -> list[int]:
        """The maximum of every number over all ranks. Collective; not counted."""
        found = np.array(numbers, np.int64)
        self.allreduce_max(found)
        return list(found.tolist())

    def any(self, holds: bool) -> bool:
        """Whether something holds on any rank. Collective; not counted."""
        return self.largest(holds) == [1]

    @abstractmethod
    def alltoall(self, array: np.ndarray) -> np.ndarray:
        """Send ``array[k]`` to rank k; returns what every rank sent here. Collective."""

    @abstractmethod
    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Every rank's `data`, on every rank; lengths may differ. Collective; not counted."""

    def gather(self, value: Any) -> list[Any]:
        """Every rank's `value`, on every rank. Collective; small values only.

        Parameters:
            value (plain value, array of numbers, or a list, tuple or dict of such): What
                `values.packed` takes. It travels in a fixed layout: nothing that a rank sends is
                executed by another.
        """
        return [unpacked(each) for each in self.gather_bytes(packed(value))]

    def clock(self) -> Clock:
        """A new clock of this rank's time."""
        return Clock()

    def cores_per_rank(self) -> int:
        """Cores this rank may use if all ranks of its machine share fairly. Collective."""
        # the launcher may have bound every rank to cores of its own, or none: the union says which
        here, own = platform.node(), usable_cores()
        node = [cores for host, cores in self.gather((here, sorted(own))) if host == here]
        return max(1, min(len(set().union(*node)) // len(node), len(own)))

    def ranks_here(self) -> int:
        """Ranks on this machine, this one included. Collective."""
        here = platform.node()
        return self.gather(here).count(here)

    def nodes_of_ranks(self) -> list[str]:
        """A name of the machine of every rank. Collective."""
        return self.gather(platform.node())

    def close(self) -> None:  # noqa: B027  most have nothing to do
        """Say that the work is done: from here on the ranks wait for each other's end at most
        `timeout` seconds. Collective, and the last thing that a job does with the transport."""

    @abstractmethod
    def abort(self, code: int) -> None:
        """End all ranks now; the last resort when only one rank knows that something is wrong."""

    def agree(self, error: PlanccError | None) -> None:
        """Raise on all ranks if any rank brings an error. Collective.

        One bit is reduced; only if it is set do the ranks tell each other what happened, and
        raise the same sentence, naming the ranks at fault.

        Raises:
            PlanccError: An error of the class that the first rank at fault brought.
        """
        failed = np.array([error is not None], np.int8)
        self.allreduce_max(failed)
        if not failed[0]:
            return
        notes = getattr(error, "__notes__", [])
        own = None if error is None else (type(error).__name__, str(error), notes)
        every = zip(self.numbers, self.gather(own), strict=True)
        reports = [(r, *e) for r, e in every if e is not None]
        ranks_of: dict[str, list[int]] = {}
        for rank, _, text, _ in reports:
            ranks_of.setdefault(text, []).append(rank)
        if self.size == 1 or (len(ranks_of) == 1 and len(reports) == self.size):
            sentence = reports[0][2]
        else:
            parts = [f"{name_ranks(ranks)}: {text}" for text, ranks in ranks_of.items()]
            sentence = "; ".join(parts[:3])
            if len(parts) > 3:
                sentence += f"; and {len(parts) - 3} more"
        self.agreed_error = _error_class(reports[0][1])(sentence)
        for note in reports[0][3]:
            self.agreed_error.add_note(note)
        raise self.agreed_error

    def all_equal(self, value: bytes) -> bool:
        """Whether all ranks bring the same `value`; the same answer on all. Collective."""
        digest = np.frombuffer(hashlib.sha256(value).digest(), np.int32).astype(np.int64)
        both = np.concatenate([digest, -digest])  # the maximum, and minus the minimum
        self.allreduce_max(both)
        return not (both[: len(digest)] + both[len(digest) :]).any()

    def ranks_by_value(self, value: str) -> dict[str, list[int]]:
        """Which ranks bring which `value`; one entry if all bring the same. Collective.

        Digests are compared; only if they differ do the ranks tell each other the values.
        """
        if self.all_equal(value.encode(errors="backslashreplace")):
            return {value: list(self.numbers)}
        found: dict[str, list[int]] = {}
        for number, each in zip(self.numbers, self.gather(value), strict=True):
            found.setdefault(each, []).append(number)
        return found

    def check_alike(self, asked: Mapping[str, Any]) -> None:
        """Check that all ranks are asked the same: values of options by name. Collective.

        Raises:
            InputError: On all ranks; it says which ranks have which values.
        """
        texts = {name: _as_text(value) for name, value in asked.items()}
        found = self.ranks_by_value(json.dumps(texts))
        if len(found) == 1:
            return
        every = [(json.loads(text), ranks) for text, ranks in found.items()]
        sentences = []
        for name in dict.fromkeys(name for theirs, _ in every for name in theirs):
            ranks_of: dict[str, list[int]] = {}
            for theirs, ranks in every:
                ranks_of.setdefault(theirs.get(name, _as_text(None)), []).extend(ranks)
            if len(ranks_of) > 1:
                most_first = sorted(ranks_of.items(), key=lambda item: -len(item[1]))
                values = [f"{shown(text)} on {name_ranks(ranks)}" for text, ranks in most_first]
                sentences.append(f"`{name}` is {', '.join(values[:MOST_VALUES])}")
        said = "; ".join(sentences[:MOST_DIFFERENCES])
        if more := len(sentences[MOST_DIFFERENCES:]):
            said += f"; and {more} more differ{'s' * (more == 1)}"
        self.agree(InputError(f"the ranks have other options: {said}; give all ranks the same"))

    @contextmanager
    def agreement(self) -> Iterator[None]:
        """A block in which one rank alone may fail: `agree` on its error at the end. Collective.

        The block must not call anything collective. Lack of memory counts as an error. Any other
        exception that is no `PlanccError` is a defect and passes at once: the caller ends the job
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


def _as_text(value: Any) -> str:
    """The value of an option, for comparison and for messages."""
    if value is None:
        return "not given"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={value[name]}" for name in sorted(value)) or "none"
    return str(value.tolist() if isinstance(value, np.ndarray) else value)


def _error_class(name: str) -> type[PlanccError]:
    """The error of that name; a `PlanccError` if this rank knows none."""
    known = [PlanccError]
    for kind in known:
        known += kind.__subclasses__()
    return next((kind for kind in known if kind.__name__ == name), PlanccError)


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether Python, or torch on any device, found no memory."""
    if isinstance(error, RuntimeError):
        return "DefaultCPUAllocator" in str(error) or "out of memory" in str(error)
    return isinstance(error, MemoryError)


def say(sentence: str) -> None:
    """Write a line to stderr in one call: torchrun's ranks write unbuffered, and theirs mingle."""
    lines = [message(line) for line in sentence.splitlines()]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
