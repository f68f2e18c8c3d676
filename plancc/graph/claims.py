"""What a list of edges says of itself beside them: counts, direction, and whether it has two sides.

SNAP, KONECT and Network Repository say it in comments, others in a line of sizes before the edges,
and tables by the names of their columns. It is compared with what was read.
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
"""What `warn_of_two_sides` and `warn_of_direction` say."""
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
"""Edges below a line of sizes: of fewer it may too well be an edge."""


class Said(NamedTuple):
    """What stands before the edges.

    Attributes:
        place: Says where it stands.
        vertices, edges: Their numbers; None: it has none.
        undirected: Whether an edge is one in both directions.
        sides: Vertices of rows and of columns, 0 where they are not counted, if each side has ids
            of its own; None: they share one id space.
    """

    place: str
    vertices: int | None = None
    edges: int | None = None
    undirected: bool = False
    sides: tuple[int, int] | None = None


def claims_of(head: bytes) -> Said:
    """What the comments before the first edge say."""
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
        # a value of "positive" counts edges, and a line has several
        several = weights is not None and b"pos" in weights
        both = rows + columns if kind == b"bip" else rows
        claims = claims._replace(vertices=both, edges=None if several else count)
    return claims


def first_line(
    first: Sequence[float], lines: int, below: Sequence[IntArray], is_table: bool
) -> tuple[str, Said | None]:
    """What is to be said of the first edge, "" for nothing, and what it says if it is none.

    In a line of sizes the last number counts the lines below, or is half of them if they have every
    edge in both directions, and those before are vertices, at least as many as the ids below ask
    for, or as many as occur. It may be an edge too if the first column never rises, as in a path
    from its end, or if fewer lines are below. pandas' line of column numbers is ``0,1[,2]``: two
    ids that occur nowhere else, while others occur again.

    Parameters:
        first: ``u, v`` or ``u, v, weight``.
        lines: Edges below.
        below: All their ids.
        is_table: Whether pandas may have written it.
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
        words = f"`columns` {'1,2,3'[: 2 * len(first) - 1]} takes it for one"
        words = f"is taken as numbers of vertices and edges, not as an edge ({words})"
        return words, Said("the first line says", int(first[0]), int(first[-1]))
    if of_pandas and len(ids) and ids.min() > 1 and len(np.unique(ids)) < len(ids):
        words = "is read as an edge, and its ids occur nowhere else; if it is pandas' line of"
        return f"{words} column numbers, put # before it", None
    return "", None


def _are_both_ways(below: Sequence[IntArray]) -> bool:
    """Whether every edge is there in both directions; of ids alone: whether it may be."""
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
    """Compare what is said with what was read.

    Parameters:
        edges: Lines with an edge, and those of them with a self loop.
        vertices: Of the graph.
        ids: Their ids, ascending, or names; None: they are 0..vertices - 1.
        by_number: The user has said how many vertices there are.

    Warns:
        PlanccWarning: For other counts. Lines may have an edge once, or in both directions.
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
        if said or not told:  # `plancc.graph.ids.number` tells
            said.insert(0, f"{claims.vertices:,} vertices")
            read.insert(0, f"{vertices:,}")
        if largest < claims.vertices and not short and not are_names(ids):
            first = "subtract 1 from the ids, and " * (least == 1)
            cure = f": {first}`num_vertices` {claims.vertices} keeps those without an edge"
    if said:
        counts = f"{' and '.join(said)}, and {' and '.join(read)} are read{cure}"
        warn(f"{where}: {claims.place} {counts}")
    if claims.sides is not None and by_number:
        words = "'bip': two sides, which share one id space by `keep_ids` or `num_vertices`"
        warn(f"{where}: {claims.place} {words}")


def warn_of_numbers(where: str, u: IntArray, v: IntArray, weights: npt.NDArray[Any]) -> None:
    """Warn where the first of three columns seems to have numbers of edges, or times.

    It counts the lines, and most numbers of the others are in both; or it alone is as large.
    """
    what, rises = "", len(u) >= _LEAST and u[0] in (0, 1) and u[-1] - u[0] == len(u) - 1
    if rises and (np.diff(u) == 1).all():
        alike = 2 * len(np.intersect1d(v, weights)) >= len(np.union1d(v, weights))
        what = "counts the lines, and most numbers of the others are in both" * alike
    elif u.min() >= OF_TIMES > v.max():
        what = "alone has numbers as large as times"
    if what:
        warn(f"{where}: column 1 {what}: `columns` 2,3 leaves it out if it is no end of an edge")


def warn_of_direction(claims: Said, where: str, directed: bool) -> None:
    """Warn where edges are said to be undirected, and some have no reverse."""
    if claims.undirected and directed:
        told = "that edges are undirected, and some are listed in one direction only"
        warn(f"{where}: {claims.place} {told}: `symmetrize` adds the other")


_PLAIN = "id ids node nodes vertex index idx no nr num number key code name token"
"""Words that say nothing of what is counted."""
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
"""Words that tell the two ends of an edge apart, not what they are."""
_ALIKE = 4
"""Letters at the beginning that make two words those of one thing, as caller and callee."""


def are_two_things(first: str, second: str) -> bool:
    """Whether the names of two columns are of two kinds of things, as "user_id" and "itemId"."""
    words = [_words_of(name) for name in (first, second)]
    both = words[0] | words[1]
    if not all(words) or words[0] & words[1] or not both.isdisjoint(_ROLES.split()):
        return False
    if any(len(word) == 1 for word in both):
        return both == {"u", "i"}  # user and item
    begins = ({word[:_ALIKE] for word in each if len(word) >= _ALIKE} for each in words)
    return not set.intersection(*begins)


def is_source_first(names: Sequence[str], source: str, destination: str) -> bool:
    """Whether the names of two columns hold those of these types, or words for them, in this order.

    Parameters:
        names: Of the columns of u and v; empty without.
    """
    first, second = [name.lower() for name in names] or ("", "")
    types = tuple(kind.lower().removesuffix("s") for kind in (source, destination))
    if types[0] != types[1] and types[1] in first and types[0] in second:
        return False
    pairs = (types, ("source", "target"), ("source", "dest"), ("src", "dst"), ("from", "to"))
    return any(u != v and u in first and v in second for u, v in pairs)


def _words_of(name: str) -> frozenset[str]:
    """The words of a name that say something: in lower case, without "id"."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\D)(?=\d)|[\W_]+", " ", name).lower()
    cut = (re.sub(r"(?<=.)(node|vertex)?ids?$", "", word) for word in apart.split())
    return frozenset(word for word in cut if word.isalpha() and word not in _PLAIN.split())


def warn_of_two_sides(where: str, names: Sequence[str], u: IntArray, v: IntArray) -> None:
    """Warn where two columns seem to count two kinds of things, and ids occur in both.

    Parameters:
        names: Of the columns of u and v; empty without.
    """
    if len(names) != 2 or not are_two_things(*names):
        return
    if both := len(np.intersect1d(u, v)):
        first, second = (f"'{shown(name, 40)}'" for name in names)
        told = f"share one id space: {both:,} ids occur in both, and are one vertex each"
        cure = "a folder with a types.toml keeps them apart (docs/use/types.md)"
        warn(f"{where}: columns {first} and {second} {told}; of two types, {cure}")
