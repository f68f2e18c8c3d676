"""Edges in the order in which a source lists them, and edge features.

Edge features are a column of `plancc.graph.columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.arrays import Array, Int64Array, IntArray
from plancc.graph.graph import MAX_VERTICES, Graph, first_true


class ListedEdges(NamedTuple):
    """The edges of a source, in the order of the source: edge k is ``A[row[k], column[k]]``.

    If the graph is read with `transpose`, A is the transposed matrix.

    Attributes:
        row, column: int[edges].
        relation (int[edges] or None): Index of every edge's relation; None without vertex types.
        values (number[edges] or None): Values of the source.
    """

    row: IntArray
    column: IntArray
    relation: IntArray | None = None
    values: Array | None = None

    @classmethod
    def of_nonzeros(cls, graph: Graph) -> ListedEdges:
        """Return the nonzeros of a graph as edges."""
        return cls(graph.nonzero_rows(), graph.indices, graph.relations(), graph.values)


class EdgeFeatures(NamedTuple):
    """Edges that were read, and a row of features for each edge: number[edges, width]."""

    edges: ListedEdges
    features: Array


_listed: ContextVar[list[ListedEdges] | None] = ContextVar("edges of what is read", default=None)


@contextmanager
def listing() -> Iterator[list[ListedEdges]]:
    """Yield a list, to which readers of files append the edges of every graph made in the context.

    A context inside another context yields the list of the outer context.
    """
    found = _listed.get()
    found = [] if found is None else found
    before = _listed.set(found)
    try:
        yield found
    finally:
        _listed.reset(before)


def is_listing() -> bool:
    """Whether the code runs within `listing`."""
    return _listed.get() is not None


def list_edges(
    row: IntArray, column: IntArray, relation: IntArray | None = None, values: Array | None = None
) -> None:
    """Append the edges of a graph to the list of the context `listing`; outside it, do nothing."""
    found = _listed.get()
    if found is not None:
        found.append(ListedEdges(row, column, relation, values))


def as_features(values: Array, where: str) -> npt.NDArray[np.float32]:
    """Return finite features as float32[edges, width]; an array of one axis becomes a column."""
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "biuf":
        told = f"has shape {values.shape} and type '{values.dtype}'"
        raise InputError(f"{where}: {told}; give a row of numbers for every edge")
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if (k := first_true(~np.isfinite(found).all(axis=1))) is not None:
        raise InputError(f"{where}: edge {k} (counted from 0) has a value that is not finite")
    return found


def with_features(
    graph: Graph, found: EdgeFeatures, where: str, *, symmetrize: bool = False
) -> Graph:
    """Return the graph with the features of its edges.

    If the source holds half of a symmetric matrix, entries (i, j) and (j, i) have the same
    features. With `symmetrize`, an edge listed in one direction has its features in both. Repeated
    edges are an InputError.
    """
    edges, features = found
    row, column = edges.row, edges.column
    features = for_every_edge(graph, edges, as_features(features, where), where, "rows of features")
    if symmetrize:
        alone = ~np.isin(edge_keys(graph, column, row), edge_keys(graph, row, column))
        row, column = np.concatenate([row, column[alone]]), np.concatenate([column, row[alone]])
        features = np.concatenate([features, features[alone]])
    number = nonzeros_of_edges(graph, ListedEdges(row, column, edges.relation))
    missing = number[: len(edges.row)] < 0
    if edges.values is not None:
        missing &= edges.values != 0
    if (k := first_true(missing)) is not None:
        edge = f"edge {k} (counted from 0), from {column[k]} to {row[k]},"
        why = "so the plan cannot hold its features: values that add up to 0 are left out"
        raise InputError(f"{where}: {edge} is not a nonzero of the graph, {why}")
    known = number[number >= 0]
    if twice := len(known) - len(np.unique(known)):
        told = f"{twice:,} of {len(row):,} edges are listed twice"
        why = f"so it is unknown which features belong to the {graph.num_nonzeros:,} nonzeros"
        raise InputError(f"{where}: {told}, {why}; give every edge once")
    return graph.with_columns(edge_features=_placed(graph, number, features))


def for_every_edge(graph: Graph, edges: ListedEdges, given: Array, where: str, what: str) -> Array:
    """Return `given` with an entry for every edge, array[edges, ...].

    Edges of the other half of a symmetric matrix, at the end of `edges`, get the entries of the
    given half.
    """
    (row, column), size = edges[:2], len(given)
    mirror = row[:size] != column[:size]
    both = np.concatenate([row[:size], column[:size][mirror]])
    other = np.concatenate([column[:size], row[:size][mirror]])
    if size < len(row) and np.array_equal(both, row) and np.array_equal(other, column):
        return np.concatenate([given, given[mirror]])
    if size != len(row):
        summed = f"({graph.num_nonzeros:,} nonzeros after duplicates are summed)"
        cure = "give one for every edge, in the order of the source"
        cure += " (of a symmetric .mtx one for every line)"
        told = f"there are {size:,} {what}, but the graph has {len(row):,} edges {summed}"
        raise InputError(f"{where}: {told}; {cure}")
    return given


def with_columns_of(made: Graph, graph: Graph) -> Graph:
    """Return `made`, a graph made from `graph`, with the arrays of edge data `graph.columns`.

    New nonzeros get 0 in every array. Both graphs have one vertex type.
    """
    if not graph.columns:
        return made
    number = nonzeros_of_edges(made, ListedEdges(graph.nonzero_rows(), graph.indices))
    columns = {name: _placed(made, number, each) for name, each in graph.columns.items()}
    return replace(made, columns=columns)


def _placed(graph: Graph, number: Int64Array, column: Array) -> Array:
    """Convert an array with an entry for every edge to an array with an entry for every nonzero.

    Edge k is nonzero ``number[k]``; if this is -1, the edge is left out. A nonzero without an
    edge gets zeros.
    """
    placed = np.zeros((graph.num_nonzeros, *column.shape[1:]), column.dtype)
    placed[number[number >= 0]] = column[number >= 0]
    return placed


def nonzeros_of_edges(graph: Graph, edges: ListedEdges) -> Int64Array:
    """Return each edge's position among the graph's nonzeros, int64[edges]; -1: not a nonzero."""
    key, wanted = edges_of(graph), edge_keys(graph, edges.row, edges.column)
    if graph.relation is None or edges.relation is None:
        return places_in(key, wanted)
    assert graph.types is not None
    distinct, kinds = np.unique(key), len(graph.types.relations)
    place = places_in(distinct, wanted)
    of_pair = np.where(place < 0, -1, place * kinds + edges.relation)
    return places_in(places_in(distinct, key) * kinds + graph.relation, of_pair)


def edges_of(graph: Graph) -> Int64Array:
    """Return the keys (`edge_keys`) of all nonzeros, ascending: int64[num_nonzeros]."""
    return edge_keys(graph, graph.nonzero_rows(), graph.indices)


def edge_keys(graph: Graph, row: IntArray, column: IntArray) -> Int64Array:
    """Return a number for every pair of vertices, int64[m]; numbers ascend by row, then column."""
    found: Int64Array = row.astype(np.int64) * graph.num_vertices + column
    return found


def link_keys(pair: Array, graph: Graph) -> Int64Array:
    """Return a number for every pair, int64[m]; if undirected, (u, v) and (v, u) have the same."""
    source, target = pair.astype(np.int64)
    if not graph.directed:
        source, target = np.minimum(source, target), np.maximum(source, target)
    keys: Int64Array = source * MAX_VERTICES + target
    return keys


def places_in(keys: IntArray, wanted: IntArray) -> Int64Array:
    """Return every wanted number's index in the ascending `keys`, int64[m]; -1 if it is missing."""
    place = np.searchsorted(keys, wanted)
    there = place < len(keys)
    there[there] = keys[place[there]] == wanted[there]
    return np.where(there, place, -1)
