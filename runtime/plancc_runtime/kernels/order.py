"""Orders of a rank's rows that keep the rows of x that a product gathers in a cache.

Measured with the numba kernel, one thread, float32, widths 32, 64, 128, times the time in the order
of the file: soc-Slashdot0902 rcm 1.20, 0.97, 0.93, degree 1.10, 0.94, 0.91; dblp-2010 rcm 0.99,
1.12, 1.16, degree 1.48, 1.66, 1.61; R-MAT scale 17 rcm 0.95, 0.84, 0.74, degree 0.89, 0.76, 0.79.
So neither pays in general where the given order is a natural one. After a random order (0.9 to
2.8), rcm returns to 0.7 to 1.2.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from plancc.registry import check_choice

ORDERS = ("none", "rcm", "degree")


def cache_order(pattern: csr_matrix, method: str, num_interior: int | None = None) -> np.ndarray:
    """A new order of rows, and with them of the own columns.

    Parameters:
        pattern (csr_matrix[m, >= m]): Columns from m on (halo rows) are ignored, and so are values.
        method ({"none", "rcm", "degree"}): "none" keeps the order; "rcm" is reverse Cuthill-McKee
            of the symmetrised own block, which brings neighbours close; "degree" puts the rows that
            most rows need first, so that they share pages and cache sets.
        num_interior: Rows before this one stay before the others; among themselves both kinds are
            in the method's order.

    Returns:
        int64[m]: Old row of every new one: ``pattern[order][:, order]`` is the own block in the new
            order.

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
