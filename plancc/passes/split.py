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
    """Return whether each nonzero goes to its column: the choice of least volume for given owners.

    If nonzero (i, j) goes to row i, the owner of i multiplies it, and needs row j of H. If it goes
    to column j, the owner of j multiplies it, and sends a partial sum of row i.

    The least volume for nonzeros between two parts is the size of a minimum vertex cover, found
    exactly (the s2D partitions of Kayaaslan, Aykanat and Ucar, "1.5D parallel sparse matrix-vector
    multiply", SIAM J. Sci. Comput. 2018). Other nonzeros go to the row or column with fewer
    nonzeros, as in `MediumGrainModel`, and the diagonal to rows. A part may exceed its limit.
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
