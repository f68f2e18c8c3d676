"""plancc's own partitioner, which is always installed, deterministic, and runs in this process.

It partitions hypergraphs on several levels. Presets "eco" and "strong" refine several partitions,
and drop the worst on every level: finer levels take longer, but show better which one will win.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.weights import combined
from plancc.partitioners.adapter import FEW, LARGE, Adapter, Start
from plancc.partitioners.builtin_kernels import bisect
from plancc.passes.kernels.nets import Nets, nets_of
from plancc.passes.kernels.state import State, state_of, volume
from plancc.passes.multilevel import Sweeps, coarsen

STARTS_PINS = 1_000_000
"""Bound on the number of pins that all initial partitions visit together; at least one initial
partition is made in any case."""
HUBS = {"hubs": 31, "wide": 31}
FOR_FEW: dict[str, Any] = {"efforts": ("balanced",), "most_parts": FEW}


@dataclass(frozen=True)
class Preset:
    """A preset, which decides how much work the partitioner does.

    Attributes:
        prices: Prices of weight above the limits, one per sweep on a level
            (`plancc.passes.presets.PRICES`).
        tries: Largest number of initial partitions.
        kept: Number of partitions that are refined on the finest level.
        growth: Factor by which the number of refined partitions grows with each coarser level.
        slack: Mean overload of the parts, divided by their mean weight, up to which a partition
            counts as balanced on coarse levels, where clusters are heavy.
    """

    prices: tuple[float, ...]
    tries: int = 2
    kept: int = 1
    growth: float = 1.0
    slack: float = 0.0

    def left(self, level: int) -> int:
        """Return the number of partitions that are refined on `level`; the finest level is 0."""
        return round(self.kept * self.growth**level)


PRESETS = {
    "default": Preset((0.3, 1.0, 3.0, 10.0)),
    "fast": Preset((0.5, 3.0)),
    "eco": Preset((0.3, 1.0, 3.0, 10.0), tries=8, growth=1.5, slack=0.05),
    "strong": Preset((0.3, 1.0, 3.0, 10.0), tries=32, kept=2, growth=1.5, slack=0.05),
}


def as_hypergraph(problem: Hypergraph | WeightedGraph) -> Hypergraph:
    """Return a hypergraph whose connectivity-1 cut is the objective of `problem`."""
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
    """Return owners that minimise the objective of `problem`; see `Adapter.run`."""
    how, rng = PRESETS[preset], np.random.default_rng(seed)
    nets = nets_of(as_hypergraph(problem))
    shares = None if capacities is None else tuple(capacities.tolist())
    limits = Limits(nets.weight, num_parts, epsilon, shares)
    sweeps = Sweeps(limits, rng)

    def annealed(level: Nets, owner: npt.NDArray[np.int32]) -> State:
        state = state_of(level, owner, num_parts)
        sweeps.anneal(level, state, how.prices)
        return state

    def best(level: Nets, tries: list[State], most: int, slack: float) -> list[State]:
        def cost(state: State) -> tuple[float, int]:
            over = limits.overload(state.sums)
            return 0.0 if over <= slack * num_parts else over, volume(level, state)

        return sorted(tries, key=cost)[:most]

    levels, labels = [nets], []
    anywhere = np.zeros(problem.num_vertices, dtype=np.int32)
    for level, _, label in coarsen(nets, anywhere, anywhere, num_parts, rng):
        if len(level.weight) < num_parts:  # vertices of weight 0 join clusters without a limit
            break
        levels.append(level)
        labels.append(label)

    level = levels.pop()
    weight = combined(level.weight)
    tries = []
    for _ in range(min(how.tries, max(1, STARTS_PINS // (len(level.pins) + 1)))):
        order = rng.permutation(len(weight))
        tries.append(annealed(level, bisect(level, weight, limits.relative, order)))
    while levels:
        kept = best(level, tries, how.left(len(levels) - 1), how.slack)
        level, label = levels.pop(), labels.pop()
        tries = [annealed(level, state.owner[label]) for state in kept]
    kept = best(nets, tries, how.kept, how.slack)
    for state in kept:
        sweeps.settle(nets, state)
    return best(nets, kept, 1, 0.0)[0].owner


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
    starts=(
        # Quick, and good on communities; large graphs need fewer partitions.
        Start({"hubs": 45}, "eco", "", ("fast",), most_parts=FEW, most_nonzeros=100_000),
        Start(HUBS, "strong", "", **FOR_FEW, most_nonzeros=160_000),
        Start(HUBS, "eco", "", **FOR_FEW, least_nonzeros=160_000, most_nonzeros=LARGE),
    ),
)
