"""Times of edges, by which links are split: the latest are for test, those before for validation.

An edge that is listed several times, or both ways of an undirected graph, has its earliest time.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.graph.canonical import build_graph
from plancc.graph.convert import as_source, unpacked
from plancc.graph.edge_features import edge_features_of, taking_features, with_edge_features
from plancc.graph.graph import Graph
from plancc.graph.links import Pair, check_no_types, without
from plancc.graph.listed_edges import (
    EdgeFeatures,
    ListedEdges,
    for_every_edge,
    link_keys,
    listing,
    places_in,
)
from plancc.graph.npz import map_array
from plancc.graph.vertexdata import VertexData, as_array
from plancc.graph.vertextables import read_numbers

OF_VALUES = "values"
"""Value of the option `link_times` for the values of the edges."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReadGraph:
    """A graph and its vertex data; features of vertices may have to wait for links.

    Attributes:
        first, last (float64[num_nonzeros] or None): Earliest and latest time of every nonzero;
            None: there are no times.
        listed (float64[edges] or None): Times of the edges as the source lists them.
        reduction: As of `plancc.graph.edge_features.with_edge_features`, if features of vertices
            are to be made of edges.
        edges, flags: Its other parameters.
    """

    graph: Graph
    data: VertexData
    first: Floats | None = None
    last: Floats | None = None
    listed: Floats | None = None
    reduction: str | None = None
    edges: EdgeFeatures | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)

    def apart(self, away: Pair | None, begins: float = np.inf) -> tuple[Graph, VertexData]:
        """The graph without the edges of links, and the data with features of its edges.

        Parameters:
            away (int32[2, links] or None): As of `plancc.graph.links.without`; None: no links.
            begins: Time of the first of these that is for validation or test; what is later does
                not count.

        Raises:
            InputError: If weights of an edge are sums over earlier and later ones.
        """
        graph, where, kept = self.graph, self.graph.source.name, None
        if graph.values is not None and self.first is not None and self.last is not None:
            both = np.count_nonzero((self.first < begins) & (self.last >= begins))
            if both:
                raise InputError(
                    f"{where}: `link_times`: {both:,} training edges are listed before time "
                    f"{begins:.15g}, where validation and test begin, and again from then on: "
                    "their weights are sums of both; give every edge once, or read the edges "
                    "without weights (`pattern`)"
                )
        if away is not None:
            graph = without(graph, away)
        if self.reduction is None:
            return graph, self.data
        if self.edges is not None and away is not None:
            edges = self.edges.edges
            ends = (edges.row, edges.column) if self.flags["transpose"] else edges[1::-1]
            held = np.sort(link_keys(away, graph))
            kept = places_in(held, link_keys(np.stack(ends), graph)) < 0
            if self.listed is not None:
                times = for_every_edge(graph, edges, self.listed, where, "times")
                kept &= times < begins
        made = with_edge_features(self.data, graph, self.reduction, self.edges, kept, **self.flags)
        return graph, made


def read_source(
    obj: Any, data: Any, times: Any = None, features_from_edges: str | None = None, **reading: Any
) -> ReadGraph:
    """`plancc.graph.convert.as_source`, with the times of edges.

    Parameters:
        times: None, `OF_VALUES`, the path of a table with a number for every edge in the order of
            the source (.npy, .csv, .csv.gz), or number[edges].
        features_from_edges: As of `plancc.graph.edge_features.with_edge_features`.

    Raises:
        InputError: Also for times that are missing, not finite, or of another number of edges.
    """
    obj = unpacked(obj)
    timed: Any = nullcontext() if times is None else listing()
    with timed as edges, taking_features(features_from_edges is not None):
        if isinstance(times, str) and times == OF_VALUES:
            warnings.filterwarnings("ignore", ".*as weights of the edges", PlanccWarning)
        read = ReadGraph(*as_source(obj, data, **reading))
    flags = {name: bool(reading.get(name)) for name in ("symmetrize", "transpose")}
    if times is not None:
        read = _timed(read, times, edges, symmetrize=flags["symmetrize"])
    if features_from_edges is None:
        return read
    of_edges = edge_features_of(obj, reading.get("keys"), reading.get("format"))
    return replace(read, reduction=features_from_edges, edges=of_edges, flags=flags)


def _timed(
    read: ReadGraph, given: Any, listed: Sequence[ListedEdges], *, symmetrize: bool
) -> ReadGraph:
    """The same with times, and without values if these are the times."""
    graph = read.graph
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
        given = map_array(given) if of_numpy else read_numbers(given)
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
    return replace(read, graph=graph, first=first[found], last=last[found], listed=times)
