"""Sends numbers, lists or bits for the rows of an exchange, from senders to receivers.

Some functions work in *rounds*: generators that pause while messages are in flight, and return a
result. All ranks must begin such work in the same order.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, IntArray, Side, offsets
from plancc_runtime.rowfiles import number_bytes
from plancc_runtime.transport.base import Channel, Transport

T = TypeVar("T")
Rounds = Generator[None, None, T]


def finished(rounds: Rounds[T]) -> T:
    """Run the generator `rounds` to its end without a pause; return its result. Collective."""
    while True:
        try:
            next(rounds)
        except StopIteration as end:
            result: T = end.value
            return result


def played(channel: Channel, sends: int) -> Rounds[None]:
    """Run one round of a channel that has `sends` buffers to send. Collective."""
    channel.start()
    for k in range(sends):
        channel.send(k)
    yield
    channel.finish()


def swapped(
    pieces: Sequence[npt.NDArray[Any]], transport: Transport, in_bytes: bool = False
) -> list[npt.NDArray[Any]]:
    """Send ``pieces[k]`` to rank k; return a list whose item k is from rank k. Collective.

    On all ranks, pieces have equal dtypes, and equal shapes apart from the first axis.
    """
    comes = transport.alltoall(np.array([len(each) for each in pieces], np.int64))
    found = [np.empty((size, *pieces[0].shape[1:]), pieces[0].dtype) for size in comes]
    found[transport.rank] = pieces[transport.rank]
    words = number_bytes if in_bytes else np.ascontiguousarray
    others = [k for k in range(transport.size) if k != transport.rank]
    transport.swap(
        [(k, words(pieces[k])) for k in others if len(pieces[k])],
        [(k, words(found[k])) for k in others if comes[k]],
    )
    return found


def send_numbers(
    exchange: Exchange, values: npt.NDArray[Any], transport: Transport
) -> npt.NDArray[Any]:
    """Send ``values[k]`` for sent row k; return the value of every received row. Collective."""
    return finished(sending_numbers(exchange, values, transport))


def sending_numbers(
    exchange: Exchange, values: npt.NDArray[Any], transport: Transport
) -> Rounds[npt.NDArray[Any]]:
    """Return what `send_numbers` returns, as a generator of one round."""
    received = np.empty((exchange.receive.volume, *values.shape[1:]), values.dtype)
    sends = exchange.send.split(values)
    yield from played(transport.exchange(sends, exchange.receive.split(received)), len(sends))
    return received


def send_lists(
    exchange: Exchange, ptr: Int64Array, numbers: npt.NDArray[Any], transport: Transport
) -> tuple[Int64Array, npt.NDArray[Any]]:
    """Send a list of numbers for every sent row; return the lists of received rows. Collective.

    The list of sent row k is ``numbers[ptr[k]:ptr[k + 1]]``. The result is such a pair (ptr,
    numbers) for the received rows.
    """
    return finished(sending_lists(exchange, ptr, numbers, transport))


def sending_lists(
    exchange: Exchange, ptr: Int64Array, numbers: npt.NDArray[Any], transport: Transport
) -> Rounds[tuple[Int64Array, npt.NDArray[Any]]]:
    """Send lists of numbers like `send_lists`, as a generator that pauses while messages travel."""
    sizes = yield from sending_numbers(exchange, np.diff(ptr).astype(np.int32), transport)
    arrived = offsets(sizes)
    received = np.empty((arrived[-1], *numbers.shape[1:]), numbers.dtype)
    sends, receives = exchange.send.split(numbers, ptr), exchange.receive.split(received, arrived)
    yield from played(transport.exchange(sends, receives), len(sends))
    return arrived, received


class RowLists:
    """Sends, whenever `tell` is called, one number for each row in a subset of an exchange's rows.

    Messages have two words for each number: the row's position in the message, and the number.
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
        """Send `numbers` for `rows`. Return the received rows and their numbers. Collective.

        `rows` are positions among all rows that this rank sends; the received rows are positions
        among all rows that it receives. Numbers are below 2^31.
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
    """Tells receivers, by bits, which of an exchange's rows will be sent; may be used repeatedly.

    A word has the bits of 32 rows, and is sent only if a bit is set. Summary words, which are
    always sent, have one bit for each word: whether it is sent.
    """

    def __init__(self, exchange: Exchange, transport: Transport) -> None:
        self._exchange, self._transport = exchange, transport
        self._words = words = _word_messages(exchange)
        self._filled = filled = _word_messages(words)
        self._sent, self._arrived = (
            np.zeros(side.volume, np.int32) for side in (filled.send, filled.receive)
        )
        self._channel = transport.exchange(
            filled.send.split(self._sent), filled.receive.split(self._arrived)
        )

    def tell(self, rows: Int64Array) -> Rounds[Int64Array]:
        """Tell receivers which rows this rank will send; return the rows to receive. Collective.

        `rows` are ascending positions among all rows of `exchange.send`. The result has ascending
        positions among all rows of `exchange.receive`.
        """
        if self._transport.size == 1:
            return rows
        exchange, words, filled = self._exchange, self._words, self._filled
        sent, bits = _packed(rows, exchange.send.row_ptr, words.send.row_ptr)
        at, summary = _packed(sent, words.send.row_ptr, filled.send.row_ptr)
        self._sent[at] = summary
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


def _word_messages(exchange: Exchange) -> Exchange:
    """Return the exchange of 32-bit words that have one bit for each row of `exchange`."""
    return Exchange(
        *(
            Side.of_rank(side.peer, offsets(-(-np.diff(side.row_ptr) // 32)))
            for side in (exchange.send, exchange.receive)
        )
    )


@njit(cache=True, nogil=True)
def _packed(rows: Any, row_ptr: Any, word_ptr: Any) -> Any:
    """Pack row numbers into words of 32 bits; return positions and values of words that are not 0.

    Every row of a message has one bit: bit k is set if `rows`, ascending, has the message's k-th
    row. `row_ptr` and `word_ptr` are the offsets of the rows, and of the words, of each message.
    """
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
    """Return the rows, int64[m], for which `_packed` returns these `places` and `words`.

    `row_ptr` and `word_ptr` are offsets of the rows, and of the words, of each message.
    """
    found = np.empty(32 * len(places), dtype=np.int64)
    size, message = 0, 0
    for k in range(len(places)):
        while places[k] >= word_ptr[message + 1]:
            message += 1
        first = row_ptr[message] + 32 * (places[k] - word_ptr[message])
        for bit in range(32):
            found[size] = first + bit  # kept if the bit is set, else overwritten
            size += (words[k] >> bit) & 1
    return found[:size].copy()
