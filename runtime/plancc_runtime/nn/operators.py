"""Differentiable aggregation and attention on one rank's pattern.

Dense operands are float32 or float64, with the rows [own rows | halo rows]; the caller exchanges
halo rows and their gradients. Sums have derivatives of every order, attention only first
derivatives. No result depends on the number of threads.

Sources: Md et al. 2021, Section 2.1 (aggregation primitive) and Algorithm 1; Velickovic et al.,
*Graph Attention Networks*, ICLR 2018, Equations 1 to 4 (attention).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from plancc.errors import InputError
from plancc.registry import check_choice
from plancc_runtime.kernels import edges
from plancc_runtime.kernels.dense import weight_gradient
from plancc_runtime.kernels.edges import Pattern

NEGATIVE_SLOPE = 0.2  # slope of GAT's LeakyReLU below 0 (Velickovic et al., Section 2.1)
REDUCTIONS = ("sum", "mean", "max")


def aggregate(
    pattern: Pattern, x: Tensor, weight: Tensor | None = None, reduce: str = "sum"
) -> Tensor:
    """Return out[i] = the reduction of x[j], or of weight[e] x[j], over the nonzeros e = (i, j).

    Rows without nonzeros become 0. The gradient of a maximum is added to the first nonzero, in CSR
    order, that attains the maximum.

    Parameters:
        x (Tensor[n, d]): A row for each column of the pattern.
        weight (Tensor[nnz] or Tensor[nnz, d], optional): Weights in CSR order; None for a maximum.
        reduce: Name in `REDUCTIONS`.
    """
    check_choice("reduction", reduce, REDUCTIONS)
    check_operand("x", x, (pattern.num_columns, None), x)
    if reduce == "max" and weight is not None:
        raise InputError("reduction 'max' does not support `weight`; leave `weight` out")
    if reduce == "max" and pattern.num_nonzeros:
        return _maximum(pattern, x)
    total = _neighbour_sum(pattern, x) if weight is None else _weighted(pattern, weight, x)
    if reduce == "mean":
        total = total / pattern.degree.clamp(min=1).unsqueeze(1).to(total.dtype)
    return total


def edge_scores(pattern: Pattern, source: Tensor, target: Tensor) -> Tensor:
    """Return source[j] + target[i] for every nonzero (i, j): GAT's scores before the LeakyReLU.

    `source` is Tensor[n, heads], `target` is Tensor[m, heads]; the result is in CSR order.
    """
    check_operand("source", source, (pattern.num_columns, None), source)
    check_operand("target", target, (pattern.num_rows, source.shape[1]), source)
    return _EdgeScores.apply(source, target, pattern)


def edge_softmax(pattern: Pattern, scores: Tensor) -> Tensor:
    """Return the softmax of the scores over the nonzeros of each row (GAT, Equation 3).

    Scores and result are Tensor[nnz, heads], in CSR order.
    """
    check_operand("scores", scores, (pattern.num_nonzeros, None), scores)
    return _Softmax.apply(scores, pattern)


def weighted_sum(pattern: Pattern, alpha: Tensor, x: Tensor) -> Tensor:
    """Return out[i, h] = sum over the nonzeros e = (i, j) of alpha[e, h] x[j, h] (GAT, Equation 4).

    `alpha` is Tensor[nnz, heads] in CSR order, and x is Tensor[n, heads, d].
    """
    check_operand("x", x, (pattern.num_columns, None, None), x)
    check_operand("alpha", alpha, (pattern.num_nonzeros, x.shape[1]), x)
    return _WeightedSum.apply(alpha.contiguous(), x.contiguous(), pattern, False)


def attention(
    pattern: Pattern,
    source: Tensor,
    target: Tensor,
    x: Tensor,
    negative_slope: float = 0.2,
    scale: Tensor | None = None,
) -> Tensor:
    """Return out[i, h] = sum over the nonzeros e = (i, j) of alpha[e, h] scale[e, h] x[j, h].

    alpha is GAT's attention (Equation 3): `edge_softmax` of LeakyReLU(source[j] + target[i]). Rows
    without nonzeros become 0.

    Parameters:
        source (Tensor[n, heads]): For every column j, the score a_source . W h_j.
        target (Tensor[m, heads]): For every row i, the score a_target . W h_i.
        x (Tensor[n, heads, d]): For every column j, the row W h_j.
        scale (Tensor[nnz, heads], optional): Dropout mask in CSR order, without gradient.
    """
    if not negative_slope >= 0:
        raise InputError(f"negative_slope {negative_slope}: at least 0 is needed")
    check_operand("x", x, (pattern.num_columns, None, None), x)
    heads = x.shape[1]
    check_operand("source", source, (pattern.num_columns, heads), x)
    check_operand("target", target, (pattern.num_rows, heads), x)
    if scale is not None:
        check_operand("scale", scale, (pattern.num_nonzeros, heads), x)
    scores = edge_scores(pattern, source, target)
    alpha = edge_softmax(pattern, torch.nn.functional.leaky_relu(scores, negative_slope))
    return weighted_sum(pattern, alpha if scale is None else alpha * scale, x)


def graph_attention(
    pattern: Pattern,
    x: Tensor,
    vectors: Tensor,
    places: Tensor | None = None,
    bias: Tensor | None = None,
    mean: bool = False,
    scale: Tensor | None = None,
    target: Tensor | None = None,
) -> Tensor:
    """Return the result of `attention` plus a bias: Tensor[m, heads d], or Tensor[m, d] if `mean`.

    The source score of column j is <x[j], vectors[0]>, the target score of row i <x[places[i]],
    vectors[1]>. The caller may change the result in place.

    Parameters:
        x (Tensor[n, heads d]): Rows of all columns, with the heads side by side.
        vectors: Tensor[2, heads, d], or Tensor[1, heads, d] if `target` is given.
        places (int64[m], optional): Column of every row's vertex; by default column i.
        target (Tensor[m, heads], optional): Target scores, if columns lack the rows' vertices.
    """
    heads, d = vectors.shape[1:]
    check_operand("x", x, (pattern.num_columns, heads * d), x)
    check_operand("vectors", vectors, (2 if target is None else 1, heads, d), x)
    if scale is not None:
        check_operand("scale", scale, (pattern.num_nonzeros, heads), x)
    with torch.no_grad():
        scores = x.contiguous() @ _head_matrix(vectors)
        if target is None:
            own = scores[: pattern.num_rows] if places is None else scores.index_select(0, places)
        else:
            check_operand("target", target, (pattern.num_rows, heads), x)
        targets = own[:, heads:] if target is None else target
        prepared = _factors(pattern, scores[:, :heads], targets)
    if prepared is not None:
        scale = None if scale is None else scale.detach().contiguous()
        how = _How(pattern, places, mean, scale, prepared)
        return _GraphAttention.apply(x, vectors, bias, target, how)
    rows = x.unflatten(1, (heads, d))
    if target is None:
        own = rows[: pattern.num_rows] if places is None else rows.index_select(0, places)
        target = (own * vectors[1]).sum(dim=2)
    source = (rows * vectors[0]).sum(dim=2)
    out = attention(pattern, source, target, rows, NEGATIVE_SLOPE, scale)
    out = out.mean(dim=1) if mean else out.flatten(1)
    return out.clone() if bias is None else out + bias


def _factors(pattern: Pattern, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor] | None:
    if not pattern.rows.native:
        return None
    from plancc_runtime.kernels.attention import factors

    return factors(pattern, source, target, NEGATIVE_SLOPE)


def _head_matrix(vectors: Tensor) -> Tensor:
    """Return the matrix that maps a row to the scalar products of its heads with k vectors each.

    `vectors` is Tensor[k, heads, d]: k vectors for each head. The result is Tensor[heads d, k
    heads]; the first `heads` columns belong to the first vector of every head, and so on.
    """
    k, heads, d = vectors.shape
    number = torch.arange(heads, device=vectors.device)
    out = vectors.new_zeros(heads, d, k, heads)
    out[number, :, :, number] = vectors.permute(1, 2, 0)
    return out.view(heads * d, k * heads)


def check_operand(name: str, value: Tensor, shape: tuple[int | None, ...], like: Tensor) -> None:
    """Raise InputError unless an operand has this shape and the type of `like`.

    The kernels do not check shapes. None in `shape` allows every size above 0.
    """
    fits = value.dim() == len(shape) and all(
        have == want if want is not None else have > 0
        for have, want in zip(value.shape, shape, strict=True)
    )
    if not fits:
        want = ", ".join("any" if size is None else str(size) for size in shape)
        raise InputError(f"{name} of shape {list(value.shape)}: shape [{want}] is needed")
    if value.dtype not in (torch.float32, torch.float64) or value.dtype != like.dtype:
        need = like.dtype if like.dtype in (torch.float32, torch.float64) else "float32 or float64"
        raise InputError(f"{name} of type {value.dtype}: {need} is needed")


def _weighted(pattern: Pattern, weight: Tensor, x: Tensor) -> Tensor:
    weight = weight.unsqueeze(1) if weight.dim() == 1 else weight
    check_operand("weight", weight, (pattern.num_nonzeros, None), x)
    heads = weight.shape[1]
    if heads != 1:
        check_operand("weight", weight, (pattern.num_nonzeros, x.shape[1]), x)
    rows = x.unflatten(1, (heads, x.shape[1] // heads))
    return weighted_sum(pattern, weight, rows).flatten(1)


def _maximum(pattern: Pattern, x: Tensor) -> Tensor:
    """Return each row's maximum over its nonzeros. The first maximal nonzero gets the gradient."""
    with torch.no_grad():
        edge = edges.first_maximum(pattern, x.contiguous())
    return _Linear.apply(
        x,
        partial(edges.take, pattern, edge),
        lambda g: edges.take_adjoint(pattern, edge, g.contiguous()),
    )


def _neighbour_sum(pattern: Pattern, x: Tensor) -> Tensor:
    return _Linear.apply(
        x,
        partial(edges.neighbour_sum, pattern.rows),
        lambda g: edges.neighbour_sum(pattern.columns, g.contiguous()),
    )


class _Linear(Function):
    """A linear map as an autograd function. The caller gives the map and its adjoint."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, apply: Callable[[Tensor], Tensor], adjoint: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.maps = apply, adjoint
        return apply(x.contiguous())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return _Linear.apply(g, *reversed(ctx.maps)), None, None


class _WeightedSum(Function):
    """Weighted sum over the nonzeros of each row or, if `back` is true, of each column."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, x: Tensor, pattern: Pattern, back: bool) -> Tensor:
        ctx.pattern, ctx.back = pattern, back
        ctx.save_for_backward(alpha, x)
        return edges.weighted_sum(pattern.columns if back else pattern.rows, alpha, x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        alpha, x = ctx.saved_tensors
        g = g.contiguous()
        alpha_grad = x_grad = None
        if ctx.needs_input_grad[0]:
            alpha_grad = _EdgeDot.apply(*((x, g) if ctx.back else (g, x)), ctx.pattern)
        if ctx.needs_input_grad[1]:
            x_grad = _WeightedSum.apply(alpha, g, ctx.pattern, not ctx.back)
        return alpha_grad, x_grad, None, None


class _EdgeDot(Function):
    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(g, x)
        return edges.edge_dot(pattern, g, x)

    @staticmethod
    def backward(ctx: Any, s: Tensor) -> tuple[Tensor | None, ...]:
        (g, x), s = ctx.saved_tensors, s.contiguous()
        g_grad = _WeightedSum.apply(s, x, ctx.pattern, False)
        return g_grad, _WeightedSum.apply(s, g, ctx.pattern, True), None


class _EdgeScores(Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, target: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        index, row = pattern.rows.index, pattern.row
        return edges.rows_of(source, index).add_(edges.rows_of(target, row))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        g = g.contiguous()
        pattern = ctx.pattern
        return edges.edge_sum(pattern.columns, g), edges.edge_sum(pattern.rows, g), None


class _Softmax(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, pattern: Pattern) -> Tensor:
        alpha = edges.softmax(pattern, scores.contiguous())
        ctx.pattern = pattern
        ctx.save_for_backward(alpha)
        return alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return edges.softmax_adjoint(ctx.pattern, ctx.saved_tensors[0], g.contiguous()), None


class _How(NamedTuple):
    """Arguments of `graph_attention` that need no gradient."""

    pattern: Pattern
    places: Tensor | None
    mean: bool
    scale: Tensor | None
    prepared: tuple[Tensor, Tensor]


class _GraphAttention(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, vectors: Tensor, bias: Tensor | None, target: Tensor | None, how: _How
    ) -> Tensor:
        from plancc_runtime.kernels.attention import attention

        ctx.save_for_backward(vectors)
        ctx.how, ctx.biased, ctx.has_target = how, bias is not None, target is not None
        rows = x.contiguous()
        out, ctx.kept = attention(
            how.pattern, how.prepared, rows, NEGATIVE_SLOPE, how.scale, bias, how.mean
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        from plancc_runtime.kernels.attention import attention_adjoint

        (vectors,) = ctx.saved_tensors
        g, kept = g.contiguous(), ctx.kept
        k, heads, d = vectors.shape
        back, scores, target_grad = attention_adjoint(
            ctx.how.pattern, kept, g, vectors.reshape(k, heads * d), ctx.how.places
        )
        number = torch.arange(heads, device=g.device)
        crossed = weight_gradient(kept.x, scores[:, :k].flatten(1)).view(heads, d, k, heads)
        vectors_grad = crossed[number, :, :, number].permute(2, 0, 1)
        bias_grad = g.sum(0) if ctx.biased else None
        return back, vectors_grad, bias_grad, target_grad if ctx.has_target else None, None
