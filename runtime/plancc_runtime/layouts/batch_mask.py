"""Masks that select a rank's share of a mini-batch from the rank's slice of the plan.

Every rank draws the same mini-batches, so no index is sent in a step. Once, at the start, ranks
send the vertex numbers of halo rows, and *boundary pins*: rows of a receiver that need a sent row.

    row j of rank m goes to rank n if the mini-batch keeps a nonzero (i, j) of a row i of rank n

      m: row j is sent to n;          n: row j is a halo row;
         pins of (n, j): i, i', ...      its column has nonzeros in the rows i, i', ...

This module must not know layers, losses or files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Literal

import numpy as np

from plancc.clock import Clock
from plancc.kernel import njit
from plancc.plan.exchange import BoolArray, Int32Array, Int64Array, offsets
from plancc.sampling import Batch, BatchLayer
from plancc.sampling.batch import Floats
from plancc.sampling.kernels import ascending, distinct, found_in, order_by_vertex
from plancc_runtime.layouts.batch_seeds import Seeds
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import halo_vertices
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_lists

RowsOfBlocks = Literal["all", "live", "in place"]
"""Rows in the blocks of a batch.

"all": every block has all rows of the batch. "live": the outputs of a block are the rows that have
nonzeros in the block and the rows that the next layer reads; the inputs of the block are its
outputs and its columns. "in place": like "live", but the inputs of the first block are all rows of
the slice. All choices keep the same nonzeros and messages."""


@dataclass(frozen=True, eq=False)
class KeptBlock:
    """What one block of a mini-batch keeps of a rank's slice: nonzeros, and rows in messages.

    Attributes:
        nonzeros (int64[m]): Positions in the arrays of the slice; ascending.
        rows (int32[m]): Index of every nonzero's row in the mini-batch.
        columns (int32[m]): Index of every nonzero's column in the slice.
        factors (float64[m] or None): Factors of the nonzeros' values; None if all are 1.
        received (int64[...]): Positions of the block's halo rows among the slice's halo rows.
        sent (int64[...]): Positions of the block's sent rows among the slice's sent rows. Both are
            ascending.
    """

    nonzeros: Int64Array
    rows: Int32Array
    columns: Int32Array
    factors: Floats | None
    received: Int64Array
    sent: Int64Array

    def of(
        self,
        whole: Block,
        rows: Int64Array,
        live: BoolArray,
        scratch: tuple[Int32Array, Int32Array],
        in_place: bool,
    ) -> tuple[Block, Int64Array, Int64Array]:
        """Return the mini-batch's block, and the ascending indices in `rows` of outputs and inputs.

        Parameters:
            rows (int64[m]): Rows of the slice that take part in the mini-batch.
            live (bool[m]): Whether a row is an output even if it has no nonzeros. The array is
                overwritten: afterwards, it marks the outputs and the inputs.
            scratch (int32[num_inputs or more], int32[num_halo]): The first array has the index in
                `rows` of every row of the slice that is there; the second is memory for work.
            in_place: Whether all rows of the slice are inputs, so that no row must be copied.
        """
        assert whole.halo is not None
        place = (rows, whole.num_inputs) if in_place else (rows[:0], 0)
        expand = whole.expand.keep(self.sent, self.received)
        parts = self.rows, self.columns, self.received, expand.send.row
        ends, number, row_ptr, column = _laid_out(parts, whole.num_inputs, live, scratch, place)
        outputs, inputs = ends
        if len(whole.value) and not whole.value.strides[0]:  # no layer reads values: one number
            value = whole.value[: len(column)]
        else:
            value = whole.value[self.nonzeros]
            value = value if self.factors is None else value * self.factors
        if expand.send.num_messages or expand.receive.num_messages:
            expand = expand.renumbered(scratch[0], scratch[1]).renumbered(number)
        same = not in_place and len(outputs) == len(inputs)
        block = replace(
            whole,
            inputs=whole.inputs if in_place else whole.inputs[rows[inputs]],
            outputs=None if same else number[outputs].astype(np.int64),
            row_ptr=row_ptr,
            column=column,
            value=value,
            factor=self.factors,
            columns=whole.columns_at(self.nonzeros),
            expand=expand,
            halo=whole.halo[self.received],
        )
        return block, outputs, inputs


@dataclass(frozen=True, eq=False)
class LocalBatch:
    """One rank's share of a mini-batch.

    Attributes:
        rows (int64[m]): Local rows of the slice that are in at least one block; ascending.
        targets (bool[m]): Whether the output of each of `rows` counts for the loss.
        blocks: The block of every layer, or one block that all layers share.
        halos, sents (lists of int64[...]): Positions of each block's halo and sent rows in the
            slice.
        inputs (int64[...]): Local rows that are inputs of the first block.
        outputs (int64[...] or None): Positions in `rows` of the last block's outputs; None: all.
        seeds: Seeds whose rows are the targets, if the task draws seeds; else None.
    """

    rows: Int64Array
    targets: BoolArray
    blocks: list[Block]
    halos: list[Int64Array]
    sents: list[Int64Array]
    inputs: Int64Array
    outputs: Int64Array | None
    seeds: Seeds | None = None

    @classmethod
    def of(
        cls,
        whole: Block,
        rows: Int64Array,
        targets: BoolArray,
        kept: list[KeptBlock],
        scratch: tuple[Int32Array, Int32Array],
        which: RowsOfBlocks,
    ) -> LocalBatch:
        """Return this rank's share of a mini-batch with the blocks `kept`.

        `scratch` is as in `KeptBlock.of`; `which` says which rows each block has.
        """
        live = targets | (which == "all")
        made = [  # from the last block back: a block marks the rows that the block before computes
            each.of(whole, rows, live, scratch, which == "in place" and k == 0)
            for k, each in reversed(list(enumerate(kept)))
        ]
        return cls(
            rows,
            targets,
            [block for block, _, _ in reversed(made)],
            [each.received for each in kept],
            [each.sent for each in kept],
            inputs=rows[made[-1][2]],
            outputs=None if which == "all" else made[0][1],
        )


class BatchMask:
    """Selects a rank's share of mini-batches from its slice: rows, nonzeros and messages.

    The constructor is collective, and part k must be on rank k. An instance takes 4 bytes per
    nonzero of the rank, 8 per boundary pin (see the module), and 24 per vertex of an own row, a
    halo row or a pin. For batches that list their nonzeros (`plancc.sampling.Batch.listed`), an
    instance takes 4 more bytes per nonzero and pin, unless rows are sorted by vertex.
    """

    def __init__(self, part: Block, transport: Transport) -> None:
        halo, pin_ptr, pins = _boundary(part, transport)
        self._part = part = replace(part, halo=halo)
        self._num_nonzeros = len(part.column)
        # Vertices of own rows, of halo rows, and of rows of peers that are only pins. Columns of
        # the slice are places among own and halo rows.
        foreign, place = np.unique(np.concatenate([halo, pins]), return_inverse=True)
        only_pins = np.setdiff1d(foreign, halo, assume_unique=True)
        self._vertices = np.concatenate([part.inputs, halo, only_pins])
        at = np.empty(len(foreign), dtype=np.int32)  # from 0 after the own rows
        at[np.searchsorted(foreign, self._vertices[part.num_inputs :])] = np.arange(len(foreign))
        # One CSR over all these rows: first the slice; then, for every row of another rank, its
        # pins: its nonzeros in columns of own rows.
        row = at[place[len(halo) :]]
        by_row = np.argsort(row, kind="stable")
        send = part.expand.send
        sent = np.repeat(np.arange(send.volume, dtype=np.int32), np.diff(pin_ptr))
        self._sent = sent[by_row]
        used_ptr = offsets(np.bincount(row, minlength=len(foreign)))
        self._ptr = np.concatenate([part.row_ptr, self._num_nonzeros + used_ptr[1:]])
        self._columns = np.concatenate([part.column, send.row[self._sent]])
        self._place = np.argsort(self._vertices).astype(np.int32)
        self._ascending = self._vertices[self._place]
        # Scratch memory: the number of every vertex in the batch, -1 for all vertices between two
        # batches; and the number of every halo row in a block, undefined if the block lacks it.
        self._number = np.full(len(self._vertices), -1, np.int32)
        self._slot = np.empty(part.num_halo, np.int32)
        self._in_use = Lock()

    @cached_property
    def _by_vertex(self) -> Int32Array:
        """For every row, the positions of its nonzeros in the row, sorted by the column's vertex.

        The array is int32[nonzeros + boundary pins (see the module)], row by row. It is empty if
        every row is sorted already.
        """
        found, ascending = order_by_vertex(self._ptr, self._columns, self._vertices)
        return np.empty(0, np.int32) if ascending else found

    def local(
        self, batch: Batch, clock: Clock | None = None, which: RowsOfBlocks = "all"
    ) -> LocalBatch:
        """Return this rank's share of `batch`. Not collective.

        `clock` counts the time of the draw as "draw".
        """
        with (clock or Clock())("draw"):
            vertices = batch.vertices()  # draws the blocks too if the batch is `listed`
        members = self._places(vertices)
        own = members[: np.searchsorted(members, self._part.num_inputs)]
        with self._in_use:
            self._number[members] = np.arange(len(members), dtype=np.int32)
            try:
                kept = [self._block(batch, k, members) for k in range(batch.num_blocks)]
                wanted = batch.targets()
                targets = np.full(len(own), wanted is None)
                if wanted is not None:
                    at = self._places(wanted)
                    targets[self._number[at[at < self._part.num_inputs]]] = True
                scratch = self._number, self._slot
                return LocalBatch.of(self._part, own, targets, kept, scratch, which)
            finally:
                self._number[members] = -1

    @property
    def halo(self) -> Int32Array:
        """Vertices of the halo rows of the slice: int32[num_halo]."""
        assert self._part.halo is not None
        return self._part.halo

    def _places(self, vertices: Int32Array | None) -> Int64Array:
        """Return the ascending positions of `vertices` in the list `_vertices`: int64[m].

        Vertices that are not in this list are left out. None stands for all vertices in the list.
        """
        if vertices is None:
            return np.arange(len(self._vertices))
        at = found_in(self._ascending, self._place, vertices)
        found: Int64Array = ascending(at[at >= 0])
        return found

    def _block(self, batch: Batch, block: int, members: Int64Array) -> KeptBlock:
        """Return block number `block` of the mini-batch: nonzeros, and rows to send and to receive.

        `members` are the positions in `_vertices` of the mini-batch's vertices on this rank.
        """
        part, number = self._part, self._number
        factors: Floats | None
        if batch.listed:
            kept, rows, factors = self._listed(batch.block(block))
        else:
            kept, rows, columns = between(self._ptr, self._columns, members, number)
            factors = batch.factors(block, self._vertices[members], rows, columns)
            if factors is not None:
                left = np.flatnonzero(factors)
                kept, rows, factors = kept[left], rows[left], factors[left]
        local = int(np.searchsorted(kept, self._num_nonzeros))
        nonzeros, pins = kept[:local], kept[local:] - self._num_nonzeros
        columns, _, halo = columns_of(nonzeros, part.column, part.num_inputs)
        sent = distinct(self._sent[pins]).astype(np.int64)
        if factors is not None:
            factors = factors[:local]
        return KeptBlock(nonzeros, rows[:local], columns, factors, distinct(halo), sent)

    def _listed(self, layer: BatchLayer) -> tuple[Int64Array, Int32Array, Floats]:
        """Return the nonzeros of a sampled block that this rank's CSR matrix has.

        For every nonzero: position in the CSR arrays (ascending), int64[m]; index of its row in the
        mini-batch, int32[m]; and factor, float64[m].
        """
        assert layer.places is not None
        assert layer.factors is not None
        at = found_in(self._ascending, self._place, layer.rows)
        found, rows, ascends = _positions(
            at,
            (layer.ptr, layer.columns, layer.places),
            (self._ptr, self._columns, self._by_vertex, self._vertices),
            self._part.num_inputs,
            self._number,
        )
        factors = layer.factors
        if not ascends:
            order = np.argsort(found)
            order = order[np.searchsorted(found[order], 0) :]  # drop the missing nonzeros (-1)
            found, rows, factors = found[order], rows[order], factors[order]
        return found, rows, factors


@njit(cache=True, nogil=True)
def _positions(at: Any, layer: Any, csr: Any, num_own: int, number: Any) -> Any:
    """Search a rank's CSR matrix for the nonzeros of a mini-batch's block.

    Return each nonzero's position in the matrix (int64[m]; -1 if missing), its row in the
    mini-batch (int32[m]), and whether none is missing and positions ascend.

    Parameters:
        at: Index in the CSR matrix of every row of the block; -1 if missing.
        layer: Three arrays: row pointers of the block; for every nonzero, the vertex of its column;
            for every nonzero, its position in its row of the graph's matrix.
        csr: Four arrays: row pointers and columns of the matrix; an order of each row's nonzeros by
            vertex (`BatchMask._by_vertex`); the vertex of each column.
        num_own: Number of own rows, which are the first rows of the matrix.
        number: For every row of the matrix, its index in the mini-batch.
    """
    (layer_ptr, layer_columns, layer_places), (ptr, columns, by_vertex, vertices) = layer, csr
    found = np.empty(layer_ptr[-1], dtype=np.int64)
    rows = np.empty(layer_ptr[-1], dtype=np.int32)
    in_order = len(by_vertex) == 0
    ascends, last = True, -1
    for k in range(len(at)):
        i = at[k]
        for a in range(layer_ptr[k], layer_ptr[k + 1]):
            found[a], rows[a] = -1, -1
            if i >= 0:
                rows[a] = number[i]
                low, high = ptr[i], ptr[i + 1]
                if i < num_own:  # a whole row
                    # The CSR has all nonzeros of own rows: the sampler's place is valid. Of other
                    # rows the CSR has the pins only: they are searched by vertex.
                    low, high = low + layer_places[a], low
                while low < high:
                    middle = (low + high) // 2
                    pin = middle if in_order else ptr[i] + by_vertex[middle]
                    if vertices[columns[pin]] < layer_columns[a]:
                        low = middle + 1
                    else:
                        high = middle
                if low < ptr[i + 1]:
                    pin = low if in_order else ptr[i] + by_vertex[low]
                    if i < num_own or vertices[columns[pin]] == layer_columns[a]:
                        found[a] = pin
            # The caller sorts only if the places do not ascend.
            ascends &= found[a] > last
            last = found[a]
    return found, rows, ascends


@njit(cache=True, nogil=True)
def between(ptr: Any, columns: Any, places: Any, number: Any) -> Any:
    """Return the nonzeros in the rows `places` and in columns of the mini-batch, in CSR order.

    For each: position in `columns`, and row and column in the mini-batch: int64[m], int32[m],
    int32[m]. `number` has the mini-batch's index of every row and column, or -1.
    """
    most = 0
    for i in places:
        most += ptr[i + 1] - ptr[i]
    found = np.empty(most, dtype=np.int64)
    found_rows = np.empty(most, dtype=np.int32)
    found_columns = np.empty(most, dtype=np.int32)
    size = 0
    for i in places:
        for a in range(ptr[i], ptr[i + 1]):
            j = number[columns[a]]
            found[size] = a  # kept if the column is inside, else overwritten: no branch
            found_rows[size] = number[i]
            found_columns[size] = j
            size += j >= 0
    return found[:size], found_rows[:size], found_columns[:size]


@njit(cache=True, nogil=True)
def columns_of(nonzeros: Any, column: Any, num_rows: int) -> Any:
    """Return the columns of the given nonzeros: all columns, the own columns, the halo columns.

    The first array is int32[m], the others are int64. Own columns are below `num_rows`; in the last
    array, halo columns are numbered from 0.
    """
    columns = np.empty(len(nonzeros), dtype=np.int32)
    for k in range(len(nonzeros)):  # a separate loop: its cache misses overlap
        columns[k] = column[nonzeros[k]]
    own, halo = np.empty_like(nonzeros), np.empty_like(nonzeros)
    size = 0
    for k in range(len(nonzeros)):
        j = columns[k]
        own[size], halo[k - size] = j, j - num_rows  # one value is kept, the other overwritten
        size += j < num_rows
    return columns, own[:size], halo[: len(nonzeros) - size]


@njit(cache=True, nogil=True)
def _laid_out(parts: Any, num_rows: int, live: Any, scratch: Any, place: Any) -> Any:
    """Drop the rows that a block does not need, and number its rows and columns.

    Return outputs and inputs (positions in the batch), the block's column of every batch row,
    int32[m], and the block's `row_ptr` and `column`.

    Parameters:
        parts: Rows and columns of the nonzeros, halo columns from 0 in the order in which their
            rows arrive, and sent rows; all but the halo columns are numbered as in the slice.
        num_rows: Number of rows of the slice.
        live, scratch: As in `KeptBlock.of`.
        place: If all rows are inputs, every batch row's column and the number of own columns; else
            an empty array and 0.
    """
    (rows, columns, received, sent), (number, slot), n = parts, scratch, len(live)
    for k in range(len(received)):
        slot[received[k]] = k
    size_of = np.zeros(n, dtype=np.int64)
    for i in rows:
        size_of[i] += 1
    outputs, inputs = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    row_ptr = np.zeros(n + 1, dtype=np.int64)
    size = 0
    for i in range(n):
        # Outputs are rows with nonzeros, and rows that the next layer reads. Inputs are the
        # outputs, all own columns, and rows that other ranks receive.
        live[i] |= size_of[i] > 0
        outputs[size] = i  # kept if live, else overwritten
        row_ptr[size + 1] = row_ptr[size] + size_of[i]
        size += live[i]
    for j in columns:
        if j < num_rows:
            live[number[j]] = True
    for j in sent:
        live[number[j]] = True
    # Column of every row: its place among the inputs, or its place in the slice from `place`.
    called = np.empty(n, dtype=np.int32)
    left = 0
    for i in range(n):
        inputs[left] = i
        called[i] = place[0][i] if place[1] else left
        left += live[i]
    own = max(left, place[1])
    column = np.empty(len(columns), dtype=np.int32)
    for k in range(len(columns)):
        j = columns[k]
        # Halo columns follow own columns.
        column[k] = called[number[j]] if j < num_rows else own + slot[j - num_rows]
    return (outputs[:size], inputs[:left]), called, row_ptr[: size + 1], column


def _boundary(part: Block, transport: Transport) -> tuple[Int32Array, Int64Array, Int32Array]:
    """Return the vertices of halo rows, int32[halo rows], `pin_ptr` and `pins`. Collective.

    ``pins[pin_ptr[k]:pin_ptr[k + 1]]`` are the vertices of the receiver that need the k-th row that
    this rank sends.
    """
    halo = halo_vertices(part, transport)
    foreign = np.flatnonzero(part.column >= part.num_inputs)
    foreign = foreign[np.argsort(part.column[foreign], kind="stable")]
    row = np.repeat(np.arange(part.num_inputs), np.diff(part.row_ptr))[foreign]
    used = np.bincount(part.column[foreign] - part.num_inputs, minlength=part.num_halo)
    pins = send_lists(part.expand.reversed(), offsets(used), part.inputs[row], transport)
    return halo, *pins
