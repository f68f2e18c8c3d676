"""Model ``medium-grain`` of edge plans: nonzeros go with their row or their column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.base import EdgeModel
from plancc.models.edge_nets import lighter_side, split_nets
from plancc.models.full_rows import FullRows
from plancc.models.problem import EdgeProblem, Hypergraph
from plancc.models.weights import Balance, check_num_parts

INSTEAD_OF_SEARCH = "use a process grid if many rows are alike, or these owners (libra)"
"""Advice for a matrix that does not suit a model of edge plans (`FullRows`)."""


@dataclass(frozen=True)
class MediumGrainModel(EdgeModel):
    """A hypergraph in which every nonzero goes with the lighter of its row and its column.

    After Pelt and Bisseling, "A medium-grain method for fast 2D bipartitioning of sparse matrices"
    (IPDPS 2014). Unlike there, row i of H and row i of the product have the same owner. So vertex i
    stands for both rows, and for the nonzeros that go with row i or with column i::

        a hub's row:     x x x x x x    its nonzeros go with their columns, and the row is folded
        a hub's column:                 its nonzeros go with their rows, and the column is expanded

    So no part has to hold a whole hub. The weight of a row or column is its number of nonzeros; if
    both weigh the same, the lower number counts as lighter. The diagonal goes with the rows.
    `split_problem` builds the hypergraph.
    """

    problem: ClassVar[type[Hypergraph]] = Hypergraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "volume"

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> EdgeProblem:
        """Build the problem; `seed` is not used."""
        check_num_parts(matrix.num_vertices, num_parts)
        check_nonzeros_balanced("medium-grain", balance)
        return split_problem(matrix, lighter_columns(matrix))

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """Say why cliques do not suit: their nets have pins in nearly every part."""
        full = FullRows.of(matrix, num_parts)
        if full is None or full.hubs:
            return ""
        return f"model 'medium-grain' is not made for this graph: {full}; {INSTEAD_OF_SEARCH}"


def check_nonzeros_balanced(model: str, balance: str | Balance) -> None:
    """Raise InputError unless `balance` is "nnz" alone."""
    if isinstance(balance, str):
        balance = Balance.parse(balance)
    if balance.names != ("nnz",):
        raise InputError(f"balance '{balance}': model '{model}' only balances nonzeros; use 'nnz'")


def lighter_columns(matrix: Graph) -> npt.NDArray[np.bool_]:
    """For every nonzero, whether it goes with its column in `MediumGrainModel`: bool[nnz]."""
    in_column = np.bincount(matrix.indices, minlength=matrix.num_vertices)
    return lighter_side(matrix.indptr, matrix.indices, matrix.row_nonzeros(), in_column)


def split_problem(matrix: Graph, with_column: npt.NDArray[np.bool_]) -> EdgeProblem:
    """Build the hypergraph of a split. Its connectivity-1 cut is the volume of expand and fold.

    ========================  ==================================================================
    vertex i                  row i of H and of the product, and the nonzeros that go with row i or
                              with column i; its weight is the number of these nonzeros
    expand net of column j    pins: j, which has row j of H, and ``{i : (i, j) goes with row i}``,
                              which need row j
    fold net of row i         pins: i, which needs the sum, and ``{j : (i, j) goes with column j}``,
                              which have partial sums
    ========================  ==================================================================

    A part counts once in the net of column j, even if it has several pins of the net, since it
    receives row j once. The same holds for the fold. Nets of one pin are left out. The source of a
    net is j, or i.

    Parameters:
        with_column (bool[num_nonzeros]): Whether a nonzero goes with its column; False on the
            diagonal.
    """
    net_ptr, pins, source, weight, nonzero_vertex = split_nets(
        matrix.indptr, matrix.indices, with_column
    )
    rows = np.arange(matrix.num_vertices, dtype=np.int32)
    return EdgeProblem(Hypergraph(net_ptr, pins, weight, None, source), rows, nonzero_vertex)
