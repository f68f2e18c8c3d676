"""Orders of a rank's rows that make products quicker: for the cache, or for a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix

from plancc.plan.exchange import Int64Array, nonzeros_of
from plancc.plan.parts import Part
from plancc.plan.stages import Batches
from plancc_runtime.layouts.pipeline import pipelining
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import swapped

if TYPE_CHECKING:
    from plancc.graph.vertexdata import VertexData


def order_rows(part: Part, method: str, pipeline: str, transport: Transport) -> Part:
    """Return the slice with its rows sorted by the method `method`. Collective.

    "auto" is "rcm" if there is a pipeline, else "none". In a feature plan, the ranks that share
    a part sort its rows together, so they exchange rows.
    """
    feature = part.grid is not None and part.grid.grid.scheme == "feature"
    if method == "auto":
        method = "rcm" if feature and pipeline != "off" else "none"
    if feature:
        return _order_group_rows(part, method, pipeline, transport)
    with transport.agreement():
        return order_for_cache(part, method)


def _order_group_rows(part: Part, method: str, pipeline: str, transport: Transport) -> Part:
    """Return the slice of a feature plan, ordered as `order_rows` describes. Collective."""
    if method == "none" and pipeline == "off":
        return part
    share = part.grid
    assert share is not None
    assert share.block is not None
    grid, place = share.grid, share.grid.position(share.rank).column
    with transport.agreement():
        order = row_order(share.block, method)
        share = replace(share, block=reordered(share.block, order))
        assert share.block is not None
        pipelined = pipelining(share, pipeline)
        batches = Batches(len(order), grid.columns, 1 if pipelined is None else pipelined.stages)
        rows = batches.rows_of(place)
        wanted = [order[batches.rows_of(k)] for k in range(grid.columns)]  # old row numbers
    members = grid.ranks_of_row(share.rank)
    first = int(share.part_ptr[grid.part(share.rank)])
    had = np.array([grid.rows_of_rank(share.part_ptr, member) for member in members]) - first
    return replace(
        part,
        global_id=share.block.global_id[rows],
        vertex_data=_handed_over(part.vertex_data, wanted, had, members, place, transport),
        num_interior=len(rows),
        row_ptr=np.zeros(len(rows) + 1, np.int64),
        grid=share,
    )


def _handed_over(
    data: VertexData,
    wanted: list[Int64Array],
    had: Int64Array,
    members: list[int],
    place: int,
    transport: Transport,
) -> VertexData:
    """Return the vertex data of this rank's new rows. Collective.

    The ranks of this rank's group (the `members`), which share a part, send the data.

    Parameters:
        data: Vertex data of this rank's old rows.
        wanted: For every member, its new rows, as indices into the old rows of the whole group.
        had (int64[members, 2]): For every member, the range ``first:last`` of its old rows.
        place: Position of this rank in `members`.
    """
    begin, end = had[place]
    goes = [rows[(rows >= begin) & (rows < end)] - begin for rows in wanted]
    mine = wanted[place]
    comes = [np.flatnonzero((mine >= a) & (mine < b)) for a, b in had]
    found: dict[str, Any] = {}
    for key, array in data.arrays().items():
        pieces = [array[:0]] * transport.size
        for member, rows in zip(members, goes, strict=True):
            pieces[member] = array[rows]
        arrived = swapped(pieces, transport, in_bytes=True)
        found[key] = out = np.empty((len(mine), *array.shape[1:]), array.dtype)
        for member, rows in zip(members, comes, strict=True):
            out[rows] = arrived[member]
    return replace(data, **found)


def order_for_cache(part: Part, method: str) -> Part:
    """Return the slice with its rows in the order of `kernels.order.cache_order`. Not collective.

    Parameters:
        method: "none", "rcm" or "degree".
    """
    return part if method == "none" else reordered(part, row_order(part, method))


def row_order(part: Part, method: str) -> Int64Array:
    """Return the old number of the row at every place of the new order: int64[rows]."""
    from plancc_runtime.kernels.order import cache_order

    shape = part.num_rows, part.num_rows + part.num_halo
    row_ptr = part.row_ptr[: part.num_rows + 1]
    column = part.column[: row_ptr[-1]]
    pattern = csr_matrix((np.ones(len(column), np.int8), column, row_ptr), shape, copy=False)
    return cache_order(pattern, method, part.num_interior)


def reordered(part: Part, order: Int64Array) -> Part:
    """Return the slice with its rows renumbered. Messages move the same rows as before.

    `order` has the old index of every row; interior rows must stay first. Row indices in a message
    may then be unsorted.
    """
    new = np.empty(part.num_rows + part.num_halo, part.column.dtype)
    new[order] = np.arange(part.num_rows)
    new[part.num_rows :] = np.arange(part.num_rows, len(new))  # halo rows keep their numbers
    fold = part.fold
    if fold is not None:
        fold = fold.renumbered(received=new)
    folded = np.arange(part.num_rows, len(part.row_ptr) - 1)  # folded rows keep their numbers
    row_ptr, nonzeros = nonzeros_of(part.row_ptr, np.concatenate([order, folded]))
    return replace(
        part,
        global_id=part.global_id[order],
        row_ptr=row_ptr,
        column=new[part.column[nonzeros]],
        value=part.value[nonzeros],
        columns=part.columns_at(nonzeros),
        expand=part.expand.renumbered(new),
        vertex_data=part.vertex_data.take(order),
        fold=fold,
        links=None if part.links is None else part.links.renumbered(new[: part.num_rows]),
        link_exchange=None if part.link_exchange is None else part.link_exchange.renumbered(new),
    )
