"""A step of a row plan that works on a mini-batch: the walk of an epoch with the batch's sizes.

A batch is a plan of few rows with a different matrix in every layer, as live rows are
(`Tables.live`). Features of halo rows are kept from step to step; their products are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.plan.exchange import Int32Array, Int64Array, offsets
from plancc.plan.words import AllReduceWords
from plancc.predict.schedule import DRAW, BatchDraw, Elementwise, Pairs, PointToPoint, Work
from plancc.predict.schedules.approximate import SampledScheduler
from plancc.predict.schedules.epoch import PACK_WORDS
from plancc.predict.schedules.owner_tables import layer_tables
from plancc.predict.schedules.row import RowScheduler
from plancc.predict.schedules.tables import Live, Tables
from plancc.sampling import Batch, BatchLayer, Population
from plancc.sampling.owned import OwnedRows
from plancc.sampling.walk import WalkSampler

WORD_BITS = 32
"""Rows that a word of bits tells, as in the runtime."""
BLOCKS = 2
"""What a block takes beside its rows and nonzeros, over that of one rank that draws as their owner:
messages are laid out, or rows found among the rows of a rank; fitted."""


class Bits:
    """Words by which ranks tell the owners of rows which of them a block needs; and of walks.

    Of a message's rows in plan order every 32 have a word, which travels if one of them is needed;
    and every 32 words a word that always does (`plancc_runtime.transport.row_numbers.RowBits`).

    Parameters:
        owner: int32[n].
        place (int64[n]): Of every vertex in plan order.
    """

    def __init__(self, matrix: Graph, owner: Int32Array, place: Int64Array, num_parts: int) -> None:
        self._owner, self._place, self._num_parts = owner, place, num_parts
        self._matrix, self._rows = matrix, self._needed(matrix)
        message, size = np.unique(self._rows // len(owner), return_counts=True)
        at = np.arange(len(self._rows)) - np.repeat(offsets(size)[:-1], size)
        words = -(-size // WORD_BITS)
        self._word = np.repeat(offsets(words)[:-1], size) + at // WORD_BITS
        self._message = np.repeat(message, words)
        self._always = self._pairs(message, -(-words // WORD_BITS))

    def told(self, used: Graph) -> tuple[Pairs, Pairs]:
        """What travels for a block: words that always do, and words that depend on its rows."""
        return self._always, self._words(np.searchsorted(self._rows, self._needed(used)))

    def of_walks(self, sampler: WalkSampler, key: np.uint64, visited: Int32Array) -> list[Pairs]:
        """What travels before that: walks go on at owners, and tell who uses the rows visited.

        Two words for a walk that crosses, beside one for every message
        (`plancc_runtime.layouts.owner_draws.WalkDraws`).
        """
        n, walks, found = len(self._owner), np.arange(sampler.num_roots), []
        roots = sampler.roots(n, key)
        rows = roots.astype(np.int64)
        always = self._pairs(np.unique(self._message), 1)
        for step in range(sampler.walk_length):
            to = sampler.columns_of_owner(self._walked, rows, roots[walks], step, key)
            walks, rows, to = walks[to >= 0], rows[to >= 0], to[to >= 0]
            message = self._owner[rows].astype(np.int64) * self._num_parts + self._owner[to]
            crossed, times = np.unique(
                message[self._owner[rows] != self._owner[to]], return_counts=True
            )
            found += [always, self._pairs(crossed, 2 * times)]
            rows = to.astype(np.int64)
        among = np.zeros(n, np.bool_)
        among[self._place[visited]] = True
        there = np.flatnonzero(among[self._rows % n])
        return [*found, self._always.reversed, self._words(there).reversed]

    @cached_property
    def _walked(self) -> OwnedRows:
        """All rows, as of one owner."""
        n = len(self._owner)
        pattern = self._matrix.indptr, self._matrix.indices
        return OwnedRows(Population(n), False, *pattern, np.arange(n, dtype=np.int32))

    def _words(self, rows: Int64Array) -> Pairs:
        """The words of these places among `_rows`."""
        words = np.unique(self._word[rows])
        return self._pairs(*np.unique(self._message[words], return_counts=True))

    def _needed(self, matrix: Graph) -> Int64Array:
        """Rows of others that parts need, ascending: (part * parts + owner) * n + place."""
        part = np.repeat(self._owner, matrix.row_nonzeros()).astype(np.int64)
        owner = self._owner[matrix.indices]
        away = np.flatnonzero(part != owner)
        message = part[away] * self._num_parts + owner[away]
        found: Int64Array = np.unique(
            message * len(self._owner) + self._place[matrix.indices[away]]
        )
        return found

    def _pairs(self, message: Int64Array, rows: Int64Array | int) -> Pairs:
        source, target = (end.astype(np.int32) for end in np.divmod(message, self._num_parts))
        return Pairs(self._num_parts, source, target, np.broadcast_to(rows, message.shape))


class BatchScheduler(SampledScheduler):
    """A row plan in a step that works on a mini-batch."""

    def begun(self, width: int) -> Iterator[tuple[str, Work]]:
        live = self._tables.live
        assert isinstance(live, LiveBatch)
        if live.draw is not None:
            yield DRAW, live.draw
        for pairs in live.told:
            if len(pairs.source):
                yield "expand", PointToPoint(pairs, 1)
        if self.num_ranks > 1 and live.counted:
            ranks = np.arange(self.num_ranks)[None]
            yield "all-reduce", AllReduceWords(ranks, words=np.ones(1, np.int64))
        yield "dense", Elementwise(PACK_WORDS * width * self.rows_of(1, "columns"))


@dataclass(frozen=True, eq=False)
class LiveBatch(Live):
    """What a row plan works on in a step on a mini-batch.

    Attributes:
        told: Words of bits by which owners hear of rows that the batch needs, round by round; empty
            where every rank draws all of it.
        counted: Whether ranks add up the targets.
        draw: Drawing the batch, and building its blocks.
    """

    scheduler: ClassVar[type[RowScheduler] | None] = BatchScheduler

    told: tuple[Pairs, ...] = ()
    counted: bool = True
    draw: BatchDraw | None = None


def live_in_batch(
    batch: Batch, matrix: Graph, owner: Int32Array, num_parts: int, *, idle: bool, bits: Bits | None
) -> LiveBatch:
    """What a row plan with these owners works on in a step, in every block of the batch.

    Parameters:
        owner: int32[n].
        idle: Whether layers also have the rows that the next one does not read.
        bits: Where owners draw.
    """
    n, rows, nonzeros = len(owner), *np.zeros((2, num_parts), np.int64)
    layers: list[Tables] = []
    told: tuple[Pairs, ...] = ()
    live = _marked(n, batch.vertices() if idle else batch.targets())
    for number in reversed(range(batch.num_blocks)):
        used = _whole(n, batch.block(number))
        if not idle:
            live = live | (used.row_nonzeros() > 0)
        layers.insert(0, layer_tables(used, live, owner, num_parts))
        drawn, moved = batch.block(number).rows, layers[0].expand.step
        part = owner[drawn]
        rows += np.bincount(part, minlength=num_parts) + moved.sent + moved.received
        read = (used if batch.listed else matrix).row_nonzeros()[drawn]
        own = np.bincount(part, read, num_parts).astype(np.int64)
        nonzeros += own
        if batch.listed and bits is None:
            rows += read.sum() - own  # searched in vain, which takes as long as a row
        if not idle:
            live = live.copy()
            live[used.indices] = True
        told += () if bits is None else bits.told(used)
    blocks = batch.num_blocks * (1 if num_parts == 1 and bits is not None else BLOCKS)
    draw = BatchDraw(blocks, rows, nonzeros, alone=num_parts == 1 or bits is None)
    return LiveBatch(np.bincount(owner[live], minlength=num_parts), tuple(layers), told, draw=draw)


def _marked(n: int, vertices: Int32Array | None) -> npt.NDArray[np.bool_]:
    """Which of n vertices these are; None: all."""
    found = np.full(n, vertices is None)
    if vertices is not None:
        found[vertices] = True
    return found


def _whole(n: int, block: BatchLayer) -> Graph:
    """The nonzeros of a block as a matrix of n rows."""
    nonzeros = np.zeros(n, np.int64)
    nonzeros[block.rows] = np.diff(block.ptr)
    return Graph(offsets(nonzeros), block.columns)
