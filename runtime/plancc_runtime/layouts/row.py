"""The row layout: every nonzero lives with the owner of its row (Demirci et al. 2022, Sections 4.1
and 4.2).

Knows a block and a transport; must not know layers, losses or files. It keeps nothing
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

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.jit import njit
from plancc.plan.exchange import Int64Array
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import Buffers, HaloExchange, complete, groups
from plancc_runtime.layouts.resources import Resources

GROUP_NONZEROS = 16384  # to multiply: as much work as one call of torch costs


@dataclass(frozen=True)
class HaloBlock:
    """The nonzeros of this rank whose columns a group of peers owns.

    Attributes
    ----------
    messages : range
        Messages that this rank receives, in the order of the senders.
    at : slice
        Their place in `Buffers.halo`.
    rows : int64[m]
        Local rows that have any, ascending.
    matrix : SparseMatrix[m, halo rows of the group]
    transposed : SparseMatrix[halo rows of the group, local rows]
    """

    messages: range
    at: slice
    rows: Tensor
    matrix: SparseMatrix
    transposed: SparseMatrix


class RowLayout:
    """The distributed product with a row-partitioned matrix, one rank's share.

    Sums are made in the order of the peers, not of arrival, so that the same inputs on the same
    number of ranks give the same bits.

    Parameters
    ----------
    block : Block
    halo : HaloExchange
        The exchange of a block with the same messages.
    """

    def __init__(self, block: Block, halo: HaloExchange[Any]) -> None:
        self.halo = halo
        self._clock, self._overlap = halo.resources.clock, halo.resources.overlap
        matrix = matrix_of(block)
        own = matrix[:, : block.num_inputs] if block.num_halo else matrix
        self._own, self._own_transposed = both_ways(own, halo.resources)
        self._halo_blocks = halo_blocks(
            halo_part(block), block.expand.receive.row_ptr, halo.resources
        )

    def with_halo(
        self, part: csr_matrix, recv_ptr: Int64Array, halo: HaloExchange[Any]
    ) -> RowLayout:
        """The same own nonzeros, which are not laid out again, with other halo rows.

        Parameters
        ----------
        part : csr_matrix[halo rows, local rows]
            As `halo_part` returns it.
        recv_ptr : int64[r + 1]
            Which of the halo rows every message has.
        halo : HaloExchange
            The exchange of these messages.
        """
        layout = copy(self)
        layout.halo = halo
        layout._halo_blocks = halo_blocks(part, recv_ptr, halo.resources)
        return layout

    def forward(self, h: Tensor, out: Tensor, buffers: Buffers) -> None:
        """out = A h (Algorithm 1, lines 3-9, and Equation 7 without W). Collective.

        Parameters
        ----------
        h : Tensor[num_inputs, width]
        out : Tensor[num_outputs, width]
            Own rows, contiguous.
        buffers : Buffers
            Buffers of the same width; overwritten.
        """
        clock = self._clock
        if self.halo.idle:
            with clock("spmm"):
                self._own.multiply(h, out)
            return
        self.halo.send_rows(h, buffers)
        arrived = complete(self.halo.arrivals(buffers), self._halo_blocks)
        if not self._overlap:
            with clock("wait"):
                arrived = iter(list(arrived))
        with clock("spmm"):
            self._own.multiply(h, out)
        while True:
            with clock("wait"):
                block = next(arrived, None)
            if block is None:
                break
            halo = self.halo.received(block.at, buffers)
            with clock("spmm"):
                block.matrix.multiply(halo, out, add=True, rows=block.rows)
        self.halo.finish(buffers)

    def forward_columns(self, h: Tensor, out: Tensor) -> None:
        """out = A h of own and halo rows that are at hand; nothing travels.

        h : Tensor[num_columns, width], out : Tensor[num_outputs, width], own rows.
        """
        own = self.halo.num_inputs
        with self._clock("spmm"):
            self._own.multiply(h[:own], out)
            for block in self._halo_blocks:
                block.matrix.multiply(h[own:][block.at], out, add=True, rows=block.rows)

    def adjoint_columns(self, g: Tensor, out: Tensor) -> None:
        """out = A^T g for all columns; nothing travels. Shapes as those of `forward_columns`."""
        own = self.halo.num_inputs
        with self._clock("spmm"):
            self._own_transposed.multiply(g, out[:own])
            for block in self._halo_blocks:
                block.transposed.multiply(g, out[own:][block.at])

    def adjoint(self, g: Tensor, out: Tensor, buffers: Buffers) -> None:
        """out = A^T g (Algorithm 2, lines 4-10, with A^T for directed matrices). Collective.

        g : Tensor[num_outputs, width], out : Tensor[num_inputs, width]; otherwise as `forward`.
        """
        clock = self._clock
        if self.halo.idle:
            with clock("spmm"):
                self._own_transposed.multiply(g, out)
            return
        if not self._overlap:
            with clock("spmm"):
                self._own_transposed.multiply(g, out)
        self.halo.start_back(buffers)
        for block in self._halo_blocks:
            with clock("spmm"):
                block.transposed.multiply(g, buffers.halo[block.at])
            self.halo.send_back(block.messages, block.at, buffers)
        self.halo.sent_back(buffers)
        if self._overlap:
            with clock("spmm"):
                self._own_transposed.multiply(g, out)
        self.halo.add_arrived(out, buffers)


def both_ways(matrix: csr_matrix, resources: Resources) -> tuple[SparseMatrix, SparseMatrix]:
    """The matrix and its transpose, laid out: the same where it is symmetric."""
    forward = resources.lay_out(matrix)
    return forward, forward if is_symmetric(matrix) else resources.lay_out(matrix.T.tocsr())


def is_symmetric(matrix: csr_matrix) -> bool:
    """Whether a matrix equals its transpose, values included.

    With sorted columns, reading the rows one after the other meets the nonzeros (i, j) of column j
    for ascending i: each time, (j, i) is the next nonzero of row j.
    """
    num_rows, num_columns = matrix.shape
    if num_rows != num_columns or not np.array_equal(
        np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=num_columns)
    ):
        return False
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return bool(_is_symmetric(matrix.indptr, matrix.indices, matrix.data))


@njit(cache=True, nogil=True)
def _is_symmetric(row_ptr: Any, column: Any, value: Any) -> bool:
    following = row_ptr[:-1].copy()
    for i in range(len(following)):
        for k in range(row_ptr[i], row_ptr[i + 1]):
            mirror = following[column[k]]
            if mirror == row_ptr[column[k] + 1] or column[mirror] != i or value[mirror] != value[k]:
                return False
            following[column[k]] = mirror + 1
    return True


def halo_part(block: Block) -> csr_matrix:
    """The nonzeros in halo columns, transposed: csr_matrix[halo rows, local rows]."""
    return matrix_of(block)[:, block.num_inputs :].T.tocsr()


def matrix_of(block: Block) -> csr_matrix:
    """All its nonzeros: csr_matrix[num_local_rows, num_columns]; shares the arrays of the block."""
    return csr_matrix(
        (block.value, block.column, block.row_ptr), (block.num_local_rows, block.num_columns)
    )


def halo_blocks(part: csr_matrix, recv_ptr: Int64Array, resources: Resources) -> list[HaloBlock]:
    """The nonzeros in halo columns, as `halo_part` has them, by groups of messages."""
    nonzeros = np.diff(part.indptr[recv_ptr])
    return [
        halo_block(group, at, part[at], resources)
        for group, at in groups(recv_ptr, nonzeros, GROUP_NONZEROS)
    ]


def halo_block(
    messages: range, at: slice, transposed: csr_matrix, resources: Resources
) -> HaloBlock:
    """From CSR[halo rows, local rows]: the block itself keeps only the rows that have nonzeros."""
    num_halo, num_rows = transposed.shape
    rows = np.sort(transposed.indices)  # np.unique would hash: many times slower
    rows = rows[np.diff(rows, prepend=-1) > 0]
    row_ptr, column, value = _used_rows(
        transposed.indptr, transposed.indices, transposed.data, rows, num_rows
    )
    matrix = csr_matrix((value, column, row_ptr), (len(rows), num_halo))
    return HaloBlock(
        messages=messages,
        at=at,
        rows=torch.from_numpy(rows.astype(np.int64)).to(resources.device),
        matrix=resources.lay_out(matrix),
        transposed=resources.lay_out(transposed),
    )


@njit(cache=True, nogil=True)
def _used_rows(row_ptr: Any, column: Any, value: Any, used: Any, num_columns: int) -> Any:
    """The transposed of a CSR matrix, of its rows only the `used`, which are all that have any."""
    place = np.empty(num_columns, dtype=np.int32)
    for k in range(len(used)):
        place[used[k]] = k
    new_ptr = np.zeros(len(used) + 2, dtype=row_ptr.dtype)
    for j in column:
        new_ptr[place[j] + 2] += 1
    for k in range(2, len(new_ptr)):
        new_ptr[k] += new_ptr[k - 1]
    new_column = np.empty(len(column), dtype=column.dtype)
    new_value = np.empty(len(value), dtype=value.dtype)
    for i in range(len(row_ptr) - 1):
        for a in range(row_ptr[i], row_ptr[i + 1]):
            k = place[column[a]] + 1
            new_column[new_ptr[k]] = i
            new_value[new_ptr[k]] = value[a]
            new_ptr[k] += 1
    return new_ptr[:-1], new_column, new_value
