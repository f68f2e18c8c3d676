"""Rows and columns of the matrix dealt to the rows and columns of a grid: model ``checkerboard``.

Every vertex v has a row group g(v) and a column group c(v). Cell (a, b) of the grid owns vertex v
if g(v) = a and c(v) = b, and nonzero (i, j) if g(i) = a and c(j) = b::

               c = 0   c = 1   c = 2
             +-------+-------+-------+
      g = 0  |   0   |   1   |   2   |   row i of the product: folded within g(i)
             +-------+-------+-------+
      g = 1  |   3   |   4   |   5   |   row j of H: expanded within c(j)
             +-------+-------+-------+

So a part talks only to the other parts of its column (expand) and of its row (fold) of the grid:
to ``pr + pc - 2`` of ``pr * pc - 1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.fields import option
from plancc.graph.graph import Graph
from plancc.models.base import EdgeModel
from plancc.models.block import block_owner
from plancc.models.crowd import HUB, Crowd
from plancc.models.problem import Assignment
from plancc.models.weights import Balance, check_num_parts, combined, vertex_weights

Groups = npt.NDArray[np.int32]

NEIGHBOURS = 2
"""Neighbours of a row, in the mean, of a graph like a path: parts by rows talk to few others."""
MAX_PLACES = 2**24
"""Rows times parts up to which such a graph costs little all the same."""


def grids(num_parts: int) -> list[tuple[int, int]]:
    """All grids of so many cells, (rows, columns), most rows first."""
    small = [k for k in range(1, int(num_parts**0.5) + 1) if num_parts % k == 0]
    tall = [(num_parts // k, k) for k in small]
    return tall + [(b, a) for a, b in reversed(tall) if a != b]


def assemble(matrix: Graph, row_group: Groups, column_group: Groups, columns: int) -> Assignment:
    """Owners that the groups of the vertices stand for.

    Parameters:
        row_group, column_group: int32[n].
        columns: Of the grid; cell (a, b) is part ``a * columns + b``.

    Returns:
        A nonzero of the diagonal has the owner of its row.
    """
    first = row_group * np.int32(columns)
    nonzero_owner = np.repeat(first, matrix.row_nonzeros())
    nonzero_owner += column_group[matrix.indices]
    return Assignment(first + column_group, nonzero_owner)


@dataclass(frozen=True)
class CheckerboardModel(EdgeModel):
    """Cartesian partition of the matrix into the cells of a grid, one per part.

    Groups worth having are found by `plancc.search.checkerboard.search_checkerboard`; `build`
    itself knows no search, and deals blocks.

    Attributes:
        grid: Rows and columns as "8x4". None: the most square one, with at least as many rows as
            columns; for a prime number of parts that is a single column, which makes a row plan.
    """

    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "messages"
    timed: ClassVar[bool] = True
    of_cells: ClassVar[bool] = True

    grid: str | None = option(
        None,
        "rows x columns of the process grid",
        metavar="RxC",
        otherwise="the most square one",
    )

    def shape(self, num_parts: int) -> tuple[int, int]:
        """Rows and columns of the grid.

        Raises:
            InputError: `grid` is no grid, or has not one cell for every part.
        """
        fitting = grids(num_parts)
        if self.grid is None:
            return min(fitting, key=sum)
        found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", str(self.grid))
        shape = (int(found[1]), int(found[2])) if found else None
        if shape not in fitting:
            wanted = ", ".join(f"{rows}x{columns}" for rows, columns in fitting)
            raise InputError(f"grid '{self.grid}': grids of {num_parts} parts are {wanted}")
        return shape

    def taken(self, matrix: Graph, num_parts: int) -> dict[str, Any]:
        rows, columns = self.shape(num_parts)
        return {"grid": f"{rows}x{columns}"}

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """Hubs, whose nonzeros stay within one row, or column, of cells; or a path."""
        rows, columns = self.shape(num_parts)
        if min(rows, columns) == 1:
            return ""
        in_rows = matrix.row_nonzeros()
        in_columns = np.bincount(matrix.indices, minlength=matrix.num_vertices)
        for count, kind, lines in ((in_rows, "row", rows), (in_columns, "column", columns)):
            vertex, most = int(count.argmax()), HUB * matrix.num_nonzeros / lines
            if count[vertex] > most:
                return (
                    f"model 'checkerboard' is not made for this graph: {kind} {vertex} has "
                    f"{count[vertex]:,} of {matrix.num_nonzeros:,} nonzeros, and they all go to "
                    f"one of {lines} {kind}s of the grid, so the parts cannot be even; take model "
                    "medium-grain or libra, which share them among all parts"
                )
        crowd = Crowd.of(matrix, num_parts)
        if crowd is not None and crowd.hubs:
            return (
                f"model 'checkerboard' is not made for this graph: {crowd}, all of a row in one of "
                f"{rows} rows of the grid; take model medium-grain or libra, which "
                "share hubs among all parts"
            )
        if self.is_sparse(matrix, num_parts):
            return (
                "model 'checkerboard' is not made for this graph: its rows have no more than "
                f"{NEIGHBOURS} neighbours in the mean, as in a path or a tree, so parts by rows "
                "talk to few others; take model hp"
            )
        return ""

    def is_sparse(self, matrix: Graph, num_parts: int) -> bool:
        """Whether the matrix is large and its rows have few neighbours."""
        n = matrix.num_vertices
        return n * num_parts > MAX_PLACES and matrix.num_nonzeros <= (NEIGHBOURS + 1) * n

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Assignment:
        """Deal contiguous blocks of rows to the cells, row by row of the grid; no `seed` is used.

        The blocks weigh about the same by `balance`; the nonzeros of the cells need not.
        """
        check_num_parts(matrix.num_vertices, num_parts)
        rows, columns = self.shape(num_parts)
        owner = block_owner(combined(vertex_weights(matrix, balance)), num_parts)
        made = assemble(matrix, owner // columns, owner % columns, columns)
        made.notes["grid"] = f"{rows}x{columns}"
        return made
