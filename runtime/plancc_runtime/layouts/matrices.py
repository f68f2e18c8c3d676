"""Local matrices, laid out for products: whole, or by groups of messages.

A call of torch costs some 10 to 50 microseconds whatever it does, so that the columns of small
messages are multiplied together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.kernel import njit
from plancc.plan.exchange import Int64Array
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import ALL, groups
from plancc_runtime.layouts.resources import Resources

GROUP_NONZEROS = 16384  # to multiply: as much work as one call of torch costs


class BlockPiece(NamedTuple):
    """A piece of a block, laid out for a product in one direction.

    Attributes:
        messages: Messages that bring its source or, transposed, take its target; empty: none do.
        source, target: Their rows in the spaces.
        rows (Tensor int64[m] or None): Where its rows belong in the target, if it has only those
            with nonzeros.
    """

    matrix: SparseMatrix
    messages: range = range(0)
    source: slice = ALL
    target: slice = ALL
    rows: Tensor | None = None

    def start(self) -> Callable[[], BlockPiece]:
        """Begin to bring the matrix here, if it is elsewhere; what ends it."""
        return lambda: self

    def multiply(self, x: Tensor, out: Tensor, add: bool) -> None:
        """out = A x, or out += A x."""
        if not add and self.rows is not None:
            out.zero_()
            add = True
        self.matrix.multiply(x, out, add=add, rows=self.rows)


class TransposedPiece:
    """The transpose of a whole block, laid out when it is first multiplied by.

    A product with fixed features never is. Parameters are those of `transposed`.
    """

    messages, source, target = range(0), ALL, ALL

    def __init__(self, *laid_out: Any) -> None:
        self._matrices = laid_out

    def multiply(self, x: Tensor, out: Tensor, add: bool) -> None:
        """out = A^T x, or out += A^T x."""
        self.lay_out().multiply(x, out, add=add)

    def lay_out(self) -> SparseMatrix:
        """The transpose, made once."""
        if len(self._matrices) > 1:
            self._matrices = (transposed(*self._matrices),)  # the others are not kept
        found: SparseMatrix = self._matrices[0]
        return found


Blocks = dict[tuple[str, bool], list[Any]]
"""The pieces of every block, by its name, and (True) of its transpose: of `BlockPiece`, or of what
brings one by a `start` of its own."""


def both_ways(matrix: csr_matrix, resources: Resources) -> tuple[SparseMatrix, SparseMatrix]:
    """The matrix and its transpose, laid out."""
    forward = resources.lay_out(matrix)
    return forward, transposed(matrix, forward, resources)


def transposed(matrix: csr_matrix, forward: SparseMatrix, resources: Resources) -> SparseMatrix:
    """The transpose, laid out; `forward`, which the matrix is, where it is symmetric."""
    return forward if is_symmetric(matrix) else resources.lay_out(matrix.T.tocsr())


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


def blocks_of(block: Block, resources: Resources) -> Blocks:
    """The blocks of a row plan or, if the block has a fold, of an edge plan."""
    matrix, n, own = matrix_of(block), block.num_inputs, block.num_outputs
    row_ptr = block.expand.receive.row_ptr
    if block.fold is None:
        found = _own_block(matrix[:, :n] if block.num_halo else matrix, resources)
        if not block.num_halo:
            return found | {("halo", False): [], ("halo", True): []}
        return found | halo_blocks("halo", halo_part(block), row_ptr, resources)
    found = _own_block(matrix[:own, :n], resources)
    messages = range(block.expand.receive.num_messages)
    there, back = halo_pieces(messages, ALL, matrix[:own, n:].T.tocsr(), resources)
    found |= {("halo", False): [there], ("halo", True): [back]}
    found |= halo_blocks("folded_halo", matrix[own:, n:].T.tocsr(), row_ptr, resources)
    # of A^T, in which folded rows are the halo rows
    there, back = halo_pieces(range(0), ALL, matrix[own:, :n], resources)
    return found | {("folded", False): [back], ("folded", True): [there]}


def _own_block(matrix: csr_matrix, resources: Resources) -> Blocks:
    there = resources.lay_out(matrix)
    back = TransposedPiece(matrix, there, resources)
    return {("own", False): [BlockPiece(there)], ("own", True): [back]}


def halo_blocks(name: str, part: csr_matrix, recv_ptr: Int64Array, resources: Resources) -> Blocks:
    """The nonzeros in halo columns, as `halo_part` has them, by groups of messages.

    `recv_ptr`: int64[messages + 1], halo rows of every message.
    """
    nonzeros = np.diff(part.indptr[recv_ptr])
    pieces = [
        halo_pieces(group, at, part[at], resources)
        for group, at in groups(recv_ptr, nonzeros, GROUP_NONZEROS)
    ]
    return {
        (name, False): [there for there, _ in pieces],
        (name, True): [back for _, back in pieces],
    }


def halo_pieces(
    messages: range, at: slice, transposed: csr_matrix, resources: Resources
) -> tuple[BlockPiece, BlockPiece]:
    """From CSR[halo rows, local rows]: the piece, of rows with nonzeros only; its transpose."""
    num_halo, num_rows = transposed.shape
    rows = np.sort(transposed.indices)  # np.unique would hash: many times slower
    rows = rows[np.diff(rows, prepend=-1) > 0]
    row_ptr, column, value = _used_rows(
        transposed.indptr, transposed.indices, transposed.data, rows, num_rows
    )
    matrix = csr_matrix((value, column, row_ptr), (len(rows), num_halo))
    there = torch.from_numpy(rows.astype(np.int64)).to(resources.device)
    return (
        BlockPiece(resources.lay_out(matrix), messages, source=at, rows=there),
        BlockPiece(resources.lay_out(transposed), messages, target=at),
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
