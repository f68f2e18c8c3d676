"""The product with a block of a row or edge plan, one rank's share: its program, bound.

Knows a block and its exchanges; must not know layers, losses or files. It keeps nothing between two
products but the matrix: the caller owns all dense arrays.

forward, H -> A H; folded rows, which edge plans have (Md et al. 2021), are partial sums for the
owners of the rows:

      H of m        own     halo                                      A H of m
    +---------+   +-------+------+                                  +---------+
    | own     |-->| F_own | F_h  |--> partial rows --> owners       | own     |  = O_own H
    | rows    |   +-------+------+                                  | rows    |  += O_h H_halo
    +---------+-->| O_own | O_h  |--------------------------------> |         |  += S_nm, partial
      expand ---> +-------+------+         partial rows of n -----> +---------+     rows of others

adjoint, G -> A^T G: the same read backward (Demirci et al. 2022, Algorithms 1 and 2, with A^T for
directed matrices). It needs no second plan; both directions move the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.plan.exchange import Int64Array
from plancc.plan.products import Program, adjoint, without_messages
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.executor import ALL, BlockPiece, Executor
from plancc_runtime.layouts.halo import Buffers, HaloExchange
from plancc_runtime.layouts.matrices import (
    HaloBlock,
    both_ways,
    halo_block,
    halo_blocks,
    halo_part,
    matrix_of,
)
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers

ARRIVING = {"expand": "halo", "fold": "folded"}
"""The spaces of the rows that exchanges bring, or take back."""
_Blocks = dict[tuple[str, bool], list[BlockPiece]]


class BlockProduct:
    """The product with a block, outside of autograd.

    Parameters
    ----------
    program : Program
    block : Block
    exchanges : mapping of str to HaloExchange
        "expand"; for a block with a fold, "fold": that of own outputs to where they are folded
        rows.
    """

    def __init__(
        self, program: Program, block: Block, exchanges: Mapping[str, HaloExchange[Any]]
    ) -> None:
        self._program, self._exchanges = program, exchanges
        self._resources = resources = exchanges["expand"].resources
        matrix, n, own = matrix_of(block), block.num_inputs, block.num_outputs
        row_ptr = block.expand.receive.row_ptr
        if block.fold is None:
            self._blocks = _of_own(matrix[:, :n] if block.num_halo else matrix, resources)
            self._blocks |= _of_halo("halo", halo_blocks(halo_part(block), row_ptr, resources))
        else:
            self._blocks = _of_own(matrix[:own, :n], resources)
            messages = range(block.expand.receive.num_messages)
            halo = halo_block(messages, ALL, matrix[:own, n:].T.tocsr(), resources)
            partial = halo_blocks(matrix[own:, n:].T.tocsr(), row_ptr, resources)
            # of A^T, in which folded rows are the halo rows
            folded = halo_block(range(0), ALL, matrix[own:, :n], resources)
            self._blocks |= _of_halo("halo", [halo]) | _of_halo("folded_halo", partial)
            there, back = _of_halo("folded", [folded]).values()
            self._blocks |= {("folded", False): back, ("folded", True): there}
        self._executors: dict[tuple[bool, bool], Executor] = {}

    def with_halo(
        self, part: csr_matrix, recv_ptr: Int64Array, halo: HaloExchange[Any]
    ) -> BlockProduct:
        """The same own nonzeros, which are not laid out again, with other halo rows; of row plans.

        Parameters
        ----------
        part : csr_matrix[halo rows, local rows]
            As `halo_part` returns it.
        recv_ptr : int64[r + 1]
            Which of the halo rows every message has.
        halo : HaloExchange
            The exchange of these messages.
        """
        product = copy(self)
        blocks = halo_blocks(part, recv_ptr, halo.resources)
        product._exchanges, product._executors = {"expand": halo}, {}
        product._blocks = self._blocks | _of_halo("halo", blocks)
        return product

    def multiply(
        self,
        source: Tensor,
        out: Tensor,
        buffers: Mapping[str, Buffers] | None,
        back: bool = False,
    ) -> None:
        """out = A source, or `back`, out = A^T source. Collective, with buffers.

        Parameters
        ----------
        source : Tensor[num_inputs, width]
            `back`: [num_outputs, width].
        out : Tensor[num_outputs, width]
            Contiguous; `back`: [num_inputs, width].
        buffers : mapping of str to Buffers, or None
            Those of the exchanges, of the same width; overwritten. None, of a row plan: nothing
            travels, inputs have the halo rows behind own ones.
        back : bool
        """
        x, y = (out, source) if back else (source, out)
        if buffers is None:
            own = self._exchanges["expand"].num_inputs
            spaces = {"x": x[:own], "halo": x[own:], "y": y}
        else:
            spaces = {"x": x, "y": y}
            spaces |= {ARRIVING[name]: each.halo for name, each in buffers.items()}
        self._executor(back, at_hand=buffers is None).run(spaces, buffers or {})

    def _executor(self, back: bool, at_hand: bool) -> Executor:
        if (back, at_hand) not in self._executors:
            program = without_messages(self._program) if at_hand else self._program
            steps = adjoint(program) if back else program
            executor = Executor(steps, self._blocks, self._exchanges, self._resources)
            self._executors[back, at_hand] = executor
        return self._executors[back, at_hand]


def _of_own(matrix: csr_matrix, resources: Resources) -> _Blocks:
    there, back = both_ways(matrix, resources)
    return {("own", False): [BlockPiece(there)], ("own", True): [BlockPiece(back)]}


def _of_halo(name: str, blocks: list[HaloBlock]) -> _Blocks:
    """Columns of halo rows, and their transposes, in which halo rows are made."""
    return {
        (name, False): [BlockPiece(b.matrix, b.messages, source=b.at, rows=b.rows) for b in blocks],
        (name, True): [BlockPiece(b.transposed, b.messages, target=b.at) for b in blocks],
    }


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
