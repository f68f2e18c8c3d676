"""The graph as layers see it, in every layout.

A layer's input and output are *held* somehow: most layouts give every rank whole rows. Those that
split columns as well (2D and 3D process grids) give it a slice ``first_column : first_column + m``
of the columns of its rows, and overrule what stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc.plan.layers import LayerStep
from plancc.plan.products import Program
from plancc.plan.words import Counts, Transfer, count, transfers
from plancc_runtime.kernels.dense import finished, fork, linear
from plancc_runtime.transport.base import Transport


class LayerGraph(ABC):
    """What every convolution may ask for. Methods that move rows are collective.

    Attributes:
        copies: Ranks that compute the loss of every row: all sums over ranks are divided by it.
        cycle: Epochs after which what a product moves repeats itself.
        transport: Transport of all ranks, for sums over rows.
    """

    copies: int = 1
    cycle: int = 1
    transport: Transport

    @property
    @abstractmethod
    def vertices(self) -> Tensor:
        """Vertex of every row of the input: int32[num_inputs]."""

    @property
    def num_inputs(self) -> int:
        """Rows of the input that this rank has."""
        return len(self.vertices)

    @property
    def num_outputs(self) -> int:
        """Rows of the output; by default the rows of the input."""
        return self.num_inputs

    @property
    def row_type(self) -> Tensor | int:
        """Number of the type of every row of the input: int64[num_inputs]; 0: there is one type."""
        return 0

    def product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        """A x, held as x is; its gradient is A^T g. Collective.

        `coefficients`: the values of A, a name in `plancc.plan.layers.COEFFICIENTS`.
        """
        return _Product.apply(x, self, coefficients)

    def transposed_product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        """A^T x, held as inputs are, of x held as outputs are; its gradient is A g. Collective."""
        return _Product.apply(x, self, coefficients, True)

    @abstractmethod
    def multiplied(self, x: Tensor, coefficients: str, back: bool = False) -> Tensor:
        """A x or, `back`, A^T x, outside of autograd. Collective."""

    def is_finite(self) -> bool:
        """Whether the values of A on this rank are finite, as far as it keeps them."""
        return True

    @abstractmethod
    def degree(self, nonzeros: str) -> Tensor:
        """Nonzeros of every row of the output: int64[num_outputs]."""

    @property
    def folds(self) -> bool:
        """Whether nonzeros of a row may be with several ranks."""
        return False

    @property
    def places(self) -> Tensor | None:
        """Place of every output among the inputs, int64[num_outputs]; None: the same number."""
        return None

    def targets(self, x: Tensor) -> Tensor:
        """The rows of the input x that are rows of the output too: Tensor[num_outputs, ...]."""
        return x if self.places is None else x.index_select(0, self.places)

    def fork(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Give x to an operation, and `targets` of x to another, by `kernels.dense.fork`."""
        x, own = fork(x, self.places)
        return x, own if self.places is not None else self.targets(own)

    def linear(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        rectified: bool = False,
        onto: Tensor | None = None,
    ) -> Tensor:
        """x weight + bias, of a whole weight and bias, held as x is. Collective.

        Here and below, max(., 0) of it if `rectified`. It is added to `onto`, if that is given, and
        takes its place: no operation before may have kept it.
        """
        return linear(x, weight, bias, rectified, onto)

    def finished(self, z: Tensor, bias: Tensor | None, rectified: bool = False) -> Tensor:
        """z + bias, in place of z, which no operation before may have kept; not collective."""
        return finished(z, None if bias is None else self.own_columns(bias), rectified)

    def product_linear(
        self,
        x: Tensor,
        weight: Tensor,
        coefficients: str = "plan",
        bias: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        """(A x) weight + bias, held as x is. Collective."""
        return self.linear(self.product(x, coefficients), weight, bias, rectified)

    def linear_product(
        self,
        x: Tensor,
        weight: Tensor,
        coefficients: str = "plan",
        bias: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        """A (x weight) + bias, held as x is. Collective."""
        z = self.product(self.linear(x, weight), coefficients)
        return self.finished(z, bias, rectified)

    def own_columns(self, vector: Tensor) -> Tensor:
        """The columns that this rank has of a vector over all of them, such as a bias."""
        return vector

    def first_column(self, width: int) -> int:
        """The first of the columns that this rank has of a matrix of this width."""
        return 0

    def whole_rows(self, x: Tensor, width: int) -> Tensor:
        """All columns of x, which is `width` wide: Tensor[rows, width]. Collective.

        What is computed of them is computed by `copies` ranks alike.
        """
        return x

    @abstractmethod
    def program(self, step: LayerStep) -> Program:
        """The program of a layer's step, as far as it moves anything, in the step's direction."""

    @abstractmethod
    def moved(self, step: LayerStep) -> Mapping[str, Sequence[Transfer]]:
        """What the names in `program` move in a whole cycle, forward; ranks are of `transport`.

        The step's columns are all of them, however they are held. Messages may be of this rank
        alone.
        """

    def counts(self, step: LayerStep) -> Counts:
        """What this rank hands to the network for a layer's step, in a whole cycle: int64[1] each.

        Known once a product was made with these coefficients.
        """
        program, transport = self.program(step), self.transport
        if not program:
            return Counts.zero(1)
        found = count(transfers(program, self.moved(step)), transport.size)
        return found.of_rank(transport.rank)

    @abstractmethod
    def release_buffers(self) -> None:
        """Free what is kept for the next product; made again when it is needed."""


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, graph: LayerGraph, coefficients: str, back: bool = False
    ) -> Tensor:
        ctx.graph, ctx.coefficients, ctx.back = graph, coefficients, back
        return graph.multiplied(x, coefficients, back)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        # asked for even if x needs no gradient: then autograd does not call this at all
        return ctx.graph.multiplied(g, ctx.coefficients, not ctx.back), None, None, None
