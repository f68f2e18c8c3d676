"""Mini-batches of GraphSAGE on several ranks: memory of a rank, words of draws, seconds of epochs.

    python -m benchmarks minibatch-ranks
    python -m benchmarks.minibatch_ranks plan.h5 --threads 1     one rank of what it starts

2 layers, 128 wide, 1,024 seeds, fan-outs 5 and 10, random features, 40 steps an epoch. Memory is a
rank's peak less that of its libraries; words are those of draws over those of features, of which
none are kept. Ranks and threads take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import plancc
from benchmarks.epoch_ranks import resident
from benchmarks.inputs import ROOT, Inputs, on_ranks
from benchmarks.report import Report
from plancc_datasets import load_dataset

RANKS, EPOCHS, STEPS = 4, 3, 40
MEMORY, WORDS, OVER_THREADS = 0.35, 0.02, 1.1
"""The targets: a rank's memory over one rank's, words, 2 ranks over 2 threads."""


def run(inputs: Inputs) -> Report:
    """R-MAT 20 on 4 ranks and one, R-MAT 17 on 2 ranks and 2 threads."""
    report = Report()
    large, small = (10, 9) if inputs.quick else (20, 17)
    four = _measured(_plan(inputs, large, RANKS), RANKS)
    one = _measured(_plan(inputs, large, 1), 1)
    name = f"R-MAT {large}, {RANKS} ranks"
    report.add(f"{name}: memory", max(four["memory"]) / max(one["memory"]), MEMORY, unit="x")
    report.add(f"{name}: words of draws", four["drawn"] / four["features"], WORDS, unit="x")
    report.add(f"{name}: words with a cache", four["cached"] / four["features"], unit="x")
    plans = {ranks: _plan(inputs, small, ranks) for ranks in (1, 2)}
    rounds = 1 if inputs.quick else 5
    seconds = [[_measured(plans[p], p, 3 - p)["seconds"] for p in (2, 1)] for _ in range(rounds)]
    two, threads = (median(each) for each in zip(*seconds, strict=True))
    report.add(f"R-MAT {small}: 2 ranks over 2 threads", two / threads, OVER_THREADS, unit="x")
    report.notes.append(f"an epoch: {two:.3f} s on 2 ranks, {threads:.3f} s on 2 threads")
    return report


def _plan(inputs: Inputs, scale: int, ranks: int) -> Path:
    path = inputs.folder / f"minibatch-ranks-{scale}-{ranks}.h5"
    if not path.exists():
        graph = load_dataset("rmat", scale=scale, edge_factor=16, seed=1).graph
        plancc.compile(graph, "hp", ranks, effort="fast").save(path)
    return path


def _measured(plan: Path, ranks: int, threads: int = 1) -> Any:
    words = [sys.executable, "-m", "benchmarks.minibatch_ranks", str(plan), "--threads"]
    if ranks > 1:
        return json.loads(on_ranks(ranks, *words, threads, timeout=1200))
    # mpirun would bind the rank to one core
    done = subprocess.run([*words, str(threads)], check=True, cwd=ROOT, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main() -> None:
    from plancc import jit  # noqa: F401  numba and torch are libraries, not what a rank holds
    from plancc_runtime.launch import open_transport
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.run import Run  # noqa: F401
    from plancc_runtime.train import prepared

    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    given = parser.parse_args()
    transport = open_transport()
    options = TrainOptions(
        model="sage", layers=2, hidden=128, random_features=128, sampler="neighbour",
        batch_size=1024, fanouts=(5, 10), steps=STEPS, epochs=EPOCHS, eval_every=0,
        threads=given.threads,
    )  # fmt: skip
    before, seconds = resident("VmRSS"), []
    training = prepared(given.plan, options, transport)
    for epoch in range(EPOCHS):
        begin = time.perf_counter()
        training.epoch(epoch)
        seconds.append(time.perf_counter() - begin)
    found = {"memory": transport.gather(resident("VmHWM") - before), "seconds": min(seconds)}
    bare = prepared(given.plan, replace(options, feature_cache=0, epochs=1), transport)
    bare.epoch(0)
    for name, each in (("cached", training), ("features", bare)):
        found[name] = sum(step.words_sent for step in each._steps[:STEPS])
    found["drawn"] = sum(step.words_drawn for step in bare._steps)
    if transport.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
