"""Invariants that must hold before a plan's numbers are used as indices. Knows plans, no file.

The verifier starts with these, in numpy; the loader has loops of its own for all but the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plancc.plan.exchange import Exchange, Int64Array, Side
from plancc.plan.parts import PartRange
from plancc.plan.plan import Plan
from plancc.plan.values import STEPS

BLOCK = 4_000_000
"""Nonzeros that are looked at together."""


def index_invariants(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield (invariant, violation or ""); later checks may rely on earlier ones."""
    yield "rows/part_ptr rises from 0 to n", rises(plan.part_ptr, plan.num_vertices)
    yield "rows/global_id is a permutation", _permutation(plan)
    yield "rows/num_interior is within the part's rows", _interior_within(plan)
    yield "matrix/row_ptr rises from 0 to nnz", rises(plan.row_ptr, plan.header.num_nonzeros)
    yield "expand/send tables are well formed", _well_formed(plan, plan.send, of_part=True)
    yield "expand/recv tables are well formed", _well_formed(plan, plan.receive, of_part=False)
    yield "layout edge has a fold, layout row has none", fold_as_said(plan)
    yield "the grid fits layout, parts and vertices", plan.header.grid_problem()
    yield "the topology fits layout and parts", plan.header.topology_problem()
    if plan.fold is not None:
        fold = plan.fold
        yield "fold/send tables are well formed", _well_formed(plan, fold.send, of_part=False)
        yield "fold/recv tables are well formed", _well_formed(plan, fold.receive, of_part=True)
        yield "matrix/row_ptr has every local row", local_rows(plan)
    for hop, tables in plan.exchanges.items():
        if hop in STEPS:
            continue
        for end, table in (("send", tables.send), ("recv", tables.receive)):
            problem = _well_formed(plan, table, of_part=None)
            yield f"{hop}/{end} tables are well formed", problem
    yield "every nonzero's column is held where it is used", _columns_held(plan)


def blocks(plan: Plan) -> Iterator[PartRange]:
    """All parts, in runs of as many as have `BLOCK` nonzeros together, and of one at least."""
    ends = plan.row_ptr[plan.local_ptr]
    first = 0
    while first < plan.num_parts:
        last = int(np.searchsorted(ends, ends[first] + BLOCK, side="right")) - 1
        last = max(last, first + 1)
        yield plan.all_parts.of_parts(first, min(last, plan.num_parts))
        first = last


def rises(offsets: Int64Array, total: int) -> str:
    """Why offsets do not rise from 0 to `total`; "" if they do."""
    if offsets[0] != 0 or offsets[-1] != total:
        return f"it goes from {offsets[0]} to {offsets[-1]}, not from 0 to {total}"
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])  # a difference could overflow
    return f"it falls after entry {falls[0]}" if len(falls) else ""


def _permutation(plan: Plan) -> str:
    ids = plan.global_id
    outside = np.flatnonzero((ids < 0) | (ids >= plan.num_vertices))
    if len(outside):
        return f"row {outside[0]} is vertex {ids[outside[0]]}"
    counts = np.bincount(ids, minlength=plan.num_vertices)
    wrong = np.flatnonzero(counts != 1)
    return f"vertex {wrong[0]} has {counts[wrong[0]]} rows" if len(wrong) else ""


def fold_as_said(plan: Plan) -> str:
    """Why the layout does not go with the fold that is or is not there; "" if it does."""
    if (plan.header.layout == "edge") == (plan.fold is not None):
        return ""
    return f"layout {plan.header.layout} with{'out' if plan.fold is None else ''} a fold"


def local_rows(plan: Plan) -> str:
    """Why `Plan.row_ptr` is not of the length that parts and fold give; "" if it is."""
    found, expected = len(plan.row_ptr) - 1, plan.local_ptr[-1]
    return "" if found == expected else f"it has {found}, there are {expected}"


def crossings(plan: Plan, crossing: Exchange) -> str:
    """Which nodes send to each other in more than one message; "" if none do."""
    assert plan.header.topology is not None
    node, cross = plan.header.topology.node_of_rank().astype(np.int64), crossing.send
    sender = np.repeat(node, np.diff(cross.ptr))
    pairs, counts = np.unique(sender * plan.num_parts + node[cross.peer], return_counts=True)
    for pair in pairs[counts > 1]:
        a, b = divmod(int(pair), plan.num_parts)
        return f"node {a} sends {counts.max()} messages to node {b}"
    return ""


def _well_formed(plan: Plan, exchange: Side, *, of_part: bool | None) -> str:
    """`of_part`: whether the rows are the part's own; otherwise they are the peer's.

    None: they are places in plan order.
    """
    p = plan.num_parts
    problem = rises(exchange.ptr, exchange.num_messages)
    problem = problem or rises(exchange.row_ptr, exchange.volume)
    if problem:
        return problem
    part = np.repeat(np.arange(p), np.diff(exchange.ptr))
    peer = exchange.peer
    if exchange.num_messages == 0:
        return ""
    if peer.min() < 0 or peer.max() >= p or (peer == part).any():
        return "a peer is out of range or the part itself"
    if not (np.diff(part.astype(np.int64) * p + peer) > 0).all():
        return "peers of a part are not ascending and unique"
    sizes = np.diff(exchange.row_ptr)
    if not (sizes > 0).all():
        return f"message {np.flatnonzero(sizes == 0)[0]} is empty"
    owner = np.repeat(part if of_part else peer, sizes)
    rows = exchange.row
    bound = plan.num_vertices if of_part is None else np.diff(plan.part_ptr)[owner]
    if rows.min() < 0 or not (rows < bound).all():
        return "a row number is not one of its owner's"
    message = np.repeat(np.arange(len(sizes)), sizes)
    if not (np.diff(message * np.int64(plan.num_vertices) + rows) > 0).all():
        return "rows of a message are not strictly ascending"
    return ""


def _interior_within(plan: Plan) -> str:
    outside = np.flatnonzero((plan.num_interior < 0) | (plan.num_interior > np.diff(plan.part_ptr)))
    return f"part {outside[0]} has {plan.num_interior[outside[0]]}" if len(outside) else ""


def _columns_held(plan: Plan) -> str:
    held = np.diff(plan.part_ptr) + plan.receive.rows_per_part()
    for parts in blocks(plan):
        part = parts.part_of_nonzero()
        wrong = np.flatnonzero((parts.column < 0) | (parts.column >= held[part]))
        if len(wrong):
            m, column = part[wrong[0]], parts.column[wrong[0]]
            k = wrong[0] - parts.row_ptr[parts.local_ptr[m - parts.first]]
            return f"nonzero {k} of part {m} uses column {column} of {held[m]}"
    return ""
