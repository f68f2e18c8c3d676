"""Dense operations of layers whose results live in the workspace. Knows tensors only.

They are torch's own; only where their results are stored differs (`plancc_runtime.workspace`), and
in which order operands stand where that matters: with 80,000 rows, x^T g of 128 x 8 takes six times
as long as (g^T x)^T, and x w of 128 x 8 nearly twice as long as with w stored by columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc_runtime.workspace import empty


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x weight: Tensor[m, d_out] from Tensor[m, d_in] and Tensor[d_in, d_out].

    The result has the type of x. Where that is bfloat16 and the weight's float32, the weight is
    rounded for the product, whose sums are of float32 and rounded last; its own gradient is never
    rounded.
    """
    return _Linear.apply(x, weight)


def plus(x: Tensor, bias: Tensor) -> Tensor:
    """x + bias, of the type of x: Tensor[m, width] from Tensor[m, width] and Tensor[width].

    Where the types differ, it takes the place of x, which no operation before may have kept.
    """
    return x + bias if x.dtype == bias.dtype else _Plus.apply(x, bias)


def relu(x: Tensor) -> Tensor:
    """max(x, 0), in place of x, which no operation before may have kept: Tensor[m, width]."""
    return _Relu.apply(x)


NARROW = 16
"""Columns up to which w is better stored by columns."""


def laid_out_for(weight: Tensor) -> Tensor:
    """The same weight, stored as a product x weight is quickest."""
    return weight.T.contiguous().T if weight.shape[1] <= NARROW else weight


ROWS = 16384
"""Rows of bfloat16 that are widened at once."""


def weight_gradient(x: Tensor, g: Tensor) -> Tensor:
    """x^T g: Tensor[d_in, d_out] from Tensor[m, d_in] and Tensor[m, d_out]; float32 of bfloat16."""
    if x.dtype == torch.bfloat16:
        total = x.new_zeros(x.shape[1], g.shape[1], dtype=torch.float32)
        wide_x, wide_g = (empty(min(len(x), ROWS), rows.shape[1], total) for rows in (x, g))
        for of_x, of_g in zip(x.split(ROWS), g.split(ROWS), strict=True):
            left, right = (w[: len(of_x)] for w in (wide_x, wide_g))
            total.addmm_(left.copy_(of_x).T, right.copy_(of_g))
        return total
    return (g.T @ x).T.contiguous() if g.shape[1] <= x.shape[1] else x.T @ g


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        weight = laid_out_for(weight.to(x.dtype))
        return torch.mm(x, weight, out=empty(x.shape[0], weight.shape[1], x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        back = None
        if ctx.needs_input_grad[0]:
            back = torch.mm(g, weight.T.to(g.dtype), out=empty(x.shape[0], x.shape[1], g))
        if not ctx.needs_input_grad[1]:
            return back, None
        return back, weight_gradient(x, g)


class _Plus(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        ctx.dtype = bias.dtype
        ctx.mark_dirty(x)
        return x.add_(bias.to(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        return g, g.sum(0, dtype=ctx.dtype)


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        out = torch.relu_(x)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        (out,) = ctx.saved_tensors
        back = empty(out.shape[0], out.shape[1], g)
        return torch.ops.aten.threshold_backward.grad_input(g, out, 0, grad_input=back)
