"""The number of edges of every row on all ranks, by which means over neighbours are divided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from plancc_runtime.layouts.block import Block
from plancc_runtime.transport.base import Group, Transport
from plancc_runtime.transport.row_numbers import send_numbers


def with_whole_counts(block: Block, groups: Sequence[Group]) -> Block:
    """Return the block with every row's `edges` and `closed_edges`, summed over each group's ranks.

    Collective in every group.
    """
    edges = block.without_added_diagonal()
    counts = np.stack([np.diff(b.row_ptr) for b in (edges, edges.closed())])
    for group in groups:
        if group.size > 1:
            group.allreduce_sum(counts)
    return replace(block, edges=counts[0].copy(), closed_edges=counts[1].copy())


def with_whole_rows(block: Block, transport: Transport) -> Block:
    """Return the block with every row's `edges` and `closed_edges` on all ranks. Collective."""
    if block.fold is None:
        return block
    fold, own = block.fold, block.num_outputs
    edges = block.without_added_diagonal()
    counts = np.stack([np.diff(b.row_ptr) for b in (edges, edges.closed())], axis=1)
    np.add.at(counts, fold.receive.row, send_numbers(fold, counts[own:], transport))
    counts[own:] = send_numbers(fold.reversed(), counts[fold.receive.row], transport)
    whole, closed = counts.T.copy()
    return replace(block, edges=whole, closed_edges=closed)
