"""What `epochs_of_plans` does in processes of its own: calibrate, train or rehearse.

    mpirun -n RANKS python -m benchmarks.plan_ranks calibrate --effort quick
    mpirun -n RANKS python -m benchmarks.plan_ranks train a.h5 b.h5 --dims 128,128,16
    python -m benchmarks.plan_ranks rehearse a.h5 b.h5 --dims 128,128,16 --machine m.toml

Rank 0 prints JSON: a machine file; or by plan the seconds of its epochs, round by round; or by plan
those of an epoch by `plancc rehearse`. Ranks train with one thread each, from all plans in turns.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from plancc_runtime.transport.base import Transport

WARM_UP = 2
"""First epochs of a round, which do not count."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("calibrate", "train", "rehearse"))
    parser.add_argument("plans", nargs="*")
    parser.add_argument("--dims")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3, help="of a round, or of a rehearsal")
    parser.add_argument("--effort", choices=("tiny", "quick", "full"), default="quick")
    parser.add_argument("--machine")
    given = parser.parse_args(arguments)
    if given.what == "rehearse":
        print(json.dumps({plan: _rehearsed(plan, given) for plan in given.plans}))
        return
    from plancc_runtime.launch import open_transport

    transport = open_transport()
    if given.what == "calibrate":
        found: Any = _calibrated(given.effort, transport)
    else:
        found = _trained(given, transport)
    if transport.rank == 0:
        print(json.dumps(found))


def _calibrated(effort: str, transport: Transport) -> str:
    """The machine file of `plancc calibrate` for these ranks. Collective."""
    from benchmarks.predict_ranks import TINY
    from plancc_lab.calibrate.command import machine_file
    from plancc_lab.calibrate.measure import FULL, QUICK, calibrate

    efforts = {"tiny": TINY, "quick": QUICK, "full": FULL}
    return machine_file(calibrate(transport, efforts[effort], 1), quick=effort != "full")


def _trained(given: argparse.Namespace, transport: Transport) -> dict[str, list[list[float]]]:
    """Seconds of the slowest rank by plan, round and epoch. Collective."""
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train

    first, *hidden, last = map(int, given.dims.split(","))
    how = TrainOptions(
        layers=len(hidden) + 1,
        hidden=hidden[0],
        random_features=first,
        classes=last,
        optimizer="sgd",  # as `plancc.predict` has it
        epochs=WARM_UP + given.epochs,
        eval_every=0,
        threads=1,
    )
    seconds: dict[str, list[list[float]]] = {plan: [] for plan in given.plans}
    for number in range(given.rounds):
        turn = number % len(given.plans)
        for plan in [*given.plans[turn:], *given.plans[:turn]]:
            epochs = train(plan, how, transport).epochs[WARM_UP:]
            seconds[plan].append([epoch.seconds_max["total"] for epoch in epochs])
    return seconds


def _rehearsed(plan: str, given: argparse.Namespace) -> float:
    """Seconds of an epoch."""
    from plancc_lab.rehearse.command import command

    words = [plan, "--machine", given.machine, "--dims", given.dims, "--json"]
    words += ["--optimizer", "sgd", "--epochs", str(given.epochs)]
    with redirect_stdout(io.StringIO()) as printed:
        command.main(words, prog_name="plancc rehearse", standalone_mode=False)
    return float(json.loads(printed.getvalue())["seconds"])


if __name__ == "__main__":
    main()
