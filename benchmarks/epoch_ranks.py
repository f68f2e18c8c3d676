"""What `epochs` measures inside the ranks of plancc: what a rank holds, and an exchange.

    mpirun -n RANKS python -m benchmarks.epoch_ranks plan.h5 --width 32 --first tiny.h5

Rank 0 prints one JSON line.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.rivals.harness import LAYERS
from plancc_runtime.transport.base import Transport

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def grown(plan: Path, first: Path, width: int, transport: Transport) -> list[int]:
    """Bytes that every rank's resident memory grew by at its peak, from before the plan was read.

    `first` was trained on before, so that libraries are loaded and threads started. Collective.
    """
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train

    how = TrainOptions(layers=LAYERS, hidden=width, optimizer="sgd", epochs=3, threads=1)
    train(first, how, transport)
    gc.collect()
    with suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)
    CLEAR.write_text("5")  # the peak is from now on
    before = resident("VmRSS")
    train(plan, how, transport)
    return transport.gather(resident("VmHWM") - before)


def resident(field: str) -> int:
    """Bytes of memory of this process by a field of /proc: "VmRSS", or "VmHWM", the peak."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return 1024 * int(lines[field].split()[0])


def exchanges(plan: Path, width: int, rounds: int, transport: Transport) -> dict[str, list[float]]:
    """Seconds of the slowest rank, of every round: the bare exchange and plancc's, in turns.

    Collective.

    "exchange": start, send and finish of packed rows, which is what the bare one does. "expand":
    `Halo.expand`, which packs the rows too.
    """
    import torch

    from benchmarks.rivals.bare_exchange import BareExchange, time_rounds
    from plancc.plan.slices import read_rank_slice
    from plancc_runtime.layouts.halo import Halo
    from plancc_runtime.layouts.resources import Resources
    from plancc_runtime.transport.mpi import load_mpi

    comm = load_mpi().COMM_WORLD
    _, part = read_rank_slice(plan, comm.rank, comm.size)
    halo = Halo(part.expand, part.num_rows, Resources(transport, torch.float32))
    buffers = halo.buffers(width)
    own = torch.full((halo.num_inputs, width), float(comm.rank + 1))
    messages = range(part.expand.send.num_messages)

    def move_packed() -> None:
        buffers.expand.start()
        for k in messages:
            buffers.expand.send(k)
        buffers.expand.finish()

    def expand() -> None:
        halo.expand(own, buffers)

    expand()
    for peer, rows in part.expand.receive.split(buffers.halo.numpy()):
        if not (rows == peer + 1).all():
            raise SystemExit(f"rank {comm.rank} received what rank {peer} did not send")
    sides: dict[str, Callable[[], None]] = {
        "bare": BareExchange(comm, part, width),
        "exchange": move_packed,
        "expand": expand,
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + rounds // 10 + 1):
        for name, play in sides.items():
            taken = time_rounds(comm, play, 1)
            if number > rounds // 10:
                seconds[name] += taken
    return seconds


def main() -> None:
    from plancc_runtime.launch import open_transport

    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=100, help="of exchanges")
    parser.add_argument("--first", type=Path, required=True, help="a tiny plan for as many ranks")
    options = parser.parse_args()
    transport = open_transport()
    found: dict[str, Any] = {}
    if CLEAR.exists():
        found["grown"] = grown(options.plan, options.first, options.width, transport)
    if transport.size > 1:
        found |= exchanges(options.plan, options.width, options.rounds, transport)
    if transport.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
