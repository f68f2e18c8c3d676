"""An epoch as a list of operations: who sends what to whom, who multiplies what. Knows no machine.

The intermediate representation between plans (`plancc.predict.schedules` builds it) and times
(`plancc.predict.simulation`). Its words and messages are those that the runtime counts in
``Transport.traffic``; collectives as documented in ``plancc_runtime/transport/group.py``. A word
is one number, whatever its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from plancc.plan import words
from plancc.plan.metrics import Step
from plancc.plan.plan import Int32Array, Int64Array
from plancc.plan.words import Counts

STEPS = ("expand", "multiply", "fold", "collectives", "dense", "all-reduce")
"""What an operation may be part of, in the order of tables."""
DIRECTIONS = ("forward", "back", "update")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Who sends how many rows to whom in one exchange; a message each, none of them empty.

    Attributes
    ----------
    num_ranks : int
    source, target : int32[num_messages]
        Never the same.
    rows : int64[num_messages]
    """

    num_ranks: int
    source: Int32Array
    target: Int32Array
    rows: Int64Array
    _split: dict[int, PairSplit] = field(default_factory=dict, repr=False)

    def by_node(self, ranks_per_node: int) -> PairSplit:
        """What every rank sends and receives inside and between nodes; kept for the next call."""
        if ranks_per_node not in self._split:
            sums = _split(self.source, self.target, self.rows, self.num_ranks, ranks_per_node)
            self._split[ranks_per_node] = PairSplit(*sums)
        return self._split[ranks_per_node]

    @property
    def step(self) -> Step:
        """What every rank moves in the exchange."""
        split = self.by_node(1)
        return Step(split.sent, split.received, split.messages_sent, split.messages_received)


@dataclass(frozen=True, eq=False)
class PairSplit:
    """Rows and messages of every rank, int64[num_ranks] each: between nodes, and everywhere."""

    sent_between: Int64Array
    messages_sent_between: Int64Array
    received_between: Int64Array
    messages_received_between: Int64Array
    sent: Int64Array
    messages_sent: Int64Array
    received: Int64Array
    messages_received: Int64Array


class Place(NamedTuple):
    """Where in an epoch an operation stands.

    Attributes
    ----------
    layer : int
        From 1; 0: of all layers.
    direction : str
        Of `DIRECTIONS`.
    step : str
        Of `STEPS`.
    """

    layer: int
    direction: str
    step: str


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation of an epoch, on all ranks.

    Attributes
    ----------
    place : Place
    """

    place: Place


@dataclass(frozen=True, eq=False)
class Messages(Operation, words.Transfer):
    """Point-to-point messages.

    Attributes
    ----------
    pairs : Pairs
    width, reverse
        As of `plancc.plan.words.Rows`.
    """

    pairs: Pairs
    width: int | Int64Array
    reverse: bool = False

    @property
    def full(self) -> npt.NDArray[np.bool_]:
        """Whether rows have a column; messages without one do not travel."""
        return np.asarray(self.width) > 0

    def counts(self, num_ranks: int) -> Counts:
        return words.Rows(self.pairs.step, self.width, self.reverse).counts(num_ranks)


@dataclass(frozen=True, eq=False)
class Broadcast(words.Broadcast, Operation):
    """`plancc.plan.words.Broadcast`, as an operation.

    Attributes
    ----------
    of_matrix : bool
        Whether pieces of A travel, not rows.
    """

    of_matrix: bool = False


@dataclass(frozen=True, eq=False)
class AllReduce(words.AllReduce, Operation):
    """`plancc.plan.words.AllReduce`, as an operation."""


@dataclass(frozen=True, eq=False)
class AllGather(words.AllGather, Operation):
    """`plancc.plan.words.AllGather`, as an operation."""


@dataclass(frozen=True, eq=False)
class AllToAll(words.AllToAll, Operation):
    """`plancc.plan.words.AllToAll`, as an operation."""


@dataclass(frozen=True, eq=False)
class SparseProduct(Operation):
    """Local products of sparse and dense matrices.

    Attributes
    ----------
    rows, nonzeros : int64[num_ranks]
        Of the sparse matrices; in all calls together.
    width : int or int64[num_ranks]
        Columns of the dense ones.
    calls : int
        Products that the nonzeros are divided among, by columns of the sparse matrix.
    own : int64[num_ranks] or None
        Nonzeros of own rows, which may be multiplied while messages travel; None: all of them.
    """

    rows: Int64Array
    nonzeros: Int64Array
    width: int | Int64Array
    calls: int = 1
    own: Int64Array | None = None


@dataclass(frozen=True, eq=False)
class DenseProduct(Operation):
    """Local products of dense matrices: ``rows * inner * columns`` multiply-adds on every rank.

    Attributes
    ----------
    rows, inner, columns : int64[num_ranks] or int
    """

    rows: Int64Array
    inner: int | Int64Array
    columns: int | Int64Array


@dataclass(frozen=True, eq=False)
class Elementwise(Operation):
    """Work on every element: activations, the loss, packing of what travels.

    Attributes
    ----------
    words : int64[num_ranks]
        Read and written.
    calls : int
        Operations.
    """

    words: Int64Array
    calls: int = 1


@dataclass(frozen=True, eq=False)
class Schedule:
    """An epoch of training: one pass forward and back, and the update.

    Attributes
    ----------
    name : str
        Of what it is the schedule: a path, or words.
    layout : str
        Such as "row" or "grid 2d 4x4".
    num_ranks : int
    dims : list of int
        Widths d_0..d_L.
    passes : tuple of str
    operations : list of Operation
    memory : dict of str to int64[num_ranks]
        Bytes that every rank holds at its worst moment, by term (`plancc.predict.memory`), float32.
    notes : tuple of str
        What was assumed.
    """

    name: str
    layout: str
    num_ranks: int
    dims: list[int]
    passes: tuple[str, ...]
    operations: Sequence[Operation]
    memory: dict[str, Int64Array]
    notes: tuple[str, ...] = ()

    @property
    def total_memory(self) -> Int64Array:
        """Bytes of every rank at its worst moment: int64[num_ranks]."""
        return np.sum(list(self.memory.values()), axis=0)

    def counts(self, chosen: Callable[[Operation], bool] = lambda operation: True) -> Counts:
        """What every rank hands to the network in an epoch, exactly; of the chosen operations."""
        transfers = (each for each in self.operations if isinstance(each, words.Transfer))
        return words.count((each for each in transfers if chosen(each)), self.num_ranks)


@njit(cache=True, nogil=True)
def _split(source, target, rows, num_ranks, ranks_per_node):  # type: ignore[no-untyped-def]
    """The fields of a `PairSplit` one after the other: int64[8, num_ranks]."""
    found = np.zeros((8, num_ranks), dtype=np.int64)
    for k in range(len(source)):
        i, j, size = source[k], target[k], rows[k]
        found[4, i] += size
        found[5, i] += 1
        found[6, j] += size
        found[7, j] += 1
        if i // ranks_per_node != j // ranks_per_node:
            found[0, i] += size
            found[1, i] += 1
            found[2, j] += size
            found[3, j] += 1
    return found
