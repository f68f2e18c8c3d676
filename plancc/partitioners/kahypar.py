"""The adapter of KaHyPar, a hypergraph partitioner.

KaHyPar is not installed with plancc, since its licence is GPLv3; the extra "kahypar" installs it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from plancc.models.problem import Hypergraph
from plancc.partitioners.adapter import Adapter, Start, most_weights


def run(
    problem: Hypergraph,
    num_parts: int,
    *,
    epsilon: float,
    seed: int,
    preset: str,
    threads: int,
    capacities: npt.NDArray[np.float64] | None = None,
) -> npt.ArrayLike:
    """Return owners that minimise the connectivity-1 cut; see `Adapter.run`.

    KaHyPar has one thread; `threads` is ignored.
    """
    import kahypar

    context = kahypar.Context()
    context.loadINIconfiguration(str(Path(__file__).with_name(f"kahypar-{preset}.ini")))
    context.setK(num_parts)
    context.setEpsilon(epsilon)
    context.setSeed(seed)
    context.suppressOutput(True)
    costs, weights = problem.net_costs, problem.vertex_weights
    if not weights.all():  # The library refuses weight 0: use a small weight instead.
        finer = max(1, min(1000, ADAPTER.max_total // int(weights.sum() + len(weights))))
        weights = np.maximum(finer * weights, 1)
    if capacities is not None:
        context.setCustomTargetBlockWeights(most_weights(weights, epsilon, capacities))
    hypergraph = kahypar.Hypergraph(
        problem.num_vertices,
        problem.num_nets,
        problem.net_ptr.tolist(),
        problem.pins.tolist(),
        num_parts,
        [1] * problem.num_nets if costs is None else costs.tolist(),
        weights.tolist(),
    )
    kahypar.partition(hypergraph, context)
    return np.fromiter(
        map(hypergraph.blockID, range(problem.num_vertices)), np.int32, problem.num_vertices
    )


ADAPTER = Adapter(
    name="kahypar",
    run=run,
    accepts=(Hypergraph,),
    presets=("default", "quality"),
    library="kahypar",
    distribution="kahypar",
    install="pip install 'plancc[kahypar]'",
    capacities=True,
    auto_rank={Hypergraph: 20},
    highest="quality",
    slowness=30.0,
    starts=(
        # Cuts of small meshes that no other partitioner finds.
        Start(
            {"thin": 41, "even": 26, "dense": 26},
            "quality",
            "",
            slowness=30.0,
            most_parts=64,
            most_nonzeros=700_000,
        ),
    ),
)
