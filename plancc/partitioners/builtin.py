"""Our own partitioner, so that the compiler always works: small, deterministic, in process.

Multilevel, for hypergraphs; a graph becomes one first (a net of two pins per edge for the cut, a
net of each vertex with its neighbours for the volume):

1. coarsen: join vertices to size-constrained clusters that share much of their nets;
2. split the coarsest hypergraph by recursive bisection along breadth-first orders;
3. on the way back, move vertices to parts where connectivity - 1 falls, with a rising price on
   overweight parts.

Steps 1 and 3 are those of the V-cycles in ``plancc/passes/multilevel.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.weights import combined
from plancc.partitioners.adapter import Adapter
from plancc.passes.multilevel import Sweeps, coarsen

if TYPE_CHECKING:
    from plancc.passes.kernels.nets import Nets
    from plancc.passes.kernels.state import State

STARTS = 2
"""Most initial partitions tried; one is always made."""
STARTS_PINS = 1_000_000
"""Pins that the initial partitions may visit together."""
PRESETS = {"default": (0.3, 1.0, 3.0, 10.0), "fast": (0.5, 3.0)}
"""Prices of overweight while a level is refined, see `plancc.passes.multilevel.PRICES`."""


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
    epsilon: float | npt.NDArray[np.float64],
    seed: int,
    preset: str,
    threads: int,
    capacities: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.int32]:
    """Minimise connectivity - 1 of a hypergraph, cut or volume of a graph; one thread."""
    from plancc.partitioners.builtin_kernels import bisect
    from plancc.passes.kernels.nets import nets_of
    from plancc.passes.kernels.state import state_of, volume

    rng = np.random.default_rng(seed)
    nets = nets_of(as_hypergraph(problem))
    shares = None if capacities is None else tuple(capacities.tolist())
    limits = Limits.of(nets.weight, num_parts, epsilon, shares)
    sweeps = Sweeps(limits, rng)

    def annealed(level: Nets, owner: npt.NDArray[np.int32]) -> State:
        state = state_of(level, owner, num_parts)
        sweeps.anneal(level, state, PRESETS[preset])
        return state

    levels, labels = [nets], []
    anywhere = np.zeros(problem.num_vertices, dtype=np.int32)
    for level, _, label in coarsen(nets, anywhere, anywhere, num_parts, rng):
        if len(level.weight) < num_parts:  # clusters of vertices without weight have no limit
            break
        levels.append(level)
        labels.append(label)

    coarsest = levels.pop()
    weight = combined(coarsest.weight)
    tries = []
    for _ in range(min(STARTS, max(1, STARTS_PINS // (len(coarsest.pins) + 1)))):
        order = rng.permutation(len(weight))
        tries.append(annealed(coarsest, bisect(coarsest, weight, limits.relative, order)))
    state = min(tries, key=lambda state: (limits.overload(state.sums), volume(coarsest, state)))
    while levels:
        state = annealed(levels.pop(), state.owner[labels.pop()])
    sweeps.settle(nets, state)
    return state.owner


ADAPTER = Adapter(
    name="builtin",
    run=run,
    accepts=(Hypergraph, WeightedGraph),
    presets=tuple(PRESETS),
    objectives=("cut", "volume"),
    distribution="plancc",
    constraints=True,
    capacities=True,
    max_total=2**40,
    auto_rank={Hypergraph: 0, WeightedGraph: 0},
)
