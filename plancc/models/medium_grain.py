"""Medium-grain model of edge plans: ``medium-grain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.base import EdgeModel
from plancc.models.crowd import Crowd
from plancc.models.edge_nets import lighter_side, split_nets
from plancc.models.problem import EdgeProblem, Hypergraph
from plancc.models.weights import Balance, check_num_parts

INSTEAD_OF_SEARCH = "take a process grid for many rows alike, or these owners of libra"
"""What a model of single nonzeros says where it does not search (`Crowd`)."""


@dataclass(frozen=True)
class MediumGrainModel(EdgeModel):
    """Every nonzero goes with its row or with its column, whichever is lighter.

    After Pelt and Bisseling, "A medium-grain method for fast 2D bipartitioning of sparse matrices"
    (IPDPS 2014), made conformal: row i of H and row i of the product have one owner, so vertex i
    stands for both, and for the nonzeros that go with row i or with column i::

        a hub's row:  x x x x x x    its nonzeros go with the columns: the row is folded,
        a hub's column likewise is expanded, and no part has to hold a hub

    Rows and columns are as heavy as they have nonzeros; of equal ones the one of the lower number
    counts as lighter. The diagonal goes with the rows. `split_problem` has the hypergraph.
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
        """A clique: its nets have pins in nearly every part."""
        crowd = Crowd.of(matrix, num_parts)
        if crowd is None or crowd.hubs:
            return ""
        return f"model 'medium-grain' is not made for this graph: {crowd}; {INSTEAD_OF_SEARCH}"


def check_nonzeros_balanced(model: str, balance: str | Balance) -> None:
    """Refuse any balance but that of the nonzeros.

    Raises:
        InputError
    """
    if isinstance(balance, str):
        balance = Balance.parse(balance)
    if balance.names != ("nnz",):
        raise InputError(f"model '{model}' balances nonzeros: balance '{balance}' cannot be had")


def lighter_columns(matrix: Graph) -> npt.NDArray[np.bool_]:
    """Whether every nonzero goes with its column in `MediumGrainModel`, bool[nnz]."""
    in_column = np.bincount(matrix.indices, minlength=matrix.num_vertices)
    return lighter_side(matrix.indptr, matrix.indices, matrix.row_nonzeros(), in_column)


def split_problem(matrix: Graph, with_column: npt.NDArray[np.bool_]) -> EdgeProblem:
    """The hypergraph of a split: its connectivity - 1 is the volume of expand and fold.

    ========================  ==================================================================
    vertex i                  the owner of row i of H and of the product, and of the nonzeros that
                              go with row i or with column i: as many are its weight
    expand net of column j    j, which has row j of H, and ``{i : (i, j) goes with row i}``, which
                              need it
    fold net of row i         i, which wants the sum, and ``{j : (i, j) goes with column j}``,
                              which have partial sums
    ========================  ==================================================================

    A part that holds nonzeros of column j with several rows, or owns j, is counted once in the
    net of j, as it receives row j once; in the fold likewise. Nets of one pin are left out; the
    sources are j and i.

    Parameters:
        with_column (bool[num_nonzeros]): Whether a nonzero goes with its column; False on the
            diagonal.
    """
    net_ptr, pins, source, weight, nonzero_vertex = split_nets(
        matrix.indptr, matrix.indices, with_column
    )
    rows = np.arange(matrix.num_vertices, dtype=np.int32)
    return EdgeProblem(Hypergraph(net_ptr, pins, weight, None, source), rows, nonzero_vertex)
