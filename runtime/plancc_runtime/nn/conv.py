"""Interface of convolutions.

A convolution maps the rows of a layer's input to the rows of its output:

    y = conv(graph, x)                     x: [num_inputs, d_in] -> y: [num_outputs, d_out]

`fixed(graph, x)` returns the *fixed part* of the layer: what the layer computes up to the end of
its exchanges, from graph and x alone, without weights. If x never changes, as in the first layer,
the fixed part is computed once and passed to every call: `conv(graph, x, fixed)`.
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
    """A layer, divided at its exchange. `before` and `after` handle every row independently.

    Attributes:
        before (callable of (Tensor[m, d], ...) to tuple of Tensor[m, ...]): Maps some rows of the
            input to the rows that travel and the rows that are kept for `after`.
        across (callable of (Tensor[num_inputs, ...], ...) to tuple of Tensor[num_outputs, ...]):
            Maps the results of `before` for all rows to the arguments of `after` for all rows.
            Collective.
        after (callable of (Tensor[m, ...], ...) to Tensor[m, d_out]): Maps some rows of the results
            of `across` to these rows of the output.
    """

    before: Callable[..., tuple[Tensor, ...]]
    across: Callable[..., tuple[Tensor, ...]]
    after: Callable[..., Tensor]


def unchanged(*rows: Tensor) -> tuple[Tensor, ...]:
    """Return the given rows: the half of a layer that does nothing."""
    return rows


class Conv(nn.Module, ABC):
    """One layer.

    Parameters:
        d_in, d_out: Width of input and output.
        last: Whether this is the last layer.
        d_target: Width of the targets' rows, if targets and neighbours have different vertex types;
            None if they have the same type. If `d_target` is given, `forward` gets the neighbours'
            rows, of width `d_in`, as `fixed`. It gets the targets' rows as x, multiplied by
            `target_map` unless that is None. The caller adds the product of the targets' rows and
            `own_map`.
        random: Generator of the initial weights, or its seed. Weights are drawn in float64, so that
            the initial weights are the same on all ranks and for all dtypes. By default the seed is
            drawn from torch's generator. Its state must be the same on all ranks: do not call
            `torch.manual_seed` with different seeds.
        dtype (torch.dtype, optional): Type of the weights; by default torch's default type.
        choices: Fields of `Options`, by name; values may be strings.

    Raises:
        InputError: If an option does not exist, has an unknown value, or does not fit the widths.

    Attributes:
        Options: Class of the model's options: a dataclass derived from `ConvOptions`. It also lists
            the steps of a layer.
        whole_rows: Whether a rank must have all nonzeros of its rows; the layer then does not
            support edge plans.
        by_relation: Whether the layer needs a graph with types (`nn.relations`).
        rectifies: Whether the layer itself can apply the activation relu, and add its output to
            other rows. The output is then read and written fewer times.
        draws: Whether the layer draws random numbers in training; `forward` and `halves` then have
            a parameter `key`.
        takes_bfloat16: Whether x may be of bfloat16 while the parameters are of float32.
        reads_values: Whether the layer reads the plan's values of A, beside its pattern.
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
        """Return the fixed part of the layer: what it computes from x and the graph alone.

        The result has no gradient. Collective.
        """

    @abstractmethod
    def forward(
        self, graph: LayerGraph, x: Tensor, fixed: Tensor | None = None, rectified: bool = False
    ) -> Tensor:
        """Return the output rows. If `fixed` is given, no rows are sent, and x gets no gradient.

        Collective. If `draws` is true, there is another parameter `key`: a uint64, which must be
        different in every layer and update.

        Parameters:
            x (Tensor[num_inputs, d_in]): Input rows.
            fixed: Result of the method `fixed` for the same graph and x.
            rectified: Whether to return max(output, 0); requires `rectifies`.
            onto (Tensor[num_outputs, d_out], optional): Rows to which the output is added in place.
                This requires `rectifies`, and that `fixed` is given. No earlier operation may have
                saved these rows for its backward pass.

        Returns:
            Tensor[num_outputs, d_out]
        """

    @property
    def own_map(self) -> Tensor | None:
        """Weight by which a row itself is multiplied, Tensor[d, d_out]; None if there is none."""
        return None

    @property
    def target_map(self) -> Tensor | None:
        """Matrix by which the caller multiplies x if there is a `d_target`: Tensor[d_target, m].

        None if `forward` needs x itself.
        """
        return None

    def halves(self, graph: LocalGraph, fixed: bool, first: bool) -> Halves:
        """Return the halves of the layer, with which `nn.recompute` computes rows again.

        Not collective.

        Parameters:
            fixed: Whether `before` gets the result of the method `fixed` instead of x. If
                `reads_input` is true, `before` gets x too. `across` then moves no rows.
            first: Whether this is the first layer, whose input needs no gradient.

        Raises:
            InputError: If this kind of layer cannot be divided.
        """
        raise InputError(f"`recompute`: {type(self).__name__} cannot compute single rows again")

    def both_ways(self, first: bool, fixed: bool = False) -> BothWays:
        """Return the steps of the layer in an epoch. See `ConvOptions.both_ways`."""
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
        """Whether a product with the matrix is part of what `fixed` computes."""
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
        """Return weight and bias of a linear map.

        With `parametrization` "pyg" they are drawn as in torch.nn.Linear; else the weight is a
        Glorot matrix, and the bias is 0.

        Parameters:
            d_out: Width of the result; by default the layer's `d_out`.
        """
        d_out = d_out or self.d_out
        if not self._is_pyg:
            zeros = torch.zeros(d_out, dtype=torch.float64)
            return nn.Parameter(glorot(random, d_in, d_out)), self._new_bias(zeros)
        weight = uniform(random, (d_in, d_out), fan_in=d_in)
        bias = self._new_bias(uniform(random, (d_out,), fan_in=d_in))
        return nn.Parameter(weight), bias


def glorot(random: np.random.Generator, d_in: int, d_out: int) -> Tensor:
    """Return a Glorot matrix, float64[d_in, d_out] (Glorot and Bengio 2010).

    Its numbers are drawn uniformly between -b and b, with b = sqrt(6 / (d_in + d_out)).
    """
    return torch.from_numpy(random.uniform(-1, 1, (d_in, d_out)) * np.sqrt(6 / (d_in + d_out)))


def uniform(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Tensor:
    """Return numbers drawn uniformly between -b and b, with b = 1 / sqrt(fan_in): float64[shape].

    torch.nn.Linear and the Linear of PyTorch Geometric draw weights and biases in this way (Kaiming
    uniform, He et al. 2015, with a = sqrt(5)).
    """
    return torch.from_numpy(random.uniform(-1, 1, shape) / np.sqrt(fan_in))


class LinearAggregation:
    """The product A H W in a chosen order.

    Parameters:
        order: Order of the products, as in `ProductOptions`.
        d_in, d_out: Shape of W.
        coefficients: Values of A: a name in `plancc.plan.layers.COEFFICIENTS`.
    """

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
        """Return whether `nn.recompute` should multiply rows by W before the rows are sent.

        Then the layer keeps only one sum for the backward pass. The result is false if more columns
        would be sent. With order "auto", the result is also false for the first layer: the input of
        the first layer needs no gradient, so rows are sent only in the forward pass.

        Parameters:
            first: Whether this is the first layer.
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

        Parameters:
            fixed: A x if it is known, else None.
            rectified: Whether to return max(result, 0).
            onto: See `Conv.forward`.
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
    """A convolution that exchanges rows only to compute one product A H W."""

    Options = ProductOptions
    _aggregate: LinearAggregation

    def _aggregate_with(self, coefficients: str, width: int | None = None) -> None:
        """Create the `LinearAggregation` of the layer.

        Parameters:
            coefficients: Values of A.
            width: Number of columns of W; by default d_out.
        """
        order, width = self.options.order, width or self.d_out
        self._aggregate = LinearAggregation(order, self.d_in, width, coefficients)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return A x: Tensor[num_outputs, d_in]."""
        return self._aggregate.fixed(graph, x)


class _PaperProduct(torch.autograd.Function):
    """(A H) W, with the backward pass of Demirci et al. 2022 (Equations 3 and 4).

    The backward pass computes S = A^T G, which has d_out columns. It exchanges G even if H needs no
    gradient, since the gradient of W is H^T S.
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
