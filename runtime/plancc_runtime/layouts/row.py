"""The row layout: every nonzero lives with the owner of its row (paper 000, Sections 4.1 and 4.2).

Knows a part's slice and a transport; must not know layers, losses or files. It keeps nothing
between two products but the matrix: the caller owns all dense arrays.

forward, H -> A H (rank m sends to n along the send mask X_mn, and receives from l):

      H of m            to n               from l             A H of m
    +---------+  pack  +-----+            +-----+            +---------+
    | own     | -----> | H_mn| ---> n     | H_lm| <--- l     | own     |  = A_mm H_m
    | rows    |        +-----+            +-----+            | rows    |  += A_ml H_lm as it arrives
    +---------+                              '-------------> +---------+

adjoint, G -> A^T G (the same plan read backward: what was received is sent back and added):

      G of m            to l               from n             A^T G of m
    +---------+ A_ml^T +-----+            +-----+  add at    +---------+
    | own     | -----> | S_ml| ---> l     | S_nm| ---------> | own     |  = A_mm^T G_m
    | rows    |        +-----+            +-----+  X_mn      | rows    |  += S_nm as it arrives
    +---------+                                              +---------+

The adjoint needs no second plan and is exact for directed matrices; both directions move the same
rows.

Small messages are handled in *groups* of neighbours: packed by one call, multiplied or added by one
call once the last of the group is here. A call of torch costs some 10 to 50 microseconds whatever
it does, which for 500 peers with a few rows each would be a thousand times the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.plan.plan import Part
from plancc_runtime.clock import Clock
from plancc_runtime.kernels.spmm import csr_tensor, multiply, multiply_add_rows
from plancc_runtime.transport.base import Transport

# A group of messages has at least as much work as one call of torch costs.
GROUP_ROWS = 2048  # to pack, or to add
GROUP_NONZEROS = 16384  # to multiply


class Group(Protocol):
    """Consecutive messages of one exchange."""

    @property
    def messages(self) -> range: ...


G = TypeVar("G", bound=Group)


@dataclass(frozen=True)
class OuterBlock:
    """The own rows that a group of peers needs.

    Attributes
    ----------
    messages : range
        Of this rank's messages in the order of its send masks.
    at : slice
        Their place in `Buffers.outer`.
    rows : int64[m]
        Local rows; those that several peers need occur once for each.
    """

    messages: range
    at: slice
    rows: Tensor


@dataclass(frozen=True)
class HaloBlock:
    """The nonzeros of this rank whose columns a group of peers owns.

    Attributes
    ----------
    messages : range
        Of the messages that this rank receives, in the order of the senders.
    at : slice
        Their place in `Buffers.halo`.
    rows : int64[m]
        Local rows that have any, ascending.
    matrix : CSR[m, halo rows of the group]
    transposed : CSR[halo rows of the group, local rows]
    """

    messages: range
    at: slice
    rows: Tensor
    matrix: Tensor
    transposed: Tensor


@dataclass(frozen=True)
class Buffers:
    """What crosses the network in one product of a given width, owned by the caller.

    Attributes
    ----------
    outer : Tensor[rows in the send masks, width]
        Copies of own rows: sent by `forward`, received by `adjoint`.
    halo : Tensor[halo rows, width]
        Rows of the peers: received by `forward`, sent by `adjoint`.
    """

    outer: Tensor
    halo: Tensor


class RowLayout:
    """The distributed product with a row-partitioned matrix, one rank's share.

    Parameters
    ----------
    part : Part
        This rank's slice; ``part.num_parts`` must equal ``transport.size``.
    transport : Transport
    dtype : torch.dtype
        float32 or float64, of the matrix and of all operands.
    clock : Clock, optional
        Gets the time of "communication" (pack, wait, add) and "spmm".
    """

    def __init__(
        self, part: Part, transport: Transport, dtype: torch.dtype, clock: Clock | None = None
    ) -> None:
        self.num_rows, self.num_halo = part.num_rows, part.num_halo
        self.dtype = dtype
        self._transport = transport
        self._clock = clock or Clock()

        self._send = list(zip(part.send_peer.tolist(), _slices(part.send_ptr), strict=True))
        self._recv = list(zip(part.recv_peer.tolist(), _slices(part.recv_ptr), strict=True))
        send_row = torch.from_numpy(part.send_row.astype(np.int64))
        self._outer = [
            OuterBlock(group, at, send_row[at])
            for group, at in _groups(part.send_ptr, np.diff(part.send_ptr), GROUP_ROWS)
        ]

        matrix = csr_matrix(
            (part.value, part.column, part.row_ptr), (self.num_rows, self.num_rows + self.num_halo)
        )
        own = matrix[:, : self.num_rows]
        self._own = csr_tensor(own, dtype)
        self._own_transposed = csr_tensor(own.T.tocsr(), dtype)
        halo_transposed = matrix[:, self.num_rows :].T.tocsr()
        nonzeros = np.diff(halo_transposed.indptr[part.recv_ptr])
        self._halo = [
            _halo_block(group, at, halo_transposed[at], dtype)
            for group, at in _groups(part.recv_ptr, nonzeros, GROUP_NONZEROS)
        ]

    def buffers(self, width: int) -> Buffers:
        """New buffers for products of `width` columns; reusable for any number of them."""
        num_outer = sum(where.stop - where.start for _, where in self._send)
        return Buffers(
            outer=torch.empty(num_outer, width, dtype=self.dtype),
            halo=torch.empty(self.num_halo, width, dtype=self.dtype),
        )

    def forward(self, h: Tensor, out: Tensor, buffers: Buffers) -> None:
        """out = A h (Algorithm 1, lines 3-9, and Equation 7 without W). Collective.

        Parameters
        ----------
        h, out : Tensor[num_rows, width]
            Own rows, contiguous.
        buffers : Buffers
            Of the same width; overwritten.
        """
        clock = self._clock
        with clock("communication"):
            exchange = self._transport.exchange([(n, buffers.halo[at]) for n, at in self._recv])
            for outer in self._outer:
                torch.index_select(h, 0, outer.rows, out=buffers.outer[outer.at])
                for peer, at in self._send[outer.messages.start : outer.messages.stop]:
                    exchange.send(peer, buffers.outer[at])
        with clock("spmm"):
            multiply(self._own, h, out)
        arrived = _complete(exchange.arrivals(), self._halo)
        while True:
            with clock("communication"):
                block = next(arrived, None)
            if block is None:
                break
            with clock("spmm"):
                multiply_add_rows(block.matrix, buffers.halo[block.at], block.rows, out)
        with clock("communication"):
            exchange.finish()

    def adjoint(self, g: Tensor, out: Tensor, buffers: Buffers) -> None:
        """out = A^T g (Algorithm 2, lines 4-10, with A^T for directed matrices). Collective.

        Parameters
        ----------
        g, out : Tensor[num_rows, width]
            Own rows, contiguous.
        buffers : Buffers
            Of the same width; overwritten.
        """
        clock = self._clock
        with clock("communication"):
            exchange = self._transport.exchange([(n, buffers.outer[at]) for n, at in self._send])
        for block in self._halo:
            with clock("spmm"):
                multiply(block.transposed, g, buffers.halo[block.at])
            with clock("communication"):
                for peer, at in self._recv[block.messages.start : block.messages.stop]:
                    exchange.send(peer, buffers.halo[at])
        with clock("spmm"):
            multiply(self._own_transposed, g, out)
        with clock("communication"):
            for outer in _complete(exchange.arrivals(), self._outer):
                out.index_add_(0, outer.rows, buffers.outer[outer.at])
            exchange.finish()


def _slices(ptr: np.ndarray) -> list[slice]:
    return [slice(a, b) for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]


def _groups(ptr: np.ndarray, work: np.ndarray, least: int) -> Iterator[tuple[range, slice]]:
    """Neighbouring messages with at least `least` work together, and the rows they cover."""
    first = total = 0
    for last, amount in enumerate(work.tolist(), 1):
        total += amount
        if total >= least or last == len(work):
            yield range(first, last), slice(int(ptr[first]), int(ptr[last]))
            first, total = last, 0


def _complete(arrivals: Iterator[int], groups: Sequence[G]) -> Iterator[G]:
    """Every group, as soon as the last of its messages has arrived."""
    group_of = [g for g, group in enumerate(groups) for _ in group.messages]
    missing = [len(group.messages) for group in groups]
    for k in arrivals:
        missing[group_of[k]] -= 1
        if missing[group_of[k]] == 0:
            yield groups[group_of[k]]


def _halo_block(
    messages: range, at: slice, transposed: csr_matrix, dtype: torch.dtype
) -> HaloBlock:
    """From CSR[halo rows, local rows]: the block itself keeps only the rows that have nonzeros."""
    rows, compressed = np.unique(transposed.indices, return_inverse=True)
    matrix = csr_matrix(
        (transposed.data, compressed, transposed.indptr), (transposed.shape[0], len(rows))
    ).T.tocsr()
    return HaloBlock(
        messages=messages,
        at=at,
        rows=torch.from_numpy(rows.astype(np.int64)),
        matrix=csr_tensor(matrix, dtype),
        transposed=csr_tensor(transposed, dtype),
    )
