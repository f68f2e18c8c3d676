"""The compiler around the partitioner, against reading the graph file: all stages of `compile`,
and writing the plan to the disk."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import plancc
from benchmarks.inputs import Inputs
from benchmarks.report import Report

NUM_PARTS = 256
READ, PARTITION = "load", "partition"


def run(inputs: Inputs) -> Report:
    report = Report([f"{inputs.rmat_name}, pattern .mtx, model rp, p = {NUM_PARTS}"])
    seconds: dict[str, list[float]] = {}

    @contextmanager
    def observer(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds.setdefault(stage, []).append(time.perf_counter() - start)

    for repetition in range(1 + inputs.repetitions):
        plan = plancc.compile(inputs.rmat_file, "rp", NUM_PARTS, observer=observer)
        with observer("write, with fsync"):
            plan.save(inputs.folder / "rp.h5")
        del plan
        if repetition == 0:  # compiles the kernels
            seconds.clear()

    for stage, times in seconds.items():
        report.add(f"{stage}: median", statistics.median(times), unit="s")
    others = (times for stage, times in seconds.items() if stage not in (READ, PARTITION))
    rest = [sum(times) for times in zip(*others, strict=True)]
    report.add("all but reading and the partitioner: median", statistics.median(rest), unit="s")
    report.add_ratio("... / read", rest, seconds[READ], 1.0)
    return report
