"""Losses over the labelled vertices of a split.

Every rank computes its share of the mean loss; the shares of all ranks add up to the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from plancc_runtime.kernels.dense import blocks_of
from plancc_runtime.workspace import empty

OF_NUMBERS: dict[str, Callable[..., Tensor]] = {
    "mse": functional.mse_loss,
    "mae": functional.l1_loss,
    "huber": functional.huber_loss,
}
"""Losses for regression: squared error, absolute error, Huber loss with delta 1 (Huber 1964)."""


def cross_entropy(
    outputs: Tensor, labels: Tensor, total: float, weights: Tensor | None = None
) -> Tensor:
    """Return this rank's share of the mean softmax cross-entropy; the shares add up to the mean.

    Parameters:
        outputs (Tensor[m, classes]): Outputs of the split's vertices on this rank.
        total: Number, or sum of weights, of the split's vertices on all ranks.
        weights (Tensor[classes], optional): For each class, the weight of its vertices.
    """
    if outputs.requires_grad:
        return _CrossEntropy.apply(outputs, labels, total, weights)
    return functional.cross_entropy(outputs, labels, weights, reduction="sum") / total


def binary_cross_entropy(
    outputs: Tensor, labels: Tensor, total: float, weights: Tensor | None = None
) -> Tensor:
    """Return this rank's share of the mean sigmoid cross-entropy over vertices and classes.

    Parameters:
        outputs (Tensor[m, classes]): Outputs of the split's vertices on this rank.
        labels (bool[m, classes]): Whether each vertex has each class.
        total: Number of the split's vertices on all ranks.
        weights (Tensor[classes], optional): Weight of a vertex that has the class; otherwise 1.
    """
    summed = functional.binary_cross_entropy_with_logits(
        outputs, labels.to(outputs.dtype), reduction="sum", pos_weight=weights
    )
    return summed / (total * outputs.shape[1])


def loss_of_numbers(outputs: Tensor, numbers: Tensor, total: float, name: str) -> Tensor:
    """Return this rank's share of the mean regression loss `name` over `total` vertices."""
    summed = OF_NUMBERS[name](outputs, numbers.to(outputs.dtype), reduction="sum")
    return summed / (total * outputs.shape[1])


class _CrossEntropy(torch.autograd.Function):
    """Sum of -log softmax at the labels, divided by `total`. Forward also computes the gradient."""

    @staticmethod
    def forward(
        ctx: Any, outputs: Tensor, labels: Tensor, total: float, weights: Tensor | None
    ) -> Tensor:
        summed = outputs.new_zeros((), dtype=torch.float64)
        gradient = empty(outputs.shape[0], outputs.shape[1], outputs)
        for rows, block, classes in blocks_of(outputs.shape[1], outputs, gradient, labels):
            label = classes.unsqueeze(1)
            _log_softmax(rows, block)
            at_labels = block.gather(1, label)
            block.exp_().scatter_add_(1, label, block.new_full((), -1).expand_as(label))
            if weights is not None:
                own = weights[label]
                at_labels, block = at_labels * own, block.mul_(own)
            summed -= at_labels.sum(dtype=torch.float64)
            block /= total
        ctx.save_for_backward(gradient)
        return (summed / total).to(outputs.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        return ctx.saved_tensors[0] * g, None, None, None


def _log_softmax(x: Tensor, out: Tensor) -> None:
    """Compute out = log_softmax of the rows of x; for speed, an x of few columns is transposed."""
    whole = len(x) // 16 * 16 if x.shape[1] < 16 and x.device.type == "cpu" else 0
    if whole:
        out[:whole] = torch.log_softmax(x[:whole].T.contiguous(), 0).T
    torch.log_softmax(x[whole:], 1, out=out[whole:])
