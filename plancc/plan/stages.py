"""Stages of the pipeline of a feature plan: batches of a part's rows (Wan et al. 2025, 3.2.2).

A batch is one *stage*'s share of the part's rows, and all ranks have equal shares of a batch, so
all ranks work in every stage. Six rows, two ranks and three stages give:

    row      |  0   1  |  2   3  |  4   5  |
    rank     |  0   1  |  0   1  |  0   1  |
    batch    |    0    |    1    |    2    |
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from plancc.plan.exchange import Int64Array

MOST_STAGES = 20
"""Wan et al. 2025 use up to 19 stages (Table 4); with more, batches are too small for messages."""


@dataclass(frozen=True)
class Batches:
    """A part's rows, divided equally into batches.

    Attributes:
        num_rows: Number of rows of the part.
        columns: Number of ranks of the part, which have equal shares of the rows of each batch.
        stages: Number of batches.
    """

    num_rows: int
    columns: int
    stages: int = 1

    def bounds(self, stage: int) -> tuple[int, int]:
        """Return the range ``first:last`` of the rows in batch `stage`."""
        return self.num_rows * stage // self.stages, self.num_rows * (stage + 1) // self.stages

    def share(self, stage: int, column: int) -> tuple[int, int]:
        """Return the range of batch `stage`'s rows that the part's rank number `column` has."""
        first, last = self.bounds(stage)
        size = last - first
        return first + size * column // self.columns, first + size * (column + 1) // self.columns

    def rows_of(self, column: int) -> Int64Array:
        """Return all rows of the part's rank number `column`: ascending, batch by batch."""
        shares = [self.share(stage, column) for stage in range(self.stages)]
        return np.concatenate([np.arange(first, last) for first, last in shares])

    def local(self, column: int) -> list[slice]:
        """Return, for each batch, the range of its rows in the result of ``rows_of(column)``."""
        shares = (self.share(stage, column) for stage in range(self.stages))
        ends = np.cumsum([0, *(last - first for first, last in shares)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    def needs(self, row_ptr: Int64Array, column: np.ndarray) -> list[int]:
        """Return, for each stage, the last batch of input rows that this or an earlier stage reads.

        `row_ptr` and `column` are the matrix as CSR. The last stage needs the last batch.
        """
        found = []
        for stage in range(self.stages):
            first, last = self.bounds(stage)
            used = column[row_ptr[first] : row_ptr[last]].max(initial=0)
            # the batch of a row is the last batch that begins at or before the row
            found.append(((int(used) + 1) * self.stages - 1) // max(self.num_rows, 1))
        found[-1] = self.stages - 1
        return np.maximum.accumulate(found).tolist()


def wanted_stages(num_rows: int, bandwidth: int) -> int:
    """Return the smallest number of stages in which no rank is idle: ceil(2n / (n - b)).

    n is the number of rows, and b the bandwidth. Above `MOST_STAGES` the result is 2, since then
    every product would wait for nearly all of the input.
    """
    wanted = -(-2 * num_rows // max(num_rows - bandwidth, 1))
    return wanted if wanted <= MOST_STAGES else 2
