"""A network of convolutions, with dropout, norms, activations and residuals between them.

Every layer applies, in this order, dropout, convolution, norm, activation and residual. The last
layer applies only dropout and convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plancc.plan.layers import BothWays, LayerStep, OwnLinear, WholeRows
from plancc.sampling.counter import key_of
from plancc_runtime.kernels.dense import relu
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.nn import model_of
from plancc_runtime.nn.conv import Conv, glorot
from plancc_runtime.nn.decoders import DECODERS
from plancc_runtime.nn.dropout import dropout
from plancc_runtime.nn.standardization import Standardization, StandardizationByType

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "none": lambda z: z,
}
NORMS = ("none", "layer", "batch")
_CONVOLUTION_STREAM = 1
"""Last number that is hashed to a key for draws inside a layer. So the key differs from that of
`Network.dropped`."""


@dataclass(frozen=True)
class NetworkOptions:
    """Options of a network: the fields of `TrainOptions` that describe the network.

    Attributes:
        conv: Options of the convolutions, by name.
        activation: Name in `ACTIVATIONS`; applied after every layer but the last.
        norm: "none", "layer" or "batch" (over all ranks' rows), after every layer but the last.
        residual: Whether each layer but the last adds its input, mapped if widths differ.
        dropout: Dropout rate, in [0, 1), at the input of every layer but the first.
        input_dropout: Dropout rate, in [0, 1), at the input of the first layer.
        types: Fields of `nn.relations.TypesOfNetwork` for a plan with types, else empty.
        decoder: Name in `plancc_runtime.nn.decoders.DECODERS` for link prediction, else "".
    """

    model: str = "gcn"
    conv: Mapping[str, Any] = field(default_factory=dict)
    activation: str = "relu"
    norm: str = "none"
    residual: bool = False
    dropout: float = 0.0
    input_dropout: float = 0.0
    standardize_features: bool = False
    types: Mapping[str, Any] = field(default_factory=dict)
    decoder: str = ""


class Network(nn.Module):
    """L layers of one kind, with the same weights on all ranks.

    Parameters:
        dims: Widths d_0, ..., d_L of the features and of every layer's output.

    Attributes:
        standardization: Standardises features, before `forward` is called.
        decoder: Scores a vertex pair from both vertices' outputs, for link prediction.
        entered: Called with the name of each stage, such as "layer 1 back", when it begins.
    """

    entered: Callable[[str], None] | None = None

    def __init__(
        self, dims: Sequence[int], options: NetworkOptions, seed: int, dtype: torch.dtype
    ) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        kind, last = model_of(options.model, bool(options.types)), len(dims) - 2
        of_layers: list[dict[str, Any]] = [{}] * (last + 1)
        if options.types:
            from plancc_runtime.nn.relations import ByType, TypesOfNetwork

            types = TypesOfNetwork.parse(options.types)
            of_layers = [{"types": each} for each in types.types_of_layers(list(dims))]
        self.options, self.dims, self._seed = options, list(dims), seed
        self.convs: Sequence[Conv] = nn.ModuleList(  # type: ignore[assignment]
            kind(a, b, last=k == last, random=random, dtype=dtype, **options.conv, **of_layers[k])
            for k, (a, b) in enumerate(pairwise(dims))
        )
        norm, skip = partial(_norm, options.norm), partial(_skip, random, options.residual)
        self.norms, self.skips = nn.ModuleList(), nn.ModuleList()
        for between, (a, b) in zip(of_layers, pairwise(dims[:-1]), strict=False):
            if options.types and options.norm != "none":
                wanted = dict.fromkeys(between["types"].wanted, b)
                self.norms.append(ByType(wanted, b, norm))
            else:
                self.norms.append(norm(b, b))
            if options.types and options.residual:
                self.skips.append(ByType(between["types"].wanted_widths, b, skip))
            else:
                self.skips.append(skip(a, b))
        self.decoder = DECODERS[options.decoder](dims[-1], random) if options.decoder else None
        self.to(dtype)
        self.standardization = standardization(dims[0], options)
        self.activate = ACTIVATIONS[options.activation]

    def standardized(self, x: Tensor, where: int | Tensor = 0) -> Tensor:
        """Return the features as `forward` expects them: standardised if the options say so.

        Not collective. `where` is the type of every row (int64[m]) or, without types, the index of
        column 0 of x among all features.
        """
        return x if self.standardization is None else self.standardization(x, where)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return what the first layer computes from x without weights (`Conv.fixed`). Collective.

        If the features x never change, the result serves for every epoch.
        """
        return self.convs[0].fixed(graph, x)

    def forward(
        self,
        graphs: Sequence[LayerGraph],
        x: Tensor,
        fixed: Tensor | None = None,
        step: int = 0,
        kept: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """Return the last layer's outputs, with all columns, in the parameters' type. Collective.

        Parameters:
            graphs: Graph of every layer; outputs of a graph are inputs of the next.
            x (Tensor[inputs of the first graph, d_0]): Features.
            fixed: Result of `fixed` for the first graph and x.
            kept: Dict whose keys are layers, from 1; their outputs are stored as its values.
        """
        dtype = next(self.parameters()).dtype
        last = len(self.convs) - 1
        for k, (conv, graph) in enumerate(zip(self.convs, graphs, strict=True)):
            self.enter(f"layer {k + 1} forward")
            if self._rate(k):
                x = self.dropped(x, k, step, graph.vertices, graph.first_column(self.dims[k]))
            rectified = {"rectified": True} if k < last and self._rectifies(conv) else {}
            z = conv(graph, x, fixed if k == 0 else None, **rectified, **self.key(k, step))
            if k < last:
                z = z if rectified else self.activate(self.normalised(z, k, graph))
                if self.options.residual:
                    z = z + self.skipped(graph.targets(x), k, graph)
            x = z
            if kept is not None and k + 1 in kept:
                kept[k + 1] = graph.whole_rows(x, self.dims[k + 1]).to(dtype)
            self.watch(x, k)
        return graphs[-1].whole_rows(x, self.dims[-1]).to(dtype)

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass, starting from this rank's share of the loss. Collective."""
        loss.backward()

    def enter(self, stage: str) -> None:
        """Call `entered` with the name of a stage that begins; do nothing in evaluation."""
        if self.entered is not None and self.training:
            self.entered(stage)

    def watch(self, x: Tensor, k: int) -> None:
        """Call `enter` when layer k (from 0) begins its backward pass; x is the layer's output."""
        if self.entered is not None and x.requires_grad:
            x.register_hook(partial(self._enter_back, k))

    def _enter_back(self, k: int, g: Tensor) -> None:
        self.enter(f"layer {k + 1} back")

    def dropped(
        self, x: Tensor, k: int, step: int, vertices: Tensor, first_column: int = 0
    ) -> Tensor:
        """Return the rows x after the dropout of layer k (from 0), or x itself without dropout."""
        rate = self._rate(k)
        return dropout(x, rate, key_of(self._seed, step, k), vertices, first_column) if rate else x

    def _rate(self, k: int) -> float:
        """Return the dropout rate at the input of layer k (counted from 0); 0 in evaluation."""
        if not self.training:
            return 0.0
        return self.options.dropout if k else self.options.input_dropout

    def key(self, k: int, step: int) -> dict[str, np.uint64]:
        """Return the argument `key` of layer k's convolution in a dict, empty if none is needed."""
        if not (self.training and self.convs[k].draws):
            return {}
        return {"key": key_of(self._seed, step, k, _CONVOLUTION_STREAM)}

    @property
    def draws(self) -> bool:
        """Whether training applies dropout, so that its outputs differ from those in evaluation."""
        options = self.options
        return (
            options.dropout > 0
            or options.input_dropout > 0
            or any(conv.draws for conv in self.convs)
        )

    def both_ways(self, k: int, fixed: bool = False, plain: bool = False) -> BothWays:
        """Return the forward and backward steps of layer k (from 0) and of its residual.

        `fixed`: whether steps that need no weights are executed only once, before training (pass
        "constant"). `plain`: whether the pass "order" is off.
        """
        conv, after = self.convs[k], list[LayerStep]()
        if k == len(self.convs) - 1:
            after.append(WholeRows(conv.d_out))
        elif not isinstance(self.skips[k], nn.Identity):
            after.append(OwnLinear(conv.d_in, conv.d_out))
        options = conv.options.with_order("paper") if plain else conv.options
        return options.both_ways((conv.d_in, conv.d_out), conv.last, k == 0, fixed, after)

    def _rectifies(self, conv: Conv) -> bool:
        """Return whether a convolution applies the activation itself."""
        options = self.options
        return conv.rectifies and options.norm == "none" and options.activation == "relu"

    def normalised(self, z: Tensor, k: int, graph: LayerGraph) -> Tensor:
        """Return z after layer k's normalisation, computed in the dtype of the parameters."""
        if self.options.norm == "none":
            return z
        return self.norms[k](z.to(next(self.parameters()).dtype), graph).to(z.dtype)

    def skipped(self, x: Tensor, k: int, graph: LayerGraph) -> Tensor:
        """Return the residual of layer k (from 0): x, or x times a matrix if the widths differ."""
        skip = self.skips[k]
        return x if isinstance(skip, nn.Identity) else skip(x, graph)


def standardization(
    width: int, options: NetworkOptions
) -> Standardization | StandardizationByType | None:
    """Return the module that standardises features; None if `standardize_features` is false."""
    if not options.standardize_features:
        return None
    types = options.types.get("widths")
    return StandardizationByType(width, len(types)) if types else Standardization(width)


def _norm(name: str, width: int, _: int) -> nn.Module:
    if name == "none":
        return nn.Identity()
    from plancc_runtime.nn.norm import BatchNorm, LayerNorm

    return {"layer": LayerNorm, "batch": BatchNorm}[name](width)


class _Skip(nn.Module):
    """The linear map of a residual from d_in to d_out columns; its weight is [d_out, d_in]."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor, graph: LayerGraph) -> Tensor:
        return graph.linear(x, self.weight.T)


def _skip(random: np.random.Generator, wanted: bool, d_in: int, d_out: int) -> nn.Module:
    if d_in == d_out or not wanted:
        return nn.Identity()
    return _Skip(glorot(random, d_in, d_out).T.contiguous())
