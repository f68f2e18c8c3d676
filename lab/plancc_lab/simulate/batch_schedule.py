"""The operations of one step on a mini-batch, for row plans.

They are the operations of an epoch, with other sizes (compare `Tables.live`). Features of halo rows
are kept from step to step, but products with these features are computed in every step.
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
"""Number of rows that a word of bits names, as in the runtime."""
BLOCKS = 2
"""Factor on the fixed time of a block. One rank that draws as an owner has the factor 1.

In all other cases messages are laid out and rows are looked up too. The factor was fitted."""


class Bits:
    """Counts the words by which a rank tells other ranks which halo rows its block needs.

    For each owner, a rank has one bit for each row that it may need from the owner, in plan order.
    A word has 32 bits; a summary word says which of 32 words are not 0 and so are sent
    (`plancc_runtime.transport.row_numbers.RowBits`).

    Parameters:
        owner (int32[n]): Part of every vertex.
        place (int64[n]): Position of every vertex in plan order.
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
        """Return how many words ranks send to tell owners which halo rows a block needs.

        Each bit of a word stands for a halo row. The result has the counts of summary words, then
        the counts of words of bits. A summary word says which words of bits are sent.
        """
        return self._always, self._words(np.searchsorted(self._rows, self._needed(used)))

    def of_walks(self, sampler: WalkSampler, key: np.uint64, visited: Int32Array) -> list[Pairs]:
        """Return one `Pairs` per round; its `rows` are the words that ranks send to draw walks.

        A walk that crosses to another rank costs two words, and every message costs one word more
        (`plancc_runtime.layouts.draws.WalkDraws`). In the last round, ranks send words whose bits
        mark the visited rows that they use.
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
        """The whole matrix, as a rank that owned all rows would hold it."""
        n = len(self._owner)
        pattern = self._matrix.indptr, self._matrix.indices
        return OwnedRows(Population(n), False, *pattern, np.arange(n, dtype=np.int32))

    def _words(self, rows: Int64Array) -> Pairs:
        """Return how many words each part sends each other part to say which rows it needs.

        `rows` are the needed rows, by index among all halo rows of all parts. Every halo row has
        one bit. A word without a bit of a needed row is not sent.
        """
        words = np.unique(self._word[rows])
        return self._pairs(*np.unique(self._message[words], return_counts=True))

    def _needed(self, matrix: Graph) -> Int64Array:
        """Return the halo rows of all parts as ascending keys.

        The key is (part that reads * num_parts + owner) * (number of rows) + place in plan order.
        """
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
    """Says how much work the ranks of a row plan have in a step on a mini-batch."""

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
    """The rows, nonzeros and messages of a step of a row plan on a mini-batch.

    Attributes:
        told: For each round of messages, the words that tell owners which rows are needed; empty if
            all ranks draw the whole batch.
        counted: Whether an all-reduce sums the number of vertices in the loss over the ranks.
        draw: How much work it is to draw the batch and to build its blocks.
    """

    scheduler: ClassVar[type[RowScheduler] | None] = BatchScheduler

    told: tuple[Pairs, ...] = ()
    counted: bool = True
    draw: BatchDraw | None = None


def live_in_batch(
    batch: Batch, matrix: Graph, owner: Int32Array, num_parts: int, *, idle: bool, bits: Bits | None
) -> LiveBatch:
    """Return the rows, nonzeros and messages of a step of a row plan on a mini-batch.

    If `idle`, layers also compute rows that no later layer reads. `bits` counts the words by which
    ranks tell owners which rows they need. It is None if every rank draws the whole batch, since no
    rank then tells anything.
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
    """Return a mask, bool[n], that is True for these vertices; for all vertices if None."""
    found = np.full(n, vertices is None)
    if vertices is not None:
        found[vertices] = True
    return found


def _whole(n: int, block: BatchLayer) -> Graph:
    """Return the nonzeros of a block as a matrix of n rows."""
    nonzeros = np.zeros(n, np.int64)
    nonzeros[block.rows] = np.diff(block.ptr)
    return Graph(offsets(nonzeros), block.columns)
