"""The pipeline of feature-parallel plans, and the row order that it asks for (Wan et al. 2025).

A GCN of three layers on two ranks of a plan of model mop, one thread each, in one process per rank:
the variants train the same network, epoch by epoch in turns. Figures are ratios of their medians,
and of their minima; the losses must be the same. Where both ranks have a core and messages are
copies in memory, a message is moved by the core that waits for it, so that there is nothing to gain
but what the cache gives: this shows what batches cost, and what the order is worth. So there is a
second measurement, in which all-to-alls take the time of a network card, which needs no core.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plancc
from benchmarks.inputs import SHARED, Inputs, on_ranks
from benchmarks.report import Report
from plancc.graph.graph import Graph
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc_datasets import load_dataset

FILES = ("soc-Slashdot0902", "dblp-2010")
HIDDEN = 64
RANKS = 2
PAIRS = (
    ("rcm", "plain"),
    ("pipeline", "plain"),
    ("pipeline, rcm", "plain"),
    ("pipeline, rcm", "rcm"),
    ("pipeline, rcm", "pipeline"),
    ("4 stages, rcm", "rcm"),
)
NETWORKS = {"": None, ", 1 Gbit/s": 125e6}
LOSS = 1e-4


def run(inputs: Inputs) -> Report:
    report = Report([f"GCN of 3 layers, hidden {HIDDEN}, {RANKS} ranks, epochs in turns"])
    for name, graph in _graphs(inputs, report):
        plan = inputs.folder / f"pipeline-{name}.h5"
        whole = plancc.compile(graph, model="block", num_parts=1)
        with_grid(whole, Grid("feature", 1, RANKS)).save(plan)
        for network, bandwidth in NETWORKS.items():
            _measure(f"{name}{network}", plan, 3 if inputs.quick else 20, bandwidth, report)
        plan.unlink()
    return report


def _graphs(inputs: Inputs, report: Report) -> Iterator[tuple[str, Graph]]:
    if inputs.quick:
        yield "grid", load_dataset("grid", rows=40, cols=40).graph
        return
    for name in FILES:
        path = SHARED / f"{name}.mtx.gz"
        if path.is_file():
            yield name, plancc.read_graph(path, symmetrize=True)
        else:
            report.notes.append(f"{name}: skipped, {SHARED} lacks it")


def _measure(name: str, plan: Path, rounds: int, bandwidth: float | None, report: Report) -> None:
    command = [sys.executable, "-m", "benchmarks.pipeline_ranks", plan, "--hidden", HIDDEN]
    network = [] if bandwidth is None else ["--bandwidth", bandwidth]
    found = json.loads(on_ranks(RANKS, *command, "--rounds", rounds, *network))
    for over, under in PAIRS:
        ours, theirs = found[over]["seconds"], found[under]["seconds"]
        ratio = statistics.median(ours) / statistics.median(theirs)
        report.add(f"{name}: {over} / {under}, medians", ratio)
        report.add(f"{name}: {over} / {under}, minima", min(ours) / min(theirs))
    losses = [each["losses"] for each in found.values()]
    difference = max(max(each) - min(each) for each in zip(*losses, strict=True))
    report.add(f"{name}: losses differ by", difference, LOSS)
    report.notes += [f"{name}, {each}: {_told(found[each])}" for each in found]


def _told(variant: dict[str, Any]) -> str:
    """Time, where it went, and the pipeline."""
    phases = ("spmm", "dense", "pack", "wait", "allreduce")
    parts = [f"{statistics.median(variant['seconds']):.4f} s"]
    parts += [f"{each} {statistics.median(variant['phases'][each]):.4f}" for each in phases]
    if "pipeline" in variant:
        parts += [f"{key.replace('_', ' ')} {n:,}" for key, n in variant["pipeline"].items()]
    return ", ".join(parts)
