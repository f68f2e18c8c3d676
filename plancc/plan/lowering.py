"""Lowering: make the tables of a plan from a matrix and the owners of its rows or nonzeros.

Parts are lowered in threads, with a bitmap over plan order for the foreign columns of each part.
The number of threads does not change the result. Memory is linear in nonzeros plus volume.

An edge partition needs foreign columns (expand) and foreign rows (fold):

    nonzeros of part m     own columns | received columns
                         +-------------+------------------+
             own rows    |             |                  |
                         +-------------+------------------+
             folded rows |             |                  |  --> partial sums, to the rows' owners
                         +-------------+------------------+
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.types import first_of_columns
from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, offsets
from plancc.plan.links import exchange_of_rows, lower_links
from plancc.plan.plan import Plan
from plancc.plan.receive_sets import exchange_of_messages, group_by_part, grouped, list_marked, mark
from plancc.plan.values import LINKS, Exchanges, Header
from plancc.threads import in_chunks

_Chunks = list[tuple[Int32Array, ...]]
"""Messages for consecutive ranges of parts, as `_exchange` takes them."""


def lower(
    matrix: Graph, owners: Owners, num_parts: int, *, normalization: str, self_loops: bool
) -> Plan:
    """Return the plan of ``matrix @ H``, without provenance, vertex data and baseline metrics.

    Receive sets and send masks follow Demirci et al. 2022, Eq. 8 and 9. Parallel nonzeros (same row
    and column) share one owner: `owners.nonzeros` has one entry for them. `normalization` and
    `self_loops` only fill the header.
    """
    assert matrix.values is not None
    indptr, indices = matrix.indptr, matrix.indices
    owner, nonzero_owner = owners.rows, owners.nonzeros
    if nonzero_owner is not None and matrix.relation is not None:
        nonzero_owner = nonzero_owner[np.cumsum(first_of_columns(indptr, indices)) - 1]
    # key of every row: twice its part, plus 1 if the row is on the boundary
    if nonzero_owner is None:
        boundary = in_chunks(
            lambda first, last: mark_boundary(first, indptr[first : last + 1], indices, owner),
            indptr,
        )
        key = 2 * owner.astype(np.int64) + np.concatenate(boundary)
    else:
        key = _edge_keys(indptr, indices, owner, nonzero_owner)
    rows, position, key_ptr = grouped(key, 2 * num_parts)
    order = _RowOrder(rows, position, key_ptr[::2].copy())
    column = np.empty(matrix.num_nonzeros, np.int32)
    moved: Any = np.arange(matrix.num_nonzeros) if matrix.columns else matrix.values
    value = np.empty_like(moved)  # with columns, the permutation of nonzeros
    carried = replace(matrix, values=moved)
    folded: _Chunks = []
    if nonzero_owner is None:
        row_ptr, expanded = _lower_rows(carried, order, column, value)
    else:
        row_ptr, expanded, folded = _lower_edges(carried, nonzero_owner, order, column, value)
    exchanges = Exchanges(expand=_exchange(expanded, num_parts))
    if folded:  # a fold sends from the parts to the owners
        exchanges["fold"] = _exchange(folded, num_parts).reversed()
    return Plan(
        header=Header(
            layout="edge" if owners.is_edge_partition else "row",
            num_vertices=matrix.num_vertices,
            num_nonzeros=matrix.num_nonzeros,
            num_parts=num_parts,
            directed=matrix.directed,
            normalization=normalization,
            self_loops=self_loops and matrix.types is None,
            types=matrix.types,
        ),
        part_ptr=order.part_ptr,
        global_id=rows,
        num_interior=key_ptr[1::2] - order.part_ptr[:-1],
        row_ptr=row_ptr,
        column=column,
        value=matrix.values[value] if matrix.columns else value,
        columns=matrix.columns_at(value),
        exchanges=exchanges,
    )


def with_links(
    plan: Plan,
    ends: npt.NDArray[np.integer],
    kind: npt.NDArray[np.uint8],
    number: Int64Array,
    per_link: int,
) -> Plan:
    """Return the plan with links for link prediction, and the exchange of the rows they need.

    `ends`, int[2, links], has the links' vertices; for `kind` and `number` see `PartLinks`.
    `per_link` is the number of negatives of a validation or test link, 0 if links share negatives.
    """
    header = replace(plan.header, links=per_link)
    if problem := header.links_problem():
        raise InputError(f"there cannot be {problem}")
    links, moved = lower_links(plan.places()[ends], kind, number, plan.part_ptr)
    exchanges = Exchanges(plan.exchanges | {LINKS: exchange_of_rows(*moved, plan.num_parts)})
    return replace(plan, header=header, exchanges=exchanges, links=links)


class _RowOrder(NamedTuple):
    """All rows in plan order, and the positions of every row and of every part's first row."""

    rows: Int32Array
    position: Int32Array
    part_ptr: Int64Array


def _lower_rows(
    matrix: Graph, order: _RowOrder, column: Int32Array, value: npt.NDArray[np.floating]
) -> tuple[Int64Array, _Chunks]:
    """Fill the arrays `column` and `value` of a row plan; return `row_ptr` and receive sets."""
    assert matrix.values is not None
    indptr, indices, values = matrix.indptr, matrix.indices, matrix.values
    part_ptr, position = order.part_ptr, order.position
    row_ptr = np.concatenate([[0], np.diff(indptr)[order.rows]]).cumsum()
    in_chunks(
        lambda first, last: _permute(
            indptr, indices, values, position, row_ptr, first, last, column, value
        ),
        indptr,
    )
    return row_ptr, in_chunks(
        lambda first, last: lowered_parts(part_ptr, row_ptr, first, last, column, value),
        row_ptr[part_ptr],
    )


def lowered_parts(
    part_ptr: Int64Array, row_ptr: Int64Array, first: int, last: int, column: Any, value: Any
) -> tuple[Int32Array, ...]:
    """Number the columns of parts first..last-1 locally, and list the messages to these parts.

    `column` and `value` change in place: in each row, own columns come first. Returns the received
    rows, as local numbers at their sender; then length, receiver and sender of every message,
    sorted by receiver.
    """
    scratch = np.empty(part_ptr[-1], dtype=np.int32)
    # room for an upper bound of the received rows; untouched pages cost nothing
    halo_row = np.empty(row_ptr[part_ptr[last]] - row_ptr[part_ptr[first]], dtype=np.int32)
    messages = _lower_parts_of_rows(
        part_ptr, row_ptr, first, last, scratch, halo_row, column, value
    )
    return halo_row[: messages[0].sum()], *messages


@njit(cache=True, nogil=True)
def mark_boundary(first: Any, indptr: Any, indices: Any, owner: Any) -> Any:
    """Mark rows that need a row of another part, uint8[m]; the first row is vertex `first`."""
    found = np.zeros(len(indptr) - 1, dtype=np.uint8)
    for i in range(len(found)):
        for k in range(indptr[i], indptr[i + 1]):
            if owner[indices[k]] != owner[first + i]:
                found[i] = 1
                break
    return found


@njit(cache=True, nogil=True)
def _permute(indptr, indices, values, position, row_ptr, first, last, column, value):  # type: ignore[no-untyped-def]
    """Write the rows first..last-1 in plan order. Their columns become places in plan order."""
    for i in range(first, last):
        shift = row_ptr[position[i]] - indptr[i]
        for k in range(indptr[i], indptr[i + 1]):
            column[k + shift] = position[indices[k]]
            value[k + shift] = values[k]


@njit(cache=True, nogil=True)
def _lower_parts_of_rows(part_ptr, row_ptr, first, last, local, halo_row, column, value):  # type: ignore[no-untyped-def]
    """Give the columns of parts first..last-1 local numbers, and list the messages to these parts.

    Returns length, receiver and sender of every message; `halo_row` gets the received rows, as
    local numbers at their sender. `local` (int32[n]) is scratch memory.
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
    """Replace every column c of a part by its local number ``local[c]``.

    Afterwards, own columns come first in each row. `spare` is scratch memory for one row.
    """
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


def _lower_edges(
    matrix: Graph,
    nonzero_owner: Int32Array,
    order: _RowOrder,
    column: Int32Array,
    value: npt.NDArray[np.floating],
) -> tuple[Int64Array, _Chunks, _Chunks]:
    """Fill `column` and `value` of an edge plan.

    Return `row_ptr`, and the rows that the parts receive (expand) and send partial sums of (fold).
    """
    num_parts = len(order.part_ptr) - 1
    nonzeros = group_by_part(matrix, nonzero_owner, num_parts, order.rows, order.position)

    def lower_parts(first: int, last: int) -> tuple[tuple[Int32Array, ...], ...]:
        return _lower_edge_parts(
            order.part_ptr, *nonzeros, matrix.values, first, last, column, value
        )

    chunks = zip(*in_chunks(lower_parts, nonzeros.ptr), strict=True)
    expanded, folded, degrees = (list(chunk) for chunk in chunks)
    return np.concatenate([[0], *degrees]).cumsum(), expanded, folded


@njit(cache=True, nogil=True)
def _edge_keys(indptr: Any, indices: Any, owner: Any, nonzero_owner: Any) -> Any:
    """Return a sort key for each row, int64[n]: twice its owner.

    The key is 1 more if the row's owner also owns a nonzero (i, j) of the row, but not row j.
    """
    key = np.empty(len(owner), dtype=np.int64)
    for i in range(len(owner)):
        key[i] = 2 * owner[i]
        for k in range(indptr[i], indptr[i + 1]):
            if nonzero_owner[k] == owner[i] and owner[indices[k]] != owner[i]:
                key[i] += 1
                break
    return key


@njit(cache=True, nogil=True)
def _lower_edge_parts(  # type: ignore[no-untyped-def]
    part_ptr, ptr, row, column_of, at, values, first, last, column, value
):
    """Write the CSR matrices of parts first..last-1, in local numbers, to `column` and `value`.

    Returns the messages of received rows and those of folded rows, each as a chunk of four arrays
    for `_exchange`, and the number of nonzeros of every local row, int64.
    """
    num_rows = part_ptr[-1]
    most = ptr[last] - ptr[first]
    limit = min(most, (last - first) * (len(part_ptr) - 2))
    bitmap = np.zeros(num_rows // 64 + 1, dtype=np.uint64)
    local_column, local_row = np.empty(num_rows, np.int32), np.empty(num_rows, np.int32)
    halo, folded = np.empty(most, np.int32), np.empty(most, np.int32)  # upper bounds
    lengths, owners = np.zeros((2, limit), np.int64), np.empty((2, limit), np.int32)
    parts = np.empty((2, limit), np.int32)
    degree = np.zeros(part_ptr[last] - part_ptr[first] + most, np.int64)
    received, sent, local_rows = 0, 0, 0
    messages, partial_messages = 0, 0
    for m in range(first, last):
        row0, row1 = part_ptr[m], part_ptr[m + 1]
        for r in range(row0, row1):
            local_column[r] = r - row0
            local_row[r] = r - row0
        before = messages
        mark(column_of[ptr[m] : ptr[m + 1]], row0, row1, bitmap)
        received, messages = list_marked(
            bitmap, part_ptr, row1 - row0, local_column, halo, received, lengths[0], owners[0],
            messages,
        )  # fmt: skip
        parts[0, before:messages] = m
        before, sent_before = partial_messages, sent
        mark(row[ptr[m] : ptr[m + 1]], row0, row1, bitmap)
        sent, partial_messages = list_marked(
            bitmap, part_ptr, row1 - row0, local_row, folded, sent, lengths[1], owners[1],
            partial_messages,
        )  # fmt: skip
        parts[1, before:partial_messages] = m
        held = row1 - row0 + sent - sent_before
        mine = degree[local_rows : local_rows + held]
        local_rows += held
        _fill(
            ptr[m], row[ptr[m] : ptr[m + 1]], column_of, at, values, local_row, local_column,
            row1 - row0, mine, column, value,
        )  # fmt: skip
    a, b = messages, partial_messages
    return (
        (halo[:received].copy(), lengths[0, :a].copy(), parts[0, :a].copy(), owners[0, :a].copy()),
        (folded[:sent].copy(), lengths[1, :b].copy(), parts[1, :b].copy(), owners[1, :b].copy()),
        degree[:local_rows].copy(),
    )


@njit(cache=True, nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    start, row, column_of, at, values, local_row, local_column, num_own, degree, column, value
):
    """Write one part's local CSR from entry `start` on, own columns first in each row.

    `degree` gets the number of nonzeros of each local row.
    """
    for e in range(len(row)):
        degree[local_row[row[e]]] += 1
    free = np.empty(len(degree), dtype=np.int64)
    total = start
    for r in range(len(degree)):
        free[r] = total
        total += degree[r]
    for foreign in (False, True):
        for e in range(len(row)):
            c = local_column[column_of[start + e]]
            if (c >= num_own) == foreign:
                r = local_row[row[e]]
                column[free[r]] = c
                value[free[r]] = values[at[start + e]]
                free[r] += 1


def _exchange(chunks: _Chunks, num_parts: int) -> Exchange:
    """Return the exchange from the owners of rows to the parts that need these rows.

    A chunk has four arrays: sent rows, as local numbers of their owner; then the length, receiver
    and owner of every message, sorted by receiver. A fold is the reverse of such an exchange.
    """
    columns = zip(*chunks, strict=True)
    halo_row, lengths, receiver, sender = (np.concatenate(column) for column in columns)
    return exchange_of_messages(receiver, sender, offsets(lengths), halo_row, num_parts)
