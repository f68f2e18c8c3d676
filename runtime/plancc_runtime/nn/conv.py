"""Interface of convolutions.

A convolution maps the rows of a layer's input to the rows of its output:

    y = conv(graph, x)                     x: [num_inputs, d_in] -> y: [num_outputs, d_out]

`fixed(graph, x)` is the part that depends on the input alone. Where the input never changes, it can
be computed once and passed to every call, `conv(graph, x, fixed)`: it is the whole exchange of the
first layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from plancc.errors import InputError
from plancc.plan.convolutions import ConvOptions, ProductOptions
from plancc.plan.layers import Aggregate, BothWays, GatherNeighbours, OwnLinear
from plancc_runtime.kernels.dense import weight_gradient
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph, local_graph


class Halves(NamedTuple):
    """A layer, divided where it moves rows; what stands before and after works on single rows.

    Attributes:
        before (callable of (Tensor[m, d], ...) to tuple of Tensor[m, ...]): From some rows of the
            input to what is moved of them and what is kept for them.
        across (callable of (Tensor[num_inputs, ...], ...) to tuple of Tensor[num_outputs, ...]):
            Collective. From what `before` gave of all rows to what `after` needs of all rows.
        after (callable of (Tensor[m, ...], ...) to Tensor[m, d_out]): From that, of some rows, to
            these rows of the output.
    """

    before: Callable[..., tuple[Tensor, ...]]
    across: Callable[..., tuple[Tensor, ...]]
    after: Callable[..., Tensor]


def unchanged(*rows: Tensor) -> tuple[Tensor, ...]:
    """The same rows: a half of a layer that has nothing to do."""
    return rows


class Conv(nn.Module, ABC):
    """One layer.

    Parameters:
        d_in, d_out: Width of input and output.
        last: Whether this is the last layer.
        d_target: Width of x where neighbours are of another kind: then `forward` is given x of the
            outputs alone, times `target_map` if there is one, and as `fixed` what the neighbours
            give, of width d_in. It leaves out the product of x and `own_map`, which the caller
            adds.
        random: Source of the initial weights, or its seed; they are drawn in float64, so that all
            ranks and dtypes start alike. By default the seed is drawn from torch's own generator,
            whose state is the same on all ranks unless they were seeded otherwise
            (`torch.manual_seed`).
        dtype (torch.dtype, optional): Type of the weights; by default torch's.
        choices: Fields of `Options`, by name; text stands for a value that is none.

    Raises:
        InputError: If an option does not exist, has an unknown value, or does not fit the widths.

    Attributes:
        Options: The model's options, which say the steps of a layer: a dataclass derived from
            `ConvOptions`.
        whole_rows: Whether a rank must have all nonzeros of its rows, which it has not in an edge
            plan.
        by_relation: Whether it needs a graph with types (`nn.relations`).
        rectifies: Whether the layer can apply the activation relu itself, and add its output to
            that of others, which saves passes over it.
        draws: Whether training passes draw random numbers of their own, by the `key` that `forward`
            and `halves` then take.
        takes_bfloat16: Whether x may be of bfloat16 while the parameters are of float32.
        reads_values: Whether it reads the plan's values of A, and not its pattern alone.
        reads_edges: Whether it reads `graph.edge_features`.
    """

    Options: ClassVar[type[ConvOptions]] = ConvOptions
    whole_rows: ClassVar[bool] = False
    by_relation: ClassVar[bool] = False
    rectifies: ClassVar[bool] = False
    draws: bool = False
    takes_bfloat16: ClassVar[bool] = False
    reads_values: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        last: bool = False,
        d_target: int | None = None,
        random: np.random.Generator | int | None = None,
        dtype: torch.dtype | None = None,
        **choices: Any,
    ) -> None:
        super().__init__()
        self.d_in, self.d_out, self.last, self.d_target = d_in, d_out, last, d_target
        self.options: Any = self.Options.read(choices, type(self).__name__)
        if random is None:
            random = int(torch.randint(2**62, ()))
        self._make(np.random.default_rng(random))
        self.to(dtype or torch.get_default_dtype())

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of the model's options."""
        return [each.name for each in fields(cls.Options)]

    @abstractmethod
    def _make(self, random: np.random.Generator) -> None:
        """Make the parameters, in float64."""

    @abstractmethod
    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """The part that depends on x and the graph alone, without gradient. Collective."""

    @abstractmethod
    def forward(
        self, graph: LayerGraph, x: Tensor, fixed: Tensor | None = None, rectified: bool = False
    ) -> Tensor:
        """Output rows; with `fixed`, without any exchange and without a gradient for x.

        Collective. Layers with `draws` take a `key` too, uint64: another one in every layer and
        update.

        Parameters:
            x: Tensor[num_inputs, d_in].
            fixed: What `fixed` returned for the same graph and x.
            rectified: Whether max(., 0) of the output is wanted; for layers with `rectifies` only,
                as is the next.
            onto (Tensor[num_outputs, d_out], optional): Rows that the output is added to, in their
                place: no operation before may have kept them. With `fixed` alone.

        Returns:
            Tensor[num_outputs, d_out]
        """

    @property
    def own_map(self) -> Tensor | None:
        """The map of own rows, if their product is but added to the rest: Tensor[d, d_out]."""
        return None

    @property
    def target_map(self) -> Tensor | None:
        """What the caller multiplies x by for `forward`, with `d_target`: Tensor[d_target, m]."""
        return None

    def halves(self, graph: LocalGraph, fixed: bool, first: bool) -> Halves:
        """The layer in halves, for a pass that computes rows again (`nn.recompute`).

        Not collective. `fixed`: whether `before` gets `fixed`, and after it x if the layer has
        `reads_input`, in place of x; then `across` moves nothing. `first`: whether this is the
        first layer, whose input needs no gradient.

        Raises:
            InputError: If this kind of layer cannot be divided so.
        """
        raise InputError(f"`recompute`: {type(self).__name__} cannot compute single rows again")

    def both_ways(self, first: bool, fixed: bool = False) -> BothWays:
        """Return the layer's steps in an epoch; parameters as of `ConvOptions.both_ways`."""
        return self.options.both_ways((self.d_in, self.d_out), self.last, first, fixed)

    @property
    def fixed_rows(self) -> str:
        """Rows of `fixed`: "inputs" of the layer, its "outputs", or "columns" of the matrix."""
        at_hand = [each for each in self.both_ways(True, fixed=True).forward if each.at_hand]
        if not at_hand:
            return "inputs"
        return "columns" if isinstance(at_hand[-1], GatherNeighbours) else "outputs"

    @property
    def fixes_product(self) -> bool:
        """Whether `fixed` is a product with the matrix: it needs no copy of its input."""
        steps = self.both_ways(True, fixed=True).forward
        return any(each.at_hand and isinstance(each, Aggregate) for each in steps)

    @property
    def reads_input(self) -> bool:
        """Whether x is read where `fixed` is given."""
        steps = self.both_ways(True, fixed=True).forward
        return any(isinstance(each, OwnLinear) for each in steps)

    def extra_repr(self) -> str:
        """The widths and the options in use, for `print`."""
        names = sorted(self.option_names())
        used = ", ".join(f"{name}={getattr(self.options, name)!r}" for name in names)
        return f"{self.d_in}, {self.d_out}, {used}"

    @property
    def _as_pyg(self) -> bool:
        return self.options.parametrization == "pyg"

    def _new_bias(self, values: Tensor | None = None) -> nn.Parameter | None:
        """A bias of these values, by default zeros; None if the layer has none."""
        if values is None:
            values = torch.zeros(self.d_out, dtype=torch.float64)
        return nn.Parameter(values) if self.options.has_bias else None

    def _new_linear(
        self, random: np.random.Generator, d_in: int, d_out: int | None = None
    ) -> tuple[nn.Parameter, nn.Parameter | None]:
        """Weight and bias of a linear map, by default to d_out columns of the layer:
        torch.nn.Linear's or Glorot's."""
        d_out = d_out or self.d_out
        if not self._as_pyg:
            zeros = torch.zeros(d_out, dtype=torch.float64)
            return nn.Parameter(glorot(random, d_in, d_out)), self._new_bias(zeros)
        weight = uniform(random, (d_in, d_out), fan_in=d_in)
        bias = self._new_bias(uniform(random, (d_out,), fan_in=d_in))
        return nn.Parameter(weight), bias


def glorot(random: np.random.Generator, d_in: int, d_out: int) -> Tensor:
    """Uniform in +-sqrt(6 / (d_in + d_out)) (Glorot and Bengio 2010): float64[d_in, d_out]."""
    return torch.from_numpy(random.uniform(-1, 1, (d_in, d_out)) * np.sqrt(6 / (d_in + d_out)))


def uniform(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Tensor:
    """Uniform in +-1 / sqrt(fan_in): float64 of this shape.

    This is how torch.nn.Linear and the Linear of PyTorch Geometric draw weights (Kaiming uniform,
    He et al. 2015, with a = sqrt(5)) and biases.
    """
    return torch.from_numpy(random.uniform(-1, 1, shape) / np.sqrt(fan_in))


class LinearAggregation:
    """The product A H W in a chosen order; A has the plan's values, or others on its pattern.

    Parameters:
        order: As in `ProductOptions`.
        d_in, d_out: Shape of W.
        coefficients: Values of A: a name in `plancc.plan.layers.COEFFICIENTS`.
    """

    def __init__(self, order: str, d_in: int, d_out: int, coefficients: str) -> None:
        self._may_project = order in ("auto", "project-first") and d_out <= d_in
        if order == "auto":
            order = "project-first" if d_out < d_in else "aggregate-first"
        self._order, self._coefficients = order, coefficients

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """A x, without gradient: Tensor[num_outputs, d_in]. Collective."""
        with torch.no_grad():
            return graph.product(x, self._coefficients)

    def projects_first(self, first: bool) -> bool:
        """Whether rows had better be multiplied by W before they are moved, to keep one sum only.

        Never if more columns would be moved: in the first layer, whose input needs no gradient,
        rows that are not multiplied move forward only.
        """
        return self._order == "project-first" or (self._may_project and not first)

    def product(self, graph: LayerGraph, rows: Tensor) -> Tensor:
        """A rows. Collective."""
        return graph.product(rows, self._coefficients)

    def __call__(
        self,
        graph: LayerGraph,
        x: Tensor,
        weight: Tensor,
        fixed: Tensor | None,
        bias: Tensor | None = None,
        rectified: bool = False,
        onto: Tensor | None = None,
    ) -> Tensor:
        """A x weight + bias: Tensor[num_outputs, d_out]; with `fixed` = A x at hand. Collective.

        If `rectified`, max(., 0) of it. `onto` is as of `Conv.forward`.
        """
        if fixed is not None:
            return graph.linear(fixed, weight, bias, rectified, onto)
        if self._order == "aggregate-first":
            return graph.product_linear(x, weight, self._coefficients, bias, rectified)
        if self._order == "project-first":
            return graph.linear_product(x, weight, self._coefficients, bias, rectified)
        local = local_graph(graph, "order paper")
        z = _PaperProduct.apply(x, weight, local, self._coefficients)
        return graph.finished(z, bias, rectified)


class LinearConv(Conv):
    """A convolution that exchanges rows for one product A H W alone."""

    Options = ProductOptions
    _aggregate: LinearAggregation

    def _aggregate_with(self, coefficients: str, width: int | None = None) -> None:
        """Choose the coefficients of A, and the columns of W where these are not d_out, as in
        `LinearAggregation`."""
        order, width = self.options.order, width or self.d_out
        self._aggregate = LinearAggregation(order, self.d_in, width, coefficients)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """A x: Tensor[num_outputs, d_in]."""
        return self._aggregate.fixed(graph, x)


class _PaperProduct(torch.autograd.Function):
    """(A H) W forward; back, S = A^T G is of d_out columns (Demirci et al. 2022, Equations 3 and
    4).

    The exchange of G is made also where H needs no gradient, since the weight's is H^T S.
    """

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, graph: LocalGraph, coefficients: str
    ) -> Tensor:
        ctx.save_for_backward(h, weight)
        ctx.graph, ctx.coefficients = graph, coefficients
        return graph.multiplied(h, coefficients) @ weight.to(h.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        h, weight = ctx.saved_tensors
        s = ctx.graph.multiplied(g, ctx.coefficients, back=True)
        back = s @ weight.T.to(s.dtype) if ctx.needs_input_grad[0] else None
        return back, weight_gradient(h, s), None, None
