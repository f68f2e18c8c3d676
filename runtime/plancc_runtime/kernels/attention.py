"""Fused graph attention compiled for this CPU.

Velickovic et al., *Graph Attention Networks*, ICLR 2018, Equations 3 to 6, for all heads at once:

    a[e] = exp(LeakyReLU(source[j] + target[i]) - c[i]),   out[i] = sum of a[e] scale[e] x[j] / Z[i]

Here source[j] and target[i] are the scores of column j and row i, c[i] prevents overflow, scale[e]
is the dropout factor of nonzero e = (i, j), and Z[i] is the sum of a[e] over row i. In each branch
of the LeakyReLU, a[e] is a factor of the column times a factor of the row. So exponentials are
computed once per vertex, not once per nonzero. The factors are scaled by the largest source;
`factors` returns None if they would still underflow.

Let P be the sum of a[e] in the positive branch, divided by Z, and `positive` what this branch adds
to out. If g is the gradient of out, the gradient of target[i] needs no loop over nonzeros:

    (1 - slope) (<g[i], positive[i]> - <g[i], out[i]> P[i])

One thread sums a row, or a column, in order, so the bits do not depend on the number of threads.
Names of sizes: m rows, n columns, nnz nonzeros, h heads, d features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic
from torch import Tensor

from plancc.jit import cfunc
from plancc.kernel import njit
from plancc_runtime.kernels import openmp
from plancc_runtime.kernels.claims import claim, equal_blocks, pointer
from plancc_runtime.kernels.edges import Pattern, PatternSide
from plancc_runtime.workspace import empty

LARGEST_SPREAD = {torch.float32: 60.0, torch.float64: 500.0}
"""Largest difference between two sources of a head at which no factor underflows."""
THREAD_WORK = 1 << 15  # multiplications for which one more thread pays
PREFETCH = 12  # distance of the prefetch in nonzeros
LINE = 16  # numbers of float32 in a cache line

# Fields of a call of the compiled code: addresses, sizes and flags.
NEXT, STAGE, BLOCKS, NUM_BLOCKS, GROUPS, OTHERS, NNZ, HEADS, D, MEAN, SLOPE = range(11)
PTR, INDEX, EDGE, SCALE, COLUMN, ROW, X, PARTS, TOTALS, OUT, BIAS = range(11, 22)
G, BACK, SCORES, VECTORS = range(22, 26)
CALL_SIZE = 26
FORWARD, INNER, ADJOINT = range(3)  # values of STAGE

_I32 = ir.IntType(32)
_BYTE = ir.IntType(8).as_pointer()


@dataclass(frozen=True)
class Attended:
    """Operands and results of `attention` that `attention_adjoint` reads; see the module's symbols.

    Attributes:
        column (Tensor[n, 3, h]): Every column's source score, and its factors in the two branches.
        row (Tensor[m, 4, h]): Every row's target score, its factors in the two branches (which
            `attention` divides by Z), and room for <g, out>, which the adjoint writes.
        x (Tensor[n, h d]): For every column, the row that is summed.
        parts (Tensor[m, 2 h d]): `positive`, and the result before the bias is added.
        totals (Tensor[m, 2, h]): P (the positive branch's sum of a[e], divided by Z), and Z.
        slope: Slope of the LeakyReLU below 0, in [0, 1].
        scale (Tensor[nnz, h] or None): Dropout factors of the attention, in CSR order.
        mean: Whether heads are averaged instead of concatenated.
    """

    column: Tensor
    row: Tensor
    x: Tensor
    parts: Tensor
    totals: Tensor
    slope: float
    scale: Tensor | None
    mean: bool

    @property
    def heads(self) -> int:
        return self.column.shape[2]

    @property
    def out_width(self) -> int:
        return self.x.shape[1] // self.heads if self.mean else self.x.shape[1]


def factors(
    pattern: Pattern, source: Tensor, target: Tensor, slope: float
) -> tuple[Tensor, Tensor] | None:
    """Return scores of columns and rows, with exponentials: `Attended.column`, `Attended.row`.

    Return None if the kernel cannot be used. The kernel needs a CPU pattern with nonzeros and
    32-bit indices, slope at most 1, and finite scores. Within a head, two source scores must
    differ by at most `LARGEST_SPREAD`.

    Parameters:
        source (Tensor[n, h]): Score of every column.
        target (Tensor[m, h]): Score of every row.
    """
    rows = pattern.rows
    if not rows.native or rows.index.dtype != torch.int32 or not len(rows.index) or slope > 1:
        return None
    lowest, largest = source.aminmax(dim=0)
    if not bool((largest - lowest <= LARGEST_SPREAD[source.dtype]).all()):
        return None
    if not bool(target.isfinite().all()):
        return None
    column = source.new_empty(len(source), 3, source.shape[1])
    row = target.new_empty(len(target), 4, target.shape[1])
    column[:, 0], row[:, 0] = source, target
    below = source - largest  # is at most 0
    column[:, 1] = below.exp()
    column[:, 2] = below.mul_(slope).exp_()
    top = target + largest
    shift = torch.maximum(top, slope * top)
    row[:, 1] = (top - shift).exp_()
    # The factor of the negative branch is read only if top is at most the spread.
    row[:, 2] = torch.sub(top.clamp_(max=LARGEST_SPREAD[source.dtype]).mul_(slope), shift).exp_()
    return column, row


def attention(
    pattern: Pattern,
    prepared: tuple[Tensor, Tensor],
    x: Tensor,
    slope: float,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    mean: bool = False,
) -> tuple[Tensor, Attended]:
    """Compute LeakyReLU, softmax, weighted sum, bias and mean of heads in one loop over the rows.

    The matrix is m x n; there are h heads of d columns.

    Parameters:
        prepared: Scores of columns and of rows, with exponentials: the result of `factors`.
        x (Tensor[n, h d]): For every column, the row that is summed; contiguous.
        bias (Tensor[h d], or Tensor[d] if `mean`; optional): Bias of the result.

    Returns:
        out (Tensor[m, h d], or Tensor[m, d] if `mean`): The result. Empty rows have the bias or 0.
        kept (Attended): Argument of `attention_adjoint`.
    """
    column, row = prepared
    rows, heads = pattern.num_rows, column.shape[2]
    parts, totals = empty(rows, 2 * x.shape[1], x), x.new_empty(rows, 2, heads)
    kept = Attended(column, row, x, parts, totals, slope, scale, mean)
    return _attention(pattern.rows, kept, bias), kept


def _attention(side: PatternSide, kept: Attended, bias: Tensor | None) -> Tensor:
    out = empty(len(side), kept.out_width, kept.x)
    _run(FORWARD, side, kept, {OUT: out, BIAS: bias})
    return out


def attention_adjoint(
    pattern: Pattern, kept: Attended, g: Tensor, vectors: Tensor, places: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the operands of `attention`; see the module's symbols.

    The source scores, and perhaps the target scores, must be products of rows of x with `vectors`.

    Parameters:
        g (Tensor[m, h d], or Tensor[m, d] if `kept.mean`): Gradient of the result; contiguous.
        vectors (Tensor[2, h d] or Tensor[1, h d]): Source score of column j: <x[j], vectors[0]>
            in every head; target score of row i: <x[places[i]], vectors[1]>, if it exists.
        places (int64[m], optional): Column of every row's own vertex; by default i for row i.

    Returns:
        back (Tensor[n, h d]): Gradient of x, including the gradient through both kinds of scores.
        scores (Tensor[n, 2, h]): For every column, the gradients of its source score, and of the
            target score that is computed from its row of x (0 if there is none).
        target (Tensor[m, h]): Gradient of every row's target score.
    """
    by_row = _inner(pattern.rows, kept, g)
    scores = kept.x.new_zeros(pattern.num_columns, 2, kept.heads)
    if len(vectors) == 1:
        vectors = torch.cat([vectors, torch.zeros_like(vectors)])
    elif places is None:
        scores[: len(by_row), 1] = by_row
    else:
        scores[:, 1].index_copy_(0, places, by_row)
    back = _attention_adjoint(pattern.columns, kept, g, scores, vectors)
    return back, scores, by_row


def _inner(side: PatternSide, kept: Attended, g: Tensor) -> Tensor:
    """Return the gradients of all rows' target scores, Tensor[m, h].

    Write the inner products of the rows of g with the rows of the result to ``kept.row[:, 3]``.
    """
    scores = g.new_empty(len(side), kept.heads)
    _run(INNER, side, kept, {G: g, SCORES: scores})
    return scores


def _attention_adjoint(
    side: PatternSide, kept: Attended, g: Tensor, scores: Tensor, vectors: Tensor
) -> Tensor:
    back = empty(len(side), kept.x.shape[1], kept.x)
    _run(ADJOINT, side, kept, {G: g, BACK: back, SCORES: scores, VECTORS: vectors})
    return back


def _run(stage: int, side: PatternSide, kept: Attended, arrays: dict[int, Tensor | None]) -> None:
    blocks = equal_blocks(side.ptr.numpy())
    slope = np.array([kept.slope])
    call = np.zeros(CALL_SIZE, np.int64)
    call[STAGE], call[BLOCKS], call[NUM_BLOCKS] = stage, blocks.ctypes.data, len(blocks) - 1
    call[GROUPS], call[OTHERS] = len(side), len(kept.row if stage == ADJOINT else kept.column)
    call[NNZ], call[HEADS], call[D] = len(side.index), kept.heads, kept.x.shape[1] // kept.heads
    call[MEAN], call[SLOPE] = kept.mean, slope.ctypes.data
    arrays |= {PTR: side.ptr, INDEX: side.index, EDGE: side.edge, SCALE: kept.scale}
    arrays |= {COLUMN: kept.column, ROW: kept.row, X: kept.x}
    arrays |= {PARTS: kept.parts, TOTALS: kept.totals}
    for place, array in arrays.items():
        assert array is None or array.is_contiguous()
        call[place] = 0 if array is None else array.data_ptr()
    work = (len(side.index) + len(side)) * kept.x.shape[1]
    threads = min(openmp.num_threads(), 1 + work // THREAD_WORK)
    openmp.run(_compiled(kept.x.dtype), call.ctypes.data, threads)


@cache
def _compiled(dtype: torch.dtype) -> Any:
    """Return `_stages` as a C function, whose code numba caches.

    Its argument is the address of a *call*: int64 addresses and sizes (`kernels.claims`).
    """
    return cfunc("void(CPointer(int64))")(_call32 if dtype == torch.float32 else _call64)


def _call32(call: Any) -> None:
    _stages(carray(call, CALL_SIZE), np.float32)


def _call64(call: Any) -> None:
    _stages(carray(call, CALL_SIZE), np.float64)


def _vectors(context, builder, lanes, array_type):  # type: ignore[no-untyped-def]
    """Return the type of a vector of `lanes` numbers, and two functions of an array and a place.

    The first returns a pointer to the vector that begins at array[place]; the second returns the
    vector itself.
    """
    vector = ir.VectorType(context.get_data_type(array_type.dtype), lanes)

    def at(array, place):  # type: ignore[no-untyped-def]
        data = context.make_array(array_type)(context, builder, array).data
        return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())

    def load(array, place):  # type: ignore[no-untyped-def]
        loaded = builder.load(at(array, place))
        loaded.align = array_type.dtype.bitwidth // 8
        return loaded

    return vector, at, load


@intrinsic(prefer_literal=True)
def _add_tile(typing_context, lanes, y, to, x, first, a):  # type: ignore[no-untyped-def]
    """Compute y[to : to + lanes] += a x[first : first + lanes]."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        count, kind = lanes.literal_value, signature.args[1]
        vector, at, load = _vectors(context, builder, count, kind)
        _, y_array, to_place, x_array, from_place, factor = arguments
        one = builder.insert_element(
            ir.Constant(vector, ir.Undefined), factor, ir.Constant(_I32, 0)
        )
        everywhere = ir.Constant(ir.VectorType(_I32, count), [0] * count)
        spread = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), everywhere)
        product = builder.fmul(load(x_array, from_place), spread, flags=("contract",))
        total = builder.fadd(load(y_array, to_place), product, flags=("contract",))
        builder.store(total, at(y_array, to_place)).align = kind.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(lanes, y, types.int64, x, types.int64, y.dtype), generate


@intrinsic
def _at(typing_context, x, place):  # type: ignore[no-untyped-def]
    """Return x[place]; the place must not be negative."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return x.dtype(x, types.int64), generate


@intrinsic
def _put(typing_context, x, place, value):  # type: ignore[no-untyped-def]
    """Set x[place] = value; the place must not be negative."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.store(arguments[2], builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(x, types.int64, x.dtype), generate


@intrinsic(prefer_literal=True)
def _dot_tile(typing_context, lanes, y, to, x, first):  # type: ignore[no-untyped-def]
    """Return the dot product of y[to : to + lanes] and x[first : first + lanes].

    The terms are added in pairs, then the sums of the pairs, and so on.
    """
    if not isinstance(lanes, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        count, kind = lanes.literal_value, signature.args[1]
        _, _, load = _vectors(context, builder, count, kind)
        _, y_array, to_place, x_array, from_place = arguments
        sums = builder.fmul(load(y_array, to_place), load(x_array, from_place))
        while count > 1:
            count //= 2
            low, high = (
                builder.shuffle_vector(
                    sums,
                    sums,
                    ir.Constant(ir.VectorType(_I32, count), list(range(start, start + count))),
                )
                for start in (0, count)
            )
            sums = builder.fadd(low, high)
        return builder.extract_element(sums, ir.Constant(_I32, 0))

    return y.dtype(lanes, y, types.int64, x, types.int64), generate


@intrinsic
def _prefetch(typing_context, x, place):  # type: ignore[no-untyped-def]
    """Prefetch the cache line of x[place]."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        line = builder.bitcast(builder.gep(data, [arguments[1]]), _BYTE)
        kind = ir.FunctionType(ir.VoidType(), [_BYTE, _I32, _I32, _I32])
        function = builder.module.declare_intrinsic("llvm.prefetch", (_BYTE,), fnty=kind)
        read, keep, data_cache = (ir.Constant(_I32, flag) for flag in (0, 3, 1))
        builder.call(function, [line, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(x, types.int64), generate


@njit(nogil=True)
def _add(y, to, x, first, a, d):  # type: ignore[no-untyped-def]
    """Compute y[to : to + d] += a x[first : first + d]."""
    k = 0
    while k + 8 <= d:
        _add_tile(8, y, to + k, x, first + k, a)
        k += 8
    if k + 4 <= d:
        _add_tile(4, y, to + k, x, first + k, a)
        k += 4
    while k < d:
        _put(y, to + k, _at(y, to + k) + a * _at(x, first + k))
        k += 1


@njit(nogil=True)
def _dot(y, to, x, first, d):  # type: ignore[no-untyped-def]
    """Return the dot product of y[to : to + d] and x[first : first + d]."""
    k, total = 0, y.dtype.type(0)
    while k + 8 <= d:
        total += _dot_tile(8, y, to + k, x, first + k)
        k += 8
    if k + 4 <= d:
        total += _dot_tile(4, y, to + k, x, first + k)
        k += 4
    while k < d:
        total += _at(y, to + k) * _at(x, first + k)
        k += 1
    return total


@njit(nogil=True)
def _stages(call, dtype):  # type: ignore[no-untyped-def]
    """Claim blocks of rows or columns, and compute `call`'s stage for them, until none is left."""
    stage, num_blocks = call[STAGE], call[NUM_BLOCKS]
    blocks = carray(pointer(call[BLOCKS]), num_blocks + 1, np.int64)
    while True:
        block = claim(call)
        if block >= num_blocks:
            return
        begin, end = blocks[block], blocks[block + 1]
        if stage == FORWARD:
            _forward(call, begin, end, dtype)
        elif stage == INNER:
            _rows_back(call, begin, end, dtype)
        else:
            _columns_back(call, begin, end, dtype)


@njit(nogil=True, error_model="numpy")
def _forward(call, begin, end, dtype):  # type: ignore[no-untyped-def]
    heads, d, mean = call[HEADS], call[D], call[MEAN] != 0
    width, nnz = heads * d, call[NNZ]
    ptr = carray(pointer(call[PTR]), call[GROUPS] + 1, np.int64)
    index = carray(pointer(call[INDEX]), nnz, np.int32)
    column = carray(pointer(call[COLUMN]), 1, dtype)
    row = carray(pointer(call[ROW]), 1, dtype)
    x = carray(pointer(call[X]), 1, dtype)
    parts = carray(pointer(call[PARTS]), 1, dtype)
    totals = carray(pointer(call[TOTALS]), 1, dtype)
    scale = carray(pointer(call[SCALE]), 1, dtype)
    bias = carray(pointer(call[BIAS]), 1, dtype)
    out = carray(pointer(call[OUT]), 1, dtype)
    scaled, biased = call[SCALE] != 0, call[BIAS] != 0
    for i in range(begin, end):
        r, both, sums = 4 * heads * i, 2 * width * i, 2 * heads * i
        for k in range(2 * width):
            _put(parts, both + k, dtype(0))
        for h in range(2 * heads):
            _put(totals, sums + h, dtype(0))
        for p in range(_at(ptr, i), _at(ptr, i + 1)):
            ahead = np.int64(_at(index, min(p + PREFETCH, nnz - 1)))
            _prefetch(column, 3 * heads * ahead)
            for k in range(0, width, LINE):
                _prefetch(x, width * ahead + k)
            j = np.int64(_at(index, p))
            for h in range(heads):
                c = 3 * heads * j + h
                branch = 0 if _at(column, c) + _at(row, r + h) > 0 else 1
                at = (1 + branch) * heads
                a = _at(column, c + at) * _at(row, r + h + at)
                _put(totals, sums + branch * heads + h, _at(totals, sums + branch * heads + h) + a)
                if scaled:
                    a *= _at(scale, p * heads + h)
                _add(parts, both + branch * width + h * d, x, width * j + h * d, a, d)
        for h in range(heads):
            z = _at(totals, sums + h) + _at(totals, sums + heads + h)
            inverse = 1 / z if z != 0 else dtype(0)
            _put(totals, sums + h, _at(totals, sums + h) * inverse)
            _put(totals, sums + heads + h, z)
            _put(row, r + heads + h, _at(row, r + heads + h) * inverse)
            _put(row, r + 2 * heads + h, _at(row, r + 2 * heads + h) * inverse)
            for k in range(both + h * d, both + (h + 1) * d):
                _put(parts, k, _at(parts, k) * inverse)
                _put(parts, k + width, _at(parts, k) + _at(parts, k + width) * inverse)
        whole = both + width
        if mean:
            part = dtype(1 / heads)
            for k in range(d):
                total = _at(parts, whole + k)
                for h in range(1, heads):
                    total += _at(parts, whole + h * d + k)
                _put(out, i * d + k, total * part + (_at(bias, k) if biased else dtype(0)))
        else:
            for k in range(width):
                _put(
                    out,
                    i * width + k,
                    _at(parts, whole + k) + (_at(bias, k) if biased else dtype(0)),
                )


@njit(nogil=True)
def _rows_back(call, begin, end, dtype):  # type: ignore[no-untyped-def]
    heads, d, mean = call[HEADS], call[D], call[MEAN] != 0
    width = heads * d
    row = carray(pointer(call[ROW]), 1, dtype)
    g = carray(pointer(call[G]), 1, dtype)
    parts = carray(pointer(call[PARTS]), 1, dtype)
    totals = carray(pointer(call[TOTALS]), 1, dtype)
    scores = carray(pointer(call[SCORES]), 1, dtype)
    steep = dtype(1 - carray(pointer(call[SLOPE]), 1, np.float64)[0])
    part = dtype(1 / heads) if mean else dtype(1)
    for i in range(begin, end):
        for h in range(heads):
            at = i * d if mean else i * width + h * d
            place = 2 * width * i + h * d
            positive = part * _dot(g, at, parts, place, d)
            inner = part * _dot(g, at, parts, place + width, d)
            _put(row, (4 * i + 3) * heads + h, inner)
            _put(scores, i * heads + h, steep * (positive - inner * _at(totals, 2 * heads * i + h)))


@njit(nogil=True)
def _columns_back(call, begin, end, dtype):  # type: ignore[no-untyped-def]
    heads, d, mean = call[HEADS], call[D], call[MEAN] != 0
    width, nnz = heads * d, call[NNZ]
    ptr = carray(pointer(call[PTR]), call[GROUPS] + 1, np.int64)
    index = carray(pointer(call[INDEX]), nnz, np.int32)
    edge = carray(pointer(call[EDGE]), nnz, np.int32)
    column = carray(pointer(call[COLUMN]), 1, dtype)
    row = carray(pointer(call[ROW]), 1, dtype)
    x = carray(pointer(call[X]), 1, dtype)
    g = carray(pointer(call[G]), 1, dtype)
    scale = carray(pointer(call[SCALE]), 1, dtype)
    back = carray(pointer(call[BACK]), 1, dtype)
    scores = carray(pointer(call[SCORES]), 1, dtype)
    vectors = carray(pointer(call[VECTORS]), 1, dtype)
    slope = dtype(carray(pointer(call[SLOPE]), 1, np.float64)[0])
    scaled = call[SCALE] != 0
    part = dtype(1 / heads) if mean else dtype(1)
    out_width, step = (d, 0) if mean else (width, d)
    for j in range(begin, end):
        for k in range(width):
            _put(back, width * j + k, dtype(0))
        for h in range(heads):
            _put(scores, 2 * heads * j + h, dtype(0))
        for p in range(_at(ptr, j), _at(ptr, j + 1)):
            ahead = np.int64(_at(index, min(p + PREFETCH, nnz - 1)))
            _prefetch(row, 4 * heads * ahead)
            for k in range(0, out_width, LINE):
                _prefetch(g, out_width * ahead + k)
            if scaled:
                _prefetch(scale, heads * np.int64(_at(edge, min(p + PREFETCH, nnz - 1))))
            i = np.int64(_at(index, p))
            for h in range(heads):
                c, r = 3 * heads * j + h, 4 * heads * i + h
                positive = _at(column, c) + _at(row, r) > 0
                at = heads if positive else 2 * heads
                a = _at(column, c + at) * _at(row, r + at)
                b = a * part
                if scaled:
                    b *= _at(scale, np.int64(_at(edge, p)) * heads + h)
                first, to = out_width * i + step * h, width * j + d * h
                dot = _dot(g, first, x, to, d)
                _add(back, to, g, first, b, d)
                b = b * dot - a * _at(row, r + 3 * heads)
                b = b if positive else slope * b
                place = 2 * heads * j + h
                _put(scores, place, _at(scores, place) + b)
        for h in range(heads):
            to, place = width * j + d * h, 2 * heads * j + h
            _add(back, to, vectors, d * h, _at(scores, place), d)
            _add(back, to, vectors, width + d * h, _at(scores, place + heads), d)
