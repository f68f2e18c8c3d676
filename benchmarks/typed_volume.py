"""Rows that graphs of types move, 64 parts, beside METIS on their union, which DGL partitions by.

METIS minimises the cut and balances nonzeros and the rows of each type. Hubs that weigh more than a
part leave METIS above the limit of nonzeros: the search then has the imbalance that METIS reached
as its limit. Besides,
relations alone, as rectangular matrices, beside Mt-KaHyPar's cut of their column nets; a column's
owner then is any part that needs it.
"""

from __future__ import annotations

import time
from statistics import geometric_mean
from typing import Any

import numpy as np

import plancc
from benchmarks.inputs import Inputs
from benchmarks.report import Report
from plancc.graph.union import block_of
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition
from plancc.plan.relations import type_traffic
from plancc_datasets import load_dataset

PARTS, GOAL, RECTANGULAR_GOAL, EPSILON = 64, 0.8, 0.99, 0.1
EFFORTS = ("fast", "balanced")
SIZES: dict[str, dict[str, int]] = {
    "academic": {"num_papers": 80_000, "num_authors": 40_000, "num_venues": 400},
    "ratings": {"num_users": 80_000, "num_items": 25_000},
    "weather": {"height": 350, "width": 300, "num_mesh": 20_000},
}
ALONE = {"academic": "by", "ratings": "rates", "weather": "decode"}
"""A relation of each whose matrix is partitioned by itself."""


def run(inputs: Inputs) -> Report:
    report, ratios = Report(), dict[str, list[float]]()
    shrink, options = 20 if inputs.quick else 1, {"normalize": "row", "seed": 1}
    for name, size in SIZES.items():
        graph = load_dataset(name, **{k: n // shrink for k, n in size.items()}, seed=1).graph
        of_dgl = {"model": "gp", "partitioner": "metis", "balance": f"nnz:{EPSILON},rows"}
        least, reached = _compiled(report, f"{name}: METIS", graph, **of_dgl, **options)
        alike = {"balance": f"nnz:{max(reached, EPSILON):.4f},rows", **options}
        for effort in EFFORTS:
            found, _ = _compiled(report, f"{name}: {effort}", graph, effort=effort, **alike)
            report.add(f"{name}: {effort} / METIS", found / least)
            ratios.setdefault(effort, []).append(found / least)
    for effort, each in ratios.items():
        report.add(f"{effort} / METIS, geometric mean", geometric_mean(each), GOAL)
    for name, relation in ALONE.items():
        graph = load_dataset(name, **{k: n // (4 * shrink) for k, n in SIZES[name].items()}).graph
        assert graph.types is not None
        matrix = block_of(graph, graph.types.relation(relation))
        cut = _column_net_cut(matrix)
        how = {"balance": f"nnz:{EPSILON}", "normalize": "none"}
        found, _ = _compiled(report, f"{name}, {relation} alone: balanced", matrix, **how)
        report.add(f"{relation}: balanced / Mt-KaHyPar", found / cut, RECTANGULAR_GOAL)
        report.notes.append(f"{relation}: Mt-KaHyPar's cut: {cut:,} rows")
    return report


def _compiled(report: Report, name: str, graph: Any, **options: Any) -> tuple[int, float]:
    """Rows that a product of all relations moves, and the imbalance of nonzeros; reported with
    seconds, and rows by type."""
    begin = time.perf_counter()
    plan = plancc.compile(graph, num_parts=PARTS, **options)
    seconds, metrics = time.perf_counter() - begin, plan.metrics()
    volume, imbalance = metrics.volume, metrics.nonzero_imbalance
    by_type = ", ".join(f"{each.name} {each.volume:,}" for each in type_traffic(plan))
    said = f"{volume:,} rows ({by_type}), imbalance of nonzeros {imbalance:.2f}"
    report.notes.append(f"{name}: {said}, {seconds:.0f} s")
    return volume, imbalance


def _column_net_cut(matrix: Any) -> int:
    """The sum of connectivity - 1 over the columns of a rectangular matrix."""
    columns, rows = matrix.tocsc(), np.diff(matrix.indptr).astype(np.int64)
    columns = columns[:, np.diff(columns.indptr) > 1]  # others are never cut
    ends = columns.indptr.astype(np.int64), columns.indices.astype(np.int32)
    limits, options = Limits(rows, PARTS, 0.1), PartitionOptions(partitioner="mtkahypar")
    owner = partition(Hypergraph(*ends, rows), PARTS, options, limits=limits).owner
    met = np.repeat(np.arange(columns.shape[1]), np.diff(ends[0])) * PARTS + owner[ends[1]]
    return len(np.unique(met)) - columns.shape[1]
