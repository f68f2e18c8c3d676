"""Tables of plans, from a file or in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Int32Array, Int64Array, Side, interval
from plancc.plan.grid import Grid
from plancc.plan.links import places_of
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.plan import Plan
from plancc.plan.rank_parts import block_of_parts
from plancc.plan.reader import PlanFile
from plancc.plan.values import LINKS, Header
from plancc.predict.schedule import Pairs
from plancc.predict.schedules.links import LinkTables, LinkTask
from plancc.predict.schedules.owner_tables import live_tables, pairs_of, tables_of_owners
from plancc.predict.schedules.tables import (
    Live,
    Tables,
    divides_columns,
    piece_of_rows,
    pieces_of_grid,
)
from plancc.sampling.negatives import drawn_negatives
from plancc.sampling.splits import random_split


def read_tables(
    path: str | PathLike[str],
    num_ranks: int | None = None,
    copies: bool = False,
    live_layers: int = 0,
    target: str | None = None,
    task: LinkTask | None = None,
    split: tuple[Sequence[float], int] | None = None,
) -> Tables:
    """The tables of a plan file, which is checked.

    Parameters:
        num_ranks: As after merging the parts of a row plan onto fewer ranks.
        copies: Whether `Tables.halo_nonzeros` or `Tables.leaves` are counted, which approximations
            need.
        live_layers: Number of layers for which `Tables.live` is counted; 0: not.
        target, split: As of `training_vertices`.
        task: Of a plan with links: count `Tables.links`, and all rows as live.

    Raises:
        InputError: If there is no such file, the plan does not run on `num_ranks`, or layers
            without dead rows are asked of a plan that is no row plan.
        PlanError: If it is damaged.
    """
    with PlanFile(path) as file:
        if live_layers:
            file.check_row_plan("the pass dead-rows")
        parts = file.checked_ranks(num_ranks)
        plan = file.read_plan()
        if parts == plan.num_parts:
            found = tables_of(plan, file.path, copies)
        else:
            found = merged_tables(file, plan, parts)
    if live_layers:
        wanted: Any = {"target": target, "split": split, "all_rows": task is not None}
        found = replace(found, live=_live(plan, parts, live_layers, **wanted))
    if task is None:
        return found
    rank_of_part = rank_of_parts(plan.num_parts, found.num_ranks)
    return replace(found, links=_link_tables(plan, rank_of_part, task))


def training_vertices(
    plan: Plan, target: str | None = None, split: tuple[Sequence[float], int] | None = None
) -> npt.NDArray[np.bool_] | None:
    """The labelled training vertices of a plan, bool[num_vertices]; None: all vertices.

    All are, where the plan has no labels (they are drawn then) or targets of several classes and
    no train mask. Of a plan with types they are of `target`, by default the one type with labels.
    `split`: shares and seed of `random_split`, whose mask stands in place of the plan's.
    """
    data, vertices, types = plan.vertex_data, plan.global_id, plan.header.types
    labelled = [] if data.by_type is None else data.by_type.labelled
    if target is None and len(labelled) == 1:
        target = labelled[0]
    if types is not None and target is not None:
        of_target = types.vertices(target)
        vertices = vertices[(vertices >= of_target.start) & (vertices < of_target.stop)]
        data = data.of_type.get(target, VertexData())
    wanted = np.zeros(plan.num_vertices, dtype=np.bool_)
    wanted[vertices] = True
    if data.labels is not None:
        wanted[vertices] = data.labels >= 0
    if split is not None:
        wanted[vertices] &= random_split(vertices, *split)[0]
    elif data.train_mask is not None:
        wanted[vertices] &= data.train_mask
    return None if wanted.all() else wanted


def _live(
    plan: Plan, num_ranks: int, num_layers: int, all_rows: bool = False, **training: Any
) -> Live:
    owners = owners_of(plan).renumbered(rank_of_parts(plan.num_parts, num_ranks))
    wanted, hops = None if all_rows else training_vertices(plan, **training), None
    if plan.header.has_hops and num_ranks == plan.num_parts:
        hops = partial(_live_hops, plan)
    return live_tables(graph_of(plan), owners.rows, num_ranks, num_layers, wanted, hops)


def _live_hops(plan: Plan, part: Int32Array, vertex: Int32Array) -> tuple[Pairs, ...]:
    """The hops of the expand with those rows only that end at parts that need them."""
    rows, place = plan.num_vertices, plan.places()
    needed, found = np.unique(part.astype(np.int64) * rows + place[vertex]), []
    for hop in reversed(plan.exchanges.hops("expand")):
        sender, peer, row = hop.send.part_of_row(), hop.send.peer_of_row(), hop.send.row
        kept = np.isin(peer.astype(np.int64) * rows + row, needed)
        needed = np.union1d(needed, (sender * rows + row)[kept])  # what came in an earlier hop
        once = np.ones(int(kept.sum()), np.int64), (sender[kept], peer[kept])
        found.append(pairs_of(sp.coo_array(once, shape=(plan.num_parts,) * 2).tocsr()))
    return tuple(reversed(found))


def merged_tables(file: PlanFile, plan: Plan, num_ranks: int) -> Tables:
    """The tables of the plan in a file after merging its parts; InputError for no row plan."""
    file.check_row_plan("a prediction for fewer ranks than parts")
    owners = owners_of(plan).renumbered(rank_of_parts(plan.num_parts, num_ranks))
    found = tables_of_owners(graph_of(plan), owners, num_ranks, name=file.path)
    return replace(found, undirected=_undirected(plan.header))


def _link_tables(plan: Plan, rank_of_part: Int32Array, task: LinkTask) -> LinkTables:
    """The tables of a plan whose parts are on these ranks."""
    links, exchange = plan.links, plan.exchanges[LINKS]
    assert links is not None
    n, ranks = plan.num_vertices, int(rank_of_part[-1]) + 1
    holder = np.empty(n, np.int64)
    holder[plan.global_id] = np.repeat(rank_of_part, np.diff(plan.part_ptr))
    chosen = np.flatnonzero(links.kind == 0)
    places = places_of(links, plan.part_ptr, 0, exchange.receive)
    source, target = (plan.global_id[each[chosen]].astype(np.int64) for each in places)
    total = task.negatives * len(chosen)
    first, other = drawn_negatives(np.arange(n), n, total, (task.seed, 0))
    return LinkTables(
        scored=np.bincount(holder[np.concatenate([source, first])], minlength=ranks),
        negatives=np.bincount(holder[first], minlength=ranks),
        fixed=_needed(holder[source], target, holder, ranks),
        drawn=_needed(holder[first], other, holder, ranks),
        home=_needed(holder[first], other, np.arange(n) // -(-n // ranks), ranks),
        decoder=task.decoder,
    )


def _needed(rank: Int64Array, vertex: Int64Array, holder: Int64Array, num_ranks: int) -> Pairs:
    """Who sends how many rows to whom where ranks need vertices, once each.

    Parameters:
        rank, vertex: int64[m].
        holder (int64[n]): The rank that has a vertex.
    """
    rank, vertex = np.divmod(np.unique(rank * len(holder) + vertex), len(holder))
    away = holder[vertex] != rank
    ends = holder[vertex[away]], rank[away]
    once = np.ones(len(ends[0]), np.int64)
    return pairs_of(sp.coo_array((once, ends), shape=(num_ranks, num_ranks)).tocsr())


def rank_of_parts(num_parts: int, num_ranks: int) -> Int32Array:
    """Rank of every part when the parts are merged onto `num_ranks`, int32[num_parts]."""
    blocks = block_of_parts(num_parts, num_ranks)
    return np.searchsorted(blocks, np.arange(num_parts), side="right").astype(np.int32) - 1


def tables_of(plan: Plan, name: str = "plan", copies: bool = False, live_layers: int = 0) -> Tables:
    """The tables of a plan in memory; `copies` and `live_layers` as of `read_tables`."""
    header, fold, ptr = plan.header, plan.fold, plan.local_ptr
    rows = np.diff(plan.part_ptr)
    first, last = plan.row_ptr[ptr[:-1]], plan.row_ptr[ptr[1:]]
    found = Tables(
        name=name,
        layout=header.layout,
        rows=rows,
        nonzeros=last - first,
        expand=_pairs(plan.send),
        fold=None if fold is None else _pairs(fold.send),
        grid=header.grid,
        own_nonzeros=None if fold is None else plan.row_ptr[ptr[:-1] + rows] - first,
        boundary_nonzeros=last - plan.row_ptr[ptr[:-1] + plan.num_interior],
        undirected=_undirected(header) and fold is None,
        self_loops=header.self_loops,
        topology=header.topology,
        route=_route(plan, "expand"),
        fold_route=_route(plan, "fold"),
        live=_live(plan, plan.num_parts, live_layers) if live_layers else None,
    )
    if header.grid is not None:
        return replace(found, blocks=_count_blocks(plan, header.grid))
    if not copies:
        return found
    if fold is not None:
        return replace(found, leaves=_leaves(plan))
    received = [plan.column[a:b] >= n for a, b, n in zip(first, last, rows, strict=True)]
    return replace(found, halo_nonzeros=np.array([*map(np.count_nonzero, received)], np.int64))


def _pairs(side: Side) -> Pairs:
    """The messages of one end, from the parts that have it to their peers."""
    parts = np.arange(len(side.ptr) - 1, dtype=np.int32)
    sender = np.repeat(parts, side.messages_per_part())
    return Pairs(len(parts), sender, side.peer, np.diff(side.row_ptr))


def _route(plan: Plan, step: str) -> tuple[Pairs, ...] | None:
    """The hops of a step; None: there are none."""
    return tuple(_pairs(hop.send) for hop in plan.exchanges.hops(step)) or None


def _leaves(plan: Plan) -> Pairs:
    """Count distinct remote vertices per pair of parts: received rows plus folded rows."""
    assert plan.fold is not None
    keys = [
        side.part_of_row() * plan.num_vertices + plan.part_ptr[side.peer_of_row()] + side.row
        for side in (plan.receive, plan.fold.send)
    ]
    part, vertex = np.divmod(np.unique(np.concatenate(keys)), plan.num_vertices)
    pair, rows = np.unique(
        interval(vertex, plan.part_ptr) * plan.num_parts + part, return_counts=True
    )
    sender, receiver = (end.astype(np.int32) for end in np.divmod(pair, plan.num_parts))
    return Pairs(plan.num_parts, sender, receiver, rows)


def _count_blocks(plan: Plan, grid: Grid) -> Int64Array | None:
    """`Tables.blocks` of a plan, part by part: for memory."""
    if not divides_columns(grid):
        return None
    piece, pieces = piece_of_rows(grid, plan.part_ptr), pieces_of_grid(grid)
    parts = (plan.all_parts.of_parts(k, k + 1) for k in range(plan.num_parts))
    return np.array([np.bincount(piece[p.place_of_columns()], minlength=pieces) for p in parts])


def _undirected(header: Header) -> bool:
    return not header.directed and header.normalization != "row"
