"""The transport over MPI: persistent point-to-point requests of mpi4py (Open MPI, MPICH).

Constructing `MpiTransport` starts MPI; importing this module does not.

Groups use MPI's collectives only for broadcasts and reductions, and messages for all else. So
separate pieces of memory need no packing, and a reduce-scatter sends each piece only to its owner,
where Open MPI would first reduce all pieces on one rank.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

import numpy as np

from plancc.errors import BackendUnavailable
from plancc_runtime.transport.base import TIMEOUT, Channel, Pending, Transport
from plancc_runtime.transport.group import LibraryGroup
from plancc_runtime.transport.host import HostBuffers, host_memory
from plancc_runtime.transport.messages import (
    Addressed,
    Buffer,
    another_rank,
    flat,
    name_ranks,
    pieces,
    split,
    traffic_of,
    unfinished,
)
from plancc_runtime.transport.watchdog import Watchdog

TESTS = 100  # number of tests for a complete round before the rank waits for single messages


def load_mpi(watchdog: Watchdog | None = None) -> Any:
    """Return mpi4py's module MPI, and start MPI if it is not running, which is collective.

    MPI ends when Python ends. Raises BackendUnavailable if mpi4py or an MPI library is missing.
    """
    try:
        import mpi4py

        # autograd, the garbage collector and the watchdog may call MPI from threads of their own
        mpi4py.rc.thread_level = "multiple"
        mpi4py.rc.initialize = False  # mpi4py would hold Python's lock while it waits for ranks
        from mpi4py import MPI

        if not MPI.Is_initialized():
            _start(MPI, watchdog)
    except (ImportError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BackendUnavailable(
            f"cannot run several ranks without mpi4py and an MPI library ({reason}); install them "
            "with: pip install 'plancc[run]', and 'plancc[mpi]' where the machine has no MPI"
        ) from error
    return MPI


def _start(mpi: Any, watchdog: Watchdog | None) -> None:
    """Start MPI by its C functions, which release Python's lock while they wait."""
    library, given = ctypes.CDLL(mpi.__file__), ctypes.c_int(0)
    with watchdog(lambda: "the other ranks to start MPI") if watchdog else nullcontext():
        code = library.MPI_Init_thread(None, None, mpi.THREAD_MULTIPLE, ctypes.byref(given))
    if code != mpi.SUCCESS:
        raise RuntimeError(f"MPI does not start: error {code}")
    for comm in (mpi.COMM_WORLD, mpi.COMM_SELF):
        comm.Set_errhandler(mpi.ERRORS_RETURN)  # mpi4py does the same when it starts MPI
    atexit.register(_end, mpi, library)


def _end(mpi: Any, library: Any) -> None:
    if not mpi.Is_finalized():
        if hasattr(sys, "last_value") and mpi.COMM_WORLD.size > 1:
            mpi.COMM_WORLD.Abort(1)  # a script has failed: other ranks would wait for this rank
        closed = MpiTransport.closed
        with closed(lambda: "the other ranks to end") if closed else nullcontext():
            library.MPI_Finalize()


class MpiTransport(Transport):
    """The transport of ranks that mpirun, mpiexec or srun started. The constructor is collective.

    `comm` is duplicated, so that messages are not confused with the user's messages. A timeout of
    None or 0 is no limit.
    """

    closed: Watchdog | None = None  # watchdog of the job, once its work is done

    def __init__(self, comm: Any = None, timeout: float | None = TIMEOUT) -> None:
        self._mpi = load_mpi()
        comm = comm or self._mpi.COMM_WORLD
        super().__init__(comm.rank, comm.size, timeout)
        self._watchdog = Watchdog(self)
        with self._watchdog(another_rank):
            self._comm = comm.Dup()
        self._comms: dict[tuple[int, ...], Any] = {}  # ranks -> communicator, never freed

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        return _MpiChannel(self, sends, receives)

    def subgroup(self, ranks: Sequence[int]) -> LibraryGroup:
        return _MpiGroup(self, ranks)

    def communicator(self, ranks: tuple[int, ...]) -> Any:
        """Return a communicator of these ranks, this rank included. Collective over these ranks."""
        if ranks not in self._comms:
            members = self._comm.group.Incl(ranks)
            with self._watchdog(lambda: f"{name_ranks(ranks)} to make a group"):
                self._comms[ranks] = self._comm.Create_group(members)
            members.Free()
        return self._comms[ranks]

    def allreduce_sum(self, array: Buffer) -> None:
        self.traffic.add_reduction(self._allreduce(array, self._mpi.SUM))

    def allreduce_max(self, array: Buffer) -> None:
        self._allreduce(array, self._mpi.MAX)

    def _allreduce(self, array: Buffer, operation: Any) -> int:
        with host_memory(array) as host:
            words = flat(host)
            for part in split(words, self.max_words):
                with self._watchdog(another_rank):
                    self._comm.Allreduce(self._mpi.IN_PLACE, part, op=operation)
        return len(words)

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        received = np.empty_like(array)
        with self._watchdog(another_rank):
            self._comm.Alltoall(array, received)
        return received

    def gather_bytes(self, data: bytes) -> list[bytes]:
        lengths = np.empty(self.size, np.int64)
        with self._watchdog(another_rank):
            self._comm.Allgather(np.array([len(data)], np.int64), lengths)
            every = np.empty(lengths.sum(), np.uint8)
            own, byte = np.frombuffer(data, np.uint8), self._mpi.BYTE
            self._comm.Allgatherv([own, byte], [every, lengths.tolist(), byte])
        return [part.tobytes() for part in np.split(every, np.cumsum(lengths)[:-1])]

    def nodes_of_ranks(self) -> list[str]:
        first = np.array([self.rank])
        with self._watchdog(another_rank):
            node = self._comm.Split_type(self._mpi.COMM_TYPE_SHARED)
            node.Allreduce(self._mpi.IN_PLACE, first, op=self._mpi.MIN)
            node.Free()
        return [str(each) for each in self.gather(int(first[0]))]

    def close(self) -> None:
        MpiTransport.closed = self._watchdog  # MPI ends with Python

    def abort(self, code: int) -> None:
        time.sleep(0.2)  # mpirun kills at once, and would lose the latest output
        self._comm.Abort(code)


def _wait(request: Any, requests: list[Any], late: set[int]) -> None:
    """Wait for all requests; in a long wait, remove indices of complete requests from `late`.

    So the watchdog can name the ranks that are late.
    """
    # most often all requests complete soon; else the watchdog must know which ranks are late
    if not any(request.Testall(requests) for _ in range(TESTS)):
        while late:
            late.difference_update(request.Waitsome(requests))


def _unfinished(late: set[int], sources: list[int], targets: list[int]) -> str:
    """Return a phrase that says what requests wait for; `late` has indices in sources + targets."""
    late, num = late.copy(), len(sources)  # the watchdog calls this during the wait
    return unfinished(
        (sources[i] for i in late if i < num), (targets[i - num] for i in late if i >= num)
    )


class _MpiGroup(LibraryGroup):
    """A group whose collectives and messages use a communicator of its members."""

    def __init__(self, transport: MpiTransport, ranks: Sequence[int]) -> None:
        super().__init__(transport, ranks)
        self._mpi, self._watchdog = transport._mpi, transport._watchdog
        self._comm: Any = transport.communicator(self.ranks) if self.size > 1 else None

    def _start_broadcast(self, words: np.ndarray, root: int) -> Any:
        return self._comm.Ibcast(words, root=root)

    def _start_reduce_sum(self, words: np.ndarray, root: int) -> Any:
        both = (self._mpi.IN_PLACE, words) if self.rank == root else (words, None)
        return self._comm.Ireduce(*both, op=self._mpi.SUM, root=root)

    def _allreduce_sum(self, data: Buffer) -> None:
        if not self._adds(data):
            super()._allreduce_sum(data)
            return
        with host_memory(data) as host:
            for part in split(host, self.transport.max_words):
                with self._watchdog(self._others_to_join):
                    self._comm.Allreduce(self._mpi.IN_PLACE, part, op=self._mpi.SUM)

    def _waiting(self, what: Callable[[], str]) -> Watchdog:
        return self._watchdog(what)

    def _wait(self, requests: list[Any]) -> None:
        _wait(self._mpi.Request, requests, set(range(len(requests))))

    def _exchanged(self, sends: Addressed, receives: Addressed) -> Pending:
        into, out = HostBuffers(receives), HostBuffers(sends)
        inward, outward = (
            [*chain.from_iterable(pieces(side.buffers, self.transport.max_words))]
            for side in (into, out)
        )
        requests = [self._comm.Irecv(p.data, source=p.peer, tag=p.tag) for p in inward]
        for number in range(len(sends)):
            out.fetch(number)
        requests += [self._comm.Isend(p.data, dest=p.peer, tag=p.tag) for p in outward]
        late = set(range(len(requests)))
        peers = [[self.ranks[p.peer] for p in side] for side in (inward, outward)]

        def finish() -> None:
            with self._watchdog(lambda: _unfinished(late, *peers)):
                _wait(self._mpi.Request, requests, late)
            for number in range(len(receives)):
                into.store(number)

        return Pending(finish)


class _MpiChannel(Channel):
    """A channel with a persistent request for each piece of a message.

    Every piece has a tag of its own, so requests may start in any order.
    """

    def __init__(self, transport: MpiTransport, sends: Addressed, receives: Addressed) -> None:
        self._mpi = mpi = transport._mpi
        comm = transport._comm
        self._is_finalized = mpi.Is_finalized
        self._requests: list[Any] = []  # all receives, then all sends
        self._late: set[int] = set()  # requests of the round that are not known to be complete
        self._startall = mpi.Prequest.Startall
        self._waitsome = mpi.Request.Waitsome
        self._watchdog, self._traffic = transport._watchdog, transport.traffic
        self._round = traffic_of(sends, receives, transport.max_words, transport.far)
        self._in, self._out = HostBuffers(receives), HostBuffers(sends)
        inward = pieces(self._in.buffers, transport.max_words)
        outward = pieces(self._out.buffers, transport.max_words)
        self._num_pieces = [len(parts) for parts in inward]
        self._inward = [*chain.from_iterable(inward)]
        self._outward = [*chain.from_iterable(outward)]
        self._receiving = [comm.Recv_init(p.data, source=p.peer, tag=p.tag) for p in self._inward]
        self._sending = [
            [comm.Send_init(p.data, dest=p.peer, tag=p.tag) for p in parts] for parts in outward
        ]
        self._requests += [*self._receiving, *chain.from_iterable(self._sending)]

    def start(self) -> None:
        self._late = set(range(len(self._requests)))
        self._startall(self._receiving)
        self._traffic.add(self._round)
        self._stored = [False] * len(self._num_pieces)

    def send(self, k: int) -> None:
        self._out.fetch(k)
        for request in self._sending[k]:
            request.Start()

    def arrivals(self) -> Iterator[int]:
        missing = self._num_pieces.copy()
        for k, number in enumerate(missing):
            if number == 0:
                yield k
        waiting = len(self._receiving)
        while waiting:
            with self._watchdog(self._unfinished):
                done = self._waitsome(self._receiving)
            waiting -= len(done)
            self._late.difference_update(done)
            for request in done:
                k = self._inward[request].number
                missing[k] -= 1
                if missing[k] == 0:
                    self._store(k)
                    yield k

    def finish(self) -> None:
        with self._watchdog(self._unfinished):
            _wait(self._mpi.Request, self._requests, self._late)
        for k, stored in enumerate(self._stored):
            if not stored:
                self._store(k)

    def _store(self, k: int) -> None:
        self._in.store(k)
        self._stored[k] = True

    def _unfinished(self) -> str:
        sources, targets = ([p.peer for p in side] for side in (self._inward, self._outward))
        return _unfinished(self._late, sources, targets)

    def __del__(self) -> None:
        if not self._is_finalized():
            for request in self._requests:
                request.Free()
