"""The Plan value: a distributed sparse product, compiled. Knows no file, no MPI, no partitioner.

*Plan order* numbers all rows part by part: row ``r`` of part ``m`` is row ``part_ptr[m] + r`` in
plan order. Every table below is flat, with offsets per part or per message, so that 4,096 parts
cost no more than four, and a rank reads one contiguous slice of each.

    local columns of part m:   0 ......... rows(m) | rows(m) ...... rows(m) + halo(m)
                               own rows            | received rows, in arrival order

In an edge plan a part holds nonzeros of rows that are not its own. It has partial sums of them,
which it sends to their owners (the fold):

    local rows of part m:      0 ......... rows(m) | rows(m) ...... rows(m) + folded(m)
                               own rows            | folded rows, in the order of the messages
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc.plan.grid import Grid

if TYPE_CHECKING:
    from plancc.plan.metrics import Metrics

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Header:
    """What a reader must know before it touches an array.

    Attributes
    ----------
    layout : str
        "row": every nonzero lives with the owner of its row. "edge": it may live with any part.
        "grid", "feature": as "row", and several ranks may share a part, as `grid` says.
    normalization : str
        "sym", "row" or "none" (`plancc.graph.normalize`).
    self_loops : bool
        Whether the identity was added before normalising.
    grid : Grid or None
        Of layouts "grid" and "feature": which ranks share a part; a part is a rank otherwise.
    """

    layout: str
    num_vertices: int
    num_nonzeros: int
    num_parts: int
    directed: bool
    normalization: str
    self_loops: bool
    grid: Grid | None = None

    @property
    def num_ranks(self) -> int:
        """Ranks that the plan is for."""
        return self.num_parts if self.grid is None else self.grid.num_ranks


@dataclass(frozen=True)
class Exchange:
    """Messages of all parts in one direction, grouped by part, peers ascending.

    Attributes
    ----------
    ptr : int64[num_parts + 1]
        Messages of part m are ``ptr[m]:ptr[m + 1]``.
    peer : int32[num_messages]
        The other part; ascending and unique within a part, never the part itself.
    row_ptr : int64[num_messages + 1]
        Rows of message k are ``row[row_ptr[k]:row_ptr[k + 1]]``; no message is empty.
    row : int32[volume]
        Local row numbers *at the part that owns the rows*, strictly ascending in every message. In
        a send table of the expand this is the send mask X_mn (paper 000, Eq. 8); in a receive table
        the receive set, in arrival order, which is the order of the local columns.
    """

    ptr: Int64Array
    peer: Int32Array
    row_ptr: Int64Array
    row: Int32Array

    @property
    def num_messages(self) -> int:
        return len(self.peer)

    @property
    def volume(self) -> int:
        return len(self.row)

    def messages_per_part(self) -> Int64Array:
        return np.diff(self.ptr)

    def rows_per_part(self) -> Int64Array:
        return np.diff(self.row_ptr[self.ptr])

    def of_part(self, index: int) -> tuple[Int32Array, Int64Array, Int32Array]:
        """Peers, offsets from zero and rows of one part's messages."""
        first, last = self.ptr[index], self.ptr[index + 1]
        row_ptr = self.row_ptr[first : last + 1]
        return self.peer[first:last], row_ptr - row_ptr[0], self.row[row_ptr[0] : row_ptr[-1]]


@dataclass(frozen=True)
class Fold:
    """The fold step of an edge plan: partial rows of the product go to their owners.

    Attributes
    ----------
    send : Exchange
        Of every part to the owners (the peers), in the order of its folded rows, which the rows
        of all its messages are, one after the other.
    receive : Exchange
        Of every owner from the parts (the peers); the mirror of `send`.
    """

    send: Exchange
    receive: Exchange


@dataclass(frozen=True)
class PartFold:
    """One part's fold.

    Attributes
    ----------
    send_peer : int32[s], send_ptr : int64[s + 1]
        To peer ``send_peer[k]`` go the folded rows ``send_ptr[k]:send_ptr[k + 1]``, which are the
        local rows ``rows + send_ptr[k]`` and following.
    recv_peer : int32[r], recv_ptr : int64[r + 1], recv_row : int32[received rows]
        What comes from peer ``recv_peer[k]`` is added to the own rows
        ``recv_row[recv_ptr[k]:recv_ptr[k + 1]]``, in this order.
    """

    send_peer: Int32Array
    send_ptr: Int64Array
    recv_peer: Int32Array
    recv_ptr: Int64Array
    recv_row: Int32Array

    @property
    def num_folded(self) -> int:
        return int(self.send_ptr[-1])


@dataclass(frozen=True)
class GridShare:
    """What a rank of a process grid has beside the rows of a `Part`.

    Attributes
    ----------
    grid : Grid
    rank : int
    part_ptr : int64[num_parts + 1]
        First row of every part in plan order.
    row_ptr : int64[rows of the process row + 1], place : int32[m], value : float[m]
        CSR of the block of A that this rank multiplies with or broadcasts: all rows of its process
        row (in a layer of "3d" more than its own) and, as places in plan order, the columns of its
        process column. Without nonzeros if `block` is there.
    block : Part or None
        This rank's part of the row plan, with messages between parts and without vertex data: of
        "feature", and of schemes that send needed rows only.
    """

    grid: Grid
    rank: int
    part_ptr: Int64Array
    row_ptr: Int64Array
    place: Int32Array
    value: npt.NDArray[np.floating]
    block: Part | None = None


@dataclass(frozen=True)
class Part:
    """One part's slice of a plan (or several parts merged onto one rank, `plancc.plan.merge`).

    Attributes
    ----------
    index, num_parts : int
        Number of this part and of all parts (after merging: ranks).
    first_row : int
        Plan order of this part's first row.
    global_id : int32[rows]
        Vertex of every local row.
    num_interior : int
        Rows ``0..num_interior-1`` use own columns only; the others use at least one halo row.
    row_ptr : int64[local rows + 1], column : int32[nonzeros], value : float[nonzeros]
        Local CSR; rows numbered [own rows | folded rows], columns [own rows | received rows],
        distinct, own ones first in a row.
    send_peer : int32[s], send_ptr : int64[s + 1], send_row : int32[sent rows]
        To peer ``send_peer[k]`` go the local rows ``send_row[send_ptr[k]:send_ptr[k + 1]]``,
        in this order.
    recv_peer : int32[r], recv_ptr : int64[r + 1]
        From peer ``recv_peer[k]`` come the halo rows ``recv_ptr[k]:recv_ptr[k + 1]``, which are
        the local columns ``rows + recv_ptr[k]`` and following.
    vertex_data : VertexData
        This part's rows, in local order.
    fold : PartFold or None
        None in a row plan, which has no folded rows.
    grid : GridShare or None
        Of layouts "grid" and "feature" (`plancc.plan.grid_slices`). `index` and `num_parts` count
        ranks then; rows are those that this rank has in H between products, the local matrix and
        the messages are empty.
    """

    index: int
    num_parts: int
    first_row: int
    global_id: Int32Array
    num_interior: int
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    send_peer: Int32Array
    send_ptr: Int64Array
    send_row: Int32Array
    recv_peer: Int32Array
    recv_ptr: Int64Array
    vertex_data: VertexData = field(default_factory=VertexData)
    fold: PartFold | None = None
    grid: GridShare | None = None

    @property
    def num_rows(self) -> int:
        return len(self.global_id)

    @property
    def num_halo(self) -> int:
        return int(self.recv_ptr[-1])

    def send_mask(self, peer: int) -> Int32Array:
        """Local rows that go to `peer`, in the order of the message; empty if none do."""
        return _message(self.send_peer, self.send_ptr, peer, self.send_row)

    def receive_set(self, peer: int) -> Int32Array:
        """Local columns that `peer` fills, in the order of the message; empty if it sends none."""
        columns = np.arange(self.num_rows, self.num_rows + self.num_halo, dtype=np.int32)
        return _message(self.recv_peer, self.recv_ptr, peer, columns)


def _part_fold(fold: Fold, index: int) -> PartFold:
    send_peer, send_ptr, _ = fold.send.of_part(index)
    return PartFold(send_peer, send_ptr, *fold.receive.of_part(index))


def _message(peers: Int32Array, ptr: Int64Array, peer: int, rows: Int32Array) -> Int32Array:
    at = np.searchsorted(peers, peer)
    found = at < len(peers) and peers[at] == peer
    return rows[ptr[at] : ptr[at + 1]] if found else rows[:0]


@dataclass(frozen=True, repr=False)
class Plan:
    """A compiled plan of all parts. Immutable; `plancc.plan.lowering` makes it.

    Attributes
    ----------
    header : Header
    part_ptr : int64[num_parts + 1]
        Rows of part m are ``part_ptr[m]:part_ptr[m + 1]`` in plan order.
    global_id : int32[num_vertices]
        Vertex of every row, in plan order.
    num_interior : int64[num_parts]
        The first rows of each part that use own columns only.
    row_ptr : int64[num_local_rows + 1]
        Nonzeros of every local row, part by part: its own rows, then its folded ones. In a row
        plan they are the rows in plan order.
    column : int32[num_nonzeros]
        Local column numbers of the part that holds the nonzero; distinct, own ones first in a row.
    value : float32 or float64[num_nonzeros]
    send, receive : Exchange
        The expand step; each is the mirror of the other.
    vertex_data : VertexData
    original_id : int64[num_vertices], or None
        The source's ids of the vertices 0..n-1 where they differ, indexed by vertex.
    provenance : dict
        How the plan was made: str, int, float or bool values.
    baseline : Metrics, or None
        Figures of an even random partition of the same matrix, for comparison.
    fold : Fold or None
        The fold step of layout "edge"; None in a row plan.
    """

    header: Header
    part_ptr: Int64Array
    global_id: Int32Array
    num_interior: Int64Array
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    send: Exchange
    receive: Exchange
    vertex_data: VertexData = field(default_factory=VertexData)
    original_id: Int64Array | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    baseline: Metrics | None = None
    fold: Fold | None = None

    @cached_property
    def local_ptr(self) -> Int64Array:
        """Where the local rows of every part start in `row_ptr`: int64[num_parts + 1]."""
        if self.fold is None:
            return self.part_ptr
        return self.part_ptr + self.fold.send.row_ptr[self.fold.send.ptr]

    @property
    def num_parts(self) -> int:
        return self.header.num_parts

    @property
    def num_vertices(self) -> int:
        return self.header.num_vertices

    def part(self, index: int) -> Part:
        """Part `index` as a value of its own; its arrays are views of the plan's."""
        if not 0 <= index < self.num_parts:
            raise InputError(f"part {index}: the plan has parts 0..{self.num_parts - 1}")
        row0, row1 = self.part_ptr[index], self.part_ptr[index + 1]
        local0, local1 = self.local_ptr[index], self.local_ptr[index + 1]
        nonzeros = slice(self.row_ptr[local0], self.row_ptr[local1])
        send_peer, send_ptr, send_row = self.send.of_part(index)
        recv_peer, recv_ptr, _ = self.receive.of_part(index)
        return Part(
            index=index,
            num_parts=self.num_parts,
            first_row=int(row0),
            global_id=self.global_id[row0:row1],
            num_interior=int(self.num_interior[index]),
            row_ptr=self.row_ptr[local0 : local1 + 1] - self.row_ptr[local0],
            column=self.column[nonzeros],
            value=self.value[nonzeros],
            send_peer=send_peer,
            send_ptr=send_ptr,
            send_row=send_row,
            recv_peer=recv_peer,
            recv_ptr=recv_ptr,
            vertex_data=self.vertex_data.take(np.arange(row0, row1)),
            fold=None if self.fold is None else _part_fold(self.fold, index),
        )

    def __repr__(self) -> str:
        header = self.header
        steps = [self.send] if self.fold is None else [self.send, self.fold.send]
        volume, messages = sum(s.volume for s in steps), sum(s.num_messages for s in steps)
        layout = f"{header.layout} layout" + (f" ({header.grid})" if header.grid else "")
        return (
            f"<Plan of {header.num_parts} parts, {layout}: {header.num_vertices} vertices, "
            f"{header.num_nonzeros} nonzeros, volume {volume}, {messages} messages>"
        )

    def content_sha256(self) -> str:
        """Hash of what a run of the plan computes and sends; plans with equal hashes are equal."""
        from plancc.plan.format import arrays_of, content_sha256

        return content_sha256(self.header, arrays_of(self))

    def owner(self) -> Int32Array:
        """Part of every vertex, int32[num_vertices]."""
        owner = np.empty(self.num_vertices, dtype=np.int32)
        parts = np.arange(self.num_parts, dtype=np.int32)
        owner[self.global_id] = np.repeat(parts, np.diff(self.part_ptr))
        return owner

    def metrics(self) -> Metrics:
        """What the plan costs (`plancc.plan.metrics`), computed from its tables."""
        from plancc.plan.metrics import summarize, traffic

        return summarize(traffic(self))

    def save(self, path: str | PathLike[str], *, compress: bool = False) -> str:
        """Write the plan file; returns its content hash. See `plancc.plan.writer.write_plan`."""
        from plancc.plan.writer import write_plan

        return write_plan(self, path, compress=compress)
