"""Which nonzeros go with their columns, best for given owners."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.graph.owners import check_owners
from plancc.models.medium_grain import lighter_columns
from plancc.passes.context import Context
from plancc.passes.kernels import split as kernels


def resplit(owner: npt.NDArray[np.int32], matrix: Graph, context: Context) -> npt.NDArray[np.bool_]:
    """Split the nonzeros of a matrix with the least volume that the owners of its rows allow.

    Nonzero (i, j) is where row i is, which then needs column j, or where column j is, which then
    folds row i. For the nonzeros of every pair of parts this is a minimum vertex cover (the s2D
    partitions of Kayaaslan, Aykanat and Ucar, "1.5D parallel sparse matrix-vector multiply", SIAM
    J. Sci. Comput. 2018), exact by Hopcroft and Karp's matching and Koenig's theorem. Where there
    are several, the one is taken that relieves the heavier of the two parts. Nonzeros within a
    part go with the lighter side, as in `MediumGrainModel`; nonzeros of the diagonal never go with
    their columns.

    Parameters:
        owner: int32[n].

    Returns:
        bool[num_nonzeros]: Whether the nonzero goes with its column. Parts may be above the limit
            of their nonzeros.

    Raises:
        InputError: Owners of another number of vertices, or outside 0..num_parts-1.
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
