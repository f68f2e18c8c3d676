"""Model ``hp``: the column-net hypergraph of Demirci et al. 2022, section 4.3.2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.limits import Limits
from plancc.models.nets import column_nets
from plancc.models.problem import Hypergraph
from plancc.models.weights import Balance, check_num_parts, vertex_weights


@dataclass(frozen=True)
class HypergraphModel(Model):
    """The column-net hypergraph, whose connectivity-1 cut is the number of rows that parts send.

    ``pins(n_j) = {i : A[i, j] != 0} + {j}`` (Demirci et al. 2022, equation 10). In the paper, A has
    all diagonal entries. Here j is added if A[j, j] is 0, since the owner of row j sends the row. A
    part with a pin of n_j either owns row j or receives it once. So equation 11 with unit costs
    counts exactly the rows sent, even if the pattern of A is not symmetric::

            column j of A         net n_j, owners in brackets
            i=0  .                pins {1 [P0], 2 [P1], 3 [P1], j=4 [P2]}
            i=1  x                lambda = 3 -> row 4 goes from P2 to P0 and to P1: 2 rows
            i=2  x
            i=3  x
            i=4  .  <- j

    Nets of one pin are left out: they are never cut.
    """

    problem: ClassVar[type[Hypergraph]] = Hypergraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "volume"
    minimised: ClassVar[tuple[str, ...]] = ("volume",)
    starts_from_cut: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Hypergraph:
        """Build the hypergraph; `seed` is not used."""
        check_num_parts(matrix.num_vertices, num_parts)
        net_ptr, pins, column = column_nets(matrix.indptr, matrix.indices)
        return Hypergraph(net_ptr, pins, vertex_weights(matrix, balance), net_sources=column)


def hypergraph_of(matrix: Graph, limits: Limits) -> Hypergraph:
    """The column-net hypergraph of a matrix, with the vertex weights in `limits`."""
    problem = HypergraphModel().build(matrix, limits.num_parts, balance="nnz", seed=0)
    return replace(problem, vertex_weights=limits.vertex_weights)
