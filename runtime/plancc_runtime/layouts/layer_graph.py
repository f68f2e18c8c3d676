"""The interface of the graph that layers use, in every layout.

A rank holds whole rows or, in 2D and 3D process grids, a range of their columns, which begins at
`LayerGraph.first_column`.
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
    """The interface of the graph for convolutions. Methods that move rows are collective.

    Attributes:
        copies: Number of ranks that compute the loss of the same row. Sums over ranks must be
            divided by it.
        cycle: Number of epochs after which the messages of a product repeat.
        transport: Transport of all ranks, for sums over all rows.
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
        """Number of rows of the input on this rank."""
        return len(self.vertices)

    @property
    def num_outputs(self) -> int:
        """Number of rows of the output on this rank; by default `num_inputs`."""
        return self.num_inputs

    @property
    def row_type(self) -> Tensor | int:
        """For every input row, the index of its type, int64[num_inputs]; 0 if there is one type."""
        return 0

    def product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        """Return A x, divided among the ranks in the same way as x. Collective.

        `coefficients` names the values of A (`plancc.plan.layers.COEFFICIENTS`).
        """
        return _Product.apply(x, self, coefficients)

    def transposed_product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        """Return A^T x, divided among the ranks in the same way as a layer's input. Collective.

        x is divided like a layer's output.
        """
        return _Product.apply(x, self, coefficients, True)

    @abstractmethod
    def multiplied(self, x: Tensor, coefficients: str, back: bool = False) -> Tensor:
        """Return A x or, if `back`, A^T x, without autograd. Collective.

        `coefficients`: values of A, a name in `plancc.plan.layers.COEFFICIENTS`.
        """

    def is_finite(self) -> bool:
        """Return whether the values of A that this rank keeps are finite."""
        return True

    @abstractmethod
    def degree(self, nonzeros: str) -> Tensor:
        """Return the number of nonzeros of every row of the output: int64[num_outputs].

        `nonzeros` is a name in `layouts.block.NONZEROS`.
        """

    @property
    def folds(self) -> bool:
        """Whether several ranks may have nonzeros of one row."""
        return False

    @property
    def places(self) -> Tensor | None:
        """For every output, its position among the inputs: int64[num_outputs].

        None if outputs and inputs are the same rows.
        """
        return None

    def targets(self, x: Tensor) -> Tensor:
        """Return the rows of the input x that are also output rows: Tensor[num_outputs, ...]."""
        return x if self.places is None else x.index_select(0, self.places)

    def fork(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and ``targets(x)``, for two operations whose gradients are added in place."""
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
        """Return x @ weight + bias, divided among the ranks in the same way as x. Collective.

        If `rectified`, return max(result, 0). Weight and bias are whole, even if ranks hold only
        some columns of x. If `onto` is given, the product is added to it in place; then no earlier
        operation may have saved `onto` for its backward pass.
        """
        return linear(x, weight, bias, rectified, onto)

    def finished(self, z: Tensor, bias: Tensor | None, rectified: bool = False) -> Tensor:
        """Return z + bias or, if `rectified`, max(z + bias, 0), computed in place. Not collective.

        No earlier operation may have saved z for its backward pass.
        """
        return finished(z, None if bias is None else self.own_columns(bias), rectified)

    def product_linear(
        self,
        x: Tensor,
        weight: Tensor,
        coefficients: str = "plan",
        bias: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        """Return (A x) weight + bias, divided among the ranks in the same way as x. Collective."""
        return self.linear(self.product(x, coefficients), weight, bias, rectified)

    def linear_product(
        self,
        x: Tensor,
        weight: Tensor,
        coefficients: str = "plan",
        bias: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        """Return A (x weight) + bias, divided among the ranks in the same way as x. Collective."""
        z = self.product(self.linear(x, weight), coefficients)
        return self.finished(z, bias, rectified)

    def own_columns(self, vector: Tensor) -> Tensor:
        """Return this rank's entries of `vector`, such as a bias with an entry per column of H."""
        return vector

    def first_column(self, width: int) -> int:
        """Return the first column that this rank holds, in a matrix of `width` columns."""
        return 0

    def whole_rows(self, x: Tensor, width: int) -> Tensor:
        """Return all `width` columns of x: Tensor[rows, width]. Collective.

        If the attribute `copies` is c > 1, c ranks get the same rows, and compute the same results.
        """
        return x

    @abstractmethod
    def program(self, step: LayerStep) -> Program:
        """Return the program with which a layer's step sends rows, or () if it sends none.

        For a product in the backward pass, the result is the adjoint program.
        """

    @abstractmethod
    def moved(self, step: LayerStep) -> Mapping[str, Sequence[Transfer]]:
        """Return the transfers of every entry of ``program(step)``, by the name of the entry.

        The transfers have the direction of the forward pass, and cover `cycle` epochs. Ranks are
        numbered as in `transport`; messages of other ranks may be missing. `step.columns` counts
        the columns of all ranks.
        """

    def counts(self, step: LayerStep) -> Counts:
        """Return this rank's traffic in ``self.cycle`` epochs for one step of a layer.

        The arrays of the result have one entry. A product with the step's coefficients must have
        been computed before.
        """
        program, transport = self.program(step), self.transport
        if not program:
            return Counts.zero(1)
        found = count(transfers(program, self.moved(step)), transport.size)
        return found.of_rank(transport.rank)

    @abstractmethod
    def release_buffers(self) -> None:
        """Free the buffers that are kept for the next product; that product makes new buffers."""


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
        # The gradient of x is always computed: autograd calls this only if x needs a gradient.
        return ctx.graph.multiplied(g, ctx.coefficients, not ctx.back), None, None, None
