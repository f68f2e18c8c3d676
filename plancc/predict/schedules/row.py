"""Row and edge plans: expand, multiply, fold; back the same plan read backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plancc.plan.metrics import Traffic
from plancc.plan.plan import Int64Array
from plancc.predict.memory import Memory, memory
from plancc.predict.schedule import Elementwise, Messages, Operation, Pairs, Place, SparseProduct
from plancc.predict.schedules.epoch import Layout
from plancc.predict.schedules.tables import Tables

PACK, ADD = 2, 3
"""Words read and written of every word sent from a copy, or added where it arrives."""


class RowLayout(Layout):
    """Of row plans, and of edge plans."""

    def __init__(self, tables: Tables) -> None:
        self.num_ranks, self.rows = tables.num_ranks, tables.rows
        self._tables = tables

    def product(self, layer: int, direction: str, width: int) -> Iterator[Operation]:
        tables, back = self._tables, direction == "back"
        folded = 0 if tables.fold is None else tables.fold.by_node(1).sent
        multiply = SparseProduct(
            Place(layer, direction, "multiply"),
            rows=tables.rows + folded,
            nonzeros=tables.nonzeros,
            width=width,
            own=tables.own_nonzeros,
        )
        expand = list(exchange(tables.expand, Place(layer, direction, "expand"), width, back))
        if tables.fold is None:
            yield from ([multiply, *expand] if back else [*expand, multiply])
            return
        # partial rows are added to their owners' forward; back, owners send copies
        fold = list(
            exchange(tables.fold, Place(layer, direction, "fold"), width, back, adds=not back)
        )
        yield from ([*fold, multiply, *expand] if back else [*expand, multiply, *fold])

    def memory(self, dims: Sequence[int]) -> Memory:
        tables = self._tables
        traffic = traffic_of(tables)
        halo = tables.boundary_nonzeros
        if halo is None:  # as if every column were as likely
            held = tables.rows + traffic.halo
            halo = tables.nonzeros * traffic.halo // np.maximum(held, 1)
        if tables.own_nonzeros is not None:
            halo = np.maximum(halo, tables.nonzeros - tables.own_nonzeros)
        layers = [traffic] * (len(dims) - 1)
        return memory(traffic, layers, dims, halo, symmetric=tables.undirected)


def traffic_of(tables: Tables) -> Traffic:
    """Load and communication of every part of a row or edge plan."""
    expand = tables.expand.step
    if tables.fold is None:
        return Traffic(tables.rows, tables.nonzeros, *expand)
    # of the vertices that are both received and folded nothing is known here
    copies = tables.rows + expand.received + tables.fold.by_node(1).sent
    fold = tables.fold.step
    return Traffic.of_steps(tables.rows, tables.nonzeros, expand, fold, copies)


def exchange(
    pairs: Pairs,
    place: Place,
    width: int | Int64Array,
    reverse: bool,
    adds: bool | None = None,
) -> Iterator[Operation]:
    """One exchange, with its packing, or with adding what arrives (by default if reversed)."""
    if not len(pairs.source):
        return
    yield Messages(place, pairs=pairs, width=width, reverse=reverse)
    split = pairs.by_node(1)
    adds = reverse if adds is None else adds
    # copies are made of what the owners send, and they add what comes back
    rows = split.sent if adds == reverse else split.received
    yield Elementwise(place, words=(ADD if adds else PACK) * rows * width)
