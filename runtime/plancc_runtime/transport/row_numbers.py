"""Numbers and bits of rows that travel, sent to the other end of every message."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int64Array, Side, offsets
from plancc_runtime.transport.base import Transport


def send_numbers(
    exchange: Exchange, values: npt.NDArray[Any], transport: Transport
) -> npt.NDArray[Any]:
    """What its sender has for every received row: array[rows received, ...]. Collective.

    Parameters
    ----------
    exchange : Exchange
        Of this rank.
    values : array[rows sent, ...]
        One or several numbers for every sent row.
    transport : Transport
    """
    received = np.empty((exchange.receive.volume, *values.shape[1:]), values.dtype)
    transport.swap(exchange.send.split(values), exchange.receive.split(received))
    return received


def send_lists(
    exchange: Exchange, ptr: Int64Array, numbers: npt.NDArray[Any], transport: Transport
) -> tuple[Int64Array, npt.NDArray[Any]]:
    """What its sender has for every received row, where that is a list. Collective.

    Parameters
    ----------
    exchange, transport
        As of `send_numbers`.
    ptr : int64[rows sent + 1]
        The list of row k is ``numbers[ptr[k]:ptr[k + 1]]``.
    numbers : array[ptr[-1]]

    Returns
    -------
    ptr : int64[rows received + 1], numbers : array[ptr[-1]]
    """
    arrived = offsets(send_numbers(exchange, np.diff(ptr).astype(np.int32), transport))
    received = np.empty(arrived[-1], numbers.dtype)
    transport.swap(exchange.send.split(numbers, ptr), exchange.receive.split(received, arrived))
    return arrived, received


class RowBits:
    """A bit for every row that may travel, told to the other end round after round.

    A message has a word of 32 bits for every 32 of its rows, begun or full. Rounds look at these
    words and at the rows that are told, at nothing else.

    Parameters
    ----------
    exchange : Exchange
        Of this rank.
    transport : Transport
    """

    def __init__(self, exchange: Exchange, transport: Transport) -> None:
        self._sides = [_words_of(side) for side in (exchange.send, exchange.receive)]
        (_, ptr, sent), (_, arrived_ptr, arrived) = self._sides
        self._channel = transport.exchange(
            [(n, sent[ptr[k] : ptr[k + 1]]) for k, n in enumerate(exchange.send.peer.tolist())],
            [
                (n, arrived[arrived_ptr[k] : arrived_ptr[k + 1]])
                for k, n in enumerate(exchange.receive.peer.tolist())
            ],
        )
        self._messages = exchange.send.num_messages

    def tell(self, rows: Int64Array) -> Int64Array:
        """The places of received rows whose senders told them, ascending. Collective.

        `rows`: int64[m], places of those that this rank tells among its sent rows, ascending.
        """
        (row_ptr, ptr, sent), (arrived_row_ptr, arrived_ptr, arrived) = self._sides
        _set(rows, row_ptr, ptr, sent)
        self._channel.start()
        for k in range(self._messages):
            self._channel.send(k)
        self._channel.finish()
        _set(rows, row_ptr, ptr, sent)  # back to 0
        found: Int64Array = _told(arrived_row_ptr, arrived_ptr, arrived)
        return found


def _words_of(side: Side) -> tuple[Int64Array, Int64Array, npt.NDArray[np.int32]]:
    """Where the rows, and the words, of every message begin; the words, all 0."""
    ptr = offsets(-(-np.diff(side.row_ptr) // 32))
    return side.row_ptr, ptr, np.zeros(ptr[-1], np.int32)


@njit(cache=True, nogil=True)
def _set(rows: Any, row_ptr: Any, ptr: Any, words: Any) -> None:
    """Turn over the bits of `rows`."""
    message = 0
    for row in rows:
        while row >= row_ptr[message + 1]:
            message += 1
        bit = row - row_ptr[message]
        words[ptr[message] + (bit >> 5)] ^= np.int32(1) << np.int32(bit & 31)


@njit(cache=True, nogil=True)
def _told(row_ptr: Any, ptr: Any, words: Any) -> Any:
    """The rows whose bits are set."""
    size = 0
    for word in words:
        left = np.uint32(word)
        while left != 0:
            left &= np.uint32(left - np.uint32(1))
            size += 1
    found = np.empty(size, dtype=np.int64)
    size = 0
    for message in range(len(ptr) - 1):
        for k in range(ptr[message], ptr[message + 1]):
            if words[k] == 0:
                continue
            first = row_ptr[message] + 32 * (k - ptr[message])
            for bit in range(32):
                if (words[k] >> bit) & 1:
                    found[size] = first + bit
                    size += 1
    return found
