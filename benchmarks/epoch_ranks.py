"""What `epochs` measures inside the ranks of plancc: an exchange, and what a rank holds.

    mpirun -n RANKS python -m benchmarks.epoch_ranks exchange plan.h5 --width 32
    mpirun -n RANKS python -m benchmarks.epoch_ranks memory plan.h5 --width 32 --first tiny.h5

Rank 0 prints one JSON line. Knows plancc's runtime; must not know rivals, but for the bare exchange.
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

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def exchange(options: argparse.Namespace) -> dict[str, Any] | None:
    """Seconds of the slowest rank, of every round: the bare exchange and plancc's, in turns.

    "exchange": start, send and finish of packed rows, which is what the bare one does. "expand":
    `Halo.expand`, which packs the rows too.
    """
    import torch

    from benchmarks.rivals.bare_exchange import BareExchange, time_rounds
    from plancc.plan.slices import read_rank_slice
    from plancc_runtime.layouts.block import Block
    from plancc_runtime.layouts.halo import Halo
    from plancc_runtime.transport.mpi import MpiTransport, load_mpi

    comm = load_mpi().COMM_WORLD
    torch.set_num_threads(1)
    transport = MpiTransport()
    header, part = read_rank_slice(options.plan, comm.rank, comm.size)
    halo = Halo(Block.of_part(part, header.self_loops), transport, torch.float32)
    buffers = halo.buffers(options.width)
    own = torch.full((halo.num_inputs, options.width), float(comm.rank + 1))
    messages = range(len(part.send_peer))

    def move_packed() -> None:
        buffers.expand.start()
        for k in messages:
            buffers.expand.send(k)
        buffers.expand.finish()

    def expand() -> None:
        halo.expand(own, buffers)

    expand()
    for peer, begin, end in zip(part.recv_peer, part.recv_ptr, part.recv_ptr[1:], strict=False):
        if not (buffers.halo[begin:end] == int(peer) + 1).all():
            raise SystemExit(f"rank {comm.rank} received what rank {peer} did not send")
    sides: dict[str, Callable[[], None]] = {
        "bare": BareExchange(comm, part, options.width),
        "exchange": move_packed,
        "expand": expand,
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds + options.rounds // 10 + 1):
        for name, play in sides.items():
            taken = time_rounds(comm, play, 1)
            if number > options.rounds // 10:
                seconds[name] += taken
    return seconds if comm.rank == 0 else None


def memory(options: argparse.Namespace) -> list[int] | None:
    """Bytes that every rank's resident memory grew by at its peak, from before the plan was read.

    A plan that was trained on before has loaded the libraries and started their threads.
    """
    from plancc_runtime.launch import open_transport
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train

    transport = open_transport()
    how = TrainOptions(layers=LAYERS, hidden=options.width, epochs=3, threads=1)
    train(options.first, how, transport)
    gc.collect()
    with suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)
    CLEAR.write_text("5")  # the peak is from now on
    before = _resident("VmRSS")
    train(options.plan, how, transport)
    grown = transport.gather(_resident("VmHWM") - before)
    return grown if transport.rank == 0 else None


def _resident(field: str) -> int:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return 1024 * int(lines[field].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["exchange", "memory"])
    parser.add_argument("plan", type=Path)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--first", type=Path, help="a tiny plan for as many ranks")
    options = parser.parse_args()
    found = exchange(options) if options.what == "exchange" else memory(options)
    if found is not None:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
