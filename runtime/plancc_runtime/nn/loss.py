"""Losses over the labelled vertices of a split, of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from plancc_runtime.kernels.dense import blocks_of
from plancc_runtime.workspace import empty


def share_of_loss(outputs: Tensor, labels: Tensor, num_global: int) -> Tensor:
    """This rank's share of the mean loss; its sum over all ranks is the mean.

    Parameters
    ----------
    outputs : Tensor[m, classes]
        Outputs for the split's vertices on this rank.
    labels : int64[m] or bool[m, classes]
        The class of every vertex, for softmax cross-entropy; or the set of its classes
        (multi-label), for sigmoid cross-entropy, which is a mean over classes too.
    num_global : int
        Number of the split's vertices on all ranks.
    """
    if labels.ndim == 1:
        if outputs.requires_grad:
            return _CrossEntropy.apply(outputs, labels, num_global)
        return functional.cross_entropy(outputs, labels, reduction="sum") / num_global
    total = functional.binary_cross_entropy_with_logits(
        outputs, labels.to(outputs.dtype), reduction="sum"
    )
    return total / (num_global * outputs.shape[1])


class _CrossEntropy(torch.autograd.Function):
    """The sum of -log softmax at the labels / num_global; its gradient is made in the same pass."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, labels: Tensor, num_global: int) -> Tensor:
        total = outputs.new_zeros((), dtype=torch.float64)
        gradient = empty(outputs.shape[0], outputs.shape[1], outputs)
        for rows in blocks_of(outputs, outputs.shape[1]):
            block, label = gradient[rows], labels[rows].unsqueeze(1)
            _log_softmax(outputs[rows], block)
            total -= block.gather(1, label).sum(dtype=torch.float64)
            block.exp_().scatter_add_(1, label, block.new_full((), -1).expand_as(label))
            block /= num_global
        ctx.save_for_backward(gradient)
        return (total / num_global).to(outputs.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        return ctx.saved_tensors[0] * g, None, None


def _log_softmax(x: Tensor, out: Tensor) -> None:
    """out = log_softmax of the rows of x; with few columns 16 rows at once, with the same bits."""
    whole = len(x) // 16 * 16 if x.shape[1] < 16 and x.device.type == "cpu" else 0
    if whole:
        out[:whole] = torch.log_softmax(x[:whole].T.contiguous(), 0).T
    torch.log_softmax(x[whole:], 1, out=out[whole:])
