"""Parts of a plan: `Part`, which one rank runs, and `PartRange`, some consecutive parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.columns import WithColumns
from plancc.graph.types import distinct_columns
from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Exchange, Int32Array, Int64Array
from plancc.plan.grid import Grid
from plancc.plan.links import PartLinks
from plancc.plan.rank_parts import RankParts
from plancc.plan.routed import RankRows, exchange_of_rank
from plancc.plan.values import LINKS, Exchanges


def taken(array: Any, places: Any) -> Any:
    """Return ``array[places]``; None if `array` is None."""
    return None if array is None else array[places]


@dataclass(frozen=True)
class Claims:
    """Figures of one rank's slice that must match the figures of all other ranks' slices.

    The `vertices` of all ranks add up to 0, and so do their `nonzeros`.

    Attributes:
        sent, expected (int64[steps, num_ranks]): Digests of messages to and from every rank. The
            steps are the expand, the fold and the hops.
        vertices: Sum of the hashes (`mix`) of own vertices, minus the sum of the hashes of an even
            share of the vertices 0..n-1, which is this rank's.
        nonzeros: Number of own nonzeros, minus an even share of the header's number.
        folds: Whether the plan has a fold.
    """

    sent: Int64Array
    expected: Int64Array
    vertices: int
    nonzeros: int
    folds: bool = False


@dataclass(frozen=True)
class GridShare:
    """What a rank reads of a grid plan, in addition to the rows of its `Part`.

    Attributes:
        part_ptr (int64[num_parts + 1]): First row of every part in plan order.
        row_ptr, place, value: CSR of the rank's block of A: rows of the process row, columns of the
            process column as places in plan order. Empty if `block` is given.
        block: Part of the row plan, for scheme "feature" and sparse grids; otherwise None.
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
    """One part's slice of a plan, or several parts merged on one rank (`plancc.plan.merge`).

    Attributes:
        index, num_parts: Index of this part, and number of all parts. After a merge: index of this
            rank, and number of all ranks.
        first_row: Position of this part's first row in plan order.
        global_id (int32[rows]): Vertex of every own row.
        num_interior: Rows ``0..num_interior-1`` use only columns of own rows. Every other own row
            uses a halo row.
        row_ptr, column, value (int64[local rows + 1], int32[nonzeros], float[nonzeros]): Local CSR
            matrix. Its rows are the own rows, then the folded rows. Its columns are the own rows,
            then the received rows. The columns of a row are distinct, and columns of own rows come
            first.
        columns: Other arrays with an entry for every nonzero, such as relations, by name.
        expand: Messages that send own rows to the peers. Halo row k is the local column
            ``rows + k``.
        vertex_data: Data of this part's own rows, in local order.
        fold: The exchange of partial sums. This part sends folded row k, which is local row ``rows
            + k``, to the owner of the row. It receives the peers' partial sums of its own rows, and
            adds them in the order of messages. None in a row plan, which has no folded rows.
        grid: The rank's share of a plan of layout "grid" or "feature" (`plancc.plan.grid_slices`);
            otherwise None. With a grid, `index` is the rank and `num_parts` the number of ranks.
            The own rows are the rows of H that this rank holds between products. The local matrix
            and the messages are empty.
        claims: Figures that must match those of all other ranks' slices; None if not computed yet.
        links: Pairs for link prediction whose sources are own rows. Targets are numbered locally:
            own rows, then the rows received in `link_exchange`.
        link_exchange: Messages with the rows of the links' targets; None if the plan has no links.
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
        """Return a part that has rows, but neither nonzeros nor messages.

        `dtype` is the dtype of the part's empty array `value`.
        """
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
        """Return the local rows that are sent to `peer`, in the order of the message.

        The result is empty if there is no message.
        """
        return self.expand.send.message(peer)


@dataclass(frozen=True)
class PartRange(WithColumns):
    """Parts ``first..last-1`` of a plan. Each array holds their entries one part after another.

    Attributes:
        part_ptr (int64[num_parts + 1]): First row in plan order, for *all* parts of the plan.
        global_id, num_interior, row_ptr, column, value, columns: As in `plancc.plan.plan.Plan`.
        exchanges: Messages of these parts; ``ptr[0]`` of a `Side` belongs to part `first`.
        links: Links of these parts; None if the plan has no links.
    """

    first: int
    last: int
    part_ptr: Int64Array
    global_id: Int32Array
    num_interior: Int64Array
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    exchanges: Exchanges
    links: PartLinks | None = None

    @property
    def first_row(self) -> int:
        """Place of the range's first row in plan order."""
        return int(self.part_ptr[self.first])

    @cached_property
    def local_ptr(self) -> Int64Array:
        """Offsets in `row_ptr` of each part's local rows, int64[last - first + 1]."""
        rows = self.part_ptr[self.first : self.last + 1] - self.first_row
        if self.exchanges.fold is None:
            return rows
        folded = self.exchanges.fold.send
        return rows + folded.row_ptr[folded.ptr]

    def only_part(self, held: RankParts) -> Part:
        """Return the only part of this range as a `Part` of the rank that `held` describes."""
        assert self.last == self.first + 1
        rows = RankRows(held, self.first_row, np.arange(len(self.global_id), dtype=np.int32))
        expand = self.exchanges.expand
        expand = Exchange(expand.send, expand.receive.consecutive())
        expand = exchange_of_rank("expand", expand, self.exchanges, self.place_of_halo(), rows)
        fold = self.exchanges.fold
        if fold is not None:
            fold = Exchange(fold.send.consecutive(), fold.receive)
            fold = exchange_of_rank("fold", fold, self.exchanges, self.place_of_folded(), rows)
        linked = self.exchanges.get(LINKS)
        if linked is not None:
            linked = Exchange(linked.send, linked.receive.consecutive())
        return Part(
            index=self.first,
            num_parts=len(self.part_ptr) - 1,
            first_row=self.first_row,
            global_id=self.global_id,
            num_interior=int(self.num_interior[0]),
            row_ptr=self.row_ptr,
            column=self.column,
            value=self.value,
            columns=self.columns,
            expand=expand,
            fold=fold,
            links=self.links,
            link_exchange=linked,
        )

    def of_parts(self, first: int, last: int) -> PartRange:
        """Return the parts ``first..last-1``, counted from the first part of this range.

        The arrays of the result are views.
        """
        at = self.local_ptr[first : last + 1]
        begin, end = self.row_ptr[at[[0, -1]]]
        rows = self.part_ptr[[self.first + first, self.first + last]] - self.first_row
        return PartRange(
            first=self.first + first,
            last=self.first + last,
            part_ptr=self.part_ptr,
            global_id=self.global_id[rows[0] : rows[1]],
            num_interior=self.num_interior[first:last],
            row_ptr=self.row_ptr[at[0] : at[-1] + 1] - begin,
            column=self.column[begin:end],
            value=self.value[begin:end],
            columns=self.columns_at(slice(begin, end)),
            exchanges=self.exchanges.of_parts(first, last),
            links=None if self.links is None else self.links.of_parts(first, last),
        )

    def with_distinct_columns(self) -> PartRange:
        """Return these parts with parallel nonzeros (same row and column) merged.

        In the result, only `row_ptr` and `column` are valid.
        """
        if self.relation is None:
            return self
        first, row_ptr = distinct_columns(self.row_ptr, self.column)
        return replace(self, row_ptr=row_ptr, column=self.column[first], columns={})

    def part_of_nonzero(self) -> Int64Array:
        """Return the part that holds each nonzero, int64[nonzeros]."""
        counts = np.diff(self.row_ptr[self.local_ptr])
        return np.repeat(np.arange(self.first, self.last), counts)

    def halo_ptr(self) -> Int64Array:
        """Return each part's offsets in the list of all received rows, int64[last - first + 1]."""
        received = self.exchanges.expand.receive
        return received.row_ptr[received.ptr]

    def is_own_row(self) -> npt.NDArray[np.bool_]:
        """Return whether each local row is an own row and not a folded row: bool[local rows]."""
        held, rows = np.diff(self.local_ptr), np.diff(self.part_ptr)[self.first : self.last]
        local = np.arange(self.local_ptr[-1]) - np.repeat(self.local_ptr[:-1], held)
        return local < np.repeat(rows, held)

    def place_of_rows(self) -> Int64Array:
        """Return the position of every local row in plan order, int64[local rows]."""
        own_place = np.arange(self.first_row, self.part_ptr[self.last])
        if self.exchanges.fold is None:
            return own_place
        own = self.is_own_row()
        place = np.empty(len(own), dtype=np.int64)
        place[own] = own_place
        place[~own] = self.place_of_folded()
        return place

    def place_of_halo(self) -> Int64Array:
        """Return the position of every received row in plan order, int64[received rows]."""
        received = self.exchanges.expand.receive
        return self.part_ptr[received.peer_of_row()] + received.row

    def place_of_folded(self) -> Int64Array:
        """Return the position of every folded row in plan order, int64[folded rows]."""
        if self.exchanges.fold is None:
            return np.zeros(0, np.int64)
        folded = self.exchanges.fold.send
        return self.part_ptr[folded.peer_of_row()] + folded.row

    def place_of_columns(self) -> Int64Array:
        """Return, for every nonzero, the position of its column in plan order: int64[nonzeros]."""
        part = self.part_of_nonzero()
        rows = np.diff(self.part_ptr)[part]
        received = self.column >= rows
        place = self.part_ptr[part] + self.column
        part, slot = part[received] - self.first, (self.column - rows)[received]
        place[received] = self.place_of_halo()[self.halo_ptr()[part] + slot]
        return place
