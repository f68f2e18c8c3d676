"""Costs in a report: of training, of a topology, of products on process grids. No terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from plancc.cost.pairs import pair_volumes_of_table, read_pair_volumes
from plancc.cost.topology import ByNode, messages_by_node, volumes_by_node
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.plan.exchange import Side
from plancc.plan.metrics import StepTraffic, Traffic
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile
from plancc.plan.routes import hops_of
from plancc.plan.topology import Topology
from plancc.plan.values import HOPS
from plancc.predict.memory import row_memory
from plancc.predict.passes import COMMON_PASSES, PASSES
from plancc.predict.schedules import (
    Tables,
    live_tables,
    read_tables,
    schedule_of,
    tables_of,
    tables_of_owners,
    training_vertices,
)
from plancc.predict.schedules.row import traffic_of
from plancc.report.grid_traffic import ProductTraffic, product_traffic
from plancc.report.passes import PassCost, added_passes

WIDTH = 128
"""Width of the product that is counted on a process grid, where a plan carries no features."""


@dataclass(frozen=True)
class TrainingCost:
    """One epoch of a GCN with given dims.

    Attributes:
        words, max_words_sent, messages, max_messages_sent: Sent in the plain execution
            (`plancc.predict.passes`) by all parts, and most by one.
        in_hops: Whether rows are counted in hops between nodes, each in every hop.
        max_memory: Bytes of the fullest part with all passes, by term and in total
            (`plancc.predict.memory`).
        recomputed_memory: Bytes of the fullest part in total, if activations are computed again.
        passes: The plain execution, and then one pass more each time (`plancc.report.passes`); edge
            plans have none that leaves out dead rows.
    """

    dims: list[int]
    words: int
    max_words_sent: int
    messages: int
    max_messages_sent: int
    in_hops: bool
    max_memory: dict[str, int]
    recomputed_memory: int
    passes: list[PassCost]

    @classmethod
    def of(
        cls,
        plan: Plan,
        matrix: Graph,
        owners: Owners,
        parts: Traffic,
        dims: Sequence[int],
        in_hops: bool = False,
    ) -> TrainingCost:
        """The cost with these owners of a plan's matrix, whose exchange of all rows is `parts`.

        `in_hops`: the owners are those of the plan, and rows go in its hops.
        """
        num_parts, header, layers = len(parts.rows), plan.header, len(dims) - 1
        has_rows = not owners.is_edge_partition
        if in_hops:
            tables = tables_of(plan, live_layers=layers if has_rows else 0)
        else:
            tables = tables_of_owners(matrix, owners, num_parts)
        if has_rows and not in_hops:
            wanted = training_vertices(plan)
            live_rows = live_tables(matrix, owners.rows, num_parts, layers, wanted)
            tables = replace(tables, live=live_rows)
        live = [parts] * layers
        if tables.live is not None:
            live = [traffic_of(each) for each in tables.live.layers]
        passes = PASSES if has_rows else COMMON_PASSES
        costs = added_passes(passes, lambda done: schedule_of(tables, dims, done).counts())
        part = owners.of_nonzeros(matrix)
        foreign = owners.rows[matrix.indices] != part
        foreign |= np.repeat(owners.rows, matrix.row_nonzeros()) != part
        undirected = not header.directed and header.normalization != "row"
        held, recomputed = (
            row_memory(
                parts,
                live,
                dims,
                np.bincount(part[foreign], minlength=num_parts),
                symmetric=undirected and not owners.is_edge_partition,
                value_bytes=plan.value.itemsize,
                recompute=recompute,
            )
            for recompute in (False, True)
        )
        plain = costs[0]
        return cls(
            dims=list(dims),
            words=plain.words,
            max_words_sent=plain.max_words_sent,
            messages=plain.messages,
            max_messages_sent=plain.max_messages_sent,
            in_hops=in_hops,
            max_memory=held.of_part(int(held.total.argmax())),
            recomputed_memory=int(recomputed.total.max()),
            passes=costs,
        )


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

    Without hops of its own for this topology, it is that of the hops it would have: the rows of all
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


def product_of(plan: Plan) -> ProductTraffic | None:
    """Words of one product of a grid plan, with H as wide as its features; None for other plans."""
    header, features = plan.header, plan.vertex_data.features
    if header.grid is None:
        return None
    width = WIDTH if features is None else features.shape[1]
    return product_traffic(tables_of(plan, blocks=False), width)


def read_product(file: PlanFile) -> ProductTraffic | None:
    """As `product_of`, for the plan in an open file."""
    if file.header.grid is None:
        return None
    width = WIDTH
    if file.has("vertex_data/features"):
        width = file.node("vertex_data/features").shape[1]
    return product_traffic(read_tables(file.path, blocks=False), width)


def grid_pass_costs(path: str, dims: Sequence[int]) -> list[PassCost]:
    """One epoch on the grid of a plan: plainly, and then one pass more each time.

    The sums over the copies of "1.5d", and that of the weights' gradients, are no messages.

    Raises:
        InputError: If a layer is narrower than the grid has process columns.
    """
    tables = read_tables(path)

    try:
        return added_passes(COMMON_PASSES, lambda done: schedule_of(tables, dims, done).counts())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
