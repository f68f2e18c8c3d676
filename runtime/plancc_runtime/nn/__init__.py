"""Building blocks of networks; torch and a layer's module are loaded at the layer's first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError
from plancc.registry import Registry

if TYPE_CHECKING:
    from plancc_runtime.nn.conv import Conv
    from plancc_runtime.nn.gat import GATConv
    from plancc_runtime.nn.gcn import GCNConv
    from plancc_runtime.nn.gin import GINConv
    from plancc_runtime.nn.norm import BatchNorm, LayerNorm
    from plancc_runtime.nn.relations import PerRelation, RGCNConv, TypesOfLayer, per_relation
    from plancc_runtime.nn.sage import SAGEConv
    from plancc_runtime.nn.standardization import Standardization

MODELS = Registry(
    "model of the network",
    "plancc.networks",
    {
        "gcn": "plancc_runtime.nn.gcn:GCNConv",
        "sage": "plancc_runtime.nn.sage:SAGEConv",
        "gin": "plancc_runtime.nn.gin:GINConv",
        "gat": "plancc_runtime.nn.gat:GATConv",
        "rgcn": "plancc_runtime.nn.relations:RGCNConv",
    },
    subclass_of="plancc_runtime.nn.conv:Conv",
)
_MODULES = {
    "GCNConv": "gcn",
    "SAGEConv": "sage",
    "GINConv": "gin",
    "GATConv": "gat",
    "RGCNConv": "relations",
    "PerRelation": "relations",
    "per_relation": "relations",
    "TypesOfLayer": "relations",
    "BatchNorm": "norm",
    "LayerNorm": "norm",
    "Standardization": "standardization",
}
__all__ = [
    "MODELS",
    "BatchNorm",
    "GATConv",
    "GCNConv",
    "GINConv",
    "LayerNorm",
    "PerRelation",
    "RGCNConv",
    "SAGEConv",
    "Standardization",
    "TypesOfLayer",
    "model_of",
    "per_relation",
]


def model_of(name: str, has_types: bool) -> type[Conv]:
    """Return the layer class of a model in `MODELS`.

    If the plan has types, a model for a single type is applied to each relation separately.
    """
    found: type[Conv] = MODELS[name]
    if found.by_relation and not has_types:
        raise InputError(f"`model` {name}: needs a plan with types")
    if found.by_relation or not has_types:
        return found
    of_kind: type[Conv] = __getattr__("per_relation")(found)
    return of_kind


def is_own(model: str) -> bool:
    """Return whether `model` is the name of a class that the user wrote (see `nn.own_class`)."""
    return ":" in model or model.endswith(".py")  # `check_name` rejects a file without a class


def option_names(model: str, has_types: bool) -> list[str]:
    """Return the names of a model's options; an empty list if the user wrote the model's class."""
    return [] if is_own(model) else model_of(model, has_types).option_names()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
