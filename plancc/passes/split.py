"""`resplit`: choose the owner of every nonzero for given owners of rows, with the least volume."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.graph.owners import check_owners
from plancc.models.medium_grain import lighter_columns
from plancc.passes.context import Context
from plancc.passes.kernels import split as kernels


def resplit(owner: npt.NDArray[np.int32], matrix: Graph, context: Context) -> npt.NDArray[np.bool_]:
    """Assign each nonzero to its row or to its column, with the least volume for given owners.

    Nonzero (i, j) can be assigned to row i. Then the owner of row i computes it, and needs row j of
    H. Or it can be assigned to column j. Then the owner of row j computes it, and sends a partial
    sum of row i. For the nonzeros between two parts, the least volume is the size of a minimum
    vertex cover (the s2D partitions of Kayaaslan, Aykanat and Ucar, "1.5D parallel sparse
    matrix-vector multiply", SIAM J. Sci. Comput. 2018). The cover is exact, by the matching of
    Hopcroft and Karp and the theorem of Koenig. If there are several minimum covers, the function
    takes one that gives fewer nonzeros to the heavier part.

    If the row and the column of a nonzero have the same owner, the nonzero is assigned to its row
    or its column, whichever has fewer nonzeros, as in `MediumGrainModel`. A nonzero on the diagonal
    is never assigned to its column.

    Parameters:
        owner (int32[n]): Owner of every row.
        matrix: The matrix.
        context: Parameters of the pass.

    Returns:
        bool[num_nonzeros]: Whether the nonzero is assigned to its column. A part may have more
            nonzeros than its limit.

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
