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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.plan.plan import Part
from plancc_runtime.clock import Clock
from plancc_runtime.kernels.spmm import csr_tensor, multiply, multiply_add_rows
from plancc_runtime.transport.base import Transport


@dataclass(frozen=True)
class HaloBlock:
    """The nonzeros of this rank whose columns one peer owns.

    Attributes
    ----------
    rows : int64[m]
        Local rows that have any, ascending.
    matrix : CSR[m, halo rows from the peer]
    transposed : CSR[halo rows from the peer, local rows]
    """

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
        self._send_rows = [send_row[where] for _, where in self._send]

        matrix = csr_matrix(
            (part.value, part.column, part.row_ptr), (self.num_rows, self.num_rows + self.num_halo)
        )
        own = matrix[:, : self.num_rows]
        self._own = csr_tensor(own, dtype)
        self._own_transposed = csr_tensor(own.T.tocsr(), dtype)
        halo_transposed = matrix[:, self.num_rows :].T.tocsr()
        self._halo = [_halo_block(halo_transposed[where], dtype) for _, where in self._recv]

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
            for (peer, at), rows in zip(self._send, self._send_rows, strict=True):
                torch.index_select(h, 0, rows, out=buffers.outer[at])
                exchange.send(peer, buffers.outer[at])
        with clock("spmm"):
            multiply(self._own, h, out)
        arrivals = exchange.arrivals()
        while True:
            with clock("communication"):
                k = next(arrivals, None)
            if k is None:
                break
            with clock("spmm"):
                block, (_, at) = self._halo[k], self._recv[k]
                multiply_add_rows(block.matrix, buffers.halo[at], block.rows, out)
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
        for (peer, at), block in zip(self._recv, self._halo, strict=True):
            with clock("spmm"):
                multiply(block.transposed, g, buffers.halo[at])
            with clock("communication"):
                exchange.send(peer, buffers.halo[at])
        with clock("spmm"):
            multiply(self._own_transposed, g, out)
        with clock("communication"):
            for k in exchange.arrivals():
                _, at = self._send[k]
                out.index_add_(0, self._send_rows[k], buffers.outer[at])
            exchange.finish()


def _slices(ptr: np.ndarray) -> list[slice]:
    return [slice(a, b) for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]


def _halo_block(transposed: csr_matrix, dtype: torch.dtype) -> HaloBlock:
    """From CSR[halo rows, local rows]: the block itself keeps only the rows that have nonzeros."""
    rows, compressed = np.unique(transposed.indices, return_inverse=True)
    matrix = csr_matrix(
        (transposed.data, compressed, transposed.indptr), (transposed.shape[0], len(rows))
    ).T.tocsr()
    return HaloBlock(
        rows=torch.from_numpy(rows.astype(np.int64)),
        matrix=csr_tensor(matrix, dtype),
        transposed=csr_tensor(transposed, dtype),
    )
