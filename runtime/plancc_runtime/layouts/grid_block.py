"""What a rank of a process grid has of A, as a `Block`.

The columns of the block belong to the rank's *pieces* (`Grid.pieces`), one after the other; all
of them are halo rows, and message k brings piece k. An own column would be the place of a row among
this rank's inputs, which a piece's rows need not be.

             piece 0   piece 1
           +---------+---------+
    rows   |         |         |   rows of the process row: in a layer of "3d", of several parts
    of the |         |         |
    row    +---------+---------+
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
    """The rows ``first:last`` in plan order of the rank's block of A."""
    first, last = share.grid.parts_of_block(share.rank)
    return int(share.part_ptr[first]), int(share.part_ptr[last])


def held_pieces(share: GridShare) -> list[Piece]:
    """The pieces whose columns of A this rank has, ascending."""
    _, column, layer = share.grid.position(share.rank)
    return [p for p in share.grid.pieces(share.part_ptr, layer) if p.column == column]


def block_of_share(share: GridShare, self_loops: bool) -> Block:
    """The block of a rank that moves rows by broadcasts.

    Parameters:
        share: Without a `block`.
        self_loops: Whether nonzeros of the diagonal were added by normalising.

    Returns:
        Its outputs are the rows of the process row; -1 where this rank has no column for the
        diagonal.
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
    """The block of a rank of "1.5d" to which only needed rows travel.

    It has those columns of its part that are in the chunk of its process column: what other ranks
    of this process column send and, if its own part is of the chunk, own columns. Peers are parts,
    which number the ranks of a process column.

    Parameters:
        share: With a `block`.
        self_loops: Whether nonzeros of the diagonal were added by normalising.

    Returns:
        Without inputs, if the part is of another chunk; its outputs are the rows of the part.
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
