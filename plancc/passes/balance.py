"""How even a partition is, and how even it could be."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def part_weights(
    owner: npt.NDArray[np.int32], weights: npt.NDArray[np.int64], num_parts: int
) -> npt.NDArray[np.int64]:
    """Sum of the weights of every part's vertices, int64[num_parts], exact."""
    sums = np.zeros(num_parts, dtype=np.int64)
    np.add.at(sums, owner, weights)
    return sums


def imbalance(
    owner: npt.NDArray[np.int32], weights: npt.NDArray[np.int64], num_parts: int
) -> float:
    """``max / mean - 1`` of the parts' weights; 0 when all weights are 0."""
    sums = part_weights(owner, weights, num_parts)
    total = int(sums.sum())
    return int(sums.max()) * num_parts / total - 1 if total else 0.0


def imbalance_bound(weights: npt.NDArray[np.int64], num_parts: int) -> float:
    """The imbalance that no partition can be below.

    Some part holds the heaviest vertex, and some part holds at least ``ceil(total / num_parts)``
    since weights are whole numbers.

    Parameters
    ----------
    weights : int64[n], not negative
    num_parts : int

    Returns
    -------
    float
        ``max(max(weights), ceil(total / num_parts)) * num_parts / total - 1``; 0 when the total
        is 0.
    """
    total = int(weights.sum())
    if total == 0:
        return 0.0
    return max(int(weights.max()), -(-total // num_parts)) * num_parts / total - 1
