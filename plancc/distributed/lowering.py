"""Lowering on several ranks: each rank makes the tables of consecutive parts.

The method is the same as in `plancc.plan.lowering`. A rank gets the rows of its parts, and tells
every other rank which rows its parts receive from that rank's parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.distributed.kernels import picked, unpack_rows
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import Share
from plancc.graph.links import SplitLinks
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, Side, offsets
from plancc.plan.links import exchange_of_rows, lower_links
from plancc.plan.lowering import lowered_parts, mark_boundary
from plancc.plan.plan import Plan
from plancc.plan.rank_parts import block_of_parts
from plancc.plan.receive_sets import grouped, offsets_of, sort_by_sender
from plancc.plan.values import LINKS, Exchanges, Header


def lower_share(ranks: Ranks, share: Share, owner: Int32Array, header: Header) -> Plan:
    """Return this rank's consecutive parts as a plan. Collective.

    The peers of messages have part numbers of the whole plan. Every rank needs at least one part.
    """
    num_parts = header.num_parts
    boundary = mark_boundary(share.first, share.indptr, share.indices, owner)
    key = 2 * owner.astype(np.int64) + ranks.concatenated(boundary)
    rows, position, key_ptr = grouped(key, 2 * num_parts)
    del key
    part_ptr = key_ptr[::2].copy()
    num_interior = key_ptr[1::2] - part_ptr[:-1]
    bounds = block_of_parts(num_parts, ranks.size)
    first, last = (int(each) for each in bounds[ranks.rank : ranks.rank + 2])
    row_ptr, column, value, *rest = _own_rows(ranks, share, position, part_ptr[bounds], rows)
    moved = np.arange(len(column)) if rest else value  # as in `plancc.plan.lowering.lower`
    expand = _expand(ranks, bounds, part_ptr, row_ptr, column, moved)
    begin, end = int(part_ptr[first]), int(part_ptr[last])
    return Plan(
        header=replace(
            header, num_vertices=end - begin, num_nonzeros=len(column), num_parts=last - first
        ),
        part_ptr=part_ptr[first : last + 1] - begin,
        global_id=rows[begin:end].copy(),
        num_interior=num_interior[first:last],
        row_ptr=row_ptr[begin : end + 1].copy(),
        column=column,
        value=value[moved] if rest else value,
        exchanges=Exchanges(expand=expand),
        columns={name: each[moved] for name, each in zip(share.columns, rest, strict=True)},
    )


def share_links(ranks: Ranks, parts: Plan, links: SplitLinks | None) -> Plan:
    """Give each part the links whose sources it owns. Rank 0 passes all `links`. Collective."""
    every = ranks.concatenated(parts.global_id)
    place = np.empty(len(every), np.int64)
    place[every] = np.arange(len(every))
    part_ptr = offsets(ranks.concatenated(np.diff(parts.part_ptr)))
    bounds = block_of_parts(len(part_ptr) - 1, ranks.size)
    nothing: Any = np.zeros((2, 0), np.int32), np.zeros(0, np.uint8), np.zeros(0, np.int64)
    ends, kind, number = nothing if links is None else links.columns()
    source, target = place[ends]
    to = np.searchsorted(part_ptr[bounds], source, side="right") - 1
    places = np.stack([ranks.sent(each, to) for each in (source, target)])
    kind, number = ranks.sent(kind, to), ranks.sent(number, to)
    made, moved = lower_links(places, kind, number, part_ptr)
    to = np.searchsorted(bounds, moved[1], side="right") - 1
    receiver, sender, row = (ranks.sent(each, to) for each in moved)
    send = exchange_of_rows(receiver, sender, row, len(part_ptr) - 1).send
    receive = exchange_of_rows(*moved, len(part_ptr) - 1).receive
    first, last = (int(each) for each in bounds[ranks.rank : ranks.rank + 2])
    return replace(
        parts,
        header=replace(parts.header, links=ranks.broadcast(links and links.per_link)),
        exchanges=Exchanges(
            parts.exchanges | {LINKS: Exchange(send, receive).of_parts(first, last)}
        ),
        links=made.of_parts(first, last),
    )


def _own_rows(
    ranks: Ranks, share: Share, position: Int32Array, starts: Int64Array, rows: Int32Array
) -> Any:
    """Fetch the rows of this rank's parts. Collective.

    The rows are in plan order, and columns are places in plan order. Returns row_ptr, int64[n + 1],
    which is undefined for rows of other ranks; the columns, int32; the values; and the share's
    other arrays that have an entry for every nonzero.
    """
    own = position[share.first : share.last]
    order = np.argsort(own, kind="stable")
    cuts = np.searchsorted(own[order], starts[1:-1])
    groups = np.split(order, cuts)
    places = ranks.swapped([own[group] for group in groups])
    begin, end = int(starts[ranks.rank]), int(starts[ranks.rank + 1])
    row_ptr = np.zeros(len(position) + 1, dtype=np.int64)  # pages of other ranks stay untouched
    np.cumsum(share.degree[rows[begin:end]], out=row_ptr[begin + 1 : end + 1])
    made: list[npt.NDArray[np.generic]] = []
    for numbers in (share.indices, share.values, *share.columns.values()):
        pieces = [picked(share.indptr, numbers, group)[1] for group in groups]
        if numbers is share.indices:
            pieces = [position[columns] for columns in pieces]
        out: npt.NDArray[Any] = np.empty(row_ptr[end], dtype=numbers.dtype)
        for where, piece in zip(places, ranks.swapped(pieces), strict=True):
            unpack_rows(where, row_ptr, piece, out)
        made.append(out)
    return row_ptr, *made


def _expand(
    ranks: Ranks,
    bounds: Int64Array,
    part_ptr: Int64Array,
    row_ptr: Int64Array,
    column: Int32Array,
    value: npt.NDArray[Any],
) -> Exchange:
    """Number the columns of this rank's parts locally; return their messages. Collective."""
    first, last = (int(each) for each in bounds[ranks.rank : ranks.rank + 2])
    rows, *messages = lowered_parts(part_ptr, row_ptr, first, last, column, value)
    lengths, receiver, sender = messages
    ptr = offsets_of(receiver - np.int32(first), last - first)
    receive = Side(ptr, sender, offsets(lengths), rows)

    rank_of = np.searchsorted(bounds, sender, side="right") - 1
    rows = ranks.sent(rows, np.repeat(rank_of, lengths))
    lengths, receiver, sender = (ranks.sent(each, rank_of) for each in messages)
    send = sort_by_sender(receiver, sender - np.int32(first), offsets(lengths), rows, last - first)
    return Exchange(Side(*send), receive)
