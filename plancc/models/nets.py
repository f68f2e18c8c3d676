"""The counting sort behind the column-net model, in numba. Imported at first use only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def column_nets(indptr: Any, indices: Any) -> Any:
    """Nets of a CSR pattern's columns, each with its own row, without nets of one pin.

    Rows are visited in order, so pins come out sorted; a missing diagonal entry is put in when
    its row is visited.

    Parameters
    ----------
    indptr : int64[n + 1]
    indices : int32[num_nonzeros], unique in every row

    Returns
    -------
    net_ptr : int64[num_nets + 1], nets in the order of the columns
    pins : int32[num_pins]
    column : int32[num_nets]
        The column of every net.
    """
    n = len(indptr) - 1
    size = np.zeros(n, dtype=np.int64)
    for i in range(n):
        missing = 1
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            size[j] += 1
            if j == i:
                missing = 0
        size[i] += missing

    num_nets = 0
    for j in range(n):
        num_nets += size[j] > 1
    net_ptr = np.zeros(num_nets + 1, dtype=np.int64)
    column = np.empty(num_nets, dtype=np.int32)
    end = np.full(n, -1, dtype=np.int64)
    net = 0
    for j in range(n):
        if size[j] > 1:
            end[j] = net_ptr[net]
            net_ptr[net + 1] = net_ptr[net] + size[j]
            column[net] = j
            net += 1

    pins = np.empty(net_ptr[num_nets], dtype=np.int32)
    for i in range(n):
        missing = True
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if j == i:
                missing = False
            if end[j] >= 0:
                pins[end[j]] = i
                end[j] += 1
        if missing and end[i] >= 0:
            pins[end[i]] = i
            end[i] += 1
    return net_ptr, pins, column
