"""Nets of the models of edge plans, in numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit


@njit(cache=True, nogil=True)
def lighter_side(indptr: Any, indices: Any, in_row: Any, in_column: Any) -> Any:
    """Whether the column of every nonzero is lighter than its row: bool[num_nonzeros].

    Of equal ones the lower number counts as lighter, so that a symmetric pattern is split
    symmetrically; a nonzero of the diagonal goes with its row.

    Parameters:
        indptr: int64[n + 1].
        indices: int32[num_nonzeros].
        in_row, in_column (int64[n]): Nonzeros.
    """
    with_column = np.empty(len(indices), dtype=np.bool_)
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            with_column[k] = i != j and (in_column[j], j) < (in_row[i], i)
    return with_column


@njit(cache=True, nogil=True)
def split_nets(indptr: Any, indices: Any, with_column: Any) -> Any:
    """Expand nets of the columns, then fold nets of the rows, without nets of one pin.

    Parameters:
        indptr: int64[n + 1].
        indices: int32[num_nonzeros], unique in every row.
        with_column: bool[num_nonzeros], False on the diagonal.

    Returns:
        net_ptr: int64[num_nets + 1]
        pins (int32[num_pins]): Of every net its column or row itself comes first.
        source (int32[num_nets]): The column or row of every net.
        weight (int64[n]): Nonzeros that go with every vertex.
        nonzero_vertex (int32[num_nonzeros]): With which.
    """
    n = len(indptr) - 1
    # Nets 0..n-1 are columns (expand), n..2n-1 rows (fold); each has its own vertex as a pin.
    size = np.ones(2 * n, dtype=np.int64)
    weight = np.zeros(n, dtype=np.int64)
    nonzero_vertex = np.empty(len(indices), dtype=np.int32)
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            v = j if with_column[k] else i
            nonzero_vertex[k] = v
            weight[v] += 1
            if i != j:
                # At its column a nonzero is a partial sum of the row, at its row it reads a column.
                size[n + i if with_column[k] else j] += 1
    num_nets = 0
    for e in range(2 * n):
        num_nets += size[e] > 1
    net_ptr = np.zeros(num_nets + 1, dtype=np.int64)
    source = np.empty(num_nets, dtype=np.int32)
    end = np.empty(2 * n, dtype=np.int64)
    num_nets = 0
    for e in range(2 * n):
        if size[e] > 1:
            source[num_nets] = e % n
            end[e] = net_ptr[num_nets]
            net_ptr[num_nets + 1] = end[e] + size[e]
            num_nets += 1
    pins = np.empty(net_ptr[num_nets], dtype=np.int32)
    for e in range(2 * n):
        if size[e] > 1:
            # the own vertex comes first
            pins[end[e]] = e % n
            end[e] += 1
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if i != j:
                e = n + i if with_column[k] else j
                pins[end[e]] = nonzero_vertex[k]
                end[e] += 1
    return net_ptr, pins, source, weight, nonzero_vertex
