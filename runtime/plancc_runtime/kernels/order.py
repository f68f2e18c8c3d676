"""Orders of a rank's rows in which a product A x finds more rows of x in a cache.

No order is always quicker than the plan's: on three graphs, at widths 32 to 128, products took 0.74
to 1.20 times as long with rcm, and 0.76 to 1.66 times with degree.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from plancc.registry import check_choice

ORDERS = ("none", "rcm", "degree")


def cache_order(pattern: csr_matrix, method: str, num_interior: int | None = None) -> np.ndarray:
    """Return a new order of rows and own columns: for every place, the old number, int64[m].

    Parameters:
        pattern (csr_matrix[m, >= m]): Halo columns (from m on) and values are ignored.
        method: "none", "rcm" (reverse Cuthill-McKee, symmetrised) or "degree" (the rows that most
            own rows need come first).
        num_interior: Number of interior rows, which stay before the boundary rows.
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
