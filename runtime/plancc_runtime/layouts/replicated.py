"""The 1.5D product (Tripathy et al. 2020, Algorithm 2): a process row has copies of a part, one per
rank.

Knows a rank's share of a grid plan and groups of ranks; must not know losses or files.

Rank (i, j) has part i, as the other c - 1 ranks of its process row do, and multiplies with chunk j
of the parts (Equation 3), which the ranks of its process column have too:

    forward, H -> A H:      for every part q of chunk j, H_q is broadcast in the process column
                            T_ij += A_iq H_q
                            T_i is the sum in the process row (all-reduce)
    adjoint, G -> A^T G:    for every part q of chunk j, A_iq^T G_i is reduced to the rank (q, j)
                            rank (i, chunk of i) broadcasts the sum in the process row

Where only needed rows travel, messages of the row plan take the place of the broadcasts and
reductions in the process column.

All copies compute the same loss, of which each counts one in c: gradients of the copies of a row
are equal, and each is 1 / c of the whole one; so they stay if every rank takes its own through the
adjoint, and those of the weights, summed over all ranks, are whole ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import Tensor

from plancc.plan.layers import Aggregate
from plancc.plan.parts import Part
from plancc.plan.words import AllReduceWords, BroadcastWords, Counts
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.grid import GridGraph, Product
from plancc_runtime.layouts.grid_block import (
    block_of_chunk,
    block_of_share,
    held_pieces,
    with_whole_counts,
)
from plancc_runtime.layouts.grid_pieces import counts_of, members
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.transport.group import as_transport
from plancc_runtime.workspace import empty


class ReplicatedGraph(GridGraph):
    """What a layer needs of the graph, on a grid "1.5d"; gradients are 1 / copies of whole ones."""

    _local: LocalGraph | None = None

    def _block_of(self, part: Part, self_loops: bool) -> Block:
        share = part.grid
        assert share is not None
        self.pieces = held_pieces(share)
        self.first_row, self.num_row_rows = part.first_row, part.num_rows
        self.place_in_row = slice(0, part.num_rows)
        if share.block is not None:
            return block_of_chunk(share, self_loops)
        return block_of_share(share, self_loops)

    def _with_whole_counts(self) -> Block:
        if self._block.edges is None:
            self._block = with_whole_counts(self._block, [self.row])
        return self._block

    def _new_product(self, coefficients: str) -> Product:
        if not self.grid.sparse:
            return super()._new_product(coefficients)
        if self._local is None:
            resources = replace(self.resources, transport=as_transport(self.column))
            self._local = LocalGraph(self._block, resources)
        return _Messages(self._local, coefficients)

    def forward_product(self, x: Tensor, coefficients: str) -> Tensor:
        """A x, outside of autograd. Collective."""
        out = self.lay_out(coefficients).forward(x.contiguous())
        with self.clock("wait"):
            self.row.allreduce_sum(out)
        return out

    def adjoint_product(self, g: Tensor, coefficients: str) -> Tensor:
        """A^T g, outside of autograd. Collective."""
        out = self.lay_out(coefficients).adjoint(g.contiguous())
        with self.clock("wait"):
            self.row.broadcast(out, self.grid.chunk(self.position.row))
        return out

    def _counts_of_sums(self, columns: int, back: bool) -> Counts:
        """Between the copies, of a product with so many columns."""
        words, group = np.array([self.num_inputs * columns]), members(self.row)
        if not back:
            return counts_of(self.row, AllReduceWords(group, words))
        root = np.array([[self.grid.chunk(self.position.row)]])
        return counts_of(self.row, BroadcastWords(group, words[None], root))


class _Messages:
    """The product where needed rows travel in the process column, with one set of coefficients."""

    def __init__(self, graph: LocalGraph, coefficients: str) -> None:
        self._graph, self._coefficients = graph, coefficients
        graph.lay_out(coefficients)

    def forward(self, x: Tensor) -> Tensor:
        """The sum over the chunk's columns: Tensor[rows of the part, width]. Collective."""
        return self._graph.forward_product(x[: self._graph.num_inputs], self._coefficients)

    def adjoint(self, g: Tensor) -> Tensor:
        """The rows of the part in A^T g; undefined where it is of another chunk. Collective."""
        graph = self._graph
        out = graph.adjoint_product(g, self._coefficients)
        return out if graph.num_inputs == len(g) else empty(len(g), g.shape[1], g)

    def release(self) -> None:
        self._graph.release_buffers()

    def counts(self, columns: int, back: bool) -> Counts:
        return self._graph.counts(Aggregate(columns, back=back))
