"""Products of many rows with a small matrix, compiled for this CPU.

Tiles of the result are summed in registers (Goto and van de Geijn: Anatomy of High-Performance
Matrix Multiplication, ACM TOMS 34, 2008), without packing, since the small matrix fits in a cache.
The bits do not depend on the number of threads.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, product
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from plancc.jit import cfunc
from plancc.kernel import njit
from plancc_runtime.kernels import openmp
from plancc_runtime.kernels.claims import claim, pointer
from plancc_runtime.kernels.vectors import prefetch, spread, tiles
from plancc_runtime.workspace import empty

THREAD_WORK = 1 << 20  # multiplications at which one more thread pays
AT_ONCE = 8  # rows of a tile; two vectors for each row fill half the registers of AVX-512
FEW = 2  # rows that are summed at once if the CPU has fewer registers
WIDEST = 128  # bytes of a tile's columns
AHEAD = 16  # float32 terms in a cache line, and distance of the prefetch in terms
BLOCK = 128  # rows of a block, which stays in a cache from one product to the next
SHARE = 1024  # least number of rows in a partial sum of the weight's gradient
SHARES = 32  # largest number of partial sums of the weight's gradient

# Fields of a call: sizes, and addresses of contiguous arrays (0: none).
NEXT, NUM_ROWS, SHARE_ROWS, D_IN, D_OUT, NUM_IN, NUM_OUT, TILES_IN, TILES_OUT = range(9)
X, WEIGHT, OUT, BIAS, FLAGS, G, MASKED, MASKED_STEP, OF_X, OF_WEIGHT, OF_BIAS, ONE = range(9, 21)
CALL_SIZE = 21
ADD, RELU = 1, 2  # flags

_ONE = np.ones(1, np.float32)  # a sum of rows is a product with 1
_I64, _FLOAT = ir.IntType(64), ir.FloatType()


def forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, add: bool, rectified: bool
) -> None:
    """Compute out = x @ weight + bias, or out += x @ weight + bias if `add`; float32, on the CPU.

    Then, if `rectified`, compute out = max(out, 0). `out` is contiguous.
    """
    bias = None if bias is None else bias.contiguous()
    flags = ADD * add | RELU * rectified
    _run("forward", x.contiguous(), weight.contiguous(), BLOCK, _at(out), _at(bias), flags)


def backward(
    x: Tensor,
    weight: Tensor,
    g: Tensor,
    out: Tensor | None,
    of_x: Tensor | None,
    masked: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `weight` and `bias`, given the gradient `g` of the layer's result.

    The result is ``x @ weight + bias``, rectified if `out` is given.

    Parameters:
        out (Tensor[m, d_out], optional): The result, if it is rectified; None if the result is
            ``x @ weight + bias``.
        of_x (Tensor[m, d_in], optional): Memory for the gradient of x.
        masked (Tensor[m, d_out], optional): Memory for g with 0 wherever `out` is not positive.
    """
    x, g = x.contiguous(), g.contiguous()
    turned = weight if of_x is None else weight.T.contiguous()  # only the gradient of x reads it
    share = max(SHARE, -(-len(x) // (SHARES * BLOCK)) * BLOCK)
    shares = -(-len(x) // share)
    of_weight = empty(shares * weight.shape[0], weight.shape[1], x).view(shares, *weight.shape)
    of_bias = x.new_empty(shares, weight.shape[1])
    room, step = masked, share
    if out is not None and masked is None:
        room, step = empty(shares * BLOCK, weight.shape[1], x), BLOCK
    sums = _at(of_x), _at(of_weight), _at(of_bias), _ONE.ctypes.data
    _run("backward", x, turned, share, _at(out), 0, 0, _at(g), _at(room), step, *sums)
    return of_weight.sum(0), of_bias.sum(0)


def _at(array: Tensor | None) -> int:
    return 0 if array is None else array.data_ptr()


def _run(name: str, x: Tensor, right: Tensor, share: int, *others: int) -> None:
    """Run the compiled function "forward" or "backward" on several threads.

    Parameters:
        right: The weight or, in the backward pass, its transpose.
        share: Number of rows in one partial sum of the backward pass.
        others: Further arguments of the function: the entries of array `call` from index `OUT` on.
    """
    d_in, d_out = sizes = x.shape[1], right.numel() // x.shape[1]
    of_in, of_out = (tiles(width, x.element_size(), WIDEST) for width in sizes)
    call = np.zeros(CALL_SIZE, np.int64)
    call[NUM_ROWS : OUT + len(others)] = [
        *(x.shape[0], share, d_in, d_out, len(of_in), len(of_out)),
        *(of_in.ctypes.data, of_out.ctypes.data, x.data_ptr(), right.data_ptr(), *others),
    ]
    threads = min(openmp.num_threads(), 1 + x.numel() * d_out // THREAD_WORK)
    openmp.run(_compiled(name), call.ctypes.data, threads)


@cache
def _compiled(name: str) -> Any:
    """Return the compiled C function of `_forward` or `_backward`."""
    return cfunc("void(CPointer(int64))")({"forward": _forward, "backward": _backward}[name])


def _forward(address: Any) -> None:
    call = carray(address, CALL_SIZE)
    d_in, d_out = call[D_IN], call[D_OUT]
    tiles = carray(pointer(call[TILES_OUT]), (call[NUM_OUT], 3), np.int64)
    right = call[WEIGHT], 4 * d_out
    while True:
        first = claim(call) * BLOCK
        if first >= call[NUM_ROWS]:
            return
        rows = min(BLOCK, call[NUM_ROWS] - first)
        left = call[X] + 4 * d_in * first, 4 * d_in, 4, d_in
        out = call[OUT] + 4 * d_out * first, 4 * d_out
        _product(rows, left, right, out, call[BIAS], call[FLAGS], tiles)


def _backward(address: Any) -> None:
    call = carray(address, CALL_SIZE)
    d_in, d_out, share = call[D_IN], call[D_OUT], call[SHARE_ROWS]
    tiles_in = carray(pointer(call[TILES_IN]), (call[NUM_IN], 3), np.int64)
    tiles_out = carray(pointer(call[TILES_OUT]), (call[NUM_OUT], 3), np.int64)
    while True:
        number = claim(call)
        if number * share >= call[NUM_ROWS]:
            return
        of_weight = call[OF_WEIGHT] + 4 * number * d_in * d_out
        of_bias = call[OF_BIAS] + 4 * number * d_out
        end = min(call[NUM_ROWS], (number + 1) * share)
        for first in range(number * share, end, BLOCK):
            rows, begun = min(BLOCK, end - first), first > number * share
            g = call[G] + 4 * d_out * first
            if call[OUT]:
                at = number * call[MASKED_STEP]
                if call[MASKED_STEP] > BLOCK:  # the caller wants all rows of it
                    at = first
                given, g = g, call[MASKED] + 4 * d_out * at
                out = call[OUT] + 4 * d_out * first
                size = rows * d_out
                _mask(_floats(given, size), _floats(out, size), _floats(g, size))
            x, right = call[X] + 4 * d_in * first, (g, 4 * d_out)
            left, out = (x, 4, 4 * d_in, rows), (of_weight, 4 * d_out)
            _product(d_in, left, right, out, 0, ADD * begun, tiles_out)
            left, out = (call[ONE], 0, 0, rows), (of_bias, 0)
            _product(1, left, right, out, 0, ADD * begun, tiles_out)
            if call[OF_X]:
                left = g, 4 * d_out, 4, d_out
                out = call[OF_X] + 4 * d_in * first, 4 * d_in
                _product(rows, left, (call[WEIGHT], 4 * d_in), out, 0, 0, tiles_in)


@njit(nogil=True)
def _floats(address, size):  # type: ignore[no-untyped-def]
    return carray(pointer(address), size, np.float32)


@njit(nogil=True)
def _mask(g, out, into):  # type: ignore[no-untyped-def]
    """Write g to `into` where `out` is positive, else 0."""
    for k in range(len(g)):
        into[k] = np.float32(0) if out[k] <= 0 else g[k]


@njit(nogil=True)
def _product(rows, left, right, out, bias, flags, tiles):  # type: ignore[no-untyped-def]
    """Call `_tile` for all rows of a result, and for all tiles of its columns (`vectors.tiles`)."""
    a, a_step, term_step, terms = left
    (b, b_step), (c, c_step) = right, out
    r = 0
    while r < rows:
        some = AT_ONCE if rows - r >= AT_ONCE else 1
        left = a + r * a_step, a_step, term_step, terms
        for t in range(len(tiles)):
            size, first, shift = tiles[t, 0], 4 * tiles[t, 1], 4 * tiles[t, 2]
            right = b + first, b_step
            out = c + r * c_step + first, c_step, shift
            added = bias + first if bias else 0
            _tile(some, size, left, right, out, added, flags)
        r += some


@intrinsic
def _tile(typing_context, rows, size, left, right, out, bias, flags):  # type: ignore[no-untyped-def]
    """Compute a tile: out[r, :] = epilogue(sum over k < terms of left[r, k] right[k, :]).

    In each row, a tile has the numbers of two vectors, which may overlap. The epilogue adds old
    values of out (flag `ADD`) and the bias, and applies the activation (flag `RELU`).

    Parameters:
        rows (int): Number of rows: `AT_ONCE` or 1.
        size (int): Bytes of a vector: a power of two from 4 to half of `WIDEST`.
        left (tuple): Address; bytes between two rows; bytes between two terms; number of terms.
        right (tuple): Address; bytes between two terms.
        out (tuple): Address; bytes between two rows; bytes from a row's first vector to its second
            (in `right` and in `bias` too).
        bias (int): Address, or 0.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        rows, size, *parts, bias, flags = arguments
        operands = *(cgutils.unpack_tuple(builder, each) for each in parts), bias, flags
        wide = "+avx512f" in context.codegen().magic_tuple()[2]
        for count, lanes in product((AT_ONCE, 1), (16, 8, 4, 2, 1)):
            wanted = builder.and_(_equal(builder, rows, count), _equal(builder, size, 4 * lanes))
            step = count if wide else FEW
            with builder.if_then(wanted):
                for first in range(0, count, step):
                    of_step = range(first, min(first + step, count))
                    _write_tile(builder, of_step, lanes, *operands)
        return context.get_dummy_value()

    return types.void(rows, size, left, right, out, bias, flags), generate


def _equal(builder, value, number):  # type: ignore[no-untyped-def]
    return builder.icmp_signed("==", value, ir.Constant(value.type, number))


def _write_tile(builder, rows, lanes, left, right, out, bias, flags):  # type: ignore[no-untyped-def]
    """Generate the instructions of `_tile`; a tile has two vectors of `lanes` numbers per row."""
    (a, a_step, term_step, terms), (b, b_step), (c, c_step, shift) = left, right, out
    vector = ir.VectorType(_FLOAT, lanes)
    zero = ir.Constant(vector, [0.0] * lanes)
    totals = [[cgutils.alloca_once(builder, vector) for _ in range(2)] for _ in rows]
    for total in chain(*totals):
        builder.store(zero, total)

    def after(base, step, number):  # type: ignore[no-untyped-def]
        number = _I64(number) if isinstance(number, int) else number
        return builder.add(base, builder.mul(step, number))

    def vectors(base):  # type: ignore[no-untyped-def]
        places = base, builder.add(base, shift)
        return [builder.inttoptr(place, vector.as_pointer()) for place in places]

    def load(base):  # type: ignore[no-untyped-def]
        return [builder.load(each, align=4) for each in vectors(base)]

    def add(pair, operands):  # type: ignore[no-untyped-def]
        for total, operand in zip(pair, operands, strict=True):
            builder.store(builder.fadd(builder.load(total), operand, flags=("contract",)), total)

    def if_any(bits):  # type: ignore[no-untyped-def]
        return builder.if_then(cgutils.is_not_null(builder, bits))

    along = _equal(builder, term_step, 4)
    with cgutils.for_range_slice(builder, _I64(0), terms, _I64(1), _I64) as (k, _):
        term = after(a, term_step, k)
        with builder.if_else(along) as (rows_follow, terms_follow):
            with rows_follow, builder.if_then(_equal(builder, builder.and_(k, _I64(AHEAD - 1)), 0)):
                for r in rows:
                    prefetch(builder, after(term, a_step, AT_ONCE + r))
            with terms_follow:
                prefetch(builder, after(term, term_step, AHEAD))
        columns = load(after(b, b_step, k))
        for r, pair in zip(rows, totals, strict=True):
            place = builder.inttoptr(after(term, a_step, r), _FLOAT.as_pointer())
            value = spread(builder, builder.load(place), lanes)
            add(pair, [builder.fmul(value, each, flags=("contract",)) for each in columns])

    with if_any(builder.and_(flags, _I64(ADD))):
        for r, pair in zip(rows, totals, strict=True):
            add(pair, load(after(c, c_step, r)))
    with if_any(bias):
        for pair in totals:
            add(pair, load(bias))
    with if_any(builder.and_(flags, _I64(RELU))):
        for total in chain(*totals):
            value = builder.load(total)
            positive = builder.select(builder.fcmp_ordered("<", value, zero), zero, value)
            builder.store(positive, total)
    for r, pair in zip(rows, totals, strict=True):
        for total, target in zip(pair, vectors(after(c, c_step, r)), strict=True):
            builder.store(builder.load(total), target, align=4)
