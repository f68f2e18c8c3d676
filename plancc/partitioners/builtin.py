"""Our own partitioner, so that the compiler always works: small, deterministic, in process.

Multilevel, for hypergraphs; a graph becomes one first (a net of two pins per edge for the cut, a
net of each vertex with its neighbours for the volume):

1. coarsen: join vertices to size-constrained clusters that share much of their nets;
2. split the coarsest hypergraph by recursive bisection along breadth-first orders;
3. on the way back, move vertices to parts where connectivity - 1 falls, within the balance.

The loops over pins are numba kernels in ``builtin_kernels.py``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners.adapter import Adapter

COARSEST_PER_PART = 30
"""Coarsening aims at this many vertices per part ..."""
MIN_SHRINKAGE = 0.9
"""... and stops when a level keeps more than this share of its vertices."""
STARTS = 4
"""Initial partitions tried ..."""
STARTS_PINS = 1_000_000
"""... as long as they visit no more pins than this together; one is always made."""
SWEEPS = {"default": 4, "fast": 1}
"""Refinement sweeps on a level, at most."""


def as_hypergraph(problem: Hypergraph | WeightedGraph) -> Hypergraph:
    """The hypergraph whose connectivity - 1 is the problem's objective."""
    if isinstance(problem, Hypergraph):
        return problem
    n = problem.num_vertices
    row = np.repeat(np.arange(n, dtype=np.int32), np.diff(problem.indptr))
    if problem.objective == "volume":
        ptr = problem.indptr + np.arange(n + 1)
        pins = np.insert(problem.indices, problem.indptr[:-1], np.arange(n, dtype=np.int32))
        return Hypergraph(ptr, pins, problem.vertex_weights)
    upper = row < problem.indices
    pins = np.stack([row[upper], problem.indices[upper]], axis=1).reshape(-1)
    costs = None if problem.edge_weights is None else problem.edge_weights[upper]
    ptr = np.arange(0, len(pins) + 1, 2, dtype=np.int64)
    return Hypergraph(ptr, pins, problem.vertex_weights, costs)


def run(
    problem: Hypergraph | WeightedGraph,
    num_parts: int,
    *,
    epsilon: float,
    seed: int,
    preset: str,
    threads: int,
) -> npt.NDArray[np.int32]:
    """Minimise connectivity - 1 of a hypergraph, cut or volume of a graph; one thread."""
    from plancc.partitioners import builtin_kernels as kernels

    rng = np.random.default_rng(seed)
    top = as_hypergraph(problem)
    costs = np.ones(top.num_nets, dtype=np.int64) if top.net_costs is None else top.net_costs
    level = kernels.Level(top.net_ptr, top.pins, costs, top.vertex_weights)
    total = int(top.vertex_weights.sum())
    allowed = int((1 + epsilon) * -(-total // num_parts))

    levels, clusters = [level], []
    heaviest_cluster = max(1, total // (COARSEST_PER_PART * num_parts))
    while levels[-1].num_vertices > 2 * COARSEST_PER_PART * num_parts:
        level = levels[-1]
        cluster = level.cluster(rng.permutation(level.num_vertices), heaviest_cluster)
        coarse = level.contract(cluster)
        if coarse.num_vertices > MIN_SHRINKAGE * level.num_vertices:
            break
        levels.append(coarse)
        clusters.append(cluster)

    coarsest = levels[-1]
    tries = []
    for _ in range(min(STARTS, max(1, STARTS_PINS // (len(coarsest.pins) + 1)))):
        owner = coarsest.bisect(num_parts, rng.permutation(coarsest.num_vertices))
        tries.append(coarsest.refine(owner, num_parts, allowed, SWEEPS[preset], rng))
    owner = min(tries, key=lambda owner: coarsest.connectivity_cut(owner, num_parts))
    for level, cluster in zip(levels[-2::-1], clusters[::-1], strict=True):
        owner = level.refine(owner[cluster], num_parts, allowed, SWEEPS[preset], rng)
    return owner


ADAPTER = Adapter(
    name="builtin",
    run=run,
    accepts=(Hypergraph, WeightedGraph),
    presets=tuple(SWEEPS),
    objectives=("cut", "volume"),
    distribution="plancc",
    max_total=2**40,  # times the number of parts it still fits int64
)
