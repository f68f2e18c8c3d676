"""The symmetrised pattern of a matrix, for models that need an undirected graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.graph.graph import Graph


def symmetrised(matrix: Graph) -> Any:
    """Return the pattern of ``A + A^T`` without its diagonal.

    Returns:
        scipy.sparse.csr_matrix of int8[num_vertices, num_vertices]: Columns are sorted and unique.
        Only the pattern is of use; the stored values are 1 or 2.
    """
    from scipy.sparse import csr_matrix

    n = matrix.num_vertices
    row = np.repeat(np.arange(n, dtype=np.int32), matrix.row_nonzeros())
    off_diagonal = row != matrix.indices
    indptr = np.concatenate(([0], np.cumsum(np.bincount(row[off_diagonal], minlength=n))))
    del row
    indices = matrix.indices[off_diagonal]
    half = csr_matrix((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(n, n))
    both = (half + half.T).tocsr()
    both.sort_indices()
    return both
