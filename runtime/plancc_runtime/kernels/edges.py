"""Sums over the nonzeros in each row or column of one rank, and functions of each nonzero.

The kernels compute aggregation (Md et al. 2021, Algorithm 1) and attention (Velickovic et al.,
*Graph Attention Networks*, ICLR 2018), forward and backward. CPUs run numba kernels on a thread
pool of this module, because ranks may be Python threads, which must not use numba's threads at the
same time. Other devices run torch operations.

Names of sizes: m rows, n columns, nnz nonzeros, h heads, d features.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from plancc.errors import InputError
from plancc.kernel import njit
from plancc_runtime.kernels.openmp import num_threads
from plancc_runtime.kernels.torch_spmm import multiply, sampled_product
from plancc_runtime.workspace import empty

# Sums may be reordered for SIMD and use FMA. Flags "nnan" and "ninf" are off: a NaN stays a NaN.
# The error model is numpy's: a division by 0 gives inf or NaN.
_compiled = njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")

SMALL = 1 << 15  # with fewer multiplications, starting threads takes longer than it saves
TEMPORARY = 1 << 29  # most numbers in a temporary tensor of torch; one row may need more
FEW = 16  # on a GPU, up to this number of columns is gathered one by one
CHUNKS_PER_THREAD = 8  # number of chunks of equal nonzeros; threads that are free take the next


@dataclass(frozen=True)
class PatternSide:
    """The nonzeros of a pattern grouped by rows, or grouped by columns.

    Attributes:
        ptr (int64[groups + 1]): Group i has the nonzeros at the positions ``ptr[i]:ptr[i + 1]``.
        index (int32|int64[nnz]): Every nonzero's column (grouped by rows) or row.
        edge (int32|int64[nnz] or None): For every position, the nonzero's index in CSR order; None
            if positions are these indices.
        native: Whether numba kernels run; else torch operations run.
    """

    ptr: Tensor
    index: Tensor
    edge: Tensor | None
    native: bool

    def __len__(self) -> int:
        """Return the number of groups of nonzeros, which is the number of rows or of columns."""
        return len(self.ptr) - 1


class Pattern:
    """The sparsity pattern of one rank, m x n, with columns [own rows | halo rows].

    Attributes:
        rows: The nonzeros grouped by rows (CSR).
    """

    def __init__(self, rows: PatternSide, num_columns: int) -> None:
        self.rows = rows
        self.num_rows = len(rows)
        self.num_columns = num_columns
        self.num_nonzeros = len(rows.index)

    @classmethod
    def from_csr(
        cls,
        row_ptr: np.ndarray,
        column: np.ndarray,
        num_columns: int,
        device: torch.device | str = "cpu",
        native: bool | None = None,
    ) -> Pattern:
        """Return the pattern of CSR arrays; unsorted and repeated columns are allowed.

        Raise InputError for a column outside of the matrix; kernels do not check columns again.
        `native` says whether numba kernels run; None: they run on CPUs only.
        """
        if len(column) and not 0 <= column.min() <= column.max() < num_columns:
            raise InputError(f"a column of the pattern is not between 0 and {num_columns - 1}")
        device = torch.device(device)
        wide = max(len(column), len(row_ptr), num_columns) >= 2**31
        ptr = torch.from_numpy(np.require(row_ptr, np.int64, ["C", "W"])).to(device)
        index = torch.from_numpy(np.require(column, np.int64 if wide else np.int32, ["C", "W"]))
        native = device.type == "cpu" if native is None else native
        return cls(PatternSide(ptr, index.to(device), None, native), num_columns)

    @functools.cached_property
    def columns(self) -> PatternSide:
        """The nonzeros grouped by columns. The nonzeros of a column are sorted by row."""
        csr = self.rows
        index = csr.index.cpu().numpy()
        number = np.arange(self.num_nonzeros, dtype=index.dtype)
        row_ptr = csr.ptr.cpu().numpy().astype(index.dtype)
        shape = self.num_rows, self.num_columns
        matrix = sparse.csr_array((number, index, row_ptr), shape=shape).tocsc()
        rows = matrix.indices.astype(index.dtype, copy=False)
        arrays = matrix.indptr.astype(np.int64), rows, matrix.data
        ptr, row, edge = (torch.from_numpy(array).to(csr.ptr.device) for array in arrays)
        return PatternSide(ptr, row, edge, csr.native)

    @functools.cached_property
    def row(self) -> Tensor:
        """The row of each nonzero: int64[nnz]."""
        number = torch.arange(self.num_rows, device=self.rows.ptr.device)
        return number.repeat_interleave(self.degree)

    @functools.cached_property
    def degree(self) -> Tensor:
        """The number of nonzeros of each row: int64[m]."""
        return self.rows.ptr.diff()

    @functools.cached_property
    def rows_by_degree(self) -> list[tuple[int, Tensor]]:
        """Pairs (d, rows): the rows (int64[k]) whose degree, rounded up to a power of two, is d."""
        power = torch.frexp((2 * self.degree - 1).to(torch.float64)).exponent - 1
        there = power[self.degree > 0].unique().tolist()
        return [(1 << k, torch.nonzero((power == k) & (self.degree > 0)).flatten()) for k in there]


def neighbour_sum(side: PatternSide, x: Tensor) -> Tensor:
    """Return out[i] = sum of x[j] over the nonzeros of row (or column) i; ``side.index`` has j."""
    out = x.new_empty(len(side), x.shape[1])
    if not side.native:
        return multiply(side.ptr, side.index, x.new_ones(len(side.index)), x, out)
    run_groups(_sum, side, x.shape[1], side.ptr, side.index, x, out)
    return out


def edge_sum(side: PatternSide, value: Tensor) -> Tensor:
    """Return out[i] = sum of value[e] over the nonzeros e of group i: Tensor[groups, d].

    The groups are the rows or the columns. `value` is in CSR order: Tensor[nnz, d].
    """
    if not side.native:  # sums are a product with the 0/1 matrix of groups and nonzeros
        edge = _numbers(side.index) if side.edge is None else side.edge
        return multiply(side.ptr, edge, value.new_ones(len(edge)), value)
    out = empty(len(side), value.shape[1], value)
    run_groups(_sum, side, value.shape[1], side.ptr, _or_empty(side.edge, side.index), value, out)
    return out


def weighted_sum(side: PatternSide, weight: Tensor, x: Tensor) -> Tensor:
    """Return out[i, h] = sum of weight[e, h] x[j, h] over the nonzeros e of group i.

    The groups are the rows or the columns, ``side.index`` has every j, and h is the attention
    head. Shapes of weight (in CSR order) and x: [nnz, heads], [n, heads, d].
    """
    out = x.new_empty(len(side), *x.shape[1:])
    if not side.native:
        for h, value in enumerate(_values_of_side(side, weight).unbind(1)):
            out[:, h] = multiply(side.ptr, side.index, value, x[:, h])
        return out
    edge = _or_empty(side.edge, side.index)
    run_groups(_weighted_sum, side, out[:1].numel(), side.ptr, side.index, edge, weight, x, out)
    return out


def edge_dot(pattern: Pattern, g: Tensor, x: Tensor) -> Tensor:
    """Return out[e, h] = <g[i, h], x[j, h]> for all nonzeros e = (i, j): Tensor[nnz, h].

    h is the attention head. Shapes of g and x: [m, heads, d], [n, heads, d].
    """
    side = pattern.rows
    out = x.new_empty(pattern.num_nonzeros, x.shape[1])
    if not side.native:
        for h in range(x.shape[1]):
            out[:, h] = sampled_product(side.ptr, side.index, g[:, h], x[:, h])
        return out
    run_groups(_edge_dot, side, x[:1].numel(), side.ptr, side.index, g, x, out)
    return out


def first_maximum(pattern: Pattern, x: Tensor) -> Tensor:
    """Return, for each row and feature, the nonzero (i, j) with the largest x[j]: integer[m, d].

    The result holds positions in CSR order, and -1 for empty rows. Of equal values, the first is
    taken; NaN counts as largest.
    """
    side, d = pattern.rows, x.shape[1]
    out = side.index.new_full((len(side), d), -1)
    if side.native:
        run_groups(_first_maximum, side, 4 * d, side.ptr, side.index, x, out)
        return out
    for width, rows in pattern.rows_by_degree:
        place = torch.arange(width, device=x.device)
        for some in rows.split(max(1, TEMPORARY // (width * d))):
            first = side.ptr[some].unsqueeze(1)
            # Rows are padded with their first nonzero, which is never a later maximum.
            edge = first + torch.where(place < pattern.degree[some].unsqueeze(1), place, 0)
            best = _at(x, side.index[edge]).max(1).indices
            out[some] = (first + best).to(out.dtype)
    return out


def take(pattern: Pattern, edge: Tensor, x: Tensor) -> Tensor:
    """Return out[i, k] = x[j, k] for the column j of the nonzero edge[i, k]; 0 for edge -1."""
    side = pattern.rows
    if not side.native:
        return x.gather(0, _columns_of(pattern, edge)).masked_fill_(edge < 0, 0)
    out = x.new_empty(edge.shape)
    bounds = even_bounds(len(side), 1)
    in_chunks(_take, bounds, out.numel(), side.index, edge, x, out)
    return out


def take_adjoint(pattern: Pattern, edge: Tensor, g: Tensor) -> Tensor:
    """Return the adjoint of `take`, for the gradient g of its result: Tensor[num_columns, d].

    out[j, k] is the sum of g[i, k] over all i whose nonzero edge[i, k] is in column j.
    """
    d = g.shape[1]
    out = g.new_zeros(pattern.num_columns, d)
    if pattern.rows.native:
        bounds = even_bounds(d, 16)  # 16 float32 are a cache line
        in_chunks(_take_adjoint, bounds, g.numel(), pattern.rows.index, edge, g, out)
        return out
    # The order of sums is undefined, as in cuSPARSE; index_put_ sorts, but takes 14 times as long.
    return out.scatter_add_(0, _columns_of(pattern, edge), g.masked_fill(edge < 0, 0))


def softmax(pattern: Pattern, score: Tensor) -> Tensor:
    """Return the softmax of `score` over the nonzeros of each row: Tensor[nnz, h] in CSR order."""
    side = pattern.rows
    if side.native:
        out = torch.empty_like(score)
        run_groups(_softmax, side, 8 * score.shape[1], side.ptr, score, out)
        return out
    row = pattern.row
    best, at = score.new_zeros(len(side), score.shape[1]), row.unsqueeze(1).expand_as(score)
    best.scatter_reduce_(0, at, score, "amax", include_self=False)
    out = (score - rows_of(best, row)).exp_()
    return out.div_(rows_of(edge_sum(side, out), row))


def softmax_adjoint(pattern: Pattern, alpha: Tensor, g: Tensor) -> Tensor:
    """Return the adjoint of `softmax`: alpha[e] (g[e] - sum of alpha g over the row of e).

    `alpha` is the result of `softmax`, and `g` its gradient: Tensor[nnz, h] each.
    """
    product = alpha * g
    total = edge_sum(pattern.rows, product)
    return product.addcmul_(alpha, rows_of(total, pattern.row), value=-1)


# ---- torch operations --------------------------------------------------------------------------


def rows_of(x: Tensor, index: Tensor) -> Tensor:
    """Return x[index]. If x has few columns and is on a GPU, gather one column after the other.

    On CUDA, gathering 4 columns at once takes 40 times as long as gathering 1 column.
    """
    if x.device.type == "cpu":
        return torch.index_select(x, 0, index, out=empty(len(index), x.shape[1], x))
    if not 1 < x.shape[1] <= FEW:
        return x.index_select(0, index)
    return torch.stack([column.index_select(0, index) for column in x.unbind(1)], 1)


def _numbers(index: Tensor) -> Tensor:
    """Return the numbers 0, 1, ..., ``len(index) - 1``, in the type of `index`."""
    return torch.arange(len(index), dtype=index.dtype, device=index.device)


def _at(x: Tensor, number: Tensor) -> Tensor:
    """Return x[number]: Tensor[k, w, d]. Shapes of x and number: [n, d], integer[k, w]."""
    return x.index_select(0, number.flatten()).view(*number.shape, x.shape[1])


def _values_of_side(side: PatternSide, value: Tensor) -> Tensor:
    return value if side.edge is None else rows_of(value, side.edge)


def _columns_of(pattern: Pattern, edge: Tensor) -> Tensor:
    column = pattern.rows.index.index_select(0, edge.clamp(min=0).flatten())
    return column.view(edge.shape).to(torch.int64)


# ---- threads -----------------------------------------------------------------------------------


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="plancc-edges")


def _or_empty(tensor: Tensor | None, like: Tensor) -> Tensor:
    """Return `tensor` or, for None (which numba cannot take), an empty tensor of that type."""
    return like[:0] if tensor is None else tensor


def even_bounds(length: int, step: int) -> np.ndarray:
    """Return bounds of chunks of ``0:length``, about equal and enough for all threads.

    All bounds but the last are multiples of `step`.
    """
    count = torch.get_num_threads() * CHUNKS_PER_THREAD
    return np.minimum(np.linspace(0, -(-length // step), count + 1).astype(int) * step, length)


def run_groups(kernel: Any, side: PatternSide, work: int, *args: Any) -> None:
    """Call kernel(begin, end, *args) for ranges of groups with about equally many nonzeros.

    `work` is the number of multiplications per nonzero.
    """
    ptr = side.ptr.numpy()
    cuts = np.linspace(0, len(side.index), torch.get_num_threads() * CHUNKS_PER_THREAD + 1)
    bounds = np.searchsorted(ptr, cuts[1:-1].astype(np.int64))
    in_chunks(kernel, [0, *bounds.tolist(), len(side)], work * (len(side.index) + len(side)), *args)


def in_chunks(kernel: Any, bounds: Sequence[int] | np.ndarray, work: int, *args: Any) -> None:
    """Call kernel(begin, end, *args) for each chunk, on this thread and on helpers of a pool.

    Chunk k is the range from bounds[k] to bounds[k + 1]; with little `work` (multiplications), this
    thread runs all chunks. Helpers that start too late are cancelled, so ranks that are threads
    share one pool without waiting.
    """
    arrays = [a.detach().numpy() if isinstance(a, Tensor) else a for a in args]
    threads = num_threads()
    if threads == 1 or work < SMALL:
        kernel(bounds[0], bounds[-1], *arrays)
        return
    chunks = [(a, b) for a, b in itertools.pairwise(bounds) if a < b]
    remaining = iter(chunks)  # threads may share the iterator of a list

    def consume() -> None:
        for begin, end in remaining:
            kernel(begin, end, *arrays)

    helpers = [_pool().submit(consume) for _ in range(min(threads, len(chunks)) - 1)]
    try:
        consume()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()


# ---- numba kernels: groups begin..end ------------------------------------------------------------


@_compiled
def _sum(begin: int, end: int, ptr: Any, index: Any, x: Any, out: Any) -> None:
    d = x.shape[1]
    ordered = len(index) == 0
    for i in range(begin, end):
        y = out[i]
        for k in range(d):
            y[k] = 0
        p, stop = ptr[i], ptr[i + 1]
        while p + 4 <= stop:  # four at a time: the output row is read and written less often
            if ordered:
                a, b, c, f = x[p], x[p + 1], x[p + 2], x[p + 3]
            else:
                a, b, c, f = x[index[p]], x[index[p + 1]], x[index[p + 2]], x[index[p + 3]]
            for k in range(d):
                y[k] += (a[k] + b[k]) + (c[k] + f[k])
            p += 4
        while p < stop:
            a = x[p] if ordered else x[index[p]]
            for k in range(d):
                y[k] += a[k]
            p += 1


@_compiled
def _weighted_sum(
    begin: int, end: int, ptr: Any, index: Any, edge: Any, weight: Any, x: Any, out: Any
) -> None:
    heads, d = x.shape[1], x.shape[2]
    ordered = len(edge) == 0
    for i in range(begin, end):
        out[i, :, :] = 0
        if d == 1:  # one weight per feature: SIMD runs over the heads
            for p in range(ptr[i], ptr[i + 1]):
                j = index[p]
                e = p if ordered else edge[p]
                for h in range(heads):
                    out[i, h, 0] += weight[e, h] * x[j, h, 0]
            continue
        for h in range(heads):
            y = out[i, h]
            p, stop = ptr[i], ptr[i + 1]
            while p + 4 <= stop:  # as in `_sum`
                a, b = x[index[p], h], x[index[p + 1], h]
                c, f = x[index[p + 2], h], x[index[p + 3], h]
                if ordered:
                    q, r, s, t = weight[p, h], weight[p + 1, h], weight[p + 2, h], weight[p + 3, h]
                else:
                    q, r = weight[edge[p], h], weight[edge[p + 1], h]
                    s, t = weight[edge[p + 2], h], weight[edge[p + 3], h]
                for k in range(d):
                    y[k] = (((y[k] + q * a[k]) + r * b[k]) + s * c[k]) + t * f[k]
                p += 4
            while p < stop:
                z, w = x[index[p], h], weight[p if ordered else edge[p], h]
                for k in range(d):
                    y[k] += w * z[k]
                p += 1


@_compiled
def _edge_dot(begin: int, end: int, ptr: Any, index: Any, g: Any, x: Any, out: Any) -> None:
    heads, d = x.shape[1], x.shape[2]
    for i in range(begin, end):
        for p in range(ptr[i], ptr[i + 1]):
            j = index[p]
            for h in range(heads):
                total = g[i, h, 0] * x[j, h, 0]
                for k in range(1, d):
                    total += g[i, h, k] * x[j, h, k]
                out[p, h] = total


@_compiled
def _first_maximum(begin: int, end: int, ptr: Any, index: Any, x: Any, out: Any) -> None:
    d = out.shape[1]
    best = np.empty(d, x.dtype)
    for i in range(begin, end):
        for p in range(ptr[i], ptr[i + 1]):
            row = x[index[p]]
            if p == ptr[i]:
                for k in range(d):
                    best[k] = row[k]
                    out[i, k] = p
                continue
            for k in range(d):
                v, w = row[k], best[k]
                better = (v > w) | ((v != v) & (w == w))  # without branches, for SIMD
                best[k] = v if better else w
                out[i, k] = p if better else out[i, k]


@_compiled
def _take(begin: int, end: int, index: Any, edge: Any, x: Any, out: Any) -> None:
    for i in range(begin, end):
        for k in range(out.shape[1]):
            e = edge[i, k]
            out[i, k] = x[index[e], k] if e >= 0 else 0


@_compiled
def _take_adjoint(begin: int, end: int, index: Any, edge: Any, g: Any, out: Any) -> None:
    for i in range(len(g)):
        for k in range(begin, end):
            e = edge[i, k]
            if e >= 0:
                out[index[e], k] += g[i, k]


@_compiled
def _softmax(begin: int, end: int, ptr: Any, score: Any, out: Any) -> None:
    heads = score.shape[1]
    best, total = np.empty(heads, score.dtype), np.empty(heads, score.dtype)
    for i in range(begin, end):
        first, stop = ptr[i], ptr[i + 1]
        if first == stop:
            continue
        for h in range(heads):
            best[h] = score[first, h]
            total[h] = 0
        for p in range(first + 1, stop):
            for h in range(heads):
                best[h] = max(best[h], score[p, h])
        for p in range(first, stop):
            for h in range(heads):
                out[p, h] = math.exp(score[p, h] - best[h])
                total[h] += out[p, h]
        for p in range(first, stop):
            for h in range(heads):
                out[p, h] /= total[h]
