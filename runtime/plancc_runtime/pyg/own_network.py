"""A class of the user's in the place of `nn.network.Network`: a run calls either alike."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plancc.errors import InputError
from plancc.plan.layers import BothWays
from plancc.plan.values import Header
from plancc_runtime.graph import Graph
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.nn.decoders import DECODERS
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.nn.own_class import (
    LOCK,
    class_of,
    constructor_options,
    file_of,
    forward_arguments,
    users_errors,
)
from plancc_runtime.nn.standardization import Standardization
from plancc_runtime.pyg.check import Agreement, check
from plancc_runtime.pyg.distributed import Distributed


class OwnNetwork(Network):
    """A network of a class of the user's; parameters are those of `Network`.

    Attributes:
        dims: Widths of features and outputs.
        model: The object of the user's class.

    Raises:
        InputError: If the class cannot be found or made.
    """

    def __init__(
        self, dims: Sequence[int], options: NetworkOptions, seed: int, dtype: torch.dtype
    ) -> None:
        nn.Module.__init__(self)
        self.options, self.dims, self._seed = options, [dims[0], dims[-1]], seed
        self.convs = ()
        random = np.random.default_rng(seed)
        with LOCK:  # torch's own decoders draw too, before they get numbers of `random`
            self.model = _made(options, self.dims, seed)
            self.decoder = DECODERS[options.decoder](dims[-1], random) if options.decoder else None
        self.to(dtype)
        self.standardization = Standardization(dims[0]) if options.standardize_features else None
        self._last: dict[bool, tuple[EdgeGraph, Distributed, dict[str, Tensor]]] = {}

    def forward(
        self,
        graphs: Sequence[LayerGraph],
        x: Tensor,
        fixed: Tensor | None = None,
        step: int = 0,
        kept: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """Outputs of own rows; parameters of `Network.forward`, and the graph is the first.

        Raises:
            InputError: For an error of the class, with its traceback as a note, and for outputs of
                another shape. As `Distributed`.
        """
        graph, name = graphs[0], self.options.model
        assert isinstance(graph, EdgeGraph)
        net, given = self._on(graph)
        net.step = step
        with users_errors(f"`model` {name}: its forward fails", file_of(type(self.model))):
            out = net(x.to(graph.dtype), **given)
        width = self.dims[-1]
        if isinstance(out, Tensor) and out.ndim == 1 == width:
            out = out[:, None]
        if not isinstance(out, Tensor) or out.shape != (graph.num_rows, width):
            found = f"shape {[*out.shape]}" if isinstance(out, Tensor) else type(out).__name__
            raise InputError(
                f"`model` {name}: its forward returns {found}, and needed is a tensor of shape "
                f"{[graph.num_rows, width]}, a row of {width} for each vertex"
            )
        return out

    def _on(self, graph: EdgeGraph) -> tuple[Distributed, dict[str, Tensor]]:
        """The network on a graph, and its arguments beside x. Collective for a new graph."""
        last = self._last.get(self.training)
        if last is None or last[0] is not graph:
            net = Distributed(self.model, graph, self._seed, is_alike=bool(self._last))
            last = self._last[self.training] = graph, net, arguments(self.model, graph)
        return last[1:]

    @property
    def draws(self) -> bool:
        """True: dropout and norms of the class are not known."""
        return True

    def both_ways(self, k: int, fixed: bool = False, plain: bool = False) -> BothWays:
        """No steps: what the class moves is counted as it moves."""
        return BothWays((), ())


def _made(options: NetworkOptions, dims: Sequence[int], seed: int) -> nn.Module:
    """An object of the class, by torch's generator at this seed, which then stands as before."""
    name, kind = options.model, class_of(options.model)
    given = constructor_options(name, kind, options.conv, dims)
    with LOCK, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # and no GPU's
        with users_errors(f"`model` {name}: cannot be made", file_of(kind)):
            model = kind(**given)
    for parameter, value in model.named_parameters():
        if is_lazy(value):
            raise InputError(
                f"`model` {name}: '{parameter}' has no size yet: let its constructor take "
                "in_channels and out_channels, which the plan gives"
            )
    return model


def available(header: Header, block: Block) -> list[str]:
    """What of `own_class.OF_GRAPH` a plan has."""
    there = {
        "edge_index": True,
        "edge_weight": header.normalization == "none",
        "edge_attr": block.edge_features is not None,
    }
    return [name for name, is_there in there.items() if is_there]


def arguments(model: nn.Module, graph: EdgeGraph) -> dict[str, Tensor]:
    """What `forward` takes of the graph beside the features, by name. Collective.

    Raises:
        InputError: If it needs what the plan has not.
    """
    there = available(graph.plan_header, graph.block)
    names = forward_arguments(type(model).__name__, type(model), there)
    return {name: getattr(graph, name) for name in names}


def check_own(network: Network, graph: Graph, x: Tensor) -> Agreement:
    """`check` of a network of a class of the user's, called with features x. Collective."""
    assert isinstance(network, OwnNetwork)
    model = network.model
    first = next(iter(signature(model.forward).parameters))
    with users_errors(f"`model` {network.options.model}: its forward fails", file_of(type(model))):
        return check(model, graph, **{first: x}, **arguments(model, graph))
