"""What travels in an epoch: one count, for predictions and for the runtime's own figures.

Whoever executes a layout, or predicts it, says what the names of its program's steps move: its
*transfers*; `count` adds them up. The runtime's transports count the same as they send, and tests
hold them to it. A word is one number of any type.
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

    def of_rank(self, rank: int) -> Counts:
        """The counts of one rank: int64[1] each."""
        return Counts(*(getattr(self, each.name)[rank : rank + 1] for each in fields(self)))


@dataclass(frozen=True, eq=False)
class Transfer(ABC):
    """What ranks hand to the network at once; empty messages do not count.

    Attributes:
        reverse: Whether it travels back: of messages from receivers to senders; a broadcast as a
            reduction to its root, an all-gather as a reduce-scatter.
    """

    reverse: bool = field(default=False, kw_only=True)

    def reversed(self) -> Self:
        """The same the other way."""
        return replace(self, reverse=not self.reverse)

    @abstractmethod
    def counts(self, num_ranks: int) -> Counts:
        """What every one of the ranks 0..num_ranks - 1 sends, receives and reduces."""


def transfers(
    program: Iterable[Step], moved: Mapping[str, Sequence[Transfer]]
) -> Iterator[Transfer]:
    """What the steps of a program hand to the network, in their order.

    Parameters:
        moved: What the names of steps move, as a program moves it forward; of other names, nothing.
    """
    for step in program:
        for each in moved.get(step.name, ()) if step.moves else ():
            yield each.reversed() if step.reverse else each


def count(transfers: Iterable[Transfer], num_ranks: int) -> Counts:
    """What every rank hands to the network in all of these transfers, exactly."""
    total = Counts.zero(num_ranks)
    for transfer in transfers:
        total.add(transfer.counts(num_ranks))
    return total


@dataclass(frozen=True, eq=False)
class RowMessages(Transfer):
    """Rows in point-to-point messages.

    Attributes:
        step: Of all ranks that are counted, or int64[1]: of the one whose counts are wanted.
        width (int or int64[num_ranks]): Columns of a row; one number per rank is the same at both
            ends of every message.
    """

    step: StepTraffic
    width: int | Int64Array

    def counts(self, num_ranks: int) -> Counts:
        words = self.step.times(self.width)
        words = words.reversed() if self.reverse else words
        return Counts(*words, *np.zeros((2, num_ranks), np.int64))


@dataclass(frozen=True, eq=False)
class Collective:
    """What disjoint groups of the same size do at once.

    Attributes:
        ranks (int64[groups, members]): The ranks of every group, ascending.
    """

    ranks: Int64Array

    @property
    def members(self) -> int:
        """Ranks of a group."""
        return self.ranks.shape[1]


@dataclass(frozen=True, eq=False)
class BroadcastWords(Collective, Transfer):
    """Rounds of broadcasts, or of reductions to the root: the same backward.

    Attributes:
        words (int64[rounds, groups]): Words of the root.
        root (int64[rounds, groups]): Its place in the group.
        buffers (int64[rounds, groups] or int): Number of messages that the words travel in.
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
    """Sums at every member.

    Attributes:
        words: int64[groups].
    """

    words: Int64Array

    def counts(self, num_ranks: int) -> Counts:
        found = Counts.zero(num_ranks)
        found.reductions[self.ranks] += 1
        found.words_reduced[self.ranks] += self.words[:, None]
        return found


@dataclass(frozen=True, eq=False)
class AllGatherWords(Collective, Transfer):
    """Every member's piece to all others, or a reduce-scatter: the same backward.

    Attributes:
        words (int64[groups, members]): Words of the members' pieces.
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
    """The sum of the amounts of every place, exact below 2^53."""
    return np.bincount(place, weights=amount, minlength=size).astype(np.int64)
