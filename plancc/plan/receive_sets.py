"""Kernels that find, from a matrix and its owners, which rows each part must receive and fold.

A set of rows is a bitmap over an order in which the rows of each part are consecutive. Reading the
bits in order gives the rows sorted and grouped into messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plancc.graph.graph import Graph
from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, Side

ONE, SIX, LOW_SIX = np.uint64(1), np.uint64(6), np.uint64(63)


@njit(cache=True, nogil=True, plain=True)
def offsets_of(key, num_groups):  # type: ignore[no-untyped-def]
    """Return the offsets that groups have once a list is sorted by group: int64[num_groups + 1].

    `key` is the group of every entry of the list before it is sorted.
    """
    ptr = np.zeros(num_groups + 1, dtype=np.int64)
    for i in range(len(key)):
        ptr[key[i] + 1] += 1
    for group in range(num_groups):
        ptr[group + 1] += ptr[group]
    return ptr


@njit(cache=True, nogil=True)
def grouped(key, num_groups):  # type: ignore[no-untyped-def]
    """Return the rows 0..n-1 sorted by group (``key[i]`` for row i), with positions and offsets.

    The result is the sorted rows, int32[n]; the position of row i among them, int32[n]; and the
    offsets of the groups, int64[num_groups + 1].
    """
    ptr = offsets_of(key, num_groups)
    free = ptr[:-1].copy()
    rows = np.empty(len(key), dtype=np.int32)
    position = np.empty(len(key), dtype=np.int32)
    for i in range(len(key)):
        at = free[key[i]]
        free[key[i]] = at + 1
        rows[at] = i
        position[i] = at
    return rows, position, ptr


class NonzerosByPart(NamedTuple):
    """The nonzeros of a matrix, sorted by part, then by row, then by column.

    Attributes:
        ptr (int64[num_parts + 1]): Nonzeros of part m are ``ptr[m]:ptr[m + 1]``.
        row, column (int32[num_nonzeros]): Positions in the order of rows given to `group_by_part`.
        at (int64[num_nonzeros]): Index in the CSR arrays of the matrix.
    """

    ptr: Int64Array
    row: Int32Array
    column: Int32Array
    at: Int64Array


def group_by_part(
    matrix: Graph, nonzero_owner: Int32Array, num_parts: int, rows: Int32Array, position: Int32Array
) -> NonzerosByPart:
    """Group nonzeros by `nonzero_owner`. `rows` is an order of vertices, `position` its inverse."""
    return NonzerosByPart(
        *_group_by_part(matrix.indptr, matrix.indices, nonzero_owner, num_parts, rows, position)
    )


@njit(cache=True, nogil=True)
def _group_by_part(indptr, indices, nonzero_owner, num_parts, rows, position):  # type: ignore[no-untyped-def]
    ptr = offsets_of(nonzero_owner, num_parts)
    free = ptr[:-1].copy()
    row = np.empty(len(indices), dtype=np.int32)
    column = np.empty(len(indices), dtype=np.int32)
    at = np.empty(len(indices), dtype=np.int64)
    for r in range(len(rows)):
        i = rows[r]
        for k in range(indptr[i], indptr[i + 1]):
            e = free[nonzero_owner[k]]
            free[nonzero_owner[k]] = e + 1
            row[e], column[e], at[e] = r, position[indices[k]], k
    return ptr, row, column, at


def exchange_of_messages(
    receiver: Int32Array, sender: Int32Array, row_ptr: Int64Array, row: Int32Array, num_parts: int
) -> Exchange:
    """Return the exchange that consists of these messages.

    The arguments, as in `Side`, are sorted by receiver, then by sender.
    """
    send = sort_by_sender(receiver, sender, row_ptr, row, num_parts)
    return Exchange(Side(*send), Side(offsets_of(receiver, num_parts), sender, row_ptr, row))


@njit(cache=True, nogil=True)
def sort_by_sender(receiver, sender, row_ptr, row, num_senders):  # type: ignore[no-untyped-def]
    """Sort messages, given in receiver order, by sender; return the four arrays of their `Side`."""
    ptr = offsets_of(sender, num_senders)
    peer = np.empty(len(sender), dtype=np.int32)
    out_ptr = np.zeros(len(sender) + 1, dtype=np.int64)
    free = ptr[:-1].copy()
    for k in range(len(sender)):
        at = free[sender[k]]
        free[sender[k]] = at + 1
        peer[at] = receiver[k]
        out_ptr[at + 1] = row_ptr[k + 1] - row_ptr[k]
    for k in range(len(sender)):
        out_ptr[k + 1] += out_ptr[k]
    out = np.empty(len(row), dtype=np.int32)
    free[:] = ptr[:-1]
    for k in range(len(sender)):
        at = free[sender[k]]
        free[sender[k]] = at + 1
        shift = out_ptr[at] - row_ptr[k]
        for a in range(row_ptr[k], row_ptr[k + 1]):
            out[a + shift] = row[a]
    return ptr, peer, out_ptr, out


@njit(cache=True, nogil=True)
def mark(place, row0, row1, bitmap):  # type: ignore[no-untyped-def]
    """In a bitmap over plan order, mark the rows `place`, except own rows row0..row1-1."""
    for k in range(len(place)):
        at = np.uint64(place[k])
        bitmap[at >> SIX] |= ONE << (at & LOW_SIX)
    for r in range(row0, row1):
        at = np.uint64(r)
        bitmap[at >> SIX] &= ~(ONE << (at & LOW_SIX))


@njit(cache=True, nogil=True)
def list_marked(  # type: ignore[no-untyped-def]
    bitmap, part_ptr, first_local, local, row, size, lengths, owner, messages
):
    """List the rows marked in a bitmap as messages, one for each owner, and clear the bitmap.

    The rows are written into `row` from index `size` on, with the local numbers that they have at
    their owners. For each message, its owner is written into `owner`, and its number of rows is
    added to `lengths`, from index `messages` on. ``local[r]`` becomes the local number of marked
    row r at the part that needs it, from `first_local` on. Returns the new `size` and `messages`.
    """
    shift = first_local - size
    q, start, end = -1, np.int64(0), np.int64(0)
    for w in range(len(bitmap)):
        word = bitmap[w]
        bitmap[w] = 0
        while word != 0:
            at = 64 * w + first_bit(word)
            word &= word - ONE
            if at >= end:
                while at >= end:
                    q += 1
                    start, end = end, part_ptr[q + 1]
                owner[messages] = q
                messages += 1
            lengths[messages - 1] += 1
            row[size] = at - start
            local[at] = size + shift
            size += 1
    return size, messages


@njit(cache=True, nogil=True)
def count_marked(bitmap, part_ptr, rows, messages):  # type: ignore[no-untyped-def]
    """Count the rows that a bitmap marks, and the parts that own them; then clear the bitmap.

    The bitmap has one bit per row, in plan order. The number of marked rows of each part is added
    to `rows`, and 1 is added to `messages` for each part with marked rows.
    """
    num_rows, num_parts = np.int64(0), np.int64(0)
    q, end = -1, np.int64(0)
    for w in range(len(bitmap)):
        word = bitmap[w]
        bitmap[w] = 0
        while word != 0:
            if 64 * w + first_bit(word) >= end:
                while 64 * w + first_bit(word) >= end:
                    q += 1
                    end = part_ptr[q + 1]
                messages[q] += 1
                num_parts += 1
            bits = bits_below(word, end - 64 * w)
            word ^= bits
            rows[q] += count_bits(bits)
            num_rows += count_bits(bits)
    return num_rows, num_parts


@njit(cache=True, nogil=True)
def bits_below(word, at):  # type: ignore[no-untyped-def]
    """Return the lowest `at` bits of a word; the whole word if `at` is 64 or more."""
    return word if at >= 64 else word & ((ONE << np.uint64(at)) - ONE)


@njit(cache=True, nogil=True)
def count_bits(word):  # type: ignore[no-untyped-def]
    """Return how many bits of a word are 1. LLVM compiles this to one instruction."""
    word -= (word >> ONE) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def first_bit(word):  # type: ignore[no-untyped-def]
    """Return the position of the lowest bit that is 1, in a word that is not 0."""
    return count_bits(~word & (word - ONE))
