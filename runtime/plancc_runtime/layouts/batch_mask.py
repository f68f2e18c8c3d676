"""A rank's slice of a plan, masked to mini-batches. Knows plans and samplers, and a transport.

Every rank draws the same batches, so that no index travels with a step: the sender of a row knows
by itself who needs it. It must know for that which of its peers' rows use its rows, the *boundary
pins*, and a rank must know which vertices its halo rows are; both are sent once, at the start.

    row j of rank m goes to rank n in a batch that keeps the nonzero (i, j) of a row i of rank n

      m: row j is sent to n;          n: row j is a halo row;
         pins of (n, j): i, i', ...      its column holds the rows i, i', ...

Must not know layers, losses or files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.kernel import njit
from plancc.plan.exchange import BoolArray, Int32Array, Int64Array, offsets, places
from plancc.plan.parts import Part
from plancc.sampling import Batch
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_lists, send_numbers


@dataclass(frozen=True, eq=False)
class LocalBatch:
    """One rank's share of a mini-batch.

    Attributes
    ----------
    rows : int64[m]
        Local rows, of the whole slice, that take part in any block; ascending.
    targets : bool[m]
        Those whose output counts for the loss.
    parts : list of Part
        One per block, without vertex data. Their rows are those of `rows`, also where a block has
        no nonzero for them; `first_row` and `num_interior` are 0 and say nothing.
    factors : list of float64[nonzeros]
        One per block: what the values of its nonzeros were multiplied by.
    halos : list of int64[halo rows]
        One per block: the places of its halo rows among those of the slice.
    sents : list of int64[sent rows]
        One per block: the places of its sent rows among those of the slice.
    """

    rows: Int64Array
    targets: BoolArray
    parts: list[Part]
    factors: list[npt.NDArray[np.float64]]
    halos: list[Int64Array]
    sents: list[Int64Array]


class BatchMask:
    """Masks a rank's slice, its send and receive lists included, to mini-batches. Collective.

    It holds 4 bytes for every nonzero of the rank, 8 for every boundary pin and 12 for every vertex
    that it knows, beside the slice. A batch costs a look at all of these vertices and all sent
    rows, but only at the nonzeros and pins in the rows of its blocks.

    Parameters
    ----------
    part : Part
        ``part.num_parts`` must equal ``transport.size``.
    transport : Transport
        Used here only, to learn of halo rows and boundary pins.
    """

    def __init__(self, part: Part, transport: Transport) -> None:
        self._part = part
        halo, pin_ptr, pins = _boundary(part, transport)
        self._num_nonzeros = len(part.column)
        # Own rows, halo rows, then rows of peers that are only pins: the columns of the slice
        # are places among the first two.
        foreign, place = np.unique(np.concatenate([halo, pins]), return_inverse=True)
        only_pins = np.setdiff1d(foreign, halo, assume_unique=True)
        self._vertices = np.concatenate([part.global_id, halo, only_pins])
        at = np.empty(len(foreign), dtype=np.int32)  # from 0 after the own rows
        at[np.searchsorted(foreign, self._vertices[part.num_rows :])] = np.arange(len(foreign))
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

    def local(self, batch: Batch) -> LocalBatch:
        """This rank's share of `batch`; not collective."""
        part = self._part
        inside = batch.members(self._vertices)
        members = self._vertices[inside]
        number = np.cumsum(inside, dtype=np.int32) - np.int32(1)
        places = np.flatnonzero(inside)
        own = np.flatnonzero(inside[: part.num_rows])
        parts, multiplied, halos, sents = [], [], [], []
        for block in range(batch.num_blocks):
            taken = places[batch.rows(block, members)]
            candidates, rows, columns = _between(self._ptr, self._columns, taken, inside, number)
            factors = batch.factors(block, members, rows, columns)
            kept = np.flatnonzero(factors)
            found = self._masked(own, number, candidates[kept], rows[kept], factors[kept])
            parts.append(found[0])
            halos.append(found[1])
            sents.append(found[2])
            multiplied.append(factors[kept][: len(parts[-1].column)])
        targets = batch.targets(part.global_id[own])
        return LocalBatch(own, targets, parts, multiplied, halos, sents)

    @property
    def halo(self) -> Int32Array:
        """Vertices of the halo rows of the slice: int32[num_halo]."""
        first = self._part.num_rows
        return self._vertices[first : first + self._part.num_halo]

    def _masked(
        self,
        own: Int64Array,
        number: Int32Array,
        kept: Int64Array,
        rows: Int32Array,
        factors: npt.NDArray[np.float64],
    ) -> tuple[Part, Int64Array, Int64Array]:
        """The slice with the rows `own`, the nonzeros `kept`, and the halo rows that they use.

        Beside it the places of these halo rows, and of the sent ones, among those of the slice.
        Nonzero ``kept[k]`` becomes one of row ``rows[k]``, multiplied by ``factors[k]``.
        """
        part = self._part
        local = int(np.searchsorted(kept, self._num_nonzeros))
        nonzeros, pins = kept[:local], kept[local:] - self._num_nonzeros
        column = self._columns[nonzeros]

        foreign = column >= part.num_rows
        received = np.zeros(part.num_halo, dtype=np.bool_)
        received[column[foreign] - part.num_rows] = True
        slot = places(received)

        sent = np.zeros(part.expand.send.volume, dtype=np.bool_)
        sent[self._sent[pins]] = True

        new_column = np.empty(len(column), dtype=np.int32)
        new_column[~foreign] = number[column[~foreign]]
        new_column[foreign] = len(own) + slot[column[foreign] - part.num_rows]
        masked = Part(
            index=part.index,
            num_parts=part.num_parts,
            first_row=0,
            global_id=part.global_id[own],
            num_interior=0,
            row_ptr=offsets(np.bincount(rows[:local], minlength=len(own))),
            column=new_column,
            value=part.value[nonzeros] * factors[:local],
            expand=part.expand.keep(sent, received).renumbered(number, slot),
        )
        return masked, np.flatnonzero(received), np.flatnonzero(sent)


@njit(cache=True, nogil=True)
def _between(ptr: Any, columns: Any, places: Any, inside: Any, number: Any) -> Any:
    """The nonzeros in the rows `places` whose columns are inside too, in their order.

    Returns
    -------
    int64[m], int32[m], int32[m]
        Where they are in `columns`, and the numbers of their rows and columns.
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
            j = columns[a]
            found[size] = a  # kept if inside, else overwritten: no branch to mispredict
            found_rows[size] = number[i]
            found_columns[size] = number[j]
            size += inside[j]
    return found[:size], found_rows[:size], found_columns[:size]


def _boundary(part: Part, transport: Transport) -> tuple[Int32Array, Int64Array, Int32Array]:
    """What ranks must tell each other of the rows that travel. Collective.

    Returns
    -------
    halo : int32[halo rows]
        Vertices of the halo rows.
    pin_ptr : int64[sent rows + 1], pins : int32[pins]
        The receiver of sent row k uses it for its vertices
        ``pins[pin_ptr[k]:pin_ptr[k + 1]]``.
    """
    halo = send_numbers(part.expand, part.global_id[part.expand.send.row], transport)
    foreign = np.flatnonzero(part.column >= part.num_rows)
    foreign = foreign[np.argsort(part.column[foreign], kind="stable")]
    row = np.repeat(np.arange(part.num_rows), np.diff(part.row_ptr))[foreign]
    used = np.bincount(part.column[foreign] - part.num_rows, minlength=part.num_halo)
    pins = send_lists(part.expand.reversed(), offsets(used), part.global_id[row], transport)
    return halo, *pins
