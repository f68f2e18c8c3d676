"""Plans for nodes beside flat plans of the same topology: rows between nodes, epochs, seconds.

The flat plan is the one that the same search finds without nodes, its parts numbered so that those
which exchange much share a node. Epochs are predicted, 128,128,16, on machines whose nodes have the
ranks of the topology; of a machine those plans count for the target of the CPUs whose flat epoch is
communication by more than 30%.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import numpy as np

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from plancc.cost.pairs import pair_volumes_of_table
from plancc.cost.topology import volumes_by_node
from plancc.graph.graph import Graph
from plancc.owners.numbering import mapped
from plancc.plan.exchange import Exchange
from plancc.plan.format import STEPS
from plancc.plan.lowering import lower
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.plan import Plan
from plancc.plan.topology import Topology
from plancc.predict.machine_files import find_machine
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of

GRAPHS = ("wiki-Vote", "email-Enron", "CoauthorCS", "soc-Slashdot0902", "dblp-2010", "cit-HepTh")
SHAPES = ("8x8", "4x16", "16x4")
MODELS = {"hp": 0.50, "medium-grain": 0.65}
"""Rows between nodes over the flat plan's, to reach."""
MACHINES = {"cpu-cluster": 0.80, "summit": 0.80, "h100": 0.65}
"""Epoch over the flat plan's, to reach; on `SHAPES[0]` for h100, which has 8 GPUs on a node."""
COMMUNICATION = 0.3
"""Share of communication in an epoch from which it counts."""


def run(inputs: Inputs) -> Report:
    report = Report([f"p = 64, effort fast, dims {','.join(map(str, DEFAULT_DIMS))}"])
    warnings.simplefilter("ignore")
    for model, wanted in MODELS.items():
        rows, over_nodes, seconds = [], [], []
        epochs: dict[str, list[float]] = {name: [] for name in MACHINES}
        most, worst = 0.0, 0.0
        for name in GRAPHS[:2] if inputs.quick else GRAPHS:
            if not (SHARED / f"{name}.mtx.gz").exists():
                continue
            graph = plancc.read_graph(SHARED / f"{name}.mtx.gz")
            plain, plain_seconds = _compiled(graph, model)
            for shape in SHAPES:
                topology = Topology.parse(shape)
                flat = _mapped(plain, topology)
                plan, taken = _compiled(graph, model, topology=topology, exchange="nodes")
                of_nodes, _ = _compiled(graph, model, num_parts=topology.nodes)
                crossing = sum(cross.send.volume for cross in _crossings(plan))
                between = _between(flat, topology)
                rows.append(crossing / between)
                over_nodes.append(crossing / of_nodes.metrics().volume)
                seconds.append(taken / plain_seconds)
                pairs = topology.nodes * (topology.nodes - 1)
                messages = max(cross.send.num_messages for cross in _crossings(plan))
                most = max(most, messages / pairs)
                said = [f"rows {rows[-1]:.3f}, over {topology.nodes} parts {over_nodes[-1]:.3f}"]
                for machine in MACHINES:
                    ratio, share = _epochs(plan, flat, machine, topology)
                    worst = max(worst, ratio)
                    counts = machine != "h100" or shape == SHAPES[0]
                    if counts and share > COMMUNICATION:
                        epochs[machine].append(ratio)
                    said.append(f"{machine} {ratio:.3f} ({share:.0%} communication)")
                print(f"{model} {name} {shape}: {', '.join(said)}", flush=True)
        report.add(f"{model}: rows between nodes", _mean(rows), wanted, unit="x")
        report.add(f"{model}: over a plan for the nodes", _mean(over_nodes), 1.15, unit="x")
        report.add(f"{model}: messages for a pair of nodes, at most", most, 1.0)
        for machine, ratios in epochs.items():
            report.add(f"{model}: epoch on {machine}", _mean(ratios), MACHINES[machine], unit="x")
        report.add(f"{model}: slowest epoch", worst, 1.02, unit="x")
        report.add(f"{model}: seconds of the compile", _mean(seconds), 1.5, unit="x")
    return report


def _compiled(
    graph: Graph, model: str, num_parts: int = 64, **options: object
) -> tuple[Plan, float]:
    begin = time.perf_counter()
    plan = plancc.compile(graph, model, num_parts, effort="fast", **options)  # type: ignore[arg-type]
    return plan, time.perf_counter() - begin


def _mapped(plan: Plan, topology: Topology) -> Plan:
    """The plan with its parts numbered for the nodes."""
    matrix = graph_of(plan)
    owners = mapped(owners_of(plan), matrix, topology)
    return lower(matrix, owners, plan.num_parts, normalization="sym", self_loops=True)


def _crossings(plan: Plan) -> list[Exchange]:
    return [hops[1] for step in STEPS if (hops := plan.exchanges.hops(step))]


def _between(plan: Plan, topology: Topology) -> int:
    """Rows that travel between nodes straight from part to part."""
    tables = [plan.send] if plan.fold is None else [plan.send, plan.fold.send]
    return sum(volumes_by_node(pair_volumes_of_table(t), topology).between for t in tables)


def _epochs(plan: Plan, flat: Plan, name: str, topology: Topology) -> tuple[float, float]:
    """Epoch over the flat plan's, with hops or without as is quicker; communication of the latter.

    Compared with the flat plan itself where hops do not pay: that is what the compiler keeps.
    """
    machine = find_machine(name).on_nodes(topology)
    predictor = Predictor(DEFAULT_DIMS, machine)
    before = predictor.epoch(tables_of(flat))
    tables = tables_of(plan)
    after = min(predictor.epoch(each).seconds for each in (tables, tables.flat()))
    return after / before.seconds, before.communication / before.seconds


def _mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
