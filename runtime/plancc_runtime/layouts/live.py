"""Blocks without dead rows, for a pass that computes only wanted outputs.

The outputs of the last layer are the wanted rows. A row is *live* in the input of a layer if it is
an output of the layer or a neighbour of an output, on any rank. All other rows are dead, and are
neither computed nor sent:

    wanted rows        = outputs of layer L
    inputs of layer k  = outputs of layer k, and the columns of their nonzeros
    outputs of layer k = inputs of layer k + 1

From the last layer to the first, every rank marks the halo rows that its outputs need, and sends
the owners one byte per halo row. Then both ends of a message drop the same rows from it.
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
    """Return the blocks of a pass without dead rows, first layer first. Collective.

    Parameters:
        block: The block of all rows. If samples of the live rows are drawn, it must come from
            `boundary.ready_to_draw`; live rows and nonzeros keep their numbers in draws.
        wanted (int64[m]): Local rows whose output is wanted, ascending.

    Returns:
        blocks (list of Block, one per layer): The very object `block` if this rank drops nothing,
            unless nonzeros are drawn: the peers may then have dropped some of their nonzeros.
        rows (list of int64[...], one more than layers): Ascending local rows: the inputs of the
            first layer, then the outputs of every layer.
    """
    blocks: list[Block] = []
    rows = [wanted]
    for _ in range(layers):
        live, inputs = _live_block(block, rows[0], transport)
        blocks.insert(0, live)
        rows.insert(0, inputs)
    return blocks, rows


def live_halo(block: Block, rows: Int64Array) -> Int64Array:
    """Return the halo columns with nonzeros in these rows, ascending."""
    return block.num_inputs + np.flatnonzero(_marked(block, rows)[block.num_inputs :])


def isolated(block: Block, rows: Int64Array) -> Block:
    """Return these rows of a block, without nonzeros and messages.

    A layer whose product is fixed needs no more of its block.
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
    """Return the block of one layer, and the rows of `block` that are its inputs. Collective."""
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
    """Return the nonzeros of live halo rows that are in the rows `outputs`, with their numbers.

    Parameters:
        live (bool[halo rows]): Whether each halo row is live.
    """
    left = np.zeros(block.num_local_rows, np.bool_)
    left[outputs] = True
    in_halo = np.flatnonzero(block.column >= block.num_inputs)
    by_column = in_halo[np.argsort(block.column[in_halo], kind="stable")]
    kept = np.repeat(left, np.diff(block.row_ptr))[by_column]
    sizes = np.diff(np.concatenate([[0], np.cumsum(kept)])[uses.ptr])[live]
    return Nonzeros(np.concatenate([[0], np.cumsum(sizes)]), uses.number[kept])


def _marked(block: Block, rows: Int64Array) -> Any:
    """Mark the columns with nonzeros in these rows, and the rows: bool[num_columns]."""
    marked = np.zeros(block.num_columns, np.bool_)
    marked[rows] = True
    _mark(block.row_ptr, block.column, rows, marked)
    return marked


@njit(cache=True, nogil=True)
def _mark(row_ptr: Any, column: Any, rows: Any, marked: Any) -> None:
    for i in rows:
        for a in range(row_ptr[i], row_ptr[i + 1]):
            marked[column[a]] = True
