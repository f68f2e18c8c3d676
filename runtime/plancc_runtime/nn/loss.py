"""Softmax cross-entropy over the labelled training vertices of all ranks."""

from __future__ import annotations

import torch
from torch import Tensor


def cross_entropy(
    logits: Tensor, labels: Tensor, rows: Tensor, num_global: int
) -> tuple[float, Tensor]:
    """This rank's share of the mean loss, and its gradient (grad_{H^L} J of Equation 2).

    Parameters
    ----------
    logits : Tensor[num_rows, classes]
    labels : int64[num_rows]
    rows : int64[m]
        Local rows of labelled training vertices.
    num_global : int
        Number of labelled training vertices of all ranks; the mean is over these.

    Returns
    -------
    loss : float
        The sum over all ranks is the mean loss.
    gradient : Tensor[num_rows, classes]
        Zero on the other rows.
    """
    log_probability = torch.log_softmax(logits.index_select(0, rows), dim=1)
    target = labels[rows].unsqueeze(1)
    total = log_probability.gather(1, target).sum(dtype=torch.float64).item()
    delta = log_probability.exp()
    delta.scatter_add_(1, target, delta.new_full(target.shape, -1.0))
    gradient = torch.zeros_like(logits).index_copy_(0, rows, delta.div_(num_global))
    return (0.0 - total) / num_global, gradient  # 0.0 - 0.0 is not -0.0
