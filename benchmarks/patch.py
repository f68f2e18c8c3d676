"""`plancc patch` against a new compile: time, volume, rows that change their owner.

Half of the changed edges are removed, half are new ones between vertices drawn at random, which no
owners foresee. Results are kept, so that a run goes on.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from plancc.graph.graph import Graph
from plancc.plan.plan import Plan

NUM_PARTS, SEED = 64, 1
GRAPHS = ("4elt", "delaunay_n15", "USA-road.NY", "CoauthorCS", "cit-HepTh", "email-Enron")
QUICK_GRAPHS = ("4elt",)
TARGETS = {0.001: (0.10, 1.01), 0.01: (0.15, 1.02), 0.1: (0.4, 1.05)}
"""By the share of changed edges: CPU seconds and volume over those of a new compile."""
MOST_MOVED = 0.01


def run(inputs: Inputs) -> Report:
    report = Report(
        [
            f"p = {NUM_PARTS}, default effort; CPU seconds of all processes",
            "changed edges: half of them removed, half new, between random vertices",
        ]
    )
    path = inputs.results("patch") / "patch.json"
    rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in QUICK_GRAPHS if inputs.quick else GRAPHS:
        source = SHARED / f"{name}.mtx.gz"
        if not source.exists():
            report.notes.append(f"{name}: left out, {source} is not there")
            continue
        missing = [share for share in TARGETS if f"{name} {share}" not in rows]
        if missing:
            graph = plancc.read_graph(source)
            plan, _ = _timed(plancc.compile, graph, num_parts=NUM_PARTS, data=False)
            for share in missing:
                rows[f"{name} {share}"] = _row(graph, plan, share)
                path.write_text(json.dumps(rows, indent=1))
        for share, (seconds, volume) in TARGETS.items():
            row, words = rows[f"{name} {share}"], f"{name}, {100 * share:g}%"
            report.add(f"{words}: seconds over a compile's", row["seconds"], seconds)
            report.add(f"{words}: volume over its", row["volume"], volume)
            report.add(f"{words}: share of rows moved", row["moved"], MOST_MOVED)
    return report


def _row(graph: Graph, plan: Plan, share: float) -> dict[str, float]:
    """Figures of one graph and one share."""
    added, removed = _changes(graph, share)
    patched, spent = _timed(plancc.patch, plan, add=added, remove=removed)
    patched, spent = _timed(plancc.patch, plan, add=added, remove=removed)  # kernels are there
    changed = _changed(graph, added, removed)
    fresh, whole = _timed(plancc.compile, changed, num_parts=NUM_PARTS, data=False)
    moved = np.count_nonzero(patched.owner() != plan.owner())
    return {
        "seconds": spent / whole,
        "volume": patched.metrics().volume / fresh.metrics().volume,
        "moved": moved / graph.num_vertices,
    }


def _timed(make: Any, *words: Any, **options: Any) -> tuple[Plan, float]:
    """A plan, and the CPU seconds of this process and its children."""
    before = sum(os.times()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = make(*words, **options)
    return plan, sum(os.times()[:4]) - before


Pairs = npt.NDArray[np.int64]


def _pairs(graph: Graph) -> Pairs:
    """Edges as rows ``u v``, of an undirected graph one of both directions; no loops."""
    rows = np.repeat(np.arange(graph.num_vertices), graph.row_nonzeros())
    pairs = np.stack([rows, graph.indices], axis=1).astype(np.int64)
    return pairs[pairs[:, 0] != pairs[:, 1] if graph.directed else pairs[:, 0] < pairs[:, 1]]


def _changes(graph: Graph, share: float) -> tuple[Pairs, Pairs]:
    """Edges to add and to remove."""
    pairs, rng, n = _pairs(graph), np.random.default_rng(SEED), graph.num_vertices
    count = max(int(share * len(pairs) / 2), 1)
    drawn = rng.integers(0, n, (2 * count, 2))
    removed = pairs[rng.choice(len(pairs), count, replace=False)]
    if not graph.directed:
        drawn.sort(axis=1)
    key = np.unique(drawn[:, 0] * n + drawn[:, 1])
    known = np.isin(key, pairs[:, 0] * n + pairs[:, 1]) | (key // n == key % n)
    key = rng.permutation(key[~known])[:count]
    return np.stack([key // n, key % n], axis=1), removed


def _changed(graph: Graph, added: Pairs, removed: Pairs) -> Graph:
    """The changed graph, made without the code of `patch`."""
    n, pairs = graph.num_vertices, _pairs(graph)
    gone = np.isin(pairs[:, 0] * n + pairs[:, 1], removed[:, 0] * n + removed[:, 1])
    pairs = np.concatenate([pairs[~gone], added])
    matrix = csr_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    matrix = matrix if graph.directed else matrix + matrix.T
    rows = np.repeat(np.arange(n), graph.row_nonzeros())
    loops = np.bincount(rows[rows == graph.indices], minlength=n)
    return plancc.as_graph(matrix + diags_array(loops.astype(float)))
