"""More effort, or a topology, is never worse: plans by the objective that was asked for.

    python -m benchmarks effort

Every ratio is one of the plan's own figures: rows, messages, predicted seconds of an epoch. A plan
with a topology is compared on its nodes, which the plan without one is numbered for.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from plancc.cost.objectives import OBJECTIVES
from plancc.graph.graph import Graph
from plancc.options import SearchOptions
from plancc.owners.numbering import mapped
from plancc.partitioners.options import PartitionOptions
from plancc.plan.lowering import lower
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.plan import Plan
from plancc.plan.topology import Topology
from plancc.predict.schedules import tables_of
from plancc.search.starts import highest
from plancc_datasets import load_dataset

GRAPHS = ("jazz", "power", "polblogs", "Cora", "Citeseer", "bcspwr10", "facebook_combined",
          "wiki-Vote", "AmazonPhoto", "4elt", "delaunay_n15")  # fmt: skip
QUICK = ("jazz", "power", "polblogs", "Cora")
PARTS, QUICK_PARTS = (2, 8, 16, 64), (2, 8)
TOPOLOGIES = {8: "2x4", 16: "4x4", 64: "8x8"}
MODELS = ("hp", "medium-grain")
LIMIT = 1.0


class Ratio(NamedTuple):
    """One figure over another one."""

    what: str
    case: str
    value: float


def run(inputs: Inputs) -> Report:
    """The worst ratio of each comparison, and of how many."""
    of = f"objectives {', '.join(OBJECTIVES)}, models {', '.join(MODELS)}"
    report = Report([f"{of}; hp with effort best over partitioners; each plan by its own figure"])
    found: dict[str, list[Ratio]] = {}
    for ratio in ratios(_graphs(inputs), QUICK_PARTS if inputs.quick else PARTS):
        found.setdefault(ratio.what, []).append(ratio)
    for what, every in found.items():
        worst = max(every, key=lambda each: each.value)
        mean = statistics.geometric_mean(max(each.value, 1e-9) for each in every)
        report.add(f"{what}: worst", worst.value, LIMIT)
        report.notes.append(f"{what}: mean {mean:.3f} of {len(every)}; worst {worst.case}")
    return report


def _graphs(inputs: Inputs) -> dict[str, Any]:
    wanted = QUICK if inputs.quick else GRAPHS
    found = {name: SHARED / f"{name}.mtx.gz" for name in wanted}
    if all(path.exists() for path in found.values()):
        return {name: str(path) for name, path in found.items()}
    return {"grid": load_dataset("grid", rows=40, cols=40).graph,
            "rmat": load_dataset("rmat", scale=10, edge_factor=8, seed=1).graph}  # fmt: skip


def ratios(
    graphs: dict[str, Any],
    parts: tuple[int, ...],
    models: tuple[str, ...] = MODELS,
    objectives: tuple[str, ...] = tuple(OBJECTIVES),
    best: bool = True,
) -> Iterator[Ratio]:
    """Ratios of balanced over fast, of a topology over none, and of best over partitioners."""
    for name, graph in graphs.items():
        for p in parts:
            for model in models:
                for objective in objectives:
                    case = f"{name} {model} p={p} {objective}"
                    yield from _of_objective(graph, model, p, objective, case)
            if best:
                yield from _of_best(graph, p, f"{name} p={p}")


def _of_objective(graph: Any, model: str, p: int, goal: str, case: str) -> Iterator[Ratio]:
    def made(effort: str, **more: Any) -> Plan:
        return _compiled(graph, model, p, objective=goal, effort=effort, **more)

    fast, balanced = made("fast"), made("balanced")
    yield Ratio("balanced over fast", case, _over(value(balanced, goal), value(fast, goal)))
    if p in TOPOLOGIES:
        shape = TOPOLOGIES[p]
        nodes = Topology.parse(shape)
        on_nodes = value(_numbered(fast, nodes), goal, nodes)
        quick = value(made("fast", topology=shape), goal, nodes)
        full = value(made("balanced", topology=shape), goal, nodes)
        yield Ratio("fast with a topology over fast", case, _over(quick, on_nodes))
        yield Ratio("balanced with a topology over fast", case, _over(full, on_nodes))
        yield Ratio("with a topology, balanced over fast", case, _over(full, quick))


def _of_best(graph: Any, p: int, case: str) -> Iterator[Ratio]:
    options = {"balance": "nnz"}
    best = _compiled(graph, "hp", p, effort="best", **options)
    matrix, moved = graph_of(best), best.metrics()
    for how in highest(hypergraphs=True):
        model = how.adapter.model
        asked = {"partitioner": how.adapter.name, "preset": how.how.preset, **options}
        if model == "gp":
            asked["objective"] = how.how.objective
        alone = _compiled(graph, model, p, **asked).metrics()
        allowed = max(moved.nonzero_imbalance, PartitionOptions.epsilon)
        if alone.nonzero_imbalance <= allowed + p / matrix.num_nonzeros:
            said = f"{case} over {' '.join(filter(None, how.name))}"
            yield Ratio("best over a partitioner", said, _over(moved.volume, alone.volume))


def _compiled(graph: str | Graph, model: str, p: int, **options: Any) -> Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plancc.compile(graph, model, p, **options)


def _numbered(plan: Plan, nodes: Topology) -> Plan:
    """The plan with its parts numbered for nodes."""
    matrix = graph_of(plan)
    owners = mapped(owners_of(plan), matrix, nodes)
    return lower(matrix, owners, plan.num_parts, normalization="none", self_loops=False)


def value(plan: Plan, goal: str, nodes: Topology | None = None) -> float:
    """The figure of a plan, on nodes if there are some."""
    if goal != "time":
        metrics = plan.metrics()
        found = {"volume": metrics.volume, "max-volume": metrics.max_volume}
        return float(found.get(goal, metrics.messages))
    predictor = SearchOptions(topology=nodes).predictor
    return predictor.epoch(tables_of(plan)).seconds


def _over(one: float, other: float) -> float:
    return one / other if other else (1.0 if one == other else math.inf)
