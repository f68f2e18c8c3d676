"""Claims that an edge list makes about itself: counts, direction, separate ids of rows and columns.

Comments, a line of sizes before the edges, or names of columns make claims. They are compared with
the edges that were read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import warn
from plancc.graph.edge_weights import OF_TIMES
from plancc.graph.named_ids import are_names
from plancc.text import shown

IntArray = npt.NDArray[np.integer]
TOLD = ".*(share one id space|are undirected)"
"""Pattern of the warnings of `warn_of_two_sides` and `warn_of_direction`."""
_NUMBER = rb"(\d(?:,?\d){0,17})\b(?!\.\d)"
_OF = rb"(?:num_|number of )?(?:%s)[ \t]*[:=][ \t]*" + _NUMBER
_COUNTS = re.compile(
    rb"^[#%%]+[ \t]*(?:%s)?[ \t,;]*(?:%s)?"
    % (_OF % b"nodes|vertices|\\|V\\|", _OF % b"edges|links|\\|E\\|"),
    re.IGNORECASE | re.MULTILINE,
)
_COUNTS_BEFORE = re.compile(
    rb"^[#%%]+[ \t]*%s (?:nodes|vertices)(?:,| and|, and) %s (?:edges|links)[ \t.\r]*$"
    % (_NUMBER, _NUMBER),
    re.IGNORECASE | re.MULTILINE,
)
_KONECT = re.compile(
    rb"^%[ \t]*(a?sym|bip)\b(?:[ \t]+(\w+))?[^\n]*"
    rb"(?:\n%[ \t]*(\d{1,18})[ \t]+(\d{1,9})[ \t]+(\d{1,9})[ \t\r]*$)?",
    re.MULTILINE,
)
_UNDIRECTED = re.compile(
    rb"^[#%]+[ \t]*(undirected\b(?![ \t]*[:=])|undirected[ \t]*[:=][ \t]*(true|yes|1)\b"
    rb"|directed[ \t]*[:=][ \t]*(false|no|0)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_LEAST = 3
"""Least number of edges below a line of sizes; with fewer edges the line may well be an edge."""


class Said(NamedTuple):
    """Claims about the graph that a file makes before its first edge.

    Attributes:
        place: Phrase that says where the claims are, for messages: "the comments say".
        vertices, edges: Claimed numbers of vertices and of edges; None without a claim.
        undirected: Whether the file says that edges are undirected.
        sides: Claimed numbers of row ids and column ids, 0 without a claim; None if ids of rows
            and columns are the same.
    """

    place: str
    vertices: int | None = None
    edges: int | None = None
    undirected: bool = False
    sides: tuple[int, int] | None = None


def claims_of(head: bytes) -> Said:
    """Return what `head`, the comments before the first edge, says about the graph."""
    counts: list[int | None] = [None, None]
    for found in chain(_COUNTS.finditer(head), _COUNTS_BEFORE.finditer(head)):
        for k, word in enumerate(found.groups()):
            counts[k] = int(word.replace(b",", b"")) if word else counts[k]
    claims = Said("the comments say", counts[0], counts[1], bool(_UNDIRECTED.search(head)))
    konect = _KONECT.search(head)
    if konect is None:
        return claims
    kind, weights, *sizes = konect.groups()
    count, rows, columns = (int(size or 0) for size in sizes)
    if kind == b"bip":
        claims = claims._replace(sides=(rows, columns))
    elif kind == b"sym":
        claims = claims._replace(undirected=True)
    if count:
        # a weight of type "positive" is a number of edges, so a line may stand for several edges
        several = weights is not None and b"pos" in weights
        both = rows + columns if kind == b"bip" else rows
        claims = claims._replace(vertices=both, edges=None if several else count)
    return claims


def first_line(
    first: Sequence[float], lines: int, below: Sequence[IntArray], is_table: bool
) -> tuple[str, Said | None]:
    """Return a remark on the first line of an edge list, and its sizes if it holds no edge.

    A line of sizes holds the number of vertices, once or twice, and then the number of edges. The
    number of vertices must be large enough for the ids below, or equal the number of distinct ids.
    The number of edges must equal the number of lines below, or half of it if every edge is listed
    in both directions.

    A line like this is read as an edge if the first column never rises (a path listed from its
    end), or if fewer lines follow than it says. ``0,1`` and ``0,1,2`` may be column numbers of
    pandas; they are read as edges, with a remark if their ids occur nowhere else while other ids
    are repeated.

    `below` are the columns u and v, or one array of distinct ids; `is_table`: pandas may be the
    writer.
    """
    square = len(first) == 2 or first[0] == first[1]
    counts = square and lines >= _LEAST
    sizes = counts and lines in (first[-1], 2 * first[-1])
    cut_off = counts and len(first) == 2 and lines < first[-1] and first[0] <= 2 * lines
    of_pandas = is_table and [*first] == [*range(len(first))]
    if not (sizes or cut_off or of_pandas):
        return "", None
    ids = np.concatenate(below)
    if sizes and first[-1] != lines and not _are_both_ways(below):
        return "", None
    if cut_off:
        sizes = first[0] == ids.max() - ids.min() + 1 and first[-1] not in ids
    if sizes and (
        first[0] >= ids.max() + (ids.min() == 0)
        or (first[0] not in ids and first[0] == len(np.unique(ids)))
    ):
        if cut_off or (len(first) == 2 and (np.diff(below[0], prepend=first[0]) <= 0).all()):
            return "is read as an edge; if it has the sizes of the graph, put # before it", None
        words = f"`columns` {'1,2,3'[: 2 * len(first) - 1]} reads the line as an edge"
        words = f"is read as the counts of vertices and edges, not as an edge ({words})"
        return words, Said("the first line says", int(first[0]), int(first[-1]))
    if of_pandas and len(ids) and ids.min() > 1 and len(np.unique(ids)) < len(ids):
        words = "is read as an edge, and its ids occur nowhere else; if it is pandas' line of"
        return f"{words} column numbers, put # before it", None
    return "", None


def _are_both_ways(below: Sequence[IntArray]) -> bool:
    """Whether every edge is listed in both directions; True if it is unknown.

    `below` is the list of the columns u and v; if it has another length, the edges are unknown.
    """
    if len(below) != 2:
        return True
    ids, place = np.unique(np.concatenate(below), return_inverse=True)
    u, v = np.split(place, 2)
    return np.array_equal(np.sort(u * len(ids) + v), np.sort(v * len(ids) + u))


def warn_of_counts(
    claims: Said,
    where: str,
    edges: tuple[int, int],
    vertices: int,
    ids: npt.NDArray[Any] | None = None,
    by_number: bool = False,
) -> None:
    """Warn if the numbers of vertices or edges that a file claims differ from the numbers read.

    A claimed number of edges may count every edge once or in both directions. `edges` has two
    numbers that were read: lines with an edge, and lines with a self loop. If `by_number`, there is
    also a warning if the file claims that rows and columns have separate ids.
    """
    (lines, loops), said, read, short = edges, list[str](), list[str](), False
    if claims.edges is not None:
        ways = (lines, claims.edges), (claims.edges, lines)
        if not any(one in (other, 2 * other, 2 * other - loops) for one, other in ways):
            said, read, short = [f"{claims.edges:,} edges"], [f"{lines:,}"], lines < claims.edges
    cure = ": the file may be cut off" * short
    if claims.vertices is not None and claims.vertices != vertices and not by_number:
        least, largest = 0, vertices - 1
        if ids is not None and not are_names(ids):
            least, largest = int(ids[0]), int(ids[-1])
        told = vertices != largest - least + 1 and claims.vertices in (largest, largest + 1)
        if said or not told:  # otherwise `plancc.graph.ids.number` warns
            said.insert(0, f"{claims.vertices:,} vertices")
            read.insert(0, f"{vertices:,}")
        if largest < claims.vertices and not short and not are_names(ids):
            first = "subtract 1 from the ids, and " * (least == 1)
            cure = f": {first}`num_vertices` {claims.vertices} keeps vertices without an edge"
    if said:
        counts = f"{' and '.join(said)}, but {' and '.join(read)} are read{cure}"
        warn(f"{where}: {claims.place} {counts}")
    if claims.sides is not None and by_number:
        words = "'bip': u and v have separate ids, but `keep_ids` or `num_vertices` joins them"
        warn(f"{where}: {claims.place} {words}")


def warn_of_numbers(where: str, u: IntArray, v: IntArray, weights: npt.NDArray[Any]) -> None:
    """Warn if the first of three columns seems to hold line numbers or times.

    Numbers that rise by 1 from line to line count as line numbers if the other columns share most
    of their numbers. Numbers of at least `OF_TIMES` count as times if the second column has no
    number as large.
    """
    what, rises = "", len(u) >= _LEAST and u[0] in (0, 1) and u[-1] - u[0] == len(u) - 1
    if rises and (np.diff(u) == 1).all():
        alike = 2 * len(np.intersect1d(v, weights)) >= len(np.union1d(v, weights))
        what = "holds line numbers, and columns 2 and 3 have most numbers in common" * alike
    elif u.min() >= OF_TIMES > v.max():
        what = "alone has numbers as large as times"
    if what:
        warn(f"{where}: column 1 {what}: if column 1 has no ids, leave it out with `columns` 2,3")


def warn_of_direction(claims: Said, where: str, directed: bool) -> None:
    """Warn if the file says that edges are undirected, but some edges have no reverse edge."""
    if claims.undirected and directed:
        told = "that edges are undirected, but some are listed in one direction only"
        warn(f"{where}: {claims.place} {told}: `symmetrize` adds the other direction")


_PLAIN = "id ids node nodes vertex index idx no nr num number key code name token"
"""Words of column names that do not name a kind of thing."""
_ROLES = """
src dst source target sources targets from to row col column head tail parent child citing cited
cite cites reference ref start end begin stop origin dest destination origins destinations first
second left right in out input output inlet outlet sender receiver send recv recipient caller callee
ego alter subject friend neighbor neighbour nbr other partner peer contact follower followee
followed following follows leader manager boss supervisor buyer seller lender borrower payer payee
debtor creditor donor acceptor winner loser home away predator prey cause effect upstream downstream
up down pre post pred succ prev previous next ancestor descendant mother father son daughter spouse
sibling import imported dependency dependent depends requires derived link linked related rater
ratee truster trustee voter votee similar coauthor adviser advisee advisor student that this one two
self master slave departure arrival primary secondary superior subordinate replier repliee reply
mentioned retweeted quoted
"""
"""Words of column names that name an end of an edge, not a kind of thing."""
_ALIKE = 4
"""Two words with this many equal first letters name one kind of thing, such as caller and
callee.
"""


def are_two_things(first: str, second: str) -> bool:
    """Whether two column names, such as "user_id" and "itemId", stand for two kinds of things."""
    words = [_words_of(name) for name in (first, second)]
    both = words[0] | words[1]
    if not all(words) or words[0] & words[1] or not both.isdisjoint(_ROLES.split()):
        return False
    if any(len(word) == 1 for word in both):
        return both == {"u", "i"}  # user and item
    begins = ({word[:_ALIKE] for word in each if len(word) >= _ALIKE} for each in words)
    return not set.intersection(*begins)


def is_source_first(names: Sequence[str], source: str, destination: str) -> bool:
    """Whether the names of two columns say that the first column holds the sources of edges.

    Such names are "src" and "dst", or the names of the types `source` and `destination`.
    """
    first, second = [name.lower() for name in names] or ("", "")
    types = tuple(kind.lower().removesuffix("s") for kind in (source, destination))
    if types[0] != types[1] and types[1] in first and types[0] in second:
        return False
    pairs = (types, ("source", "target"), ("source", "dest"), ("src", "dst"), ("from", "to"))
    return any(u != v and u in first and v in second for u, v in pairs)


def _words_of(name: str) -> frozenset[str]:
    """Return the words of a column name that say what its ids stand for: {"item"} for "itemId"."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\D)(?=\d)|[\W_]+", " ", name).lower()
    cut = (re.sub(r"(?<=.)(node|vertex)?ids?$", "", word) for word in apart.split())
    return frozenset(word for word in cut if word.isalpha() and word not in _PLAIN.split())


def warn_of_two_sides(where: str, names: Sequence[str], u: IntArray, v: IntArray) -> None:
    """Warn if u and v seem to be ids of two kinds of things, but the columns have ids in common."""
    if len(names) != 2 or not are_two_things(*names):
        return
    if both := len(np.intersect1d(u, v)):
        first, second = (f"'{shown(name, 40)}'" for name in names)
        told = f"share one id space: {both:,} ids occur in both, and each is one vertex"
        cure = "a folder with a types.toml keeps them apart (docs/use/types.md)"
        warn(f"{where}: columns {first} and {second} {told}; if they hold two types, {cure}")
