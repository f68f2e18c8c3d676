"""Lowering: from a matrix and the owners of its rows to the tables of a row plan.

Knows no partitioner and no file. Memory is linear in nonzeros plus volume; so is time, but for the
bitmap, which every part reads once (n / 64 words). Parts are independent and run in threads; the
result does not depend on their number.

    owners -> rows in plan order (part by part, interior rows first)
    of each part -> its foreign columns, marked in a bitmap over plan order
                 -> receive set and messages (the bitmap, read in order)
                 -> local CSR (a received column's number is the count of bits before its own)
    receive tables -> send tables (the mirror)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from plancc.graph.chunks import in_chunks
from plancc.graph.graph import Graph
from plancc.plan.plan import Exchange, Header, Int32Array, Int64Array, Plan
from plancc.plan.receive_sets import grouped, list_marked, mark


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
    nonzeros_ptr = row_ptr[part_ptr]
    column = np.empty(matrix.num_nonzeros, dtype=np.int32)
    value = np.empty(matrix.num_nonzeros, dtype=values.dtype)

    def permute(first: int, last: int) -> None:
        _permute(indptr, indices, values, position, row_ptr, first, last, column, value)

    def lower_parts(first: int, last: int) -> tuple[Int32Array, ...]:
        local = np.empty(matrix.num_vertices, dtype=np.int32)
        # an upper bound; untouched pages cost nothing
        halo_row = np.empty(nonzeros_ptr[last] - nonzeros_ptr[first], dtype=np.int32)
        messages = _lower_parts(part_ptr, row_ptr, first, last, local, halo_row, column, value)
        return halo_row[: messages[0].sum()], *messages

    in_chunks(permute, indptr)
    receive, send = exchanges(in_chunks(lower_parts, nonzeros_ptr), num_parts)
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
def _permute(indptr, indices, values, position, row_ptr, first, last, column, value):  # type: ignore[no-untyped-def]
    """Move rows first..last-1 to plan order, columns too: they become positions."""
    for i in range(first, last):
        shift = row_ptr[position[i]] - indptr[i]
        for k in range(indptr[i], indptr[i + 1]):
            column[k + shift] = position[indices[k]]
            value[k + shift] = values[k]


@njit(cache=True, nogil=True)
def _lower_parts(part_ptr, row_ptr, first, last, local, halo_row, column, value):  # type: ignore[no-untyped-def]
    """Number the columns of parts first..last-1 locally and find what these parts receive.

    `local` (int32[n]) is scratch. Fills `halo_row` with all received rows, numbered as their
    sender does; returns of each message its length, receiver and sender.
    """
    bitmap = np.zeros(len(local) // 64 + 1, dtype=np.uint64)
    longest = 0
    for r in range(part_ptr[first], part_ptr[last]):
        longest = max(longest, row_ptr[r + 1] - row_ptr[r])
    spare = np.empty(longest, dtype=np.int32), np.empty(longest, dtype=value.dtype)
    limit = min(len(halo_row), (last - first) * (len(part_ptr) - 2))
    lengths = np.zeros(limit, dtype=np.int64)
    receiver = np.empty(limit, dtype=np.int32)
    sender = np.empty(limit, dtype=np.int32)
    received, messages = 0, 0
    for m in range(first, last):
        row0, row1 = part_ptr[m], part_ptr[m + 1]
        for r in range(row0, row1):
            local[r] = r - row0
        mark(column[row_ptr[row0] : row_ptr[row1]], row0, row1, bitmap)
        before = messages
        received, messages = list_marked(
            bitmap, part_ptr, row1 - row0, local, halo_row, received, lengths, sender, messages
        )
        receiver[before:messages] = m
        _number(row_ptr[row0 : row1 + 1], local, spare, column, value)
    return lengths[:messages], receiver[:messages], sender[:messages]


@njit(cache=True, nogil=True)
def _number(row_ptr, local, spare, column, value):  # type: ignore[no-untyped-def]
    """Local columns for positions in the rows of one part: own ones, then received ones."""
    rows = len(row_ptr) - 1
    spare_column, spare_value = spare
    for r in range(rows):
        own = row_ptr[r]
        foreign = 0
        for k in range(row_ptr[r], row_ptr[r + 1]):
            c = local[column[k]]
            if c < rows:
                column[own] = c
                value[own] = value[k]
                own += 1
            else:
                spare_column[foreign] = c
                spare_value[foreign] = value[k]
                foreign += 1
        for k in range(foreign):
            column[own + k] = spare_column[k]
            value[own + k] = spare_value[k]


def exchanges(chunks: list[tuple[Int32Array, ...]], num_parts: int) -> tuple[Exchange, Exchange]:
    """Receive table, and the send table that mirrors it: the same messages, by sender.

    Every chunk has rows as their sender numbers them, and the length, receiver and sender of each
    message, by receiver. Of a fold, "receiver" is the part, and "sender" the owner of the rows.
    """
    columns = zip(*chunks, strict=True)
    halo_row, lengths, receiver, sender = (np.concatenate(column) for column in columns)
    row_ptr = np.concatenate([[0], lengths]).cumsum()
    order = np.argsort(sender, kind="stable")  # the receivers are ascending already
    send_row_ptr = np.concatenate([[0], lengths[order]]).cumsum()
    receive = Exchange(_offsets(receiver, num_parts), sender, row_ptr, halo_row)
    send = Exchange(
        _offsets(sender, num_parts),
        receiver[order],
        send_row_ptr,
        _copy_messages(halo_row, row_ptr, order, send_row_ptr, np.empty_like(halo_row)),
    )
    return receive, send


def _offsets(part: Int32Array, num_parts: int) -> Int64Array:
    """Offsets of each part's messages, int64[num_parts + 1]."""
    return np.concatenate([[0], np.bincount(part, minlength=num_parts)]).cumsum()


@njit(cache=True, nogil=True)
def _copy_messages(row, row_ptr, order, out_ptr, out):  # type: ignore[no-untyped-def]
    for k in range(len(order)):
        start = row_ptr[order[k]]
        out[out_ptr[k] : out_ptr[k + 1]] = row[start : row_ptr[order[k] + 1]]
    return out
