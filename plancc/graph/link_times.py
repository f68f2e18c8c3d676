"""Times of edges, by which links are split: the latest are for test, those before for validation.

An edge that is listed several times, or both ways of an undirected graph, has its earliest time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.canonical import build_graph
from plancc.graph.graph import Graph
from plancc.graph.links import check_no_types
from plancc.graph.listed_edges import ListedEdges, for_every_edge, link_keys, places_in
from plancc.graph.npz import map_array
from plancc.graph.vertexdata import as_array
from plancc.graph.vertextables import has_names, read_numbers

OF_VALUES = "values"
"""Value of the option `link_times` for the values of the edges."""
Floats = npt.NDArray[np.float64]


class LinkTimes(NamedTuple):
    """When edges were there.

    Attributes:
        first, last (float64[num_nonzeros]): Earliest and latest time of every nonzero.
        listed (float64[edges]): Times of the edges as the source lists them.
    """

    first: Floats
    last: Floats
    listed: Floats


def with_times(
    graph: Graph, given: Any, listed: Sequence[ListedEdges], *, symmetrize: bool
) -> tuple[Graph, LinkTimes]:
    """The graph, without values if these are the times, and the times of its edges.

    Parameters:
        given: `OF_VALUES`, the path of a table with a number for every edge in the order of the
            source (.npy, .csv, .csv.gz), or number[edges].
        listed: What `plancc.graph.listed_edges.listing` had of the source.

    Raises:
        InputError: For times that are missing, not finite, or of another number of edges.
    """
    check_no_types(graph)
    where = f"{graph.source.name}: `link_times`"
    edges = listed[-1] if listed else ListedEdges.of_nonzeros(graph)
    row, column = edges.row, edges.column
    if isinstance(given, str) and given == OF_VALUES:
        if edges.values is None:
            raise InputError(f"{where} {given}: the edges have no values: give a file of times")
        where, given = f"{where} {given}", edges.values
        if listed:  # summed where edges are listed twice, and none where they are 0
            flags: Any = {"symmetrize": symmetrize, "directed": graph.directed or symmetrize}
            made = build_graph(graph.num_vertices, row, column, **flags)
            graph = replace(graph, indptr=made.indptr, indices=made.indices)
        source = replace(graph.source, weights="", weight_range="")
        graph = replace(graph, values=None, source=source)
    elif isinstance(given, str | os.PathLike):
        where = f"{where} {os.fspath(given)}"
        of_numpy = os.fspath(given).endswith(".npy")
        given = map_array(given) if of_numpy else read_numbers(given, skipped=int(has_names(given)))
    times = np.asarray(as_array(given, where))
    if times.dtype.kind not in "iuf" or times.size != len(times):
        raise InputError(
            f"{where}: shape {times.shape} and type '{times.dtype}': give a number for every edge"
        )
    times = for_every_edge(graph, edges, times.reshape(-1).astype(np.float64), where, "times")
    if len(wrong := np.flatnonzero(~np.isfinite(times))):
        raise InputError(f"{where}: the time of edge {wrong[0]} (counted from 0) is not finite")
    keys, place = np.unique(link_keys(np.stack([column, row]), graph), return_inverse=True)
    first, last = np.full((2, len(keys)), [[np.inf], [-np.inf]])
    np.minimum.at(first, place, times)
    np.maximum.at(last, place, times)
    rows = graph.nonzero_rows()
    found = places_in(keys, link_keys(np.stack([graph.indices, rows]), graph))
    if len(wrong := np.flatnonzero(found < 0)):
        ends = f"{graph.indices[wrong[0]]} to {rows[wrong[0]]}"
        raise InputError(f"{where}: the edge from vertex {ends} (counted from 0) has no time")
    return graph, LinkTimes(first[found], last[found], times)
