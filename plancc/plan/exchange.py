"""Exchanges: which parts or ranks send which rows to which other parts or ranks.

An exchange is a 0/1 matrix for every pair of ranks. A 1 at (i, j) says that row i of the receiver
is row j of the sender. Every method is an operation on these matrices:

    reversed      transpose them: an expand becomes a fold, or the adjoint of the expand
    keep          set some 1s to 0: keep used rows, a sample of the boundary, or a mini-batch
    renumbered    permute or drop rows and columns: use a new row order, or some rows only
    merged        join parts that run on one rank: a row that several parts need is sent once
    of_parts      take only the messages of consecutive parts
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
IntArray = npt.NDArray[np.integer]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Side:
    """The messages of an exchange, seen from one end: sorted by the part at this end, then by the
    part at the other end (the peer).

    Attributes:
        ptr (int64[num_parts + 1]): Messages of part m are ``ptr[m]:ptr[m + 1]``. The side of a
            single rank has one part.
        peer (int32[num_messages]): The part at the other end; ascending and unique within a part,
            never the part itself.
        row_ptr (int64[num_messages + 1]): Rows of message k are ``row[row_ptr[k]:row_ptr[k + 1]]``;
            no message is empty.
        row (int32[volume], or int64 for places in plan order): Row number of every row, in the
            order of the messages. At the owner's end, it is the local row number of the owner. In a
            plan, these numbers ascend within every message; in the expand they are the send mask
            X_mn (Demirci et al. 2022, Eq. 8). At the other end, a *plan* has the owner's local row
            numbers, too (the receive set), but a *rank* numbers the rows 0, 1, 2, ... in the order
            of arrival.
    """

    ptr: Int64Array
    peer: Int32Array
    row_ptr: Int64Array
    row: Any

    @classmethod
    def of_rank(cls, peer: IntArray, row_ptr: Int64Array, row: IntArray | None = None) -> Side:
        """Return one rank's side of an exchange; if `row` is None, the rows are 0, 1, 2, ..."""
        if row is None:
            row = np.arange(row_ptr[-1])
        peer, row = (each.astype(np.int32, copy=False) for each in (peer, row))
        return cls(np.array([0, len(peer)]), peer, row_ptr, row)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays ptr, peer, row_ptr and row as a tuple, for compiled kernels."""
        return self.ptr, self.peer, self.row_ptr, self.row

    @property
    def num_messages(self) -> int:
        return len(self.peer)

    @property
    def volume(self) -> int:
        """Number of rows in all messages together."""
        return len(self.row)

    def messages_per_part(self) -> Int64Array:
        return np.diff(self.ptr)

    def rows_per_part(self) -> Int64Array:
        return np.diff(self.row_ptr[self.ptr])

    def peer_of_row(self) -> Int32Array:
        """Return, for every entry of `row`, the part at the other end: int32[volume]."""
        return np.repeat(self.peer, np.diff(self.row_ptr))

    def part_of_row(self) -> Int64Array:
        """Return, for every entry of `row`, the part whose message it is in: int64[volume]."""
        return np.repeat(np.arange(len(self.ptr) - 1), self.rows_per_part())

    def message(self, peer: int) -> Int32Array:
        """Return the rows of the message to or from `peer`; empty if there is no such message.

        This object must be the side of a single rank (`of_rank`), not of all parts.
        """
        at = np.searchsorted(self.peer, [peer, peer + 1])
        return self.row[slice(*self.row_ptr[at])]

    def split(
        self, values: npt.NDArray[Any], lists: Int64Array | None = None
    ) -> list[tuple[int, npt.NDArray[Any]]]:
        """Split an array by message. Return a pair (peer, entries of the message) for each message.

        Parameters:
            values: If `lists` is None, array[volume, ...] with one entry for each row; otherwise
                the entries of all rows, one row after the other.
            lists (int64[volume + 1]): If given, row k has the entries ``lists[k]:lists[k + 1]`` of
                `values`.
        """
        ptr = self.row_ptr if lists is None else lists[self.row_ptr]
        return [(n, values[ptr[k] : ptr[k + 1]]) for k, n in enumerate(self.peer.tolist())]

    def of_parts(self, first: int, last: int) -> Side:
        """Return the messages of parts ``first..last-1``. Part `first` becomes number 0."""
        ptr = self.ptr[first : last + 1]
        row_ptr = self.row_ptr[ptr[0] : ptr[-1] + 1]
        return Side(
            ptr - ptr[0],
            self.peer[ptr[0] : ptr[-1]],
            row_ptr - row_ptr[0],
            self.row[row_ptr[0] : row_ptr[-1]],
        )

    def keep(self, wanted: BoolArray | Int64Array) -> Side:
        """Keep only the wanted rows, with their numbers, and drop messages that become empty.

        Parameters:
            wanted: Either a mask bool[volume], or the ascending indices of the wanted entries of
                the attribute `row`.
        """
        if not self.num_messages:
            return self
        if wanted.dtype == np.bool_:
            wanted = np.flatnonzero(wanted)
        row_ptr = np.searchsorted(wanted, self.row_ptr)
        filled = np.diff(row_ptr) > 0
        left = np.append(row_ptr[:-1][filled], row_ptr[-1])
        return Side(offsets(filled)[self.ptr], self.peer[filled], left, self.row[wanted])

    def called(self, row: IntArray) -> Side:
        """Return the same messages with other row numbers: `row`, int[volume]."""
        return replace(self, row=row)

    def consecutive(self) -> Side:
        """Return the same messages with rows numbered 0, 1, 2, ... from the first message on."""
        return self.called(np.arange(self.volume, dtype=np.int32))

    def merged(self, rank: int, ranks: Int64Array) -> Side:
        """Merge the parts of this side into one rank; see `Exchange.merged`."""
        peer = interval(self.peer_of_row(), ranks)
        limit = int(self.row.max(initial=0)) + 1
        key = np.unique((peer * limit + self.row)[peer != rank])
        peers, row_ptr = runs(key // limit)
        return Side(np.array([0, len(peers)]), peers.astype(np.int32), row_ptr, key % limit)


@dataclass(frozen=True, eq=False)
class Exchange:
    """All messages of one exchange, such as the expand of a product.

    Attributes:
        send: The messages sorted by sender.
        receive: The same messages sorted by receiver.
    """

    send: Side
    receive: Side

    @classmethod
    def nothing(cls) -> Exchange:
        """Return the exchange of a rank that neither sends nor receives."""
        side = Side.of_rank(np.zeros(0, np.int32), np.zeros(1, np.int64))
        return cls(side, side)

    def straight(self) -> Exchange:
        """Return the same messages, sent directly instead of in hops (`plancc.plan.routed`)."""
        return Exchange(self.send, self.receive)

    def reversed(self) -> Exchange:
        """Return the exchange in the other direction, with the same rows.

        Every receiver becomes a sender, and every sender a receiver.
        """
        return Exchange(self.receive, self.send)

    def of_parts(self, first: int, last: int) -> Exchange:
        """Return the messages of parts ``first..last-1``. Part `first` becomes part 0."""
        return Exchange(self.send.of_parts(first, last), self.receive.of_parts(first, last))

    def keep(self, sent: BoolArray | Int64Array, received: BoolArray | Int64Array) -> Exchange:
        """Keep some rows of the messages, as `Side.keep` does at each end.

        `sent` and `received` must choose the same rows.
        """
        return Exchange(self.send.keep(sent), self.receive.keep(received))

    def renumbered(
        self, sent: IntArray | None = None, received: IntArray | None = None
    ) -> Exchange:
        """Renumber rows: sent row r becomes ``sent[r]``, and received row r becomes
        ``received[r]``.
        """
        send, receive = self.send, self.receive
        if sent is not None:
            send = send.called(sent[send.row])
        if received is not None:
            receive = receive.called(received[receive.row])
        return Exchange(send, receive)

    def merged(self, rank: int, ranks: Int64Array) -> Exchange:
        """Merge the messages of all parts of a rank into the exchange of the rank.

        Messages between parts of the same rank are dropped. A row is sent only once between two
        ranks, even if several of their parts send or need it. Sender and receiver sort the rows of
        a message in plan order.

        Parameters:
            rank: The rank. The rows of this exchange must be numbered by their places in plan
                order.
            ranks (int64[num_ranks + 1]): First part of every rank; at the end, the number of parts.
        """
        return Exchange(self.send.merged(rank, ranks), self.receive.merged(rank, ranks))


def offsets(sizes: npt.NDArray[Any]) -> Int64Array:
    """Return the offsets of lists of lengths `sizes` in one array, int64[len(sizes) + 1]."""
    ptr = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ptr[1:])
    return ptr


def nonzeros_of(row_ptr: Int64Array, rows: IntArray) -> tuple[Int64Array, Int64Array]:
    """Return offsets, int64[len(rows) + 1], and indices, int64, of the nonzeros of CSR rows."""
    degree = np.diff(row_ptr)[rows]
    ptr = offsets(degree)
    return ptr, np.arange(ptr[-1]) + np.repeat(row_ptr[rows] - ptr[:-1], degree)


def places(kept: BoolArray) -> Int32Array:
    """Return, for every kept row, the number of kept rows before it: int32[rows].

    Entries of other rows are undefined.
    """
    return np.cumsum(kept, dtype=np.int32) - np.int32(1)


def interval(number: IntArray, starts: Int64Array) -> Int64Array:
    """Return the index of each number's interval; `starts` ascend, and intervals may be empty."""
    return np.searchsorted(starts, number, side="right") - 1


def runs(keys: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values of a sorted list, and the offsets of the runs of equal values."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.append(starts, len(keys)).astype(np.int64)
