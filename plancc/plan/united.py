"""Messages of parts as messages of ranks. Knows lists of rows only.

Messages inside a rank are dropped; a row that several of its parts send to, or get from, one rank
travels once. Both ends order the rows of a message by plan order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.plan.values import Int32Array, Int64Array


def united(
    peer: npt.NDArray[np.integer], place: npt.NDArray[np.integer], rank: int, ranks: Int64Array
) -> tuple[Int32Array, Int64Array, Int64Array]:
    """Messages between ranks: peers, offsets, and places, every row once in plan order.

    Parameters
    ----------
    peer, place : int[rows]
        The other end, a part, and the place of every row in the messages of the parts.
    rank : int
        That of these parts.
    ranks : int64[num_ranks + 1]
        First part of every rank.
    """
    peer_rank = interval(peer, ranks)
    limit = int(place.max(initial=0)) + 1
    key = np.unique((peer_rank * limit + place)[peer_rank != rank])
    return *runs(key // limit), key % limit


def interval(number: npt.NDArray[np.integer], starts: Int64Array) -> Int64Array:
    """The interval that every number is in, from the starts of intervals, some of them empty."""
    return np.searchsorted(starts, number, side="right") - 1


def runs(keys: Int64Array) -> tuple[Int32Array, Int64Array]:
    """The distinct values of a sorted list, and the offsets of their runs."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts].astype(np.int32), np.append(starts, len(keys)).astype(np.int64)
