"""An epoch as a list of operations: who sends what to whom, who multiplies what.

The intermediate representation between plans (`plancc.predict.schedules` builds it) and times
(`plancc.predict.simulation`). Its words and messages equal the counts of the runtime in
``Transport.traffic``; collectives as documented in ``plancc_runtime/transport/group.py``. A word
is one number of any type.
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
from plancc.plan.route import HOPS
from plancc.plan.words import Counts, RowMessages, Transfer, count
from plancc.predict.memory import Memory

if TYPE_CHECKING:
    from plancc.predict.pipelines import Pipeline

STEPS = (
    *("expand", *HOPS),
    *("multiply", "fold", "collectives", "dense", "all-reduce"),
)
"""Steps of an epoch, in the order of tables; expand and fold may be in hops."""
DRAW = "draw"
"""Step of a mini-batch before them."""
COMPUTED = (DRAW, "multiply", "dense")
"""Steps that move no words."""
DIRECTIONS = ("batch", "forward", "links", "back", "update")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Who sends how many rows to whom in one exchange; a message each, without empty ones.

    Attributes:
        source, target (int32[num_messages]): Never the same.
        rows: int64[num_messages].
        hops: The exchanges in which the rows travel from their owners; (): they go straight.
    """

    num_ranks: int
    source: Int32Array
    target: Int32Array
    rows: Int64Array
    hops: tuple[Pairs, ...] = ()
    _split: dict[int, PairSplit] = field(default_factory=dict, repr=False)

    @cached_property
    def reversed(self) -> Pairs:
        """The messages back."""
        return Pairs(self.num_ranks, self.target, self.source, self.rows, self.hops)

    def by_step(self, name: str) -> dict[str, Pairs]:
        """The exchanges in which the rows travel, by `STEPS`: the hops, or else the step `name`."""
        return dict(zip(HOPS, self.hops, strict=True)) if self.hops else {name: self}

    def by_node(self, ranks_per_node: int) -> PairSplit:
        """Traffic of every rank between nodes and in total; kept for the next call."""
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
    """Where in an epoch an operation stands.

    Attributes:
        layer: From 1; 0: of all layers.
        direction: One of `DIRECTIONS`.
        step: `DRAW`, or one of `STEPS`.
    """

    layer: int
    direction: str
    step: str


@dataclass(frozen=True, eq=False)
class PointToPoint(Transfer):
    """Point-to-point messages.

    Attributes:
        width (int or int64[num_ranks]): Columns of a row, as of `plancc.plan.words.RowMessages`.
        step: One of `STEPS`: that their time is counted to.
        is_late: Whether no rank waits for them in this epoch: only what takes longer than all the
            rest of the epoch is waited for.
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
    """Local products of sparse and dense matrices.

    Attributes:
        rows, nonzeros (int64[num_ranks]): Rows and nonzeros of the sparse matrices, in all calls
            together.
        width (int or int64[num_ranks]): Columns of the dense ones.
        calls (int or int64[num_ranks]): Products that the nonzeros are divided among, by columns of
            the sparse matrix.
        own (int64[num_ranks] or None): Nonzeros of own rows, which may be multiplied while messages
            travel; None: all of them.
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
        rows, inner, columns: int64[num_ranks] or int.
    """

    rows: Int64Array
    inner: int | Int64Array
    columns: int | Int64Array


@dataclass(frozen=True, eq=False)
class Elementwise:
    """Work on every element: activations, the loss, packing of what travels.

    Attributes:
        words (int64[num_ranks]): Read and written.
        calls: Operations.
    """

    words: Int64Array
    calls: int = 1


@dataclass(frozen=True, eq=False)
class BatchDraw:
    """A mini-batch that is drawn, and its blocks, which are built.

    Attributes:
        blocks: Of one rank that draws as owner, which take as long but for rows and nonzeros.
        rows (int64[num_ranks]): Of all blocks: own rows, rows sent and received, and the nonzeros
            that a rank draws for others.
        nonzeros (int64[num_ranks]): Of own rows in all blocks.
        alone: Whether no message is needed, so that another core may do it beside a step.
    """

    blocks: int
    rows: Int64Array
    nonzeros: Int64Array
    alone: bool


Work = Transfer | SparseProduct | DenseProduct | Elementwise | BatchDraw


class Operation(NamedTuple):
    """One operation of an epoch, on all ranks."""

    place: Place
    work: Work


@dataclass(frozen=True, eq=False)
class Schedule:
    """An epoch of training: one pass forward and back, and the update.

    Attributes:
        name: Path of the plan, or words for it.
        layout: Such as "row" or "grid 2d 4x4".
        dims: Widths d_0..d_L.
        memory: What every rank holds at its worst moment, in float32.
        notes: What was assumed.
        pipeline: Of a feature plan: what overlaps.
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
        """What every rank hands to the network in the chosen operations of an epoch; exact."""
        works = (each.work for each in self.operations if chosen(each))
        return count((work for work in works if isinstance(work, Transfer)), self.num_ranks)


@njit(cache=True, nogil=True, plain=True)
def _split(source, target, rows, num_ranks, ranks_per_node):  # type: ignore[no-untyped-def]
    """The fields of both steps of a `PairSplit`: int64[2, 4, num_ranks]."""
    found = np.zeros((2, 4, num_ranks), dtype=np.int64)
    for k in range(len(source)):
        i, j, size = source[k], target[k], rows[k]
        for step in range(0 if i // ranks_per_node != j // ranks_per_node else 1, 2):
            found[step, 0, i] += size
            found[step, 1, j] += size
            found[step, 2, i] += 1
            found[step, 3, j] += 1
    return found
