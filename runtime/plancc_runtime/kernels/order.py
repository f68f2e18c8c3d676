"""Orders of a rank's rows for which a product finds more rows of x in a cache.

Times as multiples of the time in the order of the file, measured with the numba kernel, one thread,
float32, widths 32, 64, 128: soc-Slashdot0902 rcm 1.20, 0.97, 0.93, degree 1.10, 0.94, 0.91;
dblp-2010 rcm 0.99, 1.12, 1.16, degree 1.48, 1.66, 1.61; R-MAT scale 17 rcm 0.95, 0.84, 0.74, degree
0.89, 0.76, 0.79. So neither order pays in general if the given order is a natural one. A random
order takes 0.9 to 2.8; rcm after a random order takes 0.7 to 1.2.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from plancc.registry import check_choice

ORDERS = ("none", "rcm", "degree")


def cache_order(pattern: csr_matrix, method: str, num_interior: int | None = None) -> np.ndarray:
    """Return a new order of rows and of own columns.

    Parameters:
        pattern (csr_matrix[m, >= m]): Columns from m on (halo rows) are ignored, and so are values.
        method ({"none", "rcm", "degree"}): "none" keeps the order. "rcm" is reverse Cuthill-McKee
            of the symmetrised own block, which brings neighbours close. "degree" puts rows that
            many rows need first, so that these rows share pages and cache sets.
        num_interior: Number of interior rows. They stay before the boundary rows; both kinds are
            put in the method's order.

    Returns:
        int64[m]: Old row of every new row. ``pattern[order][:, order]`` is the own block in the new
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
