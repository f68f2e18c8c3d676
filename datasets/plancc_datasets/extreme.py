"""Graphs of extreme shapes: where programs that partition take long, or fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.fields import check_options, option
from plancc.graph.canonical import build_graph
from plancc.graph.graph import check_num_vertices
from plancc_datasets.dataset import COUNT, Dataset, describe

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
COPIES = 3
"""How often every entry is given, in shape duplicates."""


@dataclass(frozen=True)
class Extreme:
    """A graph of n vertices of an extreme shape.

    ==========  ==================================================================================
    star        vertex 0 is joined to all others
    hubs        the first 10 vertices are joined to all others
    clique      all vertices are joined to all others
    row         row 0 is full, every other one has the next vertex
    column      column 0 is full, every other one has the vertex before
    empty       no entry
    loops       the diagonal
    components  two paths without an edge between them
    duplicates  a path, every entry of which is given three times
    path        every vertex is joined to the next
    ==========  ==================================================================================
    """

    shape: str = option("star", f"one of {', '.join(SHAPES)}", choices=SHAPES)
    vertices: int = option(1000, "number of vertices", **COUNT)

    def build(self) -> Dataset:
        check_options(self)
        n = self.vertices
        check_num_vertices(n, "dataset 'extreme'")
        row, col = self._entries(n)
        return Dataset(
            build_graph(
                n,
                row,
                col,
                directed=self.shape not in ("clique", "empty", "loops"),
                symmetrize=self.shape in ("star", "hubs", "components", "duplicates", "path"),
                source=describe(self),
            )
        )

    def _entries(self, n: int) -> Entries:
        every, zeros = np.arange(n), np.zeros(n, dtype=np.int64)
        path = every[:-1], every[1:]
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
            case "row":
                return np.append(zeros, path[0]), np.append(every, path[1])
            case "column":
                return np.append(every, path[1]), np.append(zeros, path[0])
            case "loops":
                return every, every
            case "components":
                joined = path[1] != n // 2
                return path[0][joined], path[1][joined]
            case "duplicates":
                return np.tile(path[0], COPIES), np.tile(path[1], COPIES)
            case "path":
                return path
        return zeros[:0], zeros[:0]
