"""A rank's rows in another order, for the cache or a pipeline."""

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


def in_order(part: Part, method: str, pipeline: str, transport: Transport) -> Part:
    """The slice with its rows in the order of a method. Collective.

    In a feature plan the group's rows are put in order; then its ranks share them as the
    pipeline cuts them, and hand each other the vertex data of rows that change hands.

    Parameters:
        method: "none", "rcm", "degree", or "auto": "rcm" with a pipeline, else "none".
        pipeline: As of `layouts.pipeline.pipelining`.
    """
    feature = part.grid is not None and part.grid.grid.scheme == "feature"
    if method == "auto":
        method = "rcm" if feature and pipeline != "off" else "none"
    if feature:
        return _of_group(part, method, pipeline, transport)
    with transport.agreement():
        return in_cache_order(part, method)


def _of_group(part: Part, method: str, pipeline: str, transport: Transport) -> Part:
    """The slice of a feature plan in the order of `in_order`. Collective."""
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
        wanted = [order[batches.rows_of(k)] for k in range(grid.columns)]  # by their old numbers
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
    """The data of the rows ``wanted[place]``, when member k had the rows ``had[k]``. Collective."""
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


def in_cache_order(part: Part, method: str) -> Part:
    """The slice with its rows in the order of `kernels.order.cache_order`; not collective.

    Parameters:
        method: "none", "rcm" or "degree".
    """
    return part if method == "none" else reordered(part, row_order(part, method))


def row_order(part: Part, method: str) -> Int64Array:
    """Old number of every new row, in the order of `kernels.order.cache_order`: int64[rows]."""
    from plancc_runtime.kernels.order import cache_order

    shape = part.num_rows, part.num_rows + part.num_halo
    row_ptr = part.row_ptr[: part.num_rows + 1]
    column = part.column[: row_ptr[-1]]
    pattern = csr_matrix((np.ones(len(column), np.int8), column, row_ptr), shape, copy=False)
    return cache_order(pattern, method, part.num_interior)


def reordered(part: Part, order: Int64Array) -> Part:
    """The slice with other local numbers of its rows; messages bring the same rows as before.

    Parameters:
        order (int64[rows]): Old number of every new row. Interior rows must stay before the others.

    Returns:
        Its rows are no longer in plan order, and those of a message no longer ascend.
    """
    new = np.empty(part.num_rows + part.num_halo, part.column.dtype)
    new[order] = np.arange(part.num_rows)
    new[part.num_rows :] = np.arange(part.num_rows, len(new))  # halo rows stay where they are
    fold = part.fold
    if fold is not None:
        fold = fold.renumbered(received=new)
    folded = np.arange(part.num_rows, len(part.row_ptr) - 1)  # so do folded rows
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


def by_type(numbers: Int64Array) -> Int64Array:
    """Rows of these types, type after type, otherwise in their order: int64[rows]."""
    return np.argsort(numbers, kind="stable")
