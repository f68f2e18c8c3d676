"""Quality of predictions: counts that are summed over ranks, and scores made of the sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plancc_runtime.nn.loss import share_of_loss
from plancc_runtime.results import Scores

Float64Array = npt.NDArray[np.float64]


def count(outputs: Tensor, labels: Tensor, num_global: int) -> Float64Array:
    """What one rank's vertices of a split contribute to the scores.

    Parameters
    ----------
    outputs, labels, num_global
        As `plancc_runtime.nn.loss.share_of_loss` has them.

    Returns
    -------
    float64[2 + 3 classes]
        Share of the loss; number of correct vertices; and for every class how often it is
        predicted correctly, how often it is predicted and how often it is a label.
    """
    predicted, found = _predicted(outputs, labels)
    if labels.ndim == 1:
        of_class = [
            torch.bincount(which, minlength=outputs.shape[1])
            for which in (labels[found], predicted, labels)
        ]
    else:
        of_class = [which.sum(dim=0) for which in (predicted & labels, predicted, labels)]
    loss = share_of_loss(outputs, labels, num_global).item()
    return np.concatenate([[loss, int(found.sum())], *(n.cpu().numpy() for n in of_class)]).astype(
        np.float64
    )


def num_found(outputs: Tensor, labels: Tensor) -> int:
    """Number of vertices whose class, or set of classes, is correct; arguments as in `count`."""
    return int(_predicted(outputs, labels)[1].sum())


def _predicted(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Predictions in the form of the labels, and the vertices for which they are correct."""
    if labels.ndim == 1:
        predicted = outputs.argmax(dim=1)
        return predicted, predicted == labels
    predicted = outputs > 0
    return predicted, (predicted == labels).all(dim=1)


def scores_of(splits: Sequence[str], sizes: dict[str, int], counts: Float64Array) -> Scores:
    """The scores of `splits`.

    Parameters
    ----------
    splits : sequence of str
    sizes : dict of str to int
        Vertices of every split, of all ranks; a split without any is left out.
    counts : float64[len(splits), 2 + 3 classes]
        What `count` returns, summed over all ranks.
    """
    result = Scores()
    for split, numbers in zip(splits, counts, strict=True):
        if not sizes[split]:
            continue
        right, predicted, actual = numbers[2:].reshape(3, -1)
        occurs = predicted + actual > 0
        f1 = 2 * right[occurs] / (predicted + actual)[occurs]
        together = predicted.sum() + actual.sum()
        result.loss[split] = float(numbers[0])
        result.accuracy[split] = float(numbers[1]) / sizes[split]
        result.class_shares[split] = (actual / sizes[split]).tolist()
        result.f1_micro[split] = float(2 * right.sum() / together) if together else 0.0
        result.f1_macro[split] = float(f1.mean()) if occurs.any() else 0.0
    return result
