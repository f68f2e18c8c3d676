"""Feature slices (Wan et al. 2025, Algorithm 2), alone or between groups (its Section 5.2).

Between products a rank has a share of its part's rows. Two all-to-alls within the group make of it
a slice of the columns of all rows, and back; groups exchange the rows that they need, slice by
slice. Back, the same in the other order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.plan.layers import Aggregate
from plancc.plan.products import FEATURE, Program
from plancc.plan.words import AllToAllWords
from plancc.predict.memory import Memory, grid_memory
from plancc.predict.schedule import Elementwise, Pairs, SparseProduct, Work
from plancc.predict.schedules.epoch import Moved, Scheduler
from plancc.predict.schedules.grid import COLLECTIVES, grid_of, row_groups, slices
from plancc.predict.schedules.row import messages
from plancc.predict.schedules.tables import Tables

LINE = 16
"""Words of a cache line: what a copy of fewer columns of a row moves all the same."""


class FeatureScheduler(Scheduler):
    """Feature plans.

    Parameters
    ----------
    tables : Tables
    stages : int
        Batches that every product is cut into.
    """

    def __init__(self, tables: Tables, stages: int = 1) -> None:
        self._stages = stages
        grid = grid_of(tables)
        self._grid, self._tables, self.num_ranks = grid, tables, grid.num_ranks
        ends = np.arange(grid.columns + 1) * tables.rows[:, None] // grid.columns
        self._share = np.diff(ends, axis=1)
        self.rows = self._share.ravel()
        self._pairs = _of_columns(tables.expand, grid.columns)

    def program(self, layer: int) -> Program:
        return FEATURE

    def moved(self, layer: int, step: Aggregate) -> Moved:
        grid, share = self._grid, slices(self._grid, step.columns)
        # packed slice by slice
        packed = 2 * self.rows * int(np.maximum(share[share > 0], LINE).sum())
        columns = np.broadcast_to(share, self._share.shape)
        swapped: list[Work] = [Elementwise(packed, calls=grid.columns * self._stages)]
        for rows in self._batches(self._share):
            swapped.append(AllToAllWords(row_groups(grid), rows, columns))
        return {
            "slices": [(COLLECTIVES, each) for each in swapped] if grid.columns > 1 else (),
            "expand": messages(np.tile(share, grid.num_parts), "expand", self._pairs),
        }

    def multiplied(self, layer: int, step: Aggregate) -> Iterator[Work]:
        grid, tables = self._grid, self._tables
        width = np.tile(slices(grid, step.columns), grid.num_parts)
        batches = self._batches(tables.rows), self._batches(tables.nonzeros)
        for rows, nonzeros in zip(*batches, strict=True):
            sizes = np.repeat(rows, grid.columns), np.repeat(nonzeros, grid.columns)
            yield SparseProduct(*sizes, width)

    def memory(self, dims: Sequence[int]) -> Memory:
        grid, tables = self._grid, self._tables
        block_rows = np.repeat(tables.rows, grid.columns)
        moved = self._pairs.step
        widest = int(slices(grid, max(dims)).max())
        # two slices of columns, what groups exchange, and the rows before they are reordered
        buffers = (2 * block_rows + moved.sent + moved.received) * widest + self.rows * max(dims)
        nonzeros = np.repeat(tables.nonzeros, grid.columns)
        alone = tables.undirected and grid.rows == 1
        return grid_memory(
            rows=self.rows,
            block_rows=block_rows,
            nonzeros=nonzeros,
            dims=dims,
            held=dims,
            buffers=buffers,
            laid_out=1 if alone else 2,
        )

    def _batches(self, sizes: Int64Array) -> list[Int64Array]:
        """The share that every batch has of these sizes."""
        ends = [sizes * k // self._stages for k in range(self._stages + 1)]
        return [last - first for first, last in pairwise(ends)]


def _of_columns(expand: Pairs, columns: int) -> Pairs:
    """The same messages in every process column."""
    column = np.tile(np.arange(columns, dtype=np.int32), len(expand.rows))
    source, target = (
        np.repeat(end, columns) * np.int32(columns) + column
        for end in (expand.source, expand.target)
    )
    return Pairs(expand.num_ranks * columns, source, target, np.repeat(expand.rows, columns))
