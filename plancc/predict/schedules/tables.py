"""Tables: the sizes of a plan's parts and the messages between parts, from which schedules are
built.

`plan_tables` reads tables from plans; `owner_tables` counts tables for owners, without a plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.grid import Grid
from plancc.plan.topology import Topology
from plancc.predict.schedule import Pairs
from plancc.predict.schedules.links import LinkTables

if TYPE_CHECKING:
    from plancc.predict.schedules.row import RowScheduler


@dataclass(frozen=True, eq=False)
class Live:
    """What remains of a row plan in every layer if dead rows are left out.

    A subclass may have a `scheduler`, for steps other than epochs of a row plan.

    Attributes:
        inputs (int64[num_parts]): Rows of H^0 that the first layer reads.
        layers: Tables of every layer: its output rows, their nonzeros, and the messages that bring
            the halo rows.
    """

    scheduler: ClassVar[type[RowScheduler] | None] = None
    inputs: Int64Array
    layers: tuple[Tables, ...]


@dataclass(frozen=True, eq=False)
class Tables:
    """Sizes of the parts of a plan, and the number of rows that parts send to each other.

    `read_tables` and `tables_of` make tables from a plan, and `tables_of_owners` makes tables from
    owners. Tables can also be made from measured or assumed sizes, without a graph.

    Attributes:
        name: Name of the plan, for tables.
        layout: "row", "edge", "grid" or "feature".
        rows, nonzeros (int64[num_parts]): Rows that a part owns, and nonzeros that it holds.
        expand: Messages between parts; may be empty for layouts that only broadcast.
        fold: For layout "edge": messages from the parts to the owners.
        grid: Process grid for layouts "grid" and "feature".
        own_nonzeros (int64[num_parts] or None): For layout "edge": nonzeros in own rows.
        boundary_nonzeros (int64[num_parts] or None): Number of nonzeros in rows that have at least
            one nonzero in a halo column; None if unknown.
        halo_nonzeros (int64[num_parts] or None): For layout "row": number of nonzeros in halo
            columns; None if not counted.
        leaves: For layout "edge": messages by which each part would get the vertices of its
            nonzeros that other parts own; None if not counted.
        blocks (int64[num_parts, k] or None): Number of nonzeros of every part, by the piece of
            their columns (`piece_of_rows`). None if they are assumed to be proportional to the rows
            of the pieces.
        undirected: Whether the matrix equals its transpose.
        self_loops: Whether the identity was added to the matrix.
        notes: Assumptions, as sentences.
        topology: Which parts share a node, if the plan has node-aware exchange; else None.
        live: For layout "row": tables of every layer without dead rows; None if not counted.
        links: Tables for link prediction; None for other tasks.
    """

    name: str
    layout: str
    rows: Int64Array
    nonzeros: Int64Array
    expand: Pairs
    fold: Pairs | None = None
    grid: Grid | None = None
    own_nonzeros: Int64Array | None = None
    boundary_nonzeros: Int64Array | None = None
    halo_nonzeros: Int64Array | None = None
    leaves: Pairs | None = None
    blocks: Int64Array | None = None
    undirected: bool = False
    self_loops: bool = False
    notes: tuple[str, ...] = ()
    topology: Topology | None = None
    live: Live | None = None
    links: LinkTables | None = None

    @property
    def exchanges(self) -> list[Pairs]:
        """The exchanges of a product: the expand and, for layout "edge", the fold."""
        return [self.expand] if self.fold is None else [self.expand, self.fold]

    def flat(self) -> Tables:
        """Return the tables without hops."""
        live, expand = self.live, replace(self.expand, hops=())
        if live is not None:
            live = replace(live, layers=tuple(each.flat() for each in live.layers))
        fold = None if self.fold is None else replace(self.fold, hops=())
        return replace(self, topology=None, expand=expand, fold=fold, live=live)

    def on_nodes(self, ranks_per_node: int) -> Tables:
        """Return the tables; hops are kept only if nodes of the topology have this number of
        ranks."""
        if self.topology is None:
            return self
        node = np.arange(self.num_parts) // ranks_per_node
        return self if np.array_equal(self.topology.node_of_rank(), node) else self.flat()

    @property
    def scheme(self) -> str:
        """The scheme of the grid; without a grid, the layout."""
        return self.layout if self.grid is None else self.grid.scheme

    @property
    def num_parts(self) -> int:
        return len(self.rows)

    @property
    def num_ranks(self) -> int:
        return self.num_parts if self.grid is None else self.grid.num_ranks

    @property
    def part_ptr(self) -> Int64Array:
        """First row of every part in plan order, int64[num_parts + 1]."""
        return np.concatenate([[0], np.cumsum(self.rows)])


def divides_columns(grid: Grid) -> bool:
    """Return whether the ranks of a part divide its nonzeros by column, which `Tables.blocks`
    counts."""
    return grid.scheme in ("1.5d", "2d", "3d")


def sends_rows(grid: Grid | None) -> bool:
    """Return whether parts send each other only needed rows, as without a grid."""
    return grid is None or grid.sparse or (grid.scheme == "feature" and grid.rows > 1)


def pieces_of_grid(grid: Grid) -> int:
    """Return the number of pieces of columns that divide a part's nonzeros (`piece_of_rows`)."""
    if grid.scheme == "1.5d":
        return grid.columns
    return grid.layers * math.lcm(grid.rows, grid.columns)


def piece_of_rows(grid: Grid, part_ptr: Int64Array) -> Int32Array:
    """Return the piece that column j of A belongs to, for every j in plan order: int32[n].

    For "1.5d" this is the chunk, otherwise ``layer * pieces + number`` with `Grid.pieces` numbers.
    """
    found = np.zeros(int(part_ptr[-1]), np.int32)
    if grid.scheme == "1.5d":
        chunk = np.array([grid.chunk(part) for part in range(grid.num_parts)], np.int32)
        return np.repeat(chunk, np.diff(part_ptr))
    for layer in range(grid.layers):
        pieces = grid.pieces(part_ptr, layer)
        for number, piece in enumerate(pieces):
            found[piece.first : piece.last] = layer * len(pieces) + number
    return found
