"""Model ``gp``: the undirected graph of Demirci et al. 2022, section 4.3.1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from plancc.fields import option
from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.pattern import symmetrised
from plancc.models.problem import WeightedGraph
from plancc.models.weights import Balance, check_num_parts, vertex_weights
from plancc.registry import check_choice

OBJECTIVES = ("cut", "volume")


@dataclass(frozen=True)
class GraphModel(Model):
    """The undirected graph with an edge {i, j} if A has the nonzero (i, j) or (j, i).

    A partitioner minimises the edge cut. Every edge costs 1, even if A has only one of the two
    nonzeros (as in Demirci et al. 2022). So the edge cut is larger than the number of rows that
    parts send. With ``objective="volume"`` a partitioner minimises METIS' communication volume,
    which is exactly the number of rows sent if the pattern is symmetric.

    Attributes:
        objective: "cut" or "volume": what a partitioner minimises.
    """

    problem: ClassVar[type[WeightedGraph]] = WeightedGraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "cut"
    own_objectives: ClassVar[tuple[str, ...]] = ("cut",)
    minimised: ClassVar[tuple[str, ...]] = OBJECTIVES
    starts_from_cut: ClassVar[bool] = True

    objective: str = option("cut", "objective of the partitioner", internal=True)

    def with_objective(self, objective: str) -> GraphModel:
        return replace(self, objective=objective)

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> WeightedGraph:
        """Return the undirected graph with an edge {i, j} for each nonzero (i, j) or (j, i)."""
        check_choice("objective", self.objective, OBJECTIVES)
        check_num_parts(matrix.num_vertices, num_parts)
        pattern = symmetrised(matrix)
        return WeightedGraph(
            indptr=pattern.indptr.astype(np.int64),
            indices=pattern.indices.astype(np.int32, copy=False),
            vertex_weights=vertex_weights(matrix, balance),
            objective=self.objective,
        )
