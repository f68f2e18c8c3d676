"""Normalisation between layers: batch norm over the rows of all ranks, and layer norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from plancc_runtime.kernels.dense import blocks_of
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.transport.base import Transport

BLOCK = 1 << 17  # largest count of numbers in a temporary block of rows, so that it fits the cache


class BatchNorm(nn.Module):
    """Batch normalisation (Ioffe and Szegedy 2015) over the rows of all ranks.

    The result equals what `torch.nn.BatchNorm1d` computes on one process with all rows. A rank may
    have no rows. Several ranks may have the same row, if every row is on the same number of ranks.

    Parameters:
        width: Number of columns.
        eps: Number that is added to the variance.
        momentum: Weight of a new value in the running mean and variance, which evaluation uses.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, z: Tensor, graph: LayerGraph) -> Tensor:
        """Return normalised rows, Tensor[m, width]. Collective in training, not in evaluation."""
        if not self.training:
            scale = self.weight * torch.rsqrt(self.running_var + self.eps)
            return torch.addcmul(self.bias - self.running_mean * scale, z, scale)
        out, mean, variance, count = _Normalise.apply(
            z, self.weight, self.bias, self.eps, graph.transport
        )
        with torch.no_grad():
            count = count / graph.copies  # number of rows
            unbiased = variance * (count / (count - 1).clamp(min=1))
            self.running_mean.lerp_(mean.to(z.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(z.dtype), self.momentum)
        return out


class _Normalise(torch.autograd.Function):
    """Computes weight (z - mean) / sqrt(variance + eps) + bias.

    Squared deviations are summed after the mean is known. The difference "mean of squares - square
    of mean" would lose the digits of a small variance.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, weight: Tensor, bias: Tensor, eps: float, transport: Transport
    ) -> tuple[Tensor, ...]:
        sums = z.new_zeros(z.shape[1] + 1, dtype=torch.float64)
        for (rows,) in blocks_of(z.shape[1], z, most=BLOCK):
            sums[:-1] += rows.sum(0)
        sums[-1] = len(z)
        transport.allreduce_sum(sums)
        count = sums[-1].clone()
        mean = sums[:-1] / count.clamp(min=1)
        center = mean.to(z.dtype)
        variance = torch.zeros_like(mean)
        for (rows,) in blocks_of(z.shape[1], z, most=BLOCK):
            variance += (rows - center).square_().sum(0)
        transport.allreduce_sum(variance)
        variance /= count.clamp(min=1)
        root = torch.rsqrt(variance + eps).to(z.dtype)
        ctx.transport = transport
        ctx.save_for_backward(z, weight, center, root, count)
        ctx.mark_non_differentiable(mean, variance, count)
        scale = weight * root
        return torch.addcmul(bias - center * scale, z, scale), mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        z, weight, center, root, count = ctx.saved_tensors
        # Sums of g, and of g times the normalised rows.
        sums = z.new_zeros(2, z.shape[1], dtype=torch.float64)
        for rows, g_rows in blocks_of(z.shape[1], z, g, most=BLOCK):
            sums[0] += g_rows.sum(0)
            sums[1] += (rows - center).mul_(g_rows).sum(0)
        sums[1] *= root
        bias_grad, weight_grad = sums.to(z.dtype, copy=True)
        ctx.transport.allreduce_sum(sums)
        along, across = (sums / count.clamp(min=1)).to(z.dtype)
        scale = weight * root
        slope = -scale * root * across
        z_grad = torch.addcmul(-scale * along - slope * center, z, slope).addcmul_(g, scale)
        return z_grad, weight_grad, bias_grad, None, None


class LayerNorm(nn.LayerNorm):
    """Layer normalisation (Ba, Kiros and Hinton 2016), row by row."""

    def forward(self, input: Tensor, graph: LayerGraph | None = None) -> Tensor:
        """Return normalised rows, Tensor[m, width]. Not collective."""
        return super().forward(input)
