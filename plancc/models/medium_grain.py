"""Model ``medium-grain`` of edge plans: a hypergraph with one vertex for row i and column i.

Every nonzero belongs to the vertex of its row or to the vertex of its column.
"""

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

INSTEAD_OF_SEARCH = "use a process grid if many rows are alike, or keep the owners of model libra"
"""Advice for a matrix that does not suit a model of edge plans (`FullRows`)."""


@dataclass(frozen=True)
class MediumGrainModel(EdgeModel):
    """A hypergraph in which a nonzero belongs to its row or column, whichever has fewer nonzeros.

    It follows Pelt and Bisseling, "A medium-grain method for fast 2D bipartitioning of sparse
    matrices" (IPDPS 2014). In the paper, row i of H and row i of the product may have different
    owners. Here they have the same owner. So vertex i stands for both rows, and for the nonzeros
    that belong to row i or to column i::

        row of a hub       its nonzeros belong to their columns; a fold adds up the partial sums
        column of a hub    its nonzeros belong to their rows; an expand sends the hub's row of H

    So the nonzeros of a hub can be in several parts. If row i and column j have equally many
    nonzeros, nonzero (i, j) belongs to row i if i < j, else to column j. Diagonal nonzeros belong
    to their rows. `split_problem` builds the hypergraph.
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
        """Return why the matrix does not suit the model (see `FullRows`); "" if it does.

        A matrix with full rows or columns suits the model only if some of these are hubs
        (`FullRows.hubs`).
        """
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
    """Return for every nonzero whether its column has fewer nonzeros than its row: bool[nnz]."""
    in_column = np.bincount(matrix.indices, minlength=matrix.num_vertices)
    return lighter_side(matrix.indptr, matrix.indices, matrix.row_nonzeros(), in_column)


def split_problem(matrix: Graph, with_column: npt.NDArray[np.bool_]) -> EdgeProblem:
    """Build the hypergraph for a *split*, which says to which vertex every nonzero belongs.

    The connectivity-1 cut of the hypergraph is the volume of expand and fold.

    ========================  ==================================================================
    vertex i                  stands for row i of H and of the product, and for the nonzeros that
                              belong to row i or to column i; its weight is their number
    expand net of column j    has the pin j, whose part owns row j of H, and the pins i for which
                              (i, j) belongs to row i: their parts need row j
    fold net of row i         has the pin i, whose part owns row i of the product, and the pins j
                              for which (i, j) belongs to column j: their parts have partial sums
    ========================  ==================================================================

    Nets of one pin are left out. The source of the nets of column i and of row i is vertex i.

    `with_column`, bool[num_nonzeros], is True if a nonzero belongs to its column, False on the
    diagonal.
    """
    net_ptr, pins, source, weight, nonzero_vertex = split_nets(
        matrix.indptr, matrix.indices, with_column
    )
    rows = np.arange(matrix.num_vertices, dtype=np.int32)
    return EdgeProblem(Hypergraph(net_ptr, pins, weight, None, source), rows, nonzero_vertex)
