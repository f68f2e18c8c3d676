"""The registry of models. A model turns a normalised matrix into a `Problem` to partition.

A model (`plancc.models.base.Model`) is a frozen dataclass: its fields are its options, and its
class attributes describe it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

from plancc.errors import BackendError, InputError
from plancc.fields import options_of
from plancc.models.base import Model
from plancc.models.problem import Assignment, Hypergraph, WeightedGraph
from plancc.registry import Registry, place_of

if TYPE_CHECKING:
    from plancc.graph.graph import Graph
    from plancc.models.weights import Balance

MODELS = Registry(
    "model",
    "plancc.models",
    {
        "hp": "plancc.models.hypergraph:HypergraphModel",
        "stochastic-hp": "plancc.models.stochastic:StochasticModel",
        "gp": "plancc.models.graph:GraphModel",
        "medium-grain": "plancc.models.medium_grain:MediumGrainModel",
        "fine-grain": "plancc.models.fine_grain:FineGrainModel",
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
PROBLEMS = (Assignment, Hypergraph, WeightedGraph)
"""Types of problems that models of row plans may build."""
DEFAULT_MODEL = "hp"
"""The default model."""


def make_model(name: str, options: Mapping[str, Any]) -> Model:
    """Make the model `name`; raise InputError for an unknown or a missing option."""
    model_class: type[Model] = MODELS[name]
    known = model_class.option_fields()
    for option in options:
        if option not in known:
            has = ": it has " * bool(known) + ", ".join(f"`{each}`" for each in known)
            if not known:
                loaded = MODELS.loaded().items()
                others = [other for other, model in loaded if option in model.option_fields()]
                has = "; it is for " * bool(others) + ", ".join(f"'{other}'" for other in others)
            raise InputError(f"model '{name}' has no option `{option}`{has}")
    for field in options_of(model_class):
        missing = field.default is MISSING and field.default_factory is MISSING
        if missing and field.name not in options:
            raise InputError(f"model '{name}' needs the option `{field.name}`")
    return model_class.from_options(options)


def build_problem(
    model: Model,
    matrix: Graph,
    num_parts: int,
    *,
    balance: str | Balance,
    seed: int,
    takes: tuple[type, ...] = PROBLEMS,
) -> Any:
    """Call `Model.build`, check the type of the problem that it returns, and return the problem.

    A type that is not in `takes` raises BackendError, since models may come from other packages.
    """
    problem = model.build(matrix, num_parts, balance=balance, seed=seed)
    if not isinstance(problem, takes):
        name = MODELS.name_of(type(model))
        who = MODELS.words_of(name) if name else type(model).__name__
        expected = " or ".join(kind.__name__ for kind in takes)
        raise BackendError(
            f"{who} builds a {type(problem).__name__}; it must build a problem of this "
            f"kind, from plancc.models.problem: {expected} ({place_of(type(model).build)})"
        )
    return problem
