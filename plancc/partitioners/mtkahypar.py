"""The adapter of Mt-KaHyPar, a multi-threaded partitioner of hypergraphs and graphs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners.adapter import Adapter, Start, interleave_first, most_weights, write_lines
from plancc.partitioners.mtkahypar_child import improve


def _write_hypergraph(path: str, problem: Hypergraph) -> None:
    """Write a file in hMETIS format, which Mt-KaHyPar reads faster than Python lists."""
    pins, ends = problem.pins.astype(np.int64) + 1, problem.net_ptr[1:]
    if problem.net_costs is not None:
        pins, ends = interleave_first(problem.net_ptr, pins, problem.net_costs)
    n = problem.num_vertices
    with open(path, "wb") as file:
        kind = 10 if problem.net_costs is None else 11
        file.write(f"{problem.num_nets} {n} {kind}\n".encode())
        write_lines(file, pins, ends)
        write_lines(file, problem.vertex_weights, np.arange(1, n + 1))


def _write_graph(path: str, problem: WeightedGraph) -> None:
    """Write a file in METIS format, with vertex weights, so that no line is empty."""
    ptr, values = problem.indptr, problem.indices.astype(np.int64) + 1
    if problem.edge_weights is not None:
        values = np.stack([values, problem.edge_weights], axis=1).reshape(-1)
        ptr = 2 * ptr
    values, ends = interleave_first(ptr, values, problem.vertex_weights)
    with open(path, "wb") as file:
        kind = "10" if problem.edge_weights is None else "11"
        file.write(f"{problem.num_vertices} {len(problem.indices) // 2} {kind}\n".encode())
        write_lines(file, values, ends)


def run(
    problem: Hypergraph | WeightedGraph,
    num_parts: int,
    *,
    epsilon: float,
    seed: int,
    preset: str,
    threads: int,
    capacities: npt.NDArray[np.float64] | None = None,
) -> npt.ArrayLike:
    """Return owners that minimise the connectivity-1 cut of a hypergraph, or the cut of a graph."""
    import mtkahypar

    library = mtkahypar.initialize(threads)
    mtkahypar.set_seed(seed)
    context = library.context_from_preset(
        getattr(mtkahypar.PresetType, preset.upper().replace("-", "_"))
    )
    context.logging = False
    if isinstance(problem, Hypergraph):
        context.set_partitioning_parameters(num_parts, epsilon, mtkahypar.Objective.KM1)
        path = "problem.hgr"
        _write_hypergraph(path, problem)
        graph = library.hypergraph_from_file(path, context, mtkahypar.FileFormat.HMETIS)
        if problem.fixed is not None:
            graph.add_fixed_vertices(problem.fixed.tolist(), num_parts)
    else:
        context.set_partitioning_parameters(num_parts, epsilon, mtkahypar.Objective.CUT)
        path = "problem.graph"
        _write_graph(path, problem)
        graph = library.graph_from_file(path, context, mtkahypar.FileFormat.METIS)
    os.unlink(path)
    if capacities is not None:
        most = most_weights(problem.vertex_weights, epsilon, capacities)
        context.set_individual_target_block_weights(most)
    return np.array(graph.partition(context).get_partition(), dtype=np.int32)


def prepare_improve(
    problem: Hypergraph, num_parts: int, options: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Write the hypergraph to a file in `folder`; return the keyword arguments of `improve`."""
    path, epsilon = str(folder / "problem.hgr"), options["epsilon"]
    _write_hypergraph(path, problem)
    capacities, most = options.get("capacities"), None
    if capacities is not None:
        most = most_weights(problem.vertex_weights, epsilon, capacities)
    owner = options["owner"].astype(np.int32, copy=False).tobytes()
    given = {"path": path, "goal": (num_parts, epsilon), "most": most, "owner": owner}
    return given | {"seed": options["seed"]}


IMPROVER = Adapter(
    name="mtkahypar",
    run=improve,
    prepare=prepare_improve,
    accepts=(Hypergraph,),
    presets=("default",),
    library="mtkahypar",
    capacities=True,
)
ADAPTER = Adapter(
    name="mtkahypar",
    run=run,
    accepts=(Hypergraph, WeightedGraph),
    presets=(
        "default",
        "quality",
        "highest-quality",
        "large-k",
        "deterministic",
        "deterministic-quality",
    ),
    objectives=("cut",),
    library="mtkahypar",
    distribution="mtkahypar",
    install="pip install mtkahypar",
    threaded=True,
    capacities=True,
    auto_rank={Hypergraph: 30},
    strong_rank={Hypergraph: 30, WeightedGraph: 30},
    highest="highest-quality",
    slowness=15.0,
    improver=IMPROVER,
    starts=(
        Start({"thin": 40}, "quality", "", slowness=9.0),
        Start({"even": 25, "dense": 25}, "quality", "", slowness=13.0),
        Start({"hubs": 25, "wide": 25}, "quality", "", slowness=50.0),
        Start({"thin": 5, "even": 5, "dense": 5}, "default", "", slowness=15.0),
        Start({"hubs": 5, "wide": 5}, "default", "", slowness=50.0),
    ),
)
