"""What the hops of a plan save in a report: traffic between nodes, and of the busiest part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from plancc.cost.pairs import pair_volumes_of_table, read_pair_volumes
from plancc.cost.topology import ByNode, messages_by_node, volumes_by_node
from plancc.errors import InputError
from plancc.plan.exchange import Side
from plancc.plan.metrics import StepTraffic
from plancc.plan.reader import PlanFile
from plancc.plan.route import HOPS
from plancc.plan.routes import hops_of
from plancc.plan.topology import Topology
from plancc.predict.schedules import Tables


@dataclass(frozen=True)
class TopologyCost:
    """Traffic of one product inside and between the nodes of a topology: of expand and fold.

    Attributes:
        volume, messages: Rows and messages where every row goes straight from rank to rank.
        volume_in_hops, messages_in_hops: The same where every row crosses to a node once
            (`plancc.plan.routes`); None: not known of merged parts.
        has_hops: Whether the plan has these hops.
        random_share: Expected share of `volume` and `messages` between nodes if the parts were
            numbered at random: of the p - 1 others of a part, those on other nodes are between
            nodes.
    """

    topology: Topology
    volume: ByNode
    messages: ByNode
    volume_in_hops: ByNode | None
    messages_in_hops: ByNode | None
    has_hops: bool
    random_share: float

    @classmethod
    def of(
        cls,
        steps: Sequence[sp.csr_array],
        topology: Topology,
        hops: Sequence[sp.csr_array] | None = None,
        has_hops: bool = False,
    ) -> TopologyCost:
        """From the rows that parts send to each other in every step, and in every hop."""
        ranks, total = topology.ranks(), topology.num_ranks
        random_share = int((ranks * (total - ranks)).sum()) / max(1, total * (total - 1))

        def counted(exchanges: Sequence[sp.csr_array]) -> tuple[ByNode, ByNode]:
            rows = _sum(volumes_by_node(each, topology) for each in exchanges)
            return rows, _sum(messages_by_node(each, topology) for each in exchanges)

        rows, messages = counted(steps)
        in_hops = (None, None) if hops is None else counted(hops)
        return cls(topology, rows, messages, in_hops[0], in_hops[1], has_hops, random_share)

    def as_dict(self) -> dict[str, Any]:
        found = {
            "topology": str(self.topology),
            "nodes": self.topology.nodes,
            "ranks_per_node": self.topology.ranks_per_node,
            "volume": self.volume._asdict(),
            "messages": self.messages._asdict(),
            "has_hops": self.has_hops,
            "random_share": self.random_share,
        }
        if self.volume_in_hops is not None and self.messages_in_hops is not None:
            found["volume_in_hops"] = self.volume_in_hops._asdict()
            found["messages_in_hops"] = self.messages_in_hops._asdict()
        return found


def _sum(each: Iterable[ByNode]) -> ByNode:
    return ByNode(*(sum(amounts) for amounts in zip(*each, strict=True)))


def read_topology_cost(file: PlanFile, topology: Topology) -> TopologyCost:
    """The cost of the plan in an open file on a topology, which has as many ranks as it has parts.

    Without hops for this topology, it is the share of the hops that it would have: the rows of all
    messages are read then.
    """
    names = ("expand", "fold") if file.header.layout == "edge" else ("expand",)
    steps = [read_pair_volumes(file, f"{step}/send") for step in names]
    if file.header.topology == topology:
        hops = [read_pair_volumes(file, f"{s}_{hop}/send") for s in names for hop in HOPS]
        return TopologyCost.of(steps, topology, hops, has_hops=True)
    part_ptr = file.read("rows/part_ptr")
    hops = []
    for table in ("expand/send", "fold/recv")[: len(names)]:
        ptr, peer, row_ptr = file.read_messages(table)
        owned = Side(ptr, peer, row_ptr, file.read(f"{table}_row"))
        hops += [pair_volumes_of_table(hop.send) for hop in hops_of(owned, part_ptr, topology)]
    return TopologyCost.of(steps, topology, hops)


class Busiest(NamedTuple):
    """The busiest part of one product.

    Attributes:
        rows, messages: Most that a part sends or receives, whichever is more.
        volume: Rows that all parts send.
    """

    rows: int
    messages: int
    volume: int

    @classmethod
    def of(cls, steps: Iterable[StepTraffic]) -> Self:
        """Take the most over the parts of steps after each other."""
        sent, received, *messages = (sum(each) for each in zip(*steps, strict=True))
        rows, most = (int(np.maximum(*ends).max()) for ends in ((sent, received), messages))
        return cls(rows, most, int(sent.sum()))


@dataclass(frozen=True)
class RelayCost:
    """The busiest part of one product, of expand and fold.

    Attributes:
        straight, relayed: Where every row goes straight from rank to rank, and over relays.
        least_rows: Rows of the busiest part that no relays undercut: every part receives the rows
            that it needs, and sends its partial rows.
    """

    straight: Busiest
    relayed: Busiest
    least_rows: int

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """Count the tables of a plan with relays."""
        expand, fold = tables.expand.step, tables.fold
        least, steps = expand.received, [expand]
        hops = [hop.step for hop in tables.expand.hops]
        if fold is not None:  # its hops lead from the owners
            least, steps = np.maximum(least, fold.step.sent), [expand, fold.step]
            hops += [hop.reversed.step for hop in fold.hops]
        return cls(Busiest.of(steps), Busiest.of(hops), int(least.max()))

    def as_dict(self) -> dict[str, Any]:
        straight, relayed = self.straight._asdict(), self.relayed._asdict()
        return {"straight": straight, "relayed": relayed, "least_rows": self.least_rows}


def chosen_topology(file: PlanFile, num_ranks: int, given: Topology | None) -> Topology | None:
    """The given topology, or the plan's own; InputError if it does not suit the plan."""
    grid = file.header.grid
    exchanges_rows = grid is None or grid.exchanges_rows
    if given is not None:
        if not exchanges_rows:
            raise InputError(
                f"{file.path}: ranks of grid '{grid}' do not exchange what the parts of a row plan "
                "do; a topology is for row and edge plans, and for cagnet-1d with `sparse`"
            )
        given.check(num_ranks)
        return given
    return recorded_topology(file.attributes("provenance"), num_ranks) if exchanges_rows else None


def recorded_topology(provenance: Mapping[str, Any], num_ranks: int) -> Topology | None:
    """The topology that a plan was compiled for, if that is what the ranks make up."""
    try:
        topology = Topology.parse(str(provenance.get("topology", "")))
        topology.check(num_ranks)
    except InputError:
        return None
    return topology
