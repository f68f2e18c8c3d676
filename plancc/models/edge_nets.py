"""Kernels that build the nets of the hypergraph of model medium-grain."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit


@njit(cache=True, nogil=True)
def lighter_side(indptr: Any, indices: Any, in_row: Any, in_column: Any) -> Any:
    """For every nonzero, whether its column has fewer nonzeros than its row: bool[num_nonzeros].

    If row i and column j have equally many, the lower index counts as fewer, so that a symmetric
    pattern is split symmetrically. On the diagonal the result is False.
    """
    with_column = np.empty(len(indices), dtype=np.bool_)
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            with_column[k] = i != j and (in_column[j], j) < (in_row[i], i)
    return with_column


@njit(cache=True, nogil=True)
def split_nets(indptr: Any, indices: Any, with_column: Any) -> Any:
    """Build an expand net for every column, then a fold net for every row; see `split_problem`.

    Vertex i stands for row i and for column i. Nets of one pin are left out.

    Parameters:
        with_column (bool[num_nonzeros]): Whether a nonzero belongs to its column's vertex, not to
            its row's; False on the diagonal.

    Returns:
        net_ptr (int64[num_nets + 1]): Offsets of the nets' pins.
        pins (int32[num_pins]): Pins; the first pin is the vertex of the net's column or row.
        source (int32[num_nets]): For every net, the index of its column or row.
        weight (int64[n]): For every vertex, the number of nonzeros that belong to it.
        nonzero_vertex (int32[num_nonzeros]): For every nonzero, the vertex to which it belongs.
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
                # A nonzero with its column adds a pin to the row's fold net: a partial sum.
                # A nonzero with its row adds a pin to the column's expand net: a row of H to read.
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
