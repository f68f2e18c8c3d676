"""A source as it is read for a plan: graph and vertex data, of which links may be withheld.

By times of edges links are split: the latest are for test, those before for validation. An edge
that is listed several times, or both ways of an undirected graph, has its earliest time.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.graph.canonical import build_graph
from plancc.graph.convert import as_source, unpacked
from plancc.graph.graph import Graph
from plancc.graph.links import Pair, check_no_types, without
from plancc.graph.listed_edges import ListedEdges, for_every_edge, link_keys, listing, places_in
from plancc.graph.npz import map_array
from plancc.graph.remarks import files_of_data
from plancc.graph.vertexdata import VertexData, as_array
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


@dataclass(frozen=True, eq=False)
class ReadGraph:
    """A graph and its vertex data.

    Attributes:
        times: Of the edges; None: there are none.
        files: As of `plancc.graph.remarks.remarks`.
    """

    graph: Graph
    data: VertexData
    times: LinkTimes | None = None
    files: str = ""

    def apart(self, away: Pair | None, begins: float = np.inf) -> Graph:
        """The graph without the edges of links.

        Parameters:
            away (int32[2, links] or None): As of `plancc.graph.links.without`; None: no links.
            begins: Time of the first of these that is for validation or test.

        Raises:
            InputError: If weights of an edge are sums over earlier and later ones.
        """
        if self.graph.values is not None and self.times is not None:
            both = np.count_nonzero((self.times.first < begins) & (self.times.last >= begins))
            if both:
                raise InputError(
                    f"{self.graph.source.name}: `link_times`: {both:,} training edges are listed "
                    f"before time {begins:.15g}, where validation and test begin, and again from "
                    "then on: their weights are sums of both; give every edge once, or read the "
                    "edges without weights (`pattern`)"
                )
        return self.graph if away is None else without(self.graph, away)


def read_source(obj: Any, data: Any, times: Any = None, **reading: Any) -> ReadGraph:
    """`plancc.graph.convert.as_source`, with the times of edges.

    Parameters:
        times: As of `with_times`; None: there are none.

    Raises:
        InputError: Also as `with_times`.
    """
    obj = unpacked(obj)
    timed: Any = nullcontext() if times is None else listing()
    with timed as edges, warnings.catch_warnings():
        if isinstance(times, str) and times == OF_VALUES:
            warnings.filterwarnings("ignore", ".*as weights of the edges", PlanccWarning)
        read = ReadGraph(*as_source(obj, data, **reading), files=files_of_data(data))
    if times is None:
        return read
    symmetrize = bool(reading.get("symmetrize"))
    graph, found = with_times(read.graph, times, edges, symmetrize=symmetrize)
    return replace(read, graph=graph, times=found)


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
