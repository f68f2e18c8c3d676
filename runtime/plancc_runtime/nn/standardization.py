"""Standardisation of features: every column gets mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from plancc_runtime.kernels.dense import blocks_of
from plancc_runtime.nn.norm import BLOCK
from plancc_runtime.transport.base import Transport


class Standardization(nn.Module):
    """Standardises features before the first layer: maps every column x to (x - mean) * scale.

    Mean and variance are over all vertices, since many columns are constant among few training
    vertices. The variance has divisor n, as in scikit-learn's StandardScaler.

    Attributes:
        mean (Tensor[width]): Mean of every column, float64.
        scale (Tensor[width]): 1 / standard deviation of every column; 0 for a constant column.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(width, dtype=torch.float64))

    def fit(self, x: Tensor, transport: Transport, first_column: int = 0) -> None:
        """Set mean and scale from the rows of all ranks. Collective.

        x has this rank's columns of the rows, from column `first_column` on. Several ranks may have
        the same row if every row is on equally many ranks. Squared deviations are summed after the
        mean is known, to keep the digits of a small variance (Chan, Golub and LeVeque 1983).
        """
        width, own = len(self.mean), slice(first_column, first_column + x.shape[1])
        sums, bounds = np.zeros((2, width)), np.full((2, width), -np.inf)
        sums[1, own] = len(x)
        for (rows,) in blocks_of(x.shape[1], x, most=BLOCK):
            if len(rows):
                sums[0, own] += _numbers(rows.double().sum(0))
                extremes = np.stack([_numbers(rows.amax(0)), _numbers(-rows.amin(0))])
                bounds[:, own] = np.maximum(bounds[:, own], extremes)
        transport.allreduce_sum(sums)
        transport.allreduce_max(bounds)
        count = np.maximum(sums[1], 1)
        mean = sums[0] / count
        center, squares = torch.from_numpy(mean[own]).to(x.device), np.zeros(width)
        for (rows,) in blocks_of(x.shape[1], x, most=BLOCK):
            squares[own] += _numbers((rows.double() - center).square_().sum(0))
        transport.allreduce_sum(squares)
        deviation = np.sqrt(squares / count)
        # A column is constant if its extremes are equal; by rounding, its variance may not be 0.
        varies = (bounds[0] > -bounds[1]) & (deviation > 0)
        scale = np.divide(1, deviation, out=np.zeros(width), where=varies)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))

    def forward(self, x: Tensor, first_column: int = 0) -> Tensor:
        """Return standardised rows, computed in float64, in the type of x. Not collective."""
        own = slice(first_column, first_column + x.shape[1])
        mean, scale = self.mean[own].double(), self.scale[own].double()
        out = torch.empty_like(x)
        for rows, result in blocks_of(x.shape[1], x, out, most=BLOCK):
            result.copy_((rows.double() - mean).mul_(scale))
        return out


class StandardizationByType(nn.Module):
    """A separate `Standardization` for every vertex type."""

    def __init__(self, width: int, num_types: int) -> None:
        super().__init__()
        self.of_types: Sequence[Standardization] = nn.ModuleList(  # type: ignore[assignment]
            Standardization(width) for _ in range(num_types)
        )

    def fit(self, x: Tensor, transport: Transport, row_type: Tensor) -> None:
        """Set mean and scale of every type from its rows, given each row's type. Collective."""
        for k, each in enumerate(self.of_types):
            each.fit(x[row_type == k], transport)

    def forward(self, x: Tensor, row_type: Tensor) -> Tensor:
        """Return standardised rows: Tensor[m, d] in the type of x. Not collective."""
        out = torch.empty_like(x)
        for k, each in enumerate(self.of_types):
            out[row_type == k] = each(x[row_type == k])
        return out


def _numbers(x: Tensor) -> np.ndarray:
    return x.cpu().numpy()
