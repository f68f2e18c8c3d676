"""Model ``fine-grain`` of edge plans: a hypergraph with a vertex for every nonzero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.base import EdgeModel
from plancc.models.full_rows import FullRows
from plancc.models.medium_grain import INSTEAD_OF_SEARCH, check_nonzeros_balanced
from plancc.models.problem import EdgeProblem, Hypergraph
from plancc.models.weights import Balance, check_num_parts

MAX_NUM_VERTICES = 2**31 - 1
"""Largest number of vertices of the hypergraph, since pins are int32."""


@dataclass(frozen=True)
class FineGrainModel(EdgeModel):
    """A hypergraph with a vertex for every nonzero, a net for every column and a net for every row.

    It follows Catalyurek and Aykanat, "A fine-grain hypergraph model for 2D decomposition of sparse
    matrices" (IPDPS 2001). Nonzero (i, j) is a pin of two nets: the expand net of column j, and the
    fold net of row i. A part with a pin in the expand net of column j needs row j of H. A part with
    a pin in the fold net of row i computes a partial sum of row i. The nonzero (i, i) is a pin of
    both nets of i, and the part of (i, i) owns row i of H and of the product. If (i, i) is zero, a
    vertex of weight 0 takes its place, as vertex f does in this example::

                   0  1  2          expand net of column 1   {b (0, 1), e (1, 1), d (2, 1)}
            0      a  b  .          fold net of row 2        {c (2, 0), d (2, 1), f (2, 2)}
            1      .  e  .          f has no nonzero: it weighs 0, and its part owns row 2
            2      c  d [f]

    So the connectivity of the expand net of i, less 1, is the number of times that the owner sends
    row i. The connectivity of the fold net of i, less 1, is the number of partial sums of row i
    that the owner receives. The sum over all nets is the volume of expand and fold. Every edge plan
    is a partition of this hypergraph. The model suits smaller graphs only, since every nonzero is a
    vertex.
    """

    problem: ClassVar[type[Hypergraph]] = Hypergraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "volume"
    partitioned_first: ClassVar[bool] = True

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """Say why the matrix does not suit the model (see `FullRows`); "" if it suits."""
        full = FullRows.of(matrix, num_parts)
        if full is None:
            return ""
        return f"model 'fine-grain' is not made for this graph: {full}; {INSTEAD_OF_SEARCH}"

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> EdgeProblem:
        """Build the problem: vertex k is nonzero k; vertices for zeros on the diagonal come last.

        Nets of columns come before nets of rows, without nets of one pin. The source of the nets of
        column i and row i is the vertex of (i, i).
        """
        check_num_parts(matrix.num_vertices, num_parts)
        check_nonzeros_balanced("fine-grain", balance)
        n, num_nonzeros = matrix.num_vertices, matrix.num_nonzeros
        row = np.repeat(np.arange(n, dtype=np.int32), matrix.row_nonzeros())
        diagonal = np.flatnonzero(row == matrix.indices)
        missing = np.setdiff1d(np.arange(n, dtype=np.int32), row[diagonal], assume_unique=True)
        num_vertices = num_nonzeros + len(missing)
        if num_vertices > MAX_NUM_VERTICES:
            what = f"{num_vertices:,} nonzeros and zeros on the diagonal of {matrix.source.name}"
            told = f"are more than {MAX_NUM_VERTICES:,}; use 'medium-grain'"
            raise InputError(f"model 'fine-grain': {what} {told}")
        row_vertex = np.empty(n, dtype=np.int32)
        row_vertex[row[diagonal]] = diagonal
        row_vertex[missing] = np.arange(num_nonzeros, num_vertices)
        weights = np.zeros(num_vertices, dtype=np.int64)
        weights[:num_nonzeros] = 1

        net = np.concatenate([matrix.indices, missing, row, missing]).astype(np.int64)
        net[num_vertices:] += n
        size = np.bincount(net, minlength=2 * n)
        kept = size > 1
        pins = np.argsort(net, kind="stable")[np.repeat(kept, size)] % num_vertices
        hypergraph = Hypergraph(
            np.concatenate([[0], np.cumsum(size[kept])]),
            pins.astype(np.int32),
            weights,
            net_sources=np.tile(row_vertex, 2)[kept],
        )
        return EdgeProblem(hypergraph, row_vertex, np.arange(num_nonzeros, dtype=np.int32))
