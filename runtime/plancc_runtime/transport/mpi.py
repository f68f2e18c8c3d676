"""Buffers over MPI: non-blocking point-to-point messages of mpi4py (Open MPI, MPICH).

Importing this module does not start MPI; constructing `MpiTransport` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plancc.errors import BackendUnavailable
from plancc_runtime.transport.base import Buffer, Exchange, Traffic, Transport
from plancc_runtime.transport.single import usable_cores

# MPI counts are C ints: a longer buffer travels as several messages.
MAX_WORDS_PER_MESSAGE = 2**31 - 1


def load_mpi() -> Any:
    """Import mpi4py, which starts MPI.

    Raises
    ------
    BackendUnavailable
        If mpi4py or an MPI library is missing.
    """
    try:
        import mpi4py

        mpi4py.rc.thread_level = "funneled"
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BackendUnavailable(
            f"cannot run several ranks without mpi4py and an MPI library ({reason}); install them "
            "with: pip install 'plancc[run]', and 'plancc[mpi]' where the machine has no MPI"
        ) from error
    return MPI


class MpiTransport(Transport):
    """All ranks that one mpirun (mpiexec, srun) started, or those of `comm`. Collective.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, optional
        Duplicated, so that our messages can never be mistaken for a user's.
    """

    def __init__(self, comm: Any = None) -> None:
        self._mpi = load_mpi()
        self._comm = (comm or self._mpi.COMM_WORLD).Dup()
        self.rank, self.size = self._comm.rank, self._comm.size
        self.traffic = Traffic()
        self.max_words = MAX_WORDS_PER_MESSAGE

    def exchange(self, receives: Sequence[tuple[int, Buffer]]) -> Exchange:
        return _MpiExchange(self, receives)

    def allreduce_sum(self, array: Buffer) -> None:
        view = np.asarray(array)
        self.traffic.reductions += 1
        self.traffic.words_reduced += view.size
        self._comm.Allreduce(self._mpi.IN_PLACE, view, op=self._mpi.SUM)

    def allreduce_max(self, array: Buffer) -> None:
        self._comm.Allreduce(self._mpi.IN_PLACE, np.asarray(array), op=self._mpi.MAX)

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        received = np.empty_like(array)
        self._comm.Alltoall(array, received)
        return received

    def gather(self, value: Any) -> list[Any]:
        return self._comm.allgather(value)

    def cores_per_rank(self) -> int:
        # mpirun may have bound every rank to cores of its own, or none: the union says which.
        node = self._comm.Split_type(self._mpi.COMM_TYPE_SHARED)
        everyone = set().union(*node.allgather(usable_cores()))
        share = len(everyone) // node.size
        node.Free()
        return max(1, min(share, len(usable_cores())))

    def abort(self, code: int) -> None:
        self._comm.Abort(code)


class _MpiExchange(Exchange):
    """Requests of one exchange; receive k may consist of several (see MAX_WORDS_PER_MESSAGE)."""

    def __init__(self, transport: MpiTransport, receives: Sequence[tuple[int, Buffer]]) -> None:
        self._transport = transport
        self._sends: list[Any] = []
        self._receives: list[Any] = []
        self._receive_of: list[int] = []  # request -> number of the receive it belongs to
        self._pending = [0] * len(receives)
        traffic = transport.traffic
        for k, (peer, buffer) in enumerate(receives):
            for piece in self._pieces(buffer):
                self._receives.append(transport._comm.Irecv(piece, source=peer))
                self._receive_of.append(k)
                self._pending[k] += 1
                traffic.messages_received += 1
                traffic.words_received += piece.size
                traffic.bytes_received += piece.nbytes

    def send(self, peer: int, buffer: Buffer) -> None:
        traffic = self._transport.traffic
        for piece in self._pieces(buffer):
            self._sends.append(self._transport._comm.Isend(piece, dest=peer))
            traffic.messages_sent += 1
            traffic.words_sent += piece.size
            traffic.bytes_sent += piece.nbytes

    def arrivals(self) -> Iterator[int]:
        waiting = len(self._receives)
        while waiting:
            for request in self._transport._mpi.Request.Waitsome(self._receives):
                waiting -= 1
                k = self._receive_of[request]
                self._pending[k] -= 1
                if self._pending[k] == 0:
                    yield k

    def finish(self) -> None:
        self._transport._mpi.Request.Waitall(self._sends)

    def _pieces(self, buffer: Buffer) -> list[np.ndarray]:
        flat = np.asarray(buffer).reshape(-1)
        step = self._transport.max_words
        return [flat[i : i + step] for i in range(0, flat.size, step)]
