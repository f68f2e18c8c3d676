"""Dense operations of layers, like torch's but with results in memory of the workspace.

Operands get the quicker layout: x^T g of shape 128 x 8 takes six times as long as (g^T x)^T.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc_runtime.kernels.rows import add_rows
from plancc_runtime.workspace import empty

AT_ONCE = 1 << 20
"""Largest number of entries in a block of rows. Such a block stays in the cache between two
operations."""


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    rectified: bool = False,
    onto: Tensor | None = None,
) -> Tensor:
    """Return x @ weight + bias or, if `rectified`, max(x @ weight + bias, 0): Tensor[m, d_out].

    If `onto` is given, x @ weight is added to it in place; no earlier operation may have saved
    `onto` for its backward pass. For bfloat16 x, a float32 weight is rounded, but its gradient is
    not.
    """
    if x.dtype != weight.dtype:
        product = _Rounded.apply(x, weight)
        return finished(product if onto is None else onto.add_(product), bias, rectified)
    return _DenseLinear.apply(x, weight, bias, rectified, onto)


def fork(x: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return x for one operation, and x or its distinct rows `rows` for another operation.

    The backward pass adds the gradient of one result to that of the other in place, so no other
    code may keep these gradients.
    """
    if x.requires_grad:
        return _Fork.apply(x, rows)
    return x, x if rows is None else x.index_select(0, rows)


def finished(x: Tensor, bias: Tensor | None = None, rectified: bool = False) -> Tensor:
    """Return x + bias or, if `rectified`, max(x + bias, 0): Tensor[m, width], written to x.

    No earlier operation may have saved x for its backward pass.
    """
    return x if bias is None and not rectified else _Finished.apply(x, bias, rectified)


def relu(x: Tensor) -> Tensor:
    """Return max(x, 0): Tensor[m, width].

    x is overwritten. No earlier operation may have saved x for its backward pass.
    """
    return finished(x, rectified=True)


NARROW = 16
"""Largest number of columns at which a weight is multiplied more quickly if stored by columns."""


def laid_out_for(weight: Tensor) -> Tensor:
    """Return the same weight, stored in the layout in which the product x @ weight is quickest."""
    return weight.T.contiguous().T if weight.shape[1] <= NARROW else weight


ROWS = 16384
"""Number of bfloat16 rows that are converted to float32 at once."""


def weight_gradient(x: Tensor, g: Tensor) -> Tensor:
    """Return x^T g: Tensor[d_in, d_out], in float32 if x is bfloat16.

    Parameters:
        x: Tensor[m, d_in].
        g: Tensor[m, d_out].
    """
    if x.dtype == torch.bfloat16:
        total = x.new_zeros(x.shape[1], g.shape[1], dtype=torch.float32)
        wide_x, wide_g = (empty(min(len(x), ROWS), rows.shape[1], total) for rows in (x, g))
        for x_rows, g_rows in zip(x.split(ROWS), g.split(ROWS), strict=True):
            left, right = (w[: len(x_rows)] for w in (wide_x, wide_g))
            total.addmm_(left.copy_(x_rows).T, right.copy_(g_rows))
        return total
    return (g.T @ x).T.contiguous() if g.shape[1] <= x.shape[1] else x.T @ g


def blocks_of(width: int, *tensors: Tensor, most: int = AT_ONCE) -> Iterator[tuple[Tensor, ...]]:
    """Yield blocks of rows: for each block, views of the rows in every tensor.

    With `width` columns, a block has at most `most` entries. A GPU gets only one block, of all
    rows.
    """
    step = max(1, most // max(1, width))
    if tensors[0].device.type != "cpu" or len(tensors[0]) <= step:
        return iter([tensors])
    return zip(*(each.split(step) for each in tensors), strict=True)


LEAST_WORK = 1 << 18
"""Smallest number of multiplications at which the compiled product is quicker than torch."""
MOST_WEIGHTS = 640 * 1024
"""Largest number of weights at which the compiled product is quicker than torch.

Larger weights do not fit in the cache, and torch packs them. On one thread, with 4,000 rows of
1,024 columns: 1024 x 512 weights take 41 ms, with torch 51 ms; 1024 x 1024 weights take 163 ms,
with torch 99 ms."""


def quicker_compiled(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None
) -> bool:
    """Return whether `kernels.tall` can compute x @ weight + bias and is quicker than torch.

    False for shapes that do not fit: `kernels.tall` does not check them, but torch raises an error.
    """
    rows, (d_in, d_out) = len(x), weight.shape
    shapes = (rows, d_in), (d_in, d_out), (d_out,), (rows, d_out)
    return (
        rows * weight.numel() >= LEAST_WORK
        and weight.numel() <= MOST_WEIGHTS
        and all(
            each is None
            or (each.shape == shape and each.dtype == torch.float32 and each.device.type == "cpu")
            for each, shape in zip((x, weight, bias, out), shapes, strict=True)
        )
        and (out is None or out.is_contiguous())
    )


class _DenseLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        rectified: bool,
        onto: Tensor | None,
    ) -> Tensor:
        ctx.mark_dirty(*[] if onto is None else [onto])
        out = empty(x.shape[0], weight.shape[1], x) if onto is None else onto
        ctx.save_for_backward(x, weight, out if rectified else None)
        if quicker_compiled(x, weight, bias, onto):
            from plancc_runtime.kernels import tall

            tall.forward(x, weight, bias, out, onto is not None, rectified)
            return out
        laid_out = laid_out_for(weight)
        for some, into in blocks_of(max(weight.shape), x, out):
            if onto is not None:
                into.addmm_(some, laid_out)
                if bias is not None:
                    into.add_(bias)
            elif bias is None:
                torch.mm(some, laid_out, out=into)
            else:
                torch.addmm(bias, some, laid_out, out=into)
            if rectified:
                into.relu_()
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight, out = ctx.saved_tensors
        needs_x, needs_weight, _, _, needs_onto = ctx.needs_input_grad
        back = empty(x.shape[0], x.shape[1], g) if needs_x else None
        g_onto = g if out is None or not needs_onto else empty(g.shape[0], g.shape[1], g)
        if needs_weight and quicker_compiled(x, weight, out=out):
            from plancc_runtime.kernels import tall

            masked = None if g_onto is g else g_onto
            weight_grad, bias_grad = tall.backward(x, weight, g, out, back, masked)
        else:
            weight_grad, bias_grad = _gradients(ctx, g, back, g_onto)
        found = back, weight_grad, bias_grad, None, g_onto
        return tuple(
            each if needed else None
            for each, needed in zip(found, ctx.needs_input_grad, strict=True)
        )


def _gradients(ctx: Any, g: Tensor, back: Tensor | None, g_onto: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of weight and bias, for the gradient g of a dense layer's result.

    The gradient of the layer's input is written to `back`, unless this is None. If the layer adds
    its result to a tensor, the gradient of this tensor is written to `g_onto`.
    """
    x, weight, out = ctx.saved_tensors
    _, needs_weight, needs_bias, _, needs_onto = ctx.needs_input_grad
    turned = g.shape[1] <= x.shape[1]
    weight_grad = x.new_zeros(weight.shape[::-1] if turned else weight.shape)
    bias_grad = x.new_zeros(weight.shape[1])
    masked = None
    for some, x_rows, out_rows, room, into in blocks_of(
        max(weight.shape), g, x, g if out is None else out, g_onto, x if back is None else back
    ):
        if out is not None:
            if not needs_onto:
                masked = torch.empty_like(some) if masked is None else masked
                room = masked[: some.shape[0]]
            some = _masked(some, out_rows, room)
        if needs_bias:
            bias_grad += some.sum(0)
        if needs_weight and turned:
            torch.addmm(weight_grad, some.T, x_rows, out=weight_grad)
        elif needs_weight:
            torch.addmm(weight_grad, x_rows.T, some, out=weight_grad)
        if back is not None:
            torch.mm(some, weight.T, out=into)
    return weight_grad.T.contiguous() if turned else weight_grad, bias_grad


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.shape, ctx.rows = x.shape, rows
        return x.view_as(x), x.view_as(x) if rows is None else x.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> Any:
        if second is None:
            return first, None
        if ctx.rows is None:
            return second if first is None else second.add_(first), None
        first = second.new_zeros(ctx.shape) if first is None else first.contiguous()
        add_rows(first, ctx.rows, second.contiguous())
        return first, None


class _Rounded(torch.autograd.Function):
    """The product ``x @ weight`` of bfloat16 rows x and a float32 weight."""

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
        return back, weight_gradient(x, g) if ctx.needs_input_grad[1] else None


class _Finished(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, rectified: bool) -> Tensor:
        ctx.mark_dirty(x)
        ctx.bias_type = None if bias is None else bias.dtype
        added = None if bias is None else bias.to(x.dtype)
        for (rows,) in blocks_of(x.shape[1], x):
            if added is not None:
                rows.add_(added)
            if rectified:
                rows.relu_()
        ctx.save_for_backward(x if rectified else None)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        (out,) = ctx.saved_tensors
        back = g if out is None else empty(out.shape[0], out.shape[1], g)
        bias_grad = None
        if ctx.needs_input_grad[1]:
            bias_grad = g.new_zeros(g.shape[1], dtype=ctx.bias_type)
        for rows, out_rows, into in blocks_of(g.shape[1], g, g if out is None else out, back):
            if out is not None:
                _masked(rows, out_rows, into)
            if bias_grad is not None:
                bias_grad += into.sum(0, dtype=bias_grad.dtype)
        return back, bias_grad, None


def _masked(g: Tensor, out: Tensor, into: Tensor) -> Tensor:
    """Write g to `into` where `out` is positive, else 0, and return `into`."""
    return torch.ops.aten.threshold_backward.grad_input(g, out, 0, grad_input=into)
