"""Merge several parts of a plan on one rank.

Messages between these parts are dropped, and a row that several of them receive is sent once. Both
ends of a message sort its rows in plan order, so a rank knows in which order rows arrive. The
nonzeros of a folded row whose owner is on the same rank are added to the own row. If some rank
would have parts of several nodes, rows are sent without hops.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Exchange, Int64Array, Side, interval, runs
from plancc.plan.links import links_of_rank, places_of
from plancc.plan.parts import Part, PartRange
from plancc.plan.rank_parts import RankParts
from plancc.plan.routed import RankRows, exchange_of_rank
from plancc.plan.values import LINKS


def merge(block: PartRange, held: RankParts, vertex_data: VertexData) -> Part:
    """Merge the parts of a rank into one part, whose peers are ranks. The plan must have no grid.

    Features are reordered in place (`VertexData.reordered`).
    """
    rank, ranks = held.rank, held.ranks
    part_ptr, row0, row1 = block.part_ptr, block.first_row, int(block.part_ptr[block.last])
    row_place = np.repeat(block.place_of_rows(), np.diff(block.row_ptr))
    column_place, halo = block.place_of_columns(), block.place_of_halo()

    # Keep each foreign row once, sort own rows (interior rows first), and number own columns first.
    foreign = (column_place < row0) | (column_place >= row1)
    partial = (row_place < row0) | (row_place >= row1)
    halo = np.unique(halo[(halo < row0) | (halo >= row1)])
    folded = np.unique(row_place[partial])
    is_boundary = np.bincount(row_place[foreign & ~partial] - row0, minlength=row1 - row0) > 0
    order = np.argsort(is_boundary, kind="stable")
    local = np.empty(len(order), dtype=np.int64)
    local[order] = np.arange(len(order))
    column = _renumbered(column_place, foreign, local, row0, halo).astype(np.int32)
    row = _renumbered(row_place, partial, local, row0, folded)
    nonzeros = np.lexsort((foreign, row))
    counts = np.bincount(row, minlength=len(order) + len(folded))

    own, first_row = local.astype(np.int32), part_ptr[ranks]

    def owned(side: Side) -> Side:
        """Merge a side of an exchange that lists own rows; rows get their local numbers."""
        in_plan = part_ptr[block.first + side.part_of_row()] + side.row
        merged = side.called(in_plan).merged(rank, ranks)
        return merged.called(own[merged.row - row0])

    def foreign_side(rows: Int64Array) -> Side:
        """Return messages (a `Side`) with these `rows` of other ranks, ascending in plan order."""
        return Side.of_rank(*runs(interval(rows, first_row)))

    links = linked = None
    if block.links is not None:
        of_links = block.exchanges[LINKS]
        ends = places_of(block.links, part_ptr, block.first, of_links.receive)
        links, arrives = links_of_rank(block.links, ends, (row0, row1), own)
        linked = Exchange(owned(of_links.send), foreign_side(arrives))
    fold = block.exchanges.fold
    if fold is not None:  # a fold sends to the owners
        fold = Exchange(foreign_side(folded), owned(fold.receive))
    expand = Exchange(owned(block.exchanges.expand.send), foreign_side(halo))
    rows = RankRows(held, row0, own)
    expand = exchange_of_rank("expand", expand, block.exchanges, halo, rows)
    if fold is not None:
        fold = exchange_of_rank("fold", fold, block.exchanges, folded, rows)
    return Part(
        index=rank,
        num_parts=len(ranks) - 1,
        first_row=row0,
        global_id=block.global_id[order],
        num_interior=int((~is_boundary).sum()),
        row_ptr=np.concatenate([[0], counts]).cumsum(),
        column=column[nonzeros],
        value=block.value[nonzeros],
        columns=block.columns_at(nonzeros),
        expand=expand,
        vertex_data=vertex_data.reordered(order),
        fold=fold,
        links=links,
        link_exchange=linked,
    )


def _renumbered(
    place: Int64Array,
    foreign: npt.NDArray[np.bool_],
    local: Int64Array,
    row0: int,
    others: Int64Array,
) -> Int64Array:
    """Turn the places of rows in plan order into local indices, int64[places].

    Own rows get their index from `local`; `row0` is the place of the first own row. Rows of other
    ranks, which `foreign` marks, follow; `others` holds the places of all these rows, ascending.
    """
    found = np.empty(len(place), dtype=np.int64)
    found[~foreign] = local[place[~foreign] - row0]
    found[foreign] = len(local) + np.searchsorted(others, place[foreign])
    return found
