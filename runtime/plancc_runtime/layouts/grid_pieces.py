"""Pieces of A and of H in a process grid: own pieces, and pieces that are broadcast.

A piece of A travels as CSR arrays, one word per entry; receivers transpose the piece if needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.plan.exchange import Int64Array
from plancc.plan.grid import Piece
from plancc.plan.words import BroadcastWords
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.kernels.torch_spmm import TorchMatrix
from plancc_runtime.layouts.halo import RowMover
from plancc_runtime.layouts.matrices import BlockPiece, Blocks, both_ways, halo_pieces
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Group, Pending
from plancc_runtime.workspace import empty

T = TypeVar("T")


def buffered(count: int, start: Callable[[int], Callable[[], T]], overlap: bool) -> Iterator[T]:
    """Yield ``start(k)()`` for every k from 0 to `count` - 1.

    ``start(k)`` returns a function that waits for result k. ``start(k + 1)`` is called before
    (`overlap`) or after result k is used, so two buffers suffice.
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


@dataclass(frozen=True, eq=False)
class Csr:
    """A broadcast piece of A in CSR: Tensor[nonzeros], int32[nonzeros] and int32[rows + 1]."""

    value: Tensor
    column: Tensor
    row_ptr: Tensor

    def arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.value, self.column, self.row_ptr

    def of(self, nonzeros: int) -> Csr:
        """Return views of the arrays' first entries, for a piece with `nonzeros` nonzeros."""
        return Csr(self.value[:nonzeros], self.column[:nonzeros], self.row_ptr)

    def laid_out(self, width: int, resources: Resources, transposed: bool) -> SparseMatrix:
        """Return the piece, which has `width` columns, or its transpose, laid out for products."""
        shape = len(self.row_ptr) - 1, width
        if self.value.device.type != "cpu":
            return TorchMatrix.of_tensors(self.row_ptr, self.column, self.value, shape, transposed)
        value, column, row_ptr = (array.numpy() for array in self.arrays())
        matrix = csr_matrix((value, column, row_ptr), shape, copy=False)
        return resources.lay_out(matrix.T.tocsr() if transposed else matrix)


class OwnPieces:
    """This rank's pieces of A: ranges of columns of the rank's block, in its process row.

    Parameters:
        transposed (csr_matrix[columns, rows]): The rank's block, from `layouts.matrices.halo_part`.
        ptr (int64[pieces + 1]): Piece k has the columns ``ptr[k]:ptr[k + 1]``.
        travel: Whether the pieces are broadcast to other ranks.

    Attributes:
        both (tuple of two lists of BlockPiece): The pieces, and the transposes of the pieces.
        csr (list of Csr): The pieces' arrays; empty if `travel` is False.
        nonzeros (int64[pieces]): Number of nonzeros of every piece.
    """

    def __init__(
        self, transposed: csr_matrix, ptr: Int64Array, resources: Resources, travel: bool
    ) -> None:
        self.nonzeros = np.diff(transposed.indptr[ptr]).astype(np.int64)
        self.both: tuple[list[BlockPiece], list[BlockPiece]] = [], []
        self.csr: list[Csr] = []
        for k in range(len(ptr) - 1):
            at = slice(int(ptr[k]), int(ptr[k + 1]))
            part = transposed[at]
            if not travel and _has_empty_rows(part):
                pair = halo_pieces(range(k, k + 1), at, part, resources)
            else:
                matrix = part.T.tocsr()
                forward, back = both_ways(matrix, resources)
                pair = BlockPiece(forward), BlockPiece(back)
            for pieces, piece in zip(self.both, pair, strict=True):
                pieces.append(piece)
            if travel:
                device = resources.device
                self.csr.append(
                    Csr(
                        torch.from_numpy(matrix.data).to(device, forward.dtype),
                        torch.from_numpy(matrix.indices.astype(np.int32, copy=False)).to(device),
                        torch.from_numpy(matrix.indptr.astype(np.int32)).to(device),
                    )
                )


def _has_empty_rows(transposed: csr_matrix) -> bool:
    """Return whether most rows of a piece are empty, so that only the other rows are stored."""
    used = np.count_nonzero(np.bincount(transposed.indices, minlength=transposed.shape[1]))
    return bool(2 * used < transposed.shape[1])


class RowPieces:
    """The pieces of A in a process row; each piece is on the rank that has the piece's columns.

    The constructor is collective. `num_rows` counts the rows of A in the process row.
    """

    def __init__(
        self, own: OwnPieces, pieces: list[Piece], num_rows: int, row: Group, resources: Resources
    ) -> None:
        self._own, self._pieces, self._row = own, pieces, row
        self._num_rows, self._resources = num_rows, resources
        self._first = next(k for k, piece in enumerate(pieces) if piece.column == row.rank)
        counts = np.zeros(len(pieces), np.int64)
        counts[self._first : self._first + len(own.nonzeros)] = own.nonzeros
        row.allreduce_sum(counts)
        self._nonzeros = counts.tolist()
        self._buffers: list[Csr] = []

    def blocks(self) -> Blocks:
        """Return all pieces, and all transposed pieces, in the form that `Executor` takes."""
        count = range(len(self._pieces))
        return {
            ("matrix", back): [_Travelling(self, k, back) for k in count] for back in (False, True)
        }

    def start(self, k: int, transposed: bool) -> Callable[[], BlockPiece]:
        """Start the broadcast of piece k; return a function that waits for the piece.

        Collective in the process row.
        """
        piece, row = self._pieces[k], self._row
        mine = piece.column == row.rank
        csr = self._own.csr[k - self._first] if mine else self._buffer(k)
        under_way = [row.start_broadcast(array, piece.column) for array in csr.arrays()]

        def finish() -> BlockPiece:
            for pending in under_way:
                pending.wait()
            if mine:
                return self._own.both[transposed][k - self._first]
            return BlockPiece(csr.laid_out(piece.size, self._resources, transposed))

        return finish

    def moved(self) -> BroadcastWords:
        """Return the words that are sent if every piece is broadcast once."""
        nonzeros = np.array(self._nonzeros)[:, None]
        root = np.array([[piece.column] for piece in self._pieces])
        words, buffers = 2 * nonzeros + self._num_rows + 1, 1 + 2 * (nonzeros > 0)
        return BroadcastWords(np.array([self._row.ranks]), words, root, buffers)

    def release(self) -> None:
        """Free the buffers of pieces from other ranks."""
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


@dataclass(frozen=True)
class _Travelling:
    """A piece of A that is broadcast before the product with the piece or its transpose."""

    of: RowPieces
    number: int
    transposed: bool

    def start(self) -> Callable[[], BlockPiece]:
        return self.of.start(self.number, self.transposed)


@dataclass
class RoundBuffers:
    """Buffers of one product for the pieces of H that are sent.

    Attributes:
        ring: Two buffers for other ranks' pieces: one for even indices of pieces, one for odd.
        rows (Tensor[rows of the part, width] or None): Own rows in a forward product, else None.
    """

    ring: tuple[Tensor, Tensor]
    rows: Tensor | None = None


class Rounds(RowMover[RoundBuffers]):
    """Moves pieces of H in a process column, one after another.

    In a forward round, the owner of a piece broadcasts it; in a backward round, partial sums of a
    piece are added at its owner. `first_row` is the place of this rank's first row in plan order.
    """

    idle = False

    def __init__(
        self, pieces: list[Piece], first_row: int, column: Group, resources: Resources
    ) -> None:
        self._pieces, self._first_row, self._column = pieces, first_row, column
        self._clock, self._overlap = resources.clock, resources.overlap
        self._like = torch.empty(0, dtype=resources.dtype, device=resources.device)
        others = [piece.size for piece in pieces if piece.row != column.rank]
        self._largest = max(others, default=0)

    def buffers_for(self, width: int) -> RoundBuffers:
        ring = (empty(self._largest, width, self._like) for _ in range(2))
        return RoundBuffers((next(ring), next(ring)))

    def moved(self, columns: int) -> BroadcastWords:
        """Return the words that the broadcasts of a product with `columns` columns of H send."""
        words = np.array([piece.size * columns for piece in self._pieces], np.int64)
        root = np.array([piece.row for piece in self._pieces], np.int64)
        return BroadcastWords(np.array([self._column.ranks]), words[:, None], root[:, None])

    def send_rows(self, h: Tensor, buffers: RoundBuffers) -> None:
        buffers.rows = h

    def arriving(
        self, pieces: Sequence[Any], buffers: RoundBuffers
    ) -> Iterator[tuple[BlockPiece, Tensor]]:
        def start(k: int) -> Callable[[], tuple[BlockPiece, Tensor]]:
            assert buffers.rows is not None
            rows = self._room(k, buffers.rows, buffers)
            with self._clock("wait"):
                block = pieces[k].start()
                pending = self._column.start_broadcast(rows, self._pieces[k].row)

            def finish() -> tuple[BlockPiece, Tensor]:
                with self._clock("wait"):
                    found = block()
                    pending.wait()
                return found, rows

            return finish

        return buffered(len(pieces), start, self._overlap)

    def leaving(
        self, pieces: Sequence[Any], out: Tensor, buffers: RoundBuffers
    ) -> Iterator[tuple[BlockPiece, Tensor]]:
        under_way: deque[Pending] = deque()

        def wait(at_most: int) -> None:
            with self._clock("wait"):
                while len(under_way) > at_most:
                    under_way.popleft().wait()

        def start(k: int) -> Callable[[], BlockPiece]:
            with self._clock("wait"):
                block = pieces[k].start()

            def finish() -> BlockPiece:
                with self._clock("wait"):
                    return block()

            return finish

        for k, piece in enumerate(buffered(len(pieces), start, self._overlap)):
            wait(1)
            rows = self._room(k, out, buffers)
            yield piece, rows
            with self._clock("wait"):
                under_way.append(self._column.start_reduce_sum(rows, self._pieces[k].row))
            if not self._overlap:
                wait(0)
        wait(0)

    def add_arrived(self, out: Tensor, buffers: RoundBuffers) -> None:
        """Do nothing: `leaving` has already written the sums to `out`."""

    def _room(self, k: int, rows: Tensor, buffers: RoundBuffers) -> Tensor:
        """Return memory for piece k: in `rows` if this rank owns the piece, else in a buffer."""
        piece = self._pieces[k]
        if piece.row != self._column.rank:
            return buffers.ring[k % 2][: piece.size]
        first = piece.first - self._first_row
        return rows[first : first + piece.size]
