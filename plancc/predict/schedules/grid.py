"""Process grids: broadcasts and reductions of Tripathy et al. 2020, and messages of needed rows.

`plancc.plan.grid` says what every rank holds. In the backward pass a broadcast becomes a reduction
to its root, and an all-gather a reduce-scatter. Pieces of A are broadcast in both passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array, IntArray
from plancc.plan.grid import Grid
from plancc.plan.layers import Aggregate
from plancc.plan.products import Program, grid_program
from plancc.plan.words import AllGatherWords, AllReduceWords, BroadcastWords
from plancc.predict.memory import Memory, grid_memory
from plancc.predict.schedule import Elementwise, Pairs, SparseProduct, Work
from plancc.predict.schedules.epoch import PRODUCTS, Scheduler, Works
from plancc.predict.schedules.row import messages
from plancc.predict.schedules.tables import Tables, piece_of_rows, pieces_of_grid

LAYOUT_WORDS = 4
"""Words read and written per received nonzero of A, to build the CSR matrix."""
TRANSPOSE_WORDS = 18
"""Words read and written per nonzero to transpose it; the writes jump from row to row."""


class GridScheduler(Scheduler):
    """Base class of the schedulers of process grids. Tables must have as many parts as the grid."""

    def __init__(self, tables: Tables) -> None:
        grid = tables.grid
        assert grid is not None
        if tables.num_parts != grid.num_parts:
            raise InputError(
                f"{tables.name}: has {tables.num_parts} parts, but grid '{grid}' needs "
                f"{grid.num_parts} parts"
            )
        self._grid, self._tables, self.num_ranks = grid, tables, grid.num_ranks
        self.rows = np.repeat(tables.rows, grid.columns)

    def program(self, layer: int) -> Program:
        return grid_program(self._grid)


class BlockRowScheduler(GridScheduler):
    """Scheduler of 1D and 1.5D grids, in which each block of rows is on c ranks.

    In 1D grids c is 1 (Tripathy et al. 2020, Algorithms 1 and 2).
    """

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        grid = self._grid
        self._nonzeros = tables.nonzeros if grid.columns == 1 else blocks_of(tables).ravel()
        self._chunk = np.array([grid.chunk(part) for part in range(grid.num_parts)])
        column = self._chunk[tables.expand.source, None]  # process column of the sender's chunk
        self._pairs = pairs_in(column, tables.expand, grid.columns) if grid.sparse else None
        self._rounds = _rounds(tables.rows, self._chunk, grid.columns)
        stages = np.bincount(self._chunk, minlength=grid.columns)
        self._calls = 1 if grid.sparse else np.tile(stages, grid.rows)

    def works(self, layer: int, step: Aggregate) -> Works:
        grid, width, copies = self._grid, step.columns, row_groups(self._grid)
        rows, root = self._rounds
        words, chunk = self._tables.rows * width, self._chunk[None]
        return {
            "expand": messages("expand", self._pairs, width) if self._pairs else (),
            "pieces": [BroadcastWords(column_groups(grid), rows * width, root)],
            "copies": [AllReduceWords(copies, words)],
            "holder": [BroadcastWords(copies, words[None], chunk)],
            PRODUCTS: [SparseProduct(self.rows, self._nonzeros, width, self._calls)],
        }

    def memory(self, dims: Sequence[int]) -> Memory:
        if self._pairs is not None:
            moved = self._pairs.step.sent + self._pairs.step.received
        else:  # one piece is multiplied while the next piece arrives
            moved = np.full(self.num_ranks, 2 * int(self._tables.rows.max()))
        partial = self.rows if self._grid.columns > 1 else 0 * self.rows
        return grid_memory(
            rows=self.rows,
            block_rows=self.rows,
            nonzeros=self._nonzeros,
            dims=dims,
            held=dims,
            buffers=(moved + partial) * max(dims),
            laid_out=2,
        )


class BlockScheduler(GridScheduler):
    """Scheduler of 2D and 3D grids, in which a rank has a block of A and some columns of H.

    The products are Algorithm 3 and Section IV-D of Tripathy et al. 2020.
    """

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        grid = self._grid
        self._part_rows = tables.rows
        # rows of process rows: a block of A has the rows of all layers
        self._row_rows = tables.rows.reshape(grid.rows, grid.layers).sum(axis=1)
        pieces = [grid.pieces(tables.part_ptr, layer) for layer in range(grid.layers)]
        count = len(pieces[0])
        self._size = np.array([[each.size for each in of] for of in pieces])
        self._of_row = np.array([each.row for each in pieces[0]])
        self._of_column = np.array([each.column for each in pieces[0]])
        # int64[process rows, layers, pieces]
        self._nonzeros = (
            blocks_of(tables).reshape(grid.rows, grid.layers, grid.layers, count).sum(axis=1)
        )

    def check_width(self, width: int) -> None:
        self._grid.check_width(width)

    def columns(self, width: int) -> int | Int64Array:
        return np.tile(slices(self._grid, width), self._grid.num_parts)

    def works(self, layer: int, step: Aggregate) -> Works:
        grid, share = self._grid, slices(self._grid, step.columns)
        pieces = BroadcastWords(
            column_groups(grid),
            words=np.concatenate([size[:, None] * share for size in self._size], axis=1),
            root=np.repeat(self._of_row[:, None], grid.layers * grid.columns, axis=1),
        )
        sums = _fiber_rows(self._part_rows, grid) * np.tile(share, grid.rows)[:, None]
        # a reduce-scatter forward, an all-gather backward
        layers = AllGatherWords(fiber_groups(grid), words=sums)
        nonzeros, calls = self._nonzeros_of(step.coefficients), len(self._of_row)
        laid_out = (TRANSPOSE_WORDS if step.back else LAYOUT_WORDS) * self._received(nonzeros)
        held = nonzeros.sum(axis=2)  # of every layer of a process row
        product = SparseProduct(
            rows=np.repeat(self._row_rows, grid.layers * grid.columns),
            nonzeros=np.repeat(held.ravel(), grid.columns),
            width=np.tile(share, grid.num_parts),
            calls=calls,
        )
        prepared = [Elementwise(laid_out, calls)] if grid.columns > 1 else []
        return {
            "matrix": [self._matrix(nonzeros)],
            "pieces": [pieces],
            "layers": [layers],
            PRODUCTS: [*prepared, product],
        }

    def memory(self, dims: Sequence[int]) -> Memory:
        grid = self._grid
        block_rows = np.repeat(self._row_rows, grid.layers * grid.columns)
        nonzeros = np.zeros((grid.rows, grid.layers, grid.columns), np.int64)
        for number, column in enumerate(self._of_column):
            nonzeros[:, :, column] += self._nonzeros[:, :, number]
        widest = slices(grid, max(dims)).max()
        # one piece is used while the next piece arrives; the same holds for slices of rows
        buffers = 2 * (int(self._size.max()) + self.rows) * widest
        if grid.columns > 1:  # pieces of A arrive too, and are then laid out
            buffers = buffers + 3 * (2 * int(self._nonzeros.max()) + block_rows)
        if grid.layers > 1:  # the product of a layer, before the reduction over the fiber
            buffers = buffers + block_rows * widest
        return grid_memory(
            rows=self.rows,
            block_rows=block_rows,
            nonzeros=nonzeros.ravel(),
            dims=dims,
            held=[self.columns(width) for width in dims],
            buffers=buffers,
            laid_out=3 if grid.columns > 1 else 2,
        )

    def _nonzeros_of(self, coefficients: str) -> Int64Array:
        """Return the number of nonzeros in every piece of a layer's matrix.

        The result is int64[process rows, layers of the grid, pieces of a process row in a layer].
        `coefficients` (`Aggregate.coefficients`) names the matrix: A, A with its diagonal added, or
        A without its diagonal. Raises InputError if the matrix has a diagonal that A does not have.
        """
        tables, grid = self._tables, self._grid
        closed = coefficients == "closed-mean"
        if coefficients == "plan" or closed == tables.self_loops:
            return self._nonzeros
        if closed:
            raise InputError(
                f"{tables.name}: layers that add a diagonal to the matrix cannot be predicted for "
                f"grid '{grid}'"
            )
        diagonal = np.zeros_like(self._nonzeros)  # added to all rows of A, but left out here
        part = np.repeat(np.arange(grid.num_parts), tables.rows) // grid.layers
        layer, piece = np.divmod(piece_of_rows(grid, tables.part_ptr), diagonal.shape[2])
        np.add.at(diagonal, (part, layer, piece), 1)
        return np.maximum(self._nonzeros - diagonal, 0)

    def _received(self, nonzeros: Int64Array) -> Int64Array:
        """Return how many nonzeros of A every rank receives from other ranks: int64[num_ranks].

        `nonzeros`: number of nonzeros in every piece of a layer's matrix, from `_nonzeros_of`.
        """
        columns = range(self._grid.columns)
        own = [nonzeros[:, :, self._of_column == column].sum(axis=2) for column in columns]
        return (nonzeros.sum(axis=2)[:, :, None] - np.stack(own, axis=2)).ravel()

    def _matrix(self, nonzeros: Int64Array) -> BroadcastWords:
        """Return the broadcasts of pieces of A, as CSR, within the process rows."""
        grid = self._grid
        pointers = np.repeat(self._row_rows + 1, grid.layers)[:, None]
        of_rows = nonzeros.reshape(grid.num_parts, -1)
        return BroadcastWords(
            row_groups(grid),
            words=(2 * of_rows + pointers).T,
            root=np.repeat(self._of_column[:, None], grid.num_parts, axis=1),
            buffers=1 + 2 * (of_rows.T > 0),
        )

    def gathered(self, width: int) -> Sequence[Work]:
        grid = self._grid
        slices_of_parts = BroadcastWords(
            row_groups(grid),
            words=slices(grid, width)[:, None] * self._part_rows,
            root=np.repeat(np.arange(grid.columns)[:, None], grid.num_parts, axis=1),
        )
        return [slices_of_parts] if grid.columns > 1 else []

    def whole_rows(self, width: int) -> Sequence[Work]:
        words = self._part_rows[:, None] * slices(self._grid, width)
        return [AllGatherWords(row_groups(self._grid), words)] if self._grid.columns > 1 else []


def row_groups(grid: Grid) -> Int64Array:
    """Return the ranks that share each part: int64[num_parts, process columns]."""
    return np.arange(grid.num_ranks).reshape(-1, grid.columns)


def column_groups(grid: Grid) -> Int64Array:
    """Return the ranks of every process column of every grid layer.

    The result is int64[layers * columns, rows].
    """
    ranks = np.arange(grid.num_ranks).reshape(grid.rows, -1)
    return np.ascontiguousarray(ranks.T)


def fiber_groups(grid: Grid) -> Int64Array:
    """Return the ranks of every *fiber*: int64[rows * columns, layers].

    A fiber has the ranks of one process row and column, one in each grid layer.
    """
    ranks = np.arange(grid.num_ranks).reshape(grid.rows, grid.layers, grid.columns)
    return np.ascontiguousarray(ranks.transpose(0, 2, 1).reshape(-1, grid.layers))


def slices(grid: Grid, width: int) -> Int64Array:
    """Return how many of `width` matrix columns every process column holds: int64[columns]."""
    ends = [grid.slice_of_columns(width, column) for column in range(grid.columns)]
    return np.array([last - first for first, last in ends], np.int64)


def blocks_of(tables: Tables) -> Int64Array:
    """Return each part's nonzeros in each piece of A's columns: int64[num_parts, pieces].

    Without `Tables.blocks`, a part's nonzeros are spread evenly over the pieces; in "1.5d", in
    proportion to each piece's number of parts.
    """
    if tables.blocks is not None:
        return tables.blocks
    grid = tables.grid
    assert grid is not None
    count = pieces_of_grid(grid)
    # number of parts of each piece; chunks of "1.5d" have different numbers
    share = np.ones(count, np.int64)
    if grid.scheme == "1.5d":
        share = np.bincount([grid.chunk(part) for part in range(grid.num_parts)], minlength=count)
    ends = np.concatenate([[0], np.cumsum(share)])
    return np.diff(ends * tables.nonzeros[:, None] // ends[-1], axis=1)


def _fiber_rows(rows: Int64Array, grid: Grid) -> Int64Array:
    """Return the rows of every rank of every fiber, int64[fibers, layers], from the parts' rows.

    A fiber has the ranks of one process row and column; fibers are ordered by row, then column.
    """
    return np.repeat(rows.reshape(grid.rows, grid.layers), grid.columns, axis=0)


def _rounds(rows: Int64Array, chunk: Int64Array, columns: int) -> tuple[Int64Array, Int64Array]:
    """Return the broadcasts in which ranks of a process column receive their chunk of H.

    In a round, each process column broadcasts the rows of one part of its chunk, or 0 rows after
    its last part. Returns, for every round and process column, the number of rows and the process
    row of the rank that sends: int64[rounds, columns] each.

    Parameters:
        rows (int64[num_parts]): Number of rows of every part.
        chunk (int64[num_parts]): Chunk, and so process column, of every part.
    """
    parts = np.bincount(chunk, minlength=columns)
    place = np.arange(len(chunk)) - np.repeat(np.cumsum(parts) - parts, parts)
    found = np.zeros((2, int(parts.max()), columns), np.int64)
    found[0, place, chunk] = rows
    found[1, place, chunk] = np.arange(len(chunk))
    return found[0], found[1]


def pairs_in(column: IntArray, pairs: Pairs, columns: int) -> Pairs:
    """Turn messages between parts into messages between the ranks that send and receive them.

    `columns` is the number of process columns. `column`, int[num_messages, k], has the k process
    columns in which each message is sent. If it has a single row, this row is for all messages.
    """
    source, target = (
        (end[:, None] * columns + column).astype(np.int32).ravel()
        for end in (pairs.source, pairs.target)
    )
    rows = np.repeat(pairs.rows, column.shape[1])
    return Pairs(pairs.num_ranks * columns, source, target, rows)
