"""Model ``block``: contiguous blocks of rows, balanced by vertex weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.capacities import Capacities, relative_capacities
from plancc.models.problem import Assignment, Problem
from plancc.models.weights import Balance, capacities_of, check_num_parts, combined, vertex_weights


def block_owner(
    weights: npt.NDArray[np.int64], num_parts: int, capacities: Capacities = None
) -> npt.NDArray[np.int32]:
    """Cut the vertices into `num_parts` runs of about the same weight: int32[n], nondecreasing.

    The first k runs have about ``k / num_parts`` of the weight, or the share of the first k
    `capacities`. No run is empty. If all weights are 0, every vertex weighs 1.
    """
    n = len(weights)
    if not weights.any():
        weights = np.ones_like(weights)
    reached = np.concatenate(([0], np.cumsum(weights, dtype=np.int64)))
    part = np.arange(num_parts + 1, dtype=np.int64)
    share = part / num_parts
    if capacities is not None:
        share = np.cumsum(relative_capacities(num_parts, capacities)) / num_parts
        share = np.concatenate(([0.0], share))
    target = reached[-1] * share
    cut = np.searchsorted(reached, target).clip(1, n)
    cut -= target - reached[cut - 1] < reached[cut] - target
    cut[0], cut[-1] = 0, n
    cut = np.maximum.accumulate(cut - part) + part
    cut = np.minimum(cut, n - num_parts + part)
    return np.repeat(part[:-1].astype(np.int32), np.diff(cut))


@dataclass(frozen=True)
class BlockModel(Model):
    """Blocks of consecutive rows, in the order in which the graph file numbers its vertices."""

    follows_capacities: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """Cut the rows, in the order of their numbers, into blocks of about the same weight."""
        check_num_parts(matrix.num_vertices, num_parts)
        weights = combined(vertex_weights(matrix, balance))
        return Assignment(block_owner(weights, num_parts, capacities_of(balance)))
