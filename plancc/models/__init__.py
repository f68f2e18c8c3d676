"""Models: what is partitioned. A model turns a normalised matrix into a `Problem`.

Every model is a `plancc.models.base.Model`: a frozen dataclass whose fields are its options, and
whose class attributes say what it is. Models know no partitioner's library, plan or file format.
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
"""What models of row plans build."""
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


def build_problem(
    model: Model,
    matrix: Graph,
    num_parts: int,
    *,
    balance: str | Balance,
    seed: int,
    takes: tuple[type, ...] = PROBLEMS,
) -> Any:
    """What a model builds, which is one of the types that its caller takes.

    Parameters:
        model: Perhaps a third party's.
        matrix, num_parts, balance, seed: As of `Model.build`.

    Raises:
        InputError: What the model refuses.
        BackendError: If it builds anything else; the message names model, package, file and line.
    """
    problem = model.build(matrix, num_parts, balance=balance, seed=seed)
    if not isinstance(problem, takes):
        name = MODELS.name_of(type(model))
        who = MODELS.words_of(name) if name else type(model).__name__
        expected = " or ".join(kind.__name__ for kind in takes)
        raise BackendError(
            f"{who} builds a {type(problem).__name__}, not {expected} of plancc.models.problem "
            f"({place_of(type(model).build)})"
        )
    return problem
