"""Epochs as `plancc simulate` predicts them, against epochs of plancc-run, layout by layout.

A GCN of three layers, full batch, float32, one thread per rank. Ranks are processes over MPI; those
without a core of their own yield it while they wait. In every round the same processes calibrate
and then train, since a machine that others use changes: a round's predictions are made with its
own calibration. Figures are medians over rounds, of the median of the epochs of a round. Words
and messages are counted by the transport.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import plancc
from benchmarks.inputs import ROOT, SHARED, Inputs, on_ranks
from benchmarks.report import Report
from plancc.errors import PlanccError
from plancc.graph.formats import write_graph
from plancc.graph.graph import Graph
from plancc.predict.machine_files import read_machine
from plancc.predict.schedules import schedule_of
from plancc.predict.simulation import Prediction, simulate
from plancc_datasets import load_dataset

RANKS = (1, 2, 4)
FILES = ("CoauthorCS",)
LAYERS, CLASSES = 3, 8
HIDDEN = 32
ROUNDS = 3
WITHIN = 0.3
PHASES = ("spmm", "dense", "communication", "allreduce", "other")
_HEAD = ("graph", "p", "layout", "predicted ms", "measured ms", "predicted / measured")


@dataclass(frozen=True)
class Way:
    """A layout, and the options that compile it."""

    name: str
    options: dict[str, Any]
    ranks: tuple[int, ...] = RANKS


WAYS = (
    Way("row", {"model": "hp"}),
    Way("edge", {"model": "medium-grain"}),
    Way("cagnet-1d", {"model": "cagnet-1d"}),
    Way("cagnet-1.5d", {"model": "cagnet-1.5d", "replication": 2}, (4,)),
    Way("cagnet-2d", {"model": "cagnet-2d"}, (4,)),
    Way("mop", {"model": "mop"}),
)


def run(inputs: Inputs) -> Report:
    report = Report([f"GCN of {LAYERS} layers, {HIDDEN} wide, {CLASSES} classes; mpirun -n p"])
    graphs = dict(_graphs(inputs, report))
    rows: dict[str, list[list[str]]] = {name: [] for name in graphs}
    for ranks in RANKS:
        plans = dict(_plans(inputs, report, graphs, ranks))
        rounds = _measured(inputs, plans, ranks)
        for (name, way), plan in plans.items():
            rows[name].append(_compare(report, name, ranks, way, plan, rounds))
            plan.unlink()
    lines = [_HEAD, ["---"] * 3 + ["--:"] * 3, *(row for of in rows.values() for row in of)]
    report.notes += [f"| {' | '.join(line)} |" for line in lines]
    return report


def _graphs(inputs: Inputs, report: Report) -> Iterator[tuple[str, Graph]]:
    scale = 9 if inputs.quick else 14
    path = inputs.folder / f"predict-rmat-{scale}.mtx"
    if not path.exists():
        write_graph(load_dataset("rmat", scale=scale, edge_factor=8, seed=1).graph, path)
    yield f"R-MAT {scale}", plancc.read_graph(path, symmetrize=True)
    for name in () if inputs.quick else FILES:
        path = SHARED / f"{name}.mtx.gz"
        if path.is_file():
            yield name, plancc.read_graph(path, symmetrize=True)
        else:
            report.notes.append(f"{name}: skipped, {SHARED} lacks it")


def _plans(
    inputs: Inputs, report: Report, graphs: dict[str, Graph], ranks: int
) -> Iterator[tuple[tuple[str, str], Path]]:
    for (name, graph), way in product(graphs.items(), WAYS):
        if ranks not in way.ranks:
            continue
        path = inputs.folder / f"predict-{name.replace(' ', '-')}-{way.name}-{ranks}.h5"
        try:
            plancc.compile(graph, num_parts=ranks, seed=1, threads=1, **way.options).save(path)
            yield (name, way.name), path
        except PlanccError as error:
            report.notes.append(f"{name}, p = {ranks}, {way.name}: left out, {error}")


def _measured(inputs: Inputs, plans: dict[Any, Path], ranks: int) -> list[dict[str, Any]]:
    """Of every round the machine file, and what every plan's epochs took."""
    command = [sys.executable, "-m", "benchmarks.predict_ranks", *map(str, plans.values())]
    command += ["--layers", str(LAYERS), "--hidden", str(HIDDEN), "--classes", str(CLASSES)]
    if inputs.quick:
        command.append("--quick")

    def play() -> Any:
        if ranks > 1:
            return json.loads(on_ranks(ranks, *command))
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
        return json.loads(done.stdout)

    return [play() for _ in range(1 if inputs.quick else ROUNDS)]


def _compare(
    report: Report, graph: str, ranks: int, way: str, plan: Path, rounds: list[dict[str, Any]]
) -> list[str]:
    """Add what was found of one plan; its row of the table."""
    label = f"{graph}, p = {ranks}, {way}"
    dims = [HIDDEN] * LAYERS + [CLASSES]
    schedule = schedule_of(plan, dims)
    predictions, measured = [], []
    for each in rounds:
        machine = plan.with_suffix(".toml")
        machine.write_text(each["machine"])
        predictions.append(simulate(schedule, read_machine(machine)))
        machine.unlink()
        measured.append(each["plans"][str(plan)])
    counted = measured[0]
    report.add(f"{label}: words", counted["words"], predictions[0].words, "=")
    report.add(f"{label}: messages", counted["messages"], predictions[0].messages, "=")
    seconds = statistics.median(p.seconds for p in predictions)
    took = statistics.median(m["total"] for m in measured)
    report.add(f"{label}: predicted / measured", seconds / took)
    report.add(f"{label}: off by", abs(seconds / took - 1), WITHIN)
    steps = ", ".join(f"{step} {1e3 * t:.2f}" for step, t in _steps(predictions).items())
    phases = ", ".join(
        f"{phase} {1e3 * statistics.median(m[phase] for m in measured):.2f}" for phase in PHASES
    )
    report.notes.append(f"{label}, ms: predicted {steps}; measured {phases}")
    return [
        *(graph, str(ranks), way),
        *(f"{1e3 * seconds:.2f}", f"{1e3 * took:.2f}", f"{seconds / took:.2f}"),
    ]


def _steps(predictions: list[Prediction]) -> dict[str, float]:
    """Seconds of the slowest ranks by step, medians over the predictions."""
    steps = {each.step for each in predictions[0].steps}
    return {
        step: statistics.median(p.of_step(step)[0] for p in predictions) for step in sorted(steps)
    }
