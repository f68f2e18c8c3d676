"""Random subsets of a block's boundary or edges, drawn anew in every epoch (Wan et al. 2022).

    method                                    draws among               keeps with    multiplies
                                                                        probability   values by
    boundary sampling (BNS-GCN, Algorithm 1)  halo rows                 p             1/p
    boundary edge sampling (Section 4.3)      nonzeros in halo columns  q             1/q
    DropEdge (Rong et al. 2020)               all edges                 q             1/q

All three keep the expected product: E[A~ H] = A H, where A~ is the sampled matrix. (Rong et al.
normalise the remaining edges again, which changes the expected product.)

No index is sent: draws are functions of seed, epoch, sender, receiver and position in the message
of the whole block or, in DropEdge, of seed, epoch and the edge's vertices. In boundary edge
sampling, the sender knows the nonzeros in a row's column, and sends the row only if one is kept.
DropEdge sends nearly all halo rows, as in Table 9 of Wan et al.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from plancc.kernel import njit
from plancc.plan.exchange import BoolArray, Exchange, Int32Array, Int64Array, places
from plancc.sampling.counter import bits, key_of, unit
from plancc_runtime.layouts.block import Block, Nonzeros, Numbering
from plancc_runtime.layouts.halo import halo_vertices
from plancc_runtime.layouts.sampling import Sampling
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_lists

_ROWS, _NONZEROS, _EDGES = range(3)  # streams of random numbers
_NO_NONZEROS = Nonzeros(np.zeros(1, np.int64), np.empty(0, np.int32))


def ready_to_draw(block: Block, sampling: Sampling, transport: Transport) -> Block:
    """Return the whole block with `halo` and `numbering`, which draws need. Collective.

    This sends 4 bytes per halo row; boundary edge sampling sends 4 more per halo row, and 4 per
    nonzero in a halo column.
    """
    block = replace(numbered(block, sampling), halo=halo_vertices(block, transport))
    return with_uses_sent(block, transport)


def numbered(block: Block, sampling: Sampling) -> Block:
    """Return the whole block with the serial numbers on which random draws depend. Not collective.

    `Numbering.uses_sent` is None, since other ranks must send it.
    """
    uses = None
    if sampling.boundary_edges is not None:
        used = np.bincount(_halo_columns(block), minlength=block.num_halo)
        ptr = np.concatenate([[0], np.cumsum(used)])
        uses = Nonzeros(ptr, _places(ptr))
    received, sent = (_places(side.row_ptr) for side in (block.expand.receive, block.expand.send))
    numbering = Numbering(received, sent, uses)
    return replace(block, numbering=numbering)


def with_uses_sent(block: Block, transport: Transport) -> Block:
    """Return the block with `Numbering.uses_sent`, which receivers send. Collective.

    `uses_sent` has, for every sent row, the numbers of the receiver's nonzeros that multiply the
    row. A block without `Numbering.uses` is returned unchanged.
    """
    numbering = block.numbering
    if numbering is None or numbering.uses is None:
        return block
    uses = numbering.uses
    sent = send_lists(block.expand.reversed(), uses.ptr, uses.number, transport)
    return replace(block, numbering=replace(numbering, uses_sent=Nonzeros(*sent)))


@dataclass(frozen=True)
class Sample:
    """The random sample of a block's messages, halo rows and nonzeros that one epoch uses.

    Layers that take maxima or compute attention do not multiply the kept rows by a factor.

    Attributes:
        whole: The block that the sample is drawn from.
        expand: The messages of the kept rows.
        received (bool[halo rows of `whole`]): Whether each halo row is kept.
        scale: Two factors: of the kept nonzeros in own columns, and of those in halo columns.
        keeps_own: Whether all nonzeros in own columns are kept.
    """

    whole: Block
    expand: Exchange
    received: BoolArray
    scale: tuple[float, float]
    keeps_own: bool
    _nonzeros: tuple[float, Any, Nonzeros]  # rate; a random key per halo row; their nonzeros
    _edges: tuple[float, Any]  # rate and key

    @cached_property
    def block(self) -> Block:
        """The block of the kept rows and nonzeros; values are multiplied by the sample's `scale`.

        The block's attributes `edges` and `scale` are for `Block.with_coefficients`.
        """
        whole = self.whole
        number = places(self.received) + np.int32(whole.num_inputs)
        rate, key, uses = self._nonzeros
        row_ptr, column, value, before = _kept(
            whole.row_ptr,
            whole.column,
            whole.value,
            whole.inputs,
            whole.output_places(),
            whole.self_loops,
            np.where(self.received, number, np.int32(-1)),
            rate,
            key,
            uses.ptr,
            uses.number,
            *self._edges,
            whole.inputs[:0] if self.keeps_own or whole.halo is None else whole.halo,
            *self.scale,
        )
        return replace(
            whole,
            row_ptr=row_ptr,
            column=column,
            value=value,
            expand=self.expand,
            halo=None if whole.halo is None else whole.halo[self.received],
            numbering=None,
            edges=before,
            scale=self.scale,
        )

    def kept_halo_part(self, part: csr_matrix) -> csr_matrix:
        """Return the kept nonzeros in halo columns, times ``scale[1]``, as a transposed matrix.

        The result is csr_matrix[kept halo rows, local rows]; `part` is `matrices.halo_part` of the
        block before sampling. The sample's `keeps_own` must be true.
        """
        rate, key, uses = self._nonzeros
        scale = self.scale[1]
        row_ptr, column, value = _kept_rows(
            part.indptr, part.indices, part.data, self.received, rate, key, uses.number, scale
        )
        return csr_matrix((value, column, row_ptr), (self.expand.receive.volume, part.shape[1]))


def draw(block: Block, sampling: Sampling, rank: int, epoch: int) -> Sample:
    """Return the sample of one epoch. Not collective: every rank draws for its own messages.

    The block comes from `ready_to_draw`, or from `live.live_blocks` of such a block.
    """
    rows, nonzeros, edges = (
        1.0 if rate is None else float(rate)
        for rate in (sampling.boundary, sampling.boundary_edges, sampling.edges)
    )
    row_key, nonzero_key, edge_key = (
        key_of(sampling.seed, stream, epoch) for stream in (_ROWS, _NONZEROS, _EDGES)
    )
    numbering = block.numbering
    assert numbering is not None
    send, receive = block.expand.send, block.expand.receive
    incoming = receive.peer, receive.row_ptr, numbering.received, rank, True
    outgoing = send.peer, send.row_ptr, numbering.sent, rank, False
    received = _drawn(_row_keys(row_key, *incoming), rows)
    sent = _drawn(_row_keys(row_key, *outgoing), rows)
    uses, uses_sent = numbering.uses, numbering.uses_sent
    pin_key = np.empty(0, np.uint64)
    if nonzeros < 1:
        assert uses is not None
        assert uses_sent is not None
        pin_key = _row_keys(nonzero_key, *incoming)
        received &= _any_kept(pin_key, uses.ptr, uses.number, nonzeros)
        sent_key = _row_keys(nonzero_key, *outgoing)
        sent &= _any_kept(sent_key, uses_sent.ptr, uses_sent.number, nonzeros)
    scale = 1 / edges if edges else 0.0
    return Sample(
        whole=block,
        expand=block.expand.keep(sent, received).renumbered(received=places(received)),
        received=received,
        scale=(scale, scale / (rows * nonzeros) if rows * nonzeros else 0.0),
        keeps_own=edges == 1,
        _nonzeros=(nonzeros, pin_key, uses or _NO_NONZEROS),
        _edges=(edges, edge_key),
    )


def expected_rows(block: Block, sampling: Sampling) -> float:
    """Return the expected number of rows that this rank sends.

    It is the sum of p (1 - (1 - q)^u) over the rows of this rank's messages. p and q are the shares
    of boundary rows and of boundary edges that sampling keeps; u is the receiver's number of
    nonzeros in the row's column.
    """
    rows = float(block.expand.send.volume)
    if sampling.boundary_edges is not None:
        assert block.numbering is not None
        assert block.numbering.uses_sent is not None
        uses = np.diff(block.numbering.uses_sent.ptr)
        rows = float((1 - (1 - sampling.boundary_edges) ** uses).sum())
    return rows if sampling.boundary is None else rows * sampling.boundary


def _places(ptr: Int64Array) -> Int32Array:
    """Return the position of every entry in its range ``ptr[k]:ptr[k + 1]``: int32[ptr[-1]]."""
    return (np.arange(ptr[-1]) - np.repeat(ptr[:-1], np.diff(ptr))).astype(np.int32)


def _halo_columns(block: Block) -> Int32Array:
    """Return, for every nonzero in a halo column, the index of the halo row, from 0: int32[m]."""
    return block.column[block.column >= block.num_inputs] - np.int32(block.num_inputs)


@njit(cache=True, nogil=True)
def _message_key(key: Any, rank: int, peer: int, receives: bool) -> Any:
    sender, receiver = (peer, rank) if receives else (rank, peer)
    return bits(bits(key, sender), receiver)


@njit(cache=True, nogil=True)
def _row_keys(key: Any, peers: Any, ptr: Any, place: Any, rank: int, receives: bool) -> Any:
    """Return a random key for every row of this rank's messages: uint64[rows].

    Parameters:
        peers: The other rank of every message.
        ptr: Message k has the rows ``ptr[k]:ptr[k + 1]``.
        place: For every row, its position in the message before dead rows were removed.
        receives: Whether this rank receives the messages; else it sends them.
    """
    keys = np.empty(ptr[-1], dtype=np.uint64)
    for k in range(len(peers)):
        message_key = _message_key(key, rank, peers[k], receives)
        for r in range(ptr[k], ptr[k + 1]):
            keys[r] = bits(message_key, place[r])
    return keys


@njit(cache=True, nogil=True)
def _drawn(keys: Any, rate: float) -> Any:
    """Draw from the keys of `_row_keys` whether each row is kept: bool[rows]."""
    kept = np.empty(len(keys), dtype=np.bool_)
    for r in range(len(keys)):
        kept[r] = unit(keys[r]) < rate
    return kept


@njit(cache=True, nogil=True)
def _any_kept(keys: Any, ptr: Any, number: Any, rate: float) -> Any:
    """Draw whether at least one nonzero in each halo row's column is kept: bool[rows].

    `keys` has a random key for each row. `ptr` and `number` are as in `block.Nonzeros`. `rate` is
    the probability of keeping a nonzero.
    """
    kept = np.zeros(len(keys), dtype=np.bool_)
    for r in range(len(keys)):
        for a in range(ptr[r], ptr[r + 1]):
            if unit(bits(keys[r], number[a])) < rate:
                kept[r] = True
                break
    return kept


@njit(cache=True, nogil=True)
def _kept(
    row_ptr: Any,
    column: Any,
    value: Any,
    inputs: Any,
    places: Any,
    self_loops: bool,
    number: Any,
    nonzero_rate: float,
    pin_key: Any,
    pin_ptr: Any,
    pin: Any,
    edge_rate: float,
    edge_key: Any,
    halo: Any,
    scale: float,
    halo_scale: float,
) -> Any:
    """Draw which nonzeros of a block are kept.

    Return their `row_ptr`, `column` and `value`, and every row's number of edges before the draw.

    Parameters:
        places: For every output, its position among the inputs.
        number: Column of every halo row in the sample; -1 if the row is not kept.
        nonzero_rate, edge_rate: Probabilities of keeping a nonzero in a halo column, and an edge.
        pin_key: A random key for every halo row.
        pin_ptr, pin: Nonzeros in each halo column, as in `block.Nonzeros`.
        edge_key: Random key of the edges.
        halo: Vertex of every halo row; empty if `edge_rate` is 1.
        scale, halo_scale: Factors of edges in own columns, and in halo columns.
    """
    num_rows, num_inputs = len(row_ptr) - 1, len(inputs)
    new_ptr = np.zeros(num_rows + 1, dtype=np.int64)
    new_column = np.empty(len(column), dtype=np.int32)
    new_value = np.empty(len(value), dtype=value.dtype)
    before = np.empty(num_rows, dtype=np.int64)
    following = pin_ptr[:-1].copy()  # the next nonzero of every halo row
    size = 0
    for i in range(num_rows):
        added = places[i] if self_loops else -1
        row_key = bits(edge_key, inputs[places[i]]) if edge_rate < 1 else edge_key
        before[i] = row_ptr[i + 1] - row_ptr[i]
        for a in range(row_ptr[i], row_ptr[i + 1]):
            j = column[a]
            # Columns from num_inputs on are halo rows; `number`: their new places, -1 if absent.
            place, factor = j, scale
            if j >= num_inputs:
                c = j - num_inputs
                place, factor = number[c], halo_scale
                if nonzero_rate < 1:
                    # Sender and receiver draw the same: both identify a nonzero by its number in
                    # `pin`. The loop meets the nonzeros of a halo row by ascending row, so one
                    # cursor per halo row finds their numbers.
                    following[c] += 1
                    if unit(bits(pin_key[c], pin[following[c] - 1])) >= nonzero_rate:
                        place = -1
            # a self loop that normalising added is no edge, and is always kept
            elif j == added:
                before[i] -= 1
                factor = 1.0
            if edge_rate < 1 and j != added:
                vertex = inputs[j] if j < num_inputs else halo[j - num_inputs]
                if unit(bits(row_key, vertex)) >= edge_rate:
                    place = -1
            new_column[size] = place  # kept, else overwritten: no branch to mispredict
            new_value[size] = value[a] * factor
            size += place >= 0
        new_ptr[i + 1] = size
    return new_ptr, new_column[:size], new_value[:size], before


@njit(cache=True, nogil=True)
def _kept_rows(
    row_ptr: Any,
    column: Any,
    value: Any,
    received: Any,
    nonzero_rate: float,
    pin_key: Any,
    pin: Any,
    scale: float,
) -> Any:
    """Draw the same nonzeros in halo columns as `_kept`, from a matrix with a row per halo column.

    `row_ptr`, `column` and `value` are the CSR arrays of such a matrix. The result is such arrays
    too, but only of the kept rows, which `received` marks. `scale` multiplies the values.
    """
    rows = size = 0
    for c in range(len(received)):
        if received[c]:
            rows += 1
            size += row_ptr[c + 1] - row_ptr[c]
    new_ptr = np.zeros(rows + 1, dtype=row_ptr.dtype)
    new_column = np.empty(size, dtype=column.dtype)
    new_value = np.empty(size, dtype=value.dtype)
    rows = size = 0
    for c in range(len(received)):
        if not received[c]:
            continue
        for a in range(row_ptr[c], row_ptr[c + 1]):
            new_column[size] = column[a]
            new_value[size] = value[a] * scale
            if nonzero_rate == 1 or unit(bits(pin_key[c], pin[a])) < nonzero_rate:
                size += 1
        rows += 1
        new_ptr[rows] = size
    return new_ptr, new_column[:size], new_value[:size]
