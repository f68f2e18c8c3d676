"""Function that reads what a plan needs: a graph, its vertex data, and the times of its edges."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_source, unpacked
from plancc.graph.graph import Graph
from plancc.graph.links import OF_VALUES, LinkTimes, Pair, with_times, without
from plancc.graph.listed_edges import listing
from plancc.graph.remarks import files_of_data
from plancc.graph.vertexdata import VertexData


@dataclass(frozen=True, eq=False)
class ReadGraph:
    """A graph and its vertex data.

    Attributes:
        files: Names of the files of vertex data, for `plancc.graph.remarks.remarks`.
    """

    graph: Graph
    data: VertexData
    times: LinkTimes | None = None
    files: str = ""

    def apart(self, away: Pair | None, begins: float = np.inf) -> Graph:
        """Return the graph without the edges of the links `away`, int32[2, links].

        InputError is raised if an edge of a graph with weights is listed both before the time
        `begins` and at or after it, since the edge's weight in the graph is the sum of both.
        """
        if self.graph.values is not None and self.times is not None:
            both = np.count_nonzero((self.times.first < begins) & (self.times.last >= begins))
            if both:
                edges = f"{both:,} training edges are listed before time {begins:.15g}, where"
                told = f"{edges} validation and test begin, and again later"
                cure = "give every edge once, or read the edges without weights (`pattern`)"
                where = f"{self.graph.source.name}: `link_times`"
                raise InputError(f"{where}: {told}, so each gets the sum of its weights; {cure}")
        return self.graph if away is None else without(self.graph, away)


def read_source(obj: Any, data: Any, times: Any = None, **reading: Any) -> ReadGraph:
    """Read a graph, its data (`plancc.graph.convert.as_source`), and edge times (`with_times`)."""
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
