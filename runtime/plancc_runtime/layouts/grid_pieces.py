"""Pieces of A, this rank's own and those of its process row. Knows blocks, kernels and groups; must
not know layers.

A piece travels as its CSR: values (a word per nonzero), columns (one more), and row pointers (one
per row of the process row, and one). So it does for the adjoint too, as A is stored once: whoever
receives it transposes it for the one product. A rank's own pieces are laid out both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.plan.exchange import Int64Array
from plancc.plan.grid import Piece
from plancc.plan.words import BroadcastWords, Counts, Transfer
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.kernels.torch_spmm import TorchMatrix
from plancc_runtime.layouts.matrices import halo_block, is_symmetric
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Group

T = TypeVar("T")


def in_turn(count: int, start: Callable[[int], Callable[[], T]], overlap: bool) -> Iterator[T]:
    """What ``start(k)()`` returns, for every k; with `overlap`, k + 1 is started before k is used.

    So two sets of buffers are enough, one for even numbers and one for odd ones.
    """
    arriving = start(0) if count else None
    for k in range(count):
        assert arriving is not None
        here, arriving = arriving, None
        if overlap and k + 1 < count:
            arriving = start(k + 1)
        yield here()
        if arriving is None and k + 1 < count:
            arriving = start(k + 1)


def members(group: Group) -> Int64Array:
    """A group alone, as transfers want it: int64[1, members]."""
    return np.arange(group.size)[None]


def counts_of(group: Group, transfer: Transfer) -> Counts:
    """What this rank hands to the network in a transfer of its `members`."""
    return transfer.counts(group.size).of_rank(group.rank)


@dataclass(frozen=True, eq=False)
class Multiplier:
    """A piece, laid out for one product.

    Attributes
    ----------
    matrix : SparseMatrix
        The piece, or its transpose.
    rows : int64[m] or None
        Where its rows belong, if it has only those with nonzeros.
    """

    matrix: SparseMatrix
    rows: Tensor | None = None

    def put_product(self, x: Tensor, out: Tensor) -> None:
        """out = A x."""
        if self.rows is None and self.matrix.nnz:
            self.matrix.multiply(x, out)
            return
        out.zero_()
        self.add_product(x, out)

    def add_product(self, x: Tensor, out: Tensor) -> None:
        """out += A x."""
        if self.matrix.nnz:
            self.matrix.multiply(x, out, add=True, rows=self.rows)


@dataclass(frozen=True, eq=False)
class Csr:
    """A piece as it travels: Tensor[nonzeros], int32[nonzeros], int32[rows + 1]."""

    value: Tensor
    column: Tensor
    row_ptr: Tensor

    def arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.value, self.column, self.row_ptr

    def of(self, nonzeros: int) -> Csr:
        """These buffers, cut for a piece with so many nonzeros."""
        return Csr(self.value[:nonzeros], self.column[:nonzeros], self.row_ptr)

    def laid_out(self, width: int, resources: Resources, transposed: bool) -> SparseMatrix:
        """For products; `width`: columns of the piece."""
        shape = len(self.row_ptr) - 1, width
        if self.value.device.type != "cpu":
            return TorchMatrix.of_tensors(self.row_ptr, self.column, self.value, shape, transposed)
        value, column, row_ptr = (array.numpy() for array in self.arrays())
        matrix = csr_matrix((value, column, row_ptr), shape, copy=False)
        return resources.lay_out(matrix.T.tocsr() if transposed else matrix)


class OwnPieces:
    """The pieces whose columns this rank has.

    Parameters
    ----------
    transposed : csr_matrix[columns, rows]
        The block (`layouts.matrices.halo_part`).
    ptr : int64[pieces + 1]
        Columns of every piece.
    resources : Resources
    travel : bool
        Whether they are broadcast.
    """

    def __init__(
        self,
        transposed: csr_matrix,
        ptr: Int64Array,
        resources: Resources,
        travel: bool,
    ) -> None:
        self.nonzeros = np.diff(transposed.indptr[ptr]).astype(np.int64)
        self._forward: list[Multiplier] = []
        self._adjoint: list[Multiplier] = []
        self._csr: list[Csr] = []
        for k in range(len(ptr) - 1):
            at = slice(int(ptr[k]), int(ptr[k + 1]))
            part = transposed[at]
            if not travel and _has_empty_rows(part):
                block = halo_block(range(k, k + 1), at, part, resources)
                self._forward.append(Multiplier(block.matrix, block.rows))
                self._adjoint.append(Multiplier(block.transposed))
                continue
            matrix = part.T.tocsr()
            forward = resources.lay_out(matrix)
            same = is_symmetric(matrix)
            self._forward.append(Multiplier(forward))
            self._adjoint.append(Multiplier(forward if same else resources.lay_out(part)))
            if not travel:
                continue
            dtype, device = forward.dtype, resources.device
            self._csr.append(
                Csr(
                    torch.from_numpy(matrix.data).to(device, dtype),
                    torch.from_numpy(matrix.indices.astype(np.int32, copy=False)).to(device),
                    torch.from_numpy(matrix.indptr.astype(np.int32)).to(device),
                )
            )

    def piece(self, k: int, transposed: bool) -> Multiplier:
        """Piece k, or its transpose, for a product."""
        return (self._adjoint if transposed else self._forward)[k]

    def csr(self, k: int) -> Csr:
        """Piece k as it travels."""
        return self._csr[k]


def _has_empty_rows(transposed: csr_matrix) -> bool:
    """Whether so many rows have no nonzero that it pays to keep the others alone."""
    used = np.count_nonzero(np.bincount(transposed.indices, minlength=transposed.shape[1]))
    return bool(2 * used < transposed.shape[1])


class RowPieces:
    """All pieces of a process row, each with the rank that has its column. Collective.

    Parameters
    ----------
    own : OwnPieces
    pieces : sequence of Piece
        Pieces of the layer.
    num_rows : int
        Rows of the process row.
    row : Group
        The process row.
    resources : Resources
    """

    def __init__(
        self,
        own: OwnPieces,
        pieces: list[Piece],
        num_rows: int,
        row: Group,
        resources: Resources,
    ) -> None:
        self._own, self._pieces, self._row = own, pieces, row
        self._num_rows, self._resources = num_rows, resources
        self._first = next(k for k, piece in enumerate(pieces) if piece.column == row.rank)
        counts = np.zeros(len(pieces), np.int64)
        counts[self._first : self._first + len(own.nonzeros)] = own.nonzeros
        row.allreduce_sum(counts)
        self._nonzeros = counts.tolist()
        self._buffers: list[Csr] = []

    def start(self, k: int, transposed: bool) -> Callable[[], Multiplier]:
        """Begin the broadcast of piece k; what ends it. Collective in the process row."""
        piece, row = self._pieces[k], self._row
        mine = piece.column == row.rank
        csr = self._own.csr(k - self._first) if mine else self._buffer(k)
        under_way = [row.start_broadcast(array, piece.column) for array in csr.arrays()]

        def finish() -> Multiplier:
            for pending in under_way:
                pending.wait()
            if mine:
                return self._own.piece(k - self._first, transposed)
            width = piece.last - piece.first
            return Multiplier(csr.laid_out(width, self._resources, transposed))

        return finish

    def counts(self) -> Counts:
        """What this rank hands to the network when every piece is broadcast once."""
        nonzeros = np.array(self._nonzeros)[:, None]
        root = np.array([[piece.column] for piece in self._pieces])
        words, buffers = 2 * nonzeros + self._num_rows + 1, 1 + 2 * (nonzeros > 0)
        return counts_of(self._row, BroadcastWords(members(self._row), words, root, buffers))

    def release(self) -> None:
        """Free the buffers of pieces that arrive."""
        self._buffers = []

    def _buffer(self, k: int) -> Csr:
        if not self._buffers:
            most, device = max(self._nonzeros), self._resources.device
            self._buffers = [
                Csr(
                    torch.empty(most, dtype=self._resources.dtype, device=device),
                    torch.empty(most, dtype=torch.int32, device=device),
                    torch.empty(self._num_rows + 1, dtype=torch.int32, device=device),
                )
                for _ in range(2)
            ]
        return self._buffers[k % 2].of(self._nonzeros[k])
