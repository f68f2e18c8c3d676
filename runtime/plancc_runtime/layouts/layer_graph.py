"""The graph as layers see it, whatever the layout. Knows tensors only.

A layer's input and output are *held* somehow: most layouts give every rank whole rows. Those that
split columns as well (2D and 3D process grids) give it a slice ``first_column : first_column + m``
of the columns of its rows, and overrule what stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from plancc.plan.layers import LayerStep
from plancc.plan.words import Counts
from plancc_runtime.kernels.dense import finished, linear
from plancc_runtime.transport.base import Transport


class LayerGraph(ABC):
    """What every convolution may ask for. Methods that move rows are collective.

    Attributes
    ----------
    copies : int
        Ranks that compute the loss of every row: all sums over ranks are divided by it.
    cycle : int
        Epochs after which what a product moves repeats itself.
    transport : Transport
        Transport of all ranks, for sums over rows.
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
        """Rows of the output; by default those of the input."""
        return self.num_inputs

    @abstractmethod
    def product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        """A x, held as x is; its gradient is A^T g. Collective.

        `coefficients`: the values of A, a name in `plancc.plan.layers.COEFFICIENTS`.
        """

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

    def targets(self, x: Tensor) -> Tensor:
        """The rows of the input x that are rows of the output too: Tensor[num_outputs, ...]."""
        return x

    def linear(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, rectified: bool = False
    ) -> Tensor:
        """x weight + bias, of a whole weight and bias, held as x is. Collective.

        Here and below, max(., 0) of it if `rectified`.
        """
        return linear(x, weight, bias, rectified)

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
    def counts(self, step: LayerStep) -> Counts:
        """What this rank hands to the network for a layer's step, in a whole cycle: int64[1] each.

        Its columns are all of them, however they are held.
        """

    @abstractmethod
    def release_buffers(self) -> None:
        """Free what is kept for the next product; made again when it is needed."""
