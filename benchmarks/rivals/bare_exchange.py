"""The floor of an exchange: Isend and Irecv of the bytes of a plan's expand step, nothing else.

    mpirun -n RANKS python bare_exchange.py plan.h5 --width 32

No rows are packed and no product waits. Prints one JSON line. `BareExchange` and `time_rounds` also
serve to measure another exchange in turns with this one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from plancc.plan.parts import Part
from plancc.plan.slices import read_rank_slice


class BareExchange:
    """Buffers of the sizes that one rank sends and receives; calling it moves them. Collective.

    Parameters:
        comm: MPI.Comm.
        part: The slice of this rank.
        width: Columns of the rows that travel.
        dtype: numpy dtype.
    """

    def __init__(self, comm: Any, part: Part, width: int, dtype: Any = np.float32) -> None:
        self._comm = comm
        send, receive = part.expand.send, part.expand.receive
        self.sends = send.split(np.full((send.volume, width), comm.rank + 1, dtype))
        self.receives = receive.split(np.zeros((receive.volume, width), dtype))

    def __call__(self) -> None:
        requests = [self._comm.Irecv(buffer, source=peer) for peer, buffer in self.receives]
        requests += [self._comm.Isend(buffer, dest=peer) for peer, buffer in self.sends]
        MPI.Request.Waitall(requests)


def time_rounds(comm: Any, play: Callable[[], object], rounds: int) -> list[float]:
    """Seconds of each of `rounds` calls on the slowest rank, each after a barrier. Collective."""
    seconds = np.empty(rounds)
    for k in range(rounds):
        comm.Barrier()
        start = time.perf_counter()
        play()
        seconds[k] = time.perf_counter() - start
    comm.Allreduce(MPI.IN_PLACE, seconds, op=MPI.MAX)
    return [float(each) for each in seconds]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=100, help="that are timed, after a tenth")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    _, part = read_rank_slice(options.plan, comm.rank, comm.size)
    exchange = BareExchange(comm, part, options.width)
    time_rounds(comm, exchange, max(2, options.rounds // 10))
    right = all((buffer == peer + 1).all() for peer, buffer in exchange.receives)
    if not comm.allreduce(right, op=MPI.LAND):
        raise SystemExit("a rank received what its peer did not send")
    seconds = time_rounds(comm, exchange, options.rounds)
    sent = comm.allgather(sum(buffer.nbytes for _, buffer in exchange.sends))
    messages = comm.allgather(len(exchange.sends))
    if comm.rank == 0:
        found = {
            "ranks": comm.size,
            "width": options.width,
            "messages": sum(messages),
            "bytes": sum(sent),
            "max_bytes_sent": max(sent),
            "median": statistics.median(seconds),
            "minimum": min(seconds),
            "seconds": seconds,
        }
        print(json.dumps(found))


if __name__ == "__main__":
    main()
