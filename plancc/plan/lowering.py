"""Lowering: from a matrix and the owners of its rows to the tables of a row plan.

Knows no partitioner and no file. Time and memory are linear in nonzeros plus volume; parts are
independent and run in threads (`plancc.plan.receive_sets`).

    owners -> rows in plan order (part by part, interior rows first)
    of each part -> its foreign columns, marked in a bitmap over plan order
                 -> receive set and messages (the bitmap, read in order)
                 -> local CSR (a received column's number is the count of bits before its own)
    receive tables -> send tables (the mirror)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from plancc.graph.graph import Graph
from plancc.plan.plan import Exchange, Header, Int32Array, Int64Array, Plan
from plancc.plan.receive_sets import (
    bits_below,
    count_bits,
    first_bit,
    grouped,
    in_chunks,
    mark_columns,
)


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
    indptr, indices, values = matrix.indptr, matrix.indices, matrix.values
    key = np.empty(matrix.num_vertices, dtype=np.int64)  # 2 part, and 1 more for boundary rows
    in_chunks(lambda first, last: _keys(indptr, indices, owner, first, last, key), indptr)
    plan_row, position, key_ptr = grouped(key, 2 * num_parts)
    part_ptr = key_ptr[::2].copy()
    row_ptr = np.concatenate([[0], np.diff(indptr)[plan_row]]).cumsum()
    column = np.empty(matrix.num_nonzeros, dtype=np.int32)
    value = np.empty(matrix.num_nonzeros, dtype=values.dtype)

    def lower_parts(first: int, last: int) -> tuple[Int32Array, ...]:
        order = (plan_row, position, part_ptr, row_ptr)
        return _lower_parts(indptr, indices, values, *order, first, last, column, value)

    receive, send = _exchanges(in_chunks(lower_parts, row_ptr[part_ptr]), num_parts)
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
        num_interior=key_ptr[1::2] - part_ptr[:-1],
        row_ptr=row_ptr,
        column=column,
        value=value,
        send=send,
        receive=receive,
    )


@njit(cache=True, nogil=True)
def _keys(indptr, indices, owner, first, last, key):  # type: ignore[no-untyped-def]
    """2 owner of rows first..last-1, and 1 more where a row has a foreign column."""
    for i in range(first, last):
        boundary = 0
        for k in range(indptr[i], indptr[i + 1]):
            if owner[indices[k]] != owner[i]:
                boundary = 1
                break
        key[i] = 2 * owner[i] + boundary


@njit(cache=True, nogil=True)
def _lower_parts(  # type: ignore[no-untyped-def]
    indptr, indices, values, plan_row, position, part_ptr, row_ptr, first, last, column, value
):
    """Local CSR of parts first..last-1 (fills `column`, `value`) and what they receive.

    Returns the received rows of all these parts, numbered as their sender does, and of each
    message its length, receiver and sender.
    """
    part_row_ptr = row_ptr[part_ptr[first : last + 1]]
    bitmap = np.zeros((len(plan_row) + 63) // 64, dtype=np.uint64)
    before = np.empty(len(bitmap), dtype=np.int32)  # bits set in the words before
    place = np.empty(np.diff(part_row_ptr).max(), dtype=np.int32)
    own = np.empty(np.diff(part_ptr[first : last + 1]).max(), dtype=np.int32)
    # upper bounds; untouched pages cost nothing
    halo_row = np.empty(part_row_ptr[-1] - part_row_ptr[0], dtype=np.int32)
    limit = min(len(halo_row), (last - first) * (len(part_ptr) - 2))
    lengths = np.empty(limit, dtype=np.int64)
    receiver = np.empty(limit, dtype=np.int32)
    sender = np.empty(limit, dtype=np.int32)
    received, messages = 0, 0
    for m in range(first, last):
        row0, row1 = part_ptr[m], part_ptr[m + 1]
        mark_columns(indptr, indices, plan_row, position, row0, row1, bitmap, place, own)

        part_start = received
        q, end = -1, np.int64(0)
        for w in range(len(bitmap)):
            before[w] = received - part_start
            word = bitmap[w]
            while word != 0:
                if 64 * w + first_bit(word) >= end:
                    while 64 * w + first_bit(word) >= end:
                        q += 1
                        end = part_ptr[q + 1]
                    lengths[messages] = 0
                    receiver[messages] = m
                    sender[messages] = q
                    messages += 1
                bits = bits_below(word, end - 64 * w)
                word ^= bits
                lengths[messages - 1] += count_bits(bits)
                while bits != 0:
                    halo_row[received] = 64 * w + first_bit(bits) - part_ptr[q]
                    received += 1
                    bits &= bits - np.uint64(1)

        t = 0
        for r in range(row0, row1):
            at_own = row_ptr[r]
            at_foreign = at_own + own[r - row0]
            for k in range(indptr[plan_row[r]], indptr[plan_row[r] + 1]):
                at = place[t]
                t += 1
                if row0 <= at < row1:
                    column[at_own] = at - row0
                    value[at_own] = values[k]
                    at_own += 1
                else:
                    lower_bits = bits_below(bitmap[at >> 6], at & 63)
                    column[at_foreign] = row1 - row0 + before[at >> 6] + count_bits(lower_bits)
                    value[at_foreign] = values[k]
                    at_foreign += 1
        bitmap[:] = 0
    return halo_row[:received], lengths[:messages], receiver[:messages], sender[:messages]


def _exchanges(
    chunks: list[tuple[Int32Array, ...]], num_parts: int
) -> tuple[Exchange, Exchange]:
    """Receive table, and the send table that mirrors it: the same messages, by sender."""
    columns = zip(*chunks, strict=True)
    halo_row, lengths, receiver, sender = (np.concatenate(column) for column in columns)
    row_ptr = np.concatenate([[0], lengths]).cumsum()
    order = np.lexsort((receiver, sender))
    send_row_ptr = np.concatenate([[0], lengths[order]]).cumsum()
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
