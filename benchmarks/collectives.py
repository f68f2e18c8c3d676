"""Broadcasts and all-to-alls of a group of ranks beside bare mpi4py, in turns on the same ranks.

    python -m benchmarks collectives
    mpirun -n RANKS python -m benchmarks.collectives --rounds 100     what it starts

Bare is the quicker of the blocking and the nonblocking call of mpi4py on one communicator; a figure
is a ratio of medians over rounds, of the slowest rank of every round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.inputs import Inputs, on_ranks
from benchmarks.report import Report

RANKS = (2, 4)
BYTES = {"4 KiB": 4096, "4 MiB": 4 << 20}
"""Of the broadcast buffer, and of all that a rank sends."""


def run(inputs: Inputs) -> Report:
    rounds = 10 if inputs.quick else 100
    report = Report([f"{rounds} rounds in turns, over MPI; times are those of the slowest rank"])
    for ranks in RANKS:
        command = [sys.executable, "-m", "benchmarks.collectives", "--rounds", str(rounds)]
        for name, seconds in json.loads(on_ranks(ranks, *command)).items():
            bare = min(seconds["blocking"], seconds["nonblocking"])
            report.add(f"{ranks} ranks, {name}: bare", 1e6 * bare, unit="us")
            report.add(f"{ranks} ranks, {name}: group / bare", seconds["group"] / bare)
    return report


def measured(rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of the slowest rank, by operation and side. Collective."""
    from plancc_runtime.transport.mpi import MpiTransport, load_mpi

    comm = load_mpi().COMM_WORLD
    group = MpiTransport(comm).subgroup(range(comm.size))
    found = {}
    for label, size in BYTES.items():
        sent = np.ones(size // 4, np.float32)
        here = np.zeros_like(sent)
        broadcast: dict[str, Callable[[], object]] = {
            "blocking": partial(comm.Bcast, sent),
            "nonblocking": partial(_waited, comm.Ibcast, sent),
            "group": partial(group.broadcast, sent, 0),
        }
        alltoall: dict[str, Callable[[], object]] = {
            "blocking": partial(comm.Alltoall, sent, here),
            "nonblocking": partial(_waited, comm.Ialltoall, sent, here),
            "group": partial(group.alltoall, np.split(sent, comm.size), np.split(here, comm.size)),
        }
        found[f"broadcast, {label}"] = in_turns(comm, rounds, broadcast)
        found[f"all-to-all, {label}"] = in_turns(comm, rounds, alltoall)
    return found


def _waited(start: Callable[..., Any], *arguments: object) -> None:
    start(*arguments).Wait()


def in_turns(comm: Any, rounds: int, sides: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds of the slowest rank, by side, after a tenth of the rounds. Collective."""
    from benchmarks.rivals.bare_exchange import time_rounds

    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + rounds // 10 + 1):
        for name, play in sides.items():
            [taken] = time_rounds(comm, play, 1)
            if number > rounds // 10:
                seconds[name].append(taken)
    return {name: statistics.median(each) for name, each in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100, help="that are timed, after a tenth")
    found = measured(parser.parse_args().rounds)
    from plancc_runtime.transport.mpi import load_mpi

    if load_mpi().COMM_WORLD.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
