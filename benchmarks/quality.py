"""The hypergraph model on a graph of paper 000, Table 2, against a random partition."""

from __future__ import annotations

import time
import warnings

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report

GRAPH = "soc-Slashdot0902.mtx.gz"


def run(inputs: Inputs) -> Report:
    path = SHARED / GRAPH
    if not path.exists():
        return Report([f"skipped: {path} is not there"])
    if inputs.quick:
        return Report(["skipped: takes minutes at its only size"])
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", plancc.PlanccWarning)
        plan = plancc.compile(path, "hp", 512)
    seconds = time.perf_counter() - start
    found, random = plan.metrics(), plan.baseline
    assert random is not None
    how = plan.provenance
    report = Report([f"{GRAPH}, p = 512, {how['partitioner']}, preset {how['preset']}"])
    report.notes += [str(each.message) for each in caught]
    report.add("volume / random (the paper: 0.74)", found.volume / random.volume, 0.75)
    report.add("max send / random (the paper: 0.69)", found.max_sent / random.max_sent, 0.70)
    report.add("messages / random (the paper: 0.86)", found.messages / random.messages, 0.87)
    report.add("imbalance of nonzeros", found.nonzero_imbalance)
    report.add("compile", seconds, unit="s")
    report.add("of it the partitioner", float(how["partition_seconds"]), unit="s")
    return report
