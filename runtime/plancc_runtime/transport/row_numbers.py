"""Sends numbers, lists or bits for the rows of an exchange, from senders to receivers.

Some functions work in *rounds*: they are generators that pause while messages are in flight, and
return a result. A rank may do other work during a pause. All ranks must begin such work in the same
order.
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
    """Send ``pieces[k]`` to rank k. Return a list of received pieces; item k is from rank k.

    Collective.

    Parameters:
        pieces: One array for every rank. On all ranks the arrays have the same dtype, and the same
            shape apart from the first axis.
        in_bytes: Whether the numbers are sent as bytes, which allows any dtype.
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
    """Return the sender's value of every received row: array[rows received, ...]. Collective.

    Parameters:
        exchange: The exchange of this rank.
        values (array[rows sent, ...]): One or several numbers for every sent row.
    """
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
    """Send a list of numbers for every sent row. Return the lists of the received rows.

    Collective.

    Parameters:
        exchange, transport: See `send_numbers`.
        ptr (int64[rows sent + 1]): The list of sent row k is ``numbers[ptr[k]:ptr[k + 1]]``.
        numbers (array[ptr[-1], ...]): The lists, one after another.

    Returns:
        int64[rows received + 1], array[...]: The same two arrays for the received rows.
    """
    return finished(sending_lists(exchange, ptr, numbers, transport))


def sending_lists(
    exchange: Exchange, ptr: Int64Array, numbers: npt.NDArray[Any], transport: Transport
) -> Rounds[tuple[Int64Array, npt.NDArray[Any]]]:
    """Do what `send_lists` does, as a generator that pauses while messages are in flight."""
    sizes = yield from sending_numbers(exchange, np.diff(ptr).astype(np.int32), transport)
    arrived = offsets(sizes)
    received = np.empty((arrived[-1], *numbers.shape[1:]), numbers.dtype)
    sends, receives = exchange.send.split(numbers, ptr), exchange.receive.split(received, arrived)
    yield from played(transport.exchange(sends, receives), len(sends))
    return arrived, received


class RowLists:
    """Sends one number for every row in a subset of an exchange's rows; may be used repeatedly.

    First, the count of numbers in each message is sent. Then two words are sent for each number:
    the row's position in the message, and the number.

    Parameters:
        exchange: The exchange of this rank.
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

        Parameters:
            rows (int[m]): Positions among the rows that this rank sends in the exchange.
            numbers (int[m]): A number below 2^31 for each row.

        Returns:
            int[k]: Positions among the rows that this rank receives in the exchange.
            int32[k]: The received number for each of these rows.
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
    """Sends a subset of an exchange's rows as bits; may be used repeatedly.

    Every row has a bit, and 32 bits make a word. A word is sent only if one of its bits is set. For
    every 32 words, a summary word says which of these words are sent. All summary words are sent.

    Parameters:
        exchange: The exchange of this rank.
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
        """Tell receivers which rows this rank will send; return which rows it will receive.

        Collective. These rows are some of the rows that the exchange sends and receives.

        Parameters:
            rows (int64[m]): The rows that this rank will send, as ascending positions in the list
                of all rows that it sends in the exchange.

        Returns:
            int64[k]: The rows that will arrive, as ascending positions in the list of all rows that
                this rank receives in the exchange.
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
    """Return the exchange that sends one bit for each row of `exchange`, in words of 32 bits.

    The last word of a message may have fewer bits.
    """
    return Exchange(
        *(
            Side.of_rank(side.peer, offsets(-(-np.diff(side.row_ptr) // 32)))
            for side in (exchange.send, exchange.receive)
        )
    )


@njit(cache=True, nogil=True)
def _packed(rows: Any, row_ptr: Any, word_ptr: Any) -> Any:
    """Return the words in which bits of `rows` are set; all other words are 0.

    Returns:
        int64[m], int32[m]: The positions of the words, and their values.
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
    """Return the rows whose bits are set: int64[m]. This is the inverse of `_packed`.

    Parameters:
        places, words: Positions and values of the 32-bit words that are not 0.
        row_ptr, word_ptr: Offsets of the rows of each message, and of the words of each message.
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
