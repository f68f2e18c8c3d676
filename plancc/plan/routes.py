"""Turn messages between parts into hops, so that each node or group of parts gets a row only once.

With three hops (Bienz, Gropp, Olson 2019, "Node aware sparse matrix-vector multiplication"), one
part of a node sends all rows for another node to one part of that node. With two hops
(Selvitopi, Aykanat 2019, "Regularizing irregularly sparse point-to-point communications"), each
owner sends directly to a relay in every other group. This module chooses parts and relays with
little load; in the second paper, a relay's position in its group is fixed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from plancc.errors import InputError
from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, Side
from plancc.plan.links import exchange_of_rows
from plancc.plan.plan import Plan
from plancc.plan.topology import HOPS, Route, Topology
from plancc.plan.values import STEPS, Exchanges

MANY = 64
"""Smallest number of parts for which the search tries relays by default."""


def hops_of(
    send: Side, part_ptr: Int64Array, topology: Topology, most: int = 3
) -> tuple[Exchange, Exchange, Exchange]:
    """Return the hops collect, cross and spread (`Exchanges`) that replace messages from owners.

    `send` lists the messages by owner: `Plan.send` or, for a fold, ``Plan.fold.receive``. `most` is
    the largest number of hops of a row; if it is 2, collect is empty.
    """
    num_parts = len(part_ptr) - 1
    topology.check(num_parts)
    node = topology.node_of_rank()
    once = _Once(*_once_per_node(*send.arrays, node, part_ptr))
    sender = np.repeat(np.arange(num_parts, dtype=np.int32), np.diff(send.ptr))
    messages = sender, send.peer, np.diff(send.row_ptr)
    if most == 3:
        sender, receiver = _carriers(messages, once, topology)
    else:
        sender, receiver = once.owner, _relays(messages, once, topology)

    owner, peer = send.part_of_row().astype(np.int32), send.peer_of_row()
    place = part_ptr[owner] + send.row
    near = node[owner] == node[peer]
    sizes = np.diff(once.ptr)
    owner_of, sender_of, receiver_of = (
        np.repeat(each, sizes) for each in (once.owner, sender, receiver)
    )
    foreign = owner_of != sender_of
    at_once = near & (most == 3)
    collect = _step(
        np.concatenate([owner[at_once], owner_of[foreign]]),
        np.concatenate([peer[at_once], sender_of[foreign]]),
        np.concatenate([place[at_once], once.place[foreign]]),
        part_ptr,
    )
    cross = _step(sender_of, receiver_of, once.place, part_ptr)
    carrier = owner.copy()
    carrier[~near] = receiver[_group_of(once, owner[~near], node[peer[~near]], topology.nodes)]
    onward = (carrier != peer) & ~at_once
    spread = _step(carrier[onward], peer[onward], place[onward], part_ptr)
    return collect, cross, spread


def with_routes(plan: Plan, groups: Topology, relays: int | None = None) -> Plan:
    """Return the plan with rows that travel in hops: between nodes, or over relays.

    `groups` says which parts share a node or, for relays, a group. `relays` is the largest number
    of hops over relays (2 or 3), or None for hops between nodes. Raises InputError for a grid plan,
    or if the groups do not fit the parts.
    """
    route = Route(groups if relays is None else None)
    groups.check(plan.num_parts)
    if problem := route.problem(plan.header.layout, plan.num_parts):
        raise InputError(problem)
    exchanges = Exchanges(plan.exchanges)
    for step in filter(plan.exchanges.get, STEPS):
        exchange = plan.exchanges[step]
        owned = exchange.send if step == "expand" else exchange.receive
        hops = hops_of(owned, plan.part_ptr, groups, relays or 3)
        exchanges |= {f"{step}_{hop}": each for hop, each in zip(HOPS, hops, strict=True)}
    return replace(plan, header=replace(plan.header, route=route), exchanges=exchanges)


def routed_like(plan: Plan, old: Plan) -> Plan:
    """Return the plan with the same kind of hops as `old`: between nodes, over relays, or none."""
    if old.header.topology is not None:
        return with_routes(plan, old.header.topology)
    recorded = re.fullmatch(r"(\S+) in ([23]) hops", str(old.provenance.get("relays")))
    if old.header.route is None or recorded is None:
        return plan
    return with_routes(plan, Topology.parse(recorded[1]), int(recorded[2]))


_Messages: TypeAlias = tuple[Int32Array, Int32Array, Int64Array]
"""Sender, receiver and number of rows of every message."""


class _Once(NamedTuple):
    """Rows sent between nodes, each row once per receiving node, grouped by owner and then by node.

    Attributes:
        owner, node (int32[k]): Owner of each group's rows, and the node that needs them.
        ptr (int64[k + 1]): Rows of group i are ``place[ptr[i]:ptr[i + 1]]``, never empty.
        place (int64[rows]): Places of rows in plan order, ascending in every group.
    """

    owner: Int32Array
    node: Int32Array
    ptr: Int64Array
    place: Int64Array


def _group_of(once: _Once, owner: Int32Array, node: Int32Array, nodes: int) -> Int64Array:
    """For every k, return the index of the group of rows from ``owner[k]`` to node ``node[k]``."""
    keys = once.owner.astype(np.int64) * nodes + once.node
    return np.searchsorted(keys, owner.astype(np.int64) * nodes + node)


def _carriers(
    messages: _Messages, once: _Once, topology: Topology
) -> tuple[Int32Array, Int32Array]:
    """Choose the sending and the receiving part for each group of rows in `once`: int32[k] each."""
    node = topology.node_of_rank()
    pair, pair_of = np.unique(
        node[once.owner].astype(np.int64) * topology.nodes + once.node, return_inverse=True
    )
    sizes = np.diff(once.ptr)
    sender, peer, rows = messages
    far = node[sender] != node[peer]
    near = [
        np.bincount(end[~far], weights=rows[~far], minlength=len(node)) for end in (sender, peer)
    ]
    pair_of_message = np.searchsorted(
        pair, node[sender[far]].astype(np.int64) * topology.nodes + node[peer[far]]
    )
    chosen = _choose(
        (pair // topology.nodes, pair % topology.nodes),
        np.bincount(pair_of, weights=sizes, minlength=len(pair)).astype(np.int64),
        (pair_of, once.owner, sizes),
        (pair_of_message, peer[far], rows[far]),
        topology.first_ranks(),
        (near[0] + near[1]).astype(np.int64),
    )
    return chosen[0][pair_of], chosen[1][pair_of]


def _relays(messages: _Messages, once: _Once, topology: Topology) -> Int32Array:
    """Choose, for each of the k groups of rows in `once`, a relay to receive it: int32[k]."""
    node, (sender, peer, rows) = topology.node_of_rank(), messages
    far = node[sender] != node[peer]
    group = _group_of(once, sender[far], node[peer[far]], topology.nodes)
    sizes, parts = np.diff(once.ptr), len(node)
    own = np.bincount(sender[~far], rows[~far], parts) + np.bincount(once.owner, sizes, parts)
    return _choose_relays(
        sizes,
        once.node,
        (np.searchsorted(group, np.arange(len(sizes) + 1)), peer[far], rows[far]),
        topology.first_ranks(),
        (own.astype(np.int64), np.bincount(peer, rows, parts).astype(np.int64)),
    )


def _step(
    sender: Int32Array, receiver: Int32Array, place: Int64Array, part_ptr: Int64Array
) -> Exchange:
    """Return the exchange in which ``sender[k]`` sends the row at ``place[k]`` to ``receiver[k]``.

    A row that is listed twice for the same pair of parts is sent once.
    """
    parts, rows = len(part_ptr) - 1, int(part_ptr[-1])
    pair = sender.astype(np.int64) * parts + receiver
    if parts * parts * rows < 2**63:
        pair, place = np.divmod(np.unique(pair * rows + place), rows)
    else:
        order = np.lexsort((place, pair))
        pair, place = pair[order], place[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (np.diff(pair) != 0) | (np.diff(place) != 0)
        pair, place = pair[new], place[new]
    # `exchange_of_rows` wants the receivers first: pass the senders as receivers, then reverse
    return exchange_of_rows(*np.divmod(pair, parts), place, parts).reversed()


@njit(cache=True, nogil=True)
def _once_per_node(ptr, peer, row_ptr, row, node, part_ptr):  # type: ignore[no-untyped-def]
    """List the rows to send to each node, each row once; return the fields of `_Once`.

    The exchange's send side is (ptr, peer, row_ptr, row).
    """
    parts = len(ptr) - 1
    owner, to = np.empty(len(peer), np.int32), np.empty(len(peer), np.int32)
    ends = np.zeros(len(peer) + 1, np.int64)
    place = np.empty(len(row), np.int64)
    groups, total = 0, 0
    for q in range(parts):
        seen = np.zeros(part_ptr[q + 1] - part_ptr[q], np.bool_)
        k = ptr[q]
        while k < ptr[q + 1]:
            target = node[peer[k]]
            start = k
            while k < ptr[q + 1] and node[peer[k]] == target:
                k += 1
            if target == node[q]:
                continue
            begin = total
            for e in range(row_ptr[start], row_ptr[k]):
                if not seen[row[e]]:
                    seen[row[e]] = True
                    place[total] = row[e]
                    total += 1
            for e in range(begin, total):
                seen[place[e]] = False
            if k > start + 1:
                place[begin:total].sort()
            place[begin:total] += part_ptr[q]
            owner[groups], to[groups] = q, target
            groups += 1
            ends[groups] = total
    return owner[:groups], to[:groups], ends[: groups + 1], place[:total]


@njit(cache=True, nogil=True)
def _choose(nodes, crossing, owned, needed, first, load):  # type: ignore[no-untyped-def]
    """Choose, for each ordered pair of nodes, the sending and the receiving part: int32[2, pairs].

    `nodes` holds the two nodes of each pair, and `crossing` its number of rows. `owned` and
    `needed` each hold three arrays: pair, part, and rows that the part owns or needs. `load` has
    the rows that each part sends and receives in its node; the rows of each choice are added to
    it. Pairs with the most rows come first, and get the parts whose load is then least.
    """
    pairs = len(crossing)
    width = (first[1:] - first[:-1]).max()
    own, need = np.zeros((pairs, width), np.int64), np.zeros((pairs, width), np.int64)
    for k in range(len(owned[0])):
        i = owned[0][k]
        own[i, owned[1][k] - first[nodes[0][i]]] += owned[2][k]
    for k in range(len(needed[0])):
        i = needed[0][k]
        need[i, needed[1][k] - first[nodes[1][i]]] += needed[2][k]
    chosen = np.empty((2, pairs), np.int32)
    for i in np.argsort(-crossing, kind="mergesort"):
        for end in range(2):
            # the part receives the rows that it lacks, and sends the rows that other parts need
            here = own[i] if end == 0 else need[i]
            all_needed = crossing[i] if end == 0 else need[i].sum()
            start, stop = first[nodes[end][i]], first[nodes[end][i] + 1]
            best, least = -1, 0
            for part in range(start, stop):
                after = load[part] + crossing[i] + all_needed - here[part - start]
                if best < 0 or after < least:
                    best, least = part, after
            chosen[end, i] = best
            load[best] = least
    return chosen


@njit(cache=True, nogil=True)
def _choose_relays(sizes, node, needed, first, load):  # type: ignore[no-untyped-def]
    """Choose, for each group of rows, the relay in the node that needs the rows: int32[groups].

    A group holds the rows that one part sends to the parts of one other node: group i has
    ``sizes[i]`` rows for node ``node[i]``. Node x has the parts ``first[x]:first[x + 1]``. `needed`
    is (ptr, part, rows): part ``part[k]`` needs ``rows[k]`` rows of group i, for k in
    ``ptr[i]:ptr[i + 1]``.
    `load` holds the numbers of rows that each part sends, and receives; it is updated. The largest
    groups come first; each gets the part for which the larger of its two numbers in `load` is then
    least.
    """
    ptr, part, rows = needed
    sent, received = load
    chosen = np.empty(len(sizes), np.int32)
    here = np.zeros((first[1:] - first[:-1]).max(), np.int64)
    for i in np.argsort(-sizes, kind="mergesort"):
        start, stop = first[node[i]], first[node[i] + 1]
        here[:] = 0
        for k in range(ptr[i], ptr[i + 1]):
            here[part[k] - start] = rows[k]
        onward = here.sum()
        best, least = start, -1
        for candidate in range(start, stop):
            # rows that the relay itself needs arrive in any case, and are not sent on
            own = here[candidate - start]
            after = max(sent[candidate] + onward - own, received[candidate] + sizes[i] - own)
            if least < 0 or after < least:
                best, least = candidate, after
        chosen[i] = best
        sent[best] += onward - here[best - start]
        received[best] += sizes[i] - here[best - start]
    return chosen
