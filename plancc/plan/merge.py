"""Several parts of a plan on one rank. Knows no file and no MPI.

Rows are united, messages between the parts dropped, and a row that several parts of one rank
receive travels once. Both ends of a message order its rows by plan order (`plancc.plan.plan`),
so no rank needs to ask another what it sends.

    part 0   part 1 | part 2   part 3          rank 0 | rank 1
       <--------------- row 7                     <------ row 7 (once)
                <------ row 7
       <------ row 5                            (dropped)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.graph.vertexdata import VertexData
from plancc.plan.plan import Int32Array, Int64Array, Part


@dataclass(frozen=True)
class Messages:
    """Messages of a block of parts in one direction: an `Exchange` with offsets from zero.

    Attributes
    ----------
    ptr : int64[parts + 1], peer : int32[messages], row_ptr : int64[messages + 1], row : int32[rows]
        As in `plancc.plan.plan.Exchange`.
    """

    ptr: Int64Array
    peer: Int32Array
    row_ptr: Int64Array
    row: Int32Array

    def peer_of_row(self) -> Int32Array:
        """The peer of every row in the table."""
        return np.repeat(self.peer, np.diff(self.row_ptr))

    def part_of_row(self, first: int) -> Int64Array:
        """The part of every row in the table, when the block's first part is `first`."""
        rows = np.diff(self.row_ptr[self.ptr])
        return np.repeat(np.arange(first, first + len(rows)), rows)


@dataclass(frozen=True)
class Block:
    """Parts first..last-1 of a plan, side by side as in the file.

    Attributes
    ----------
    part_ptr : int64[num_parts + 1]
        Of *all* parts of the plan.
    global_id, part_of_row : int32, int64[rows]
        Vertex and part of every row of the block.
    row_ptr : int64[rows + 1], column : int32[nonzeros], value : float[nonzeros]
        Columns in the local numbering of the part that holds the nonzero.
    send, receive : Messages
    vertex_data : VertexData
    """

    first: int
    last: int
    part_ptr: Int64Array
    global_id: Int32Array
    part_of_row: Int64Array
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    send: Messages
    receive: Messages
    vertex_data: VertexData

    @property
    def first_row(self) -> int:
        """Plan order of the first row."""
        return int(self.part_ptr[self.first])


def merge(block: Block, rank: int, ranks: Int64Array) -> Part:
    """The one part that rank `rank` makes of its parts.

    Parameters
    ----------
    block : Block
    rank : int
    ranks : int64[num_ranks + 1]
        First part of every rank.

    Returns
    -------
    Part
        Index, number of parts and peers are ranks.
    """
    part_ptr, rows = block.part_ptr, np.diff(block.part_ptr)
    row0, row1 = block.first_row, int(part_ptr[block.last])

    # The column of every nonzero in plan order, whichever part numbered it.
    halo = part_ptr[block.receive.peer_of_row()] + block.receive.row
    part = np.repeat(block.part_of_row, np.diff(block.row_ptr))
    own = block.column < rows[part]
    place = part_ptr[part] + block.column
    first_halo = block.receive.row_ptr[block.receive.ptr]
    slot = first_halo[part[~own] - block.first] + block.column[~own] - rows[part[~own]]
    place[~own] = halo[slot]

    # What stays foreign, once; rows interior first; columns renumbered, own ones first.
    foreign = (place < row0) | (place >= row1)
    halo = np.unique(halo[(halo < row0) | (halo >= row1)])
    is_boundary = np.diff(np.concatenate([[0], np.cumsum(foreign)])[block.row_ptr]) > 0
    order = np.argsort(is_boundary, kind="stable")
    local = np.empty(len(order), dtype=np.int64)
    local[order] = np.arange(len(order))
    column = np.empty(len(place), dtype=np.int32)
    column[~foreign] = local[place[~foreign] - row0]
    column[foreign] = len(order) + np.searchsorted(halo, place[foreign])
    nonzeros = np.lexsort((foreign, np.repeat(local, np.diff(block.row_ptr))))

    # Messages between ranks; a key orders rows by receiver, then by plan order.
    recv_peer, recv_ptr = _runs(_rank_of(np.searchsorted(part_ptr, halo, side="right") - 1, ranks))
    receiver = _rank_of(block.send.peer_of_row(), ranks)
    sent = part_ptr[block.send.part_of_row(block.first)] + block.send.row
    key = np.unique((receiver * (row1 + 1) + sent)[receiver != rank])
    send_peer, send_ptr = _runs(key // (row1 + 1))
    return Part(
        index=rank,
        num_parts=len(ranks) - 1,
        first_row=row0,
        global_id=block.global_id[order],
        num_interior=int((~is_boundary).sum()),
        row_ptr=np.concatenate([[0], np.diff(block.row_ptr)[order]]).cumsum(),
        column=column[nonzeros],
        value=block.value[nonzeros],
        send_peer=send_peer,
        send_ptr=send_ptr,
        send_row=local[key % (row1 + 1) - row0].astype(np.int32),
        recv_peer=recv_peer,
        recv_ptr=recv_ptr,
        vertex_data=block.vertex_data.take(order),
    )


def _rank_of(part: npt.NDArray[np.integer], ranks: Int64Array) -> Int64Array:
    return np.searchsorted(ranks, part, side="right") - 1


def _runs(keys: Int64Array) -> tuple[Int32Array, Int64Array]:
    """The distinct values of a sorted list, and the offsets of their runs."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts].astype(np.int32), np.append(starts, len(keys)).astype(np.int64)
