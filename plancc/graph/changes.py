"""Lists of added and removed edges, and the graph after these changes."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.canonical import as_values
from plancc.graph.edgelist import COMMENT, read_edges
from plancc.graph.formats import find_format, read_graph
from plancc.graph.graph import MAX_VERTICES, Graph, first_true
from plancc.graph.listed_edges import places_in
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.textfile import data_lines, fail
from plancc.graph.types import Relation, ids_or_numbers
from plancc.graph.union import Entries, united, with_ids
from plancc.text import shown

Ids = npt.NDArray[Any]
Values = npt.NDArray[np.floating] | None


@dataclass(frozen=True, eq=False)
class EdgeChanges:
    """A list of edges to add or remove; the ends of an edge are ids as the graph's source has them.

    Attributes:
        where: File or name of the list, for messages.
        u, v: int64[edges], or names, bytes[edges]; edge k is ``A[u[k], v[k]]``.
        text: Text of the edge list file, for line numbers; empty for other sources.
    """

    where: str
    u: Ids
    v: Ids
    weights: npt.NDArray[np.floating] | None = None
    text: bytes = b""

    @classmethod
    def of(cls, given: Any, name: str) -> EdgeChanges:
        """Make a list of edges from a path, or from an array with rows ``u v`` or ``u v weight``.

        u and v are ids of the source. If the path is a file of a format other than edge lists, such
        as MatrixMarket, they are the ids that this format gives the vertices.
        """
        if isinstance(given, str | os.PathLike):
            where = os.fspath(given)
            if find_format(given) == "edgelist":
                text, (u, v, weights) = read_edges(given)
                return cls(where, u, v, weights, text)
            graph = read_graph(given)
            ids = ids_or_numbers(graph.num_vertices, graph.original_ids, graph.types)
            rows = np.repeat(ids, graph.row_nonzeros())
            return cls(where, rows, ids[graph.indices], graph.values)
        table = np.asarray(given)
        if table.ndim == 2 and table.shape[1] == 2 and table.dtype.kind == "U":
            return cls(f"`{name}`", *names_of(table).T)
        if table.ndim != 2 or table.shape[1] not in (2, 3) or table.dtype.kind not in "iuf":
            raise InputError(f"`{name}` must be a path, or an array of shape (edges, 2 or 3)")
        u, v = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
        wrong = (u != table[:, 0]) | (v != table[:, 1]) | (u < 0) | (v < 0)
        if (k := first_true(wrong)) is not None:
            raise InputError(f"`{name}`: row {k}: ids must be whole numbers >= 0")
        weights = as_values(table[:, 2], f"`{name}`") if table.shape[1] == 3 else None
        return cls(f"`{name}`", u, v, weights)

    def among(self, ids: Ids) -> EdgeChanges:
        """Return these edges; if a graph's `ids` are names, numbers become names ("7" for 7).

        Raises InputError if the edges have names, but `ids` are numbers.
        """
        if are_names(ids):
            return replace(self, u=names_of(self.u), v=names_of(self.v))
        if are_names(self.u):
            self.fail(0, "has names as ids, but the graph's ids are numbers")
        return self

    @property
    def turned(self) -> EdgeChanges:
        """The edges in the reverse direction, from v to u."""
        return replace(self, u=self.v, v=self.u)

    def refuse(self, wrong: npt.NDArray[np.bool_], message: str) -> None:
        """Raise InputError about the first edge for which `wrong`, bool[edges], is true, if any."""
        if (k := first_true(wrong)) is not None:
            self.fail(k, message)

    def fail(self, k: int, message: str) -> NoReturn:
        """Raise InputError about edge k: `message`, with the edge's ends and its line in a file."""
        edge = f"{shown(self.u[k])} {shown(self.v[k])}"
        if not self.text:
            raise InputError(f"{self.where}: edge '{edge}' {message}")
        lines = data_lines(self.where, io.BytesIO(self.text), comments=COMMENT)
        line, _ = next(islice(lines, k, None))
        fail(self.where, line, f"the edge {message}:", edge)


def changed(graph: Graph, added: EdgeChanges | None, removed: EdgeChanges | None) -> Graph:
    """Return the graph after edges are removed, and then edges are added.

    Further data of the edges (`Graph.columns`) are dropped. In an undirected graph, the edge
    ``u v`` is also ``v u``; repeated edges count once. New ids are new vertices, in the order of
    ids; if ids are 0..n-1, new ids start at n.
    """
    own = ids_or_numbers(graph.num_vertices, graph.original_ids, None)
    added, removed = (each and each.among(own) for each in (added, removed))
    lists = [] if added is None else [(added, added.u), (added, added.v)]
    ids = _with_new(np.sort(own), lists, graph.original_ids is None)
    old, size = np.searchsorted(ids, own), len(ids)
    row = old[graph.nonzero_rows()]
    key, values = row * size + old[graph.indices], graph.values
    key, values = _edited(key, values, (ids, ids), added, removed, graph.directed)
    indptr = np.searchsorted(key, np.arange(size + 1) * size).astype(np.int64)
    made = replace(graph, indptr=indptr, indices=(key % size).astype(np.int32), columns={})
    return replace(made, values=values, original_ids=None if graph.original_ids is None else ids)


def changed_relations(
    graph: Graph, added: Mapping[Relation, EdgeChanges], removed: Mapping[Relation, EdgeChanges]
) -> Graph:
    """Return a graph of several vertex types after edges are removed, and then new edges are added.

    The destination of an edge ``u v`` is u. Without ids, u and v are vertex numbers, from 0 within
    each type.
    """
    types, given = graph.types, graph.original_ids
    assert types is not None
    known = ids_or_numbers(graph.num_vertices, given, types)
    added, removed = (
        {relation: each.among(known) for relation, each in lists.items()}
        for lists in (added, removed)
    )
    ids, old = {}, dict[str, Any]()
    for name in types.names:
        lists = [(each, each.u) for (_, _, end), each in added.items() if end == name]
        lists += [(each, each.v) for (start, _, _), each in added.items() if start == name]
        own = known[types.vertices(name)]
        ids[name] = _with_new(np.sort(own), lists, given is None)
        old[name] = np.searchsorted(ids[name], own)
    row, of = graph.nonzero_rows(), graph.relations()
    assert of is not None
    ends = np.cumsum(np.bincount(of, minlength=len(types.relations)))
    every = np.split(np.argsort(of, kind="stable"), ends[:-1])
    entries: dict[Relation, Entries] = {}
    for relation, at in zip(types.relations, every, strict=True):
        start, _, end = relation
        size = len(ids[start])
        local = old[start][graph.indices[at] - types.vertices(start).start]
        key = old[end][row[at] - types.vertices(end).start] * size + local
        values = None if graph.values is None else graph.values[at]
        lists_of = added.get(relation), removed.get(relation)
        key, values = _edited(key, values, (ids[end], ids[start]), *lists_of, True)
        entries[relation] = (*np.divmod(key, size), values)
    made = united({name: len(each) for name, each in ids.items()}, entries, graph.source)
    return made if given is None else with_ids(made, [*ids.values()])


def _edited(
    key: Ids, values: Values, ids: tuple[Ids, Ids], added: Any, removed: Any, directed: bool
) -> tuple[Ids, Values]:
    """Remove and add edges; return the nonzeros' keys (see `_places`), ascending, and values.

    `key` and `values` are the nonzeros' keys and values before. `ids` has the ascending ids of the
    rows, and of the columns.
    """
    if (np.diff(key) < 0).any():  # the ids of the source are not in order
        order = np.argsort(key, kind="stable")
        key, values = key[order], None if values is None else values[order]
    if removed is not None:
        place, _ = _places(key, removed, ids, directed, there=True)
        key, values = np.delete(key, place), None if values is None else np.delete(values, place)
    if added is not None:
        _check_weights(values, added)
        place, (new, edge) = _places(key, added, ids, directed, there=False)
        key = np.insert(key, place, new)
        if values is not None:
            values = np.insert(values, place, added.weights[edge].astype(values.dtype))
    return key, values


def _with_new(ids: Ids, lists: Sequence[tuple[EdgeChanges, Ids]], numbered: bool) -> Ids:
    """Return all ids of the graph after edges are added, ascending.

    Each of `lists` has added edges, and the id of one end (u or v) of every edge. If `numbered`,
    the new ids must continue the n ids of the graph: n, n + 1, ... without gaps.
    """
    some = np.unique(np.concatenate([ids[:0], *(ends for _, ends in lists)]))
    new = some[places_in(ids, some) < 0]
    gaps = new != len(ids) + np.arange(len(new))
    if numbered and gaps.any():
        edges, ends = next(each for each in lists if (each[1] == new[gaps][0]).any())
        gap = len(ids) + int(np.argmax(gaps))
        k = int(np.argmax(ends == new[gaps][0]))
        edges.fail(k, f"has a new vertex, but the id of the next new vertex must be {gap}")
    if are_names(new) and len(new):  # the type is as wide as the longest name
        longest = max(np.char.str_len(each).max() for each in (ids, new))
        ids = ids.astype(f"S{longest}")
    known = np.insert(ids, np.searchsorted(ids, new), new)
    if len(known) > MAX_VERTICES:
        raise InputError(f"{lists[0][0].where}: there are more than {MAX_VERTICES} vertices")
    return known


def _check_weights(values: Values, added: EdgeChanges) -> None:
    """Raise InputError for a missing or zero weight or, without `values`, a weight other than 1."""
    if values is not None and added.weights is None:
        added.fail(0, "needs a weight, since the edges of the graph have weights")
    if added.weights is not None and values is None:
        added.refuse(added.weights != 1, "has a weight, but the graph has no weights")
    elif added.weights is not None:
        added.refuse(added.weights == 0, "has weight 0, which means that there is no edge")


def _places(
    key: Ids, edges: EdgeChanges, ids: tuple[Ids, Ids], directed: bool, there: bool
) -> tuple[Ids, tuple[Ids, Ids]]:
    """Return the positions in `key` of the edges' distinct keys, these keys, and an edge of each.

    Each array is int64[m]; an edge is an index in `edges`. The key of an edge is row * (number of
    columns) + column. `key` has the keys of the graph's edges, ascending. If `there`, `edges` must
    be in the graph. Otherwise they must not, and the positions are where to insert their keys.
    """
    ends: list[Any] = []
    for own, of_edge in zip(ids, (edges.u, edges.v), strict=True):
        at = places_in(own, of_edge)
        edges.refuse(at < 0, "is not in the graph")
        ends.append(at)
    row, column, number = ends[0], ends[1], np.arange(len(edges.u))
    if not directed:
        row, column = np.concatenate([row, column]), np.concatenate([column, row])
        number = np.concatenate([number, number])
    new, first, same = np.unique(row * len(ids[1]) + column, return_index=True, return_inverse=True)
    edge = number[first]
    if not there and edges.weights is not None:
        other = edges.weights[number] != edges.weights[edge[same]]
        if (k := first_true(other)) is not None:
            edges.fail(int(number[k]), "is listed twice with two weights")
    place = np.searchsorted(key, new)
    found = places_in(key, new) >= 0
    if (found != there).any():
        message = "is not in the graph" if there else "is in the graph already; remove it first"
        edges.fail(int(edge[found != there].min()), message)
    return place, (new, edge)
