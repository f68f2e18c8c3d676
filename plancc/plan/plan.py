"""The Plan value: a distributed sparse product, compiled. Knows no file, no MPI, no partitioner.

*Plan order* numbers all rows part by part: row ``r`` of part ``m`` is row ``part_ptr[m] + r`` in
plan order. Every table below is flat, with offsets per part or per message, so that 4,096 parts
cost no more than four, and a rank reads one contiguous slice of each.

    local columns of part m:   0 ......... rows(m) | rows(m) ...... rows(m) + halo(m)
                               own rows            | received rows, in arrival order
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from plancc.cost.metrics import Metrics

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Header:
    """What a reader must know before it touches an array.

    Attributes
    ----------
    layout : str
        "row": every nonzero lives with the owner of its row.
    normalization : str
        "sym", "row" or "none" (`plancc.graph.normalize`).
    self_loops : bool
        Whether the identity was added before normalising.
    """

    layout: str
    num_vertices: int
    num_nonzeros: int
    num_parts: int
    directed: bool
    normalization: str
    self_loops: bool


@dataclass(frozen=True)
class Exchange:
    """Messages of all parts in one direction, grouped by part, peers ascending.

    Attributes
    ----------
    ptr : int64[num_parts + 1]
        Messages of part m are ``ptr[m]:ptr[m + 1]``.
    peer : int32[num_messages]
        The other part; ascending and unique within a part, never the part itself.
    row_ptr : int64[num_messages + 1]
        Rows of message k are ``row[row_ptr[k]:row_ptr[k + 1]]``; no message is empty.
    row : int32[volume]
        Local row numbers *at the part that owns (sends) the rows*, strictly ascending in every
        message. In a send table this is the send mask X_mn (paper 000, Eq. 8); in a receive table
        the receive set, in arrival order, which is the order of the local columns.
    """

    ptr: Int64Array
    peer: Int32Array
    row_ptr: Int64Array
    row: Int32Array

    @property
    def num_messages(self) -> int:
        return len(self.peer)

    @property
    def volume(self) -> int:
        return len(self.row)

    def messages_per_part(self) -> Int64Array:
        return np.diff(self.ptr)

    def rows_per_part(self) -> Int64Array:
        return np.diff(self.row_ptr[self.ptr])


@dataclass(frozen=True)
class VertexData:
    """Features, labels and masks, in plan order.

    Attributes
    ----------
    features : float32[num_vertices, num_features], or None
    labels : int32[num_vertices], or None
        Class of every vertex; -1 where it is unknown.
    train_mask, val_mask, test_mask : bool[num_vertices], or None
    """

    features: npt.NDArray[np.float32] | None = None
    labels: Int32Array | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    val_mask: npt.NDArray[np.bool_] | None = None
    test_mask: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Part:
    """One part's slice of a row plan (or several parts merged onto one rank, `plancc.plan.merge`).

    Attributes
    ----------
    index, num_parts : int
        Number of this part and of all parts (after merging: ranks).
    first_row : int
        Plan order of this part's first row.
    global_id : int32[rows]
        Vertex of every local row.
    num_interior : int
        Rows ``0..num_interior-1`` use own columns only; the others use at least one halo row.
    row_ptr : int64[rows + 1], column : int32[nonzeros], value : float[nonzeros]
        Local CSR; columns strictly ascending in a row, numbered [own rows | received rows].
    send_peer : int32[s], send_ptr : int64[s + 1], send_row : int32[sent rows]
        To peer ``send_peer[k]`` go the local rows ``send_row[send_ptr[k]:send_ptr[k + 1]]``,
        in this order.
    recv_peer : int32[r], recv_ptr : int64[r + 1]
        From peer ``recv_peer[k]`` come the halo rows ``recv_ptr[k]:recv_ptr[k + 1]``, which are
        the local columns ``rows + recv_ptr[k]`` and following.
    vertex_data : VertexData
        This part's rows, in local order.
    """

    index: int
    num_parts: int
    first_row: int
    global_id: Int32Array
    num_interior: int
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    send_peer: Int32Array
    send_ptr: Int64Array
    send_row: Int32Array
    recv_peer: Int32Array
    recv_ptr: Int64Array
    vertex_data: VertexData = field(default_factory=VertexData)

    @property
    def num_rows(self) -> int:
        return len(self.global_id)

    @property
    def num_halo(self) -> int:
        return int(self.recv_ptr[-1])
