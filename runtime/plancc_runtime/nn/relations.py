"""Convolutions of graphs with types: a sum over the relations that lead to a vertex.

    h'_v = sum over relations r to the type of v of f_r(h_v, {h_u : u in N_r(v)})

Rows of a layer's input and output are of all types, type after type (`layouts.stack`). Columns of
types that are narrower than the layer's input are filled up, and not read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from plancc.errors import InputError
from plancc.fields import option
from plancc.graph.types import Relation, Types
from plancc.plan.convolutions import ConvOptions, GATOptions
from plancc.plan.layers import Aggregate, GatherNeighbours, Linear, OwnLinear, Steps
from plancc.registry import check_choice
from plancc.text import shown
from plancc_runtime.kernels.dense import finished
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.stack import StackGraph
from plancc_runtime.nn.conv import Conv, glorot, uniform
from plancc_runtime.nn.gat import NEGATIVE_SLOPE
from plancc_runtime.nn.operators import attention
from plancc_runtime.workspace import empty


@dataclass(frozen=True)
class TypesOfLayer:
    """What a layer knows of the graph.

    Attributes:
        widths: Columns of every type in the layer's input.
        relations: Those that lead to `wanted` types.
        wanted: Types whose outputs are read; the rows of others are 0.
    """

    widths: Mapping[str, int]
    relations: tuple[Relation, ...]
    wanted: tuple[str, ...]

    @property
    def wanted_widths(self) -> dict[str, int]:
        """Columns of every wanted type in the layer's input."""
        return {name: self.widths[name] for name in self.wanted}

    def into(self, name: str) -> list[int]:
        """Numbers of the relations that lead to a type."""
        return [k for k, each in enumerate(self.relations) if each[2] == name]


@dataclass(frozen=True)
class TypesOfNetwork:
    """What a network knows of the graph, and of which type it learns.

    Attributes:
        widths: Features of every type.
    """

    widths: Mapping[str, int]
    relations: tuple[Relation, ...]
    target: str

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`; InputError for anything else."""
        try:
            widths = {str(name): int(width) for name, width in found["widths"].items()}
            relations = tuple((str(a), str(b), str(c)) for a, b, c in found["relations"])
            made = cls(widths, relations, found["target"])
            Types(dict.fromkeys(widths, 1), relations)
            right = len(found) == 3 and made.target in widths and min(widths.values()) > 0
        except (KeyError, TypeError, ValueError, AttributeError, InputError):
            right = False
        if not right:
            raise InputError("'types' describes no types and relations")
        return made

    def is_like(self, other: Self) -> bool:
        """Whether types, relations and target are the same, in whatever order."""
        ours, theirs = ((n.widths, {*n.relations}, n.target) for n in (self, other))
        return ours == theirs

    def of_layers(self, dims: list[int]) -> list[TypesOfLayer]:
        """What each layer of these widths knows; the last computes the target alone."""
        found: list[TypesOfLayer] = []
        wanted = {self.target}
        for k in reversed(range(len(dims) - 1)):
            relations = tuple(each for each in self.relations if each[2] in wanted)
            widths = self.widths if k == 0 else dict.fromkeys(self.widths, dims[k])
            names = tuple(name for name in self.widths if name in wanted)
            found.insert(0, TypesOfLayer(widths, relations, names))
            wanted |= {source for source, *_ in relations}
        return found


@dataclass(frozen=True)
class RelationOptions(ConvOptions):
    """What convolutions may be told that multiply with every relation.

    Attributes:
        aggregator: "mean" or "sum" over the neighbours in a relation.
    """

    aggregator: str = "mean"
    printed: ClassVar[tuple[str, ...]] = ("aggregator",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("aggregator of relations", self.aggregator, ("mean", "sum"))

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        product = Aggregate(d_in, self.aggregator)
        own = OwnLinear(d_in, d_out)
        return [product, Linear(d_in, d_out), own, *self._with_bias(d_out)]


@dataclass(frozen=True)
class RGCNOptions(RelationOptions):
    """What R-GCN (Schlichtkrull et al. 2018) may be told.

    Attributes:
        bases: Matrices whose sums the relations share (Equation 3); 0: a matrix for each relation.
    """

    bases: int = option(0, at_least=0, at_most=10_000)


@dataclass(frozen=True)
class RelationGATOptions(GATOptions):
    """What attention by relation may be told."""

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        columns = self.heads * self.head_width(d_out, last)
        return [GatherNeighbours(d_in), Linear(d_in, columns), *self._with_bias(columns)]


class ByType(nn.Module):
    """A module of every wanted type's own, between layers; rows of other types are 0.

    Parameters:
        widths: Columns of every wanted type before it.
        d_out: Columns of all types after it.
        make: From these widths to a module of rows and the graph, or the identity.
    """

    def __init__(
        self, widths: Mapping[str, int], d_out: int, make: Callable[[int, int], nn.Module]
    ) -> None:
        super().__init__()
        self._widths, self._d_out = dict(widths), d_out
        self.of_types = nn.ModuleList(make(width, d_out) for width in widths.values())

    def forward(self, x: Tensor, graph: LayerGraph) -> Tensor:
        """From rows of a layer's output, Tensor[num_outputs, ...], to Tensor[num_outputs, d_out].

        Collective where the modules are.
        """
        stack, found = stack_graph(graph), []
        own = dict(zip(self._widths, self.of_types, strict=True))
        for name, rows in stack.outputs_of.items():
            if name not in own:
                found.append(x.new_zeros(stack.num_outputs_of(name), self._d_out))
                continue
            each, module = narrow(x[rows], self._widths[name]), own[name]
            found.append(each if isinstance(module, nn.Identity) else module(each, graph))
        return torch.cat(found)


class RelationConv(Conv):
    """A layer of a graph with types.

    Parameters:
        others: As of `Conv`.
    """

    by_relation = True
    rectifies = True
    reads_values = False
    types: TypesOfLayer

    def __init__(self, d_in: int, d_out: int, *, types: TypesOfLayer, **others: Any) -> None:
        object.__setattr__(self, "types", types)  # `_make` reads it
        super().__init__(d_in, d_out, **others)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Own and halo rows of x: Tensor[num_columns, d_in]."""
        with torch.no_grad():
            return stack_graph(graph).columns(x)

    def _joined(self, graph: StackGraph, outputs: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """The outputs of all types: Tensor[own rows, d_out]; 0 of those that are not wanted."""
        return torch.cat(
            [
                outputs[name]
                if name in outputs
                else like.new_zeros(graph.num_outputs_of(name), self.d_out)
                for name in graph.outputs_of
            ]
        )


class RelationProduct(RelationConv):
    """z_r W_r for every relation, z_r the mean or sum over its neighbours, and h_v W."""

    Options = RelationOptions

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """z of all relations: Tensor[rows of the stack, d_in]."""
        with torch.no_grad():
            return stack_graph(graph).product(x, self.options.aggregator)

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        stack = stack_graph(graph)
        z = stack.product(x, self.options.aggregator) if fixed is None else fixed
        sizes = [rows.stop - rows.start for rows in stack.stack_of.values()]
        of_relation = dict(zip(stack.stack_of, z.split(sizes), strict=True))
        own, outputs = self._own(stack, x), {}
        for name in self.types.wanted:
            numbers = self.types.into(name)
            weight, bias = self._own_map(name)
            y = stack.linear(own[name], weight, bias, rectified and not numbers)
            for k in numbers:
                relation = self.types.relations[k]
                rows = narrow(of_relation[relation], self.types.widths[relation[0]])
                last = rectified and k == numbers[-1]
                y = stack.linear(rows, self._weight(k), None, last, onto=y)
            outputs[name] = y
        return self._joined(stack, outputs, z)

    def _own(self, graph: StackGraph, x: Tensor) -> dict[str, Tensor]:
        """Rows of the input that are outputs, by type, in the columns of the type."""
        sizes = [graph.num_outputs_of(name) for name in graph.outputs_of]
        rows = graph.targets(x).split(sizes)
        return {
            name: narrow(each, self.types.widths[name])
            for name, each in zip(graph.outputs_of, rows, strict=True)
        }

    @abstractmethod
    def _weight(self, k: int) -> Tensor:
        """The map of the neighbours in relation k."""

    @abstractmethod
    def _own_map(self, name: str) -> tuple[Tensor, Tensor | None]:
        """The map of own rows of a type, and the bias."""


class RGCNConv(RelationProduct):
    """The relational graph convolution of Schlichtkrull et al. (ESWC 2018), Equations 2 and 3.

    It is PyTorch Geometric's RGCNConv on the union: W_r is a sum of `bases` matrices, or one of
    its own; all types have one matrix of own rows and one bias.
    """

    Options = RGCNOptions

    def _make(self, random: np.random.Generator) -> None:
        d_in, d_out, types = self.d_in, self.d_out, self.types
        bases, relations = self.options.bases, types.relations
        self.coefficient = None
        if bases:
            drawn = [glorot(random, d_in, d_out) for _ in range(bases)]
            self.coefficient = nn.Parameter(glorot(random, len(relations), bases))
        else:
            drawn = [glorot(random, types.widths[source], d_out) for source, *_ in relations]
        self.weights = nn.ParameterList(drawn)
        self.weight_self = nn.Parameter(glorot(random, d_in, d_out))
        self.bias = self._new_bias()

    def _weight(self, k: int) -> Tensor:
        if self.coefficient is None:
            return self.weights[k]
        pairs = zip(self.coefficient[k], self.weights, strict=True)
        whole = torch.stack([c * basis for c, basis in pairs]).sum(0)
        return whole[: self.types.widths[self.types.relations[k][0]]]

    def _own_map(self, name: str) -> tuple[Tensor, Tensor | None]:
        return self.weight_self[: self.types.widths[name]], self.bias


class RelationSAGEConv(RelationProduct):
    """GraphSAGE in every relation, as PyTorch Geometric's `to_hetero` makes of its SAGEConv.

    A type to which no relation leads has a linear map of its own rows.
    """

    def _make(self, random: np.random.Generator) -> None:
        types = self.types
        neighbours, biases, own = [], [], []
        for source, _, destination in types.relations:
            weight, bias = self._new_linear(random, types.widths[source])
            neighbours.append(weight)
            biases += [] if bias is None else [bias]
            own.append(self._new_own(random, destination))
        alone = [name for name in types.wanted if not types.into(name)]
        own += [self._new_own(random, name) for name in alone]
        self._alone = {name: len(types.relations) + k for k, name in enumerate(alone)}
        self.weights, self.biases = nn.ParameterList(neighbours), nn.ParameterList(biases)
        self.weights_self = nn.ParameterList(own)

    def _new_own(self, random: np.random.Generator, name: str) -> Tensor:
        d_in = self.types.widths[name]
        return uniform(random, (d_in, self.d_out), fan_in=d_in)

    def _weight(self, k: int) -> Tensor:
        return self.weights[k]

    def _own_map(self, name: str) -> tuple[Tensor, Tensor | None]:
        numbers = self.types.into(name)
        if not numbers:
            return self.weights_self[self._alone[name]], None
        biases = _total([self.biases[k] for k in numbers]) if len(self.biases) else None
        return _total([self.weights_self[k] for k in numbers]), biases


class RelationGATConv(RelationConv):
    """Attention in every relation: PyTorch Geometric's HeteroConv of GATConv without self-loops.

    Source and destination have matrices of their own.
    """

    Options = RelationGATOptions

    def _make(self, random: np.random.Generator) -> None:
        heads, types = self.options.heads, self.types
        if self.options.attention_dropout:
            raise InputError("attention_dropout: is for graphs of one type")
        if not types.relations:
            names = ", ".join(map(shown, types.wanted))
            raise InputError(f"`model` gat: no relation leads to {names}; choose rgcn or sage")
        self.width = self.options.head_width(self.d_out, self.last, "`hidden`")
        size, parts = heads * self.width, list[list[Tensor]]()
        for source, _, destination in types.relations:
            weights = [glorot(random, types.widths[each], size) for each in (source, destination)]
            parts.append([*weights, *(glorot(random, heads, self.width) for _ in range(2))])
        of_kind = zip(*parts, strict=True)
        self.weights, self.weights_target, self.scores_source, self.scores_target = (
            nn.ParameterList(each) for each in of_kind
        )
        biases = [torch.zeros(self.d_out, dtype=torch.float64) for _ in parts]
        self.biases = nn.ParameterList(biases if self.options.has_bias else [])

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        stack, heads, relations = stack_graph(graph), self.options.heads, self.types.relations
        columns = stack.columns(x) if fixed is None else fixed
        of_type, rows = stack.columns_by_type(columns), list[Tensor]()
        biases, has_bias = list[Tensor](), len(self.biases) > 0
        sources, targets, sums = list[Tensor](), list[Tensor](), list[_Sum]()
        for name in stack.inputs_of:
            numbers = [k for k, each in enumerate(relations) if each[0] == name]
            if numbers:
                each = narrow(of_type[name], self.types.widths[name])
                weight, vectors = _by_heads(numbers, self.weights, self.scores_source)
                rows.append(stack.linear(each, weight).reshape(-1, heads * self.width))
                sources.append(stack.linear(each, vectors).reshape(-1, heads))
            if numbers := self.types.into(name):
                _, vectors = _by_heads(numbers, self.weights_target, self.scores_target)
                own = stack.targets_of(name, of_type[name])
                own = narrow(own, self.types.widths[name])
                targets.append(stack.linear(own, vectors).reshape(-1, heads))
                sums.append(_Sum(stack.outputs_of[name], len(numbers)))
                biases += [_total([self.biases[k] for k in numbers])] * has_bias
        pattern = stack.pattern_of(relations)
        joined = _Joined.apply(*rows).unflatten(1, (heads, self.width))
        found = attention(pattern, torch.cat(sources), torch.cat(targets), joined, NEGATIVE_SLOPE)
        bias = torch.stack(biases) if biases else None
        if bias is not None and self.last:  # the mean over the heads is of them and of it
            bias = bias.repeat(1, heads)
        y = _Sums.apply(found.flatten(1), bias, sums, stack.num_outputs_of_types)
        y = y.unflatten(1, (heads, self.width)).mean(1) if self.last else y
        return finished(y, None, rectified)


class _Sum(NamedTuple):
    """Own rows of a type, each the sum of `parts` rows that stand side by side."""

    rows: slice
    parts: int


class _Sums(torch.autograd.Function):
    """Sums of rows, with a bias for each type; rows of no sum are 0."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor | None, sums: list[_Sum], num_rows: int
    ) -> Tensor:
        ctx.sums, ctx.num_summed, ctx.has_bias, first = sums, len(x), bias is not None, 0
        out = empty(num_rows, x.shape[1], x)
        if sum(each.rows.stop - each.rows.start for each in sums) < num_rows:
            out.zero_()
        for k, (rows, count) in enumerate(sums):
            last = first + count * (rows.stop - rows.start)
            torch.sum(x[first:last].unflatten(0, (-1, count)), 1, out=out[rows])
            if bias is not None:
                out[rows] += bias[k]
            first = last
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        back, first = empty(ctx.num_summed, g.shape[1], g), 0
        for rows, count in ctx.sums:
            last = first + count * (rows.stop - rows.start)
            back[first:last].unflatten(0, (-1, count)).copy_(g[rows].unsqueeze(1))
            first = last
        of_bias = torch.stack([g[rows].sum(0) for rows, _ in ctx.sums]) if ctx.has_bias else None
        return back, of_bias, None, None


class _Joined(torch.autograd.Function):
    """torch.cat of rows, in memory that is used again."""

    @staticmethod
    def forward(ctx: Any, *parts: Tensor) -> Tensor:
        ctx.sizes = [len(each) for each in parts]
        return torch.cat(parts, out=empty(sum(ctx.sizes), parts[0].shape[1], parts[0]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
        return g.split(ctx.sizes)


def _by_heads(
    numbers: list[int], weights: nn.ParameterList, scores: nn.ParameterList
) -> tuple[Tensor, Tensor]:
    """Maps of rows to the heads of these relations side by side, and to their scores."""
    weight = torch.cat([weights[k] for k in numbers], 1)
    vectors = torch.cat([scores[k] for k in numbers])
    return weight, (weight.unflatten(1, vectors.shape) * vectors).sum(2)


def stack_graph(graph: LayerGraph) -> StackGraph:
    """The graph, if it has types; else InputError."""
    if isinstance(graph, StackGraph):
        return graph
    raise InputError("a layer by relation needs a graph with types")


def narrow(x: Tensor, width: int) -> Tensor:
    """The first columns of x."""
    return x if x.shape[1] == width else x[:, :width].contiguous()


def _total(parameters: Sequence[Tensor]) -> Tensor:
    """The sum of parameters of one shape."""
    return parameters[0] if len(parameters) == 1 else torch.stack([*parameters]).sum(0)
