"""Which partitioners begin a search, by what is measured of the graph.

A partitioner says on which kinds of graphs it begins, and for which efforts
(`plancc.partitioners.adapter.Start`). Before anything is cut there are two kinds, by degrees; the
boundary of the first, quick cut tells three more, since it says what sweeps can reach:

=====  ===========================================================================================
hubs   some vertices have many neighbours, as in collaboration networks
wide   besides, nearly every row is on the boundary: sweeps decide, not the start
even   no vertex has many neighbours, as in meshes
dense  besides, nearly every row is on the boundary, as in small matrices with long rows
thin   few rows are, and degrees are even, as in roads: minimum cuts decide, sweeps spoil the start
=====  ===========================================================================================

Knows partitioners and problems; makes no partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.adapter import Adapter, Start
from plancc.partitioners.run import by_rank

KINDS = ("hubs", "wide", "even", "dense", "thin")
"""Kinds of graphs."""
HUB = 8.0
"""Neighbours of a hub, over those of the average vertex."""
HUB_EDGES = 0.01
"""Share of the edges that hubs have in a graph of kind hubs."""
WIDE, THIN = 0.7, 0.1
"""Share of the rows on the boundary above which a graph is wide or dense, and below which thin."""


@dataclass(frozen=True)
class Beginning:
    """A partitioner, how it is called, and what it is given.

    Attributes
    ----------
    adapter : Adapter
    how : Start
    problem : Hypergraph or WeightedGraph
    """

    adapter: Adapter
    how: Start
    problem: Hypergraph | WeightedGraph


def has_hubs(graph: WeightedGraph) -> bool:
    """Whether a good share of the edges is that of vertices with many neighbours."""
    degree = np.diff(graph.indptr)
    total = int(degree.sum())
    if total == 0:
        return False
    return bool(degree[degree > HUB * degree.mean()].sum() >= HUB_EDGES * total)


def kind_of(graph: WeightedGraph, boundary: float | None = None) -> str:
    """Kind of a graph, one of `KINDS`.

    Parameters
    ----------
    graph : WeightedGraph
    boundary : float, optional
        Share of the rows on the boundary of a quick cut; None: not known, so that the graph is
        neither wide nor dense nor thin.
    """
    kind = "hubs" if has_hubs(graph) else "even"
    if boundary is not None and boundary > WIDE:
        return "wide" if kind == "hubs" else "dense"
    return "thin" if kind == "even" and boundary is not None and boundary < THIN else kind


def beginnings(
    kind: str, effort: str, graph: WeightedGraph, hypergraph: Hypergraph | None
) -> Iterator[Beginning]:
    """Starts of the installed partitioners on a kind of graph, the best first.

    There are none where the best partitioner of graphs has no starts of its own: it then begins by
    `auto_rank`, as does whoever stands in where nothing else is installed. Where vertices have
    several weights and boundaries are long, partitioners of one weight are for effort best only:
    what they miss is dear to restore.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    effort : str
        Effort best has the starts of the others too.
    graph, hypergraph : WeightedGraph, Hypergraph
        The same matrix with the same weights; None: only partitioners of graphs.
    """
    installed = [a for a in by_rank(graph, lambda adapter: adapter.auto_rank) if a.available()]
    if not installed or not installed[0].starts:
        return
    weights = np.count_nonzero(np.atleast_2d(graph.vertex_weights.T).any(axis=1))
    strict = weights > 1 and kind in ("hubs", "wide", "dense") and effort != "best"
    able = [
        (adapter, how)
        for adapter in PARTITIONERS.loaded().values()
        if adapter.available() and (adapter.constraints or not strict)
        for how in adapter.starts
        if kind in how.rank and (effort == "best" or effort in how.efforts)
    ]
    for adapter, how in sorted(able, key=lambda each: -each[1].rank[kind]):
        by = replace(graph, objective=how.objective) if how.objective else hypergraph
        if by is not None and adapter.takes(by):
            yield Beginning(adapter, how, by)
