"""Splits buffers into messages, counts traffic, and says in words what a rank waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

Buffer = Any  # numpy.ndarray | torch.Tensor, without importing torch here
Addressed = Sequence[tuple[int, Buffer]]  # buffers, each with the rank at its other end


@dataclass
class Traffic:
    """Counters of what one rank has sent and received; a word is one number of any dtype.

    Reductions are not messages. Fields with `_between` count only what goes to other nodes.
    """

    messages_sent: int = 0
    words_sent: int = 0
    bytes_sent: int = 0
    messages_received: int = 0
    words_received: int = 0
    bytes_received: int = 0
    reductions: int = 0
    words_reduced: int = 0
    messages_between: int = 0
    words_between: int = 0

    def as_array(self) -> np.ndarray:
        """Return all counters except `..._between`, in the order of the fields: int64[8]."""
        names = [f.name for f in fields(self) if not f.name.endswith("_between")]
        return np.array([getattr(self, name) for name in names], np.int64)

    def add(self, other: Traffic) -> None:
        """Add the counts of `other`."""
        own = vars(self)
        for name, count in vars(other).items():
            own[name] += count

    def add_reduction(self, words: int) -> None:
        """Count one reduction of this many words."""
        self.reductions += 1
        self.words_reduced += words


def traffic_of(
    sends: Addressed, receives: Addressed, max_words: int, far: Sequence[bool] | None = None
) -> Traffic:
    """Return the traffic of one exchange with messages of at most `max_words` words.

    `far` says for every rank whether it is on another node; None if the nodes are unknown.
    """
    totals = []
    for side in (sends, receives):
        sizes = [buffer.nbytes // buffer.itemsize for _, buffer in side]
        messages = sum(-(-words // max_words) for words in sizes)
        totals += [messages, sum(sizes), sum(buffer.nbytes for _, buffer in side)]
    found = Traffic(*totals)
    if far is not None:
        between = traffic_of([each for each in sends if far[each[0]]], (), max_words)
        found.messages_between = between.messages_sent
        found.words_between = between.words_sent
    return found


class MessagePiece(NamedTuple):
    """One message to or from `peer`: a buffer, or a piece of a buffer that is too long.

    Attributes:
        number: Position of the buffer in the list of sends or receives.
        tag: Index of the piece among all pieces that the same sender sends to the same receiver.
    """

    number: int
    peer: int
    tag: int
    data: Buffer


def pieces(buffers: Addressed, max_words: int) -> list[list[MessagePiece]]:
    """Return, for every buffer, its messages of at most `max_words` words; none if it is empty."""
    tags: Counter[int] = Counter()
    result = []
    for number, (peer, buffer) in enumerate(buffers):
        parts = split(flat(buffer), max_words)
        first = tags[peer]
        tags[peer] += len(parts)
        result.append([MessagePiece(number, peer, first + i, part) for i, part in enumerate(parts)])
    return result


def split(data: Buffer, max_words: int) -> list[Buffer]:
    """Return a flat buffer's pieces of at most `max_words` words; no piece for an empty buffer."""
    if len(data) <= max_words:
        return [data] if len(data) else []
    return [data[start : start + max_words] for start in range(0, len(data), max_words)]


def flat(buffer: Buffer) -> Buffer:
    """Return a view of the buffer with one axis; raise ValueError if it is not contiguous."""
    numpy = isinstance(buffer, np.ndarray)
    if not (buffer.flags.c_contiguous if numpy else buffer.is_contiguous()):
        raise ValueError("a buffer must be contiguous")
    return buffer.reshape(-1)


def name_ranks(ranks: Iterable[int]) -> str:
    """Return a phrase such as "rank 3" or "ranks 1, 2, 5": ascending, at most 8 ranks."""
    ranks = sorted(set(ranks))
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def unfinished(receiving: Iterable[int], sending: Iterable[int]) -> str:
    """Return a phrase such as "a message from rank 1 and rank 2 to accept a message"."""
    receiving, sending = set(receiving), set(sending)
    parts = []
    if receiving:
        parts.append(f"a message from {name_ranks(receiving)}")
    if sending:
        parts.append(f"{name_ranks(sending)} to accept a message")
    return " and ".join(parts)


def another_rank() -> str:
    """Return the phrase that says what a collective call of all ranks waits for."""
    return "another rank to reach the collective call that this one is in"


def overdue(what: str, timeout: float) -> str:
    """Return the error message of a rank that waited for `what` longer than the timeout."""
    return f"timeout of {timeout:g} s: still waiting for {what}"
