"""Find rows and columns that are more than half full, if they hold most nonzeros of a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.graph.graph import Graph

HUB = 2.0
"""A row or column with more nonzeros than this multiple of a part's even share is a hub."""
MAX_GAINS = 2**29
"""Largest product of nonzeros and parts for which full rows cost a search little time."""


@dataclass(frozen=True)
class FullRows:
    """Figures of a matrix whose nonzeros are mostly in rows and columns that are over half full.

    Nearly every part has a nonzero in each of these rows and columns. So a search is slow, and
    gains little.

    Attributes:
        rows, columns: Number of rows, and of columns, that are more than half full.
        share: Share of the nonzeros in these rows and columns, above 0.5.
        hubs: Whether a row or column has over `HUB` times the nonzeros of a part. Otherwise full
            rows are similar, as in a clique.
    """

    rows: int
    columns: int
    share: float
    num_nonzeros: int
    hubs: bool

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows and {self.columns:,} columns are more than half full and hold "
            f"{self.share:.0%} of {self.num_nonzeros:,} nonzeros"
        )

    @classmethod
    def of(cls, matrix: Graph, num_parts: int) -> FullRows | None:
        """Find the rows and columns that are more than half full.

        Return None if they hold at most half of the nonzeros, or if a search is quick anyway
        (`MAX_GAINS`).
        """
        n, total = matrix.num_vertices, matrix.num_nonzeros
        if total * num_parts <= MAX_GAINS:
            return None
        in_row = matrix.row_nonzeros()
        in_column = np.bincount(matrix.indices, minlength=n)
        row, column = 2 * in_row > n, 2 * in_column > n
        both = np.bincount(np.repeat(row, in_row) + 2 * column[matrix.indices], minlength=4)
        if 2 * both[0] >= total:
            return None
        heaviest = max(int(in_row.max()), int(in_column.max()))
        return cls(
            int(row.sum()),
            int(column.sum()),
            1 - int(both[0]) / total,
            total,
            heaviest > HUB * total / num_parts,
        )
