"""Batches of rows: the pipeline of a feature plan (Wan et al. 2025, Section 3.2.2).

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

import numpy as np

from plancc.plan.exchange import Int64Array

MOST_STAGES = 20
"""Wan et al. 2025 have up to 19 (Table 4); beyond, a batch is too small for its messages."""


@dataclass(frozen=True)
class Batches:
    """Which rows are in which batch, and whose they are.

    Attributes:
        num_rows: Rows of the part.
        columns: Ranks that share them.
        stages: Batches.
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

        Parameters:
            row_ptr, column (int[num_rows + 1], int[nonzeros]): CSR of the matrix.

        Returns:
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


def wanted_stages(num_rows: int, bandwidth: int) -> int:
    """The fewest stages without idleness, ceil(2n / (n - b)); 2 where that is above `MOST_STAGES`.

    Then every batch waits for nearly all of the input, in however many they are cut.
    """
    wanted = -(-2 * num_rows // max(num_rows - bandwidth, 1))
    return wanted if wanted <= MOST_STAGES else 2
