"""The traffic of a plan whose rows travel in hops, compared with sending every row directly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from plancc.cost.pairs import pair_volumes_of_table
from plancc.cost.topology import ByNode, messages_by_node, volumes_by_node
from plancc.errors import InputError
from plancc.plan.metrics import StepTraffic
from plancc.plan.reader import PlanFile
from plancc.plan.routes import hops_of
from plancc.plan.topology import Topology
from plancc.predict.schedules import Tables, matrix_of_pairs, read_tables


@dataclass(frozen=True)
class TopologyCost:
    """Traffic of expand and fold of one product, inside and between the nodes of a topology.

    Attributes:
        volume, messages: Rows and messages if every row is sent directly.
        volume_in_hops, messages_in_hops: Rows and messages by node-aware exchange; None if ranks
            run several parts.
        has_hops: Whether the plan itself has hops for this topology.
        random_share: Probability that two parts are on different nodes.
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
        tables: Tables,
        topology: Topology,
        hops: Sequence[sp.csr_array] | None = None,
        has_hops: bool = False,
    ) -> TopologyCost:
        """Return the cost of a plan on a topology.

        ``hops[h][p, q]`` is the number of rows that part p sends to part q in hop h of a node-aware
        exchange; None if ranks run several parts. `has_hops`: whether the plan itself has hops.
        """
        ranks, total = topology.ranks(), topology.num_ranks
        random_share = int((ranks * (total - ranks)).sum()) / max(1, total * (total - 1))

        def counted(exchanges: Sequence[sp.csr_array]) -> tuple[ByNode, ByNode]:
            rows = _sum(volumes_by_node(each, topology) for each in exchanges)
            return rows, _sum(messages_by_node(each, topology) for each in exchanges)

        rows, messages = counted([matrix_of_pairs(each) for each in tables.exchanges])
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
    """Return the traffic of the plan in an open file on a topology with as many ranks as parts.

    If the plan has no hops for the topology, hops are computed from the rows of all messages.
    """
    tables, part_ptr = read_tables(file.path, blocks=False), file.read("rows/part_ptr")
    if tables.topology == topology:
        hops = [matrix_of_pairs(hop) for each in tables.exchanges for hop in each.hops]
        return TopologyCost.of(tables, topology, hops, has_hops=True)
    hops = []
    for table in ("expand/send", "fold/recv")[: len(tables.exchanges)]:
        made = hops_of(file.read_side(table), part_ptr, topology)
        hops += [pair_volumes_of_table(hop.send) for hop in made]
    return TopologyCost.of(tables, topology, hops)


class Busiest(NamedTuple):
    """The traffic of the busiest parts in one product.

    Attributes:
        rows, messages: Largest numbers of rows and messages that a part sends or receives.
        volume: Number of rows that all parts send.
    """

    rows: int
    messages: int
    volume: int

    @classmethod
    def of(cls, steps: Iterable[StepTraffic]) -> Self:
        """Return the busiest part's counts, summed over steps that run one after another."""
        sent, received, *messages = (sum(each) for each in zip(*steps, strict=True))
        rows, most = (int(np.maximum(*ends).max()) for ends in ((sent, received), messages))
        return cls(rows, most, int(sent.sum()))


@dataclass(frozen=True)
class RelayCost:
    """The traffic of the busiest part in one product, with and without relays.

    Attributes:
        straight: Traffic if every row is sent directly.
        relayed: Traffic if rows are sent over relays.
        least_rows: Lower bound for the rows that the busiest part sends or receives, with any
            relays.
    """

    straight: Busiest
    relayed: Busiest
    least_rows: int

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """Return the cost, given the tables of a plan with relays."""
        expand, fold = tables.expand.step, tables.fold
        least, steps = expand.received, [expand]
        hops = [hop.step for hop in tables.expand.hops]
        if fold is not None:  # the hops of the fold start at the owners
            least, steps = np.maximum(least, fold.step.sent), [expand, fold.step]
            hops += [hop.reversed.step for hop in fold.hops]
        return cls(Busiest.of(steps), Busiest.of(hops), int(least.max()))

    def as_dict(self) -> dict[str, Any]:
        straight, relayed = self.straight._asdict(), self.relayed._asdict()
        return {"straight": straight, "relayed": relayed, "least_rows": self.least_rows}


def chosen_topology(file: PlanFile, num_ranks: int, given: Topology | None) -> Topology | None:
    """Return `given`, else the recorded topology, or None; InputError if `given` does not fit."""
    grid = file.header.grid
    exchanges_rows = grid is None or grid.exchanges_rows
    if given is not None:
        if not exchanges_rows:
            raise InputError(
                f"{file.path}: ranks of grid '{grid}' do not send each other single rows, which a "
                "topology needs; use a row plan, an edge plan, or cagnet-1d with `sparse`"
            )
        given.check(num_ranks)
        return given
    return Topology.recorded(file.attributes("provenance"), num_ranks) if exchanges_rows else None
