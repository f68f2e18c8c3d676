"""The nonzeros of a rank of a process grid, as a `Block`.

The columns are the columns of the rank's *pieces* (`Grid.pieces`), one piece after the other. Each
column stands for a row of H, which counts as a halo row even if this rank owns it; message k has
the rows of piece k.

             piece 0   piece 1
           +---------+---------+
    rows   |         |         |   all rows of the process row
           +---------+---------+
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from plancc.plan.exchange import Exchange, Side, offsets, places
from plancc.plan.grid import Piece
from plancc.plan.grid_slices import column_in_pieces
from plancc.plan.parts import GridShare
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.whole_counts import with_whole_counts

NOTHING = np.zeros(0, np.int32)


def rows_of_process_row(share: GridShare) -> tuple[int, int]:
    """Return the bounds ``first, last`` of the rows of A in a rank's block, in plan order."""
    first, last = share.grid.parts_of_block(share.rank)
    return int(share.part_ptr[first]), int(share.part_ptr[last])


def held_pieces(share: GridShare) -> list[Piece]:
    """Return the pieces of A that this rank has, in the order of their columns."""
    _, column, layer = share.grid.position(share.rank)
    return [p for p in share.grid.pieces(share.part_ptr, layer) if p.column == column]


def block_of_share(share: GridShare, self_loops: bool) -> Block:
    """Return the block of a rank of a grid that broadcasts whole pieces of H.

    `Block.outputs` has the column of every row's diagonal, or -1 if another rank has that column.
    """
    pieces = held_pieces(share)
    rows = np.array([piece.row for piece in pieces], np.int32)
    ptr = offsets(np.array([piece.last - piece.first for piece in pieces]))
    first_row, last_row = rows_of_process_row(share)
    return Block(
        inputs=NOTHING,
        outputs=column_in_pieces(np.arange(first_row, last_row), pieces),
        row_ptr=share.row_ptr,
        column=column_in_pieces(share.place, pieces).astype(np.int32),
        value=share.value,
        expand=Exchange(Exchange.nothing().send, Side.of_rank(rows, ptr)),
        self_loops=self_loops,
    )


def block_of_chunk(share: GridShare, self_loops: bool) -> Block:
    """Return the block of a rank of a "1.5d" grid that receives only the rows that it needs.

    The block has the columns of the process column's chunk of parts (`Grid.chunk`). If the rank's
    own part is in another chunk, the block has no columns of own rows. In messages, peer k is the
    rank that has part k.
    """
    grid, part = share.grid, share.block
    assert part is not None
    whole = with_whole_counts(Block.of_part(part, self_loops), [])
    column = grid.position(share.rank).column
    own = grid.chunk(grid.part(share.rank)) == column
    num_own = part.num_rows * own
    chunk = np.array([grid.chunk(peer) for peer in range(grid.num_parts)])
    received = chunk[part.expand.receive.peer_of_row()] == column
    kept = np.concatenate([np.full(part.num_rows, own), received])
    number = np.cumsum(kept) - 1
    nonzeros = kept[part.column]
    row_ptr = np.concatenate([[0], np.cumsum(nonzeros, dtype=np.int64)])[part.row_ptr]
    sent = np.full(part.expand.send.volume, own)
    return replace(
        whole,
        inputs=part.global_id[:num_own],
        outputs=None if own else np.full(part.num_rows, -1, np.int64),
        row_ptr=row_ptr,
        column=number[part.column[nonzeros]].astype(np.int32),
        value=part.value[nonzeros],
        expand=part.expand.keep(sent, received).renumbered(received=places(received)),
    )
