"""Steps of mini-batches from a plan, on one rank: a line of the input asks for a round of them.

A script, so that it can run with the packages of another commit. It prints "ready", and a line of
JSON for every round: medians in milliseconds of drawing a batch with its blocks (CPU), of a step,
and of the CPU time of a step; the loss by its bits.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import chain
from statistics import median
from typing import Any

from plancc_runtime.options import TrainOptions
from plancc_runtime.train import prepared
from plancc_runtime.transport.row_numbers import finished
from plancc_runtime.transport.single import SingleTransport

STEPS = 40


def main(plan: str, threads: str, seeds: str, fanouts: str, width: str, classes: str) -> None:
    known = vars(TrainOptions)  # "features" in older commits
    drawn = {"random_features" if "random_features" in known else "features": int(width)}
    options = TrainOptions(
        model="sage", layers=2, hidden=int(width), **drawn, classes=int(classes),
        sampler="neighbour", batch_size=int(seeds), fanouts=tuple(map(int, fanouts.split(","))),
        steps=STEPS, epochs=10**6, eval_every=0, optimizer="sgd", lr=0.01, kernel="numba",
        threads=int(threads), seed=1,
    )  # fmt: skip
    run = prepared(plan, options, SingleTransport())
    execution: Any = run._execution
    step_of, seconds, used = execution._step, [], []

    def step(*arguments: Any) -> Any:
        begin, cpu = time.perf_counter(), time.process_time()
        found = step_of(*arguments)
        seconds.append(time.perf_counter() - begin)
        used.append(time.process_time() - cpu)
        return found

    def draw(number: int) -> float:
        begin = time.thread_time()
        finished(execution._draws.share(number, "in place" if execution._in_place else "live"))
        return time.thread_time() - begin

    execution._step = step
    for epoch, line in enumerate(chain([""], sys.stdin)):
        numbers, thread = range(STEPS * epoch, STEPS * (epoch + 1)), execution._thread
        if thread is None:
            drawing = [draw(number) for number in numbers]
        else:  # which may draw the next batch now, with the same scratch
            drawing = [thread.submit(draw, number).result() for number in numbers]
        seconds.clear()
        used.clear()
        loss = run.epoch(epoch).loss
        found = {"drawing": drawing, "step": seconds, "cpu": used}
        figures = {name: 1000 * median(values) for name, values in found.items()}
        print(json.dumps(figures | {"loss": loss.hex()}) if line else "ready", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
