"""The state of an edge partition: owners of rows and nonzeros, pins of nets in parts, and traffic.

The *nets* are the rows and columns of the matrix: net i is row i, net n + j is column j. The pins
of a net are its nonzeros, and one pin for the owner of its vertex (vertex i or j). So every net
touches the owner's part. A net that touches k parts causes k - 1 rows of traffic; the volume is the
sum over all nets::

    A = [ a b ]   owner of a, b, d: parts 0 1 1   pins of row 0    a in 0, b in 1, owner in 0
        [ . d ]   owner of rows 0 1: parts 0 1    pins of column 1 b in 1, d in 1, owner in 1

    row 0 touches part 1, which does not own row 0: part 1 sends a partial sum of row 0 to part 0

A nonzero on the diagonal moves only together with the owner of its vertex.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.nets import transpose
from plancc.passes.kernels.state import last_slot
from plancc.passes.kernels.traffic import add_rows, no_traffic


class MatrixPattern(NamedTuple):
    """The pattern of a matrix by rows and by columns; it never changes.

    Attributes:
        net_ptr (int64[2n + 1]): Offsets into `pins` of each net, which is a row or a column.
        pins (int64[2 * nnz]): CSR indices of nonzeros by net; each occurs in its row and its
            column.
        row, column (int32[nnz]): Row and column of every nonzero.
        diagonal (int64[n]): Index of nonzero (v, v) in the CSR; -1 if there is none.
        movable (bool[nnz]): Whether a nonzero may move alone; False on the diagonal.
        free (bool[n]): Whether the owner of a vertex may change.
    """

    net_ptr: Any
    pins: Any
    row: Any
    column: Any
    diagonal: Any
    movable: Any
    free: Any


class EdgeState(NamedTuple):
    """Owners of the rows and nonzeros of a `MatrixPattern`, with counts that follow from them.

    Attributes:
        owner (int32[n]): Owner of every vertex.
        nonzeros (int32[nnz]): Owner of every nonzero.
        slot_ptr, part, count, spread: Pins of nets in parts, as in
            `plancc.passes.kernels.state.State`.
        sums, rows (int64[num_parts]): Number of nonzeros, and of vertices, that a part owns.
        sent, received (int64[num_parts]): Rows that a part sends, and receives, in expand and fold.
        messages_sent, messages_received (int64[num_parts]): Messages; 0 if `pair` is empty.
        pair (int32[2, num_parts, num_parts], or int32[2, 0, 0]): Rows from one part to another, in
            the fold (0) and in the expand (1); empty if messages do not matter.
    """

    owner: Any
    nonzeros: Any
    slot_ptr: Any
    part: Any
    count: Any
    spread: Any
    sums: Any
    rows: Any
    sent: Any
    received: Any
    messages_sent: Any
    messages_received: Any
    pair: Any


def pattern_of(indptr: Any, indices: Any, movable: Any = None) -> MatrixPattern:
    """Sort the nonzeros of a CSR pattern by rows and by columns, in about 24 bytes per nonzero.

    `movable`, bool[nnz], says which nonzeros may change their owner. A vertex may change its owner
    if all nonzeros of its row may.
    """
    n = len(indptr) - 1
    row = np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr))
    free = np.ones(n, dtype=np.bool_)
    if movable is None:
        movable = np.ones(len(indices), dtype=np.bool_)
    else:
        free[row[~movable]] = False
    on_diagonal = np.flatnonzero(row == indices)
    diagonal = np.full(n, -1, dtype=np.int64)
    diagonal[row[on_diagonal]] = on_diagonal
    movable = movable & (row != indices)
    places = np.arange(len(indices))
    column_ptr, _, by_column = transpose(indptr, indices, places, n)
    net_ptr = np.concatenate([indptr, column_ptr[1:] + len(indices)])
    pins = np.concatenate([places, by_column])
    return MatrixPattern(net_ptr, pins, row, indices, diagonal, movable, free)


def owners_of(
    pattern: MatrixPattern, owner: Any, nonzero_owner: Any, num_parts: int, with_pairs: bool = False
) -> EdgeState:
    """Copy the owners; count the traffic and the pins of every net in every part."""
    size = np.minimum(np.diff(pattern.net_ptr) + 1, num_parts)
    slot_ptr = np.concatenate([[0], np.cumsum(size)])
    state = EdgeState(
        owner=np.array(owner, dtype=np.int32),
        nonzeros=np.array(nonzero_owner, dtype=np.int32),
        slot_ptr=slot_ptr,
        part=np.empty(slot_ptr[-1], dtype=np.int32),
        count=np.zeros(slot_ptr[-1], dtype=np.int32),
        spread=np.zeros(len(size), dtype=np.int32),
        sums=np.bincount(nonzero_owner, minlength=num_parts),
        rows=np.bincount(owner, minlength=num_parts),
        **no_traffic(num_parts, 2, with_pairs)._asdict(),
    )
    _fill(pattern, state)
    return state


@njit(cache=True, nogil=True)
def _fill(pattern: Any, state: Any) -> None:
    n = len(state.owner)
    for e in range(2 * n):
        start = state.slot_ptr[e]
        if state.slot_ptr[e + 1] - start == len(state.sums):
            for q in range(len(state.sums)):
                state.part[start + q] = q
        insert(e, state.owner[e % n], state)
        for a in range(pattern.net_ptr[e], pattern.net_ptr[e + 1]):
            insert(e, state.nonzeros[pattern.pins[a]], state)
        send_all(e, 1, state)


def volume(state: EdgeState) -> int:
    """Return the number of rows sent in expand and fold together."""
    return int(state.spread.sum(dtype=np.int64)) - len(state.spread)


@njit(cache=True, nogil=True)
def other(k: int, e: int, pattern: Any) -> int:
    """Return the net of nonzero k's row or that of its column, whichever is not net e."""
    n = len(pattern.diagonal)
    return n + pattern.column[k] if e < n else pattern.row[k]


@njit(cache=True, nogil=True)
def insert(e: int, q: int, state: Any) -> bool:
    """Add a pin of net e in part q; return whether it is the first pin there."""
    start = state.slot_ptr[e]
    if state.slot_ptr[e + 1] - start == len(state.sums):
        # A net with a slot for every part finds part q at once; other nets search their list.
        s = start + q
    else:
        end = start + state.spread[e]
        s = start
        while s < end and state.part[s] != q:
            s += 1
        if s == end:
            state.part[s] = q
            state.count[s] = 0
    first = state.count[s] == 0
    state.count[s] += 1
    state.spread[e] += first
    return first


@njit(cache=True, nogil=True)
def delete(e: int, q: int, state: Any) -> bool:
    """Remove a pin of net e from part q; return whether it was the last pin there."""
    start = state.slot_ptr[e]
    dense = state.slot_ptr[e + 1] - start == len(state.sums)
    s = start + q
    if not dense:
        s = start
        while state.part[s] != q:
            s += 1
    state.count[s] -= 1
    last = state.count[s] == 0
    if last:
        state.spread[e] -= 1
        if not dense:
            # the last part of the list takes the free place
            end = start + state.spread[e]
            state.part[s] = state.part[end]
            state.count[s] = state.count[end]
    return last


@njit(cache=True, nogil=True)
def send(e: int, m: int, rows: int, state: Any) -> None:
    """Add `rows` rows between part m and e's owner: expand if net e is a column, fold if a row."""
    n = len(state.owner)
    q = state.owner[e % n]
    if e >= n:
        add_rows(1, q, m, rows, state)
    else:
        add_rows(0, m, q, rows, state)


@njit(cache=True, nogil=True)
def send_all(e: int, rows: int, state: Any) -> None:
    """Add `rows` rows between the owner of net e's vertex and each other part with pins of e."""
    q = state.owner[e % len(state.owner)]
    for s in range(state.slot_ptr[e], last_slot(e, state)):
        if state.count[s] > 0 and state.part[s] != q:
            send(e, state.part[s], rows, state)


@njit(cache=True, nogil=True)
def move(k: int, there: int, pattern: Any, state: Any) -> None:
    """Move nonzero k, which is not on the diagonal, to part `there`, which is not its own part."""
    n = len(state.owner)
    here = state.nonzeros[k]
    state.nonzeros[k] = there
    state.sums[here] -= 1
    state.sums[there] += 1
    # A part that loses a net's last pin stops exchanging a row; a part with a first pin starts.
    for side in range(2):
        e = n + pattern.column[k] if side else pattern.row[k]
        if delete(e, here, state):
            send(e, here, -1, state)
        if insert(e, there, state):
            send(e, there, 1, state)


@njit(cache=True, nogil=True)
def move_owner(v: int, there: int, pattern: Any, state: Any) -> None:
    """Give vertex v and its diagonal nonzero to part `there`, which must not own v already."""
    n = len(state.owner)
    here, k = state.owner[v], pattern.diagonal[v]
    for e in (v, n + v):
        # Remove all rows of the net from the traffic; the new owner adds them again below.
        send_all(e, -1, state)
        for _ in range(2 if k >= 0 else 1):  # the owner's pin, and the diagonal
            delete(e, here, state)
            insert(e, there, state)
    if k >= 0:
        state.nonzeros[k] = there
        state.sums[here] -= 1
        state.sums[there] += 1
    state.rows[here] -= 1
    state.rows[there] += 1
    state.owner[v] = there
    for e in (v, n + v):
        send_all(e, 1, state)
