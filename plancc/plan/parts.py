"""Parts of a plan: one as a rank executes it, or several side by side."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.columns import WithColumns
from plancc.graph.types import distinct_columns
from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, Side
from plancc.plan.grid import Grid
from plancc.plan.links import PartLinks
from plancc.plan.rank_parts import RankParts
from plancc.plan.routed import RankRows, exchange_of_rank
from plancc.plan.values import LINKS, Exchanges


def taken(array: Any, places: Any) -> Any:
    """Some rows of an array that may be missing."""
    return None if array is None else array[places]


@dataclass(frozen=True)
class Claims:
    """What a slice says of the slices of other ranks, so that all can compare it.

    Attributes:
        sent, expected (int64[steps, num_ranks]): Digest of the messages to, and from, the parts of
            every rank: in the expand, in the fold of an edge plan, and in the hops of routes. Of
            parts, not of ranks: this rank's own are among them.
        vertices: Sum of the scattered ids of this rank's vertices less its share of that of 0..n-1,
            modulo 2^64: sums of all ranks add up to 0 if they have every vertex once.
        nonzeros: Nonzeros of this rank less its share of those in the header: likewise.
        folds: Whether the second step is the fold.
    """

    sent: Int64Array
    expected: Int64Array
    vertices: int
    nonzeros: int
    folds: bool = False


@dataclass(frozen=True)
class GridShare:
    """A rank's share of a process grid beside the rows of a `Part`.

    Attributes:
        part_ptr (int64[num_parts + 1]): First row of every part in plan order.
        row_ptr, place, value (int64[rows of the process row + 1], int32[m], float[m]): CSR of the
            block of A that this rank multiplies with or broadcasts: all rows of its process row (in
            a layer of "3d" more than its own) and, as places in plan order, the columns of its
            process column. Without nonzeros if `block` is there.
        block: This rank's part of the row plan, with messages between parts and without vertex
            data: of "feature", and of schemes that send needed rows only.
    """

    grid: Grid
    rank: int
    part_ptr: Int64Array
    row_ptr: Int64Array
    place: Int32Array
    value: npt.NDArray[np.floating]
    block: Part | None = None


@dataclass(frozen=True)
class Part(WithColumns):
    """One part's slice of a plan (or several parts merged onto one rank, `plancc.plan.merge`).

    Attributes:
        index, num_parts: Number of this part and of all parts (after merging: ranks).
        first_row: Plan order of this part's first row.
        global_id (int32[rows]): Vertex of every local row.
        num_interior: Rows ``0..num_interior-1`` use own columns only; the others use at least one
            halo row.
        row_ptr, column, value (int64[local rows + 1], int32[nonzeros], float[nonzeros]): Local CSR;
            rows numbered [own rows | folded rows], columns [own rows | received rows], distinct,
            own ones first in a row.
        columns: What nonzeros carry beside their values.
        expand: Own rows go to the peers; halo row k is the local column ``rows + k``.
        vertex_data: This part's rows, in local order.
        fold: Folded row k, the local row ``rows + k``, goes to its owner, and partial rows of the
            peers come for own rows, to be added in this order. None in a row plan, which has no
            folded rows.
        grid: Layouts "grid" and "feature" only (`plancc.plan.grid_slices`): `index` and `num_parts`
            count ranks, the rows of H are here that this rank has between products, and the local
            matrix and the messages are empty.
        links: Links whose sources are own rows; targets are local columns, behind own rows those
            that `link_exchange` brings.
        claims: None where nobody knows the tables of the plan: of slices that are made by hand.
    """

    index: int
    num_parts: int
    first_row: int
    global_id: Int32Array
    num_interior: int
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    expand: Exchange
    vertex_data: VertexData = field(default_factory=VertexData)
    fold: Exchange | None = None
    grid: GridShare | None = None
    claims: Claims | None = None
    links: PartLinks | None = None
    link_exchange: Exchange | None = None

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
        return cls(
            index=index,
            num_parts=num_parts,
            first_row=first_row,
            global_id=global_id,
            num_interior=len(global_id),
            row_ptr=np.zeros(len(global_id) + 1, np.int64),
            column=np.zeros(0, np.int32),
            value=np.zeros(0, dtype),
            expand=Exchange.nothing(),
            vertex_data=vertex_data,
            grid=grid,
        )

    @property
    def num_rows(self) -> int:
        return len(self.global_id)

    @property
    def num_halo(self) -> int:
        return self.expand.receive.volume

    def send_mask(self, peer: int) -> Int32Array:
        """Local rows that go to `peer`, in the order of the message; empty if none do."""
        return self.expand.send.message(peer)


@dataclass(frozen=True)
class PartRange(WithColumns):
    """Parts ``first..last-1`` of a plan, side by side as in the file.

    Attributes:
        part_ptr (int64[num_parts + 1]): First row of every part in plan order, for *all* parts of
            the plan.
        local_ptr (int64[last - first + 1]): Where the local rows of every part start in `row_ptr`.
        exchanges: Messages of these parts; part `first` has number 0 there.
        global_id, row_ptr, column, value, vertex_data, columns: As in `plancc.plan.plan.Plan`, for
            these parts.
        links: Of these parts.
    """

    first: int
    last: int
    part_ptr: Int64Array
    global_id: Int32Array
    local_ptr: Int64Array
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    exchanges: Exchanges
    vertex_data: VertexData = field(default_factory=VertexData)
    links: PartLinks | None = None

    @property
    def first_row(self) -> int:
        """Plan order of the first row."""
        return int(self.part_ptr[self.first])

    def only_part(self, num_interior: int, held: RankParts) -> Part:
        """The part that a range of one part is; `held` by a rank alone."""
        assert self.last == self.first + 1
        rows = RankRows(held, self.first_row, np.arange(len(self.global_id), dtype=np.int32))
        expand = self.exchanges.expand
        halo = Side.of_rank(expand.receive.peer, expand.receive.row_ptr)
        expand = Exchange(expand.send, halo)
        expand = exchange_of_rank("expand", expand, self.exchanges, self.place_of_halo(), rows)
        fold = self.exchanges.fold
        if fold is not None:
            folded = Side.of_rank(fold.send.peer, fold.send.row_ptr)
            fold = Exchange(folded, fold.receive)
            fold = exchange_of_rank("fold", fold, self.exchanges, self.place_of_folded(), rows)
        linked = self.exchanges.get(LINKS)
        if linked is not None:
            arrives = Side.of_rank(linked.receive.peer, linked.receive.row_ptr)
            linked = Exchange(linked.send, arrives)
        return Part(
            index=self.first,
            num_parts=len(self.part_ptr) - 1,
            first_row=self.first_row,
            global_id=self.global_id,
            num_interior=num_interior,
            row_ptr=self.row_ptr,
            column=self.column,
            value=self.value,
            columns=self.columns,
            expand=expand,
            vertex_data=self.vertex_data,
            fold=fold,
            links=self.links,
            link_exchange=linked,
        )

    def of_parts(self, first: int, last: int) -> PartRange:
        """Some of these parts, counted from the first, without vertex data; arrays are views."""
        at = self.local_ptr[first : last + 1]
        begin, end = self.row_ptr[at[[0, -1]]]
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
            columns=self.columns_at(slice(begin, end)),
            exchanges=self.exchanges.of_parts(first, last),
            links=None if self.links is None else self.links.of_parts(first, last),
        )

    def with_distinct_columns(self) -> PartRange:
        """The first nonzero of each column of a row, where several stand together; no values."""
        if self.relation is None:
            return self
        first, row_ptr = distinct_columns(self.row_ptr, self.column)
        return replace(self, row_ptr=row_ptr, column=self.column[first], columns={})

    def part_of_nonzero(self) -> Int64Array:
        """The part that holds each nonzero, int64[nonzeros]."""
        counts = np.diff(self.row_ptr[self.local_ptr])
        return np.repeat(np.arange(self.first, self.last), counts)

    def halo_ptr(self) -> Int64Array:
        """Where the received rows of every part start among all: int64[last - first + 1]."""
        received = self.exchanges.expand.receive
        return received.row_ptr[received.ptr]

    def is_own_row(self) -> npt.NDArray[np.bool_]:
        """Which local rows their part owns, bool[local rows]; the others are folded."""
        held, rows = np.diff(self.local_ptr), np.diff(self.part_ptr)[self.first : self.last]
        local = np.arange(self.local_ptr[-1]) - np.repeat(self.local_ptr[:-1], held)
        return local < np.repeat(rows, held)

    def place_of_rows(self) -> Int64Array:
        """Plan order of every local row, int64[local rows]."""
        own_place = np.arange(self.first_row, self.part_ptr[self.last])
        if self.exchanges.fold is None:
            return own_place
        own = self.is_own_row()
        place = np.empty(len(own), dtype=np.int64)
        place[own] = own_place
        place[~own] = self.place_of_folded()
        return place

    def place_of_halo(self) -> Int64Array:
        """Plan order of every received row, int64[received rows]."""
        received = self.exchanges.expand.receive
        return self.part_ptr[received.peer_of_row()] + received.row

    def place_of_folded(self) -> Int64Array:
        """Plan order of every folded row, int64[folded rows]."""
        if self.exchanges.fold is None:
            return np.zeros(0, np.int64)
        folded = self.exchanges.fold.send
        return self.part_ptr[folded.peer_of_row()] + folded.row

    def place_of_columns(self) -> Int64Array:
        """Plan order of every nonzero's column, int64[nonzeros]."""
        part = self.part_of_nonzero()
        rows = np.diff(self.part_ptr)[part]
        received = self.column >= rows
        place = self.part_ptr[part] + self.column
        part, slot = part[received] - self.first, (self.column - rows)[received]
        place[received] = self.place_of_halo()[self.halo_ptr()[part] + slot]
        return place
