"""Graphs of extreme shapes: where programs that partition take long, or fail."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from plancc.fields import option
from plancc.graph.canonical import build_graph
from plancc.graph.graph import check_num_vertices
from plancc_datasets.dataset import Dataset, check_options, describe, seed_option

Entries = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

SHAPES = (
    "star",
    "hubs",
    "clique",
    "row",
    "column",
    "empty",
    "loops",
    "components",
    "duplicates",
    "path",
)
HUBS = 10
"""Vertices that all others are joined to, in shape hubs."""
DEGREE = 2
"""Random entries per row beside a full row or column, and in shape duplicates."""
COPIES = 3
"""How often every entry is given, in shape duplicates."""


@dataclass(frozen=True)
class Extreme:
    """A graph of n vertices of an extreme shape.

    ==========  ==================================================================================
    star        vertex 0 is joined to all others
    hubs        the first 10 vertices are joined to all others
    clique      all vertices are joined to all others
    row         row 0 is full, the others have two random entries
    column      column 0 is full, the rows have two random entries beside
    empty       no entry
    loops       the diagonal
    components  two random graphs without an edge between them
    duplicates  a random graph, every entry of which is given three times
    path        every vertex is joined to the next
    ==========  ==================================================================================
    """

    shape: str = option("star", f"one of {', '.join(SHAPES)}", choices=SHAPES)
    vertices: int = option(1000, "number of vertices", low=1)
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        n = self.vertices
        check_num_vertices(n, "dataset 'extreme'")
        row, col = self._entries(n, np.random.default_rng(self.seed))
        both = self.shape in ("star", "hubs", "components", "path")
        return Dataset(
            build_graph(
                n,
                row,
                col,
                directed=self.shape in ("row", "column", "duplicates"),
                symmetrize=both,
                source=describe(self),
            )
        )

    def _entries(self, n: int, rng: np.random.Generator) -> Entries:
        every, zeros = np.arange(n), np.zeros(n, dtype=np.int64)
        sparse = np.repeat(every, DEGREE), rng.integers(n, size=DEGREE * n)
        match self.shape:
            case "star":
                return zeros[1:], every[1:]
            case "hubs":
                hubs = min(HUBS, n)
                row, col = np.repeat(np.arange(hubs), n), np.tile(every, hubs)
                return row[row < col], col[row < col]
            case "clique":
                row, col = np.repeat(every, n), np.tile(every, n)
                return row[row != col], col[row != col]
            case "row" | "column":
                row, col = np.append(zeros, sparse[0]), np.append(every, sparse[1])
                return (row, col) if self.shape == "row" else (col, row)
            case "loops":
                return every, every
            case "components":
                return _joined(n, rng)
            case "duplicates":
                return np.tile(sparse[0], COPIES), np.tile(sparse[1], COPIES)
            case "path":
                return every[:-1], every[1:]
        return zeros[:0], zeros[:0]


def _joined(n: int, rng: np.random.Generator) -> Entries:
    """Random entries within the first half and within the second half of the vertices."""
    rows, cols = [], []
    for first, last in pairwise((0, n // 2, n)):
        size = last - first
        row = np.repeat(np.arange(first, last), DEGREE)
        col = first + rng.integers(max(size, 1), size=DEGREE * size)
        rows.append(row[row != col])
        cols.append(col[row != col])
    return np.concatenate(rows), np.concatenate(cols)
