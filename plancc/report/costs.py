"""Costs that a report shows for training epochs, and for products on process grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.plan.metrics import Traffic
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile
from plancc.predict.memory import row_memory
from plancc.predict.passes import COMMON_PASSES, PASSES
from plancc.predict.schedules import (
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
"""Number of columns of H, for the words of a grid plan that has no features."""


@dataclass(frozen=True)
class TrainingCost:
    """The cost of one training epoch of a GCN.

    Attributes:
        words, messages: Sent by all parts together, with no pass of `plancc.predict.passes`.
        max_words_sent, max_messages_sent: The same for the part that sends most.
        in_hops: Whether rows are sent in hops, and counted in every hop.
        max_memory: Bytes that the part with the most memory needs, with all passes: for each
            attribute of `Memory`, and in total.
        recomputed_memory: The total bytes if activations are recomputed.
        passes: Costs with no pass, with the first pass, with two, and so on.
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
        """Return the cost of an epoch on a plan's matrix, with the plan's owners or other owners.

        With the pass "dead-rows", rows on which no training vertex of the plan depends cost
        nothing. With `in_hops` (rows travel in the plan's hops), `owners` must be the plan's.
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
            max_memory=held.part_terms(int(held.total.argmax())),
            recomputed_memory=int(recomputed.total.max()),
            passes=costs,
        )


def product_of(plan: Plan) -> ProductTraffic | None:
    """Return the words of one product on a plan's grid; None if the plan has no grid.

    H has as many columns as the features, or `WIDTH` columns if there are no features.
    """
    header, features = plan.header, plan.vertex_data.features
    if header.grid is None:
        return None
    width = WIDTH if features is None else features.shape[1]
    return product_traffic(tables_of(plan, blocks=False), width)


def read_product(file: PlanFile) -> ProductTraffic | None:
    """Return the result of `product_of` for the plan in an open file."""
    if file.header.grid is None:
        return None
    width = file.width("vertex_data/features")
    return product_traffic(read_tables(file.path, blocks=False), WIDTH if width is None else width)


def grid_pass_costs(path: str, dims: Sequence[int]) -> list[PassCost]:
    """Return costs of an epoch on a plan's grid: first without passes, then adding pass by pass.

    All-reduces of gradients, and of products in scheme "1.5d", are not counted.
    """
    tables = read_tables(path)

    try:
        return added_passes(COMMON_PASSES, lambda done: schedule_of(tables, dims, done).counts())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
