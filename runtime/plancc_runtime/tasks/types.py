"""The task for plans with types: predict a class or real numbers for every vertex of one type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import torch

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.plan.convolutions import Convolution
from plancc.plan.parts import Part
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header
from plancc.text import shown
from plancc_runtime.data import DEFAULT_FEATURES, SPLITS, LocalData, load_data
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import halo_vertices
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.order import reordered
from plancc_runtime.layouts.relation import TypedBlock
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.stack import StackGraph
from plancc_runtime.nn import is_own
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.nn.relations import TypesOfNetwork
from plancc_runtime.options import RATES_KEPT, TrainOptions
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.weights import read_description

LABELS = ("targets", "labels")


class TypedVertices(LearningTask):
    """The task that predicts labels or targets of the vertices of one type, the target type."""

    has_types = True

    def __init__(self, header: Header, options: TrainOptions) -> None:
        super().__init__(header, options)
        assert header.types is not None
        self.types = header.types

    def check(self) -> None:
        layout, options = self.header.layout, self.options
        if layout != "row":
            raise InputError(
                "training with vertex types needs a row plan, but the layout of this plan is "
                f"'{layout}'; compile it with model hp, gp or rp"
            )
        built_in = () if is_own(options.model) else ("recompute", "parametrization")
        wanted = [*options.chosen((*RATES_KEPT, *built_in))]
        wanted += ["dtype"] * (options.dtype == "bfloat16")
        if wanted:
            raise InputError(f"{options.setting(wanted[0])} is only for plans of one vertex type")

    def joined(self, part: Part, plan: str) -> Part:
        """Return the slice with the vertex data of all types in common arrays; not collective.

        Narrow features are padded with 0. Only vertices of the target type keep labels and masks.
        """
        if self.network:
            return part
        data: Any = part.vertex_data
        of_type: Mapping[str, Any] = data.of_type
        labelled = [] if data.by_type is None else data.by_type.labelled
        number = self.types.type_of(part.global_id)
        rows = {name: np.flatnonzero(number == k) for k, name in enumerate(self.types.names)}
        held = {name: each.features for name, each in of_type.items()}
        features = {name: each for name, each in held.items() if each is not None}
        widths = {name: each.shape[1] for name, each in features.items()}
        self._choose(labelled, plan)
        network = self._describe(widths, plan)
        found: dict[str, Any] = {}
        size = len(part.global_id)
        if features:
            whole = found["features"] = np.zeros((size, max(network.widths.values())), np.float32)
            for name, each in features.items():
                whole[rows[name], : each.shape[1]] = each[:]
        own = of_type.get(network.target)
        for key in (*LABELS, *(f"{split}_mask" for split in SPLITS)):
            values = None if own is None else getattr(own, key)
            if values is not None:
                unknown = {"b": False, "f": np.nan}.get(values.dtype.kind, -1)
                found[key] = np.full((size, *values.shape[1:]), unknown, values.dtype)
                found[key][rows[network.target]] = values
        return replace(part, vertex_data=type(data)(**found))

    def ordered(self, part: Part) -> Part:
        return reordered(part, np.argsort(self.types.type_of(part.global_id), kind="stable"))

    def load(self, part: Part, resources: Resources, plan: str) -> LocalData:
        common = resources.transport, resources.dtype, self.options, resources.device
        data = load_data(part, *common, plan, self.learnt)
        row_type = torch.from_numpy(self.types.type_of(part.global_id))
        return replace(data, row_type=row_type.to(resources.device))

    def remarks(self) -> list[str]:
        target, types = self.target, self.types
        assert target is not None
        if target not in types.unreached():
            return []
        return [
            f"no relation leads to '{shown(target)}': it is learnt from its own features alone"
            f"{types.advice_to_reach(target)}"
        ]

    def graph(self, block: Block, resources: Resources) -> LocalGraph:
        return StackGraph(block, self.types, resources)

    def checked(self, block: Block, resources: Resources) -> Block:
        transport = resources.transport
        block = replace(block, halo=halo_vertices(block, transport))
        typed = TypedBlock.of(block, self.types, transport)
        typed.check(transport)
        if self.options.mini_batches:
            block = block.with_columns(relation=typed.relation.astype(np.uint16))
        return block

    def find_target(self, file: PlanFile) -> str | None:
        """Set and return `target`: the name of the vertex type that a run on this plan predicts."""
        labelled = []
        for k, name in enumerate(self.types.names):
            labelled += [name] * any(file.has(f"vertex_data/{key}_of_{k}") for key in LABELS)
        self._choose(labelled, file.path)
        return self.target

    def _choose(self, labelled: list[str], plan: str) -> None:
        """Set `target` to the type that the user chose, or else to the only type with labels.

        Raise InputError if there is no such type, or if labels exist, but not for the chosen type.
        """
        types, target = self.types, self.options.target
        self.target = labelled[0] if target is None and len(labelled) == 1 else target
        if target is not None:
            for what, names in (("the types", types.names), ("labels of", labelled or types.names)):
                if target not in names:
                    raise InputError(
                        f"`target` {shown(target)}: {plan} has only {what} "
                        f"{shown(', '.join(names))}"
                    )
        if self.target is not None:
            return
        if labelled:
            said = f"has labels of {shown(', '.join(labelled))}; give `target`, the type to learn"
        else:
            random = "or give `target` to learn random ones"
            said = f"has no labels; compile the graph with some, {random}"
        raise InputError(f"{plan}: {said}")

    def _describe(self, widths: Mapping[str, int], plan: str) -> TypesOfNetwork:
        """Return types, feature widths, relations and target type; set `network` and `learnt`."""
        types, options, target = self.types, self.options, self.target
        assert target is not None
        if not widths:  # features are random
            widths = dict.fromkeys(types.names, options.random_features or DEFAULT_FEATURES)
        known = {name: widths.get(name, 1) for name in types.names}
        network = _as_saved(TypesOfNetwork(known, types.relations, target), options.init)
        # number of layers; a user's model does not say it, so the number of types stands for it
        depth = len(types.names) if is_own(options.model) else options.layers
        first = network.types_of_layers([1] * (depth + 1))[0]
        read = {*first.wanted, *(source for source, *_ in first.relations)}
        for name in (each for each in types.names if each in read and each not in widths):
            raise InputError(
                f"{plan}: type '{shown(name)}' has no features, but the outputs of type "
                f"'{shown(target)}' need them; compile the graph with features of every type "
                "(a column of ones if a type has none)"
            )
        self.network = {"types": asdict(network)}
        self.learnt = types.vertices(target)
        return network


def with_weights(
    convolution: Convolution, file: PlanFile, dims: Sequence[int], target: str | None
) -> Convolution:
    """Return a copy of the convolution whose `weights` is the whole network's number of weights.

    `dims` has the network's widths d_0..d_L. Without a `target`, the only type with labels is
    predicted.
    """
    options = TrainOptions(target=target, random_features=dims[0], layers=len(dims) - 1)
    task = TypedVertices(file.header, options)
    task.find_target(file)
    features = (f"vertex_data/features_of_{k}" for k in range(len(task.types.names)))
    found = dict(zip(task.types.names, map(file.width, features), strict=True))
    task._describe({n: width for n, width in found.items() if width is not None}, file.path)
    conv = {
        each.name: getattr(convolution.options, each.name) for each in fields(convolution.options)
    }
    made = NetworkOptions(model=convolution.name, conv=conv, **task.network)
    network = Network(dims, made, 0, torch.float32)
    return replace(convolution, weights=sum(each.numel() for each in network.parameters()))


def _as_saved(network: TypesOfNetwork, init: StrPath | None) -> TypesOfNetwork:
    """Return `network` with types and relations in the order of the weights `init`, if possible."""
    saved = read_description(init)[0] if init is not None else None
    if not saved or not isinstance(saved.get("types"), dict) or not saved["types"]:
        return network
    known = TypesOfNetwork.parse(saved["types"])
    return known if known.is_like(network) else network
