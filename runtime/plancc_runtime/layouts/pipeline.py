"""The fine-grain pipeline of Wan et al. 2025, Section 3.2.2: batches of rows, and how many of them.

Knows the pattern of a part's matrix and how many ranks share its rows; must not know dense rows or
messages.

The rows of the part are cut into *batches* of equal size, one for every *stage*, and every rank of
the part has an equal share of every batch: with two ranks and three stages

    rows     | 0     1 | 2     3 | 4     5 |
    rank       0  |  1   0  |  1   0  |  1
    batch    |    0    |    1    |    2    |

so that all of them send, multiply and update in every stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from plancc.jit import njit
from plancc.plan.parts import GridShare
from plancc.plan.values import Int64Array

MOST_STAGES = 20
"""Wan et al. 2025 have up to 19 (Table 4); beyond, a batch is too small for its messages."""


@dataclass(frozen=True)
class Batches:
    """Which rows are in which batch, and whose they are.

    Attributes
    ----------
    num_rows : int
        Rows of the part.
    columns : int
        Ranks that share them.
    stages : int
        Batches.
    """

    num_rows: int
    columns: int
    stages: int = 1

    def bounds(self, stage: int) -> tuple[int, int]:
        """Rows ``first:last`` of a batch."""
        return self.num_rows * stage // self.stages, self.num_rows * (stage + 1) // self.stages

    def share(self, stage: int, column: int) -> tuple[int, int]:
        """The rows ``first:last`` of a batch that one rank has."""
        first, last = self.bounds(stage)
        size = last - first
        return first + size * column // self.columns, first + size * (column + 1) // self.columns

    def rows_of(self, column: int) -> Int64Array:
        """All rows of one rank, ascending: batch by batch, which is their local order."""
        shares = [self.share(stage, column) for stage in range(self.stages)]
        return np.concatenate([np.arange(first, last) for first, last in shares])

    def local(self, column: int) -> list[slice]:
        """Places of its share of every batch among them."""
        shares = (self.share(stage, column) for stage in range(self.stages))
        ends = np.cumsum([0, *(last - first for first, last in shares)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    def needs(self, row_ptr: Int64Array, column: np.ndarray) -> list[int]:
        """The last batch of the input that a batch of the product, or one before it, depends on.

        Parameters
        ----------
        row_ptr, column : int[num_rows + 1], int[nonzeros]
            CSR of the matrix.

        Returns
        -------
        list of int
            One per stage, ascending; the last one is the last batch.
        """
        found = []
        for stage in range(self.stages):
            first, last = self.bounds(stage)
            used = column[row_ptr[first] : row_ptr[last]].max(initial=0)
            # the batch of a row: the last whose first row is not after it
            found.append(((int(used) + 1) * self.stages - 1) // max(self.num_rows, 1))
        found[-1] = self.stages - 1
        return np.maximum.accumulate(found).tolist()


@dataclass(frozen=True)
class Pipelining:
    """How well a matrix is pipelined (Wan et al. 2025, Proposition 3.5).

    Attributes
    ----------
    num_rows : int
        n.
    bandwidth : int
        b, the largest difference between the numbers of a row and of a column that it needs.
    stages : int
        s.
    """

    num_rows: int
    bandwidth: int
    stages: int

    @classmethod
    def of(cls, row_ptr: Int64Array, column: np.ndarray, stages: int | None = None) -> Pipelining:
        """The pipelining of a square CSR matrix; by default with `wanted_stages`."""
        n, b = len(row_ptr) - 1, bandwidth(row_ptr, column)
        return cls(n, b, max(1, min(n, stages or wanted_stages(n, b))))

    @property
    def granularity(self) -> float:
        """(n - b) / 2n: no stage idles where it is at least 1 / s."""
        return (self.num_rows - self.bandwidth) / (2 * max(self.num_rows, 1))


def pipelining(share: GridShare | None, choice: str) -> Pipelining | None:
    """How the part of a feature plan is pipelined; None: it is not.

    Parameters
    ----------
    share : GridShare or None
        With the block in the order in which its rows are to be cut.
    choice : str
        "off", "auto" (as many stages as the bandwidth asks for) or a number of stages.
    """
    if share is None or choice == "off":
        return None
    assert share.block is not None
    stages = None if choice == "auto" else int(choice)
    return Pipelining.of(share.block.row_ptr, share.block.column, stages)


def wanted_stages(num_rows: int, bandwidth: int) -> int:
    """The fewest stages without idleness, ceil(2n / (n - b)); 2 where that is above `MOST_STAGES`.

    Then every batch waits for nearly all of the input, in however many they are cut.
    """
    wanted = -(-2 * num_rows // max(num_rows - bandwidth, 1))
    return wanted if wanted <= MOST_STAGES else 2


def bandwidth(row_ptr: Int64Array, column: np.ndarray) -> int:
    """b = max |i - j| over the nonzeros (i, j) of a CSR matrix; 0 without any."""
    return int(_bandwidth(row_ptr, column))


@njit(cache=True, nogil=True)
def _bandwidth(row_ptr: Any, column: Any) -> int:
    widest = 0
    for i in range(len(row_ptr) - 1):
        for k in range(row_ptr[i], row_ptr[i + 1]):
            widest = max(widest, abs(i - column[k]))
    return widest
