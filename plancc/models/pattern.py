"""The symmetrised pattern of a matrix, for models that need an undirected graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.graph.graph import Graph


def symmetrised(matrix: Graph) -> Any:
    """Return the pattern of ``A + A^T`` without its diagonal, as a scipy CSR matrix of int8.

    Columns are sorted and unique; the values 1 and 2 have no meaning.
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
