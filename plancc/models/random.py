"""Model ``rp``: the random partition of Demirci et al. 2022, with parts of equal size.

It is the baseline with which plans are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.block import block_owner
from plancc.models.capacities import Capacities
from plancc.models.problem import Assignment, Problem
from plancc.models.weights import Balance, capacities_of, check_num_parts


def random_owner(
    num_vertices: int, num_parts: int, seed: int, capacities: Capacities = None
) -> npt.NDArray[np.int32]:
    """Draw an owner for every row at random: int32[num_vertices].

    If all `capacities` are equal, the sizes of any two parts differ by at most one row.
    """
    owner = np.arange(num_vertices, dtype=np.int32) % np.int32(num_parts)
    if len(set(capacities or ())) > 1:
        owner = block_owner(np.ones(num_vertices, np.int64), num_parts, capacities)
    np.random.default_rng(seed).shuffle(owner)
    return owner


@dataclass(frozen=True)
class RandomModel(Model):
    """Random owners. All parts have equally many rows, or rows in proportion to capacities."""

    even_random: ClassVar[bool] = True
    follows_capacities: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """Assign rows at random; only the capacities of `balance` are used."""
        check_num_parts(matrix.num_vertices, num_parts)
        capacities = capacities_of(balance)
        return Assignment(random_owner(matrix.num_vertices, num_parts, seed, capacities))
