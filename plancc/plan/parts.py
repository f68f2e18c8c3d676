"""Parts of a plan: one as a rank executes it, or several side by side. Knows no file and no MPI."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from plancc.graph.vertexdata import VertexData
from plancc.plan.grid import Grid
from plancc.plan.part_routes import PartRoute, RankRows, part_route
from plancc.plan.topology import Topology
from plancc.plan.values import Exchange, Fold, Int32Array, Int64Array, Route, Step, steps_of


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
class Claims:
    """What a slice says of the slices of other ranks, so that all can compare it.

    Attributes
    ----------
    sent, expected : int64[steps, num_ranks]
        Digest of the messages to, and from, the parts of every rank: in the expand, in the fold
        of an edge plan, and in the hops of routes. Of parts, not of ranks: this rank's own are
        among them.
    vertices : int
        Sum of the scattered ids of this rank's vertices less its share of that of 0..n-1, modulo
        2^64: those of all ranks add up to 0 if they have every vertex once.
    nonzeros : int
        Nonzeros of this rank less its share of those in the header: likewise.
    folds : bool
        Whether the second step is the fold.
    """

    sent: Int64Array
    expected: Int64Array
    vertices: int
    nonzeros: int
    folds: bool = False


@dataclass(frozen=True)
class GridShare:
    """A rank's share of a process grid beside the rows of a `Part`.

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
        Layouts "grid" and "feature" only (`plancc.plan.grid_slices`): `index` and `num_parts` count
        ranks, the rows are those of H that this rank has between products, and the local matrix
        and the messages are empty.
    route, fold_route : PartRoute or None
        The hops in which the same rows come, of a plan that has them; the fold's brings rows of the
        owners to where they are folded rows.
    claims : Claims or None
        None where nobody knows the tables of the plan: of slices that are made by hand.
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
    route: PartRoute | None = None
    fold_route: PartRoute | None = None
    claims: Claims | None = None

    @classmethod
    def of_rows(
        cls,
        index: int,
        num_parts: int,
        first_row: int,
        global_id: Int32Array,
        vertex_data: VertexData,
        grid: GridShare | None = None,
        dtype: npt.DTypeLike = np.float32,
    ) -> Part:
        """Rows without nonzeros and messages; parameters are attributes, `dtype` the values'."""
        nothing, zero = np.zeros(0, np.int32), np.zeros(1, np.int64)
        return cls(
            index=index,
            num_parts=num_parts,
            first_row=first_row,
            global_id=global_id,
            num_interior=len(global_id),
            row_ptr=np.zeros(len(global_id) + 1, np.int64),
            column=nothing,
            value=np.zeros(0, dtype),
            send_peer=nothing,
            send_ptr=zero,
            send_row=nothing,
            recv_peer=nothing,
            recv_ptr=zero,
            vertex_data=vertex_data,
            grid=grid,
        )

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


def _message(peers: Int32Array, ptr: Int64Array, peer: int, rows: Int32Array) -> Int32Array:
    at = np.searchsorted(peers, peer)
    found = at < len(peers) and peers[at] == peer
    return rows[ptr[at] : ptr[at + 1]] if found else rows[:0]


@dataclass(frozen=True)
class PartRange:
    """Parts ``first..last-1`` of a plan, side by side as in the file.

    Attributes
    ----------
    first, last : int
    part_ptr : int64[num_parts + 1]
        First row of every part in plan order, for *all* parts of the plan.
    local_ptr : int64[last - first + 1]
        Where the local rows of every part start in `row_ptr`.
    send, receive : Exchange
        Messages of these parts; part `first` has number 0 there.
    global_id, row_ptr, column, value, vertex_data, fold, route, fold_route
        As in `plancc.plan.plan.Plan`, for these parts.
    topology : Topology or None
        Of all parts; None: there are no routes.
    """

    first: int
    last: int
    part_ptr: Int64Array
    global_id: Int32Array
    local_ptr: Int64Array
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    send: Exchange
    receive: Exchange
    vertex_data: VertexData = field(default_factory=VertexData)
    fold: Fold | None = None
    topology: Topology | None = None
    route: Route | None = None
    fold_route: Route | None = None

    @property
    def first_row(self) -> int:
        """Plan order of the first row."""
        return int(self.part_ptr[self.first])

    def only_part(self, num_interior: int) -> Part:
        """The part that a range of one part is."""
        assert self.last == self.first + 1
        fold = route = fold_route = None
        rows = RankRows(
            self.first,
            np.arange(len(self.part_ptr)),
            self.first_row,
            np.arange(len(self.global_id), dtype=np.int32),
        )
        if self.route is not None:
            route = part_route(self.route, self.place_of_halo(), rows)
        if self.fold is not None and self.fold_route is not None:
            folded = self.part_ptr[self.fold.send.peer_of_row()] + self.fold.send.row
            fold_route = part_route(self.fold_route, folded, rows)
        if self.fold is not None:
            send, receive = self.fold.send, self.fold.receive
            fold = PartFold(send.peer, send.row_ptr, receive.peer, receive.row_ptr, receive.row)
        return Part(
            index=self.first,
            num_parts=len(self.part_ptr) - 1,
            first_row=self.first_row,
            global_id=self.global_id,
            num_interior=num_interior,
            row_ptr=self.row_ptr,
            column=self.column,
            value=self.value,
            send_peer=self.send.peer,
            send_ptr=self.send.row_ptr,
            send_row=self.send.row,
            recv_peer=self.receive.peer,
            recv_ptr=self.receive.row_ptr,
            vertex_data=self.vertex_data,
            fold=fold,
            route=route,
            fold_route=fold_route,
        )

    def of_parts(self, first: int, last: int) -> PartRange:
        """Some of these parts, counted from the first, without vertex data."""
        at, nonzero = self.local_ptr[first : last + 1], self.row_ptr[self.local_ptr]
        begin, end = nonzero[first], nonzero[last]
        rows = self.part_ptr[[self.first + first, self.first + last]] - self.first_row
        return PartRange(
            first=self.first + first,
            last=self.first + last,
            part_ptr=self.part_ptr,
            global_id=self.global_id[rows[0] : rows[1]],
            local_ptr=at - at[0],
            row_ptr=self.row_ptr[at[0] : at[-1] + 1] - begin,
            column=self.column[begin:end],
            value=self.value[begin:end],
            send=self.send.of_parts(first, last),
            receive=self.receive.of_parts(first, last),
            fold=None if self.fold is None else self.fold.of_parts(first, last),
            topology=self.topology,
            route=None if self.route is None else self.route.of_parts(first, last),
            fold_route=None if self.fold_route is None else self.fold_route.of_parts(first, last),
        )

    def steps(self) -> dict[str, Step]:
        """The messages of every step and hop, by the names of `Header.steps`."""
        return steps_of(Step(self.send, self.receive), self.fold, self.route, self.fold_route)

    def part_of_nonzero(self) -> Int64Array:
        """The part that holds each nonzero, int64[nonzeros]."""
        counts = np.diff(self.row_ptr[self.local_ptr])
        return np.repeat(np.arange(self.first, self.last), counts)

    def halo_ptr(self) -> Int64Array:
        """Where the received rows of every part start among all: int64[last - first + 1]."""
        return self.receive.row_ptr[self.receive.ptr]

    def is_own_row(self) -> npt.NDArray[np.bool_]:
        """Which local rows their part owns, bool[local rows]; the others are folded."""
        held, rows = np.diff(self.local_ptr), np.diff(self.part_ptr)[self.first : self.last]
        local = np.arange(self.local_ptr[-1]) - np.repeat(self.local_ptr[:-1], held)
        return local < np.repeat(rows, held)

    def has_received_column(self) -> npt.NDArray[np.bool_]:
        """Which nonzeros use a received row of H, bool[nonzeros]."""
        return self.column >= np.diff(self.part_ptr)[self.part_of_nonzero()]

    def place_of_rows(self) -> Int64Array:
        """Plan order of every local row, int64[local rows]."""
        own_place = np.arange(self.first_row, self.part_ptr[self.last])
        if self.fold is None:
            return own_place
        own, fold = self.is_own_row(), self.fold.send
        place = np.empty(len(own), dtype=np.int64)
        place[own] = own_place
        place[~own] = self.part_ptr[fold.peer_of_row()] + fold.row
        return place

    def place_of_halo(self) -> Int64Array:
        """Plan order of every received row, int64[received rows]."""
        return self.part_ptr[self.receive.peer_of_row()] + self.receive.row

    def place_of_columns(self) -> Int64Array:
        """Plan order of every nonzero's column, int64[nonzeros]."""
        part = self.part_of_nonzero()
        rows = np.diff(self.part_ptr)[part]
        received = self.column >= rows
        place = self.part_ptr[part] + self.column
        part, slot = part[received] - self.first, (self.column - rows)[received]
        place[received] = self.place_of_halo()[self.halo_ptr()[part] + slot]
        return place
