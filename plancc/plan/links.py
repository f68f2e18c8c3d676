"""Links of a plan: pairs (source, target) of vertices for link prediction.

The part that owns the source of a link holds the link. Targets have local numbers like columns of
the matrix: first the own rows, then the rows received in the exchange ``links``, in the order of
arrival. So the links are a second sparse matrix with the same owners of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.listed_edges import places_in
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, Side, interval, offsets, runs
from plancc.plan.receive_sets import exchange_of_messages

OF_SPLITS = {"train": (0,), "val": (1, 3), "test": (2, 4)}
"""For each split, the kinds of its links and of its fixed negatives, as indices in `KINDS`."""
NUM_KINDS = 5


@dataclass(frozen=True)
class PartLinks:
    """Links of consecutive parts, or of one rank.

    Attributes:
        ptr (int64[parts + 1]): Links of part m are ``ptr[m]:ptr[m + 1]``, sorted by kind and
            number.
        source (int32[links]): Local row of the source of every link.
        target (int32[links]): Local number of the target of every link: own rows come first, then
            the rows that the part receives for links.
        kind (uint8[links]): Kind of every link, as an index in `plancc.graph.links.KINDS`.
        number (int64[links]): Position of every link in the list of all links of its kind that the
            user gave.
    """

    ptr: Int64Array
    source: Int32Array
    target: Int32Array
    kind: npt.NDArray[np.uint8]
    number: Int64Array

    def of_parts(self, first: int, last: int) -> PartLinks:
        """Return the links of parts ``first..last-1``."""
        ptr = self.ptr[first : last + 1]
        at = slice(ptr[0], ptr[-1])
        columns = self.source[at], self.target[at], self.kind[at], self.number[at]
        return PartLinks(ptr - ptr[0], *columns)

    def part(self) -> Int64Array:
        """Return the part of every link, int64[links]."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def renumbered(self, new: Int32Array) -> PartLinks:
        """Renumber own rows: local row r becomes ``new[r]``. Received rows keep their numbers."""
        target, own = self.target.copy(), self.target < len(new)
        target[own] = new[target[own]]
        return replace(self, source=new[self.source], target=target)


def lower_links(
    ends: Int64Array, kind: npt.NDArray[np.uint8], number: Int64Array, part_ptr: Int64Array
) -> tuple[PartLinks, tuple[Int64Array, Int64Array, Int64Array]]:
    """Assign each link to the part that owns its source.

    Parameters:
        ends (int64[2, links]): Sources and targets as places in plan order.
        kind, number: See `PartLinks`.
        part_ptr (int64[num_parts + 1]): First row of every part in plan order.

    Returns:
        The links of all parts; and the rows that parts must receive for their links, as the triple
        (receiver, owner, row) that `exchange_of_rows` takes.
    """
    parts = len(part_ptr) - 1
    part, other = interval(ends[0], part_ptr), interval(ends[1], part_ptr)
    order = np.lexsort((number, kind, part))
    (source, target), part, other = ends[:, order], part[order], other[order]
    foreign, n = other != part, int(part_ptr[-1])
    received = np.unique(part[foreign] * n + target[foreign])
    receiver, place = received // n, received % n
    owner = interval(place, part_ptr)
    local = target - part_ptr[part]
    first = np.searchsorted(receiver, part[foreign])
    slot = np.searchsorted(received, part[foreign] * n + target[foreign]) - first
    local[foreign] = np.diff(part_ptr)[part[foreign]] + slot
    links = PartLinks(
        offsets(np.bincount(part, minlength=parts)),
        (source - part_ptr[part]).astype(np.int32),
        local.astype(np.int32),
        kind[order],
        number[order],
    )
    return links, (receiver, owner, place - part_ptr[owner])


def exchange_of_rows(
    receiver: Int64Array, owner: Int64Array, row: Int64Array, parts: int
) -> Exchange:
    """Return the exchange between all parts that sends the given rows.

    Parameters:
        receiver, owner, row (int64[volume]): For every row that is sent, the part that receives
            the row, the part that owns the row, and the row's local number at its owner. Sorted by
            receiver, then owner, then row.
        parts: Number of parts.
    """
    keys, row_ptr = runs(receiver * parts + owner)
    to, start = (each.astype(np.int32) for each in np.divmod(keys, parts))
    return exchange_of_messages(to, start, row_ptr, row.astype(np.int32), parts)


def places_of(
    links: PartLinks, part_ptr: Int64Array, first: int, received: Side
) -> tuple[Int64Array, Int64Array]:
    """Return the sources and the targets of links as places in plan order, int64[links] each.

    Parameters:
        links: Links of consecutive parts.
        part_ptr (int64[num_parts + 1]): First row of every part of the plan.
        first: Index of the first of these parts.
        received: The messages with the rows that these parts receive for links.
    """
    part = links.part()
    before = part_ptr[first + part]
    rows = part_ptr[first + part + 1] - before
    target = before + links.target
    away = links.target >= rows
    halo = part_ptr[received.peer_of_row()] + received.row
    at = received.row_ptr[received.ptr][part[away]] + links.target[away] - rows[away]
    target[away] = halo[at]
    return before + links.source, target


def links_of_rank(
    links: PartLinks, ends: tuple[Int64Array, Int64Array], rows: tuple[int, int], own: Int32Array
) -> tuple[PartLinks, Int64Array]:
    """Merge the links of the parts of one rank.

    Parameters:
        links: Links of the parts.
        ends: Result of `places_of` for these links.
        rows: The rank has the rows ``rows[0]:rows[1]`` in plan order.
        own (int32[rows]): Local number of every row of the rank, in plan order.

    Returns:
        The links of the rank; and the rows that it must receive for them, as ascending places in
        plan order.
    """
    (source, target), (first, last) = ends, rows
    order = np.lexsort((links.number, links.kind))
    foreign = (target < first) | (target >= last)
    received = np.unique(target[foreign])
    local = np.empty(len(target), np.int32)
    local[~foreign] = own[target[~foreign] - first]
    local[foreign] = len(own) + np.searchsorted(received, target[foreign])
    mine = PartLinks(
        np.array([0, len(order)]),
        own[source - first][order],
        local[order],
        links.kind[order],
        links.number[order],
    )
    return mine, received


def link_problems(
    links: PartLinks, part_ptr: Int64Array, first: int, received: Side
) -> Iterator[tuple[str, str]]:
    """Check the links of some parts.

    Yields a pair (rule, violation) for each rule. The violation is "" if the rule holds.

    Parameters: see `places_of`.
    """
    part = links.part()
    rows = np.diff(part_ptr)[first + part]
    arrive = received.rows_per_part()
    wrong = (links.source < 0) | (links.source >= rows)
    yield "owners of sources have the links", _first(links.source, wrong)
    outside = (links.target < 0) | (links.target >= rows + arrive[part])
    yield "parts have the targets of their links", _first(links.target, outside)
    yield "links have a known kind", _first(links.kind, links.kind >= NUM_KINDS)
    yield "links have numbers", _first(links.number, links.number < 0)
    if not outside.any():
        away = links.target >= rows
        used = np.zeros(received.volume, np.bool_)
        used[received.row_ptr[received.ptr][part[away]] + (links.target - rows)[away]] = True
        idle = np.flatnonzero(~used)
        yield "rows received for links are used", f"row {idle[0]} is unused" if len(idle) else ""


def numbers_problem(links: PartLinks, per_link: int) -> str:
    """Check the links of all parts. Return the first problem, or "".

    The m links of each kind must have the numbers 0..m - 1, each number once. Every validation link
    and every test link must have `per_link` (`Header.links`) negatives; if `per_link` is 0, any
    number of negatives is allowed.
    """
    sizes = np.bincount(links.kind, minlength=NUM_KINDS)
    order = np.lexsort((links.number, links.kind))
    expected = np.concatenate([np.arange(size) for size in sizes])
    wrong = np.flatnonzero(links.number[order] != expected)
    if len(wrong):
        return (
            f"number {expected[wrong[0]]} of kind {links.kind[order][wrong[0]]} does not occur once"
        )
    for of, negative in list(OF_SPLITS.values())[1:]:
        if per_link and sizes[negative] != per_link * sizes[of]:
            return f"{sizes[of]} links have {sizes[negative]} negatives, not {per_link} each"
    return ""


def sources_problem(links: PartLinks, per_link: int) -> tuple[str, str]:
    """Check, for some parts, that the negatives of every link have the same source as the link.

    `per_link`: number of negatives of every link; if 0, links share negatives, and any sources fit.

    Returns:
        The rule, and what violates it; "" if the rule holds.
    """
    wrong = np.zeros(len(links.kind), np.bool_)
    ends = np.stack([links.part(), links.source])
    for of, negative in list(OF_SPLITS.values())[1:] if per_link else ():
        own, others = (np.flatnonzero(links.kind == kind) for kind in (of, negative))
        own = own[np.argsort(links.number[own])]
        at = places_in(links.number[own], links.number[others] // per_link)
        wrong[others] = at < 0
        there = others[at >= 0]
        wrong[there] = (ends[:, there] != ends[:, own[at[at >= 0]]]).any(axis=0)
    return "negatives of a link have its source", _first(links.source, wrong)


def _first(values: npt.NDArray[Any], wrong: npt.NDArray[np.bool_]) -> str:
    place = np.flatnonzero(wrong)
    return f"link {place[0]} has {values[place[0]]}" if len(place) else ""
