"""KaMinPar: fast graph partitioning with threads, also for many parts."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from plancc.models.problem import WeightedGraph
from plancc.partitioners.adapter import Adapter, Start, most_weights


def _write_parhip(path: str, problem: WeightedGraph) -> None:
    """ParHIP binary: header, byte offsets of the adjacencies, adjacencies, weights, all uint64.

    Bits 0 and 1 of the header's first number say that edges and vertices have no weights.
    """
    n, m = problem.num_vertices, len(problem.indices)
    costs = problem.edge_weights
    with open(path, "wb") as file:
        np.array([costs is None, n, m], dtype=np.uint64).tofile(file)
        (8 * (3 + n + 1 + problem.indptr)).astype(np.uint64).tofile(file)
        problem.indices.astype(np.uint64).tofile(file)
        problem.vertex_weights.astype(np.uint64).tofile(file)
        if costs is not None:
            costs.astype(np.uint64).tofile(file)


def run(
    problem: WeightedGraph,
    num_parts: int,
    *,
    epsilon: float,
    seed: int,
    preset: str,
    threads: int,
    capacities: npt.NDArray[np.float64] | None = None,
) -> npt.ArrayLike:
    """Minimise the cut."""
    import kaminpar

    path = "problem.parhip"
    _write_parhip(path, problem)
    graph = kaminpar.load_graph(path, kaminpar.GraphFileFormat.PARHIP)
    os.unlink(path)
    kaminpar.reseed(seed)
    solver = kaminpar.KaMinPar(threads, kaminpar.context_by_name(preset))
    if capacities is not None:
        most = most_weights(problem.vertex_weights, epsilon, capacities)
        return np.array(solver.compute_partition(graph, max_block_weights=most), dtype=np.int64)
    epsilon = max(epsilon, 1e-9)  # the library takes 0 for "not given"
    return np.array(solver.compute_partition(graph, num_parts, epsilon), dtype=np.int64)


ADAPTER = Adapter(
    name="kaminpar",
    run=run,
    accepts=(WeightedGraph,),
    presets=("default", "fast", "eco", "strong", "largek", "largek-fast", "largek-eco"),
    objectives=("cut",),
    library="kaminpar",
    distribution="kaminpar",
    install="pip install 'plancc[kaminpar]'",
    threaded=True,
    capacities=True,
    auto_rank={WeightedGraph: 20},
    starts=(
        Start({"hubs": 30}, "default", "cut", ("fast", "balanced")),
        Start({"hubs": 25}, "eco", "cut", ("balanced",), slowness=3.0),
        Start({"even": 20}, "strong", "cut", ("balanced",), slowness=3.0),
        Start({"thin": 30, "dense": 15, "hubs": 10, "wide": 10}, "strong", "cut", slowness=10.0),
    ),
)
