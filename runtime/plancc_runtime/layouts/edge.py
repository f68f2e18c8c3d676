"""The edge layout: a nonzero may live with any rank; expand, multiply, fold.

Knows a block and a transport; must not know layers, losses or files. A rank's local matrix has own
rows O and folded rows F, which are partial sums for the owners of the rows (as in the vertex cuts
of Md et al. 2021):

forward, H -> A H:

      H of m        own     halo                                      A H of m
    +---------+   +-------+------+                                  +---------+
    | own     |-->| F_own | F_h  |--> partial rows --> owners       | own     |  = O_own H
    | rows    |   +-------+------+                                  | rows    |  += O_h H_halo
    +---------+-->| O_own | O_h  |--------------------------------> |         |  += S_nm, partial
      expand ---> +-------+------+         partial rows of n -----> +---------+     rows of others

adjoint, G -> A^T G, is the same plan read backward: owners send rows of G to where they are folded
rows, and F^T G and O^T G go back along the expand. Every step moves the same rows both ways.

The two rounds of a product follow each other. Own rows are multiplied while they travel: by own
columns in the round that brings this rank more rows, by halo columns in the fold's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import Buffers, HaloExchange, complete
from plancc_runtime.layouts.row import both_ways, halo_block, halo_blocks, matrix_of
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers


def with_whole_rows(block: Block, transport: Transport) -> Block:
    """The block with the number of edges that its rows have on all ranks, which means need.

    Collective; once at the start: 16 bytes per folded row, to its owner and back. A block without
    a fold stays as it is.
    """
    if block.fold is None:
        return block
    fold, own = block.fold, block.num_outputs
    edges = block.without_added_diagonal()
    counts = np.stack([np.diff(b.row_ptr) for b in (edges, edges.closed())], axis=1)
    np.add.at(counts, fold.receive.row, send_numbers(fold, counts[own:], transport))
    counts[own:] = send_numbers(fold.reversed(), counts[fold.receive.row], transport)
    whole, closed = counts.T.copy()
    return replace(block, edges=whole, closed_edges=closed)


class EdgeLayout:
    """The distributed product with a matrix whose nonzeros are anywhere, one rank's share.

    Sums are made in the order of the peers, not of arrival, so that the same inputs on the same
    number of ranks give the same bits.

    Parameters
    ----------
    block : Block
        With a fold.
    halo, fold : HaloExchange
        Those of its expand, and of its fold reversed: own outputs are sent to where they are folded
        rows.
    """

    def __init__(self, block: Block, halo: HaloExchange[Any], fold: HaloExchange[Any]) -> None:
        resources = halo.resources
        self._halo, self._fold = halo, fold
        self._clock, self._overlap = resources.clock, resources.overlap
        self._expand_is_longer = block.num_halo >= block.num_folded
        matrix, own, n = matrix_of(block), block.num_outputs, block.num_inputs
        self._own, self._own_transposed = both_ways(matrix[:own, :n], resources)
        everything = range(block.expand.receive.num_messages), slice(None)
        self._own_halo = halo_block(*everything, matrix[:own, n:].T.tocsr(), resources)
        # of A^T, in which folded rows are the halo rows
        self._folded = halo_block(range(0), slice(None), matrix[own:, :n], resources)
        self._folded_halo = halo_blocks(
            matrix[own:, n:].T.tocsr(), block.expand.receive.row_ptr, resources
        )

    def forward(self, h: Tensor, out: Tensor, buffers: Buffers) -> None:
        """out = A h. Collective.

        Parameters
        ----------
        h : Tensor[num_inputs, width]
        out : Tensor[num_outputs, width]
            Own rows, contiguous.
        buffers : Buffers
            Buffers of the same width, with those of the fold; overwritten.
        """
        clock, fold = self._clock, _fold_of(buffers)
        early = self._overlap and self._expand_is_longer
        self._halo.send_rows(h, buffers)
        arrived = complete(self._halo.arrivals(buffers), self._folded_halo)
        if not self._overlap:
            with clock("wait"):
                arrived = iter(list(arrived))
        with clock("spmm"):
            self._folded.transposed.multiply(h, fold.halo)
            if early:
                self._own.multiply(h, out)
        while True:
            with clock("wait"):
                block = next(arrived, None)
            if block is None:
                break
            rows = self._halo.received(block.at, buffers)
            with clock("spmm"):
                block.matrix.multiply(rows, fold.halo, add=True, rows=block.rows)
        self._halo.finish(buffers)
        if self._overlap:
            self._fold.send_all_back(fold)
        with clock("spmm"):
            if not early:
                self._own.multiply(h, out)
            self._own_halo.matrix.multiply(buffers.halo, out, add=True, rows=self._own_halo.rows)
        if not self._overlap:
            self._fold.send_all_back(fold)
        self._fold.add_arrived(out, fold)

    def adjoint(self, g: Tensor, out: Tensor, buffers: Buffers) -> None:
        """out = A^T g. Collective.

        g : Tensor[num_outputs, width], out : Tensor[num_inputs, width]; otherwise as `forward`.
        """
        clock, fold = self._clock, _fold_of(buffers)
        late = self._overlap and self._expand_is_longer
        self._fold.send_rows(g, fold)
        if not self._overlap:
            self._fold.finish(fold)
        with clock("spmm"):
            self._own_halo.transposed.multiply(g, buffers.halo)
            if not late:
                self._own_transposed.multiply(g, out)
        if self._overlap:
            self._fold.finish(fold)
        folded = self._fold.received(slice(None), fold)
        self._halo.start_back(buffers)
        for block in self._folded_halo:
            with clock("spmm"):
                block.transposed.multiply(folded, buffers.halo[block.at], add=True)
            self._halo.send_back(block.messages, block.at, buffers)
        self._halo.sent_back(buffers)
        with clock("spmm"):
            if late:
                self._own_transposed.multiply(g, out)
            self._folded.matrix.multiply(folded, out, add=True, rows=self._folded.rows)
        self._halo.add_arrived(out, buffers)


def _fold_of(buffers: Buffers) -> Buffers:
    assert buffers.fold is not None
    return buffers.fold
