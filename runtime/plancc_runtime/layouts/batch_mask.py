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
from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.plan.exchange import BoolArray, Int32Array, Int64Array, offsets
from plancc.sampling import Batch, BatchLayer
from plancc.sampling.batch import Floats
from plancc.sampling.kernels import ascending, distinct, found_in, order_by_vertex
from plancc_runtime.clock import Clock
from plancc_runtime.layouts.block import Block
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_lists, send_numbers


@dataclass(frozen=True, eq=False)
class KeptBlock:
    """What a block of a mini-batch keeps of a rank's slice.

    Attributes:
        nonzeros (int64[m]): Ascending.
        rows (int32[m]): Numbers of their rows in the block.
        factors (float64[m] or None): What their values are multiplied by; None: 1.
        received, sent (int64[...]): Places of halo rows, and of sent rows, among those of the
            slice; ascending.
    """

    nonzeros: Int64Array
    rows: Int32Array
    factors: Floats | None
    received: Int64Array
    sent: Int64Array

    def of(self, whole: Block, own: Int64Array, number: Int32Array, slot: Int32Array) -> Block:
        """The slice masked to the block.

        Parameters:
            whole: The slice.
            own (int64[rows of the block]): Its rows that take part.
            number (int32[num_inputs or more]): Number of every one of `own` in the block.
            slot (int32[num_halo]): Is filled with the number of every halo row of the block.
        """
        assert whole.halo is not None
        nonzeros = self.nonzeros
        slot[self.received] = np.arange(len(self.received), dtype=np.int32)
        kept = nonzeros, self.rows
        row_ptr, column = _masked(kept, whole.column, whole.num_inputs, len(own), number, slot)
        if len(whole.value) and not whole.value.strides[0]:  # one number, which no layer reads
            value = whole.value[: len(nonzeros)]
        else:
            value = whole.value[nonzeros]
            value = value if self.factors is None else value * self.factors
        return replace(
            whole,
            inputs=whole.inputs[own],
            row_ptr=row_ptr,
            column=column,
            value=value,
            factor=self.factors,
            relation=None if whole.relation is None else whole.relation[nonzeros],
            expand=whole.expand.keep(self.sent, self.received).renumbered(number, slot),
            halo=whole.halo[self.received],
        )


@dataclass(frozen=True, eq=False)
class LocalBatch:
    """One rank's share of a mini-batch.

    Attributes:
        rows (int64[m]): Local rows, of the whole slice, that take part in any block; ascending.
        targets (bool[m]): Those whose output counts for the loss.
        blocks: Their rows are those of `rows`, also where a block has no nonzero for them.
        halos (list of int64[halo rows]): One per block: the places of its halo rows among those of
            the slice.
        sents (list of int64[sent rows]): One per block: the places of its sent rows among those of
            the slice.
    """

    rows: Int64Array
    targets: BoolArray
    blocks: list[Block]
    halos: list[Int64Array]
    sents: list[Int64Array]

    @classmethod
    def of(
        cls,
        whole: Block,
        rows: Int64Array,
        targets: BoolArray,
        kept: list[KeptBlock],
        scratch: tuple[Int32Array, Int32Array],
    ) -> LocalBatch:
        """The share of the slice `whole` that blocks keep; `scratch`: as of `KeptBlock.of`."""
        return cls(
            rows,
            targets,
            [each.of(whole, rows, *scratch) for each in kept],
            [each.received for each in kept],
            [each.sent for each in kept],
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
        self._part = part = replace(part, route=None, halo=halo)
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

    def local(self, batch: Batch, clock: Clock | None = None) -> LocalBatch:
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
                return LocalBatch.of(self._part, own, targets, kept, (self._number, self._slot))
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
        received = distinct(columns_of(nonzeros, part.column, part.num_inputs)[1])
        sent = distinct(self._sent[pins]).astype(np.int64)
        if factors is not None:
            factors = factors[:local]
        return KeptBlock(nonzeros, rows[:local], factors, received, sent)

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
    """The own columns of nonzeros, and the halo rows of the others."""
    own, halo = np.empty_like(nonzeros), np.empty_like(nonzeros)
    size = 0
    for k in range(len(nonzeros)):
        j = column[nonzeros[k]]
        own[size], halo[k - size] = j, j - num_rows  # one is kept, the other overwritten
        size += j < num_rows
    return own[:size], halo[: len(nonzeros) - size]


@njit(cache=True, nogil=True)
def _masked(kept: Any, column: Any, num_rows: int, num_own: int, number: Any, slot: Any) -> Any:
    """The rows and columns of a block: own ones numbered by `number`, halo rows by `slot`.

    `kept`: nonzeros of the slice, and the numbers of their rows, which ascend.
    """
    nonzeros, rows = kept
    row_ptr = np.zeros(num_own + 1, dtype=np.int64)
    found = np.empty(len(nonzeros), dtype=np.int32)
    for k in range(len(nonzeros)):
        j = column[nonzeros[k]]
        found[k] = number[j] if j < num_rows else num_own + slot[j - num_rows]
        row_ptr[rows[k] + 1] += 1
    for i in range(num_own):
        row_ptr[i + 1] += row_ptr[i]
    return row_ptr, found


def _boundary(part: Block, transport: Transport) -> tuple[Int32Array, Int64Array, Int32Array]:
    """What ranks must tell each other of the rows that travel. Collective.

    Returns:
        halo (int32[halo rows]): Vertices of the halo rows.
        pin_ptr (int64[sent rows + 1], pins : int32[pins]): The receiver of sent row k uses it for
            its vertices ``pins[pin_ptr[k]:pin_ptr[k + 1]]``.
    """
    halo = send_numbers(part.expand, part.inputs[part.expand.send.row], transport)
    foreign = np.flatnonzero(part.column >= part.num_inputs)
    foreign = foreign[np.argsort(part.column[foreign], kind="stable")]
    row = np.repeat(np.arange(part.num_inputs), np.diff(part.row_ptr))[foreign]
    used = np.bincount(part.column[foreign] - part.num_inputs, minlength=part.num_halo)
    pins = send_lists(part.expand.reversed(), offsets(used), part.inputs[row], transport)
    return halo, *pins
