"""What `choices` measures inside the ranks: the ways of each choice, in turns.

    mpirun -n RANKS python -m benchmarks.choices_ranks cells.json

Rank 0 prints a JSON line for each cell.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.choices import CHOICES, Choice, Way
from plancc.errors import PlanccError
from plancc_runtime.launch import open_transport
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import prepared
from plancc_runtime.transport.base import Transport

ROUNDS, SECONDS = 9, 40.0
"""Most rounds, and seconds after which no round begins."""
TURN, MOST_EPOCHS = 0.15, 50
"""Seconds that a turn takes at least, and its most epochs."""


@dataclass
class Side:
    """A way of a choice, and what its rounds took: seconds of the slowest rank, CPU of all."""

    way: Way
    play: Callable[[int], object]
    state: Callable[[], Any]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def turn(self, numbers: range, transport: Transport) -> None:
        """Do the work of these numbers. Collective."""
        with forced(self.way):
            transport.any(False)  # all begin together
            begin, used = time.perf_counter(), time.process_time()
            for number in numbers:
                self.play(number)
            spent = time.perf_counter() - begin, time.process_time() - used
        wall, cpu = zip(*transport.gather(spent), strict=True)
        self.seconds.append(max(wall) / len(numbers))
        self.cpu.append(sum(cpu) / len(numbers))


@contextmanager
def forced(way: Way) -> Iterator[None]:
    """The names of a way have its values."""
    with ExitStack() as stack:
        for name, value in way.patches.items():
            stack.enter_context(patch(f"plancc_runtime.{name}", value))
        yield


def side_of(choice: Choice, way: Way, plan: str, options: Mapping[str, Any], to: Transport) -> Side:
    """A way, made. Collective."""
    given = {"epochs": 10**6, "eval_every": 0, **options, **choice.base, **way.train}
    with forced(way):
        run = prepared(plan, TrainOptions(**given), to)

    def epoch(number: int) -> None:
        import torch

        torch.set_num_threads(run._threads)
        run.epoch(number)
        thread = getattr(run._execution, "_thread", None)
        if thread is not None:  # what it draws ahead belongs to this turn
            thread.submit(int).result()

    return Side(way, epoch, partial(choice.state or repr, run))


def measured(
    choice: Choice, plans: Mapping[str, str], options: Mapping[str, Any], quick: bool, to: Transport
) -> dict[str, Any]:
    """Figures of the ways. Collective."""
    sides = {
        name: side_of(choice, way, plans[name], options, to) for name, way in choice.ways.items()
    }
    for side in sides.values():
        side.turn(range(1), to)
        side.turn(range(1, 2), to)
    chosen, *others = sides
    if choice.state is not None:  # ways that are the same are played once, by the first name
        states = {name: side.state() for name, side in sides.items()}
        for name in others:
            if states[name] == states[chosen]:
                del sides[chosen]
                chosen = name
                break
        known = {repr(states[name]): name for name in reversed([*sides])}
        sides = {name: side for name, side in sides.items() if name in known.values()}
    quickest = min(side.seconds[-1] for side in sides.values())
    epochs = 1 if quick else max(1, min(MOST_EPOCHS, math.ceil(TURN / quickest)))
    for side in sides.values():
        side.seconds.clear()
        side.cpu.clear()
    begin = time.perf_counter()
    for number in range(1 if quick else ROUNDS):
        if to.any(time.perf_counter() - begin > SECONDS):
            break
        first = 2 + number * epochs
        order = [*sides.values()]
        for side in order if number % 2 else reversed(order):
            side.turn(range(first, first + epochs), to)
    return {
        "chosen": chosen,
        "seconds": {name: side.seconds for name, side in sides.items()},
        "cpu": {name: side.cpu for name, side in sides.items()},
    }


def main(file: str) -> None:
    asked = json.loads(Path(file).read_text())
    warnings.simplefilter("ignore")
    transport = open_transport()
    if transport.size == 1:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked["cores"]])
    for cell in asked["cells"]:
        choice, options = CHOICES[cell["choice"]], cell["options"]
        if asked["quick"] and choice.base.get("steps"):
            choice = replace(choice, base={**choice.base, "steps": 2})
        options["split"] = tuple(options["split"])
        try:
            found = measured(choice, cell["plans"], options, asked["quick"], transport)
        except PlanccError as error:
            found = {"failed": str(error)}
        if transport.rank == 0:
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
