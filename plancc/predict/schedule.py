"""An epoch as a list of operations: which rank sends what to which rank, and computes what.

Words and messages equal the runtime's counts in ``Transport.traffic``. A word is one number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.plan.convolutions import Convolution
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.metrics import StepTraffic
from plancc.plan.topology import HOPS
from plancc.plan.words import Counts, RowMessages, Transfer, count
from plancc.predict.memory import Memory

if TYPE_CHECKING:
    from plancc.predict.pipelines import Pipeline

STEPS = (*("expand", *HOPS), *("multiply", "fold", "collectives", "dense", "all-reduce"))
"""Steps of an epoch, in the order in which tables show them; expand and fold may be split into
hops."""
DRAW = "draw"
"""The step in which a mini-batch is drawn, before all other steps."""
COMPUTED = (DRAW, "multiply", "dense")
"""Steps that move no words."""
DIRECTIONS = ("batch", "forward", "links", "back", "update")


@dataclass(frozen=True, eq=False)
class Pairs:
    """The messages of one exchange: who sends how many rows to whom. No message is empty.

    Attributes:
        source, target (int32[num_messages]): Sender and receiver, never the same.
        rows (int64[num_messages]): Number of rows of each message.
        hops: Exchanges that replace these messages, in order; empty if the messages are sent
            directly.
    """

    num_ranks: int
    source: Int32Array
    target: Int32Array
    rows: Int64Array
    hops: tuple[Pairs, ...] = ()
    _split: dict[int, PairSplit] = field(default_factory=dict, repr=False)

    @cached_property
    def reversed(self) -> Pairs:
        """The same messages with sender and receiver exchanged."""
        return Pairs(self.num_ranks, self.target, self.source, self.rows, self.hops)

    def by_step(self, name: str) -> dict[str, Pairs]:
        """Return the hops by the names of their steps; without hops, this object by `name`."""
        return dict(zip(HOPS, self.hops, strict=True)) if self.hops else {name: self}

    def by_node(self, ranks_per_node: int) -> PairSplit:
        """Return the traffic of every rank, between nodes and in total; later calls reuse it."""
        if ranks_per_node not in self._split:
            messages = map(np.array, (self.source, self.target, self.rows))  # one type of array
            sums = _split(*messages, self.num_ranks, ranks_per_node)
            self._split[ranks_per_node] = PairSplit(StepTraffic(*sums[0]), StepTraffic(*sums[1]))
        return self._split[ranks_per_node]

    @property
    def step(self) -> StepTraffic:
        """Traffic of every rank in the exchange."""
        return self.by_node(1).total


class PairSplit(NamedTuple):
    """Traffic of every rank in one exchange: between nodes, and in total."""

    between: StepTraffic
    total: StepTraffic


class Place(NamedTuple):
    """The place of an operation in an epoch.

    Attributes:
        layer: Number of the layer, from 1; 0 for an operation of all layers.
        direction: One of `DIRECTIONS`, such as "forward".
        step: `DRAW`, or one of `STEPS`, such as "expand".
    """

    layer: int
    direction: str
    step: str


@dataclass(frozen=True, eq=False)
class PointToPoint(Transfer):
    """Point-to-point messages.

    Attributes:
        width (int or int64[num_ranks]): Columns of a row (`plancc.plan.words.RowMessages`).
        step: Name in `STEPS` to whose time the messages are added.
        is_late: Whether rows are for a later epoch. Ranks wait for such messages only after the
            rest of the epoch, if the messages take longer.
    """

    pairs: Pairs
    width: int | Int64Array
    step: str = "expand"
    is_late: bool = False

    def counts(self, num_ranks: int) -> Counts:
        found = RowMessages(self.pairs.step, self.width, reverse=self.reverse)
        return found.counts(num_ranks)


@dataclass(frozen=True, eq=False)
class SparseProduct:
    """Local products of a sparse and a dense matrix, on every rank.

    Attributes:
        rows (int64[num_ranks]): Rows of the sparse matrix.
        nonzeros (int64[num_ranks]): Its nonzeros, summed over all calls.
        width (int or int64[num_ranks]): Columns of the dense matrix.
        calls (int or int64[num_ranks]): Calls; each multiplies some columns of the sparse matrix.
        own (int64[num_ranks] or None): Nonzeros that can be multiplied while messages travel; None:
            all.
    """

    rows: Int64Array
    nonzeros: Int64Array
    width: int | Int64Array
    calls: int | Int64Array = 1
    own: Int64Array | None = None


@dataclass(frozen=True, eq=False)
class DenseProduct:
    """Local products of dense matrices: ``rows * inner * columns`` multiply-adds on every rank.

    Attributes:
        rows, inner, columns (int or int64[num_ranks]): The first matrix has `rows` rows and `inner`
            columns; the second has `inner` rows and `columns` columns.
    """

    rows: Int64Array
    inner: int | Int64Array
    columns: int | Int64Array


@dataclass(frozen=True, eq=False)
class Elementwise:
    """Work on every element: activations, the loss, packing of rows to send.

    Attributes:
        words (int64[num_ranks]): Words that a rank reads and writes.
        calls: Number of operations into which the work is divided.
    """

    words: Int64Array
    calls: int = 1


@dataclass(frozen=True, eq=False)
class BatchDraw:
    """The work of drawing a mini-batch and building its blocks.

    Attributes:
        blocks: Number of blocks in which a rank draws nonzeros of own rows. Each block takes a
            fixed time, besides the time for rows and nonzeros.
        rows (int64[num_ranks]): Number of drawn own rows, plus sent rows, plus received rows, plus
            nonzeros drawn for other ranks.
        nonzeros (int64[num_ranks]): Nonzeros in own rows, summed over the blocks.
        alone: Whether ranks draw without messages; a second core can then draw the next batch.
    """

    blocks: int
    rows: Int64Array
    nonzeros: Int64Array
    alone: bool


Work = Transfer | SparseProduct | DenseProduct | Elementwise | BatchDraw


class Operation(NamedTuple):
    """One operation of an epoch: when it comes in the epoch, and what each rank does in it."""

    place: Place
    work: Work


@dataclass(frozen=True, eq=False)
class Schedule:
    """An epoch of training: forward pass, backward pass, and update of the weights.

    Attributes:
        name: Path of the plan, or a name for it.
        layout: Layout of the plan, such as "row" or "grid 2d 4x4".
        dims: Widths d_0..d_L.
        memory: Bytes that each rank needs at the moment when it needs most, for float32.
        notes: Sentences that say what the prediction assumes.
        pipeline: Pipeline of a feature plan; None if products are not pipelined.
    """

    name: str
    layout: str
    num_ranks: int
    dims: list[int]
    passes: tuple[str, ...]
    operations: Sequence[Operation]
    memory: Memory
    notes: tuple[str, ...] = ()
    convolution: Convolution = field(default_factory=Convolution)
    pipeline: Pipeline | None = None

    def counts(self, chosen: Callable[[Operation], bool] = lambda operation: True) -> Counts:
        """Return the exact words and messages of every rank in the chosen operations."""
        works = (each.work for each in self.operations if chosen(each))
        return count((work for work in works if isinstance(work, Transfer)), self.num_ranks)


@njit(cache=True, nogil=True, plain=True)
def _split(source, target, rows, num_ranks, ranks_per_node):  # type: ignore[no-untyped-def]
    """Return the numbers of a `PairSplit`, int64[2, 4, num_ranks].

    Message k sends ``rows[k]`` rows from rank ``source[k]`` to ``target[k]``. First index: 0 for
    the traffic between nodes, 1 for all traffic. Second index: field of `StepTraffic`. Third index:
    rank.
    """
    found = np.zeros((2, 4, num_ranks), dtype=np.int64)
    for k in range(len(source)):
        i, j, size = source[k], target[k], rows[k]
        for step in range(0 if i // ranks_per_node != j // ranks_per_node else 1, 2):
            found[step, 0, i] += size
            found[step, 1, j] += size
            found[step, 2, i] += 1
            found[step, 3, j] += 1
    return found
