"""Models: what is partitioned. A model turns a normalised matrix into a `Problem`.

Every model is a frozen dataclass whose fields are its options, with

    build(matrix, num_parts, *, balance, seed) -> Problem

where `balance` is what ``plancc.models.weights.vertex_weights`` takes,
and a class attribute ``partitioners``: the back ends that ``auto`` tries, best first (empty for
a model that assigns the owners itself). A model of nonzeros, whose plans have an expand and a
fold, has the class attribute ``layout = "edge"``; one of process grids (`process_grid`) "grid" or
"feature". Models know no partitioner's library, no plan, no file format.
"""

from __future__ import annotations

from plancc.registry import Registry

MODELS = Registry(
    "model",
    "plancc.models",
    {
        "hp": "plancc.models.hypergraph:HypergraphModel",
        "stochastic-hp": "plancc.models.stochastic:StochasticModel",
        "gp": "plancc.models.graph:GraphModel",
        "medium-grain": "plancc.models.medium_grain:MediumGrainModel",
        "fine-grain": "plancc.models.fine_grain:FineGrainModel",
        "checkerboard": "plancc.models.checkerboard:CheckerboardModel",
        "hub-split": "plancc.models.hub_split:HubSplitModel",
        "libra": "plancc.models.libra:LibraModel",
        "auto": "plancc.models.auto:AutoModel",
        "rcm": "plancc.models.rcm:RcmModel",
        "block": "plancc.models.block:BlockModel",
        "rp": "plancc.models.random:RandomModel",
        "file": "plancc.models.file:FileModel",
        "cagnet-1d": "plancc.models.process_grid:Cagnet1DModel",
        "cagnet-1.5d": "plancc.models.process_grid:Cagnet15DModel",
        "cagnet-2d": "plancc.models.process_grid:Cagnet2DModel",
        "cagnet-3d": "plancc.models.process_grid:Cagnet3DModel",
        "mop": "plancc.models.process_grid:MopModel",
    },
)
