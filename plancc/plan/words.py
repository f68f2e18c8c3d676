"""Count the words and messages of an epoch, for predictions and for the runtime's figures.

For every step name of a program, the caller gives the *transfers*: the exchanges or collectives
that the step causes. `count` adds up their words and messages. Tests check that the runtime's
transports send exactly these counts. A word is one number of any type.
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
    """Words, messages and reductions of every rank, int64[num_ranks] each, named as in the
    runtime.
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
        """The counts of one rank: int64[1] each."""
        return Counts(*(getattr(self, each.name)[rank : rank + 1] for each in fields(self)))


@dataclass(frozen=True, eq=False)
class Transfer(ABC):
    """One exchange or collective of all ranks; empty messages do not count.

    Attributes:
        reverse: Whether data are sent in reverse: messages from receivers to senders, a reduction
            to the root instead of a broadcast, a reduce-scatter instead of an all-gather.
    """

    reverse: bool = field(default=False, kw_only=True)

    def reversed(self) -> Self:
        """The same transfer in the other direction."""
        return replace(self, reverse=not self.reverse)

    @abstractmethod
    def counts(self, num_ranks: int) -> Counts:
        """Return the counts of the ranks 0..num_ranks - 1."""


def transfers(
    program: Iterable[Step], moved: Mapping[str, Sequence[Transfer]]
) -> Iterator[Transfer]:
    """Yield the transfers of a program's steps, in their order.

    Parameters:
        program: The steps.
        moved: Transfers by the name of the step, in the direction of the forward program. Steps
            with other names send nothing.
    """
    for step in program:
        for each in moved.get(step.name, ()) if step.moves else ():
            yield each.reversed() if step.reverse else each


def count(transfers: Iterable[Transfer], num_ranks: int) -> Counts:
    """Sum of the counts of all transfers."""
    total = Counts.zero(num_ranks)
    for transfer in transfers:
        total.add(transfer.counts(num_ranks))
    return total


@dataclass(frozen=True, eq=False)
class RowMessages(Transfer):
    """Rows in point-to-point messages.

    Attributes:
        step: Rows and messages of all ranks, or of one rank only (int64[1]).
        width (int or int64[num_ranks]): Columns of a row. If it is given per rank, sender and
            receiver of every message must have the same width.
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
    """Rounds of broadcasts; reversed, rounds of reductions to the root.

    Attributes:
        words (int64[rounds, groups]): Words that the root sends.
        root (int64[rounds, groups]): Place of the root in the group.
        buffers (int64[rounds, groups] or int): Number of messages that the words are split into.
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
    """A sum over each group; every member receives the sum.

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
    """Every member sends its piece to all other members; reversed, a reduce-scatter.

    Attributes:
        words (int64[groups, members]): Number of words in the piece of every member.
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
    """Member j sends ``rows[j] * columns[k]`` words to every other member k.

    Attributes:
        rows, columns: int64[groups, members].
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
    """For every place, the sum of its amounts, int64[size]; exact below 2^53."""
    return np.bincount(place, weights=amount, minlength=size).astype(np.int64)
