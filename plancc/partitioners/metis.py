"""The adapter of METIS (from pymetis), which minimises the edge cut or the volume of a graph."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.models.problem import WeightedGraph
from plancc.partitioners.adapter import FEW, LARGE, Adapter, Start
from plancc.partitioners.metis_child import run


def prepare(
    problem: WeightedGraph, num_parts: int, options: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Return the keyword arguments of `run`; preset "recursive" allows only objective "cut"."""
    recursive = options["preset"] == "recursive"
    if recursive and problem.objective != "cut":
        raise InputError("METIS preset 'recursive' only minimises the edge cut; use preset 'kway'")
    # Recursive bisection allows its imbalance in every step; the steps multiply to 1 + epsilon.
    steps = math.ceil(math.log2(num_parts)) if recursive else 1
    weights = problem.vertex_weights.reshape(problem.num_vertices, -1)
    epsilon = np.broadcast_to(options["epsilon"], weights.shape[1:])
    allowed = np.maximum(np.round(1000 * ((1 + epsilon) ** (1 / steps) - 1)), 1)
    capacities = options.get("capacities")
    shares = np.full(num_parts, 1 / num_parts) if capacities is None else capacities
    graph: dict[str, Any] = {"ptr": problem.indptr, "neighbours": problem.indices}
    graph["weights"] = weights
    if problem.edge_weights is not None:
        graph["costs"] = problem.edge_weights
    return {
        "graph": {name: x.astype(np.int64, copy=False).tobytes() for name, x in graph.items()},
        "shares": shares.tolist(),
        "allowed": allowed.astype(np.int64).tolist(),
        "objective": None if recursive else problem.objective,
        "seeds": options["seeds"],
    }


ADAPTER = Adapter(
    name="metis",
    run=run,
    prepare=prepare,
    accepts=(WeightedGraph,),
    presets=("kway", "recursive"),
    objectives=("cut", "volume"),
    library="pymetis",
    distribution="pymetis",
    install="pip install pymetis",
    constraints=True,
    capacities=True,
    several=True,
    auto_rank={WeightedGraph: 30},
    highest="kway",
    starts=(
        # Quick if hubs are mild; matchings of neighbours find few large parts better than clusters.
        Start(
            {"hubs": 60}, "kway", "cut", ("fast",), most_parts=FEW, least_nonzeros=10**5, mild=True
        ),
        # In large graphs, clustering first takes a fraction of METIS's time.
        Start({"hubs": 50}, "kway", "cut", ("fast",), least_nonzeros=LARGE, clustered=True),
        # Quick and good if no vertex has many neighbours, slow otherwise.
        Start({"even": 30, "thin": 30, "dense": 30}, "kway", "volume", ("fast", "balanced")),
        Start({"even": 28, "thin": 28, "dense": 28}, "recursive", "cut", ("balanced",)),
        Start({"hubs": 28, "wide": 28}, "recursive", "cut", ("balanced",), most_parts=FEW),
        Start({"hubs": 20}, "kway", "cut", ("fast", "balanced")),
        Start({"wide": 20, "dense": 20, "even": 10, "thin": 10}, "kway", "cut"),
    ),
)
