"""Numbers of rows that travel, sent to the other end of every message. Knows messages; must not
know what rows contain, layers or files.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from plancc.plan.values import Int32Array, Int64Array
from plancc_runtime.transport.base import Transport


class RowNumbers(NamedTuple):
    """One or several numbers for every row of some messages, at one end of them.

    Attributes
    ----------
    peer : int32[m], ptr : int64[m + 1]
        The message of peer ``peer[k]`` has the rows ``ptr[k]:ptr[k + 1]``.
    values : array[rows, ...]
    """

    peer: Int32Array
    ptr: Int64Array
    values: npt.NDArray[Any]


class PeerLists(Protocol):
    """The peers of a `Block`, a `Part` or a `PartFold`, and the rows of their messages."""

    @property
    def send_peer(self) -> Int32Array: ...
    @property
    def send_ptr(self) -> Int64Array: ...
    @property
    def recv_peer(self) -> Int32Array: ...
    @property
    def recv_ptr(self) -> Int64Array: ...


def of_sent(lists: PeerLists, values: npt.NDArray[Any]) -> RowNumbers:
    """Numbers of the rows that are sent."""
    return RowNumbers(lists.send_peer, lists.send_ptr, values)


def of_received(lists: PeerLists, values: npt.NDArray[Any]) -> RowNumbers:
    """Numbers of the rows that are received."""
    return RowNumbers(lists.recv_peer, lists.recv_ptr, values)


def send_numbers(transport: Transport, source: RowNumbers, target: RowNumbers) -> None:
    """Send the numbers of `source`; those that arrive fill ``target.values``. Collective."""
    pieces = np.split(target.values, target.ptr[1:-1]) if len(target.peer) else []
    receives = list(zip(target.peer.tolist(), pieces, strict=True))
    ptr, values = source.ptr, source.values
    sends = [(peer, values[ptr[k] : ptr[k + 1]]) for k, peer in enumerate(source.peer.tolist())]
    exchange = transport.exchange(sends, receives)
    exchange.start()
    for k in range(len(sends)):
        exchange.send(k)
    exchange.finish()
