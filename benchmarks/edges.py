"""Edge plans beside the best row plans of the same run, all of which balance nonzeros.

The row plans are those of model hp for each objective; "1D" is the one with the least volume. One
thread. Every plan has a line in edges.json of the benchmark's folder as soon as it is there.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.means import geometric_mean
from benchmarks.report import Report
from plancc_datasets import load_dataset

GRAPHS = ("wiki-Vote", "email-Enron", "musae-github", "soc-Slashdot0902")
LOCAL_GRAPHS = ("USA-road.NY", "dblp-2010")
"""Where row plans are good already."""
PARTS, QUICK_PARTS = (64, 256), (16,)
ROW_PLANS = ("volume", "max-volume")
"""Objectives."""
EDGE_PLANS = (
    ("medium-grain", "volume"),
    ("medium-grain", "max-volume"),
    ("libra", None),
)
MAX_IMBALANCE = 0.02


@dataclass(frozen=True)
class Row:
    """Figures of one plan."""

    graph: str
    num_parts: int
    model: str
    objective: str | None
    volume: int
    fold_volume: int
    messages: int
    max_exchanged: int
    imbalance: float
    replication_factor: float
    seconds: float
    chosen: str


def run(inputs: Inputs) -> Report:
    parts = QUICK_PARTS if inputs.quick else PARTS
    report = Report(["figures of a graph are over those of the 1D plan with the least volume"])
    rows: list[Row] = []

    def compiled(
        name: str,
        graph: Any,
        num_parts: int,
        model: str,
        objective: str | None,
        effort: str | None = None,
    ) -> Row:
        row = _compile(name, graph, num_parts, model, objective, effort)
        rows.append(row)
        text = json.dumps([asdict(each) for each in rows], indent=1)
        (inputs.folder / "edges.json").write_text(text + "\n")
        return row

    for num_parts in parts:
        ratios: dict[str, list[float]] = {}
        for name, graph in _graphs(GRAPHS, inputs).items():
            flat = [compiled(name, graph, num_parts, "hp", each) for each in ROW_PLANS]
            edge = [compiled(name, graph, num_parts, *each) for each in EDGE_PLANS]
            _compare(ratios, flat, edge)
        _add(report, num_parts, ratios)
        for name, graph in _graphs(LOCAL_GRAPHS, inputs).items():
            flat = [compiled(name, graph, num_parts, "hp", "volume")]
            auto = compiled(name, graph, num_parts, "auto", "volume")
            ratio = auto.volume / flat[0].volume
            report.add(f"p = {num_parts}: {name}: auto ({auto.chosen}) / 1D: volume", ratio, 1.02)
    report.notes.append("every plan: edges.json in --folder")
    return report


def _graphs(names: Sequence[str], inputs: Inputs) -> dict[str, Any]:
    """Paths, or generated graphs where the real ones are missing or take too long."""
    found = {name: SHARED / f"{name}.mtx.gz" for name in names}
    if not inputs.quick and all(path.exists() for path in found.values()):
        return dict(found)
    if names is LOCAL_GRAPHS:
        return {"grid": load_dataset("grid", rows=48, cols=48).graph}
    return {"rmat": load_dataset("rmat", scale=11, edge_factor=8, seed=1).graph}


def _compile(
    name: str,
    graph: Any,
    num_parts: int,
    model: str,
    objective: str | None,
    effort: str | None,
) -> Row:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plancc.PlanccWarning)  # the imbalance is in the table
        plan = plancc.compile(
            graph, model, num_parts, objective=objective, effort=effort, balance="nnz"
        )
    seconds = time.perf_counter() - start
    figures = plan.metrics()
    return Row(
        graph=name,
        num_parts=num_parts,
        model=model,
        objective=objective,
        volume=figures.volume,
        fold_volume=figures.fold_volume,
        messages=figures.messages,
        max_exchanged=figures.max_exchanged,
        imbalance=figures.nonzero_imbalance,
        replication_factor=figures.replication_factor,
        seconds=seconds,
        chosen=str(plan.provenance.get("chosen_model", model)),
    )


def _compare(ratios: dict[str, list[float]], flat: Sequence[Row], edge: Sequence[Row]) -> None:
    """Append this graph's ratios to those of the graphs before."""
    best = min(flat, key=lambda row: row.volume)
    least = min(edge, key=lambda row: row.volume)
    [even] = [row for row in edge if row.objective == "max-volume"]
    found = {
        "volume": least.volume / best.volume,
        "volume, imbalance": max(least.imbalance, best.imbalance),
        "max-volume: busiest": even.max_exchanged / best.max_exchanged,
        "max-volume: busiest / best of all 1D": even.max_exchanged
        / min(row.max_exchanged for row in flat),
        "max-volume: imbalance": even.imbalance,
        "seconds of the least volume": least.seconds / best.seconds,
    }
    for row in edge:
        found[f"{row.model} {row.objective or ''}".strip() + ": volume"] = row.volume / best.volume
    for name, value in found.items():
        ratios.setdefault(name, []).append(value)


TARGETS = {
    "volume": 0.72,
    "max-volume: busiest": 0.8,
}


def _add(report: Report, num_parts: int, ratios: dict[str, list[float]]) -> None:
    for name, values in ratios.items():
        what = f"p = {num_parts}: {name}"
        if name.endswith("imbalance"):
            report.add(f"{what}, worst graph", max(values), MAX_IMBALANCE)
        else:
            report.add(what, geometric_mean(values), TARGETS.get(name))
