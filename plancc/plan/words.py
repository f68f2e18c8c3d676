"""Count the words and messages of an epoch, for predictions and for the figures of the runtime.

A step of a program causes *transfers*, which are exchanges or collectives. Tests check that the
runtime's transports send exactly these counts. A word is one number of any type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from plancc.plan.exchange import Int64Array
from plancc.plan.metrics import StepTraffic
from plancc.plan.products import Step


@dataclass(eq=False)
class Counts:
    """Words, messages and reductions of every rank: arrays int64[num_ranks].

    The runtime uses the same names for these figures.
    """

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

    def of_rank(self, rank: int) -> Counts:
        """Return the words, messages and reductions of one rank, as arrays int64[1]."""
        return Counts(*(getattr(self, each.name)[rank : rank + 1] for each in fields(self)))


@dataclass(frozen=True, eq=False)
class Transfer(ABC):
    """One exchange or collective of all ranks. Empty messages are not counted.

    Attributes:
        reverse: Whether receivers send to senders. A reversed broadcast is a reduction to its root;
            a reversed all-gather is a reduce-scatter.
    """

    reverse: bool = field(default=False, kw_only=True)

    def reversed(self) -> Self:
        """Return the same transfer in the other direction."""
        return replace(self, reverse=not self.reverse)

    @abstractmethod
    def counts(self, num_ranks: int) -> Counts:
        """Return the words, messages and reductions of each of the ranks 0..num_ranks - 1."""


def transfers(steps: Iterable[Step], moved: Mapping[str, Sequence[Transfer]]) -> Iterator[Transfer]:
    """Yield the transfers of a program's steps.

    `moved` has the transfers of each step in the forward direction, by the step's name. A step with
    `reverse` reverses them.
    """
    for step in steps:
        for each in moved.get(step.name, ()) if step.moves else ():
            yield each.reversed() if step.reverse else each


def count(transfers: Iterable[Transfer], num_ranks: int) -> Counts:
    """Return the sum of the counts of all transfers."""
    total = Counts.zero(num_ranks)
    for transfer in transfers:
        total.add(transfer.counts(num_ranks))
    return total


@dataclass(frozen=True, eq=False)
class RowMessages(Transfer):
    """Rows that are sent in messages between two ranks.

    Attributes:
        step: Rows and messages that each rank sends and receives, int64[num_ranks]; for a single
            rank, int64[1].
        width (int or int64[num_ranks]): Columns of a row, equal at sender and receiver.
    """

    step: StepTraffic
    width: int | Int64Array

    def counts(self, num_ranks: int) -> Counts:
        words = self.step.times(self.width)
        words = words.reversed() if self.reverse else words
        return Counts(*words, *np.zeros((2, num_ranks), np.int64))


@dataclass(frozen=True, eq=False)
class Collective:
    """A collective operation in disjoint groups of ranks; all groups have the same size.

    Attributes:
        ranks (int64[groups, members]): The ranks of every group, ascending.
    """

    ranks: Int64Array

    @property
    def members(self) -> int:
        """Number of ranks in a group."""
        return self.ranks.shape[1]


@dataclass(frozen=True, eq=False)
class BroadcastWords(Collective, Transfer):
    """Broadcasts in groups of ranks, in rounds with one root each; reversed, they are reductions.

    Attributes:
        words (int64[rounds, groups]): Words that the root sends to every other member.
        root (int64[rounds, groups]): Index of the root in its group.
        buffers (int64[rounds, groups] or int): Number of messages for these words.
    """

    words: Int64Array
    root: Int64Array
    buffers: int | Int64Array = 1

    def counts(self, num_ranks: int) -> Counts:
        others = self.members - 1
        buffers = np.broadcast_to(self.buffers, self.words.shape) * (self.words > 0)
        roots = np.take_along_axis(self.ranks.T, self.root, axis=0)
        found = Counts.zero(num_ranks)
        for amount, at_root, at_others in (
            (self.words, found.words_sent, found.words_received),
            (buffers, found.messages_sent, found.messages_received),
        ):
            if self.reverse:
                at_root, at_others = at_others, at_root
            of_root = _sums(roots.ravel(), amount.ravel(), num_ranks)
            at_root += of_root * others
            at_others[self.ranks.ravel()] += np.repeat(amount.sum(axis=0), self.members)
            at_others -= of_root
        return found


@dataclass(frozen=True, eq=False)
class AllReduceWords(Collective, Transfer):
    """A sum over the ranks of each group, which every member receives.

    Attributes:
        words (int64[groups]): Number of words in the sum.
    """

    words: Int64Array

    def counts(self, num_ranks: int) -> Counts:
        found = Counts.zero(num_ranks)
        found.reductions[self.ranks] += 1
        found.words_reduced[self.ranks] += self.words[:, None]
        return found


@dataclass(frozen=True, eq=False)
class AllGatherWords(Collective, Transfer):
    """Every member of a group sends its piece to all other members. In reverse, a reduce-scatter.

    Attributes:
        words (int64[groups, members]): Words in the piece of each member.
    """

    words: Int64Array

    def counts(self, num_ranks: int) -> Counts:
        found, others = Counts.zero(num_ranks), self.members - 1
        for amount, out, arriving in (
            (self.words, found.words_sent, found.words_received),
            ((self.words > 0).astype(np.int64), found.messages_sent, found.messages_received),
        ):
            if self.reverse:
                out, arriving = arriving, out
            out[self.ranks] += amount * others
            arriving[self.ranks] += amount.sum(axis=1, keepdims=True) - amount
        return found


@dataclass(frozen=True, eq=False)
class AllToAllWords(Collective, Transfer):
    """Member j of a group sends ``rows[j] * columns[k]`` words to every other member k.

    Attributes:
        rows, columns (int64[groups, members]): Number of rows and of columns of each member.
    """

    rows: Int64Array
    columns: Int64Array

    def counts(self, num_ranks: int) -> Counts:
        found, full = Counts.zero(num_ranks), (self.rows > 0, self.columns > 0)
        messages = (each.astype(np.int64) for each in full)
        for (mine, theirs), out, arriving in (
            ((self.rows, self.columns), found.words_sent, found.words_received),
            (messages, found.messages_sent, found.messages_received),
        ):
            if self.reverse:
                out, arriving = arriving, out
            out[self.ranks] += mine * (theirs.sum(axis=1, keepdims=True) - theirs)
            arriving[self.ranks] += theirs * (mine.sum(axis=1, keepdims=True) - mine)
        return found


def _sums(place: npt.NDArray[np.integer], amount: Int64Array, size: int) -> Int64Array:
    """Return the sum of the amounts of each place, int64[size]; exact below 2^53."""
    return np.bincount(place, weights=amount, minlength=size).astype(np.int64)
