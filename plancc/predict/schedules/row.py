"""Row and edge plans: expand, multiply, fold; back the same plan read backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array
from plancc.plan.layers import Aggregate, Attention, GatherNeighbours, Maximum
from plancc.plan.metrics import Traffic
from plancc.plan.values import HOPS
from plancc.predict.memory import Memory, row_memory
from plancc.predict.schedule import (
    Elementwise,
    Operation,
    Pairs,
    Place,
    PointToPoint,
    SparseProduct,
)
from plancc.predict.schedules.epoch import Scheduler
from plancc.predict.schedules.tables import Tables

PACK_WORDS = 2
"""Words read and written per word that is sent from a copy."""
ADD_WORDS = 3
"""Words read and written per word that is added where it arrives."""
# what follows takes as long as reading so many words: fitted to epochs on one core
# (docs/results/scaling.md)
COMPARE_WORDS = 0.8
"""Words per nonzero and column that a maximum takes beside a product."""
MAXIMUM_WORDS = {"forward": 10, "back": 16}
"""Words per element of a maximum: to note whose it is; back, to send its gradient there."""
SCORE_WORDS = 6
"""Words per element of H W for the scores of its row, as source and as target."""
WEIGHT_WORDS = {"forward": 4, "back": 7}
"""Words per nonzero and head for a weight of attention; back, for its gradient."""
ATTEND_WORDS = 0.28
"""Words per nonzero and column that attention takes beside a product."""


class RowScheduler(Scheduler):
    """Row plans and edge plans."""

    def __init__(self, tables: Tables) -> None:
        self.num_ranks, self.rows = tables.num_ranks, tables.rows
        self._tables = tables

    def tables_of(self, layer: int) -> Tables:
        """The tables of a layer, from 1."""
        live = self._tables.live
        return self._tables if live is None else live.layers[layer - 1]

    def outputs(self, layer: int) -> Int64Array:
        return self.rows if self._tables.live is None else self.tables_of(layer).rows

    def inputs(self, layer: int) -> Int64Array:
        live = self._tables.live
        if live is None:
            return self.rows
        return live.inputs if layer == 1 else self.outputs(layer - 1)

    def rows_of(self, layer: int, which: str) -> Int64Array:
        if which != "columns":
            return super().rows_of(layer, which)
        return self.inputs(layer) + self.tables_of(layer).expand.step.received

    def gather(self, layer: int, step: GatherNeighbours) -> Iterator[Operation]:
        if self._tables.fold is not None:
            raise InputError(
                "this layer gathers rows of neighbours: it is predicted for plans of layout row "
                f"only; {self._tables.name} is of layout edge"
            )
        yield from self._expand(layer, step.direction, step.columns)

    def maximum(self, layer: int, step: Maximum) -> Iterator[Operation]:
        tables, width = self.tables_of(layer), step.columns
        place = Place(layer, step.direction, "multiply")
        words = MAXIMUM_WORDS[step.direction] * tables.rows * width
        if not step.back:
            yield self._sums(layer, step.direction, width)
            words = words + _whole(COMPARE_WORDS * tables.nonzeros * width)
        yield Elementwise(place, words=words)

    def attention(self, layer: int, step: Attention) -> Iterator[Operation]:
        tables, place = self.tables_of(layer), Place(layer, step.direction, "multiply")
        held = self.rows_of(layer, "columns")
        columns = 2 * step.columns if step.back else step.columns  # back, products of rows too
        of_nonzero = WEIGHT_WORDS[step.direction] * step.heads + ATTEND_WORDS * columns
        yield Elementwise(place, words=SCORE_WORDS * held * step.columns)
        yield Elementwise(place, words=_whole(of_nonzero * tables.nonzeros))
        yield self._sums(layer, step.direction, columns)

    def _sums(self, layer: int, direction: str, width: int) -> SparseProduct:
        """Sums over neighbours, where every rank has whole rows."""
        tables = self.tables_of(layer)
        return SparseProduct(
            Place(layer, direction, "multiply"),
            rows=tables.rows,
            nonzeros=tables.nonzeros,
            width=width,
            own=tables.own_nonzeros,
        )

    def _expand(self, layer: int, direction: str, width: int) -> Iterator[Operation]:
        tables, back = self.tables_of(layer), direction == "back"
        place = Place(layer, direction, "expand")
        if tables.route is None:
            return exchange(tables.expand, place, width, back)
        return hops(tables.route, place, width, back)

    def product(self, layer: int, step: Aggregate) -> Iterator[Operation]:
        direction, width, back = step.direction, step.columns, step.back
        tables = self.tables_of(layer)
        folded = 0 if tables.fold is None else tables.fold.step.sent
        multiply = SparseProduct(
            Place(layer, direction, "multiply"),
            rows=tables.rows + folded,
            nonzeros=tables.nonzeros,
            width=width,
            own=tables.own_nonzeros,
        )
        expand = self._expand(layer, direction, width)
        fold: Iterator[Operation] = iter(())
        place = Place(layer, direction, "fold")
        if tables.fold_route is not None:
            fold = hops(tables.fold_route, place, width, not back)
        elif tables.fold is not None:  # forward, owners add partial rows; back, they send copies
            fold = exchange(tables.fold, place, width, back, adds=not back)
        steps = (expand, (multiply,), fold)
        yield from chain(*(reversed(steps) if back else steps))

    def memory(self, dims: Sequence[int]) -> Memory:
        tables = self._tables
        traffic = traffic_of(tables)
        halo = tables.boundary_nonzeros
        if halo is None:  # as if every column were as likely
            held = tables.rows + traffic.halo
            halo = tables.nonzeros * traffic.halo // np.maximum(held, 1)
        if tables.own_nonzeros is not None:
            halo = np.maximum(halo, tables.nonzeros - tables.own_nonzeros)
        layers = [traffic_of(self.tables_of(k)) for k in range(1, len(dims))]
        return row_memory(traffic, layers, dims, halo, symmetric=tables.undirected)


def _whole(words: npt.NDArray[np.floating]) -> Int64Array:
    return np.rint(words).astype(np.int64)


def traffic_of(tables: Tables) -> Traffic:
    """Load and communication of every part of a row or edge plan."""
    expand = tables.expand.step
    if tables.fold is None:
        return Traffic(tables.rows, tables.nonzeros, *expand)
    fold = tables.fold.step
    # which vertices are both received and folded is not known here
    copies = tables.rows + expand.received + fold.sent
    return Traffic.of_steps(tables.rows, tables.nonzeros, expand, fold, copies)


def hops(
    route: Sequence[Pairs], place: Place, width: int | Int64Array, reverse: bool
) -> Iterator[Operation]:
    """The hops of a route one after the other; reversed, each adds what arrives."""
    of_hops = [
        exchange(pairs, place._replace(step=hop), width, reverse)
        for hop, pairs in zip(HOPS, route, strict=True)
    ]
    yield from chain(*(reversed(of_hops) if reverse else of_hops))


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
    yield PointToPoint(place, pairs=pairs, width=width, reverse=reverse)
    adds = reverse if adds is None else adds
    # copies are made of what the owners send, and they add what comes back
    rows = pairs.step.sent if adds == reverse else pairs.step.received
    yield Elementwise(place, words=(ADD_WORDS if adds else PACK_WORDS) * rows * width)
