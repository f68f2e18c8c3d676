"""The transport over torch.distributed: gloo for host memory, NCCL for CUDA tensors.

NCCL matches messages only by their order, and runs a batch of messages, an *NCCL group*, at once.
So all ranks launch the messages of a round in the order of the distance (receiver - sender) modulo
the number of ranks, and cut NCCL groups at the same distances.

Groups of ranks (`Transport.subgroup`) use the library's collectives only for broadcasts and
reductions, because gloo's other collectives need pieces of one size. On a device, one stream has
all operations of groups, because several communicators of NCCL must not run at once.
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from itertools import chain, groupby
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.distributed as dist

from plancc.errors import BackendUnavailable
from plancc.text import first_line
from plancc_runtime.transport.base import TIMEOUT, Channel, Pending, Transport, TransportError
from plancc_runtime.transport.group import LibraryGroup
from plancc_runtime.transport.host import HostBuffers, host_memory, on_device
from plancc_runtime.transport.messages import (
    Addressed,
    Buffer,
    MessagePiece,
    another_rank,
    flat,
    name_ranks,
    pieces,
    split,
    traffic_of,
)
from plancc_runtime.transport.watchdog import GRACE, Watchdog

BACKENDS = {"gloo": "gloo", "nccl": "cpu:gloo,cuda:nccl"}
DISTANCES = 64  # number of distances from sender to receiver in one NCCL group
TAGS = 16  # most pieces between the same two ranks in one NCCL group


def best_backend(ranks_here: int | None = None) -> str:
    """Return "nccl" if every rank of this machine has a separate CUDA device, else "gloo".

    NCCL does not allow two ranks on one device.
    """
    there = torch.cuda.is_available() and dist.is_nccl_available()
    return "nccl" if there and (ranks_here or 1) <= torch.cuda.device_count() else "gloo"


class Meeting(NamedTuple):
    """A rank's number, the number of ranks, and the address and port where rank 0 listens."""

    rank: int
    size: int
    address: str
    port: int


def join(
    backend: str,
    meeting: Meeting,
    local_rank: int,
    timeout: float | None = TIMEOUT,
    ranks_here: int | None = None,
) -> None:
    """Start torch.distributed with backend "gloo" or "nccl". Collective.

    With NCCL, the rank's device is number `local_rank`, modulo the number of devices.
    """
    if backend == "nccl" and best_backend() != "nccl":
        raise BackendUnavailable("transport nccl needs a CUDA device and a torch built with NCCL")
    if backend == "nccl" and best_backend(ranks_here) != "nccl":
        raise BackendUnavailable(
            f"transport nccl needs a CUDA device for every rank, but this machine has "
            f"{torch.cuda.device_count()} for {ranks_here} ranks; choose gloo or mpi, whose ranks "
            "may share devices"
        )
    if backend == "nccl":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
    rank, size, address, port = meeting
    try:
        dist.init_process_group(
            BACKENDS[backend],
            init_method=f"tcp://{address}:{port}",
            rank=rank,
            world_size=size,
            timeout=_timedelta(_later(timeout)),
        )
    except (RuntimeError, ValueError) as error:
        raise BackendUnavailable(
            f"rank {rank}: torch.distributed does not start at {address}:{port} "
            f"({first_line(error)})"
        ) from error
    atexit.register(dist.destroy_process_group)


class TorchTransport(Transport):
    """The transport over torch.distributed, which must be running. The constructor is collective.

    With backend "nccl", NCCL sends CUDA tensors, and gloo all other buffers.
    """

    def __init__(self, backend: str = "gloo", timeout: float | None = TIMEOUT) -> None:
        super().__init__(dist.get_rank(), dist.get_world_size(), timeout)
        self._watchdog = Watchdog(self)
        self.nccl = backend == "nccl"
        # a separate group, so that messages cannot be confused with the user's messages
        self.group = self._new_group(tuple(range(self.size)))
        self._groups: dict[tuple[int, ...], Any] = {}  # ranks -> group; made once, never freed
        self._stream: Any = None

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        if self.nccl and any(on_device(buffer) for _, buffer in (*sends, *receives)):
            return _DeviceChannel(self, sends, receives)
        return _HostChannel(self, sends, receives)

    def subgroup(self, ranks: Sequence[int]) -> LibraryGroup:
        # torch needs that all ranks make all groups, in the same order
        for members in sorted(set(self.gather(tuple(ranks)))):
            if len(members) > 1 and members not in self._groups:
                self._groups[members] = self._new_group(members)
        return _TorchGroup(self, ranks, self._groups.get(tuple(ranks)))

    def _new_group(self, members: tuple[int, ...]) -> Any:
        """Return a process group of these ranks. Collective among all ranks."""
        limit = None if math.isinf(self.timeout) else _later(self.timeout)
        backend = BACKENDS["nccl" if self.nccl else "gloo"]
        with self.waiting(another_rank):
            group = dist.new_group(members, _timedelta(limit), backend)
            if self.nccl and self.rank in members:  # else NCCL does not connect all ranks
                dist.all_reduce(torch.zeros(1, device="cuda"), group=group)
        return group

    def allreduce_sum(self, array: Buffer) -> None:
        self.traffic.add_reduction(self._allreduce(array, dist.ReduceOp.SUM))

    def allreduce_max(self, array: Buffer) -> None:
        self._allreduce(array, dist.ReduceOp.MAX)

    def _allreduce(self, array: Buffer, operation: Any) -> int:
        if self.nccl and on_device(array):
            words = self._reduce(flat(array), operation)
            self.watch_device(another_rank)
            return words
        with host_memory(array) as host:
            return self._reduce(torch.from_numpy(flat(host)), operation)

    def _reduce(self, words: torch.Tensor, operation: Any) -> int:
        for part in split(words, self.max_words):
            with self.waiting(another_rank):
                dist.all_reduce(part, operation, group=self.group)
        return len(words)

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        received = np.empty_like(array)
        with self.waiting(another_rank):
            dist.all_to_all_single(
                torch.from_numpy(received), torch.from_numpy(array.copy()), group=self.group
            )
        return received

    def gather_bytes(self, data: bytes) -> list[bytes]:
        lengths = list(torch.zeros(self.size, dtype=torch.int64).split(1))
        with self.waiting(another_rank):
            dist.all_gather(lengths, torch.tensor([len(data)]), group=self.group)
            longest = max(map(int, lengths))  # gloo gathers equal lengths only
            every = list(torch.empty(self.size, longest, dtype=torch.uint8))
            own = torch.frombuffer(bytearray(data.ljust(longest, b"\0")), dtype=torch.uint8)
            dist.all_gather(every, own, group=self.group)
        return [e[:n].numpy().tobytes() for e, n in zip(every, lengths, strict=True)]

    def close(self) -> None:
        with self.waiting(lambda: "the other ranks to end"):
            dist.all_reduce(torch.zeros(1), group=self.group)

    def abort(self, code: int) -> NoReturn:
        """End this rank; the launcher ends all other ranks."""
        sys.stdout.flush()
        os._exit(code)

    @contextmanager
    def waiting(self, what: Callable[[], str]) -> Iterator[None]:
        """Return a context manager for a wait; ``what()`` says what the rank waits for.

        Raises TransportError if the connection breaks.
        """
        try:
            with self._watchdog(what):
                yield
        except RuntimeError as error:
            time.sleep(GRACE)  # the rank at fault may print why, and the launcher may end this one
            lost = f"lost the connection while waiting for {what()} ({first_line(error)})"
            raise TransportError(lost) from error

    @contextmanager
    def queued(self) -> Iterator[Callable[[], None]]:
        """Queue the work of a ``with`` block in a separate CUDA stream, after all earlier work.

        Yields a function: work that is queued after its call waits for the block's work.
        """
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        done = torch.cuda.Event()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield lambda: torch.cuda.current_stream().wait_event(done)
            done.record()

    def watch_device(self, what: Callable[[], str]) -> None:
        """Let the watchdog watch the work that is queued on the device; the rank does not wait."""
        event = torch.cuda.Event()
        event.record()
        self._watchdog.later(event.query, what)


class _HostChannel(Channel):
    """A channel over gloo; the rank waits for messages in the order of `receives`."""

    def __init__(self, transport: TorchTransport, sends: Addressed, receives: Addressed) -> None:
        self._transport = transport
        self._round = traffic_of(sends, receives, transport.max_words, transport.far)
        self._in, self._out = HostBuffers(receives), HostBuffers(sends)
        self._inward = pieces(_tensors(self._in.buffers), transport.max_words)
        self._outward = pieces(_tensors(self._out.buffers), transport.max_words)
        self._receiving: list[tuple[int, list[Any]]] = []  # (number, works) of receives in flight
        self._sending: list[tuple[int, list[Any]]] = []

    def start(self) -> None:
        receive = self._transport.group.recv
        self._transport.traffic.add(self._round)
        self._receiving = [
            (k, [receive([p.data], p.peer, p.tag) for p in parts])
            for k, parts in enumerate(self._inward)
        ]
        self._sending = []

    def send(self, k: int) -> None:
        self._out.fetch(k)
        send = self._transport.group.send
        works = [send([p.data], p.peer, p.tag) for p in self._outward[k]]
        self._sending.append((k, works))

    def arrivals(self) -> Iterator[int]:
        while self._receiving:
            k, works = self._receiving[0]
            with self._transport.waiting(self._unfinished):
                for work in works:
                    work.wait()
            self._in.store(k)
            del self._receiving[0]
            yield k

    def finish(self) -> None:
        for _ in self.arrivals():
            pass
        with self._transport.waiting(self._unfinished):
            while self._sending:
                for work in self._sending[0][1]:
                    work.wait()
                del self._sending[0]

    def _unfinished(self) -> str:
        if self._receiving:
            return _in_order("a message from", [self._inward[k] for k, _ in self._receiving])
        return _in_order("a message to", [self._outward[k] for k, _ in self._sending])


class _DeviceChannel(Channel):
    """A channel over NCCL: the last send launches all messages, and only the device waits."""

    def __init__(self, transport: TorchTransport, sends: Addressed, receives: Addressed) -> None:
        self._transport = transport
        self._round = traffic_of(sends, receives, transport.max_words, transport.far)
        inward = [*chain.from_iterable(pieces(receives, transport.max_words))]
        outward = [*chain.from_iterable(pieces(sends, transport.max_words))]
        self._num_sends = self._unsent = len(sends)
        group = transport.group
        self._groups: list[list[dist.P2POp]] = []
        last: dict[int, int] = dict.fromkeys(range(len(receives)), 0)  # receive -> its last group
        groups = nccl_groups(transport.rank, transport.size, outward, inward)
        for number, messages in enumerate(groups):
            operations = []
            for outgoing, piece in messages:
                operation = dist.isend if outgoing else dist.irecv
                peer = dist.get_global_rank(group, piece.peer)
                operations.append(dist.P2POp(operation, piece.data, peer, group))
                if not outgoing:
                    last[piece.number] = number
            self._groups.append(operations)
        self._order = sorted(last, key=last.__getitem__)
        self._last = last
        self._peers = sorted({piece.peer for piece in (*inward, *outward)})
        self._works: list[list[Any]] = []
        self._waited = 0

    def start(self) -> None:
        self._transport.traffic.add(self._round)
        self._works = []
        self._waited = 0
        self._unsent = self._num_sends
        if self._unsent == 0:
            self._launch()

    def send(self, k: int) -> None:
        self._unsent -= 1
        if self._unsent == 0:
            self._launch()

    def arrivals(self) -> Iterator[int]:
        for k in self._order:
            self._wait(self._last[k] + 1)
            yield k

    def finish(self) -> None:
        self._wait(len(self._works))
        if self._works:
            self._transport.watch_device(self._unfinished)

    def _launch(self) -> None:
        with self._transport.waiting(self._unfinished):
            self._works = [dist.batch_isend_irecv(operations) for operations in self._groups]

    def _wait(self, number: int) -> None:
        """Wait for the first `number` groups of NCCL messages, without those waited for before."""
        with self._transport.waiting(self._unfinished):
            for works in self._works[self._waited : number]:
                for work in works:
                    work.wait()
        self._waited = max(self._waited, number)

    def _unfinished(self) -> str:
        return f"messages from or to {name_ranks(self._peers)}"


class _TorchGroup(LibraryGroup):
    """A group whose collectives use a process group of its members."""

    transport: TorchTransport

    def __init__(self, transport: TorchTransport, ranks: Sequence[int], group: Any) -> None:
        super().__init__(transport, ranks)
        self._group = group

    def _start_broadcast(self, words: Buffer, root: int) -> Any:
        number_bytes = torch.as_tensor(words).view(torch.uint8)  # gloo lacks some dtypes
        return dist.broadcast(number_bytes, self.ranks[root], self._group, async_op=True)

    def _start_reduce_sum(self, words: Buffer, root: int) -> Any:
        return dist.reduce(
            torch.as_tensor(words), self.ranks[root], group=self._group, async_op=True
        )

    def _start_allreduce_sum(self, words: Buffer) -> Any:
        return dist.all_reduce(torch.as_tensor(words), group=self._group, async_op=True)

    def _allreduce_sum(self, data: Buffer) -> None:
        if self._adds(data):
            self._started(self._start_allreduce_sum, data, changed=True).wait()
        else:
            super()._allreduce_sum(data)

    def _started(
        self,
        start: Callable[[Any], Any],
        data: Buffer,
        what: Callable[[], str] | None = None,
        changed: bool = False,
    ) -> Pending:
        if not self._is_queued(data):
            return super()._started(start, data, what, changed)
        transport, what = self.transport, what or self._others_to_join
        with transport.queued() as wait, transport.waiting(what):
            for part in split(data, transport.max_words):
                start(part).wait()
            transport.watch_device(what)
        return _holding(data, wait)

    def _waiting(self, what: Callable[[], str]) -> AbstractContextManager[None]:
        return self.transport.waiting(what)

    def _wait(self, requests: list[Any]) -> None:
        for work in requests:
            work.wait()

    def _exchanged(self, sends: Addressed, receives: Addressed) -> Pending:
        buffers = [buffer for _, buffer in (*sends, *receives)]
        if not any(map(self._is_queued, buffers)):
            return super()._exchanged(sends, receives)
        with self.transport.queued() as wait:
            super()._exchanged(sends, receives).wait()
        return _holding(buffers, wait)

    def _adds(self, data: Buffer) -> bool:
        return self._is_queued(data) or super()._adds(data)

    def _is_queued(self, data: Buffer) -> bool:
        return self.transport.nccl and on_device(data)


def _holding(buffers: Any, wait: Callable[[], None]) -> Pending:
    """Return a pending operation that keeps the buffers until the device no longer uses them.

    `wait` makes later work of the device wait for the operation.
    """

    def finish() -> None:
        nonlocal buffers
        wait()
        buffers = None

    return Pending(finish)


def nccl_groups(
    rank: int, size: int, sends: Sequence[MessagePiece], receives: Sequence[MessagePiece]
) -> list[list[tuple[bool, MessagePiece]]]:
    """Divide the messages of a round into NCCL groups (see the module). Not collective.

    In a group, a message is a pair: whether this rank sends it, and its `MessagePiece`. A group has
    at most 2 * `DISTANCES` * `TAGS` messages.
    """

    def distance(outgoing: bool, piece: MessagePiece) -> int:
        return (piece.peer - rank if outgoing else rank - piece.peer) % size

    def group(message: tuple[bool, MessagePiece]) -> tuple[int, int]:
        return distance(*message) // DISTANCES, message[1].tag // TAGS

    def place(message: tuple[bool, MessagePiece]) -> tuple[tuple[int, int], int, int, bool]:
        return group(message), distance(*message), message[1].tag, message[0]

    messages = [*((True, piece) for piece in sends), *((False, piece) for piece in receives)]
    return [list(members) for _, members in groupby(sorted(messages, key=place), key=group)]


def _tensors(buffers: Addressed) -> Addressed:
    return [(peer, torch.from_numpy(array)) for peer, array in buffers]


def _later(timeout: float | None) -> float | None:
    """Return a longer timeout for torch.distributed, so that plancc's watchdog ends the run first.

    The watchdog's message says more.
    """
    return timeout + 10 * GRACE if timeout else None


def _timedelta(seconds: float | None) -> timedelta:
    return timedelta(seconds=seconds) if seconds else timedelta(days=365)


def _in_order(what: str, messages: Sequence[Sequence[MessagePiece]]) -> str:
    """Return a phrase that names the peer of the first message, then the peers of later messages.

    The first message is missing; gloo does not say which of the later messages are missing too.
    """
    peers = [group[0].peer for group in messages if group]
    later = sorted(set(peers) - {peers[0]})
    return f"{what} rank {peers[0]}" + (f" (and then {name_ranks(later)})" if later else "")
