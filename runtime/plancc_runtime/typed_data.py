"""Vertex data of all types as those of the union, of which a run learns one type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from os import PathLike
from typing import Any

import numpy as np
import torch

from plancc.errors import InputError
from plancc.graph.types import Types
from plancc.plan.convolutions import Convolution
from plancc.plan.parts import Part
from plancc.plan.reader import PlanFile
from plancc.text import shown
from plancc_runtime.data import DEFAULT_FEATURES, SPLITS
from plancc_runtime.nn import is_own
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.nn.relations import TypesOfNetwork
from plancc_runtime.options import TrainOptions
from plancc_runtime.weights import read_description

LABELS = ("targets", "labels")


def joined(
    part: Part, types: Types, options: TrainOptions, plan: str
) -> tuple[Part, TypesOfNetwork]:
    """The slice with vertex data of the union, and what a network knows of it; not collective.

    Features are as wide as the widest; those of other types are filled up with zeros. Labels and
    masks are those of the target.

    Parameters:
        plan: Its name, for messages.

    Raises:
        InputError: If no type, or none of several, is the target, or a type that a layer reads has
            no features.
    """
    data: Any = part.vertex_data
    of_type: Mapping[str, Any] = data.of_type
    labelled = [] if data.by_type is None else data.by_type.labelled
    number = types.type_of(part.global_id)
    rows = {name: np.flatnonzero(number == k) for k, name in enumerate(types.names)}
    features = {name: each.features for name, each in of_type.items() if each.features is not None}
    widths = {name: each.shape[1] for name, each in features.items()}
    network = _network_of(widths, types, _target(labelled, types, options, plan), options, plan)
    target = network.target
    found: dict[str, Any] = {}
    size = len(part.global_id)
    if features:
        whole = found["features"] = np.zeros((size, max(network.widths.values())), np.float32)
        for name, each in features.items():
            whole[rows[name], : each.shape[1]] = each[:]
    own = of_type.get(target)
    for key in (*LABELS, *(f"{split}_mask" for split in SPLITS)):
        values = None if own is None else getattr(own, key)
        if values is not None:
            unknown = {"b": False, "f": np.nan}.get(values.dtype.kind, -1)
            found[key] = np.full((size, *values.shape[1:]), unknown, values.dtype)
            found[key][rows[target]] = values
    return replace(part, vertex_data=type(data)(**found)), network


def with_weights(
    convolution: Convolution, file: PlanFile, dims: Sequence[int], target: str | None
) -> Convolution:
    """The convolution of a network for this plan with types, whose weights are counted.

    Parameters:
        dims: d_0..d_L.

    Raises:
        InputError: As `joined`.
    """
    types = file.header.types
    assert types is not None
    found = {name: file.width(f"vertex_data/features_of_{k}") for k, name in enumerate(types.names)}
    widths = {name: width for name, width in found.items() if width is not None}
    options = TrainOptions(target=target, features=dims[0], layers=len(dims) - 1)
    target = target_in(file, types, options)
    of_network = asdict(_network_of(widths, types, target, options, file.path))
    conv = {
        each.name: getattr(convolution.options, each.name) for each in fields(convolution.options)
    }
    made = NetworkOptions(model=convolution.name, conv=conv, types=of_network)
    network = Network(dims, made, 0, torch.float32)
    return replace(convolution, weights=sum(each.numel() for each in network.parameters()))


def _network_of(
    widths: Mapping[str, int], types: Types, target: str, options: TrainOptions, plan: str
) -> TypesOfNetwork:
    """What a network knows of types with features of these widths."""
    if not widths:  # random ones
        widths = dict.fromkeys(types.names, options.features or DEFAULT_FEATURES)
    network = TypesOfNetwork({n: widths.get(n, 1) for n in types.names}, types.relations, target)
    network = _as_saved(network, options.init)
    depth = len(types.names) if is_own(options.model) else options.layers  # all, or as far as known
    first = network.of_layers([1] * (depth + 1))[0]
    read = {*first.wanted, *(source for source, *_ in first.relations)}
    for name in (each for each in types.names if each in read and each not in widths):
        raise InputError(
            f"{plan}: type '{shown(name)}' has no features, and '{shown(target)}' depends on it: "
            "compile the graph with features of every type, a column of ones if there are none"
        )
    return network


def _as_saved(network: TypesOfNetwork, init: str | PathLike[str] | None) -> TypesOfNetwork:
    """What saved weights know of the same types and relations, in their order."""
    saved = read_description(init)[0] if init is not None else None
    if not saved or not isinstance(saved.get("types"), dict) or not saved["types"]:
        return network
    known = TypesOfNetwork.parse(saved["types"])
    return known if known.is_like(network) else network


def target_in(file: PlanFile, types: Types, options: TrainOptions) -> str:
    """The type to learn of an open plan; errors as of `joined`."""
    labelled = []
    for k, name in enumerate(types.names):
        labelled += [name] * any(file.has(f"vertex_data/{key}_of_{k}") for key in LABELS)
    return _target(labelled, types, options, file.path)


def _target(labelled: list[str], types: Types, options: TrainOptions, plan: str) -> str:
    """The type to learn."""
    if options.target is not None:
        for what, names in (("the types", types.names), ("labels of", labelled or types.names)):
            if options.target not in names:
                raise InputError(
                    f"`target` {shown(options.target)}: {plan} has {what} "
                    f"{shown(', '.join(names))} alone"
                )
        return options.target
    if len(labelled) == 1:
        return labelled[0]
    if labelled:
        said = f"has labels of {shown(', '.join(labelled))}: give `target`, the type to learn"
    else:
        said = "has no labels: compile the graph with some, or give `target` to learn random ones"
    raise InputError(f"{plan}: {said}")
