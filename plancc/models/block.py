"""Contiguous blocks of rows, balanced by vertex weight: model ``block``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.problem import Assignment
from plancc.models.weights import Balance, check_num_parts, combined, vertex_weights


def block_owner(weights: npt.NDArray[np.int64], num_parts: int) -> npt.NDArray[np.int32]:
    """Cut ``0..n-1`` into `num_parts` nonempty runs of about the same weight.

    Cut k is where the running weight is closest to ``k / num_parts`` of the total, moved as
    little as needed for every run to hold a vertex.

    Parameters
    ----------
    weights : int64[n]
        All zero: rows are shared evenly.
    num_parts : int
        At most n.

    Returns
    -------
    int32[n], nondecreasing
    """
    n = len(weights)
    if not weights.any():
        weights = np.ones_like(weights)
    reached = np.concatenate(([0], np.cumsum(weights, dtype=np.int64)))
    part = np.arange(num_parts + 1, dtype=np.int64)
    target = reached[-1] * (part / num_parts)
    cut = np.searchsorted(reached, target).clip(1, n)
    cut -= target - reached[cut - 1] < reached[cut] - target
    cut[0], cut[-1] = 0, n
    cut = np.maximum.accumulate(cut - part) + part
    cut = np.minimum(cut, n - num_parts + part)
    return np.repeat(part[:-1].astype(np.int32), np.diff(cut))


@dataclass(frozen=True)
class BlockModel(Model):
    """Blocks of consecutive rows in the order of the source."""

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Assignment:
        """Cut the given order into blocks of about the same weight; `seed` is not used."""
        check_num_parts(matrix.num_vertices, num_parts)
        return Assignment(block_owner(combined(vertex_weights(matrix, balance)), num_parts))
