"""Convolutions for graphs with types: sums over the relations whose destination is a vertex's type.

    h'_v = sum over relations r to the type of v of f_r(h_v, {h_u : u in N_r(v)})

f_r has weights of relation r, and N_r(v) is the set of v's neighbours in r. Inputs and outputs have
the rows of all types, one type after another (`layouts.stack`). Rows of narrow types are padded; no
layer reads the padding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from plancc.errors import InputError
from plancc.fields import option
from plancc.graph.types import Relation, Types
from plancc.plan.convolutions import ConvOptions
from plancc.plan.layers import (
    Aggregate,
    Attention,
    LayerStep,
    Linear,
    Maximum,
    OwnLinear,
    Steps,
    moved_first,
)
from plancc.registry import check_choice
from plancc.text import shown
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.stack import RelationGraph, StackGraph
from plancc_runtime.nn import MODELS
from plancc_runtime.nn.conv import Conv, glorot, uniform


@dataclass(frozen=True)
class TypesOfLayer:
    """The types and relations that a layer reads.

    Attributes:
        widths: For every type, the number of columns that its rows have in the layer's input.
        relations: Relations whose destination is one of `wanted`.
        wanted: Types whose output rows the next layer or the loss reads. Output rows of other
            types are 0.
    """

    widths: Mapping[str, int]
    relations: tuple[Relation, ...]
    wanted: tuple[str, ...]

    @property
    def wanted_widths(self) -> dict[str, int]:
        """For every type in `wanted`, the number of columns in the layer's input."""
        return {name: self.widths[name] for name in self.wanted}

    def into(self, name: str) -> list[int]:
        """Return the indices of the relations in `relations` whose destination is type `name`."""
        return [k for k, each in enumerate(self.relations) if each[2] == name]


@dataclass(frozen=True)
class TypesOfNetwork:
    """Types and relations of the graph, and the type for which a network is trained.

    Attributes:
        widths: Number of features of every type.
        target: Type of the vertices whose outputs count for the loss.
    """

    widths: Mapping[str, int]
    relations: tuple[Relation, ...]
    target: str

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Return the object with the fields `found`; raise InputError if the fields do not fit."""
        try:
            widths = {str(name): int(width) for name, width in found["widths"].items()}
            relations = tuple((str(a), str(b), str(c)) for a, b, c in found["relations"])
            made = cls(widths, relations, found["target"])
            Types(dict.fromkeys(widths, 1), relations)
            right = len(found) == 3 and made.target in widths and min(widths.values()) > 0
        except (KeyError, TypeError, ValueError, AttributeError, InputError):
            right = False
        if not right:
            raise InputError("'types' does not describe types and relations")
        return made

    def is_like(self, other: Self) -> bool:
        """Return whether types, relations and target are the same, in any order."""
        ours, theirs = ((n.widths, {*n.relations}, n.target) for n in (self, other))
        return ours == theirs

    def types_of_layers(self, dims: list[int]) -> list[TypesOfLayer]:
        """Return the types and relations that each layer reads, first layer first."""
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
class RGCNOptions(ConvOptions):
    """Options of R-GCN (Schlichtkrull et al. 2018).

    Attributes:
        aggregator: "mean" or "sum" over the neighbours in a relation.
        bases: Number of basis matrices; the matrix of every relation is a weighted sum of them
            (Equation 3). 0: every relation has a separate matrix.
    """

    aggregator: str = "mean"
    bases: int = option(0, at_least=0, at_most=10_000)
    printed: ClassVar[tuple[str, ...]] = ("aggregator",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("aggregator of relations", self.aggregator, ("mean", "sum"))

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        product = Aggregate(d_in, self.aggregator)
        own = OwnLinear(d_in, d_out)
        return [product, Linear(d_in, d_out), own, *self._with_bias(d_out)]


class ByType(nn.Module):
    """Applies a separate module to the rows of each wanted type; rows of other types become 0.

    A type is wanted if the next layer or the loss reads its output rows. `widths` has the input
    width of every wanted type; `make` returns a module for an input and an output width.
    """

    def __init__(
        self, widths: Mapping[str, int], d_out: int, make: Callable[[int, int], nn.Module]
    ) -> None:
        super().__init__()
        self._widths, self._d_out = dict(widths), d_out
        self.of_types = nn.ModuleList(make(width, d_out) for width in widths.values())

    def forward(self, x: Tensor, graph: LayerGraph) -> Tensor:
        """Return each row of x mapped by the module of its type: Tensor[num_outputs, d_out].

        Collective if the modules are. x has the rows of a layer's output vertices, of all types.
        """
        stack, found = stack_graph(graph), dict[str, Tensor]()
        typed_rows = stack.outputs_by_type(x)
        for (name, width), module in zip(self._widths.items(), self.of_types, strict=True):
            rows = narrow(typed_rows[name], width)
            found[name] = rows if isinstance(module, nn.Identity) else module(rows, graph)
        return stack.joined(found, x, self._d_out)


class RelationConv(Conv):
    """A layer for graphs with types. Its first step moves rows between ranks, for all relations."""

    by_relation = True
    rectifies = True
    types: TypesOfLayer

    def __init__(self, d_in: int, d_out: int, *, types: TypesOfLayer, **others: Any) -> None:
        object.__setattr__(self, "types", types)  # `_make` reads it
        super().__init__(d_in, d_out, **others)

    @property
    def _moving(self) -> LayerStep:
        """The layer's first step: an `Aggregate` or a `GatherNeighbours`."""
        return self.options.steps(self.d_in, self.d_out, self.last)[0]

    def _moved(self, stack: StackGraph, x: Tensor) -> Tensor:
        """Return the result of the layer's first step. Collective.

        If this step is an `Aggregate`, the result has the sums of all relations, Tensor[rows of the
        stack, d_in]. Otherwise it has own and halo rows of all types, Tensor[num_columns, d_in].
        """
        step = self._moving
        if isinstance(step, Aggregate):
            return stack.product(x, step.coefficients)
        return stack.columns(x)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return the result of the layer's first step, without gradient; see `_moved`."""
        with torch.no_grad():
            return self._moved(stack_graph(graph), x)

    def forward(
        self, graph: LayerGraph, x: Tensor, fixed: Tensor | None = None, rectified: bool = False
    ) -> Tensor:
        stack, outputs = stack_graph(graph), dict[str, Tensor]()
        moved, own = self._rows(stack, x, fixed)
        for name in self.types.wanted:
            y = self._type_outputs(stack, name, own.get(name), moved, rectified)
            if y is not None:
                outputs[name] = y
        return stack.joined(outputs, x, self.d_out)

    @abstractmethod
    def _type_outputs(
        self, stack: StackGraph, name: str, own: Tensor | None, moved: list[Tensor], rectified: bool
    ) -> Tensor | None:
        """Return the output rows of type `name`, or None if all their entries are 0.

        `moved` has, for every relation, the result of the layer's first step, and `own` has the own
        rows of type `name`, if the layer reads them. Both come from `_rows`.
        """

    def _rows(
        self, stack: StackGraph, x: Tensor, fixed: Tensor | None
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return what outputs are computed from: rows by relation, and own rows. Collective.

        The list has, for every relation, rows of `fixed` or, if it is None, of the result of the
        layer's first step (`_moved`), cut to the width of the source type. The dict has the own
        rows by type; it may be empty if the layer does not read x itself.
        """
        widths, relations = self.types.widths, self.types.relations
        if isinstance(self._moving, Aggregate):
            x, rows = stack.fork(x) if self.reads_input else (x, None)
            parts = stack.split_by_relation(self._moved(stack, x) if fixed is None else fixed)
            found = [narrow(parts[each], widths[each[0]]) for each in relations]
            own = {} if rows is None else stack.outputs_by_type(rows)
        else:
            columns = stack.columns_by_type(self._moved(stack, x) if fixed is None else fixed)
            typed_rows = {each: narrow(rows, widths[each]) for each, rows in columns.items()}
            found = [typed_rows[source] for source, *_ in relations]
            own = {each: stack.targets_of(each, rows) for each, rows in typed_rows.items()}
        return found, {name: narrow(rows, widths[name]) for name, rows in own.items()}


class RGCNConv(RelationConv):
    """The relational graph convolution of Schlichtkrull et al. (ESWC 2018), Equations 2 and 3.

    h'_v = h_v W + b + the sum of z_r W_r over the relations r, where z_r is the mean or sum over
    the neighbours in r. All types share W and b. W_r is a weighted sum of `bases` matrices, or a
    separate matrix. PyTorch Geometric's RGCNConv computes the same result on one graph without
    types, which has the vertices and edges of all types.
    """

    Options = RGCNOptions
    reads_values = False

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

    def _type_outputs(
        self, stack: StackGraph, name: str, own: Tensor | None, moved: list[Tensor], rectified: bool
    ) -> Tensor | None:
        assert own is not None
        numbers, weight = self.types.into(name), self.weight_self[: self.types.widths[name]]
        y = stack.linear(own, weight, self.bias, rectified and not numbers)
        for k in numbers:
            last = rectified and k == numbers[-1]
            y = stack.linear(moved[k], self._weight(k), None, last, onto=y)
        return y

    def _weight(self, k: int) -> Tensor:
        """Return W_r of relation k: Tensor[width of its source type, d_out]."""
        if self.coefficient is None:
            return self.weights[k]
        pairs = zip(self.coefficient[k], self.weights, strict=True)
        whole = torch.stack([c * basis for c, basis in pairs]).sum(0)
        return whole[: self.types.widths[self.types.relations[k][0]]]


class OptionsPerRelation(ConvOptions):
    """Options of a layer with a convolution for each relation.

    Rows are sent before they are multiplied by weights, so each row is sent once for all relations.
    """

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        found = super().steps(d_in, d_out, last)
        return moved_first([each for each in found if not isinstance(each, Attention)])

    def _transposed(self, forward: Steps) -> Steps:
        return forward

    def with_order(self, order: str) -> Self:
        return self


class PerRelation(RelationConv):
    """The sum of one convolution for each relation, as in PyTorch Geometric's HeteroConv.

    Rows are sent once for all relations. From the exchange, each convolution gets the source rows
    of its relation, or sums of these rows, as its argument `fixed`. Its argument x has the rows of
    the relation's destination type, if the convolution reads them. The rows of a destination type
    are multiplied once by the sum of the convolutions' weights `own_map`, and once by a matrix with
    their weights `target_map` side by side. If a type is the destination of no relation, its output
    is a separate linear map of its own rows, or 0 if the convolutions do not read own rows.

    Attributes:
        kind: Class of the convolutions; `per_relation` makes a subclass for every such class.
    """

    kind: ClassVar[type[Conv]]

    def _make(self, random: np.random.Generator) -> None:
        types, widths, name = self.types, self.types.widths, MODELS.name_of(self.kind)
        steps = self.options.steps(self.d_in, self.d_out, self.last)
        closed = isinstance(steps[0], Aggregate) and steps[0].coefficients == "closed-mean"
        if closed or any(isinstance(each, Maximum) for each in steps):
            raise InputError(
                f"`model` {name}: can only add or average neighbours; set another `aggregator`"
            )
        alone = [each for each in types.wanted if self.reads_input and not types.into(each)]
        if not (types.relations or alone):
            names = ", ".join(map(shown, types.wanted))
            raise InputError(f"`model` {name}: no relation leads to {names}; choose rgcn or sage")
        how = {each.name: getattr(self.options, each.name) for each in fields(self.options)}
        how |= {"last": self.last, "random": random, "dtype": torch.float64}
        self.convs: Sequence[Conv] = nn.ModuleList(  # type: ignore[assignment]
            self.kind(widths[source], self.d_out, d_target=widths[destination], **how)
            for source, _, destination in types.relations
        )
        if any(each.draws for each in self.convs):
            raise InputError("attention_dropout: needs a graph of one type; leave the dropout out")
        self._alone, inputs = alone, [widths[name] for name in alone]
        self.weights_alone = nn.ParameterList(
            uniform(random, (d_in, self.d_out), fan_in=d_in) for d_in in inputs
        )

    def _type_outputs(
        self, stack: StackGraph, name: str, own: Tensor | None, moved: list[Tensor], rectified: bool
    ) -> Tensor | None:
        numbers, y = self.types.into(name), None
        maps = [self.convs[k].own_map for k in numbers]
        maps += [self.weights_alone[self._alone.index(name)]] if name in self._alone else []
        if weights := [each for each in maps if each is not None]:
            assert own is not None
            total = weights[0] if len(weights) == 1 else torch.stack(weights).sum(0)
            y = stack.linear(own, total, None, rectified and not numbers)
        targets: Sequence[Tensor | None] = [own] * len(numbers)
        side = [each for k in numbers if (each := self.convs[k].target_map) is not None]
        if side and own is not None:
            widths = [each.shape[1] for each in side]
            targets = stack.linear(own, torch.cat(side, 1)).split(widths, 1)
        for k, target in zip(numbers, targets, strict=True):
            conv, relation = self.convs[k], RelationGraph(stack, self.types.relations[k])
            given = relation, moved[k] if target is None else target, moved[k]
            if conv.rectifies:
                y = conv(*given, rectified=rectified and k == numbers[-1], onto=y)
            else:
                z = conv(*given)
                y = z if y is None else y + z
        return y.relu() if y is not None and rectified and not self.kind.rectifies else y


@cache
def per_relation(kind: type[Conv]) -> type[PerRelation]:
    """Return the subclass of `PerRelation` for convolutions of class `kind`.

    Calls with the same class return the same subclass.
    """
    name = f"PerRelation({kind.__name__})"
    options = type(kind.Options.__name__, (OptionsPerRelation, kind.Options), {})
    of_kind = {each: getattr(kind, each) for each in ("reads_values", "reads_edges")}
    return type(name, (PerRelation,), {"kind": kind, "Options": options, **of_kind})


def stack_graph(graph: LayerGraph) -> StackGraph:
    """Return the graph if it has types; else raise InputError."""
    if isinstance(graph, StackGraph):
        return graph
    raise InputError("a layer with a term for each relation needs a graph with types")


def narrow(x: Tensor, width: int) -> Tensor:
    """Return the first `width` columns of x."""
    return x if x.shape[1] == width else x[:, :width].contiguous()
