"""Check the hops of an exchange.

Every part must receive each row that it needs exactly once. A row may be sent to each other node at
most once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plancc.kernel import njit
from plancc.plan.exchange import Int64Array
from plancc.plan.parts import PartRange
from plancc.plan.topology import Route
from plancc.plan.values import STEPS, Exchanges

ROUTE_FAULTS = {
    1: (
        "hops of the {step} stay inside nodes or cross them",
        "part {part} has a message with part {place}",
    ),
    2: (
        "a node sends to another at most once in the {step}_cross",
        "part {part} sends twice, also to part {place}",
    ),
    3: (
        "parts send rows that they have in the hops of the {step}",
        "part {part} sends row {place}, which it does not have",
    ),
    4: ("rows arrive once in the hops of the {step}", "row {place} comes to part {part} twice"),
    5: (
        "hops of the {step} bring the rows that parts need",
        "row {place} does not come to part {part}",
    ),
    6: ("hops of the {step} bring no other rows", "row {place} comes to part {part} for nothing"),
}
"""Invariant and violation for each fault of `_route_fault`. Rows are places in plan order."""
OF_NODES = (1, 2)
"""Faults that only hops between nodes can have."""


def route_invariants(parts: PartRange, route: Route | None) -> Iterator[tuple[str, str]]:
    """Yield (invariant, violation) for the hops of some parts; nothing without a route."""
    if route is None:
        return
    node = route.node_of_part()
    for step in filter(parts.exchanges.hops, STEPS):
        needed, hops = parts.exchanges.needed(step), parts.exchanges.hops(step)
        ends = [table for hop in hops for table in (hop.send, hop.receive)]
        fault, part, place = _route_fault(
            tuple(end.arrays for end in ends),
            needed.row_ptr[needed.ptr],
            parts.part_ptr[needed.peer_of_row()] + needed.row,
            node,
            parts.part_ptr,
            parts.first,
        )
        for kind, (invariant, problem) in ROUTE_FAULTS.items():
            if route.topology is None and kind in OF_NODES:
                continue
            broken = problem.format(part=part, place=place) if kind == fault else ""
            yield invariant.format(step=step), broken
    if route.topology is not None and parts.last - parts.first == len(parts.part_ptr) - 1:
        yield from _crossing(parts.exchanges, node.astype(np.int64))


@njit(cache=True, nogil=True, plain=True)
def _route_fault(ends, needed_ptr, needed, node, part_ptr, first):  # type: ignore[no-untyped-def]
    """Return the first fault in hops as (key of `ROUTE_FAULTS`, part, x), or zeros.

    In faults 1 and 2, x is the peer of a message; otherwise, x is the place of a row in plan order.
    `ends` holds the well-formed messages of the three hops, sorted by sender and by receiver.
    `node` is empty for hops over relays.
    """
    relays = len(node) == 0
    came = np.zeros(part_ptr[-1], np.int8)  # 1 + hop in which a row arrives; 4: own row; 0: absent
    used = np.zeros(part_ptr[-1], np.bool_)  # whether a row that arrived is sent on or needed
    for i in range(len(needed_ptr) - 1):
        # A part has its own rows at the start; a hop may send rows that arrived in an earlier hop.
        part = first + i
        came[part_ptr[part] : part_ptr[part + 1]] = 4
        for hop in range(3):
            ptr, peer, row_ptr, row = ends[2 * hop]
            for k in range(ptr[i], ptr[i + 1]):
                if not relays and (node[peer[k]] == node[part]) != (hop != 1):
                    return 1, part, peer[k]
                if not relays and hop == 1 and k > ptr[i] and node[peer[k - 1]] == node[peer[k]]:
                    return 2, part, peer[k]
                for e in range(row_ptr[k], row_ptr[k + 1]):
                    of = came[row[e]]
                    earlier = of == 4 or 0 < of <= hop
                    if not (earlier if relays or hop < 2 else of == 2):
                        return 3, part, row[e]
                    used[row[e]] = True
            ptr, peer, row_ptr, row = ends[2 * hop + 1]
            for k in range(ptr[i], ptr[i + 1]):
                if not relays and (node[peer[k]] == node[part]) != (hop != 1):
                    return 1, part, peer[k]
                for e in range(row_ptr[k], row_ptr[k + 1]):
                    # a row arrives once
                    if came[row[e]]:
                        return 4, part, row[e]
                    came[row[e]] = 1 + hop
                    used[row[e]] = False
        for e in range(needed_ptr[i], needed_ptr[i + 1]):
            if not came[needed[e]]:
                return 5, part, needed[e]
            used[needed[e]] = True
        # Reset the marks of this part; every row that arrived must have been sent on or needed.
        came[part_ptr[part] : part_ptr[part + 1]] = 0
        for hop in range(3):
            ptr, peer, row_ptr, row = ends[2 * hop + 1]
            for e in range(row_ptr[ptr[i]], row_ptr[ptr[i + 1]]):
                if not used[row[e]]:
                    return 6, part, row[e]
                came[row[e]] = 0
    return 0, 0, 0


def _crossing(exchanges: Exchanges, node: Int64Array) -> Iterator[tuple[str, str]]:
    """Check that each node sends at most one message to every other node.

    Yields pairs (invariant, violation) as `route_invariants` does.
    """
    for step in filter(exchanges.hops, STEPS):
        cross, problem = exchanges.hops(step)[1].send, ""
        sender = np.repeat(node, np.diff(cross.ptr))
        pairs, counts = np.unique(sender * len(node) + node[cross.peer], return_counts=True)
        for pair in pairs[counts > 1][:1]:
            a, b = divmod(int(pair), len(node))
            problem = f"node {a} sends {counts.max()} messages to node {b}"
        yield f"a node sends to another at most once in the {step}_cross", problem
