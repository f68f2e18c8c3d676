"""Messages between parts to hops: every row crosses to a node, or a group of parts, once.

Node-aware communication in three hops (Bienz, Gropp, Olson 2019, "Node aware sparse matrix-vector
multiplication"). Of every ordered pair of nodes one part sends for all of its node, and one
receives for all of its own; which ones is chosen here, so that all parts of a node carry about as
many rows.

In two hops owners send to other groups themselves, to one relay in each (Selvitopi, Aykanat 2019,
"Regularizing irregularly sparse point-to-point communications"). The relay of an owner's rows is
chosen by load, not by place.
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
from plancc.plan.route import HOPS, Route
from plancc.plan.topology import Topology
from plancc.plan.values import STEPS, Exchanges


def hops_of(
    send: Side, part_ptr: Int64Array, topology: Topology, most: int = 3
) -> tuple[Exchange, Exchange, Exchange]:
    """Collect, cross and spread of messages from the owners of rows (`Exchanges`).

    Parameters:
        send: By sender, which owns the rows: `Plan.send`, and ``Plan.fold.receive`` of a fold.
        part_ptr (int64[num_parts + 1]): First row of every part in plan order.
        topology: With a rank for every part.
        most: 3, or 2: then there is nothing to collect.

    Raises:
        InputError: If the topology does not have one rank for every part.
    """
    num_parts = len(part_ptr) - 1
    topology.check(num_parts)
    node = topology.node_of_rank()
    once = _Once(*_once_per_node(send.ptr, send.peer, send.row_ptr, send.row, node, part_ptr))
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
    """The same plan with hops between nodes, or over relays of groups wherever these run.

    Parameters:
        groups: The nodes, or the groups of relays.
        relays: Messages that a row takes at most over relays: 2 or 3; None: between nodes.

    Raises:
        InputError: If the groups have not one rank for every part, or ranks share parts.
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
    """A plan of other owners with hops as `old` has them, between nodes or over relays."""
    if old.header.topology is not None:
        return with_routes(plan, old.header.topology)
    recorded = re.fullmatch(r"(\S+) in ([23]) hops", str(old.provenance.get("relays")))
    if old.header.route is None or recorded is None:
        return plan
    return with_routes(plan, Topology.parse(recorded[1]), int(recorded[2]))


_Messages: TypeAlias = tuple[Int32Array, Int32Array, Int64Array]
"""Sender, receiver and number of rows of every message."""


class _Once(NamedTuple):
    """Rows of every part that a foreign node needs, each once: by owner, and then by node.

    Attributes:
        owner, node (int32[k]): Of every group; no group is empty.
        ptr (int64[k + 1]): Places of group i are ``place[ptr[i]:ptr[i + 1]]``.
        place (int64[rows between nodes]): In plan order, ascending in every group.
    """

    owner: Int32Array
    node: Int32Array
    ptr: Int64Array
    place: Int64Array


def _group_of(once: _Once, owner: Int32Array, node: Int32Array, nodes: int) -> Int64Array:
    """The group of an owner's rows for a node."""
    keys = once.owner.astype(np.int64) * nodes + once.node
    return np.searchsorted(keys, owner.astype(np.int64) * nodes + node)


def _carriers(
    messages: _Messages, once: _Once, topology: Topology
) -> tuple[Int32Array, Int32Array]:
    """The part that sends, and the part that receives, the rows of every group of `once`."""
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
    """The part that receives the rows of every group of `once`."""
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
    """The exchange of these rows; a row that is there twice travels once."""
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
    # from the receivers, whose place those who send take here
    return exchange_of_rows(*np.divmod(pair, parts), place, parts).reversed()


@njit(cache=True, nogil=True)
def _once_per_node(ptr, peer, row_ptr, row, node, part_ptr):  # type: ignore[no-untyped-def]
    """The fields of `_Once`, of messages by sender; (ptr, peer, row_ptr, row) is an `Side`."""
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
    """Sender and receiver of every ordered pair of nodes: int32[2, pairs].

    `nodes` are the nodes of every pair, `crossing` its rows. `owned` and `needed` are (pair, part,
    rows): what parts own of a pair's rows, and what they need of them. `load` has the rows that
    every part sends and receives inside its node, and is changed. The pairs with most rows choose
    first; each takes the parts that then have the least to do.
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
            # what is not here already comes in, and what others need goes out
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
    """The part of its node that receives each group of rows: int32[groups].

    `needed` is (ptr, part, rows) by group: what parts need of it. `load` has the rows that every
    part sends and receives anyway, and is changed. The largest groups choose first; each takes the
    part that is then the least busy, by what it sends or receives, whichever is more.
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
            # what the relay needs itself comes in anyway, and does not go out again
            own = here[candidate - start]
            after = max(sent[candidate] + onward - own, received[candidate] + sizes[i] - own)
            if least < 0 or after < least:
                best, least = candidate, after
        chosen[i] = best
        sent[best] += onward - here[best - start]
        received[best] += sizes[i] - here[best - start]
    return chosen
