"""Lowering: from a matrix and the owners of its rows to the tables of a row plan.

Knows no partitioner and no file. Time and memory are linear in nonzeros plus volume; parts are
independent, so the two passes over the nonzeros run in threads (the kernels release the GIL)
and the result does not depend on their number.

    owners -> rows of each part -> receive sets (mark every foreign column once per part)
           -> rows in plan order (interior first) -> receive sets sorted -> send masks (mirror)
           -> local CSR (columns renumbered)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from plancc.graph.graph import Graph
from plancc.plan.plan import Exchange, Header, Int32Array, Int64Array, Plan
from plancc.plan.receive_sets import receive_sets


def lower(
    matrix: Graph,
    owner: Int32Array,
    num_parts: int,
    *,
    normalization: str,
    self_loops: bool,
) -> Plan:
    """Row plan of ``matrix @ H`` when row i of both belongs to part ``owner[i]``.

    Receive sets and send masks are those of paper 000, Eq. 8 and 9.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix, with values.
    owner : int32[n]
        Part of every row, in ``0..num_parts-1``. Parts may be empty.
    num_parts : int
    normalization, self_loops
        What made `matrix`, for the header.

    Returns
    -------
    Plan
        Without provenance, vertex data and metrics baseline.
    """
    assert matrix.values is not None
    rows, part_ptr, chunks, marked, own_nonzeros = receive_sets(matrix, owner, num_parts)

    def sort(chunk: tuple[int, int], found: Int32Array) -> tuple[Int32Array, ...]:
        return _sort(found, *chunk, position, part_ptr, halo_ptr, halo_row)

    def fill(chunk: tuple[int, int]) -> None:
        tables = (plan_row, part_ptr, receive.ptr, receive.peer, receive.row_ptr, receive.row)
        _fill(
            *(matrix.indptr, matrix.indices, matrix.values, own_nonzeros),
            *(*tables, *chunk, row_ptr, column, value),
        )

    halo_ptr = np.concatenate([[0], *(counts for _, counts in marked)]).cumsum()
    is_boundary = own_nonzeros < np.diff(matrix.indptr)
    plan_row, position, num_interior = _plan_order(rows, part_ptr, is_boundary)
    halo_row = np.empty(halo_ptr[-1], dtype=np.int32)
    with ThreadPoolExecutor(len(chunks)) as pool:
        messages = list(pool.map(sort, chunks, (found for found, _ in marked)))
        del marked
        receive, send = _exchanges(messages, halo_row, num_parts)
        row_ptr = np.concatenate([[0], np.diff(matrix.indptr)[plan_row]]).cumsum()
        column = np.empty(matrix.num_nonzeros, dtype=np.int32)
        value = np.empty(matrix.num_nonzeros, dtype=matrix.values.dtype)
        list(pool.map(fill, chunks))
    return Plan(
        header=Header(
            layout="row",
            num_vertices=matrix.num_vertices,
            num_nonzeros=matrix.num_nonzeros,
            num_parts=num_parts,
            directed=matrix.directed,
            normalization=normalization,
            self_loops=self_loops,
        ),
        part_ptr=part_ptr,
        global_id=plan_row,
        num_interior=num_interior,
        row_ptr=row_ptr,
        column=column,
        value=value,
        send=send,
        receive=receive,
    )


@njit(cache=True, nogil=True)
def _plan_order(rows, part_ptr, is_boundary):  # type: ignore[no-untyped-def]
    """Rows of every part, interior ones first: (int32[n], its inverse int32[n], interior rows)."""
    num_parts = len(part_ptr) - 1
    plan_row = np.empty(len(rows), dtype=np.int32)
    position = np.empty(len(rows), dtype=np.int32)
    num_interior = np.zeros(num_parts, dtype=np.int64)
    for m in range(num_parts):
        at = part_ptr[m]
        for wanted in (False, True):
            for r in range(part_ptr[m], part_ptr[m + 1]):
                if is_boundary[rows[r]] == wanted:
                    plan_row[at] = rows[r]
                    position[rows[r]] = at
                    at += 1
            if not wanted:
                num_interior[m] = at - part_ptr[m]
    return plan_row, position, num_interior


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_NUMBER = np.empty(64, dtype=np.int64)
_BIT_NUMBER[[(int(_DE_BRUIJN) << b & (1 << 64) - 1) >> 58 for b in range(64)]] = np.arange(64)


@njit(cache=True, nogil=True)
def _sort(found, first, last, position, part_ptr, halo_ptr, halo_row):  # type: ignore[no-untyped-def]
    """Receive sets of parts first..last-1 in plan order, cut into messages.

    A bitmap over plan order sorts without comparing: set the bits, then read them in order.

    Returns where each message starts, its receiver and its sender; fills `halo_row` with row
    numbers local to the sender.
    """
    bitmap = np.zeros(len(position) // 64 + 1, dtype=np.uint64)
    one = np.uint64(1)
    limit = min(len(found), (last - first) * (len(part_ptr) - 2))
    starts = np.empty(limit, dtype=np.int64)
    receiver = np.empty(limit, dtype=np.int32)
    sender = np.empty(limit, dtype=np.int32)
    messages = 0
    base = halo_ptr[first]
    for m in range(first, last):
        for k in range(halo_ptr[m] - base, halo_ptr[m + 1] - base):
            at = position[found[k]]
            bitmap[at >> 6] |= one << np.uint64(at & 63)
        out = halo_ptr[m]
        if out == halo_ptr[m + 1]:
            continue
        q, row0, row1 = -1, np.int64(0), np.int64(0)
        for w in range(len(bitmap)):
            word = bitmap[w]
            bitmap[w] = 0
            while word != 0:
                lowest = word & (~word + one)
                word ^= lowest
                at = 64 * w + _BIT_NUMBER[(lowest * _DE_BRUIJN) >> np.uint64(58)]
                if at >= row1:
                    while at >= row1:
                        q += 1
                        row0, row1 = row1, part_ptr[q + 1]
                    starts[messages] = out
                    receiver[messages] = m
                    sender[messages] = q
                    messages += 1
                halo_row[out] = at - row0
                out += 1
    return starts[:messages].copy(), receiver[:messages].copy(), sender[:messages].copy()


def _exchanges(
    messages: list[tuple[Int32Array, ...]], halo_row: Int32Array, num_parts: int
) -> tuple[Exchange, Exchange]:
    """Receive table, and the send table that mirrors it: the same messages, by sender."""
    starts, receiver, sender = (np.concatenate(columns) for columns in zip(*messages, strict=True))
    row_ptr = np.append(starts, len(halo_row)).astype(np.int64)
    order = np.lexsort((receiver, sender))
    send_row_ptr = np.concatenate([[0], np.diff(row_ptr)[order]]).cumsum()
    receive = Exchange(_offsets(receiver, num_parts), sender, row_ptr, halo_row)
    send = Exchange(
        _offsets(sender, num_parts),
        receiver[order],
        send_row_ptr,
        _copy_messages(halo_row, row_ptr, order, send_row_ptr),
    )
    return receive, send


def _offsets(part: Int32Array, num_parts: int) -> Int64Array:
    """Offsets of each part's messages, int64[num_parts + 1]."""
    return np.concatenate([[0], np.bincount(part, minlength=num_parts)]).cumsum()


@njit(cache=True, nogil=True)
def _copy_messages(row, row_ptr, order, out_ptr):  # type: ignore[no-untyped-def]
    out = np.empty(len(row), dtype=np.int32)
    for k in range(len(order)):
        start = row_ptr[order[k]]
        out[out_ptr[k] : out_ptr[k + 1]] = row[start : row_ptr[order[k] + 1]]
    return out


@njit(cache=True, nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    values,
    own_nonzeros,
    plan_row,
    part_ptr,
    receive_ptr,
    receive_peer,
    receive_row_ptr,
    receive_row,
    first,
    last,
    row_ptr,
    column,
    value,
):
    """Local CSR of parts first..last-1: in every row own columns, then received ones."""
    local = np.empty(len(plan_row), dtype=np.int32)
    for m in range(first, last):
        row0, row1 = part_ptr[m], part_ptr[m + 1]
        rows = row1 - row0
        for r in range(rows):
            local[plan_row[row0 + r]] = r
        received = rows
        for message in range(receive_ptr[m], receive_ptr[m + 1]):
            base = part_ptr[receive_peer[message]]
            for k in range(receive_row_ptr[message], receive_row_ptr[message + 1]):
                local[plan_row[base + receive_row[k]]] = received
                received += 1
        for r in range(row0, row1):
            i = plan_row[r]
            own = row_ptr[r]
            foreign = own + own_nonzeros[i]
            for k in range(indptr[i], indptr[i + 1]):
                c = local[indices[k]]
                if c < rows:
                    column[own] = c
                    value[own] = values[k]
                    own += 1
                else:
                    column[foreign] = c
                    value[foreign] = values[k]
                    foreign += 1
