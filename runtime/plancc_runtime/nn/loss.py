"""Losses over the labelled training vertices of all ranks."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def cross_entropy(
    logits: Tensor, labels: Tensor, rows: Tensor, places: Tensor, num_global: int
) -> Tensor:
    """This rank's share of the mean softmax cross-entropy; its sum over all ranks is the mean.

    Parameters
    ----------
    logits : Tensor[outputs, classes]
    labels : int64[num_rows]
    rows, places : int64[m]
        Labelled training vertices: their rows among the labels, and among the outputs.
    num_global : int
        Number of labelled training vertices of all ranks.
    """
    chosen = logits.index_select(0, places)
    return functional.cross_entropy(chosen, labels[rows], reduction="sum") / num_global
