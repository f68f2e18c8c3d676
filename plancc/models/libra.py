"""Model ``libra``: a greedy vertex cut for edge plans."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from plancc.graph.graph import Graph
from plancc.models import libra_kernels as kernels
from plancc.models.base import EdgeModel
from plancc.models.medium_grain import check_nonzeros_balanced
from plancc.models.problem import Assignment
from plancc.models.weights import Balance, check_num_parts

SLACK = 0.01
"""A part gets no more edges when its nonzeros exceed the mean by this relative amount."""


@dataclass(frozen=True)
class LibraModel(EdgeModel):
    """A greedy vertex cut: every edge goes to the least loaded part that holds one of its ends.

    This is Libra (Xie, Yan, Li and Zhang, "Distributed power-law graph computing", NIPS 2014) as Md
    et al. 2021 use it (section 5.1). Nonzeros (i, j) and (j, i) are one edge and stay together. A
    part *holds* a vertex if it has an edge of the vertex. The load of a part is its number of
    nonzeros. An edge goes to the least loaded part in the first of these lists in which some part
    has room:

    1. the parts that hold both ends,
    2. the parts that hold the end with fewer nonzeros,
    3. the parts that hold the other end,
    4. all parts.

    Two rules differ from Libra:

    - A part has room for an edge if its load stays at or below ``1 + SLACK`` times the mean load.
      Without such a bound, an unlucky order, such as row by row, can put nearly all edges into one
      part.
    - Vertices assign their edges in ascending order of their number of nonzeros. The random order
      of Md et al. 2021 needs 15 to 25% more copies of vertices on graphs with skewed degrees, at
      the same balance.

    The owner of a row is the part with the fewest nonzeros and own rows among the parts that hold
    its vertex. Vertices held by fewer parts choose first. Vertices without an edge come last, and
    choose among all parts.
    """

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Assignment:
        """Assign all nonzeros and rows; `seed` orders vertices that have equally many nonzeros.

        The notes are the figures of table 4 of Md et al. 2021: ``replication_factor``, the mean
        over the vertices with an edge, and ``edge_imbalance``, of the nonzeros off the diagonal.
        The method needs ``num_parts / 8`` bytes of memory for every vertex.
        """
        check_num_parts(matrix.num_vertices, num_parts)
        check_nonzeros_balanced("libra", balance)
        indptr, indices = matrix.indptr, matrix.indices
        in_row, in_column, diagonal = kernels.degrees(indptr, indices)
        degree = in_row + in_column
        shuffled = np.random.default_rng(seed).permutation(matrix.num_vertices).astype(np.int32)
        by_rank = shuffled[np.argsort(degree[shuffled], kind="stable")]
        rank = np.empty_like(by_rank)
        rank[by_rank] = np.arange(len(rank), dtype=np.int32)

        total = int(in_row.sum()) + int(diagonal[degree > 0].sum())
        ahead = kernels.ahead(indptr, indices, in_column, rank)
        held = np.zeros((len(rank), -(-num_parts // 64)), dtype=np.uint64)
        nonzero_owner = np.empty(matrix.num_nonzeros, dtype=np.int32)
        load = kernels.assign_edges(
            by_rank,
            rank,
            indptr,
            indices,
            ahead,
            diagonal,
            held,
            math.ceil((1 + SLACK) * total / num_parts),
            num_parts,
            nonzero_owner,
        )
        copies = kernels.num_held(held)
        choice = np.where(copies > 0, copies, num_parts + 1)
        owner = kernels.choose_owners(np.argsort(choice, kind="stable"), held, load)[rank]
        kernels.assign_rest(indptr, indices, ahead, diagonal, owner, nonzero_owner)
        notes: dict[str, int | float | str] = {}
        if load.any():
            notes["replication_factor"] = float(copies[copies > 0].mean())
            notes["edge_imbalance"] = float(load.max() / load.mean() - 1)
        return Assignment(owner, nonzero_owner, notes)
