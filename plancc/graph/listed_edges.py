"""Edges as a source lists them, and their features as rows of numbers for every nonzero."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import MAX_VERTICES, Graph, first_true

IntArray = npt.NDArray[np.integer]


class ListedEdges(NamedTuple):
    """The edges of a source in its order; edge k is ``A[row[k], column[k]]``, once transposed.

    Attributes:
        row, column: int[edges].
        relation (int[edges] or None): Number of the relation, of a graph of types.
        values (number[edges] or None): As the source has them.
    """

    row: IntArray
    column: IntArray
    relation: IntArray | None = None
    values: npt.NDArray[Any] | None = None

    @classmethod
    def of_nonzeros(cls, graph: Graph) -> ListedEdges:
        """The nonzeros of a graph as its edges."""
        rows = graph.nonzero_rows()
        relation: Any = graph.relation
        if relation is None and graph.types is not None:
            relation = graph.types.relation_of(rows, graph.indices)
        return cls(rows, graph.indices, relation, graph.values)


class EdgeFeatures(NamedTuple):
    """ListedEdges with a row of numbers each: number[edges, width]."""

    edges: ListedEdges
    features: npt.NDArray[Any]


_listed: ContextVar[list[ListedEdges] | None] = ContextVar("edges of what is read", default=None)


@contextmanager
def listing() -> Iterator[list[ListedEdges]]:
    """Within it every graph that is made leaves its edges, as its source has them, at the end.

    Within another block both have the same.
    """
    found = _listed.get()
    found = [] if found is None else found
    before = _listed.set(found)
    try:
        yield found
    finally:
        _listed.reset(before)


def is_listing() -> bool:
    """Whether somebody asks for the edges of what is read."""
    return _listed.get() is not None


def list_edges(
    row: IntArray,
    column: IntArray,
    relation: IntArray | None = None,
    values: npt.NDArray[Any] | None = None,
) -> None:
    """Leave the edges of a graph with whoever asks for them (`listing`)."""
    found = _listed.get()
    if found is not None:
        found.append(ListedEdges(row, column, relation, values))


def as_features(values: npt.NDArray[Any], where: str) -> npt.NDArray[np.float32]:
    """Numbers as float32[edges, width]; InputError for others, and for those that are not finite.

    An array of one axis is a column.
    """
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "biuf":
        told = f"shape {values.shape} and type '{values.dtype}'"
        raise InputError(f"{where}: {told}: give a row of numbers for every edge")
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if (k := first_true(~np.isfinite(found).all(axis=1))) is not None:
        raise InputError(f"{where}: edge {k} (counted from 0) has a number that is not finite")
    return found


def with_features(
    graph: Graph, found: EdgeFeatures, where: str, *, symmetrize: bool = False
) -> Graph:
    """The graph with the features of its edges.

    Parameters:
        found: Of the source's edges. Where it says the half of a symmetric matrix, they are of both
            entries.
        where: Begins messages.
        symmetrize: As the graph was read; an edge that is listed one way has its features both
            ways.

    Raises:
        InputError: For another number of features than of edges, edges that are there twice, and
            edges that are no nonzeros though their value is not 0.
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
        why = "so that its features have no place: values that add up to 0 are left out"
        raise InputError(f"{where}: {edge} is no nonzero of the graph, {why}")
    known = number[number >= 0]
    if twice := len(known) - len(np.unique(known)):
        told = f"{twice:,} of {len(row):,} edges are there twice"
        why = f"so that features do not belong to one of the {graph.num_nonzeros:,} nonzeros"
        raise InputError(f"{where}: {told}, {why}: give every edge once")
    return graph.with_columns(edge_features=_placed(graph, number, features))


def for_every_edge(
    graph: Graph, edges: ListedEdges, given: npt.NDArray[Any], where: str, what: str
) -> npt.NDArray[Any]:
    """What is given of edges, array[edges, ...]; of half of a symmetric matrix, of both entries.

    Raises:
        InputError: For another number of `what`; `where` begins the message.
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
        told = f"{size:,} {what}, and the graph has {len(row):,} edges {summed}"
        raise InputError(f"{where}: {told}: {cure}")
    return given


def with_columns_of(made: Graph, graph: Graph) -> Graph:
    """The graph that was made of another one, of one type, with its columns.

    A nonzero that the other does not have has zeros.
    """
    if not graph.columns:
        return made
    number = nonzeros_of_edges(made, ListedEdges(graph.nonzero_rows(), graph.indices))
    columns = {name: _placed(made, number, each) for name, each in graph.columns.items()}
    return replace(made, columns=columns)


def _placed(
    graph: Graph, number: npt.NDArray[np.int64], column: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """The entries of every nonzero; those of edges of number -1 are left out."""
    placed = np.zeros((graph.num_nonzeros, *column.shape[1:]), column.dtype)
    placed[number[number >= 0]] = column[number >= 0]
    return placed


def nonzeros_of_edges(graph: Graph, edges: ListedEdges) -> npt.NDArray[np.int64]:
    """Number of every edge's nonzero, -1 where it has none: int64[edges]."""
    key, wanted = edges_of(graph), edge_keys(graph, edges.row, edges.column)
    if graph.relation is None or edges.relation is None:
        return places_in(key, wanted)
    assert graph.types is not None
    distinct, kinds = np.unique(key), len(graph.types.relations)
    place = places_in(distinct, wanted)
    of_pair = np.where(place < 0, -1, place * kinds + edges.relation)
    return places_in(places_in(distinct, key) * kinds + graph.relation, of_pair)


def edges_of(graph: Graph) -> npt.NDArray[np.int64]:
    """The keys of all edges, ascending: int64[num_nonzeros]."""
    return edge_keys(graph, graph.nonzero_rows(), graph.indices)


def edge_keys(graph: Graph, row: IntArray, column: IntArray) -> npt.NDArray[np.int64]:
    """A number for every pair of vertices, which ascends by row, then column: int64[m]."""
    found: npt.NDArray[np.int64] = row.astype(np.int64) * graph.num_vertices + column
    return found


def link_keys(pair: npt.NDArray[Any], graph: Graph) -> npt.NDArray[np.int64]:
    """A number for every pair, of an undirected graph the same both ways: int64[m]."""
    source, target = pair.astype(np.int64)
    if not graph.directed:
        source, target = np.minimum(source, target), np.maximum(source, target)
    keys: npt.NDArray[np.int64] = source * MAX_VERTICES + target
    return keys


def places_in(keys: IntArray, wanted: IntArray) -> npt.NDArray[np.int64]:
    """Place of every wanted number among ascending keys, -1 where it is not: int64[wanted]."""
    place = np.searchsorted(keys, wanted)
    there = place < len(keys)
    there[there] = keys[place[there]] == wanted[there]
    return np.where(there, place, -1)
