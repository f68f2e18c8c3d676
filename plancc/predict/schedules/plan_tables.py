"""`Tables` (the parts' sizes and messages) of plans that are read from a file or from memory.

Of a plan file, only the messages' offsets and peers (the parts at the other end) are read, and the
column numbers of the nonzeros if a grid divides columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.errors import PlanError
from plancc.files import StrPath
from plancc.graph.vertexdata import VertexData
from plancc.plan.digests import cut_points
from plancc.plan.exchange import Int32Array, Int64Array, IntArray
from plancc.plan.format import dataset_of
from plancc.plan.links import places_of
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.plan import Plan
from plancc.plan.rank_parts import block_of_parts
from plancc.plan.reader import PlanFile, within
from plancc.plan.topology import HOPS
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
    path: StrPath,
    num_ranks: int | None = None,
    blocks: bool = True,
    copies: bool = False,
    live_layers: int = 0,
    target: str | None = None,
    task: LinkTask | None = None,
    split: tuple[Sequence[float], int] | None = None,
) -> Tables:
    """Return the tables of a plan file.

    The whole plan is read if ranks run several parts, or for `live_layers` or `task`.

    Parameters:
        num_ranks: Ranks that run the parts of a row plan; None: one part per rank.
        blocks: Whether to count `Tables.blocks`, for which all column numbers are read.
        copies: Whether to count `Tables.halo_nonzeros` or `Tables.leaves`, for approximations.
        live_layers: Number of layers for which `Tables.live` of a row plan is counted; 0: none.
        target, split: See `training_vertices`.
        task: Options of link prediction, to count `Tables.links`; None: no link prediction.
    """
    with PlanFile(path) as file:
        if live_layers:
            file.check_row_plan("the pass dead-rows")
        wanted: Any = {"target": target, "split": split, "all_rows": task is not None}
        live = partial(_live, num_layers=live_layers, **wanted)
        if num_ranks is not None and num_ranks != file.header.num_ranks:
            found = _merged(file, num_ranks, live if live_layers else None)
        else:
            found = _tables(file, blocks, copies, live if live_layers else None)
        if task is None:
            return found
        ranks = rank_of_parts(file.header.num_parts, found.num_ranks)
        return replace(found, links=_link_tables(file.read_plan(), ranks, task))


def training_vertices(
    plan: Plan, target: str | None = None, split: tuple[Sequence[float], int] | None = None
) -> npt.NDArray[np.bool_] | None:
    """Return which vertices are labelled and in the training mask, bool[num_vertices].

    None stands for all vertices, for example if the plan has neither mask nor labels.

    Parameters:
        target: Vertex type that is trained; None: the only type with labels.
        split: Shares and seed for `random_split`, whose mask replaces the plan's.
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
    wanted = None if all_rows else training_vertices(plan, **training)
    routed = plan.header.route is not None and num_ranks == plan.num_parts
    needed = partial(_live_pairs, plan) if routed else None
    return live_tables(graph_of(plan), owners.rows, num_ranks, num_layers, wanted, needed)


def _live_pairs(plan: Plan, part: Int32Array, vertex: Int32Array) -> Pairs:
    """Return messages, over the plan's hops, that bring each row ``vertex[i]`` to ``part[i]``."""
    straight = _needed(part.astype(np.int64), vertex, plan.owner(), plan.num_parts)
    rows, place = plan.num_vertices, plan.places()
    needed, found = np.unique(part.astype(np.int64) * rows + place[vertex]), []
    for hop in reversed(plan.exchanges.hops("expand")):
        sender, peer, row = hop.send.part_of_row(), hop.send.peer_of_row(), hop.send.row
        kept = np.isin(peer.astype(np.int64) * rows + row, needed)
        needed = np.union1d(needed, (sender * rows + row)[kept])  # rows that an earlier hop brings
        once = np.ones(int(kept.sum()), np.int64), (sender[kept], peer[kept])
        found.append(pairs_of(sp.coo_array(once, shape=(plan.num_parts,) * 2).tocsr()))
    return replace(straight, hops=tuple(reversed(found)))


_LiveOf: TypeAlias = Callable[[Plan, int], Live]


def _merged(file: PlanFile, num_ranks: int, live: _LiveOf | None) -> Tables:
    header = file.header
    file.checked_ranks(num_ranks)
    file.check_row_plan("a prediction for fewer ranks than parts")
    plan = file.read_plan()
    owners = owners_of(plan).renumbered(rank_of_parts(header.num_parts, num_ranks))
    return replace(
        tables_of_owners(graph_of(plan), owners, num_ranks, name=file.path),
        undirected=_undirected(header),
        live=None if live is None else live(plan, num_ranks),
    )


def _link_tables(plan: Plan, rank_of_part: Int32Array, task: LinkTask) -> LinkTables:
    """Return the tables for link prediction, if part m runs on rank ``rank_of_part[m]``."""
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


def _needed(rank: Int64Array, vertex: IntArray, holder: IntArray, num_ranks: int) -> Pairs:
    """Return the messages that bring each rank its vertices from the ranks that hold them.

    Rank ``rank[k]`` needs ``vertex[k]``, and gets it once; ``holder[v]`` is the rank that holds v.
    """
    rank, vertex = np.divmod(np.unique(rank * len(holder) + vertex), len(holder))
    away = holder[vertex] != rank
    ends = holder[vertex[away]], rank[away]
    once = np.ones(len(ends[0]), np.int64)
    return pairs_of(sp.coo_array((once, ends), shape=(num_ranks, num_ranks)).tocsr())


def rank_of_parts(num_parts: int, num_ranks: int) -> Int32Array:
    """Return the rank that runs each part, int32[num_parts]; a rank may run several parts."""
    blocks = block_of_parts(num_parts, num_ranks)
    return np.searchsorted(blocks, np.arange(num_parts), side="right").astype(np.int32) - 1


def tables_of(
    plan: Plan, name: str = "plan", blocks: bool = True, copies: bool = False, live_layers: int = 0
) -> Tables:
    """Return the tables of a plan in memory; for the other parameters see `read_tables`."""
    live = partial(_live, num_layers=live_layers) if live_layers else None
    return _tables(_InMemory(plan, name), blocks, copies, live)


class _InMemory:
    """A plan in memory, with the interface of a plan file; `path` is its name in messages."""

    def __init__(self, plan: Plan, path: str) -> None:
        self.path, self.header, self._plan, self._arrays = path, plan.header, plan, plan.arrays()

    def read(self, name: str, first: int = 0, last: int | None = None) -> npt.NDArray[Any]:
        array, dataset = self._arrays[name], dataset_of(name)
        if not dataset.cut:
            return array
        points = cut_points(dataset.cut, self._arrays.__getitem__)
        stop = len(points) - 1 if last is None else last
        return array[points[first] : points[stop] + dataset.shared]

    def read_plan(self) -> Plan:
        return self._plan


_Source: TypeAlias = "PlanFile | _InMemory"


def _pairs(source: _Source, table: str) -> tuple[Pairs, Int64Array, Int64Array]:
    """Return the messages of a table in the plan file, such as "expand/send", and two arrays.

    `ptr` has the offsets of the parts' messages, and `row_ptr` those of the messages' rows.
    """
    ptr, peer, row_ptr = (source.read(f"{table}_{name}") for name in ("ptr", "peer", "row_ptr"))
    num_parts = source.header.num_parts
    sender = np.repeat(np.arange(num_parts, dtype=np.int32), np.diff(ptr))
    return Pairs(num_parts, sender, peer, np.diff(row_ptr)), ptr, row_ptr


def _hops(source: _Source, step: str) -> tuple[Pairs, ...]:
    """Return the hops of exchange "expand" or "fold"; empty if rows are sent directly."""
    names = source.header.steps()
    hops = [name for hop in HOPS if (name := f"{step}_{hop}") in names]
    return tuple(_pairs(source, f"{name}/send")[0] for name in hops)


def _check(source: _Source, node: str, numbers: npt.NDArray[Any], bound: int) -> None:
    """Raise PlanError if a number of dataset `node` is negative, or is not below `bound`."""
    if not within(numbers, bound):
        raise PlanError(f"{source.path}: /{node} is damaged: a number is out of range")


def _tables(source: _Source, with_blocks: bool, with_copies: bool, live: _LiveOf | None) -> Tables:
    header = source.header
    expand, fold = replace(_pairs(source, "expand/send")[0], hops=_hops(source, "expand")), None
    part_ptr = source.read("rows/part_ptr")
    row_ptr = source.read("matrix/row_ptr")
    rows, local_ptr = np.diff(part_ptr), part_ptr
    if header.layout == "edge":
        fold, ptr, fold_ptr = _pairs(source, "fold/send")
        fold = replace(fold, hops=_hops(source, "fold"))
        local_ptr = part_ptr + fold_ptr[ptr]
    first, last = row_ptr[local_ptr[:-1]], row_ptr[local_ptr[1:]]
    interior = local_ptr[:-1] + np.clip(source.read("rows/num_interior"), 0, rows)
    found = Tables(
        name=source.path,
        layout=header.layout,
        rows=rows,
        nonzeros=last - first,
        expand=expand,
        fold=fold,
        grid=header.grid,
        own_nonzeros=None if fold is None else row_ptr[local_ptr[:-1] + rows] - first,
        boundary_nonzeros=last - row_ptr[interior],
        undirected=_undirected(header) and fold is None,
        self_loops=header.self_loops,
        topology=header.topology,
        live=None if live is None else live(source.read_plan(), len(rows)),
    )
    if header.grid is not None:
        counts = with_blocks and divides_columns(header.grid)
        return replace(found, blocks=_count_blocks(source, found)) if counts else found
    if with_copies:  # for approximations
        leaves = None if fold is None else _leaves(source, found)
        return replace(found, leaves=leaves, halo_nonzeros=_halo_nonzeros(source, found))
    return found


def _halo_nonzeros(source: _Source, tables: Tables) -> Int64Array | None:
    """Return each part's nonzeros in halo columns, int64[num_parts]; None for an edge plan."""
    if tables.fold is not None:
        return None
    columns = (source.read("matrix/column", k, k + 1) for k in range(tables.num_parts))
    counts = (np.count_nonzero(c >= n) for c, n in zip(columns, tables.rows, strict=True))
    return np.fromiter(counts, np.int64)


def _leaves(source: _Source, tables: Tables) -> Pairs:
    """Return `Tables.leaves`: messages that would give every part the rows of all its vertices.

    A part's vertices are the ends of its nonzeros. The message from part k to part m has one row
    for each vertex of k that is an end of a nonzero of m, even if m both receives the vertex's row
    and sends a partial sum for it.
    """
    keys = []
    for table in ("expand/recv", "fold/send"):
        pairs, _, row_ptr = _pairs(source, table)
        row = source.read(f"{table}_row")
        _check(source, f"{table}_row", row, int(tables.part_ptr[-1]))
        vertex = np.repeat(tables.part_ptr[pairs.target], np.diff(row_ptr)) + row
        keys.append(np.repeat(pairs.source, np.diff(row_ptr)) * tables.part_ptr[-1] + vertex)
    part, vertex = np.divmod(np.unique(np.concatenate(keys)), tables.part_ptr[-1])
    owner = np.searchsorted(tables.part_ptr, vertex, side="right") - 1
    pair, rows = np.unique(owner * tables.num_parts + part, return_counts=True)
    sender, receiver = (end.astype(np.int32) for end in np.divmod(pair, tables.num_parts))
    return Pairs(tables.num_parts, sender, receiver, rows)


def _count_blocks(source: _Source, tables: Tables) -> Int64Array:
    """Return `Tables.blocks`: the nonzeros of every part in each piece of A's columns."""
    grid, part_ptr = tables.grid, tables.part_ptr
    assert grid is not None
    received, ptr, halo_ptr = _pairs(source, "expand/recv")
    piece = piece_of_rows(grid, part_ptr)
    blocks = np.zeros((grid.num_parts, pieces_of_grid(grid)), np.int64)
    for part in range(grid.num_parts):
        messages = slice(int(ptr[part]), int(ptr[part + 1]))
        halo = halo_ptr[messages.start : messages.stop + 1]
        row = source.read("expand/recv_row", part, part + 1)
        place = np.repeat(part_ptr[received.target[messages]], np.diff(halo)) + row
        _check(source, "expand/recv_row", place, int(part_ptr[-1]))
        held = np.concatenate([piece[part_ptr[part] : part_ptr[part + 1]], piece[place]])
        column = source.read("matrix/column", part, part + 1)
        _check(source, "matrix/column", column, len(held))
        blocks[part] = np.bincount(held[column], minlength=blocks.shape[1])
    return blocks


def _undirected(header: Header) -> bool:
    return not header.directed and header.normalization != "row"
