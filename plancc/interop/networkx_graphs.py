"""Readers of networkx and igraph graphs in memory.

Edge u -> v is ``A[u, v]``: u needs v. An undirected edge is read in both directions. Ids are the
nodes of networkx, or the values of ``name`` of igraph's vertices, if these are distinct strings or
whole numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from plancc.errors import InputError, warn
from plancc.graph.arrays import Array, IntArray
from plancc.graph.canonical import as_values, both_ways, build_graph
from plancc.graph.formats import Held
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.named_ids import as_ids
from plancc.graph.textfile import show


def hold(obj: Any) -> Held | None:
    """Return a networkx or igraph graph as a `Held`, which makes a `Graph` later; else None."""
    if not hasattr(obj, "is_directed"):
        return None
    if hasattr(obj, "adj") and hasattr(obj, "nodes"):
        name = f"networkx {type(obj).__name__}"
        return Held(name, partial(_graph_of_networkx, obj, name), {})
    if hasattr(obj, "vcount") and hasattr(obj, "get_edgelist"):
        return Held("igraph Graph", partial(_graph_of_igraph, obj, "igraph Graph"), {})
    return None


def _graph_of_networkx(graph: Any, name: str) -> Graph:
    nodes = list(graph)
    check_num_vertices(len(nodes), name)
    number = {node: k for k, node in enumerate(nodes)}
    found = list(graph.edges(data=True))
    _warn_of_attributes(name, {each for *_, data in found for each in data})
    ends = chain.from_iterable((number[u], number[v]) for u, v, _ in found)
    pair = np.fromiter(ends, np.int32, 2 * len(found)).reshape(-1, 2)
    weights, values = [data.get("weight") for *_, data in found], None
    if any(weight is not None for weight in weights):
        try:
            values = np.array([1.0 if weight is None else float(weight) for weight in weights])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name}: an edge's 'weight' is not a number ({error})") from error
    source = Source(name, format="networkx", weights="'weight'")
    return _build(nodes, pair, values, graph.is_directed(), source)


def _graph_of_igraph(graph: Any, name: str) -> Graph:
    n = graph.vcount()
    check_num_vertices(n, name)
    pair = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    values = None
    _warn_of_attributes(name, set(graph.es.attributes()))
    if "weight" in graph.es.attributes():
        values = as_values(np.array(graph.es["weight"]), f"{name}: 'weight'")
    source = Source(name, format="igraph", weights="'weight'")
    nodes = graph.vs["name"] if "name" in graph.vs.attributes() else range(n)
    return _build(nodes, pair, values, graph.is_directed(), source)


def _warn_of_attributes(name: str, attributes: set[Any]) -> None:
    """Warn of attributes of edges that are ignored."""
    if left := sorted(map(show, attributes - {"weight"})):
        words = f"ignored: {', '.join(left)} of edges; give the weights the name 'weight'"
        warn(f"{name}: {words}")


def _build(
    nodes: Collection[Any], pair: IntArray, values: Array | None, directed: bool, source: Source
) -> Graph:
    """Return the graph of nodes and edges; `pair` is int[edges, 2].

    Undirected edges are added in both directions.
    """
    edges = both_ways(pair[:, 0], pair[:, 1], values, not directed)
    ids = as_ids(nodes)
    if ids is not None and np.array_equal(ids, np.arange(len(ids))):
        ids = None
    built = build_graph(len(nodes), *edges, directed=directed, source=source)
    return replace(built, original_ids=ids)
