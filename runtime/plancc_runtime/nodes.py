"""Choice of the exchange: node-aware, over relays, or directly from rank to rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from plancc.errors import InputError
from plancc.plan.exchange import Int32Array
from plancc.plan.parts import Part
from plancc.plan.rank_parts import block_of_parts
from plancc.plan.routed import Routed
from plancc.plan.topology import Topology
from plancc.plan.values import Header
from plancc_runtime.transport.base import Transport


def with_exchange(header: Header, part: Part, exchange: str, transport: Transport) -> Part:
    """Return the slice with the exchange that the run uses to send rows. Collective.

    If the topology fits the ranks' nodes, or `exchange` is "nodes", the transport counts messages
    between the topology's nodes. With `exchange` "auto", rows take the plan's hops, or direct
    messages if the topology does not fit; with "flat", direct messages; with "nodes" or "relays",
    the plan's hops, whether the topology fits or not.
    """
    topology = header.topology
    if not isinstance(part.expand, Routed):
        return part
    there = topology is None or exchange == "nodes" or fits(topology, transport.nodes_of_ranks())
    if there and topology is not None:
        node = planned_nodes(topology, transport.size)
        transport.far = (node != node[transport.rank]).tolist()
    if there and exchange != "flat":
        return part
    fold = None if part.fold is None else part.fold.straight()
    return replace(part, expand=part.expand.straight(), fold=fold)


def exchange_of(header: Header, part: Part) -> str:
    """Return how rows of the slice are exchanged: "flat", "nodes" or "relays"."""
    if not isinstance(part.expand, Routed):
        return "flat"
    return "relays" if header.topology is None else "nodes"


def check_exchange(header: Header, exchange: str, num_ranks: int) -> None:
    """Raise InputError if the plan lacks the hops of `exchange`, or `num_ranks` does not fit."""
    route, topology, parts = header.route, header.topology, header.num_parts
    fits_ranks = route is not None and route.keeps_groups(block_of_parts(parts, num_ranks))
    why = ""
    if exchange == "relays" and (route is None or topology is not None):
        why = "the plan has no relays; compile it with `exchange` relays"
    elif exchange == "relays" and num_ranks != parts:
        why = f"the plan's relays need {parts} ranks, not {num_ranks}"
    elif exchange == "nodes" and (route is None or topology is None):
        why = "the plan has no hops between nodes; compile it with `topology` and `exchange` nodes"
    elif exchange == "nodes" and not fits_ranks:
        why = (
            f"the plan needs nodes x ranks {topology}; with {num_ranks} ranks, some ranks would "
            "have parts of several nodes"
        )
    if why:
        raise InputError(f"`exchange` {exchange}: {why}")


def fits(topology: Topology, nodes: list[str]) -> bool:
    """Whether the ranks that share a node are those whose parts the topology puts on one node."""
    planned = planned_nodes(topology, len(nodes))
    _, found = np.unique(nodes, return_inverse=True)
    pairs = set(zip(planned.tolist(), found.tolist(), strict=True))
    return len(pairs) == len(np.unique(planned)) == len(np.unique(found))


def planned_nodes(topology: Topology, num_ranks: int) -> Int32Array:
    """Return the node of every rank's first part: int32[num_ranks]."""
    blocks = block_of_parts(topology.num_ranks, num_ranks)
    return topology.node_of_rank()[blocks[:-1]]
