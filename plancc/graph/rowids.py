"""Rows of vertex data that say by an id whose they are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.graph.formats import FORMATS, reading_of
from plancc.graph.graph import Graph
from plancc.graph.listed_edges import places_in
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.textfile import show
from plancc.text import shown

ROW_IDS = ("id", "ids")
"""Names of the ids of the rows."""
GRAPH_IDS = ("n_id", "ids")
"""Names of the ids of vertices beside an ``edge_index``."""


def rows_by_id(ids: npt.NDArray[Any], num_vertices: int | Graph, what: str) -> npt.NDArray[np.intp]:
    """The row of every vertex, int[num_vertices].

    Parameters:
        ids (int or bytes[rows]): The vertex that each row is of, in any order: an id of the source,
            or a vertex number where the graph has no ids (`like_ids_of`).
        what: Names `ids` in messages.

    Raises:
        InputError: For ids that are no list of integers, an id that is there twice, and a vertex
            without a row.

    Warns:
        PlanccWarning: If there are rows of ids that do not occur in the graph.
    """
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    graph = num_vertices if isinstance(num_vertices, Graph) else None
    vertices = None if graph is None else graph.original_ids
    kinds, called = ("S", "names") if are_names(vertices) else ("iu", "integers")
    if ids.ndim != 1 or ids.dtype.kind not in kinds:
        raise InputError(
            f"{what} must be a list of vertex ids, {called}, not '{ids.dtype}' of shape {ids.shape}"
        )
    if vertices is None:
        count = num_vertices if isinstance(num_vertices, int) else num_vertices.num_vertices
        vertices = np.arange(count, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]
    twice = ascending[1:] == ascending[:-1]
    if twice.any():
        raise InputError(
            f"{what} holds {show(ascending[1:][twice][0])} twice: give every id one row"
        )
    place = places_in(ascending, vertices)
    there = place >= 0
    if not there.all():
        raise InputError(
            f"{what}: vertex {show(vertices[~there][0])} of the graph has no row "
            f"({np.count_nonzero(~there):,} of {len(vertices):,} vertices have none): give every "
            "vertex a row; -1 is a label that is not known"
        )
    others = len(ids) - len(vertices)
    if others:
        kept = ""
        if (
            graph is not None
            and has_choice(graph)
            and (ascending[0] == 0 and ascending[-1] == len(ids) - 1)
        ):
            kept = f"; `num_vertices` {len(ids)}, or `keep_ids`, makes them vertices"
        warnings.warn(
            f"{what}: {others:,} of {len(ids):,} rows are left out: their ids do not occur in the "
            f"graph{kept}",
            PlanccWarning,
            stacklevel=2,
        )
    return order[place]


def like_ids_of(ids: npt.NDArray[Any], num_vertices: int | Graph) -> npt.NDArray[Any]:
    """Ids of rows as names where the graph's own are names; else as they are."""
    own = None if isinstance(num_vertices, int) else num_vertices.original_ids
    return names_of(ids) if are_names(own) else ids


def warn_of_order(num_vertices: int | Graph, where: str) -> None:
    """Say that rows without ids follow the graph's vertices where their ids are names, or do not
    ascend."""
    ids = None if isinstance(num_vertices, int) else num_vertices.original_ids
    if ids is not None and (are_names(ids) or (ids[1:] < ids[:-1]).any()):
        first = ", ".join(shown(each, 40) for each in ids[:4].tolist()) + ", ..." * (len(ids) > 4)
        warnings.warn(
            f"{where}rows without ids are taken in the graph's order of vertices ({first}); a key "
            "or column 'id' says whose they are",
            PlanccWarning,
            stacklevel=2,
        )


def has_choice(graph: Graph) -> bool:
    """Whether the graph's format lets vertices be that occur in no edge."""
    name = graph.source.format
    known = name in FORMATS and not are_names(graph.original_ids)
    return known and "num_vertices" in FORMATS[name].options


def why_not(rows: int, num_vertices: int | Graph) -> str:
    """How the graph is to be read, with a colon before it, so that it has `rows` vertices; "" where
    nothing says so."""
    if isinstance(num_vertices, int) or not has_choice(num_vertices):
        return ""
    graph, ids = num_vertices, num_vertices.original_ids
    count = graph.num_vertices
    kept = {"keep_ids", "num_vertices"} & reading_of(graph.source.reading).keys()
    if kept:
        counts_from_one = rows == count - 1 and graph.indptr[1] == 0 and graph.indices.all()
        return f": vertex 0 has no edge; if ids count from 1, leave out `{min(kept)}`" * bool(
            counts_from_one
        )
    largest = count - 1 if ids is None else int(ids.max())
    if rows <= largest:
        return ""
    occur = f"ids up to {largest} occur in the graph, {count} in all"
    return f": {occur}; read it with `num_vertices` {rows}"
