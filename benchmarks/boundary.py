"""Boundary sampling beside DropEdge and boundary edge sampling (paper 003, Tables 9 and 12, Eq. 4).

All three drop the same number of edges. Ranks are threads of this process; words are counted by
their transport, without evaluations. Every epoch draws what it moves, so that the passes "constant"
and "dead-rows" are off in all runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from plancc.cost.report import report as inspected
from plancc.plan.plan import Plan

PARTS = 8
RATES = (0.1, 0.01, 0.0)
KIPF: dict[str, Any] = {  # and Welling (2017)
    "layers": 2,
    "hidden": 16,
    "dropout": 0.5,
    "optimizer": "adam",
    "weight_decay": 5e-4,
    "normalize_features": True,
    "eval_every": 0,
    "threads": 1,
}
PASSES = ("order", "overlap")
OVERHEAD = 0.073  # the most that Table 12 has


def run(inputs: Inputs) -> Report:
    graph = SHARED / "Cora.mtx.gz"
    if not graph.exists():
        return Report([f"skipped: {graph.name} is not there"])
    path = inputs.folder / "cora-boundary.h5"
    plan = plancc.compile(
        graph, model="gp", num_parts=PARTS, data=graph.with_name("Cora.npz"), seed=1
    )
    plan.save(path)
    epochs, seeds = (20, 1) if inputs.quick else (200, 5)
    report = Report(
        [
            f"Cora, {PARTS} parts by gp, GCN of {KIPF['layers']} layers, hidden {KIPF['hidden']}, "
            f"{epochs} epochs, mean of {seeds} seeds; threads as ranks",
            "per rate: as many edges dropped as boundary sampling drops",
        ]
    )
    runs = partial(_words_and_accuracy, path, epochs, seeds)
    full_words, accuracy = runs({})
    report.add("p = 1: words per epoch", full_words)
    report.add("p = 1: test accuracy", accuracy)
    boundary, edges = _edges(plan)
    for p in RATES:
        words = {}
        for name, options in {
            "DropEdge": {"drop_edge": 1 - (1 - p) * boundary / edges},
            "boundary edge sampling": {"boundary_edge_sampling": p},
            "boundary sampling": {"boundary_sampling": p},
        }.items():
            words[name], accuracy = runs(options)
            report.add(f"p = {p:g}, {name}: words per epoch", words[name])
            report.add(f"p = {p:g}, {name}: test accuracy", accuracy)
        expected = 1.1 * p  # a tenth for the draw
        share = words["boundary sampling"] / full_words
        report.add(f"p = {p:g}, boundary sampling: share of all words", share, expected)
    dims = [1433, KIPF["hidden"], 7]
    for cost in inspected(path, dims=dims, boundary_sampling=(1, *RATES)).sampled:
        megabytes = cost.max_memory / 1e6
        report.add(f"p = {cost.rate:g}: memory of the fullest part by Eq. 4", megabytes, unit="MB")
    _overhead(inputs, report)
    return report


def _words_and_accuracy(
    path: Path, epochs: int, seeds: int, options: dict[str, Any]
) -> tuple[float, float]:
    """Mean words of an epoch, and mean test accuracy at the end."""
    words, accuracy = [], []
    for seed in range(seeds):
        result = _trained(path, PARTS, epochs=epochs, seed=seed, passes=PASSES, **KIPF, **options)
        words.append(np.mean([epoch.words_sent for epoch in result.epochs]))
        accuracy.append(result.final.accuracy["test"])
    return float(np.mean(words)), float(np.mean(accuracy))


def _trained(path: Path, ranks: int, **options: Any) -> Any:
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train
    from plancc_runtime.transport.local import run_ranks

    return run_ranks(ranks, lambda transport: train(path, TrainOptions(**options), transport))[0]


def _edges(plan: Plan) -> tuple[int, int]:
    """Nonzeros in halo columns, and off the diagonal."""
    parts = [plan.part(m) for m in range(plan.num_parts)]
    boundary = sum(int((part.column >= part.num_rows).sum()) for part in parts)
    return boundary, plan.header.num_nonzeros - plan.num_vertices


def _overhead(inputs: Inputs, report: Report) -> None:
    """Time to draw and to lay out what an epoch works on, over the time of the epoch."""
    from plancc_runtime.layouts.block import Block
    from plancc_runtime.layouts.boundary import drawn
    from plancc_runtime.options import TrainOptions

    graph, ranks = SHARED / "soc-Slashdot0902.mtx.gz", 2
    if inputs.quick or not graph.exists():
        graph = inputs.rmat_file
    read = plancc.read_graph(graph, symmetrize=True)
    plan = plancc.compile(read, model="gp", num_parts=ranks, seed=1)
    path = inputs.folder / "overhead-boundary.h5"
    plan.save(path)
    block = Block.of_part(plan.part(0), plan.header.self_loops)
    common: dict[str, Any] = {
        "layers": 3,
        "hidden": 128,
        "epochs": 6,
        "eval_every": 0,
        "threads": 1,
    }
    report.notes.append(f"overhead: {graph.name}, {ranks} parts by gp, 3 layers, hidden 128")
    seconds = {}
    for rate in (1.0, *RATES):
        options: dict[str, Any] = {**common, "passes": PASSES, "boundary_sampling": rate}
        result = _trained(path, ranks, **options)
        seconds[rate] = min(epoch.seconds_max["total"] for epoch in result.epochs)
        report.add(f"epoch at p = {rate:g}", seconds[rate], unit="s")
        if rate < 1:
            chosen = TrainOptions(**options)
            drawing = _least_seconds(lambda: sampled_blocks(block, chosen, 0, 1))  # noqa: B023
            name = f"drawing at p = {rate:g}, share of the epoch"
            report.add(name, drawing / seconds[rate], OVERHEAD)
    report.add("epoch at p = 0.1 over the epoch at p = 1", seconds[0.1] / seconds[1.0])


def _least_seconds(work: Callable[[], object], repetitions: int = 9) -> float:
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
