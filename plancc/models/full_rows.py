"""Graphs most of whose nonzeros are in full rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.graph.graph import Graph

HUB = 2.0
"""A row or column above this multiple of a part's even share is too heavy."""
MAX_GAINS = 2**29
"""Nonzeros times parts up to which full rows cost little."""


@dataclass(frozen=True)
class Crowd:
    """Rows and columns that are more than half full, where they hold more than half of a matrix.

    Every part has a nonzero of each of them, wherever rows and nonzeros go: no owners are much
    better than others, while the gain of a move depends on all parts.

    Attributes:
        rows, columns: How many are that full.
        share: Of the nonzeros, in at least one of them.
        hubs: Whether one of them alone is more than two parts should hold; else they are many and
            alike, as in a clique.
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
    def of(cls, matrix: Graph, num_parts: int) -> Crowd | None:
        """The crowd of a matrix; None where there is none, or the matrix is small."""
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
