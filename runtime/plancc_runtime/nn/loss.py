"""Losses over the labelled vertices of a split, of all ranks. Knows outputs and labels only."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


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
        return functional.cross_entropy(outputs, labels, reduction="sum") / num_global
    total = functional.binary_cross_entropy_with_logits(
        outputs, labels.to(outputs.dtype), reduction="sum"
    )
    return total / (num_global * outputs.shape[1])
