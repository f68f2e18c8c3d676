"""`Tables`: the sizes of a plan's parts and messages, from which schedules are built.

`plan_tables` reads tables from plans. `owner_tables` computes tables from owners, without a plan.
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
    """Tables of a row plan's layers. They leave out *dead* rows: no output in the loss needs them.

    A derived class sets `scheduler` if its epochs have other steps than those of a row plan.

    Attributes:
        inputs (int64[num_parts]): Rows of H^0 that the first layer reads.
        layers: Tables of every layer, with only the computed rows, their nonzeros and halo rows.
    """

    scheduler: ClassVar[type[RowScheduler] | None] = None
    inputs: Int64Array
    layers: tuple[Tables, ...]


@dataclass(frozen=True, eq=False)
class Tables:
    """Sizes of the parts of a plan, and the number of rows that parts send to each other.

    Tables can be made from a plan, from owners, or from sizes without a graph.

    Attributes:
        name: Name of the plan, for messages and printed tables.
        layout: "row", "edge", "grid" or "feature".
        rows, nonzeros (int64[num_parts]): Rows that a part owns, and nonzeros that it holds.
        expand: Messages with needed rows; empty if the layout only broadcasts rows.
        fold: For layout "edge": messages with partial sums.
        grid: Process grid, for layouts "grid" and "feature".
        own_nonzeros (int64[num_parts] or None): For layout "edge": nonzeros in own rows.
        boundary_nonzeros (int64[num_parts] or None): Nonzeros in boundary rows; None if unknown.
        halo_nonzeros (int64[num_parts] or None): For layout "row": nonzeros in halo columns; None
            if not counted.
        leaves: For layout "edge": messages if each part received a row for every vertex in its
            nonzeros that another part owns; None if not counted.
        blocks (int64[num_parts, k] or None): Nonzeros of a part in each piece of A's columns
            (`piece_of_rows`). None: spread evenly.
        undirected: Whether the matrix equals its transpose.
        self_loops: Whether the identity was added to the matrix.
        notes: Sentences that say what the tables assume.
        topology: Nodes of a node-aware exchange; else None.
        live: For layout "row": tables of every layer without dead rows, on which no output in the
            loss depends; None if not counted.
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
        """Return the tables that the plan would have if every row were sent without hops."""
        live, expand = self.live, replace(self.expand, hops=())
        if live is not None:
            live = replace(live, layers=tuple(each.flat() for each in live.layers))
        fold = None if self.fold is None else replace(self.fold, hops=())
        return replace(self, topology=None, expand=expand, fold=fold, live=live)

    def on_nodes(self, ranks_per_node: int) -> Tables:
        """Return the tables for a machine with this number of ranks per node.

        Hops for nodes of another size are left out: every row is then sent directly.
        """
        if self.topology is None:
            return self
        node = np.arange(self.num_parts) // ranks_per_node
        return self if np.array_equal(self.topology.node_of_rank(), node) else self.flat()

    @property
    def scheme(self) -> str:
        """The scheme of the process grid, such as "1.5d". For a plan without a grid, its layout."""
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
    """Return whether several ranks share a part's nonzeros by column (see `Tables.blocks`)."""
    return grid.scheme in ("1.5d", "2d", "3d")


def sends_rows(grid: Grid | None) -> bool:
    """Return whether parts send only needed rows, in messages; True if there is no grid."""
    return grid is None or grid.sparse or (grid.scheme == "feature" and grid.rows > 1)


def pieces_of_grid(grid: Grid) -> int:
    """Return the number of pieces into which the columns of A are divided (`piece_of_rows`)."""
    if grid.scheme == "1.5d":
        return grid.columns
    return grid.layers * math.lcm(grid.rows, grid.columns)


def piece_of_rows(grid: Grid, part_ptr: Int64Array) -> Int32Array:
    """Return, for each column of A in plan order, the number of its piece: int32[n].

    A piece has the columns that a rank broadcasts at once (`Grid.pieces`). In scheme "1.5d", the
    number is the part's `Grid.chunk`. Otherwise, the pieces of all grid layers are numbered one
    layer after the other.
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
