"""Blocks without dead rows, for a forward pass that computes only the wanted outputs.

An input row of a layer is *live* if the row itself, or a row that needs it, is an output of the
layer on any rank. Dead rows are neither computed nor sent:

    wanted rows        = outputs of layer L
    inputs of layer k  = outputs of layer k, and the columns of their nonzeros
    outputs of layer k = inputs of layer k + 1

From the last layer to the first, ranks send one byte per halo row: whether it is needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int64Array, nonzeros_of, places
from plancc_runtime.layouts.block import Block, Nonzeros, Numbering
from plancc_runtime.layouts.boundary import with_uses_sent
from plancc_runtime.layouts.routed import live_exchange
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers


def live_blocks(
    block: Block, wanted: Int64Array, layers: int, transport: Transport
) -> tuple[list[Block], list[Int64Array]]:
    """Return a block without dead rows for every layer, and the live rows. Collective.

    The live rows are local rows, ascending: inputs of the first layer, then outputs of every layer.
    A layer that drops nothing has the object `block` itself, unless boundary edges are sampled.

    Parameters:
        block: The block of all rows; from `boundary.ready_to_draw` if the boundary is sampled.
        wanted (int64[m]): Local rows whose outputs of the last layer are needed, ascending.
    """
    blocks: list[Block] = []
    rows = [wanted]
    for _ in range(layers):
        live, inputs = _live_block(block, rows[0], transport)
        blocks.insert(0, live)
        rows.insert(0, inputs)
    return blocks, rows


def live_halo(block: Block, rows: Int64Array) -> Int64Array:
    """Return the halo columns in which the local rows `rows` have nonzeros, ascending: int64[m]."""
    return block.num_inputs + np.flatnonzero(_marked(block, rows)[block.num_inputs :])


def isolated(block: Block, rows: Int64Array) -> Block:
    """Return a block that has only the given rows of `block`, and neither nonzeros nor messages.

    Such a block is enough for a layer whose product was computed once, before training.
    """
    return replace(
        block,
        inputs=block.inputs[rows],
        outputs=None,
        row_ptr=np.zeros(len(rows) + 1, np.int64),
        column=block.column[:0],
        value=block.value[:0],
        columns={},
        expand=Exchange.nothing(),
        halo=None if block.halo is None else block.halo[:0],
    )


def _live_block(
    block: Block, outputs: Int64Array, transport: Transport
) -> tuple[Block, Int64Array]:
    """Return a layer's block without dead rows, and its inputs' local numbers. Collective.

    `block` has all rows; `outputs` are the local rows that the layer must compute.
    """
    n = block.num_inputs
    live = _marked(block, outputs)
    sent = send_numbers(block.expand.reversed(), live[n:], transport)
    live[block.expand.send.row[sent]] = True
    inputs = np.flatnonzero(live[:n])
    numbering = block.numbering
    uses = None if numbering is None else numbering.uses  # peers may drop uses of live rows
    expand = live_exchange(block.expand, sent, live, transport)
    if len(outputs) == n and uses is None and expand is block.expand:
        return block, inputs

    number = places(live)
    row_ptr, nonzeros = nonzeros_of(block.row_ptr, outputs)
    if numbering is not None:
        numbering = Numbering(
            numbering.received[live[n:]],
            numbering.sent[sent],
            None if uses is None else _uses_left(block, uses, outputs, live[n:]),
        )
    return (
        with_uses_sent(
            replace(
                block,
                inputs=block.inputs[inputs],
                outputs=None if len(outputs) == len(inputs) else number[outputs].astype(np.int64),
                row_ptr=row_ptr,
                column=number[block.column[nonzeros]],
                value=block.value[nonzeros],
                columns=block.columns_at(nonzeros),
                expand=expand,
                halo=None if block.halo is None else block.halo[live[n:]],
                numbering=numbering,
            ),
            transport,
        ),
        inputs,
    )


def _uses_left(block: Block, uses: Nonzeros, outputs: Int64Array, live: Any) -> Nonzeros:
    """Return only the nonzeros in `uses` that are in a live output row and read a live halo row.

    `outputs` holds the live output rows; `live`, bool[halo rows], says which halo rows they need.
    """
    left = np.zeros(block.num_local_rows, np.bool_)
    left[outputs] = True
    in_halo = np.flatnonzero(block.column >= block.num_inputs)
    by_column = in_halo[np.argsort(block.column[in_halo], kind="stable")]
    kept = np.repeat(left, np.diff(block.row_ptr))[by_column]
    sizes = np.diff(np.concatenate([[0], np.cumsum(kept)])[uses.ptr])[live]
    return Nonzeros(np.concatenate([[0], np.cumsum(sizes)]), uses.number[kept])


def _marked(block: Block, rows: Int64Array) -> Any:
    """Return whether any of the local rows `rows` needs each column: bool[num_columns].

    A row needs its own column and the columns of its nonzeros.
    """
    marked = np.zeros(block.num_columns, np.bool_)
    marked[rows] = True
    _mark(block.row_ptr, block.column, rows, marked)
    return marked


@njit(cache=True, nogil=True)
def _mark(row_ptr: Any, column: Any, rows: Any, marked: Any) -> None:
    for i in rows:
        for a in range(row_ptr[i], row_ptr[i + 1]):
            marked[column[a]] = True
