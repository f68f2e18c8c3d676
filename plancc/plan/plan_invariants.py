"""Check the invariants of a whole plan, in time linear in its size.

This module compares parts with each other. `plancc.plan.part_invariants` checks each part by
itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plancc.graph.types import Types
from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int64Array
from plancc.plan.links import numbers_problem, sources_problem
from plancc.plan.matrix import ends_of, relations_of
from plancc.plan.part_invariants import data_invariants, part_invariants
from plancc.plan.parts import PartRange
from plancc.plan.plan import Plan
from plancc.plan.receive_sets import offsets_of


def plan_invariants(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield (invariant, violation) for a whole plan; the violation is "" if the invariant holds.

    A caller must stop at the first violation, because later checks rely on earlier ones.
    """
    yield "rows/part_ptr rises from 0 to n", _rises(plan.part_ptr, plan.num_vertices)
    yield "rows/global_id is a permutation", _permutation(plan)
    yield "matrix/row_ptr rises from 0 to nnz", _rises(plan.row_ptr, plan.header.num_nonzeros)
    yield "layout edge has a fold, layout row has none", _fold_problem(plan)
    yield from plan.header.invariants()
    for step, tables in plan.exchanges.items():
        for end, table in (("send", tables.send), ("recv", tables.receive)):
            problem = _rises(table.ptr, table.num_messages) or _rises(table.row_ptr, table.volume)
            yield f"{step}/{end} tables are well formed", problem
    yield "matrix/row_ptr has every local row", _local_rows(plan)
    yield from part_invariants(plan.all_parts, plan.header)
    if plan.links is not None:
        yield "the links fit layout and types", plan.header.links_problem()
        yield "every link has its number", numbers_problem(plan.links, plan.header.links or 0)
        yield sources_problem(plan.links, plan.header.links or 0)
    for step, tables in plan.exchanges.items():
        of_step = "" if step == "expand" else f" of the {step}"
        yield f"sends and receives{of_step} mirror each other", _mirrors(tables)
    if plan.fold is not None:
        yield "every nonzero is in one part", _repetition(plan, plan.all_parts)
    if plan.header.types is not None:
        yield "the types fit the vertices", plan.header.types_problem()
        yield "every nonzero has a relation", _relations(plan, plan.header.types)
    yield from data_invariants(plan.vertex_data, plan.num_vertices)


def _relations(plan: Plan, types: Types) -> str:
    rows, columns = ends_of(plan)
    wrong = np.flatnonzero(~types.fits(rows, columns, relations_of(plan)))
    return f"nonzero ({rows[wrong[0]]}, {columns[wrong[0]]}) has no relation" if len(wrong) else ""


def _rises(offsets: Int64Array, total: int) -> str:
    if offsets[0] != 0 or offsets[-1] != total:
        return f"the first and last entry are {offsets[0]} and {offsets[-1]}, not 0 and {total}"
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])  # a difference could overflow
    return f"it falls after entry {falls[0]}" if len(falls) else ""


def _fold_problem(plan: Plan) -> str:
    if (plan.header.layout == "edge") == (plan.fold is not None):
        return ""
    return f"layout {plan.header.layout} with{'out' if plan.fold is None else ''} a fold"


def _local_rows(plan: Plan) -> str:
    found, expected = len(plan.row_ptr) - 1, plan.all_parts.local_ptr[-1]
    return "" if found == expected else f"it has {found} rows, the parts have {expected}"


def _permutation(plan: Plan) -> str:
    row = _repeated_or_outside(plan.global_id, plan.num_vertices)
    return "" if row < 0 else f"row {row} is vertex {plan.global_id[row]}, out of range or repeated"


@njit(cache=True, nogil=True, plain=True)
def _repeated_or_outside(ids, bound):  # type: ignore[no-untyped-def]
    """Return the first index whose id is repeated or outside ``0..bound-1``; -1 if none is."""
    seen = np.zeros(bound, np.bool_)
    for k in range(len(ids)):
        if ids[k] < 0 or ids[k] >= bound or seen[ids[k]]:
            return k
        seen[ids[k]] = True
    return -1


def _mirrors(exchange: Exchange) -> str:
    receiver, sender = _difference(exchange.send.arrays, exchange.receive.arrays)
    if receiver >= 0:
        return f"part {receiver} expects other rows than part {sender} sends to it"
    return ""


@njit(cache=True, nogil=True, plain=True)
def _difference(send, receive):  # type: ignore[no-untyped-def]
    """Return (receiver, sender) of a message that differs in the two tables, or (-1, -1).

    Both tables are well formed: (ptr, peer, row_ptr, row). Receivers are visited in ascending
    order, which is also the order of a sender's messages. So each message is compared with the next
    message of its sender, ``following[sender]``.
    """
    ptr, peer, row_ptr, row = receive
    send_ptr, send_peer, send_row_ptr, send_row = send
    following = send_ptr[:-1].copy()
    for m in range(len(ptr) - 1):
        for k in range(ptr[m], ptr[m + 1]):
            q = peer[k]
            at = following[q]
            following[q] += 1
            if at == send_ptr[q + 1] or send_peer[at] != m:
                return m, q
            size, other = row_ptr[k + 1] - row_ptr[k], send_row_ptr[at + 1] - send_row_ptr[at]
            if size != other:
                return m, q
            for e in range(size):
                if row[row_ptr[k] + e] != send_row[send_row_ptr[at] + e]:
                    return m, q
    for q in range(len(send_ptr) - 1):
        if following[q] < send_ptr[q + 1]:
            return send_peer[following[q]], q
    return -1, -1


def _repetition(plan: Plan, parts: PartRange) -> str:
    distinct = parts.with_distinct_columns()
    row, column = _repeated_nonzero(
        (np.diff(parts.part_ptr), parts.local_ptr, parts.halo_ptr()),
        (distinct.row_ptr, distinct.column),
        parts.part_ptr,
        parts.place_of_rows(),
        parts.place_of_halo(),
    )
    return f"({plan.global_id[row]}, {plan.global_id[column]}) is in two parts" if row >= 0 else ""


@njit(cache=True, nogil=True, plain=True)
def _repeated_nonzero(of_parts, csr, part_ptr, place_of_row, place_of_halo):  # type: ignore[no-untyped-def]
    """Return row and column, as places in plan order, of a nonzero that two parts have.

    Return (-1, -1) if there is none.
    """
    rows, local_ptr, halo_ptr = of_parts
    row_ptr, column = csr
    n = part_ptr[-1]
    ends = offsets_of(place_of_row, n)
    local, part = np.empty(len(place_of_row), np.int64), np.empty(len(place_of_row), np.int32)
    for m in range(len(rows)):
        for i in range(local_ptr[m], local_ptr[m + 1]):
            at = ends[place_of_row[i]]
            local[at], part[at] = i, m
            ends[place_of_row[i]] += 1
    stamp = np.full(n, -1, np.int32)
    first = 0
    for place in range(n):
        last = ends[place]
        for at in range(first, last if last > first + 1 else first):
            i, m = local[at], part[at]
            for k in range(row_ptr[i], row_ptr[i + 1]):
                c = column[k]
                of = part_ptr[m] + c
                if c >= rows[m]:
                    of = place_of_halo[halo_ptr[m] + c - rows[m]]
                if stamp[of] == place:
                    return place, of
                stamp[of] = place
        first = last
    return -1, -1
