"""The adapter of KaMinPar, a fast graph partitioner with threads, which can make many parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.models.problem import WeightedGraph
from plancc.partitioners.adapter import FEW, LARGE, Adapter, Start, most_weights
from plancc.partitioners.kaminpar_child import run

UNITS = 1000
"""Largest factor by which all weights are multiplied if some vertices have weight 0."""


def _positive(weights: npt.NDArray[np.int64], max_total: int) -> npt.NDArray[np.int64]:
    """Return positive weights with a sum below `max_total`, scaled up if a weight is 0.

    KaMinPar 3.7.3 may never end if a weight is 0.
    """
    if len(weights) == 0 or weights.min() > 0:
        return weights
    units = max(1, min(UNITS, (max_total - len(weights)) // max(1, int(weights.sum()))))
    return np.maximum(weights * units, 1)


def _write_parhip(
    path: Path, problem: WeightedGraph, vertex_weights: npt.NDArray[np.int64]
) -> None:
    """Write a binary file in the format of ParHIP, all numbers uint64.

    In the first number, bit 0 is set if the edges have no weights, bit 1 if the vertices have none.
    """
    n, m = problem.num_vertices, len(problem.indices)
    costs = problem.edge_weights
    with path.open("wb") as file:
        np.array([costs is None, n, m], dtype=np.uint64).tofile(file)
        (8 * (3 + n + 1 + problem.indptr)).astype(np.uint64).tofile(file)
        problem.indices.astype(np.uint64).tofile(file)
        vertex_weights.astype(np.uint64).tofile(file)
        if costs is not None:
            costs.astype(np.uint64).tofile(file)


def prepare(
    problem: WeightedGraph, num_parts: int, options: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Write the graph to a file in `folder`; return the keyword arguments of `run`."""
    path, options = folder / "problem.parhip", dict(options)
    weights = _positive(problem.vertex_weights, ADAPTER.max_total)
    _write_parhip(path, problem, weights)
    epsilon, capacities = options.pop("epsilon"), options.pop("capacities", None)
    goal: Any = num_parts, max(epsilon, 1e-9)  # for the library, 0 means "not given"
    if capacities is not None:
        goal = most_weights(weights, epsilon, capacities)
    return {"path": str(path), "goal": goal, **options}


ADAPTER = Adapter(
    name="kaminpar",
    run=run,
    prepare=prepare,
    accepts=(WeightedGraph,),
    presets=("default", "fast", "eco", "strong", "largek", "largek-fast", "largek-eco"),
    objectives=("cut",),
    library="kaminpar",
    distribution="kaminpar",
    install="pip install 'plancc[kaminpar]'",
    threaded=True,
    capacities=True,
    several=True,
    auto_rank={WeightedGraph: 20},
    highest="strong",
    starts=(
        Start({"hubs": 55}, "default", "cut", ("fast",), least_nonzeros=LARGE, clustered=True),
        # Sweeps improve its quick cut; METIS is slow with hubs, and with many small parts.
        Start({"hubs": 40}, "fast", "cut", ("fast",)),
        Start({"even": 40}, "fast", "cut", ("fast",), most_rows=64),
        Start({"even": 5, "thin": 5, "dense": 5}, "fast", "cut", ("fast",)),
        Start({"hubs": 30}, "default", "cut", ("balanced",)),
        Start({"wide": 30}, "default", "cut", ("balanced",), most_parts=FEW),
        Start({"hubs": 25}, "eco", "cut", ("balanced",), slowness=3.0),
        Start({"even": 20}, "strong", "cut", slowness=3.0),
        Start({"wide": 25}, "default", "cut"),
        Start({"thin": 30, "dense": 15, "hubs": 10, "wide": 10}, "strong", "cut", slowness=10.0),
    ),
)
