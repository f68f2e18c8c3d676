"""Numbers and bits of rows that travel, sent to the other end of every message.

Some work goes in *rounds*: a generator that pauses while messages travel, and returns a result.
Ranks may do other work together in each pause. They begin all that they do in the same order.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, IntArray, Side, offsets
from plancc_runtime.rowfiles import as_bytes
from plancc_runtime.transport.base import Channel, Transport

T = TypeVar("T")
Rounds = Generator[None, None, T]


def finished(rounds: Rounds[T]) -> T:
    """Go through the rounds that are left, at once. Collective."""
    while True:
        try:
            next(rounds)
        except StopIteration as end:
            result: T = end.value
            return result


def played(channel: Channel, sends: int) -> Rounds[None]:
    """Play a round of a channel that has some `sends`. Collective."""
    channel.start()
    for k in range(sends):
        channel.send(k)
    yield
    channel.finish()


def swapped(
    pieces: Sequence[npt.NDArray[Any]], transport: Transport, in_bytes: bool = False
) -> list[npt.NDArray[Any]]:
    """What every rank has for this one, in their order; piece k is for rank k. Collective.

    Parameters:
        pieces: Alike on all ranks but for their first axis.
        in_bytes: Whether the words that travel are bytes: of numbers of any type.
    """
    comes = transport.alltoall(np.array([len(each) for each in pieces], np.int64))
    found = [np.empty((size, *pieces[0].shape[1:]), pieces[0].dtype) for size in comes]
    found[transport.rank] = pieces[transport.rank]
    words = as_bytes if in_bytes else np.ascontiguousarray
    others = [k for k in range(transport.size) if k != transport.rank]
    transport.swap(
        [(k, words(pieces[k])) for k in others if len(pieces[k])],
        [(k, words(found[k])) for k in others if comes[k]],
    )
    return found


def send_numbers(
    exchange: Exchange, values: npt.NDArray[Any], transport: Transport
) -> npt.NDArray[Any]:
    """What its sender has for every received row: array[rows received, ...]. Collective.

    Parameters:
        exchange: Of this rank.
        values (array[rows sent, ...]): One or several numbers for every sent row.
    """
    return finished(sending_numbers(exchange, values, transport))


def sending_numbers(
    exchange: Exchange, values: npt.NDArray[Any], transport: Transport
) -> Rounds[npt.NDArray[Any]]:
    """`send_numbers`, in a round."""
    received = np.empty((exchange.receive.volume, *values.shape[1:]), values.dtype)
    sends = exchange.send.split(values)
    yield from played(transport.exchange(sends, exchange.receive.split(received)), len(sends))
    return received


def send_lists(
    exchange: Exchange, ptr: Int64Array, numbers: npt.NDArray[Any], transport: Transport
) -> tuple[Int64Array, npt.NDArray[Any]]:
    """What its sender has for every received row, where that is a list. Collective.

    Parameters:
        exchange, transport: As of `send_numbers`.
        ptr (int64[rows sent + 1]): The list of row k is ``numbers[ptr[k]:ptr[k + 1]]``.
        numbers: array[ptr[-1], ...].

    Returns:
        ptr: int64[rows received + 1], numbers : array[ptr[-1], ...]
    """
    return finished(sending_lists(exchange, ptr, numbers, transport))


def sending_lists(
    exchange: Exchange, ptr: Int64Array, numbers: npt.NDArray[Any], transport: Transport
) -> Rounds[tuple[Int64Array, npt.NDArray[Any]]]:
    """`send_lists`, in two rounds."""
    sizes = yield from sending_numbers(exchange, np.diff(ptr).astype(np.int32), transport)
    arrived = offsets(sizes)
    received = np.empty((arrived[-1], *numbers.shape[1:]), numbers.dtype)
    sends, receives = exchange.send.split(numbers, ptr), exchange.receive.split(received, arrived)
    yield from played(transport.exchange(sends, receives), len(sends))
    return arrived, received


class RowLists:
    """Numbers for some of the rows that may travel, told to the other end round after round.

    A message is a word, how many numbers there are, and then two words for each.

    Parameters:
        exchange: Of this rank.
    """

    def __init__(self, exchange: Exchange, transport: Transport) -> None:
        self._exchange, self._transport = exchange, transport
        self._messages = Exchange(
            *(
                Side.of_rank(side.peer, np.arange(side.num_messages + 1))
                for side in (exchange.send, exchange.receive)
            )
        )

    def tell(self, rows: IntArray, numbers: IntArray) -> Rounds[tuple[IntArray, Int32Array]]:
        """Received rows whose senders told a number, and the numbers. Collective.

        `rows`: int[m], places among the rows that this rank sends; `numbers`: int[m], below 2^31.
        """
        order = np.argsort(rows, kind="stable")
        first, ends = self._exchange.send.row_ptr, self._exchange.receive.row_ptr
        ptr = np.searchsorted(rows[order], first)
        told = np.empty((len(rows), 2), np.int32)
        told[:, 0] = rows[order] - np.repeat(first[:-1], np.diff(ptr))
        told[:, 1] = numbers[order]
        ptr, told = yield from sending_lists(self._messages, ptr, told, self._transport)
        return told[:, 0] + np.repeat(ends[:-1], np.diff(ptr)), told[:, 1]


class RowBits:
    """Some of the rows that may travel, told to the other end round after round.

    Rows have a bit each, and words of 32 bits travel if one of their bits is set. Which words these
    are is told likewise, by a word for 32 of them; those all travel.

    Parameters:
        exchange: Of this rank.
    """

    def __init__(self, exchange: Exchange, transport: Transport) -> None:
        self._exchange, self._transport = exchange, transport
        self._words = words = _of_words(exchange)
        self._filled = filled = _of_words(words)
        self._sent, self._arrived = (
            np.zeros(side.volume, np.int32) for side in (filled.send, filled.receive)
        )
        self._channel = transport.exchange(
            filled.send.split(self._sent), filled.receive.split(self._arrived)
        )

    def tell(self, rows: Int64Array) -> Rounds[Int64Array]:
        """The places of received rows whose senders told them, ascending. Collective.

        `rows`: int64[m], places of those that this rank tells among its sent rows, ascending.
        """
        if self._transport.size == 1:
            return rows
        exchange, words, filled = self._exchange, self._words, self._filled
        sent, bits = _packed(rows, exchange.send.row_ptr, words.send.row_ptr)
        at, of_words = _packed(sent, words.send.row_ptr, filled.send.row_ptr)
        self._sent[at] = of_words
        yield from played(self._channel, filled.send.num_messages)
        self._sent[at] = 0
        at = np.flatnonzero(self._arrived)
        rows_of_words = words.receive.row_ptr, filled.receive.row_ptr
        arrived = _unpacked(at, self._arrived[at], *rows_of_words)
        bits = yield from sending_numbers(words.keep(sent, arrived), bits, self._transport)
        found: Int64Array = _unpacked(
            arrived, bits, exchange.receive.row_ptr, words.receive.row_ptr
        )
        return found


def _of_words(exchange: Exchange) -> Exchange:
    """The messages of a word for every 32 rows, begun or full."""
    return Exchange(
        *(
            Side.of_rank(side.peer, offsets(-(-np.diff(side.row_ptr) // 32)))
            for side in (exchange.send, exchange.receive)
        )
    )


@njit(cache=True, nogil=True)
def _packed(rows: Any, row_ptr: Any, word_ptr: Any) -> Any:
    """The words of messages that have bits of `rows`: int64[m], int32[m]."""
    places = np.empty(len(rows), dtype=np.int64)
    words = np.empty(len(rows), dtype=np.int32)
    size, message = 0, 0
    for row in rows:
        while row >= row_ptr[message + 1]:
            message += 1
        bit = row - row_ptr[message]
        place = word_ptr[message] + (bit >> 5)
        if size == 0 or places[size - 1] != place:
            places[size], words[size] = place, 0
            size += 1
        words[size - 1] |= np.int32(1) << np.int32(bit & 31)
    return places[:size], words[:size]


@njit(cache=True, nogil=True)
def _unpacked(places: Any, words: Any, row_ptr: Any, word_ptr: Any) -> Any:
    """The rows whose bits are set in the words of messages at `places`: int64[m]."""
    found = np.empty(32 * len(places), dtype=np.int64)
    size, message = 0, 0
    for k in range(len(places)):
        while places[k] >= word_ptr[message + 1]:
            message += 1
        first = row_ptr[message] + 32 * (places[k] - word_ptr[message])
        for bit in range(32):
            found[size] = first + bit  # kept if its bit is set, else overwritten
            size += (words[k] >> bit) & 1
    return found[:size].copy()
