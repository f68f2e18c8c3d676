"""Links of a plan: pairs (source, target) of vertices for link prediction.

The owner of the source holds a link. Targets have local numbers: first the own rows, then the rows
received in the exchange ``links``, in the order of arrival.
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
    """Links (pairs of vertices for link prediction) of consecutive parts, or of one rank.

    Attributes:
        ptr (int64[parts + 1]): Part m has links ``ptr[m]:ptr[m + 1]``, sorted by kind and number.
        source (int32[links]): Local row of the source.
        target (int32[links]): Local number of the target: own rows, then rows received for links.
        kind (uint8[links]): Index in `plancc.graph.links.KINDS`.
        number (int64[links]): Position in the user's list of links of the same kind.
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
    """Assign links to the parts that own their sources; `ends` are positions in plan order.

    `kind` and `number` are those of each link, as in `PartLinks`. The second result lists the rows
    that parts must receive, as `exchange_of_rows` takes them.
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
    """Return the exchange that sends row ``row[k]`` of part ``owner[k]`` to ``receiver[k]``.

    Rows are local numbers, and must be sorted by receiver, then owner, then row.
    """
    keys, row_ptr = runs(receiver * parts + owner)
    to, start = (each.astype(np.int32) for each in np.divmod(keys, parts))
    return exchange_of_messages(to, start, row_ptr, row.astype(np.int32), parts)


def places_of(
    links: PartLinks, part_ptr: Int64Array, first: int, received: Side
) -> tuple[Int64Array, Int64Array]:
    """Return the sources and targets of links as positions in plan order, int64[links] each.

    The links are of parts `first`, `first` + 1, ...; `received` lists the rows of other parts that
    these links need.
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
    """Merge the links (pairs of vertices) of a rank's parts; return also the rows to receive.

    The rank's rows have the places ``rows[0]:rows[1]`` in plan order, and the local numbers `own`.
    `ends` has the sources and targets of the links. `ends` and the returned rows are places in plan
    order.
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
    """Yield (rule, violation) for each rule of links; the violation is "" if the rule holds."""
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
    """Return the first problem with the numbers of all links, or "".

    The m links of a kind have the numbers 0..m - 1, each once. Every validation or test link has
    `per_link` negatives, or any number of negatives if `per_link` is 0.
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
    """Return (rule, violation) for the rule that negatives have the source of their link.

    If `per_link` is 0, links share negatives, and any source fits.
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
