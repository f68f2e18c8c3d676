"""Orders of a rank's rows in which a product finds more rows of x in a cache.

The orders are rcm (reverse Cuthill-McKee) and degree (by the number of rows that need a row). The
table has the times of products with x of 32, 64 and 128 columns, divided by the time with the rows
in the order of the graph's file. They were measured with the numba kernel on one thread in float32:

                         rcm, widths 32, 64, 128    degree, widths 32, 64, 128
    soc-Slashdot0902       1.20   0.97   0.93          1.10   0.94   0.91
    dblp-2010              0.99   1.12   1.16          1.48   1.66   1.61
    R-MAT scale 17         0.95   0.84   0.74          0.89   0.76   0.79

So neither order is always quicker than the order of the file. A random order takes 0.9 to 2.8 times
as long as the order of the file; rcm, applied to a random order, takes 0.7 to 1.2 times as long.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from plancc.registry import check_choice

ORDERS = ("none", "rcm", "degree")


def cache_order(pattern: csr_matrix, method: str, num_interior: int | None = None) -> np.ndarray:
    """Return a new order of the rows, which is also the new order of the own columns.

    Parameters:
        pattern (csr_matrix[m, >= m]): Pattern of the matrix. Columns from m on (halo rows) and
            values are ignored.
        method ({"none", "rcm", "degree"}): "none" keeps the order. "rcm" is reverse Cuthill-McKee
            of the symmetrised matrix of own columns, which puts neighbours close together. "degree"
            sorts rows by the number of rows that need them, largest first, so that the rows that
            are read most are close together in memory.
        num_interior: Number of interior rows. They stay before the boundary rows, and the method
            orders the interior rows and the boundary rows separately.

    Returns:
        int64[m]: For every row in the new order, its old number. ``pattern[order][:, order]`` is
            the matrix of own columns in the new order.

    Raises:
        InputError: If the method is unknown.
    """
    check_choice("row order", method, ORDERS)
    m = pattern.shape[0]
    own = csr_matrix(
        (np.ones(pattern.nnz, np.int8), pattern.indices, pattern.indptr), pattern.shape
    )
    own = own[:, :m]
    if method == "none" or m == 0:
        order = np.arange(m)
    elif method == "degree":
        order = np.argsort(-np.bincount(own.indices, minlength=m), kind="stable")
    else:
        order = reverse_cuthill_mckee((own + own.T).tocsr(), symmetric_mode=True)
    order = order.astype(np.int64, copy=False)
    if num_interior is not None:
        order = order[np.argsort(order >= num_interior, kind="stable")]
    return order
