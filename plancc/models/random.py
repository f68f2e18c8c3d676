"""Random even partition: model ``rp`` of paper 000, and the baseline of ``plancc inspect``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.problem import Assignment
from plancc.models.weights import Balance, check_num_parts


def random_owner(num_vertices: int, num_parts: int, seed: int) -> npt.NDArray[np.int32]:
    """Owners drawn at random; the parts' numbers of rows differ by at most one.

    Parameters
    ----------
    num_vertices, num_parts : int
    seed : int
        Of ``numpy.random.default_rng``; the same seed gives the same owners.

    Returns
    -------
    int32[num_vertices]
    """
    owner = np.arange(num_vertices, dtype=np.int32) % np.int32(num_parts)
    np.random.default_rng(seed).shuffle(owner)
    return owner


@dataclass(frozen=True)
class RandomModel(Model):
    """Random rows, the same number for every part (paper 000, RP)."""

    even_random: ClassVar[bool] = True

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Assignment:
        """Assign rows at random; `balance` is not used: parts are even in rows."""
        check_num_parts(matrix.num_vertices, num_parts)
        return Assignment(random_owner(matrix.num_vertices, num_parts, seed))
