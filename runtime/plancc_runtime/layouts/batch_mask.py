"""A rank's slice of a plan, masked to mini-batches.

Every rank draws the same batches, so that no index travels with a step: the sender of a row knows
by itself who needs it. It must know for that which of its peers' rows use its rows, the *boundary
pins*, and a rank must know which vertices its halo rows are; both are sent once, at the start.

    row j of rank m goes to rank n in a batch that keeps the nonzero (i, j) of a row i of rank n

      m: row j is sent to n;          n: row j is a halo row;
         pins of (n, j): i, i', ...      its column holds the rows i, i', ...

Must not know layers, losses or files.
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
"""Rows that the blocks of a batch have: all that take part in any; of every block those that have
nonzeros or that the next layer reads, and as inputs those and its columns; the same, but that all
rows of the slice are inputs of the first. All nonzeros stay, and with them all that travels."""


@dataclass(frozen=True, eq=False)
class KeptBlock:
    """What a block of a mini-batch keeps of a rank's slice.

    Attributes:
        nonzeros (int64[m]): Ascending.
        rows, columns (int32[m]): Numbers of their rows in the batch; their columns in the slice.
        factors (float64[m] or None): What their values are multiplied by; None: 1.
        received, sent (int64[...]): Places of halo rows, and of sent rows, among the rows of the
            slice; ascending.
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
        """The slice masked to the block, between live rows.

        Parameters:
            whole: The slice.
            rows (int64[m]): Its rows that take part in the batch.
            live (bool[m]): Which of them are outputs of the block at any rate. Gets those with
                nonzeros; after that, rows that are read are marked, which are inputs.
            scratch (int32[num_inputs or more], int32[num_halo]): Number of every one of `rows`; is
                filled with that of every halo row of the block.
            in_place: Whether all rows of the slice are inputs, so that none need to be copied.

        Returns:
            block: Block
            outputs, inputs (int64[...]): Which of `rows` are these; ascending.
        """
        assert whole.halo is not None
        place = (rows, whole.num_inputs) if in_place else (rows[:0], 0)
        expand = whole.expand.keep(self.sent, self.received)
        parts = self.rows, self.columns, self.received, expand.send.row
        ends, number, row_ptr, column = _laid_out(parts, whole.num_inputs, live, scratch, place)
        outputs, inputs = ends
        if len(whole.value) and not whole.value.strides[0]:  # one number, which no layer reads
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
        rows (int64[m]): Local rows, of the whole slice, that take part in any block; ascending.
        targets (bool[m]): Those whose output counts for the loss.
        blocks: One per layer, or one for all.
        halos (list of int64[halo rows]): One per block: places of its halo rows among the rows of
            the slice.
        sents (list of int64[sent rows]): One per block: places of its sent rows among the rows of
            the slice.
        inputs (int64[...]): Local rows that are inputs of the first block.
        outputs (int64[...] or None): Which of `rows` are outputs of the last block; None: all.
        seeds: What it begins with, if the task gives that; the targets are their rows.
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
        """The share of the slice `whole` that blocks keep; `scratch`: as of `KeptBlock.of`."""
        live = targets | (which == "all")
        made = [  # from the outputs back: each marks what the one before must compute
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
    """Masks a rank's slice, its send and receive lists included, to mini-batches. Collective.

    It holds 4 bytes for every nonzero of the rank, 8 for every boundary pin and 24 for every vertex
    that it knows, beside the slice; 4 more for nonzeros and pins once a batch is `listed`, unless
    rows ascend. A batch costs a look at its vertices, at the peers of the rank, and at its
    nonzeros if it is `listed`, else at all in the rows of its vertices.

    Parameters:
        part: The slice of a row plan. Its peers must be the ranks.
        transport: Used here only, to learn of halo rows and boundary pins.
    """

    def __init__(self, part: Block, transport: Transport) -> None:
        halo, pin_ptr, pins = _boundary(part, transport)
        self._part = part = replace(part, halo=halo)
        self._num_nonzeros = len(part.column)
        # Own rows, halo rows, then rows of peers that are only pins: the columns of the slice
        # are places among the first two.
        foreign, place = np.unique(np.concatenate([halo, pins]), return_inverse=True)
        only_pins = np.setdiff1d(foreign, halo, assume_unique=True)
        self._vertices = np.concatenate([part.inputs, halo, only_pins])
        at = np.empty(len(foreign), dtype=np.int32)  # from 0 after the own rows
        at[np.searchsorted(foreign, self._vertices[part.num_inputs :])] = np.arange(len(foreign))
        # One CSR over all of them: the slice, then for every other row its pins, which are the
        # nonzeros that it has in columns of own rows.
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
        # Kept from batch to batch: the number of every vertex of the batch, -1 for all between two
        # batches; and of every halo row that a block has, which may be anything for others.
        self._number = np.full(len(self._vertices), -1, np.int32)
        self._slot = np.empty(part.num_halo, np.int32)
        self._in_use = Lock()

    @cached_property
    def _by_vertex(self) -> Int32Array:
        """The nonzeros of every row by ascending vertex: their places in the row.

        Empty where all rows are so already.
        """
        found, ascending = order_by_vertex(self._ptr, self._columns, self._vertices)
        return np.empty(0, np.int32) if ascending else found

    def local(
        self, batch: Batch, clock: Clock | None = None, which: RowsOfBlocks = "all"
    ) -> LocalBatch:
        """This rank's share of `batch`; not collective. The clock gets the time of "draw"."""
        with (clock or Clock())("draw"):
            vertices = batch.vertices()  # and with them the blocks, where these are `listed`
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
        """Places of the rows that this rank knows, ascending."""
        if vertices is None:
            return np.arange(len(self._vertices))
        at = found_in(self._ascending, self._place, vertices)
        found: Int64Array = ascending(at[at >= 0])
        return found

    def _block(self, batch: Batch, block: int, members: Int64Array) -> KeptBlock:
        """What a block of the batch keeps; `members`: places of its vertices."""
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
        """The nonzeros of a block that are in own rows, or pins, in the order of `_columns`.

        Returns:
            int64[m], int32[m], float64[m]: Where they are in `_columns`, the numbers of their rows,
                and their factors.
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
            order = order[np.searchsorted(found[order], 0) :]  # without other ranks' rows
            found, rows, factors = found[order], rows[order], factors[order]
        return found, rows, factors


@njit(cache=True, nogil=True)
def _positions(at: Any, layer: Any, csr: Any, num_own: int, number: Any) -> Any:
    """Where the nonzeros of a block are in a CSR, and the numbers of their rows.

    Besides, whether all are there and ascend; -1: it is nowhere.
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
                    # Own rows are whole: the sampler's place tells; others are searched by vertex.
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
            # ascending places need no sort of the values
            ascends &= found[a] > last
            last = found[a]
    return found, rows, ascends


@njit(cache=True, nogil=True)
def between(ptr: Any, columns: Any, places: Any, number: Any) -> Any:
    """The nonzeros in the rows `places` whose columns are inside too, in their order.

    Returns:
        int64[m], int32[m], int32[m]: Where they are in `columns`, and the numbers of their rows and
            columns.
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
            found[size] = a  # kept if inside, else overwritten: no branch to mispredict
            found_rows[size] = number[i]
            found_columns[size] = j
            size += j >= 0
    return found[:size], found_rows[:size], found_columns[:size]


@njit(cache=True, nogil=True)
def columns_of(nonzeros: Any, column: Any, num_rows: int) -> Any:
    """The columns of nonzeros; the own ones of them, and the halo rows of the others."""
    columns = np.empty(len(nonzeros), dtype=np.int32)
    for k in range(len(nonzeros)):  # a loop alone: these reads miss the caches, many at once
        columns[k] = column[nonzeros[k]]
    own, halo = np.empty_like(nonzeros), np.empty_like(nonzeros)
    size = 0
    for k in range(len(nonzeros)):
        j = columns[k]
        own[size], halo[k - size] = j, j - num_rows  # one is kept, the other overwritten
        size += j < num_rows
    return columns, own[:size], halo[: len(nonzeros) - size]


@njit(cache=True, nogil=True)
def _laid_out(parts: Any, num_rows: int, live: Any, scratch: Any, place: Any) -> Any:
    """A block between live rows; arguments as of `KeptBlock.of`.

    Parameters:
        parts: Row and column of every nonzero, halo rows, and rows of the slice that are sent.
        place: New numbers of rows, and how many there are, instead of those among the inputs.

    Returns:
        (outputs, inputs), number (int32[m], of `rows` among the columns), row_ptr, column
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
        # Outputs: rows with nonzeros, and rows that the next layer reads. Inputs: these, all own
        # columns, and rows that others receive.
        live[i] |= size_of[i] > 0
        outputs[size] = i  # kept if live, else overwritten
        row_ptr[size + 1] = row_ptr[size] + size_of[i]
        size += live[i]
    for j in columns:
        if j < num_rows:
            live[number[j]] = True
    for j in sent:
        live[number[j]] = True
    # The new number of every row among the columns: in order, or as `place` says.
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
        # halo columns come behind the own ones
        column[k] = called[number[j]] if j < num_rows else own + slot[j - num_rows]
    return (outputs[:size], inputs[:left]), called, row_ptr[: size + 1], column


def _boundary(part: Block, transport: Transport) -> tuple[Int32Array, Int64Array, Int32Array]:
    """What ranks must tell each other of the rows that travel. Collective.

    Returns:
        halo (int32[halo rows]): Vertices of the halo rows.
        pin_ptr (int64[sent rows + 1], pins : int32[pins]): The receiver of sent row k uses it for
            its vertices ``pins[pin_ptr[k]:pin_ptr[k + 1]]``.
    """
    halo = halo_vertices(part, transport)
    foreign = np.flatnonzero(part.column >= part.num_inputs)
    foreign = foreign[np.argsort(part.column[foreign], kind="stable")]
    row = np.repeat(np.arange(part.num_inputs), np.diff(part.row_ptr))[foreign]
    used = np.bincount(part.column[foreign] - part.num_inputs, minlength=part.num_halo)
    pins = send_lists(part.expand.reversed(), offsets(used), part.inputs[row], transport)
    return halo, *pins
