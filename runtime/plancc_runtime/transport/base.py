"""The interface of all transports, channels and groups.

A *buffer* is a C-contiguous numpy array or tensor of the caller. A send buffer must not change
between `send` and `finish`; a receive buffer must not be used between `start` and its arrival. A
channel is made once for its buffers, and is used for any number of rounds:

    channel = transport.exchange(sends, receives)     lists of (peer, buffer); nothing moves yet
    channel.start()                                   begins a round: posts its receives
    channel.send(k)                                   starts sending sends[k]; in any order
    ...                                               compute
    for k in channel.arrivals(): ...                  receives[k] is complete (order of arrival)
    channel.finish()                                  ends the round; the send buffers are free

`send` never blocks. All sends of a round come before the first call of `arrivals`, because a
transport may launch all messages at the last send (NCCL). `arrivals` need not be called.

A *group* is made once by all of its members (`Transport.subgroup`). All of its methods are
collective, and buffers that are copied or added have the same size. A method `start_...` begins an
operation, and `wait` ends it; members end operations in the order in which they began them. If two
ranks share several groups, or have an exchange in flight, both begin all of this work in the same
order.

A group counts in `Transport.traffic` the words that must arrive, however MPI or torch.distributed
sends them. With g members:

    broadcast(m words)        the root sends m words to each of the g - 1 other members
    reduce_sum                every other member sends m words to the root
    allgather                 every member sends its own words to each other member
    reduce_scatter_sum        every member receives the words of its own piece from each other
                              member
    alltoall                  every member sends one buffer to each other member
    allreduce_sum(m words)    every member counts one reduction of m words, and no message

A buffer of more than `Transport.max_words` words is several messages; an empty buffer, or a buffer
to the member itself, is none.

After `Transport.timeout` seconds of waiting, a rank prints the ranks that it still waits for, and
the job ends (see `transport.watchdog`).
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
"""Largest number of options that a message names when the ranks have different values."""
MOST_VALUES = 4
"""Largest number of values that the message names for each of these options."""
MAX_WORDS_PER_MESSAGE = 2**31 - 1  # counts of MPI and NCCL are C ints


class TransportError(PlanccError):
    """Raised if another rank did not answer in time, or has ended."""


class Channel(ABC):
    """Fixed buffers that are sent and received in rounds (see the module's docstring)."""

    @abstractmethod
    def start(self) -> None:
        """Begin a round: post the receives."""

    @abstractmethod
    def send(self, k: int) -> None:
        """Start sending buffer k; it must not change before `finish`."""

    @abstractmethod
    def arrivals(self) -> Iterator[int]:
        """Yield the index k of each receive, as soon as receive k is complete."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all messages of the round are received and sent."""


class Pending:
    """An operation in flight. `wait` ends it; a second call of `wait` does nothing."""

    def __init__(self, finish: Callable[[], None] | None = None) -> None:
        self._finish = finish

    def wait(self) -> None:
        """Wait until this rank may use the operation's buffers again."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


class Group(ABC):
    """A group: some ranks of a transport, called members, and their collectives.

    A method raises ValueError on the one member that gives wrong buffers or a wrong `root`.
    Subclasses define the methods that begin with an underscore. These get flat buffers, need not
    count traffic, and are called only on members that send or receive words.

    Attributes:
        ranks: The members' ranks in the transport, ascending and distinct.
        rank: This member's position among the members.
    """

    def __init__(self, transport: Transport, ranks: Sequence[int]) -> None:
        self.transport, self.ranks = transport, tuple(ranks)
        if self.ranks != tuple(sorted(set(ranks))) or transport.rank not in self.ranks:
            raise ValueError(f"ranks {self.ranks}: must ascend, and contain {transport.rank}")
        self.rank, self.size = self.ranks.index(transport.rank), len(self.ranks)

    def start_broadcast(self, buffer: Buffer, root: int) -> Pending:
        """Start to copy the root's `buffer` to every member of the group.

        `root` is a position among the members.
        """
        [data] = self._checked([buffer], 1, root)
        to_others = [(k, data) for k in self._others()]
        sends, receives = (to_others, []) if self.rank == root else ([], [(root, data)])
        return self._broadcast(data, root) if self._counted(sends, receives) else Pending()

    def start_reduce_sum(self, buffer: Buffer, root: int) -> Pending:
        """Begin to replace the root's `buffer` by the sum of all members' buffers.

        The other members' buffers are undefined afterwards. `root` is a position among the members.
        """
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
        """Begin to copy ``pieces[k]`` of every member k, of any size, to all other members."""
        data, others = self._checked(pieces, self.size), self._others()
        sends, receives = [(k, data[self.rank]) for k in others], [(k, data[k]) for k in others]
        return self._allgather(data) if self._counted(sends, receives) else Pending()

    def reduce_scatter_sum(self, pieces: Sequence[Buffer]) -> None:
        """Replace ``pieces[k]`` at member k by the sum of all members' ``pieces[k]``, for every k.

        The other pieces at member k are undefined afterwards.
        """
        data, others = self._checked(pieces, self.size), self._others()
        if self._counted([(k, data[k]) for k in others], [(k, data[self.rank]) for k in others]):
            self._reduce_scatter_sum(data)

    def start_alltoall(self, sends: Sequence[Buffer], receives: Sequence[Buffer]) -> Pending:
        """Begin to send ``sends[k]`` to member k, and to receive ``receives[k]`` from member k."""
        out, back = self._checked(sends, self.size), self._checked(receives, self.size)
        if len(out[self.rank]) != len(back[self.rank]):
            raise ValueError("what a member sends to itself and gets from itself differ in size")
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
        """Return a phrase that says what a member waits for in a collective call."""
        return f"{name_ranks(self.ranks[k] for k in self._others())} to join a collective call"

    def _checked(self, buffers: Sequence[Buffer], number: int, root: int = 0) -> list[Buffer]:
        """Return the flat buffers; raise ValueError if their number or the root is wrong."""
        if len(buffers) != number or not 0 <= root < self.size:
            raise ValueError(
                f"cannot use {len(buffers)} buffers and root {root} for {self.size} ranks"
            )
        return [flat(buffer) for buffer in buffers]

    def _counted(self, sends: Addressed, receives: Addressed) -> bool:
        """Add this member's messages to the traffic. Return whether there is any message."""
        traffic = traffic_of(sends, receives, self.transport.max_words)
        self.transport.traffic.add(traffic)
        return traffic.messages_sent + traffic.messages_received > 0


class Transport(ABC):
    """A group of ranks that can exchange buffers, reduce arrays and agree on errors.

    Attributes:
        rank, size: This rank's number, and the number of ranks.
        traffic: Counters of this rank's messages. A round counts its messages when it starts.
        timeout: Longest wait in seconds; infinity for no limit.
        max_words: Longest message in words; a longer buffer is sent as several messages.
        say: Function that prints the last sentence of a rank before it ends the job.
        thread: This rank's number, if ranks are threads of one process; else None.
        agreed_error: The last error that `agree` raised on all ranks.
        far: For every rank, whether it is on a different node from this rank. `traffic` also counts
            the messages to these ranks separately. None if the nodes are unknown.
        is_timed: Whether the times of steps are those of a real run. If so, ranks may try several
            ways and keep the quickest. False in a rehearsal, which repeats steps in virtual time.
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
    is_timed: bool = True

    def __init__(self, rank: int, size: int, timeout: float | None = TIMEOUT) -> None:
        self.rank, self.size = rank, size
        self.traffic = Traffic()
        self.timeout = timeout or math.inf
        self.say = say

    @property
    def numbers(self) -> Sequence[int]:
        """The ranks' numbers in the whole job; errors name ranks by these numbers."""
        return range(self.size)

    @abstractmethod
    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        """Return a channel for these (peer, buffer) pairs. Not collective, and nothing moves yet.

        A round of the channel is collective among the ranks that exchange. Every send needs a
        receive of the same size. If rank a sends several buffers to rank b, the buffers are matched
        by their order: the k-th buffer for b in a's `sends` arrives in the k-th buffer from a in
        b's `receives`.
        """

    def swap(self, sends: Addressed, receives: Addressed) -> None:
        """Send the buffers in `sends`, and fill the buffers in `receives`. Collective.

        This is one round of a new channel (see `exchange`); it has ended when the method returns.
        """
        channel = self.exchange(sends, receives)
        channel.start()
        for k in range(len(sends)):
            channel.send(k)
        channel.finish()

    @abstractmethod
    def subgroup(self, ranks: Sequence[int]) -> Group:
        """Return a group that consists of the given ranks. Collective over *all* ranks.

        Every rank of the transport calls this method, each with the ranks of its own group. The
        groups of one call are disjoint. If a transport's library has no collectives for groups, the
        transport returns a `group.MessageGroup`.

        Parameters:
            ranks: The ranks of the group, ascending; this rank is one of them.

        Raises:
            ValueError: If the ranks are not ascending, or this rank is not among them.
        """

    @abstractmethod
    def allreduce_sum(self, array: Buffer) -> None:
        """Replace `array` on every rank by the sum over all ranks. Collective."""

    @abstractmethod
    def allreduce_max(self, array: Buffer) -> None:
        """Replace `array` on every rank by the maximum over all ranks.

        Collective. The call is not counted in `traffic`.
        """

    def largest(self, *numbers: int) -> list[int]:
        """Return, for every number, the maximum over all ranks.

        Collective. The call is not counted in `traffic`.
        """
        found = np.array(numbers, np.int64)
        self.allreduce_max(found)
        return list(found.tolist())

    def any(self, holds: bool) -> bool:
        """Return whether `holds` is true on any rank.

        Collective. The call is not counted in `traffic`.
        """
        return self.largest(holds) == [1]

    @abstractmethod
    def alltoall(self, array: np.ndarray) -> np.ndarray:
        """Send ``array[k]`` to rank k. Return an array with one entry from each rank. Collective.

        Entry k of the result is the entry that rank k sent to this rank.
        """

    @abstractmethod
    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Return all ranks' `data`, on every rank; their lengths may differ.

        Collective. The call is not counted in `traffic`.
        """

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's `value`, on every rank. Collective; for small values only.

        Parameters:
            value: A value that `values.packed` accepts: a plain value, an array of numbers, or a
                list, tuple or dict of these. Nothing is pickled, so that no rank executes code
                that another rank sends.
        """
        return [unpacked(each) for each in self.gather_bytes(packed(value))]

    def clock(self) -> Clock:
        """Return a new clock of this rank's time."""
        return Clock()

    def cores_per_rank(self) -> int:
        """Return the number of cores for each rank on this rank's machine, at least 1.

        Collective.
        """
        # a launcher may bind every rank to its own cores, or bind no rank: so the union is taken
        here, own = platform.node(), usable_cores()
        node = [cores for host, cores in self.gather((here, sorted(own))) if host == here]
        return max(1, min(len(set().union(*node)) // len(node), len(own)))

    def ranks_here(self) -> int:
        """Return the number of ranks on this machine, this rank included. Collective."""
        here = platform.node()
        return self.gather(here).count(here)

    def nodes_of_ranks(self) -> list[str]:
        """Return, for every rank, a name of its machine. Collective."""
        return self.gather(platform.node())

    def close(self) -> None:  # noqa: B027  most have nothing to do
        """Declare that this rank's work is done. Collective.

        No other method of the transport may be called afterwards. The ranks then wait at most
        `timeout` seconds for the other ranks to end.
        """

    @abstractmethod
    def abort(self, code: int) -> None:
        """End all ranks now, with exit status `code`, after a fault that only this rank knows."""

    def agree(self, error: PlanccError | None) -> None:
        """Raise an error on all ranks if any rank passes an error. Collective.

        The ranks first reduce one bit. If the bit is set, they exchange their errors. Then all
        ranks raise an error with the same message, which names the ranks at fault.

        Raises:
            PlanccError: The error has the class of the error on the first rank at fault.
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
        """Return on all ranks whether all ranks pass the same `value`. Collective."""
        digest = np.frombuffer(hashlib.sha256(value).digest(), np.int32).astype(np.int64)
        both = np.concatenate([digest, -digest])  # the maximum, and minus the minimum
        self.allreduce_max(both)
        return not (both[: len(digest)] + both[len(digest) :]).any()

    def ranks_by_value(self, value: str) -> dict[str, list[int]]:
        """Return every value that a rank passes, with the ranks that pass it. Collective.

        The ranks first compare digests. They exchange the values only if the digests differ.
        """
        if self.all_equal(value.encode(errors="backslashreplace")):
            return {value: list(self.numbers)}
        found: dict[str, list[int]] = {}
        for number, each in zip(self.numbers, self.gather(value), strict=True):
            found.setdefault(each, []).append(number)
        return found

    def check_alike(self, asked: Mapping[str, Any]) -> None:
        """Raise InputError unless the options `asked` have the same values on all ranks.

        Collective.

        Raises:
            InputError: On all ranks. The message says which ranks have which values.
        """
        texts = {name: _option_text(value) for name, value in asked.items()}
        found = self.ranks_by_value(json.dumps(texts))
        if len(found) == 1:
            return
        every = [(json.loads(text), ranks) for text, ranks in found.items()]
        sentences = []
        for name in dict.fromkeys(name for theirs, _ in every for name in theirs):
            ranks_of: dict[str, list[int]] = {}
            for theirs, ranks in every:
                ranks_of.setdefault(theirs.get(name, _option_text(None)), []).extend(ranks)
            if len(ranks_of) > 1:
                most_first = sorted(ranks_of.items(), key=lambda item: -len(item[1]))
                values = [f"{shown(text)} on {name_ranks(ranks)}" for text, ranks in most_first]
                sentences.append(f"`{name}` is {', '.join(values[:MOST_VALUES])}")
        said = "; ".join(sentences[:MOST_DIFFERENCES])
        if more := len(sentences[MOST_DIFFERENCES:]):
            said += f"; and {more} more differ{'s' * (more == 1)}"
        self.agree(InputError(f"the ranks have different options: {said}; give all ranks the same"))

    @contextmanager
    def agreement(self) -> Iterator[None]:
        """Context manager: if its statements raise an error on any rank, all ranks raise an error.

        At the end, all ranks call `agree`, so the context is collective; its statements must not
        call anything collective. Lack of memory counts as an error. Any other exception that is not
        a `PlanccError` is a defect: it is raised at once, and the caller ends the job by `abort`.
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


def _option_text(value: Any) -> str:
    """Return the value of an option as a string, for comparison and for messages."""
    if value is None:
        return "not given"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={value[name]}" for name in sorted(value)) or "none"
    return str(value.tolist() if isinstance(value, np.ndarray) else value)


def _error_class(name: str) -> type[PlanccError]:
    """Return the error class with this name; `PlanccError` if this rank has no such class."""
    known = [PlanccError]
    for kind in known:
        known += kind.__subclasses__()
    return next((kind for kind in known if kind.__name__ == name), PlanccError)


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether Python, or torch on any device, ran out of memory."""
    if isinstance(error, RuntimeError):
        return "DefaultCPUAllocator" in str(error) or "out of memory" in str(error)
    return isinstance(error, MemoryError)


def say(sentence: str) -> None:
    """Write lines to stderr in one call, so that lines of torchrun's ranks do not mix."""
    lines = [message(line) for line in sentence.splitlines()]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
