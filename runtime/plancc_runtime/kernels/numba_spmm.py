"""The product of a sparse matrix and a dense matrix x, compiled for this CPU.

Tiles of a row's columns are summed in registers (Md et al. 2021, Algorithm 3), with prefetch of
rows of x; if x does not fit in a cache, the matrix is split into column blocks (Algorithm 2). One
thread sums a row, in order, so the bits do not depend on the number of threads.

Measured and rejected: the loop over tiles as the outer loop takes 1.5 to 1.7 times as long, a
product without prefetch 1.5 to 1.9 times; stores that bypass the cache slow the next reader.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.errors import InputError
from plancc.jit import cfunc
from plancc.kernel import njit
from plancc_runtime.kernels import openmp
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.kernels.claims import claim, equal_blocks, pointer
from plancc_runtime.kernels.column_blocks import best_count, split
from plancc_runtime.kernels.vectors import prefetch, spread, tiles

PREFETCH = 32  # distance of the prefetch in nonzeros; 16 to 48 differ by less than 10%
NEAR_PREFETCH = 8  # distance within a column block, whose rows of x are in a cache
THREAD_WORK = 1 << 17  # multiplications at which one more thread pays: about 40 microseconds

# Fields of a call of the compiled code: addresses, sizes and flags.
NEXT, BLOCKS, NUM_BLOCKS, ROW_PTR, COLUMNS, VALUES, NUM_ROWS, NNZ = range(8)
X, WIDTH, OUT, OUT_ROWS, ROWS, ADD, TILES, NUM_TILES, DISTANCE, OUTSIDE = range(8, 18)
CALL_SIZE = 18

_I64 = ir.IntType(64)
_BYTE = ir.IntType(8).as_pointer()


class NumbaMatrix(SparseMatrix):
    """A matrix for the compiled product, on CPUs.

    The arguments `add` and `rows` of `multiply` take no extra time.
    """

    name = "numba"

    def __init__(self, matrix: csr_matrix, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(matrix, dtype, device)
        if device.type != "cpu":
            raise InputError(f"`kernel` 'numba' runs on `device` 'cpu' only, not on '{device}'")
        if matrix.shape[1] > 2**31:
            raise InputError(f"`kernel` 'numba' takes at most 2^31 columns, not {matrix.shape[1]}")
        value = np.float32 if dtype == torch.float32 else np.float64
        self._whole = _Csr(
            np.ascontiguousarray(matrix.indptr, np.int64),
            np.ascontiguousarray(matrix.indices, np.int32),
            np.ascontiguousarray(matrix.data, value),
        )
        columns = self._whole.columns
        if self.nnz and not 0 <= columns.min() <= columns.max() < matrix.shape[1]:
            raise InputError(f"a column of the matrix is not between 0 and {matrix.shape[1] - 1}")
        self._counts: dict[int, int] = {}  # number of column blocks, by width
        self._split: tuple[int, list[_Csr]] = (1, [self._whole])

    def num_column_blocks(self, width: int) -> int:
        """Return the number of column blocks of a product with x of `width` columns."""
        count = self._counts.get(width)
        if count is None:
            row_bytes = width * self._whole.values.itemsize
            count = best_count(self._whole.row_ptr, self._whole.columns, self.shape[1], row_bytes)
            if count > 1 and self._split[0] > 1:  # all widths that need a split share one
                count = self._split[0]
            self._counts[width] = count
        return count

    def _multiply(self, x: Tensor, out: Tensor, add: bool, rows: Tensor | None) -> None:
        rows = None if rows is None else rows.contiguous()
        for number, part in enumerate(self._parts(self.num_column_blocks(x.shape[1]))):
            self._pass(part, x, out, add or number > 0, rows)

    def _parts(self, count: int) -> list[_Csr]:
        """Return the matrix, split into `count` column blocks; they are kept."""
        if count == 1:
            return [self._whole]
        kept, parts = self._split  # one read: several threads may multiply at once
        if kept != count:
            whole = self._whole
            arrays = split(whole.row_ptr, whole.columns, whole.values, self.shape[1], count)
            parts = [_Csr(*part, distance=NEAR_PREFETCH) for part in arrays]
            self._split = count, parts
        return parts

    def _pass(self, part: _Csr, x: Tensor, out: Tensor, add: bool, rows: Tensor | None) -> None:
        """Multiply one column block by x; write the product to `out`, or add it.

        For `add` and `rows`, see `multiply`.
        """
        width, num_rows = x.shape[1], len(part.row_ptr) - 1
        columns = tiles(width, x.element_size())
        call = np.zeros(CALL_SIZE, np.int64)  # one per call: several threads may multiply at once
        call[BLOCKS:OUTSIDE] = [
            part.blocks.ctypes.data,
            len(part.blocks) - 1,
            part.row_ptr.ctypes.data,
            part.columns.ctypes.data,
            part.values.ctypes.data,
            num_rows,
            len(part.columns),
            x.data_ptr(),
            width,
            out.data_ptr(),
            len(out),
            0 if rows is None else rows.data_ptr(),
            add,
            columns.ctypes.data,
            len(columns),
            part.distance,
        ]
        work = (len(part.columns) + num_rows) * width
        threads = min(openmp.num_threads(), 1 + work // THREAD_WORK)
        openmp.run(_compiled(self.dtype), call.ctypes.data, threads)
        if call[OUTSIDE]:
            raise InputError(f"`rows` has a number outside of the {len(out)} rows of out")


class _Csr:
    """CSR arrays of a column block, and the blocks of rows that threads claim.

    Attributes:
        distance: How many nonzeros ahead rows of x are prefetched.
    """

    def __init__(
        self, row_ptr: np.ndarray, columns: np.ndarray, values: np.ndarray, distance: int = PREFETCH
    ) -> None:
        self.row_ptr, self.columns, self.values = row_ptr, columns, values
        self.blocks = equal_blocks(row_ptr)
        self.distance = distance


@cache
def _compiled(dtype: torch.dtype) -> Any:
    """Return the C function of the product, called with the address of a `kernels.claims` call."""
    return cfunc("void(CPointer(int64))")(_product32 if dtype == torch.float32 else _product64)


def _product32(call: Any) -> None:
    _product(carray(call, CALL_SIZE), np.float32)


def _product64(call: Any) -> None:
    _product(carray(call, CALL_SIZE), np.float64)


# The functions below have no annotations: numba infers the types.
@intrinsic(prefer_literal=True)
def _tile(typing_context, num_bytes, csr, dense, row, add):  # type: ignore[no-untyped-def]
    """Compute out[to : to + w] = sum over begin <= k < end of values[k] * x[columns[k], first :].

    Also compute this sum with to + shift and first + shift.

    Parameters:
        num_bytes (literal int): Bytes of w columns.
        csr (tuple): columns, values, prefetch distance.
        dense (tuple): x and out, flat arrays; the width of x.
        row (tuple): begin, end, first (column), to (index into out), shift.
        add (int): 1 to add the sums to the old values of out.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        _, csr_type, dense_type, _, _ = signature.args
        columns, values, distance = _arrays(context, builder, csr_type, arguments[1])
        x, out, width = _arrays(context, builder, dense_type, arguments[2])
        begin, end, first, to, shift = cgutils.unpack_tuple(builder, arguments[3])

        item = csr_type[1].dtype.bitwidth // 8
        lanes = max(1, num_bytes.literal_value // item)
        vector = ir.VectorType(context.get_data_type(csr_type[1].dtype), lanes)
        zero = ir.Constant(vector, [0.0] * lanes)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
        for total in totals:
            builder.store(zero, total)

        def vectors(data, k):  # type: ignore[no-untyped-def]
            for place in (k, builder.add(k, shift)):
                yield builder.bitcast(builder.gep(data, [place]), vector.as_pointer())

        def load(data, k):  # type: ignore[no-untyped-def]
            for pointer in vectors(data, k):
                loaded = builder.load(pointer)
                loaded.align = item
                yield loaded

        def increase(operands):  # type: ignore[no-untyped-def]
            for total, operand in zip(totals, operands, strict=True):
                found = builder.fadd(builder.load(total), operand, flags=("contract",))
                builder.store(found, total)

        def place(k):  # type: ignore[no-untyped-def]
            column = builder.sext(builder.load(builder.gep(columns.data, [k])), _I64)
            return builder.add(builder.mul(column, width), first)

        last = builder.sub(builder.extract_value(columns.shape, 0), ir.Constant(_I64, 1))
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(_I64, 1), _I64) as (k, _):
            ahead = builder.add(k, distance)
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            for half in vectors(x.data, place(ahead)):
                line = builder.bitcast(half, _BYTE)
                for offset in range(0, num_bytes.literal_value, 64):
                    pointer = builder.gep(line, [ir.Constant(_I64, offset)])
                    prefetch(builder, pointer)
                if num_bytes.literal_value < 64:
                    break  # both halves are in one cache line, or in two neighbouring lines
            value = spread(builder, builder.load(builder.gep(values.data, [k])), lanes)
            products = [
                builder.fmul(part, value, flags=("contract",)) for part in load(x.data, place(k))
            ]
            increase(products)

        with builder.if_then(builder.trunc(arguments[4], ir.IntType(1))):
            increase(load(out.data, to))
        for total, target in zip(totals, vectors(out.data, to), strict=True):
            builder.store(builder.load(total), target).align = item
        return context.get_dummy_value()

    if not isinstance(num_bytes, types.IntegerLiteral):
        return None
    return types.void(num_bytes, csr, dense, row, types.int64), generate


def _arrays(context, builder, kinds, values):  # type: ignore[no-untyped-def]
    """Return the members of a tuple. Arrays are returned as structures with `data` and `shape`."""
    members = zip(kinds, cgutils.unpack_tuple(builder, values), strict=True)
    return [
        context.make_array(kind)(context, builder, member)
        if isinstance(kind, types.Array)
        else member
        for kind, member in members
    ]


@njit(nogil=True)
def _product(call, dtype):  # type: ignore[no-untyped-def]
    """Claim blocks of rows and compute them, until no block is left. Every thread runs this."""
    width, num_rows, scattered = call[WIDTH], call[NUM_ROWS], call[ROWS] != 0
    blocks = carray(pointer(call[BLOCKS]), call[NUM_BLOCKS] + 1, np.int64)
    row_ptr = carray(pointer(call[ROW_PTR]), num_rows + 1, np.int64)
    rows = carray(pointer(call[ROWS]), num_rows, np.int64)
    tiles = carray(pointer(call[TILES]), (call[NUM_TILES], 3), np.int64)
    csr = (
        carray(pointer(call[COLUMNS]), call[NNZ], np.int32),
        carray(pointer(call[VALUES]), call[NNZ], dtype),
        call[DISTANCE],
    )
    dense = (carray(pointer(call[X]), 1, dtype), carray(pointer(call[OUT]), 1, dtype), width)
    add, num_blocks, out_rows = call[ADD], call[NUM_BLOCKS], call[OUT_ROWS]
    while True:
        block = claim(call)
        if block >= num_blocks:
            return
        for k in range(blocks[block], blocks[block + 1]):
            i = rows[k] if scattered else k
            if i < 0 or i >= out_rows:
                call[OUTSIDE] = 1
                continue
            if row_ptr[k] == row_ptr[k + 1] and add:
                continue  # the row is empty: nothing to add
            for t in range(len(tiles)):
                size, first = tiles[t, 0], tiles[t, 1]
                row = (row_ptr[k], row_ptr[k + 1], first, i * width + first, tiles[t, 2])
                if size == 128:
                    _tile(128, csr, dense, row, add)
                elif size == 64:
                    _tile(64, csr, dense, row, add)
                elif size == 32:
                    _tile(32, csr, dense, row, add)
                elif size == 16:
                    _tile(16, csr, dense, row, add)
                elif size == 8:
                    _tile(8, csr, dense, row, add)
                else:
                    _tile(4, csr, dense, row, add)
