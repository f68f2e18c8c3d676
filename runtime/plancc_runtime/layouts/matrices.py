"""Local matrices in the form in which kernels multiply by them ("laid out").

The halo columns of several messages form one piece, since each piece needs a call of torch, which
takes 10 to 50 microseconds.
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

GROUP_NONZEROS = 16384  # multiplying 16384 nonzeros takes about as long as one call of torch


class BlockPiece(NamedTuple):
    """A piece of a block: a matrix for products of the forward pass, or of the backward pass.

    Attributes:
        messages: Messages that bring `source` rows or, in the backward pass, send `target` rows.
        source: Range of the rows that the piece reads, in the product's input.
        target: Range of the rows that the piece computes, in the product's output.
        rows (Tensor int64[m] or None): Index in `target` of every stored row; None: all rows.
    """

    matrix: SparseMatrix
    messages: range = range(0)
    source: slice = ALL
    target: slice = ALL
    rows: Tensor | None = None

    def start(self) -> Callable[[], BlockPiece]:
        """Return a function that returns this piece without waiting: the piece is local."""
        return lambda: self

    def multiply(self, x: Tensor, out: Tensor, add: bool) -> None:
        """Compute out = A x or, if `add`, out += A x, where A is this piece."""
        if not add and self.rows is not None:
            out.zero_()
            add = True
        self.matrix.multiply(x, out, add=add, rows=self.rows)


class TransposedPiece:
    """The transpose of a whole block, which is built at the first product with it.

    It is never built if features need no gradient. The constructor has the arguments of
    `transposed`.
    """

    messages, source, target = range(0), ALL, ALL

    def __init__(self, *laid_out: Any) -> None:
        self._matrices = laid_out

    def multiply(self, x: Tensor, out: Tensor, add: bool) -> None:
        """Compute out = A^T x or, if `add`, out += A^T x, where A is the block."""
        self.lay_out().multiply(x, out, add=add)

    def lay_out(self) -> SparseMatrix:
        """Return the transpose. The first call lays it out."""
        if len(self._matrices) > 1:
            self._matrices = (transposed(*self._matrices),)  # frees the other matrices
        found: SparseMatrix = self._matrices[0]
        return found


Blocks = dict[tuple[str, bool], list[Any]]
"""Pieces of every block, by its name and direction (True for the transpose).

A piece is a `BlockPiece`, or an object whose `start` returns a function that returns one."""


def both_ways(matrix: csr_matrix, resources: Resources) -> tuple[SparseMatrix, SparseMatrix]:
    """Return the matrix and its transpose, both laid out for products."""
    forward = resources.lay_out(matrix)
    return forward, transposed(matrix, forward, resources)


def transposed(matrix: csr_matrix, forward: SparseMatrix, resources: Resources) -> SparseMatrix:
    """Return the transpose, laid out for products: `forward` itself if the matrix is symmetric."""
    return forward if is_symmetric(matrix) else resources.lay_out(matrix.T.tocsr())


def is_symmetric(matrix: csr_matrix) -> bool:
    """Return whether a matrix equals its transpose, including the values."""
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
            # The loop meets the nonzeros of column j by ascending i: the mirror image of each must
            # be the next nonzero of row j.
            mirror = following[column[k]]
            if mirror == row_ptr[column[k] + 1] or column[mirror] != i or value[mirror] != value[k]:
                return False
            following[column[k]] = mirror + 1
    return True


def halo_part(block: Block) -> csr_matrix:
    """Return the nonzeros in halo columns, transposed: csr_matrix[halo rows, local rows]."""
    return _split_columns(block, 0, block.num_local_rows)[1]


def matrix_of(block: Block) -> csr_matrix:
    """Return the matrix of a block: csr_matrix[num_local_rows, num_columns]. No array is copied."""
    return csr_matrix(
        (block.value, block.column, block.row_ptr), (block.num_local_rows, block.num_columns)
    )


def blocks_of(block: Block, resources: Resources) -> Blocks:
    """Return the pieces of the block of a row plan or an edge plan, laid out for local products."""
    alone = not block.num_halo and block.fold is None
    own, halo = (matrix_of(block), None) if alone else _split_columns(block, 0, block.num_outputs)
    matrix, row_ptr = resources.lay_out(own), block.expand.receive.row_ptr
    turned = TransposedPiece(own, matrix, resources)
    found: Blocks = {("own", False): [BlockPiece(matrix)], ("own", True): [turned]}
    if halo is None:
        return found | {("halo", False): [], ("halo", True): []}
    if block.fold is None:
        return found | halo_blocks("halo", halo, row_ptr, resources)
    there, back = halo_pieces(range(len(row_ptr) - 1), ALL, halo, resources)
    found |= {("halo", False): [there], ("halo", True): [back]}
    folded, both = _split_columns(block, block.num_outputs, block.num_local_rows)
    found |= halo_blocks("folded_halo", both, row_ptr, resources)
    # A^T reads folded rows in the same way as A reads halo rows.
    there, back = halo_pieces(range(0), ALL, folded, resources)
    return found | {("folded", False): [back], ("folded", True): [there]}


def _split_columns(block: Block, first: int, end: int) -> tuple[csr_matrix, csr_matrix]:
    """Return the nonzeros of the local rows ``first:end`` in own columns and in halo columns.

    The second matrix is transposed. Shapes: [rows, own columns] and [halo rows, rows].
    """
    row_ptr, (n, num_halo) = block.row_ptr[first : end + 1], (block.num_inputs, block.num_halo)
    place = np.arange(num_halo, dtype=np.int32)
    own, halo = _columns_apart(row_ptr, block.column, block.value, n, place, num_halo)
    return csr_matrix(own, (end - first, n)), csr_matrix(halo, (num_halo, end - first))


@njit(cache=True, nogil=True)
def _columns_apart(row_ptr: Any, column: Any, value: Any, first: int, place: Any, num: int) -> Any:
    """Split CSR arrays into the columns before `first`, and the transpose of the other columns.

    Each result is (values, columns, row pointers). `place` has, for every column from `first` on,
    its row in the transpose, which has `num` rows.
    """
    before = np.zeros(len(row_ptr), dtype=np.int64)
    ptr = np.zeros(num + 2, dtype=np.int64)
    for i in range(len(row_ptr) - 1):
        before[i + 1] = before[i]
        for a in range(row_ptr[i], row_ptr[i + 1]):
            if column[a] < first:
                before[i + 1] += 1
            else:
                ptr[place[column[a] - first] + 2] += 1
    for k in range(2, len(ptr)):
        ptr[k] += ptr[k - 1]
    columns, values = np.empty(before[-1], column.dtype), np.empty(before[-1], value.dtype)
    rows, halo_values = np.empty(ptr[-1], column.dtype), np.empty(ptr[-1], value.dtype)
    size = 0
    for i in range(len(row_ptr) - 1):
        for a in range(row_ptr[i], row_ptr[i + 1]):
            if column[a] < first:
                columns[size], values[size] = column[a], value[a]
                size += 1
            else:
                k = place[column[a] - first] + 1
                rows[ptr[k]], halo_values[ptr[k]] = i, value[a]
                ptr[k] += 1
    return (values, columns, before), (halo_values, rows, ptr[:-1])


def halo_blocks(name: str, part: csr_matrix, recv_ptr: Int64Array, resources: Resources) -> Blocks:
    """Return pieces of the halo columns, each for one or more messages, and their transposes.

    `part` is `halo_part` of the block. Message k has the halo rows ``recv_ptr[k]:recv_ptr[k + 1]``.
    """
    nonzeros, messages = np.diff(part.indptr[recv_ptr]), range(len(recv_ptr) - 1)
    pairs = [
        halo_pieces(group, at, part if group == messages else part[at], resources)
        for group, at in groups(recv_ptr, nonzeros, GROUP_NONZEROS)
    ]
    return {(name, back): [pair[back] for pair in pairs] for back in (False, True)}


def halo_pieces(
    messages: range, at: slice, transposed: csr_matrix, resources: Resources
) -> tuple[BlockPiece, BlockPiece]:
    """Return the piece of a block's matrix with the halo columns `at`, and the transposed piece.

    `messages` bring the halo rows of these columns. The first piece stores only the rows that have
    nonzeros. `transposed` is csr_matrix[halo rows of the piece, local rows].
    """
    num_halo, num_rows = transposed.shape
    rows = np.sort(transposed.indices)  # np.unique would hash, which is many times slower
    rows = rows[np.diff(rows, prepend=-1) > 0]
    place = np.empty(num_rows, np.int32)
    place[rows] = np.arange(len(rows))
    arrays = transposed.indptr, transposed.indices, transposed.data
    matrix = csr_matrix(_columns_apart(*arrays, 0, place, len(rows))[1], (len(rows), num_halo))
    there = torch.from_numpy(rows.astype(np.int64)).to(resources.device)
    return (
        BlockPiece(resources.lay_out(matrix), messages, source=at, rows=there),
        BlockPiece(resources.lay_out(transposed), messages, target=at),
    )
