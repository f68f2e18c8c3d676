"""The interface of convolutions.

A convolution maps the rows of a layer's input to the rows of its output:

    y = conv(graph, x)                     x: [num_inputs, d_in] -> y: [num_outputs, d_out]

The *fixed part* of a layer, `fixed(graph, x)`, depends on no weights, and contains all exchanges of
the layer. If x never changes, the fixed part is computed once, and passed to every call:
`conv(graph, x, fixed)`.
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
    """A layer as three functions: what it computes before, during and after its exchange.

    `before` and `after` handle every row independently, so they can be called for some rows only.

    Attributes:
        before (callable): Maps input rows to a tuple of tensors: rows to send, or needed later.
        across (callable): Maps all results of `before` to all arguments of `after`. Collective.
        after (callable): Maps some rows of these arguments to the same rows of the output.
    """

    before: Callable[..., tuple[Tensor, ...]]
    across: Callable[..., tuple[Tensor, ...]]
    after: Callable[..., Tensor]


def unchanged(*rows: Tensor) -> tuple[Tensor, ...]:
    """Return the given rows; serves in `Halves` for a step in which a layer has nothing to do."""
    return rows


class Conv(nn.Module, ABC):
    """A convolution: one layer of a network, and the base class of all such layers.

    Parameters:
        d_in, d_out: Number of columns of the input, and of the output.
        last: Whether this is the last layer of the network.
        d_target: Number of columns of the targets' rows, if targets and neighbours have different
            vertex types; None if they have the same type. If `d_target` is given, `forward` gets
            the neighbours' rows, of width `d_in`, as its argument `fixed`. As x, it gets the
            product of the targets' rows and `target_map` or, if `target_map` is None, the targets'
            rows themselves. The caller adds the product of the targets' rows and `own_map` to the
            output.
        random: Generator of the initial weights, or its seed. Weights are drawn in float64, so that
            the initial weights are the same on all ranks and for all dtypes. By default the seed is
            drawn from torch's generator. The state of torch's generator must be the same on all
            ranks: do not call `torch.manual_seed` with different seeds.
        dtype (torch.dtype, optional): Type of the weights; by default torch's default type.
        choices: Values for fields of `Options`, by name of the field; strings are converted.

    Raises:
        InputError: If an option does not exist, has an unknown value, or does not fit the widths.

    Attributes:
        Options: Class of the model's options: a dataclass derived from `ConvOptions`. It also lists
            the steps of a layer.
        whole_rows: Whether a rank must have all nonzeros of its rows; the layer then does not
            support edge plans.
        by_relation: Whether the layer needs a graph with types (`nn.relations`).
        rectifies: Whether `forward` has the parameters `rectified` and `onto`: it can apply the
            activation relu, and add the output to other rows. This saves memory traffic.
        draws: Whether the layer draws random numbers in training. If so, the methods `forward` and
            `halves` have a parameter `key`, the key of these numbers.
        takes_bfloat16: Whether x may be of bfloat16 while the parameters are of float32.
        reads_values: Whether the layer reads the plan's values of A, not only the positions of the
            nonzeros.
        reads_edges: Whether the layer reads `graph.edge_features`.
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
        """Return the names of the model's options."""
        return [each.name for each in fields(cls.Options)]

    @abstractmethod
    def _make(self, random: np.random.Generator) -> None:
        """Create the layer's weights, in float64."""

    @abstractmethod
    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return the fixed part of the layer, which depends on x and the graph, but on no weights.

        The fixed part has no gradient. Collective.
        """

    @abstractmethod
    def forward(
        self, graph: LayerGraph, x: Tensor, fixed: Tensor | None = None, rectified: bool = False
    ) -> Tensor:
        """Return the output rows. If `fixed` is given, no rows are sent, and x gets no gradient.

        Collective. Classes whose attribute `draws` is true have a further parameter `key`, a uint64
        that must be different for every layer and for every update. Classes whose attribute
        `rectifies` is true have a further parameter `onto` (Tensor[num_outputs, d_out] or None):
        rows to which the output is added in place. With `onto`, `fixed` must be given, and the
        backward pass of an earlier operation must not need the rows of `onto`.

        Parameters:
            x (Tensor[num_inputs, d_in]): Input rows.
            fixed: Result of ``self.fixed(graph, x)``, the part of the layer that depends on no
                weights; None if it must be computed.
            rectified: Whether to return max(output, 0); requires `rectifies`.

        Returns:
            Tensor[num_outputs, d_out]
        """

    @property
    def own_map(self) -> Tensor | None:
        """The weight matrix that multiplies a vertex's own row: Tensor[width of the row, d_out].

        None if the layer has no such matrix.
        """
        return None

    @property
    def target_map(self) -> Tensor | None:
        """Matrix, Tensor[d_target, m], that a caller must multiply the targets' rows by, or None.

        Only layers that were made with the argument `d_target` use it. The argument x of `forward`
        then holds the product of the targets' rows and this matrix or, if there is no matrix, the
        targets' rows themselves.
        """
        return None

    def halves(self, graph: LocalGraph, fixed: bool, first: bool) -> Halves:
        """Return the layer as three functions: `before`, `across` and `after` (`Halves`).

        `nn.recompute` calls these functions to compute rows again. Not collective.

        Parameters:
            fixed: Whether `before` gets the result of the method `fixed` instead of x. If so,
                `across` moves no rows. If the layer's `reads_input` is true, `before` also gets the
                rows of x that belong to output vertices.
            first: Whether this is the first layer, whose input needs no gradient.

        Raises:
            InputError: If layers of this class cannot be split into such functions.
        """
        raise InputError(f"`recompute`: not supported by {type(self).__name__}; omit the option")

    def both_ways(self, first: bool, fixed: bool = False) -> BothWays:
        """Return the layer's steps forward and backward. See `ConvOptions.both_ways`."""
        return self.options.both_ways((self.d_in, self.d_out), self.last, first, fixed)

    @property
    def fixed_rows(self) -> str:
        """Which rows `fixed` returns: "inputs", "outputs", or "columns" (own and halo rows)."""
        at_hand = [each for each in self.both_ways(True, fixed=True).forward if each.at_hand]
        if not at_hand:
            return "inputs"
        return "columns" if isinstance(at_hand[-1], GatherNeighbours) else "outputs"

    @property
    def fixes_product(self) -> bool:
        """Whether the method `fixed` computes a product with the matrix A."""
        steps = self.both_ways(True, fixed=True).forward
        return any(each.at_hand and isinstance(each, Aggregate) for each in steps)

    @property
    def reads_input(self) -> bool:
        """Whether the layer reads x even if `fixed` is given."""
        steps = self.both_ways(True, fixed=True).forward
        return any(isinstance(each, OwnLinear) for each in steps)

    def extra_repr(self) -> str:
        """Return the widths and the options as a string, for `print`."""
        names = sorted(self.option_names())
        used = ", ".join(f"{name}={getattr(self.options, name)!r}" for name in names)
        return f"{self.d_in}, {self.d_out}, {used}"

    @property
    def _is_pyg(self) -> bool:
        return self.options.parametrization == "pyg"

    def _new_bias(self, values: Tensor | None = None) -> nn.Parameter | None:
        """Return a bias with the given values, by default zeros; None if the layer has no bias."""
        if values is None:
            values = torch.zeros(self.d_out, dtype=torch.float64)
        return nn.Parameter(values) if self.options.has_bias else None

    def _new_linear(
        self, random: np.random.Generator, d_in: int, d_out: int | None = None
    ) -> tuple[nn.Parameter, nn.Parameter | None]:
        """Return the weight of a new linear map, and its bias or None.

        With `parametrization` "pyg", the numbers are drawn as in torch.nn.Linear. Otherwise the
        weight is a Glorot matrix, and the bias is 0.
        """
        d_out = d_out or self.d_out
        if not self._is_pyg:
            zeros = torch.zeros(d_out, dtype=torch.float64)
            return nn.Parameter(glorot(random, d_in, d_out)), self._new_bias(zeros)
        weight = uniform(random, (d_in, d_out), fan_in=d_in)
        bias = self._new_bias(uniform(random, (d_out,), fan_in=d_in))
        return nn.Parameter(weight), bias


def glorot(random: np.random.Generator, d_in: int, d_out: int) -> Tensor:
    """Return a Glorot matrix: uniform numbers, float64[d_in, d_out] (Glorot and Bengio 2010)."""
    return torch.from_numpy(random.uniform(-1, 1, (d_in, d_out)) * np.sqrt(6 / (d_in + d_out)))


def uniform(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Tensor:
    """Return float64[shape] drawn as by torch.nn.Linear (Kaiming uniform, He et al. 2015)."""
    return torch.from_numpy(random.uniform(-1, 1, shape) / np.sqrt(fan_in))


class LinearAggregation:
    """Computes the product A H W in the order that `order` names, such as A (H W)."""

    def __init__(self, order: str, d_in: int, d_out: int, coefficients: str) -> None:
        self._may_project = order in ("auto", "project-first") and d_out <= d_in
        if order == "auto":
            order = "project-first" if d_out < d_in else "aggregate-first"
        self._order, self._coefficients = order, coefficients

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return A x, without gradient: Tensor[num_outputs, d_in]. Collective."""
        with torch.no_grad():
            return graph.product(x, self._coefficients)

    def projects_first(self, first: bool) -> bool:
        """Whether `nn.recompute` should multiply rows by W before the rows are sent.

        With order "auto" and d_out = d_in, the result is False for the first layer. The input of
        this layer needs no gradient, but rows multiplied by W would need an exchange in the
        backward pass.
        """
        return self._order == "project-first" or (self._may_project and not first)

    def product(self, graph: LayerGraph, rows: Tensor) -> Tensor:
        """Return the product of A and `rows`. Collective."""
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
        """Return A x weight + bias: Tensor[num_outputs, d_out]. Collective.

        `fixed` is A x, or None if A x must be computed. If `rectified`, the result is
        max(A x weight + bias, 0). For `onto` see `Conv.forward`.
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
    """A convolution that exchanges rows for one product A H W, and for nothing else."""

    Options = ProductOptions
    _aggregate: LinearAggregation

    def _aggregate_with(self, coefficients: str, width: int | None = None) -> None:
        """Create the layer's `LinearAggregation`, whose W has `width` columns (None: d_out)."""
        order, width = self.options.order, width or self.d_out
        self._aggregate = LinearAggregation(order, self.d_in, width, coefficients)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return A x: Tensor[num_outputs, d_in]."""
        return self._aggregate.fixed(graph, x)


class _PaperProduct(torch.autograd.Function):
    """Computes (A H) W with the backward pass of Demirci et al. 2022 (Equations 3 and 4).

    Let G be the result's gradient. Rows of G are exchanged even if H needs no gradient, since the
    gradient of W is H^T (A^T G).
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
