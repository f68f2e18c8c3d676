"""Layer normalisation (Ba, Kiros and Hinton 2016) of rows, added to others in the same pass."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import layer_norm

from plancc.kernel import njit
from plancc_runtime.kernels.edges import even_bounds, in_chunks, scalar
from plancc_runtime.workspace import empty

SHARES = 32  # sums of the gradients of weight and bias, whatever the number of threads

_compiled = njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")


def normalised(x: Tensor, weight: Tensor, bias: Tensor, eps: float, onto: Tensor | None) -> Tensor:
    """weight (x - mean) / sqrt(variance + eps) + bias of every row, and `onto` added.

    Shapes: Tensor[m, d], Tensor[d], Tensor[d], Tensor[m, d] to Tensor[m, d], of float32 or float64.
    The memory of x is used again: no operation before may have kept it, and none after may read it.
    """
    if onto is None or x.device.type != "cpu":
        y = layer_norm(x, weight.shape, weight, bias, eps)
        return y if onto is None else y.add_(onto)
    return _Normalised.apply(x.contiguous(), weight, bias, eps, onto.contiguous())


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, onto: Tensor
    ) -> Tensor:
        out, scale = empty(len(x), x.shape[1], x), x.new_empty(len(x))
        given = x, weight, bias, scalar(eps, x), onto, out, scale
        in_chunks(_normalise, even_bounds(len(x), 1), x.numel(), *given)
        ctx.save_for_backward(x, scale, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, weight = ctx.saved_tensors
        g, back, sums = (
            g.contiguous(),
            empty(len(x), x.shape[1], x),
            x.new_zeros(2, SHARES, x.shape[1]),
        )
        bounds = even_bounds(SHARES, 1)
        in_chunks(_normalise_adjoint, bounds, x.numel(), x, weight, scale, g, back, sums)
        return back, *sums.sum(1), None, g


@_compiled
def _normalise(
    begin: int, end: int, x: Any, weight: Any, bias: Any, eps: Any, onto: Any, out: Any, scale: Any
) -> None:
    d = x.shape[1]
    for i in range(begin, end):
        row, y, others = x[i], out[i], onto[i]
        mean, square = 0 * eps, 0 * eps
        for k in range(d):
            mean += row[k]
        mean /= d
        for k in range(d):
            square += (row[k] - mean) * (row[k] - mean)
        scale[i] = 1 / math.sqrt(square / d + eps)
        by = scale[i]
        for k in range(d):
            row[k] = (row[k] - mean) * by
        for k in range(d):
            y[k] = row[k] * weight[k] + bias[k] + others[k]


@_compiled
def _normalise_adjoint(
    begin: int, end: int, x: Any, weight: Any, scale: Any, g: Any, out: Any, sums: Any
) -> None:
    rows, d = x.shape
    for share in range(begin, end):
        of_weight, of_bias = sums[0, share], sums[1, share]
        for i in range(rows * share // SHARES, rows * (share + 1) // SHARES):
            row, of_row, y, by = x[i], g[i], out[i], scale[i]
            mean, along = 0 * by, 0 * by
            for k in range(d):
                mean += of_row[k] * weight[k]
                along += of_row[k] * weight[k] * row[k]
            mean /= d
            along /= d
            for k in range(d):
                y[k] = by * (of_row[k] * weight[k] - mean - row[k] * along)
            for k in range(d):
                of_weight[k] += of_row[k] * row[k]
            for k in range(d):
                of_bias[k] += of_row[k]
