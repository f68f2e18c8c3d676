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

    This is Libra (Xie, Yan, Li and Zhang, "Distributed power-law graph computing", NIPS 2014) as
    Md et al. 2021 use it (section 5.1). Nonzeros (i, j) and (j, i) are one edge and stay together.
    If (j, i) is not a nonzero, (i, j) alone is the edge. A part *holds* a vertex if it has an edge
    of the vertex. For every edge, the model makes four lists of parts:

    1. the parts that hold both ends,
    2. the parts that hold the end with fewer nonzeros,
    3. the parts that hold the other end,
    4. all parts.

    It takes the first list in which some part has room. The edge goes to the least loaded part in
    this list. The load of a part is its number of nonzeros. The diagonal nonzero of a vertex is
    added to the load of the part that was the first to hold the vertex. Two rules differ from
    Libra:

    - A part has room for an edge if its load stays at or below ``1 + SLACK`` times the mean load.
      Libra has no such bound, and can put nearly all edges into one part if it gets them in an
      unlucky order, such as row by row.
    - Vertices are processed one after another, in ascending order of their number of nonzeros. Each
      vertex assigns its edges that have no owner yet. Md et al. 2021 process the edges in random
      order; on graphs with skewed degrees, their order needs 15 to 25% more copies of vertices at
      the same balance.

    The owner of a row is one of the parts that hold its vertex. Vertices held by fewer parts choose
    their owner first. Each vertex chooses the part that has the smallest sum of nonzeros and own
    rows so far. Vertices without an edge come last, and choose among all parts.
    """

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Assignment:
        """Assign all nonzeros and rows. `seed` orders vertices that have equally many nonzeros.

        The assignment takes ``num_parts / 8`` bytes of memory for every vertex: a bit for each part
        says whether the part holds the vertex.

        Returns:
            The owners, with the two figures of table 4 of Md et al. 2021 in `Assignment.notes`.
            ``replication_factor`` is the mean number of parts that hold a vertex, over all
            vertices with an edge. ``edge_imbalance`` is max / mean - 1 of the parts' numbers of
            nonzeros off the diagonal. If there is no edge, the notes are empty.
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
