"""Boundary sampling beside DropEdge and boundary edge sampling (Wan et al. 2022, Tables 9 and 12,
Eq. 4).

All three drop the same number of edges. Ranks are threads of this process; words are counted by
their transport, without evaluations. The rivals are compared with the pass "order" alone, since
"constant" and "dead-rows" leave few words of any; boundary sampling is compared with exact epochs
with all passes too.
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
from plancc.plan.plan import Plan
from plancc.report.plans import report as inspected

PARTS = 8
GRAPHS: dict[str, dict[str, Any]] = {  # and how their runs differ from `KIPF`
    "Cora": {},
    "AmazonPhoto": {
        "split": (0.1, 0.1, 0.8),
        "hidden": 64,
        "dropout": 0.2,
        "weight_decay": 0.0,
        "lr": 0.05,
    },
}
RATES = (0.1, 0.01)
KIPF: dict[str, Any] = {  # and Welling (2017)
    "parametrization": "paper",
    "layers": 2,
    "hidden": 16,
    "dropout": 0.5,
    "optimizer": "adam",
    "weight_decay": 5e-4,
    "scale_features": "rows",
    "eval_every": 0,
    "threads": 1,
}
PASSES = ("order", "overlap")
ALL = ("order", "constant", "dead-rows", "overlap")
OVERHEAD = 0.073  # the most that Table 12 has


def run(inputs: Inputs) -> Report:
    epochs, seeds = (20, 1) if inputs.quick else (100, 2)
    report = Report(
        [
            f"{PARTS} parts by gp, GCN of {KIPF['layers']} layers, {epochs} epochs, "
            f"mean of {seeds} seeds; threads as ranks",
            "per rate: as many edges dropped as boundary sampling drops",
        ]
    )
    for name in list(GRAPHS)[: 1 if inputs.quick else None]:
        graph = SHARED / f"{name}.mtx.gz"
        if graph.exists():
            _rivals(inputs, report, graph, epochs, seeds)
        else:
            report.notes.append(f"skipped: {graph.name} is not there")
    _overhead(inputs, report)
    return report


def _rivals(inputs: Inputs, report: Report, graph: Path, epochs: int, seeds: int) -> None:
    name = graph.name.partition(".")[0]
    data = graph.with_name(f"{name}.npz")
    read = plancc.read_graph(graph, symmetrize=True)
    plan = plancc.compile(read, model="gp", num_parts=PARTS, data=data, seed=1, balance="nnz")
    path = inputs.folder / f"{name}-boundary.h5"
    plan.save(path)
    boundary, edges = _edges(plan)
    report.notes.append(f"{name}: {edges:,} edges, {boundary / edges:.1%} of them between parts")

    def words(what: str, **options: Any) -> float:
        found = _measured(path, epochs, seeds, **GRAPHS[name], **options)
        for unit, value in found.items():
            report.add(f"{name}, {what}: {unit}", value)
        return found["words per epoch"]

    full = words("p = 1")
    for p in RATES:
        words(f"p = {p:g}, DropEdge", drop_edge=1 - (1 - p) * boundary / edges)
        words(f"p = {p:g}, boundary edge sampling", boundary_edge_sampling=p)
        share = words(f"p = {p:g}, boundary sampling", boundary_sampling=p) / full
        expected = 1.1 * p  # a tenth for the draw
        report.add(f"{name}, p = {p:g}, boundary sampling: share of all words", share, expected)
    words("p = 0", boundary_sampling=0.0)
    exact, drawn = (
        _measured(path, epochs, 1, **(GRAPHS[name] | {"dropout": 0.0}), **sampling, passes=ALL)
        for sampling in ({}, {"boundary_sampling": 0.1})
    )
    share = drawn["words per epoch"] / exact["words per epoch"]
    report.add(f"{name}, p = 0.1, all passes: words over exact", share, 0.15)
    features, labels = plan.vertex_data.features, plan.vertex_data.labels
    assert features is not None
    assert labels is not None
    dims = [features.shape[1], (KIPF | GRAPHS[name])["hidden"], int(labels.max()) + 1]
    for cost in inspected(path, dims=dims, boundary_sampling=(1, *RATES, 0)).sampled:
        memory = f"{name}, p = {cost.rate:g}: memory of the fullest part by Eq. 4"
        report.add(memory, cost.max_memory / 1e6, unit="MB")


def _measured(path: Path, epochs: int, seeds: int, **options: Any) -> dict[str, float]:
    """Words and seconds of an epoch, and test accuracy at the end; over all seeds."""
    results = [
        _trained(path, PARTS, epochs=epochs, seed=seed, **(KIPF | {"passes": PASSES} | options))
        for seed in range(seeds)
    ]
    of_all = [epoch for result in results for epoch in result.epochs]
    accuracy = [result.final.accuracy["test"] for result in results]
    return {
        "words per epoch": float(np.mean([epoch.words_sent for epoch in of_all])),
        "median seconds": float(np.median([epoch.seconds_max["total"] for epoch in of_all])),
        "test accuracy": float(np.mean(accuracy)),
        "its deviation": float(np.std(accuracy)),
    }


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
    """Time to draw and to lay out what an epoch works on, over the time of an epoch at p = 1."""
    import torch

    from plancc_runtime.layouts.block import Block
    from plancc_runtime.layouts.boundary import draw, numbered
    from plancc_runtime.layouts.local import LocalGraph
    from plancc_runtime.layouts.resources import Resources
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.transport.single import SingleTransport

    graph, ranks = SHARED / "soc-Slashdot0902.mtx.gz", 2
    if inputs.quick or not graph.exists():
        graph = inputs.rmat_file
    read = plancc.read_graph(graph, symmetrize=True)
    plan = plancc.compile(read, model="gp", num_parts=ranks, seed=1, balance="nnz")
    path = inputs.folder / "overhead-boundary.h5"
    plan.save(path)
    whole = Block.of_part(plan.part(0), plan.header.self_loops)
    block = numbered(whole, TrainOptions().sampling)
    transport = SingleTransport()  # which is asked for nothing
    layout = LocalGraph(block, Resources(transport, torch.float32))
    layout.lay_out("plan")

    def draw_and_lay_out(options: TrainOptions) -> None:
        layout.sampled(draw(block, options.sampling, 0, 1)).lay_out("plan")

    name = graph.name.partition(".")[0]
    report.notes.append(f"hidden 32, 128: {name}, {ranks} parts by gp, 3 layers; one rank draws")
    common: dict[str, Any] = {"layers": 3, "epochs": 6, "eval_every": 0, "threads": 1}
    common["optimizer"] = "sgd"
    for hidden in (32, 128):
        seconds = {}
        for rate in (1.0, *RATES, 0.0):
            sampling: dict[str, Any] = {"passes": PASSES, "boundary_sampling": rate}
            options = TrainOptions(**common, **sampling, hidden=hidden)
            result = _trained(path, ranks, **common, **sampling, hidden=hidden)
            seconds[rate] = min(epoch.seconds_max["total"] for epoch in result.epochs)
            report.add(f"hidden {hidden}, p = {rate:g}: epoch", seconds[rate], unit="s")
            if rate < 1:
                drawing = _least_seconds(partial(draw_and_lay_out, options))
                name = f"hidden {hidden}, p = {rate:g}: drawing over an epoch at p = 1"
                report.add(name, drawing / seconds[1.0], OVERHEAD)
        report.add(f"hidden {hidden}: epoch at p = 0.1 over p = 1", seconds[0.1] / seconds[1.0])


def _least_seconds(work: Callable[[], object], repetitions: int = 9) -> float:
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
