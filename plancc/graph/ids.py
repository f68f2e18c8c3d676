"""Tables of edges: which columns are u, v and weights, and what vertices the ids are."""

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
"""Names of columns of u and v."""
SPARSE = 2
"""Largest id over vertices that occur from which ids are thought to be names, not numbers."""
_WEIGHTS = ("weight", "edge_weight", "w", "value")
_INDEX = ("", "unnamed: 0", "__index_level_0__")
"""Names of pandas' index, in small letters."""
_NUMBERS = ("id", "edge_id", "edgeid", "eid", "index", "rank", "unnamed")
"""Names of numbers of edges, which are neither ends nor weights, in small letters."""
_TIMES = ("time", "timestamp", "ts", "date", "datetime", "year")
"""Names of a first column that is no end, in small letters."""
_OF_VERTICES = {"label", "labels", "class", "feature", "features"}
"""Names of columns of vertex data, in small letters."""
_TRIPLES = (["predicate"], ["relation"], ["rel"])
"""Names of the second column of triples."""
_SHORT_TRIPLES = (["h", "r", "t"], ["s", "p", "o"])


def edge_columns(
    where: str, names: Sequence[str], columns: Sequence[str], texts: Container[str] = ()
) -> tuple[str, ...]:
    """Names of the columns of u, v and perhaps weights.

    Parameters:
        where: Names the source in messages.
        names: Of all columns.
        columns: What was asked for. Empty: the first of the usual pairs, else the only two columns
            beside weights, the index of pandas and a first column of numbers of edges, or the first
            two of three. Weights are a column with their usual name, in any case of letters, else a
            third one that is the last.
        texts: Names of columns that hold no numbers.

    Raises:
        InputError: For a name that is missing or twice there, and where nothing says what is meant.

    Warns:
        PlanccWarning: If the usual names stand in the other order, as target before source; of
            columns that are not taken.
    """
    names, columns = list(names), tuple(columns)
    listed = ", ".join(show(name) for name in names[:20])
    if columns:
        if len(columns) not in (2, 3) or len(set(columns)) != len(columns):
            raise InputError(
                f"{where}: `columns` {','.join(columns)}: give two or three names, of u, v and the "
                "weights"
            )
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
    usual = [pair for pair in _PAIRS if all(lower.count(name) == 1 for name in pair)][:1]
    ends = [kept[lower.index(name)] for pair in usual for name in pair]
    if ends and names.index(ends[1]) < names.index(ends[0]):
        u, v = ends
        warn(
            f"{where}: the columns are read by their names: a row is column {show(u)}, which needs "
            f"column {show(v)} (`columns` {v},{u} turns them)"
        )
    others = [name for name in kept[1:] if name not in weights]
    alike = len({*others}) == len(others) == 2 and len({name in texts for name in others}) == 1
    first = (*_NUMBERS, *_TIMES, *_INDEX)
    if not ends and alike and lower[0] in first and "parent" not in lower[1]:
        ends = others
    if not ends:
        weights = weights if len(kept) == 3 else []
        ends = [name for name in kept if name not in weights][:2]
        triples = lower in _SHORT_TRIPLES or lower[1:2] in _TRIPLES or (
            len(kept) == 3 and not weights and kept[2] in texts
        )  # fmt: skip
        data = not _OF_VERTICES.isdisjoint(map(str.lower, ends))
        if triples or data or len(kept) not in (2, 3) or len(set(kept)) != len(kept):
            raise InputError(
                f"{where}: which columns are the edges? Name them by `columns`: {listed}"
                f"{' (`data` takes vertex data)' * data}"
            )
    if not weights and len(kept) == 3 and kept[2] not in ends and kept[2] not in texts:
        weights = [] if lower[2] in _NUMBERS else kept[2:]
    rest = [name for name in kept if name not in (*ends, *weights)]
    if rest:
        told = ", ".join(show(name) for name in rest[:20])
        no_weights = {*_NUMBERS, *_TIMES, *USUAL}
        numbers = (name for name in rest if name not in texts and name.lower() not in no_weights)
        takes = next(numbers, None)
        cure = "" if weights or takes is None else (
            f" (`columns` {','.join((*ends, takes))} takes {show(takes)} as weights)"
        )  # fmt: skip
        warn(f"{where}: not taken: {told}{cure}")
    return (*ends, *weights)


class PiecewiseEdges(ABC):
    """Edges by ids, piece by piece (`plancc.graph.external.Entrywise`).

    A source is read twice: for the ids that occur, then for the edges.

    Parameters:
        where: Names the source in messages.
        num_vertices, keep_ids: As of `number`.

    Attributes:
        loops: Self loops.
        sides: The ids that occur, of u and of v, ascending.

    Raises:
        InputError: For no edge, and as of `number`.
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
        found = number(ids, ids, where, num_vertices=num_vertices, keep_ids=keep_ids)
        check_num_vertices(found.num_vertices, where)
        self.num_vertices, self.original_ids = found.num_vertices, found.original_ids

    @abstractmethod
    def pieces(self) -> Iterator[Entries]:
        """Ids of u and v, and weights."""

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
    """Edges by vertex numbers.

    Attributes:
        u, v (int[edges]): Vertex numbers.
        original_ids (int64 or bytes[num_vertices], or None): The source's ids; None where they are
            the vertex numbers.
    """

    num_vertices: int
    u: npt.NDArray[np.integer]
    v: npt.NDArray[np.integer]
    original_ids: npt.NDArray[Any] | None


def number(
    u: IntArray,
    v: IntArray,
    where: str,
    *,
    num_vertices: int | None = None,
    keep_ids: bool = False,
    place: Callable[[int], str] | None = None,
    names: Names | None = None,
) -> Numbered:
    """Vertex numbers for the ids of an edge list.

    Parameters:
        u, v (int64[edges]): Ids, not negative; at least one edge.
        where: Names the source in messages.
        num_vertices: The ids are vertex numbers, of this many vertices.
        keep_ids: The ids are vertex numbers; the last vertex is the largest id.
        place: Names the source and the place of an edge, by its number, in messages.
        names: The ids are numbers of these; None: they are the source's own.

    Returns:
        Without `num_vertices` and `keep_ids` the vertices are the ids that occur, in ascending
        order.

    Raises:
        InputError: For an id that `num_vertices` leaves no room for, or too many vertices.

    Warns:
        PlanccWarning: If ids between the smallest and the largest do not occur, and therefore are
            no vertices; if vertex numbers seem to be counted from 1.
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
            raise InputError(
                f"{where}: vertex id '{largest}' is too large to be a vertex number (`keep_ids`); "
                f"at most {MAX_VERTICES - 1} is supported"
            )
    if num_vertices is not None:
        if smallest == 1 and largest == num_vertices - 1:
            warn(
                f"{where}: the smallest id is 1, and vertex 0 has no edge: if ids count from 1, "
                "leave out `keep_ids` and `num_vertices`, or subtract 1 from them"
            )
        return Numbered(num_vertices, u, v, None)
    found = _compact(u, v, largest)
    if found.num_vertices != largest - smallest + 1:
        others = "" if largest >= SPARSE * found.num_vertices else (
            f": `keep_ids` or `num_vertices` {largest + 1} keeps the others"
            f"{', and 0' * (smallest == 1)}"
        )  # fmt: skip
        warn(f"{where}: {found.num_vertices:,} vertices occur; ids go up to {largest:,}{others}")
    return found


def check_ids(u: IntArray, v: IntArray, num_vertices: int, place: Callable[[int], str]) -> None:
    """Refuse the first edge with an id that `num_vertices` leaves no room for; `place` names it."""
    if (k := first_true((u >= num_vertices) | (v >= num_vertices))) is not None:
        raise InputError(
            f"{place(k)}: vertex id '{max(u[k], v[k])}' is out of range 0..{num_vertices - 1} "
            f"(`num_vertices` {num_vertices})"
        )


def _compact(u: IntArray, v: IntArray, largest: int) -> Numbered:
    """Number the ids that occur 0..n-1 in ascending order."""
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
