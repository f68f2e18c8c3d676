"""Which nonzeros go with their columns, best for given owners. Knows the matrix and its owners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.graph.owners import check_owners
from plancc.models.capacities import Capacities
from plancc.models.limits import Limits
from plancc.models.medium_grain import lighter_columns


@dataclass(frozen=True)
class Resplit:
    """Split a matrix with the least volume that its owners allow, then evenly.

    Nonzero (i, j) is where row i is, which then needs column j, or where column j is, which then
    folds row i. For the nonzeros of every pair of parts this is a minimum vertex cover (the s2D
    partitions of Kayaaslan, Aykanat and Ucar, "1.5D parallel sparse matrix-vector multiply", SIAM
    J. Sci. Comput. 2018), exact by Hopcroft and Karp's matching and Koenig's theorem. Where there
    are several, the one is taken that relieves the heavier of the two parts. Nonzeros within a
    part go with the lighter side, as in `MediumGrainModel`.

    Attributes
    ----------
    epsilon : float, optional
        More rows are moved where that brings parts of more than ``(1 + epsilon) * ceil(mean)``
        nonzeros below it, as far as it can; None: never, the volume is the least.
    capacities : tuple of float, optional
        To which the even shares of the parts are in proportion; None: all alike.
    """

    epsilon: float | None = 0.01
    capacities: Capacities = None

    def run(
        self,
        matrix: Graph,
        owner: npt.NDArray[np.int32],
        num_parts: int,
        allowed: npt.NDArray[np.bool_] | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Split the nonzeros.

        Parameters
        ----------
        matrix : Graph
        owner : int32[n]
        num_parts : int
        allowed : bool[num_nonzeros], optional
            Nonzeros that may go with their columns; None: all. Those of the diagonal never do.

        Returns
        -------
        bool[num_nonzeros]
            Whether the nonzero goes with its column.

        Raises
        ------
        InputError
            Owners of another number of vertices, or outside 0..num_parts-1.
        """
        from plancc.passes.kernels import split as kernels

        check_owners(owner, matrix.num_vertices, num_parts)
        with_column = lighter_columns(matrix)
        if allowed is not None:
            with_column &= allowed
        cut = kernels.cut_of(matrix.indptr, matrix.indices, owner, num_parts)
        fixed = np.zeros(len(cut.at), dtype=bool) if allowed is None else ~allowed[cut.at]
        banned = np.zeros(len(cut.right_ptr) - 1, dtype=bool)
        banned[cut.right[fixed]] = True

        load = np.bincount(owner, weights=matrix.row_nonzeros(), minlength=num_parts)
        load = load.astype(np.int64)
        load -= np.bincount(cut.left_parts[cut.left, 0], minlength=num_parts)
        limits = Limits.of_nonzeros(
            matrix.num_nonzeros, num_parts, self.epsilon or 0.0, self.capacities
        )
        scale = 1 / limits.relative
        mate, mate_right = kernels.match(cut, banned)
        left, right, component, num = kernels.cover(cut, banned, mate, mate_right)
        kernels.complete(cut, left, right, component, num, mate, load, scale)
        of_cut = kernels.place(cut, left, right, fixed, load, scale)
        if self.epsilon is not None:
            kernels.relieve(cut, left, right, fixed, load, limits.limit, of_cut)
        with_column[cut.at] = of_cut
        return with_column
