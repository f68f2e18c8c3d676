"""Relays of row and edge plans beside the row plan of max-volume whose rows go straight.

Graphs with hubs, 256 and 1,024 parts, effort fast, widths 128,128,16. The busiest rank: rows that
it sends or receives; seconds of the slowest rank in the exchanges of a predicted epoch.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from plancc.plan.plan import Plan
from plancc.plan.verify import verify
from plancc.predict.machine_files import find_machine
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.predictor import Predictor
from plancc.predict.relays import best_relays
from plancc.predict.schedules import tables_of
from plancc.predict.simulation import Prediction
from plancc.report.costs import RelayCost
from plancc_datasets import load_dataset

CASES = (
    *(("rmat-17", parts) for parts in (256, 1024)),
    *(("soc-Slashdot0902", parts) for parts in (256, 1024)),
    *(("email-Enron", parts) for parts in (256, 1024)),
    ("wiki-Vote", 256),
)
MACHINES = ("cpu-cluster", "h100")
MODELS = ("hp", "medium-grain")
STEPS = ("expand", "collect", "cross", "spread", "fold")
"""Steps of an epoch that move rows."""
ROWS, EPOCH = 0.6, 0.9
"""To reach: the busiest rank's rows, and the epoch, over the row plan's."""


def run(inputs: Inputs) -> Report:
    report = Report(["over the row plan of max-volume without relays"])
    warnings.simplefilter("ignore")
    folder, found = inputs.results("relays"), dict[str, list[float]]()
    for graph, parts in CASES[-1:] if inputs.quick else CASES:
        straight = _compiled(graph, MODELS[0], parts, folder)
        for model in MODELS:
            plan = straight if model == MODELS[0] else _compiled(graph, model, parts, folder)
            for name in MACHINES:
                predictor = Predictor(DEFAULT_DIMS, find_machine(name))
                relayed, _, how = best_relays(plan, predictor, 3)
                verify(relayed)
                cost = RelayCost.of(tables_of(relayed))
                row_plan, before, after = (
                    predictor.epoch(tables_of(each)) for each in (straight, plan, relayed)
                )
                rows = straight.metrics().max_volume
                ratios = {
                    "busiest rank, rows": cost.relayed.rows / rows,
                    "rows no relays undercut": cost.least_rows / rows,
                    "busiest rank, seconds of exchange": _moving(after) / _moving(row_plan),
                    "epoch": after.seconds / row_plan.seconds,
                    "epoch over the same plan's": after.seconds / before.seconds,
                }
                said = ", ".join(f"{figure} {ratio:.2f}" for figure, ratio in ratios.items())
                messages = f"messages {cost.straight.messages} -> {cost.relayed.messages}"
                print(f"{model} {graph} {parts} {name}, {how}: {said}, {messages}", flush=True)
                for figure, ratio in ratios.items():
                    found.setdefault(f"{model}, {name}: {figure}", []).append(ratio)
    for figure, several in found.items():
        mean = float(np.exp(np.mean(np.log(several))))
        target = ROWS if "rank" in figure else EPOCH if figure.endswith("epoch") else None
        report.add(f"{figure}, mean", mean, target, unit="x")
        report.add(f"{figure}, worst", max(several), unit="x")
    return report


def _moving(epoch: Prediction) -> float:
    """Seconds of the slowest ranks in all steps that move rows."""
    return sum(epoch.of_step(step)[0] for step in STEPS)


def _compiled(graph: str, model: str, parts: int, folder: Path) -> Plan:
    """The plan without hops; it is kept, since its search takes minutes."""
    path = folder / f"{graph}-{model}-{parts}.h5"
    if not path.exists():
        read = (
            load_dataset("rmat", scale=int(graph[5:]), edge_factor=16, seed=1).graph
            if graph.startswith("rmat-")
            else plancc.read_graph(SHARED / f"{graph}.mtx.gz")
        )
        how = {"objective": "max-volume", "effort": "fast", "exchange": "flat"}
        plancc.compile(read, model, parts, **how).save(path)
    return plancc.load(path)
