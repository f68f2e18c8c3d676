"""Regular 2D grids, for which a good partition is easy to recognise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.errors import InputError
from plancc.fields import check_options, option
from plancc.graph.canonical import build_graph
from plancc.graph.graph import check_num_vertices
from plancc_datasets.dataset import COUNT, Dataset, describe


@dataclass(frozen=True)
class GridMesh:
    """A grid of rows x cols vertices, numbered row by row; each is joined to its 4 or 8 neighbours.

    ``points=5`` makes the 5-point stencil, and ``points=9`` adds the diagonals. There are no self
    loops. `periodic` joins opposite borders, which makes a torus.
    """

    rows: int = option(64, "rows of the grid", **COUNT)
    cols: int = option(64, "columns of the grid", **COUNT)
    points: int = option(5, "stencil: 5 or 9 points")
    periodic: bool = option(False, "join opposite borders")

    def build(self) -> Dataset:
        check_options(self)
        if self.points not in (5, 9):
            raise InputError(f"`points` {self.points}: must be 5 or 9")
        n = self.rows * self.cols
        check_num_vertices(n, "dataset 'grid'")
        number = np.arange(n, dtype=np.int32).reshape(self.rows, self.cols)
        steps = [(0, 1), (1, 0)] + ([(1, 1), (1, -1)] if self.points == 9 else [])
        sources, targets = [], []
        for down, right in steps:
            shifted = np.roll(number, (-down, -right), (0, 1))
            if self.periodic:
                here, there = number, shifted
            else:
                inside = (
                    slice(0, self.rows - down),
                    slice(max(0, -right), self.cols - max(0, right)),
                )
                here, there = number[inside], shifted[inside]
            sources.append(here.ravel())
            targets.append(there.ravel())
        row, col = np.concatenate(sources), np.concatenate(targets)
        kept = row != col  # a torus of one row or column would join vertices to themselves
        return Dataset(build_graph(n, row[kept], col[kept], symmetrize=True, source=describe(self)))
