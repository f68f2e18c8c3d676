"""Dense operations of layers whose results live in the workspace.

They are torch's own; only where their results are stored differs (`plancc_runtime.workspace`), and
in which order operands stand where that matters: with 80,000 rows, x^T g of 128 x 8 takes six times
as long as (g^T x)^T, and x w of 128 x 8 nearly twice as long as with w stored by columns.
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
"""Most numbers in a block of rows, which stays in the cache from one operation to the next."""


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    rectified: bool = False,
    onto: Tensor | None = None,
) -> Tensor:
    """x weight + bias, and max(., 0) of it if `rectified`, in one pass over x and the result.

    Shapes: Tensor[m, d_in], Tensor[d_in, d_out] and Tensor[d_out] to Tensor[m, d_out]. With `onto`,
    Tensor[m, d_out], it is added to that, and takes its place: no operation before may have kept
    it.

    The result has the type of x. Where that is bfloat16 and the weight's float32, the weight is
    rounded for the product, whose sums are of float32 and rounded last; its own gradient is never
    rounded.
    """
    if x.dtype != weight.dtype:
        product = _Rounded.apply(x, weight)
        return finished(product if onto is None else onto.add_(product), bias, rectified)
    return _DenseLinear.apply(x, weight, bias, rectified, onto)


def fork(x: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Give x to an operation, and x or some distinct rows of it to another.

    The gradient of the one is added to that of the other in place, so that no other may keep them.
    autograd itself adds them in new memory.
    """
    if x.requires_grad:
        return _Fork.apply(x, rows)
    return x, x if rows is None else x.index_select(0, rows)


def finished(x: Tensor, bias: Tensor | None = None, rectified: bool = False) -> Tensor:
    """x + bias, and max(., 0) of it if `rectified`, of the type of x: Tensor[m, width].

    It takes the place of x, which no operation before may have kept.
    """
    return x if bias is None and not rectified else _Finished.apply(x, bias, rectified)


def relu(x: Tensor) -> Tensor:
    """max(x, 0), in place of x, which no operation before may have kept: Tensor[m, width]."""
    return finished(x, rectified=True)


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


def blocks_of(width: int, *tensors: Tensor, most: int = AT_ONCE) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of all, in blocks of at most `most` numbers; on a device, all together."""
    whole = tensors[0].device.type != "cpu"
    step = max(1, tensors[0].shape[0] if whole else most // max(1, width))
    return zip(*(each.split(step) for each in tensors), strict=True)


LEAST_WORK = 1 << 18
"""Multiplications from which on the compiled product is quicker."""
MOST_WEIGHTS = 640 * 1024
"""Numbers of a weight up to which it is quicker: torch packs larger ones, which leave the cache.
One thread, 4,000 rows of 1,024 columns: times 1024 x 512 41 ms, and torch 51; x 1024 163 and 99."""


def quicker_compiled(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None
) -> bool:
    """Whether `kernels.tall` is for x weight + bias and its gradients, and quicker than torch.

    It reads memory by these shapes unchecked; torch refuses operands that do not fit. `out`: what
    the product is added to, or was.

    One thread, 82,000 rows of 128 columns times 128 x 32: 8 ms, and torch 15; all gradients 20 and
    41 ms; times 128 x 128: 27 and 37, 65 and 138 ms. Without AVX-512 the last are no quicker.
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
        of_onto = g if out is None or not needs_onto else empty(g.shape[0], g.shape[1], g)
        if needs_weight and quicker_compiled(x, weight, out=out):
            from plancc_runtime.kernels import tall

            masked = None if of_onto is g else of_onto
            of_weight, of_bias = tall.backward(x, weight, g, out, back, masked)
        else:
            of_weight, of_bias = _gradients(ctx, g, back, of_onto)
        found = back, of_weight, of_bias, None, of_onto
        return tuple(
            each if needed else None
            for each, needed in zip(found, ctx.needs_input_grad, strict=True)
        )


def _gradients(ctx: Any, g: Tensor, back: Tensor | None, of_onto: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of weight and bias; writes gradients of x and of what it was added to."""
    x, weight, out = ctx.saved_tensors
    _, needs_weight, needs_bias, _, needs_onto = ctx.needs_input_grad
    turned = g.shape[1] <= x.shape[1]
    of_weight = x.new_zeros(weight.shape[::-1] if turned else weight.shape)
    of_bias = x.new_zeros(weight.shape[1])
    masked = None
    for some, of_x, of_out, room, into in blocks_of(
        max(weight.shape), g, x, g if out is None else out, of_onto, x if back is None else back
    ):
        if out is not None:
            if not needs_onto:
                masked = torch.empty_like(some) if masked is None else masked
                room = masked[: some.shape[0]]
            some = _masked(some, of_out, room)
        if needs_bias:
            of_bias += some.sum(0)
        if needs_weight and turned:
            torch.addmm(of_weight, some.T, of_x, out=of_weight)
        elif needs_weight:
            torch.addmm(of_weight, of_x.T, some, out=of_weight)
        if back is not None:
            torch.mm(some, weight.T, out=into)
    return of_weight.T.contiguous() if turned else of_weight, of_bias


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
    """x weight of bfloat16 rows and a float32 weight."""

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
        of_bias = None
        if ctx.needs_input_grad[1]:
            of_bias = g.new_zeros(g.shape[1], dtype=ctx.bias_type)
        for rows, of_out, into in blocks_of(g.shape[1], g, g if out is None else out, back):
            if out is not None:
                _masked(rows, of_out, into)
            if of_bias is not None:
                of_bias += into.sum(0, dtype=of_bias.dtype)
        return back, of_bias, None


def _masked(g: Tensor, out: Tensor, into: Tensor) -> Tensor:
    """g where out is positive, else 0."""
    return torch.ops.aten.threshold_backward.grad_input(g, out, 0, grad_input=into)
