"""Schedulers of row and edge plans: expand, multiply, fold, and the reverse in backpropagation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array
from plancc.plan.layers import Aggregate, Attention, GatherNeighbours, Maximum, RowStep
from plancc.plan.metrics import Traffic
from plancc.plan.products import ROW, Program, adjoint, edge_program
from plancc.predict.memory import Memory, row_memory
from plancc.predict.schedule import Elementwise, Pairs, PointToPoint, SparseProduct, Work
from plancc.predict.schedules.epoch import PRODUCTS, Scheduler, Works, moving
from plancc.predict.schedules.tables import Tables

# the following work takes as long as reading these numbers of words: fitted to epochs on one core
# (docs/results/scaling.md)
COMPARE_WORDS = 0.8
"""Extra words per nonzero and column, besides the product's, for an aggregation by maximum."""
MAXIMUM_WORDS = {"forward": 10, "back": 16}
"""Words per element of a maximum: forward, to record the maximum's row; back, to add the gradient
to this row."""
SCORE_WORDS = 6
"""Words per element of H W for the two attention scores of a row: as source and as destination."""
WEIGHT_WORDS = {"forward": 4, "back": 7}
"""Words per nonzero and head: forward, for the attention weight; back, for its gradient."""
ATTEND_WORDS = 0.28
"""Extra words per nonzero and column, besides the product's, for attention."""


class RowScheduler(Scheduler):
    """Says how much work the ranks of a row plan or an edge plan have in the steps of an epoch."""

    def __init__(self, tables: Tables) -> None:
        self.num_ranks, self.rows = tables.num_ranks, tables.rows
        self._tables = tables
        self._fold = None if tables.fold is None else tables.fold.reversed

    def tables_of(self, layer: int) -> Tables:
        """Return the sizes and messages of the rows that a layer computes; the first layer is 1."""
        live = self._tables.live
        return self._tables if live is None else live.layers[layer - 1]

    def outputs(self, layer: int) -> Int64Array:
        return self.rows if self._tables.live is None else self.tables_of(layer).rows

    def rows_of(self, layer: int, which: str) -> Int64Array:
        live = self._tables.live
        if which == "edges":
            return self.tables_of(layer).nonzeros
        if which == "outputs" or live is None:
            rows = self.outputs(layer)
        else:
            rows = live.inputs if layer == 1 else self.outputs(layer - 1)
        return rows + self.tables_of(layer).expand.step.received if which == "columns" else rows

    def program(self, layer: int) -> Program:
        # the order in which own rows are multiplied makes no difference here
        return ROW if self._fold is None else edge_program(expand_is_longer=True)

    def works(self, layer: int, step: Aggregate) -> Works:
        tables, fold, width = self.tables_of(layer), self._fold, step.columns
        rows = tables.rows if fold is None else tables.rows + fold.step.received
        return {
            "expand": messages("expand", tables.expand, width),
            "fold": messages("fold", fold, width) if fold else (),
            PRODUCTS: [SparseProduct(rows, tables.nonzeros, width, own=tables.own_nonzeros)],
        }

    def neighbour_rows(self, layer: int, step: RowStep) -> Iterator[tuple[str, Work]]:
        if self._fold is not None:
            raise InputError(
                "layers that gather rows of neighbours are predicted for row plans only; "
                f"{self._tables.name} is an edge plan"
            )
        direction, columns = step.direction, step.columns
        nonzeros = self.tables_of(layer).nonzeros
        works: list[Work] = []
        match step:
            case GatherNeighbours():
                expand = adjoint(ROW[:1])[0] if step.back else ROW[0]
                yield from moving(expand, self.works(layer, Aggregate(columns)))
            case Maximum():
                words = MAXIMUM_WORDS[direction] * self.outputs(layer) * columns
                if not step.back:
                    works += self.works(layer, Aggregate(columns))[PRODUCTS]
                    words = words + _whole(COMPARE_WORDS * nonzeros * columns)
                works.append(Elementwise(words))
            case Attention():
                scores = SCORE_WORDS * self.rows_of(layer, "columns") * columns
                columns *= 1 + step.back  # the backward pass also has products of rows
                of_nonzero = WEIGHT_WORDS[direction] * step.heads + ATTEND_WORDS * columns
                works += Elementwise(scores), Elementwise(_whole(of_nonzero * nonzeros))
                works += self.works(layer, Aggregate(columns))[PRODUCTS]
        yield from (("multiply", work) for work in works)

    def memory(self, dims: Sequence[int]) -> Memory:
        tables = self._tables
        traffic = traffic_of(tables)
        halo = tables.boundary_nonzeros
        if halo is None:  # as if all columns had equally many nonzeros
            held = tables.rows + traffic.halo
            halo = tables.nonzeros * traffic.halo // np.maximum(held, 1)
        if tables.own_nonzeros is not None:
            halo = np.maximum(halo, tables.nonzeros - tables.own_nonzeros)
        layers = [traffic_of(self.tables_of(k)) for k in range(1, len(dims))]
        return row_memory(traffic, layers, dims, halo, symmetric=tables.undirected)


def _whole(words: npt.NDArray[np.floating]) -> Int64Array:
    return np.rint(words).astype(np.int64)


def traffic_of(tables: Tables) -> Traffic:
    """Return the load and the traffic of every part of a row or edge plan, in one product."""
    expand = tables.expand.step
    if tables.fold is None:
        return Traffic(tables.rows, tables.nonzeros, *expand)
    fold = tables.fold.step
    # the tables do not tell which vertices are both received and folded
    copies = tables.rows + expand.received + fold.sent
    return Traffic.of_steps(tables.rows, tables.nonzeros, expand, fold, copies)


def messages(step: str, pairs: Pairs, width: int | Int64Array) -> list[PointToPoint]:
    """Return the messages of the exchange `pairs`, whose rows have `width` columns.

    The list has an entry for every hop or, without hops, one entry; hops without rows are left out.
    """
    steps = pairs.by_step(step).items()
    return [PointToPoint(each, width, name) for name, each in steps if len(each.source)]
