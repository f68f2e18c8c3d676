"""Feature slices (Wan et al. 2025, Algorithm 2), in one group or several groups (Section 5.2).

The ranks of a group share a part. Before a product, they exchange all columns of their own rows for
some columns (the rank's feature slice) of all rows of the part, in an all-to-all; after the
product, another all-to-all reverses this. With several groups, ranks with the same slice exchange
the halo rows of their parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.plan.layers import Aggregate
from plancc.plan.words import AllToAllWords
from plancc.predict.memory import Memory, grid_memory
from plancc.predict.schedule import Elementwise, SparseProduct, Work
from plancc.predict.schedules.epoch import PRODUCTS, Works
from plancc.predict.schedules.grid import GridScheduler, pairs_in, row_groups, slices
from plancc.predict.schedules.row import messages
from plancc.predict.schedules.tables import Tables

LINE = 16
"""Words of a cache line; copying fewer columns of a row takes as long as copying this many."""


class FeatureScheduler(GridScheduler):
    """Scheduler of feature plans.

    Parameters:
        stages: Number of batches into which a pipeline divides every product; 1 without a pipeline.
    """

    def __init__(self, tables: Tables, stages: int = 1) -> None:
        super().__init__(tables)
        self._stages, columns = stages, self._grid.columns
        ends = np.arange(columns + 1) * tables.rows[:, None] // columns
        self._share = np.diff(ends, axis=1)
        self.rows = self._share.ravel()
        self._pairs = pairs_in(np.arange(columns)[None], tables.expand, columns)

    def works(self, layer: int, step: Aggregate) -> Works:
        grid, share = self._grid, slices(self._grid, step.columns)
        width = np.tile(share, grid.num_parts)
        # packed slice by slice
        packed = 2 * self.rows * int(np.maximum(share[share > 0], LINE).sum())
        columns = np.broadcast_to(share, self._share.shape)
        swapped: list[Work] = [Elementwise(packed, calls=grid.columns * self._stages)]
        for share_rows in self._batches(self._share):
            swapped.append(AllToAllWords(row_groups(grid), share_rows, columns))
        rows, nonzeros = (
            self._batches(np.repeat(sizes, grid.columns))
            for sizes in (self._tables.rows, self._tables.nonzeros)
        )
        return {
            "slices": swapped if grid.columns > 1 else (),
            "expand": messages("expand", self._pairs, width),
            PRODUCTS: [SparseProduct(*of, width) for of in zip(rows, nonzeros, strict=True)],
        }

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
        """Divide each number into nearly equal shares, one per batch, that add up to the number."""
        ends = [sizes * k // self._stages for k in range(self._stages + 1)]
        return [last - first for first, last in pairwise(ends)]
