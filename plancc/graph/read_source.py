"""A source as it is read for a plan: graph and vertex data, of which links may be withheld."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_source, unpacked
from plancc.graph.edge_features import edge_features_of, taking_features, with_edge_features
from plancc.graph.graph import Graph
from plancc.graph.link_times import OF_VALUES, LinkTimes, with_times
from plancc.graph.links import Pair, without
from plancc.graph.listed_edges import (
    EdgeFeatures,
    for_every_edge,
    link_keys,
    listing,
    places_in,
)
from plancc.graph.remarks import files_of_data
from plancc.graph.vertexdata import VertexData


@dataclass(frozen=True, eq=False)
class ReadGraph:
    """A graph and its vertex data; features of vertices may have to wait for links.

    Attributes:
        times: Of the edges; None: there are none.
        reduction: As of `plancc.graph.edge_features.with_edge_features`, if features of vertices
            are to be made of edges.
        edges, flags: Its other parameters.
        files: As of `plancc.graph.remarks.remarks`.
    """

    graph: Graph
    data: VertexData
    times: LinkTimes | None = None
    reduction: str | None = None
    edges: EdgeFeatures | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)
    files: str = ""

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
        if graph.values is not None and self.times is not None:
            both = np.count_nonzero((self.times.first < begins) & (self.times.last >= begins))
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
            if self.times is not None:
                times = for_every_edge(graph, edges, self.times.listed, where, "times")
                kept &= times < begins
        made = with_edge_features(self.data, graph, self.reduction, self.edges, kept, **self.flags)
        return graph, made


def read_source(
    obj: Any, data: Any, times: Any = None, features_from_edges: str | None = None, **reading: Any
) -> ReadGraph:
    """`plancc.graph.convert.as_source`, with the times of edges.

    Parameters:
        times: As of `plancc.graph.link_times.with_times`; None: there are none.
        features_from_edges: As of `plancc.graph.edge_features.with_edge_features`.

    Raises:
        InputError: Also as `with_times`.
    """
    obj = unpacked(obj)
    timed: Any = nullcontext() if times is None else listing()
    with timed as edges, taking_features(features_from_edges is not None):
        if isinstance(times, str) and times == OF_VALUES:
            warnings.filterwarnings("ignore", ".*as weights of the edges", PlanccWarning)
        read = ReadGraph(*as_source(obj, data, **reading), files=files_of_data(data))
    flags = {name: bool(reading.get(name)) for name in ("symmetrize", "transpose")}
    if times is not None:
        graph, found = with_times(read.graph, times, edges, symmetrize=flags["symmetrize"])
        read = replace(read, graph=graph, times=found)
    if features_from_edges is None:
        return read
    of_edges = edge_features_of(obj, reading.get("keys"), reading.get("format"))
    return replace(read, reduction=features_from_edges, edges=of_edges, flags=flags)
