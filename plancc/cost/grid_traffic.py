"""What one product A H moves on a process grid, in all: exact, from offsets alone.

Knows grids and their blocks of rows; no file, no machine, no training. Counted is what has to
arrive (a broadcast of m words among g ranks is g - 1 times m words), as the runtime counts it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from plancc.plan.grid import Grid
from plancc.plan.plan import Int64Array


@dataclass(frozen=True)
class ProductTraffic:
    """Words of one product, forward, sent by all ranks.

    Attributes
    ----------
    width : int
        Columns of H.
    rows : int
        Of H: broadcasts within process columns; messages where needed rows travel.
    sums : int
        Of the product: 3d, scattered over the layers.
    swapped : int
        Feature: rows made into slices of columns before the product, and back after it.
    reduced : int
        1.5d: that ranks put into all-reductions over the copies.
    matrix : int
        2d, 3d: blocks of A, broadcast within process rows; a word for a value, one for its column,
        and one for every row of a piece and its end.
    """

    width: int
    rows: int
    sums: int = 0
    swapped: int = 0
    reduced: int = 0
    matrix: int = 0


def product_traffic(
    grid: Grid, part_ptr: Int64Array, num_nonzeros: int, volume: int, width: int
) -> ProductTraffic:
    """What one product moves (paper 001, Algorithms 1 to 3; paper 002, Algorithm 2).

    Parameters
    ----------
    grid : Grid
    part_ptr : int64[num_parts + 1]
        First row of every block of rows, none of which is empty.
    num_nonzeros : int
    volume : int
        Rows that blocks need of each other: those that the row plan inside moves.
    width : int
        Columns of H.
    """
    n, scheme = int(part_ptr[-1]), grid.scheme
    # a row that a part needs goes to one of its ranks, or a slice of it to each
    needed_only = grid.sparse or scheme == "feature"
    rows = (volume if needed_only else n * (grid.rows - 1)) * width
    if scheme == "feature":
        return ProductTraffic(width, rows, swapped=2 * _swapped(grid, part_ptr, width))
    if scheme == "1.5d" and grid.columns > 1:
        return ProductTraffic(width, rows, reduced=n * grid.columns * width)
    if scheme not in ("2d", "3d"):
        return ProductTraffic(width, rows)
    pieces = math.lcm(grid.rows, grid.columns) * grid.layers
    return ProductTraffic(
        width,
        rows,
        sums=n * (grid.layers - 1) * width,
        matrix=(grid.columns - 1) * (2 * num_nonzeros + pieces * (n + grid.rows)),
    )


def _swapped(grid: Grid, part_ptr: Int64Array, width: int) -> int:
    """Words of whole rows that are not where the slices of columns are."""
    cuts = np.arange(grid.columns + 1)
    slices = np.diff(width * cuts // grid.columns)
    stays = 0
    for size, parts in zip(*np.unique(np.diff(part_ptr), return_counts=True), strict=True):
        stays += int(parts) * int(np.diff(size * cuts // grid.columns) @ slices)
    return int(part_ptr[-1]) * width - stays
