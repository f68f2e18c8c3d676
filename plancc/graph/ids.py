"""Functions that choose the columns of an edge table, and turn its ids into vertex numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.graph.graph import MAX_VERTICES, check_num_vertices, first_true
from plancc.graph.named_ids import Names, check_no_numbers
from plancc.graph.textfile import show
from plancc.graph.union import Entries

IntArray = npt.NDArray[np.integer]
ID_OPTIONS = ("num_vertices", "keep_ids")
_PAIRS = (("src", "dst"), ("source", "target"), ("u", "v"), ("from", "to"), ("row", "col"))
USUAL = frozenset(name for pair in _PAIRS for name in pair)
"""Usual names of the columns of u and v."""
SPARSE = 2
"""Ids are not vertex numbers if the largest id exceeds the number of distinct ids by this
factor."""
_WEIGHTS = ("weight", "edge_weight", "w", "value")
_INDEX = ("", "unnamed: 0", "__index_level_0__")
"""Names of pandas' index, in lower case."""
_NUMBERS = ("id", "edge_id", "edgeid", "eid", "index", "rank", "unnamed")
"""Names of columns that number the edges, in lower case."""
_TIMES = ("time", "timestamp", "ts", "date", "datetime", "year")
"""Names of columns that hold times, in lower case."""
_OF_VERTICES = {"label", "labels", "class", "feature", "features"}
"""Names of columns of vertex data, in lower case."""
_TRIPLES = (["predicate"], ["relation"], ["rel"])
"""Names of the second column of triples (subject, relation, object)."""
_SHORT_TRIPLES = (["h", "r", "t"], ["s", "p", "o"])


def edge_columns(
    where: str, names: Sequence[str], columns: Sequence[str], texts: Container[str] = ()
) -> tuple[str, ...]:
    """Return the names of the columns of u, v and perhaps weights.

    If the user chose no columns, u and v have usual names, or are the first two columns that hold
    no pandas index, weights, edge numbers or times. Weights have a usual name, or are the last of
    three columns. `texts` are the names of columns without numbers.
    """
    names, columns = list(names), tuple(columns)
    listed = ", ".join(show(name) for name in names[:20])
    if columns:
        if len(columns) not in (2, 3) or len(set(columns)) != len(columns):
            cure = "give two or three names, of u, v and the weights"
            raise InputError(f"{where}: `columns` {','.join(columns)}: {cure}")
        for name in columns:
            if names.count(name) != 1:
                raise InputError(f"{where}: column '{name}' is missing; there are {listed}")
        return columns
    kept = names
    if len(names) > 2:
        kept = [name for name in names if name.lower() not in _INDEX]
        kept = kept if names[0] in kept or names[0] not in texts else [names[0], *kept]
    lower = [name.lower() for name in kept]
    weights = [kept[lower.index(name)] for name in _WEIGHTS if lower.count(name) == 1][:1]
    ends = _usual_ends(where, kept, weights, texts)
    if not ends:
        weights = weights if len(kept) == 3 else []
        ends = [name for name in kept if name not in weights][:2]
        triples = lower in _SHORT_TRIPLES or lower[1:2] in _TRIPLES or (
            len(kept) == 3 and not weights and kept[2] in texts
        )  # fmt: skip
        data = not _OF_VERTICES.isdisjoint(map(str.lower, ends))
        if triples or data or len(kept) not in (2, 3) or len(set(kept)) != len(kept):
            cure = " (`data` reads vertex data)" * data
            asked = "which columns are the edges? Name them with `columns`"
            raise InputError(f"{where}: {asked}: {listed}{cure}")
    if not weights and len(kept) == 3 and kept[2] not in ends and kept[2] not in texts:
        weights = [] if lower[2] in _NUMBERS else kept[2:]
    rest = [name for name in kept if name not in (*ends, *weights)]
    if rest:
        no_weights = {*_NUMBERS, *_TIMES, *USUAL}
        numbers = (name for name in rest if name not in texts and name.lower() not in no_weights)
        takes, cure = next(numbers, None), ""
        if takes is not None and not weights:
            cure = f" (`columns` {','.join((*ends, takes))} reads {show(takes)} as weights)"
        warn(f"{where}: ignored: {', '.join(show(name) for name in rest[:20])}{cure}")
    return (*ends, *weights)


def _usual_ends(
    where: str, names: list[str], weights: list[str], texts: Container[str]
) -> list[str]:
    """Return the names of the columns of u and v; an empty list if no rule finds them.

    Rules: two columns have a usual pair of names; or the first column has edge numbers or times,
    and two columns follow, besides weights.
    """
    lower = [name.lower() for name in names]
    usual = (pair for pair in _PAIRS if all(lower.count(name) == 1 for name in pair))
    if pair := next(usual, None):
        u, v = (names[lower.index(name)] for name in pair)
        if names.index(v) < names.index(u):
            told = f"column {show(u)} holds rows, and {show(v)} the rows they need"
            cure = f"(`columns` {v},{u} swaps the columns)"
            warn(f"{where}: the columns are read by their names: {told} {cure}")
        return [u, v]
    others = [name for name in names[1:] if name not in weights]
    alike = len({*others}) == len(others) == 2 and len({name in texts for name in others}) == 1
    first = (*_NUMBERS, *_TIMES, *_INDEX)
    return others if alike and lower[0] in first and "parent" not in lower[1] else []


class PiecewiseEdges(ABC):
    """Edges between ids, read in pieces (`external.Entrywise`): first the ids, then the edges.

    Attributes:
        loops: Number of self loops.
        sides: Distinct ids of the edges' first ends, and of their second ends, each ascending.
    """

    directed = None
    changed = "the file changed while it was read"

    def __init__(self, where: str, num_vertices: int | None, keep_ids: bool) -> None:
        self.where, self.most, self.loops = where, 0, 0
        sides = [np.empty(0, np.int64)] * 2
        for u, v, _ in self.pieces():
            self.most, self.loops = self.most + len(u), self.loops + int(np.sum(u == v))
            sides = [np.union1d(*each) for each in zip(sides, (u, v), strict=True)]
        self.sides, ids = sides, np.union1d(*sides)
        if not len(ids):
            raise InputError(f"{where}: the file holds no edge")
        found = number(ids, ids, where, num_vertices, keep_ids)
        check_num_vertices(found.num_vertices, where)
        self.num_vertices, self.original_ids = found.num_vertices, found.original_ids

    @abstractmethod
    def pieces(self) -> Iterator[Entries]:
        """Yield the edges of every piece of the source: ids u, ids v, and weights or None."""

    def __iter__(self) -> Iterator[Entries]:
        count = 0
        for u, v, weights in self.pieces():
            count += len(u)
            if self.original_ids is not None:
                u, v = np.searchsorted(self.original_ids, u), np.searchsorted(self.original_ids, v)
            yield u, v, weights
        if count != self.most:
            raise InputError(f"{self.where}: {self.changed}")


class Numbered(NamedTuple):
    """Edges with vertex numbers.

    Attributes:
        u, v (int[edges]): Vertex numbers.
        original_ids (int64 or bytes[num_vertices], or None): The source's ids; None if they are the
            vertex numbers.
    """

    num_vertices: int
    u: npt.NDArray[np.integer]
    v: npt.NDArray[np.integer]
    original_ids: npt.NDArray[Any] | None


def number(
    u: IntArray,
    v: IntArray,
    where: str,
    num_vertices: int | None = None,
    keep_ids: bool = False,
    *,
    place: Callable[[int], str] | None = None,
    names: Names | None = None,
) -> Numbered:
    """Return vertex numbers for the ids of an edge list with at least one edge.

    With `num_vertices` or `keep_ids`, ids are vertex numbers; otherwise the vertices are the ids
    that occur, ascending. If `names` is given, ids are indices in it, and are the vertex numbers.
    Errors name an edge by ``place(edge)``.
    """
    if names is not None:
        check_no_numbers(where, num_vertices, keep_ids)
        return Numbered(len(names), u, v, names)
    smallest, largest = int(min(u.min(), v.min())), int(max(u.max(), v.max()))
    if num_vertices is not None:
        check_num_vertices(num_vertices, where)
        check_ids(u, v, num_vertices, place or (lambda _: where))
    elif keep_ids:
        num_vertices = largest + 1
        if num_vertices > MAX_VERTICES:
            told = f"vertex id '{largest}' is too large to be a vertex number (`keep_ids`)"
            raise InputError(f"{where}: {told}; at most {MAX_VERTICES - 1} is supported")
    if num_vertices is not None:
        if smallest == 1 and largest == num_vertices - 1:
            told = "the smallest id is 1, and vertex 0 has no edge: if ids count from 1"
            cure = "leave out `keep_ids` and `num_vertices`, or subtract 1 from the ids"
            warn(f"{where}: {told}, {cure}")
        return Numbered(num_vertices, u, v, None)
    found = _compact(u, v, largest)
    if found.num_vertices != largest - smallest + 1:
        others = "" if largest >= SPARSE * found.num_vertices else (
            f": `keep_ids` or `num_vertices` {largest + 1} makes vertices of all ids"
            f"{', even of 0' * (smallest == 1)}"
        )  # fmt: skip
        warn(f"{where}: {found.num_vertices:,} vertices occur; ids go up to {largest:,}{others}")
    return found


def check_ids(u: IntArray, v: IntArray, num_vertices: int, place: Callable[[int], str]) -> None:
    """Raise InputError for the first edge with an id that is not below `num_vertices`."""
    if (k := first_true((u >= num_vertices) | (v >= num_vertices))) is not None:
        bound = f"0..{num_vertices - 1} (`num_vertices` {num_vertices})"
        raise InputError(f"{place(k)}: vertex id '{max(u[k], v[k])}' is out of range {bound}")


def _compact(u: IntArray, v: IntArray, largest: int) -> Numbered:
    """Replace ids 0..largest in u and v by the numbers 0..n-1, in ascending order of the ids."""
    if largest < 8 * len(u) + 1024:  # a table of all ids is cheaper than sorting
        occurs = np.zeros(largest + 1, np.bool_)
        occurs[u] = True
        occurs[v] = True
        ids = np.flatnonzero(occurs)
        if len(ids) == largest + 1:
            return Numbered(len(ids), u, v, None)
        place = np.cumsum(occurs, dtype=np.int64) - 1
        return Numbered(len(ids), place[u], place[v], ids)
    ids, both = np.unique(np.concatenate([u, v]), return_inverse=True)
    return Numbered(len(ids), both[: len(u)], both[len(u) :], ids)
