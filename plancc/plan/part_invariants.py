"""Check the parts that a rank reads, and make the digests by which ranks compare their slices.

Every reader runs these checks, whose time is linear in nonzeros plus volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from plancc.errors import PlanError
from plancc.graph.mapped import MappedRows
from plancc.graph.types import first_of_columns
from plancc.graph.vertexdata import VertexData
from plancc.kernel import njit
from plancc.plan.exchange import Int64Array, Side
from plancc.plan.format import vertex_data_arrays, vertex_data_problem
from plancc.plan.links import link_problems
from plancc.plan.parts import Claims, PartRange
from plancc.plan.rank_parts import RankParts
from plancc.plan.route_invariants import route_invariants
from plancc.plan.values import LINKS, OF_ROWS, Header
from plancc.sampling.counter import mix

MATRIX_FAULTS = {
    1: ("parts have the columns that their nonzeros use", "{row} uses column {column}"),
    2: ("columns of a row are distinct, own ones first", "{row} uses column {column} twice"),
    3: ("columns of a row are distinct, own ones first", "{row} has a received column first"),
    4: ("interior rows come first", "{row} contradicts the number {interior} of interior rows"),
    5: ("every received row is used", "part {part} does not use received row {row_number}"),
    6: ("every folded row has a nonzero", "{row} has no nonzero"),
    7: ("owners of rows have the nonzeros of the diagonal", "{row} is folded and has one"),
}
"""Invariant and violation for each fault of `_matrix_fault`. Faults from `OF_FOLDS` on can only
occur in edge plans."""
OF_FOLDS = 6
MESSAGE_FAULTS = {
    1: "message {message} has a peer that is out of range or the part itself",
    2: "peers of part {part} are not ascending and unique",
    3: "message {message} is empty",
    4: "a row number of message {message} is not a row of its owner",
    5: "rows of message {message} are not strictly ascending",
}
"""Violation for each fault of `_message_fault`."""


def part_invariants(parts: PartRange, header: Header) -> Iterator[tuple[str, str]]:
    """Yield (invariant, violation) for parts of a plan; the violation is "" if there is none.

    Vertex data are not checked. Offsets must ascend and end at the lengths of the arrays.
    """
    rows, num_interior = np.diff(parts.part_ptr), parts.num_interior
    places = np.full(len(rows), parts.part_ptr[-1])
    for step, tables in parts.exchanges.items():
        bound = rows if step in OF_ROWS else places
        for end, table in (("send", tables.send), ("recv", tables.receive)):
            of_part = (step != "fold") == (end == "send")
            yield f"{step}/{end} tables are well formed", _messages(parts, table, bound, of_part)
    own = rows[parts.first : parts.last]
    outside = np.flatnonzero((num_interior < 0) | (num_interior > own))
    yield (
        "rows/num_interior is within the part's rows",
        f"part {parts.first + outside[0]} has {num_interior[outside[0]]}" if len(outside) else "",
    )
    yield from _matrix(parts, own)
    yield "matrix/value is finite", "" if all_finite(parts.value) else "NaN or infinity"
    for name in parts.read_columns:
        yield f"matrix/{name} are finite", "NaN or infinity" * (not all_finite(parts.columns[name]))
    yield from route_invariants(parts, header.route)
    if parts.links is not None:
        received = parts.exchanges[LINKS].receive
        yield from link_problems(parts.links, parts.part_ptr, parts.first, received)


def check(invariants: Iterable[tuple[str, str]], path: str = "") -> list[str]:
    """Return the names in pairs (name, fault); raise PlanError for the first pair with a fault."""
    done: dict[str, None] = {}
    for name, problem in invariants:
        if problem:
            raise PlanError(f"{path}: {name}: {problem}" if path else f"{name}: {problem}")
        done[name] = None
    return list(done)


def data_invariants(data: VertexData, num_vertices: int) -> Iterator[tuple[str, str]]:
    """Yield (rule, violation) for vertex data of some or all rows; "" if the rule holds."""
    if data.by_type is not None:
        yield "data by type have a row for every vertex", data.by_type.problem()
    for name, array in vertex_data_arrays(data).items():
        fine = (array.dtype.kind == "f" or isinstance(array, MappedRows)) and all_finite(array)
        yield vertex_data_problem(name, array[:0] if fine else array, num_vertices)
    for each in (data, *data.of_type.values()):
        if each.targets is not None:
            yield "labels or targets", "both are present" if each.labels is not None else ""


def _messages(parts: PartRange, table: Side, rows: Int64Array, of_part: bool) -> str:
    fault, part, message = _message_fault(*table.arrays, rows, parts.first, of_part)
    return MESSAGE_FAULTS[fault].format(part=part, message=message) if fault else ""


def _matrix(parts: PartRange, own: Int64Array) -> Iterator[tuple[str, str]]:
    place_of_row = place_of_halo = np.zeros(0, np.int64)
    if parts.exchanges.fold is not None:
        place_of_row, place_of_halo = parts.place_of_rows(), parts.place_of_halo()
    distinct = parts.with_distinct_columns()
    if parts.relation is not None:
        yield "relations of one row and column ascend", _falling(parts, parts.relation)
    fault, part, row, column = _matrix_fault(
        (own, parts.local_ptr, parts.num_interior),
        (distinct.row_ptr, distinct.column),
        parts.halo_ptr(),
        place_of_row,
        place_of_halo,
    )
    number = parts.first + part
    said = {
        "row": f"local row {row} of part {number}",
        "row_number": row,
        "part": number,
        "column": column,
        "interior": parts.num_interior[part],
    }
    for kind, (invariant, problem) in MATRIX_FAULTS.items():
        if kind < OF_FOLDS or parts.exchanges.fold is not None:
            yield invariant, problem.format(**said) if kind == fault else ""


def _falling(parts: PartRange, relation: npt.NDArray[np.uint16]) -> str:
    """Return a phrase for the first parallel nonzero that breaks the order by relation, or ""."""
    again = np.flatnonzero(~first_of_columns(parts.row_ptr, parts.column))
    wrong = again[relation[again] <= relation[again - 1]]
    return f"nonzero {wrong[0]} does not ascend" if len(wrong) else ""


@njit(cache=True, nogil=True, plain=True)
def _message_fault(ptr, peer, row_ptr, row, rows, first, of_part):  # type: ignore[no-untyped-def]
    """Return the first fault as (key of `MESSAGE_FAULTS`, part, message), or zeros.

    `ptr`, `peer`, `row_ptr` and `row` are the arrays of a `Side`. `rows` has the number of rows of
    every part; `first` is the first of the `Side`'s parts. `of_part` says whether the part, not its
    peer, owns the rows of its messages.
    """
    for i in range(len(ptr) - 1):
        part = first + i
        for k in range(ptr[i], ptr[i + 1]):
            other = peer[k]
            if other < 0 or other >= len(rows) or other == part:
                return 1, part, k
            if k > ptr[i] and peer[k - 1] >= other:
                return 2, part, k
            start, stop = row_ptr[k], row_ptr[k + 1]
            if start == stop:
                return 3, part, k
            for e in range(start + 1, stop):
                if row[e - 1] >= row[e]:
                    return 5, part, k
            if row[start] < 0 or row[stop - 1] >= rows[part if of_part else other]:
                return 4, part, k
    return 0, 0, 0


@njit(cache=True, nogil=True, plain=True)
def _matrix_fault(of_parts, csr, halo_ptr, place_of_row, place_of_halo):  # type: ignore[no-untyped-def]
    """Return the first fault in the parts' matrices, as (kind, part, local row, column).

    The kind is a key of `MATRIX_FAULTS`; without a fault, all four numbers are 0. `of_parts` is
    (rows, local_ptr, num_interior), and `csr` is (row_ptr, column).
    """
    rows, local_ptr, num_interior = of_parts
    row_ptr, column = csr
    stamp = np.empty((rows + halo_ptr[1:] - halo_ptr[:-1]).max(), np.int32)
    for m in range(len(rows)):
        own, held = rows[m], rows[m] + halo_ptr[m + 1] - halo_ptr[m]
        stamp[:held] = -1
        for r in range(local_ptr[m + 1] - local_ptr[m]):
            start, stop = row_ptr[local_ptr[m] + r], row_ptr[local_ptr[m] + r + 1]
            received = False
            for k in range(start, stop):
                c = column[k]
                if c < 0 or c >= held:
                    return 1, m, r, c
                if stamp[c] == r:
                    return 2, m, r, c
                stamp[c] = r
                if c >= own:
                    received = True
                elif received:
                    return 3, m, r, c
            if r < own:
                if received != (r >= num_interior[m]):
                    return 4, m, r, 0
                continue
            if start == stop:
                return 6, m, r, 0
            for k in range(start, stop):
                slot = halo_ptr[m] + column[k] - own
                if column[k] >= own and place_of_halo[slot] == place_of_row[local_ptr[m] + r]:
                    return 7, m, r, column[k]
        for c in range(own, held):
            if stamp[c] < 0:
                return 5, m, c - own, 0
    return 0, 0, 0, 0


def all_finite(values: npt.NDArray[np.floating]) -> bool:
    """Return whether all numbers are finite, without a temporary array of booleans."""
    if isinstance(values, MappedRows):
        whole = values.dtype.kind != "f"
        return whole or all(map(all_finite, values.pieces(0, len(values))))
    flat = np.ascontiguousarray(values).reshape(-1)
    info = np.finfo(flat.dtype)
    kind = np.dtype(f"i{flat.itemsize}").type
    exponent = kind(((1 << info.nexp) - 1) << info.nmant)
    return not _has_all_bits(flat.view(kind), exponent)


@njit(cache=True, nogil=True, plain=True)
def _has_all_bits(words, bits):  # type: ignore[no-untyped-def]
    """Return whether any of the words has all `bits`.

    The test is made once per 4,096 words, so that the compiler vectorises the loop.
    """
    for start in range(0, len(words), 4096):
        found = False
        for k in range(start, min(start + 4096, len(words))):
            found |= (words[k] & bits) == bits
        if found:
            return True
    return False


def claims_of(parts: PartRange, held: RankParts) -> Claims:
    """Return the `Claims` of a rank: figures of its messages, its vertices and its nonzeros.

    They leave out parts without own rows, and a part that a lower rank has too.
    """
    header, num_ranks, speaker = held.header, held.num_ranks, held.speaker
    first, last = held.parts
    if speaker[first] != held.rank:
        last = first
    if (first, last) != (parts.first, parts.last):
        parts = parts.of_parts(first - parts.first, last - parts.first)
    steps = parts.exchanges
    found = np.zeros((len(steps), 2, num_ranks), np.int64)
    for number, (step, tables) in enumerate(steps.items()):
        first_row = parts.part_ptr if step in OF_ROWS else np.zeros_like(parts.part_ptr)
        for end, table in enumerate((tables.send, tables.receive)):
            _digest_messages(
                table.arrays,
                first_row,
                parts.first,
                (step != "fold") == (end == 0),
                speaker,
                found[number, end],
            )
    ends = (held.rank, held.rank + 1)
    vertices = [header.num_vertices * k // num_ranks for k in ends]
    nonzeros = [header.num_nonzeros * k // num_ranks for k in ends]
    return Claims(
        sent=found[:, 0],
        expected=found[:, 1],
        vertices=int(_unbalanced(parts.global_id, *vertices)),
        nonzeros=len(parts.column) - (nonzeros[1] - nonzeros[0]),
        folds=steps.fold is not None,
    )


@njit(cache=True, nogil=True, plain=True)
def _unbalanced(numbers, first, last):  # type: ignore[no-untyped-def]
    """Return, modulo 2^64, the sum of the hashes (`mix`) of `numbers`, less that of first..last-1.

    The total over all ranks is 0 if their `numbers` together are the numbers of all their ranges.
    """
    total = np.uint64(0)
    for k in range(len(numbers)):
        total += mix(numbers[k])
    for number in range(first, last):
        total -= mix(number)
    return np.int64(total)


@njit(cache=True, nogil=True, plain=True)
def _digest_messages(table, part_ptr, first, of_part, rank_of_part, digest):  # type: ignore[no-untyped-def]
    """Add the hash of every message to ``digest[r]``, where rank r runs the part at the other end.

    The hash is the sum, over the rows of the message, of `mix` of the row's place in plan order and
    the part that reads the row. `of_part` says whether the parts of `table`, not their peers, own
    the rows.
    """
    ptr, peer, row_ptr, row = table
    parts = len(part_ptr) - 1
    for i in range(len(ptr) - 1):
        part = first + i
        for k in range(ptr[i], ptr[i + 1]):
            owner, other = (part, peer[k]) if of_part else (peer[k], part)
            total = np.uint64(0)
            for e in range(row_ptr[k], row_ptr[k + 1]):
                total += mix((part_ptr[owner] + row[e]) * parts + other)
            digest[rank_of_part[peer[k]]] += np.int64(total)
