"""Epochs of plans with hops and without, on ranks in groups between which a network card is slow.

Ranks are threads. What leaves a group goes through one card, message after message: each takes
a latency, and its bytes at a bandwidth (`NETWORK`). Inside a group messages are copies. The
prediction for a machine with these numbers stands beside what is measured.
"""

from __future__ import annotations

import warnings

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from benchmarks.slow_network import SlowNetwork
from plancc.plan.topology import Topology
from plancc.predict.machine import Machine, Node
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of

GRAPHS = ("wiki-Vote", "email-Enron", "CoauthorCS")
SHAPE = "2x4"
NETWORK = SlowNetwork(latency=1e-3, bandwidth=2e7)
"""The cards of the groups."""
DIMS = (64, 64, 16)
EPOCHS = 6


def run(inputs: Inputs) -> Report:
    warnings.simplefilter("ignore")
    report = Report(
        [
            f"{SHAPE} ranks as threads, GCN {DIMS}, a card of {NETWORK} for every group; "
            f"medians of {EPOCHS - 1} epochs"
        ]
    )
    topology = Topology.parse(SHAPE)
    for name in GRAPHS[:1] if inputs.quick else GRAPHS:
        if not (SHARED / f"{name}.mtx.gz").exists():
            continue
        for model in ("hp", "medium-grain"):
            plan = plancc.compile(
                SHARED / f"{name}.mtx.gz",
                model,
                topology.num_ranks,
                effort="fast",
                topology=SHAPE,
                exchange="nodes",
            )
            measured = {
                each: NETWORK.epoch(
                    plan,
                    topology.node_of_rank().tolist(),
                    first=1,
                    epochs=EPOCHS,
                    random_features=DIMS[0],
                    hidden=DIMS[1],
                    classes=DIMS[-1],
                    exchange=each,
                )
                for each in ("flat", "nodes")
            }
            ratio = measured["nodes"] / measured["flat"]
            machine = Machine(
                latency=NETWORK.latency,
                bandwidth=NETWORK.bandwidth,
                multiply_adds=1e9,
                node=Node(ranks=4, injection=NETWORK.bandwidth, latency=2e-5, bandwidth=2e9),
            )
            tables, predictor = tables_of(plan), Predictor(DIMS, machine)
            predicted = predictor.epoch(tables).seconds / predictor.epoch(tables.flat()).seconds
            report.add(f"{model} {name}: epoch with hops, measured", ratio, 1.0, unit="x")
            report.add(f"{model} {name}: the same, predicted", predicted, unit="x")
            print(f"{model} {name}: measured {ratio:.3f}, predicted {predicted:.3f}", flush=True)
    return report
