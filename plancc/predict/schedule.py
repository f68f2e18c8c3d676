"""An epoch as a list of operations: who sends what to whom, who multiplies what. Knows no machine.

The intermediate representation between plans (`plancc.predict.schedules` builds it) and times
(`plancc.predict.simulation`). Its words and messages are those that the runtime counts in
``Transport.traffic``; collectives as documented in ``plancc_runtime/transport/group.py``. A word
is one number, whatever its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from plancc.plan.plan import Int32Array, Int64Array

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


@dataclass(eq=False)
class Counts:
    """What every rank hands to the network, int64[num_ranks] each; names as in the runtime."""

    words_sent: Int64Array
    words_received: Int64Array
    messages_sent: Int64Array
    messages_received: Int64Array
    reductions: Int64Array
    words_reduced: Int64Array

    @classmethod
    def zero(cls, num_ranks: int) -> Counts:
        return cls(*np.zeros((len(fields(cls)), num_ranks), np.int64))

    def add(self, other: Counts) -> None:
        for each in fields(self):
            mine = getattr(self, each.name)
            mine += getattr(other, each.name)


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

    def counts(self, num_ranks: int) -> Counts:
        """What it hands to the network."""
        return Counts.zero(num_ranks)


@dataclass(frozen=True, eq=False)
class Messages(Operation):
    """Point-to-point messages.

    Attributes
    ----------
    pairs : Pairs
    width : int or int64[num_ranks]
        Columns of a row; one number per rank is the same at both ends of every message.
    reverse : bool
        Whether they travel from targets to sources.
    """

    pairs: Pairs
    width: int | Int64Array
    reverse: bool = False

    @property
    def full(self) -> npt.NDArray[np.bool_]:
        """Whether rows have a column; messages without one do not travel."""
        return np.asarray(self.width) > 0

    def counts(self, num_ranks: int) -> Counts:
        split, found = self.pairs.by_node(1), Counts.zero(num_ranks)
        sent, received = split.sent * self.width, split.received * self.width
        full = self.full
        out, arriving = split.messages_sent * full, split.messages_received * full
        if self.reverse:
            sent, received, out, arriving = received, sent, arriving, out
        found.words_sent += sent
        found.words_received += received
        found.messages_sent += out
        found.messages_received += arriving
        return found


@dataclass(frozen=True, eq=False)
class Collective(Operation):
    """Of disjoint groups at once, all of the same size.

    Attributes
    ----------
    ranks : int64[groups, members]
        Of every group, ascending.
    """

    ranks: Int64Array

    @property
    def members(self) -> int:
        """Of a group."""
        return self.ranks.shape[1]


@dataclass(frozen=True, eq=False)
class Broadcast(Collective):
    """Rounds of broadcasts, or of reductions to the root: the same backward.

    Attributes
    ----------
    words : int64[rounds, groups]
        Of the root.
    root : int64[rounds, groups]
        Its place in the group.
    buffers : int64[rounds, groups] or int
        What travels apart, each in a message.
    reduce : bool
    of_matrix : bool
        Whether pieces of A travel, not rows.
    """

    words: Int64Array
    root: Int64Array
    buffers: int | Int64Array = 1
    reduce: bool = False
    of_matrix: bool = False

    def counts(self, num_ranks: int) -> Counts:
        others = self.members - 1
        buffers = np.broadcast_to(self.buffers, self.words.shape) * (self.words > 0)
        roots = np.take_along_axis(self.ranks.T, self.root, axis=0)
        found = Counts.zero(num_ranks)
        for amount, at_root, at_others in (
            (self.words, found.words_sent, found.words_received),
            (buffers, found.messages_sent, found.messages_received),
        ):
            if self.reduce:
                at_root, at_others = at_others, at_root
            of_root = _sums(roots.ravel(), amount.ravel(), num_ranks)
            at_root += of_root * others
            at_others[self.ranks.ravel()] += np.repeat(amount.sum(axis=0), self.members)
            at_others -= of_root
        return found


@dataclass(frozen=True, eq=False)
class AllReduce(Collective):
    """Sums at every member.

    Attributes
    ----------
    words : int64[groups]
    """

    words: Int64Array

    def counts(self, num_ranks: int) -> Counts:
        found = Counts.zero(num_ranks)
        found.reductions[self.ranks] += 1
        found.words_reduced[self.ranks] += self.words[:, None]
        return found


@dataclass(frozen=True, eq=False)
class AllGather(Collective):
    """Every member's piece to all others, or a reduce-scatter: the same backward.

    Attributes
    ----------
    words : int64[groups, members]
        Of the members' pieces.
    reduce : bool
    """

    words: Int64Array
    reduce: bool = False

    def counts(self, num_ranks: int) -> Counts:
        found, others = Counts.zero(num_ranks), self.members - 1
        full = self.words > 0
        for amount, out, arriving in (
            (self.words, found.words_sent, found.words_received),
            (full.astype(np.int64), found.messages_sent, found.messages_received),
        ):
            if self.reduce:
                out, arriving = arriving, out
            out[self.ranks] += amount * others
            arriving[self.ranks] += amount.sum(axis=1, keepdims=True) - amount
        return found


@dataclass(frozen=True, eq=False)
class AllToAll(Collective):
    """Member j sends ``rows[j] * columns[k]`` words to every other member k.

    Attributes
    ----------
    rows, columns : int64[groups, members]
    reverse : bool
        Whether member k sends them to j.
    """

    rows: Int64Array
    columns: Int64Array
    reverse: bool = False

    def counts(self, num_ranks: int) -> Counts:
        found = Counts.zero(num_ranks)
        left, right = self.rows, self.columns
        for mine, theirs, out, arriving in (
            (left, right, found.words_sent, found.words_received),
            (
                (left > 0).astype(np.int64),
                (right > 0).astype(np.int64),
                found.messages_sent,
                found.messages_received,
            ),
        ):
            if self.reverse:
                out, arriving = arriving, out
            out[self.ranks] += mine * (theirs.sum(axis=1, keepdims=True) - theirs)
            arriving[self.ranks] += theirs * (mine.sum(axis=1, keepdims=True) - mine)
        return found


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
        total = Counts.zero(self.num_ranks)
        for operation in self.operations:
            if chosen(operation):
                total.add(operation.counts(self.num_ranks))
        return total


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


def _sums(place: npt.NDArray[np.integer], amount: Int64Array, size: int) -> Int64Array:
    """Sum of the amounts of every place, exactly as long as it is below 2^53."""
    return np.bincount(place, weights=amount, minlength=size).astype(np.int64)
