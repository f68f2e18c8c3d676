"""`resplit`: split nonzeros between rows and columns, with the least volume for given owners."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.graph.owners import check_owners
from plancc.models.medium_grain import lighter_columns
from plancc.passes.context import Context
from plancc.passes.kernels import split as kernels


def resplit(owner: npt.NDArray[np.int32], matrix: Graph, context: Context) -> npt.NDArray[np.bool_]:
    """Split the nonzeros of a matrix, with the least volume for the given owners of rows.

    Nonzero (i, j) goes to the owner of row i, which then needs row j of H. Or it goes to the owner
    of row j, which then folds row i. For the nonzeros of every pair of parts, the least volume is
    the size of a minimum vertex cover (the s2D partitions of Kayaaslan, Aykanat and Ucar, "1.5D
    parallel sparse matrix-vector multiply", SIAM J. Sci. Comput. 2018). The cover is exact, by
    Hopcroft and Karp's matching and Koenig's theorem. Among several minimum covers, the function
    takes a cover that relieves the heavier part. Nonzeros within a part go with the lighter of row
    and column, as in `MediumGrainModel`. Nonzeros of the diagonal never go with their columns.

    Parameters:
        owner (int32[n]): Owner of every row.
        matrix, context: The matrix, and the parameters of the pass.

    Returns:
        bool[num_nonzeros]: Whether the nonzero goes with its column. Parts may be above the limit
            of nonzeros.

    Raises:
        InputError: If the number of owners is wrong, or an owner is outside 0..num_parts-1.
    """
    num_parts = context.num_parts
    check_owners(owner, matrix.num_vertices, num_parts)
    cut = kernels.cut_of(matrix.indptr, matrix.indices, owner, num_parts)
    load = np.bincount(owner, weights=matrix.row_nonzeros(), minlength=num_parts)
    load = load.astype(np.int64)
    load -= np.bincount(cut.left_parts[cut.left, 0], minlength=num_parts)
    scale = 1 / context.limits.relative
    left, right, component, mate = kernels.cover(cut)
    kernels.complete(cut, left, right, component, mate, load, scale)
    with_column = lighter_columns(matrix)
    with_column[cut.at] = kernels.place(cut, left, right, load, scale)
    return with_column
