"""Models: what is partitioned. A model turns a normalised matrix into a `Problem`.

Every model is a `plancc.models.base.Model`: a frozen dataclass whose fields are its options, and
whose class attributes say what it is. Models know no partitioner's library, plan or file format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from plancc.errors import InputError
from plancc.fields import options_of
from plancc.models.base import Model
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
    subclass_of="plancc.models.base:Model",
)
DEFAULT_MODEL = "hp"
"""Model of those who name none."""


def make_model(name: str, options: Mapping[str, Any]) -> Model:
    """The model `name` with its options; InputError for one that it does not have, or lacks."""
    model_class: type[Model] = MODELS[name]
    known = model_class.option_fields()
    for option in options:
        if option not in known:
            has = ": it has " * bool(known) + ", ".join(f"`{each}`" for each in known)
            if not known:
                loaded = MODELS.loaded().items()
                others = [other for other, model in loaded if option in model.option_fields()]
                has = ", which is " * bool(others) + ", ".join(f"{other}'s" for other in others)
            raise InputError(f"model '{name}' has no option `{option}`{has}")
    for field in options_of(model_class):
        missing = field.default is MISSING and field.default_factory is MISSING
        if missing and field.name not in options:
            raise InputError(f"model '{name}' needs `{field.name}`")
    return model_class.from_options(options)
