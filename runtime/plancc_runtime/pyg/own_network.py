"""Networks that are objects of a user's class, with the interface of `nn.network.Network`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plancc.errors import InputError
from plancc.graph.types import Relation
from plancc.plan.layers import BothWays
from plancc.plan.values import Header
from plancc_runtime.graph import Graph
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.nn.decoders import DECODERS
from plancc_runtime.nn.network import Network, NetworkOptions, standardization
from plancc_runtime.nn.own_class import (
    BY_TYPE,
    LOCK,
    class_of,
    constructor_options,
    file_of,
    forward_arguments,
    is_by_type,
    users_errors,
)
from plancc_runtime.nn.relations import TypesOfNetwork, narrow
from plancc_runtime.pyg.check import Agreement, check
from plancc_runtime.pyg.distributed import Distributed
from plancc_runtime.pyg.trees import changed
from plancc_runtime.typed import TypedGraph


class OwnNetwork(Network):
    """A network of a user's class; raises InputError if no object of the class can be made.

    Attributes:
        model: The object of the user's class.
        recompute: Whether the backward pass computes message-passing layers again.
    """

    def __init__(
        self, dims: Sequence[int], options: NetworkOptions, seed: int, dtype: torch.dtype
    ) -> None:
        nn.Module.__init__(self)
        self.options, self.dims, self._seed = options, [dims[0], dims[-1]], seed
        self.convs, self.recompute = (), False
        random = np.random.default_rng(seed)
        with LOCK:  # a decoder's initial weights are drawn from torch's generator
            self.model = _made(options, self.dims, seed)
            self.decoder = DECODERS[options.decoder](dims[-1], random) if options.decoder else None
        self.to(dtype)
        self.standardization = standardization(dims[0], options)
        self._last: dict[bool, tuple[EdgeGraph, EdgeGraph | TypedGraph, Distributed, Any]] = {}

    def forward(
        self,
        graphs: Sequence[LayerGraph],
        x: Tensor,
        fixed: Tensor | None = None,
        step: int = 0,
        kept: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """Return the outputs of own rows; only the first graph is used. Collective."""
        union, name = graphs[0], self.options.model
        assert isinstance(union, EdgeGraph)
        last = self._last.get(self.training)
        if last is None or last[0] is not union:
            graph = self.seen(union)
            net = Distributed(self.model, graph, self._seed, is_alike=bool(self._last))
            last = self._last[self.training] = union, graph, net, self.arguments(graph)
        _, graph, net, given = last
        net.step, net.recompute = step, self.recompute
        with users_errors(f"`model` {name}: its forward fails", file_of(type(self.model))):
            out = net(self.features(graph, x.to(union.dtype)), **given)
        target, width, rows, of = "", self.dims[-1], union.num_rows, ""
        if isinstance(graph, TypedGraph):
            target = self.options.types["target"]
            rows, of = graph.num_rows(target), f" of type '{target}', or a dict that has it"
            out = out.get(target) if isinstance(out, dict) else out
        if isinstance(out, Tensor) and out.ndim == 1 == width:
            out = out[:, None]
        if not isinstance(out, Tensor) or out.shape != (rows, width):
            found = f"shape {[*out.shape]}" if isinstance(out, Tensor) else type(out).__name__
            raise InputError(
                f"`model` {name}: its forward returns {found}, but must return a tensor of shape "
                f"{[rows, width]}: a row of {width} for each vertex{of}"
            )
        if not isinstance(graph, TypedGraph):
            return out
        others = {k: out.new_zeros(graph.num_rows(k), width) for k in graph.types.names}
        return torch.cat([*(others | {target: out}).values()])

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass of this rank's share of the loss. Collective."""
        file = file_of(type(self.model))
        with users_errors(f"`model` {self.options.model}: its backward pass fails", file, True):
            loss.backward()

    def seen(self, union: EdgeGraph) -> EdgeGraph | TypedGraph:
        """Return the graph as the class expects it: a `TypedGraph`, or `union`. Collective."""
        is_typed = union.types is not None and is_by_type(type(self.model))
        return TypedGraph(cast(Graph, union)) if is_typed else union

    def arguments(self, graph: EdgeGraph | TypedGraph) -> dict[str, Any]:
        """Return the arguments of the user's `forward`, except the features. Collective."""
        union, kind = graph.union if isinstance(graph, TypedGraph) else graph, type(self.model)
        there = available(union.plan_header, union.block, kind)
        names = forward_arguments(self.options.model, kind, there)
        given = {name: getattr(graph, name) for name in names}
        if "edge_type" in given:  # weights from a file may number relations in another order
            assert union.types is not None
            relations = TypesOfNetwork.parse(self.options.types).relations
            numbers = torch.tensor([relations.index(each) for each in union.types.relations])
            given["edge_type"] = numbers.to(union.device)[given["edge_type"]]
        return given

    def features(self, graph: EdgeGraph | TypedGraph, x: Tensor) -> Any:
        """Return own rows' features as the user's class expects them: x, or a dict by type."""
        if not isinstance(graph, TypedGraph):
            return x
        widths = self.options.types["widths"]
        return {name: narrow(rows, widths[name]) for name, rows in graph.by_type(x).items()}

    @property
    def draws(self) -> bool:
        """True: the class may apply dropout, so outputs in training and evaluation may differ."""
        return True

    def both_ways(self, k: int, fixed: bool = False, plain: bool = False) -> BothWays:
        """Return empty lists of forward and backward steps: the class's layers are unknown."""
        return BothWays((), ())


def _made(options: NetworkOptions, dims: Sequence[int], seed: int) -> nn.Module:
    """Return an object of the user's class, with weights drawn from torch's generator.

    The generator gets this seed, and afterwards its former state.
    """
    name, kind = options.model, class_of(options.model)
    widths: list[Any] = [*dims]
    plan_values = dict[str, Any]()
    if options.types:
        types = TypesOfNetwork.parse(options.types)
        plan_values = {"num_relations": len(types.relations)}
        plan_values["metadata"] = [*types.widths], [*types.relations]
        widths[0] = dict(types.widths) if is_by_type(kind) else dims[0]
    given = constructor_options(name, kind, options.conv, widths, plan_values)
    with LOCK, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # generators of GPUs are not seeded
        with users_errors(f"`model` {name}: cannot be made", file_of(kind)):
            model = kind(**given)
            if any(map(is_lazy, model.parameters())):
                _give_sizes(model, widths[0], plan_values.get("metadata", ((), ()))[1])
    for parameter, value in model.named_parameters():
        if is_lazy(value):
            raise InputError(
                f"`model` {name}: '{parameter}' has no size yet; add in_channels and out_channels "
                "to the constructor: plancc passes the widths by these names"
            )
    return model


def _give_sizes(
    model: nn.Module, width: int | Mapping[str, int], relations: Sequence[Relation]
) -> None:
    """Run the model on a row of each type, without edges, so that its lazy layers get sizes."""
    without = {"index": torch.zeros(2, 0).long(), "type": torch.zeros(0).long()}
    without["weight"] = torch.zeros(0)
    _, *others = signature(model.forward).parameters
    given: dict[str, Any] = {
        f"edge_{what}{end}": dict.fromkeys(relations, x) if end else x
        for what, x in without.items()
        for end in ("", BY_TYPE)
    }
    x: Any = changed(width, int, lambda size: torch.zeros(1, size))
    with torch.no_grad():
        model.eval()(x, **{name: given[name] for name in others if name in given})
    model.train()


def available(header: Header, block: Block, model: type[nn.Module]) -> list[str]:
    """Return the names of the arguments, except the features, that a plan can give to `forward`."""
    by_type = is_by_type(model)
    there = {
        "edge_index": header.types is not None or not by_type,
        "edge_weight": header.normalization == "none",
        "edge_attr": block.edge_features is not None,
        "edge_type": header.types is not None and not by_type,
    }
    return [name + BY_TYPE * by_type for name, is_there in there.items() if is_there]


def check_own(network: Network, union: Graph, x: Tensor) -> Agreement:
    """Compare a network of a user's class with the same network on a single rank. Collective."""
    assert isinstance(network, OwnNetwork)
    model, graph = network.model, network.seen(union)
    first = next(iter(signature(model.forward).parameters))
    with users_errors(f"`model` {network.options.model}: its forward fails", file_of(type(model))):
        given = {first: network.features(graph, x), **network.arguments(graph)}
        return check(model, cast(Graph | TypedGraph, graph), **given)
