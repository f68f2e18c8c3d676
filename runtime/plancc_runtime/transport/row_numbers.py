"""Numbers of rows that travel, sent to the other end of every message."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.plan.exchange import Exchange, Int64Array, offsets
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
