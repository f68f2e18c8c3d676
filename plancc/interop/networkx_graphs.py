"""Graphs of networkx and igraph in memory.

Edge u -> v is ``A[u, v]``: u needs v.
Undirected graphs have both directions; the edges' attribute ``weight`` is the value. Names of
vertices that all are whole numbers are kept as ids.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.graph.canonical import as_values, both_ways, build_graph
from plancc.graph.formats import Held
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.textfile import show


def hold(obj: Any) -> Held | None:
    """A graph of networkx or of igraph; None for other objects."""
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
    _tell(name, {each for *_, data in found for each in data})
    ends = chain.from_iterable((number[u], number[v]) for u, v, _ in found)
    pair = np.fromiter(ends, np.int32, 2 * len(found)).reshape(-1, 2)
    weights, values = [data.get("weight") for *_, data in found], None
    if any(weight is not None for weight in weights):
        try:
            values = np.array([1.0 if weight is None else float(weight) for weight in weights])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name}: an edge's 'weight' is not a number ({error})") from error
    source = Source(name, format="networkx", weights="'weight'")
    built = _build(len(nodes), pair, values, graph.is_directed(), source)
    return replace(built, original_ids=_ids(nodes))


def _ids(nodes: list[Any]) -> npt.NDArray[np.int64] | None:
    """The nodes as ids; None where they are no whole numbers of 64 bits, or 0..n-1."""
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in nodes):
        return None
    try:
        ids = np.array(nodes, np.int64)
    except OverflowError:
        return None
    return None if np.array_equal(ids, np.arange(len(ids))) else ids


def _graph_of_igraph(graph: Any, name: str) -> Graph:
    n = graph.vcount()
    check_num_vertices(n, name)
    pair = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    values = None
    _tell(name, set(graph.es.attributes()))
    if "weight" in graph.es.attributes():
        values = as_values(np.array(graph.es["weight"]), f"{name}: 'weight'")
    source = Source(name, format="igraph", weights="'weight'")
    return _build(n, pair, values, graph.is_directed(), source)


def _tell(name: str, attributes: set[Any]) -> None:
    """Say which attributes of edges are not taken."""
    if left := sorted(map(show, attributes - {"weight"})):
        words = f"not taken: {', '.join(left)} of edges; name the one that is the weight 'weight'"
        warn(f"{name}: {words}")


def _build(
    num_vertices: int,
    pair: npt.NDArray[np.integer],
    values: npt.NDArray[Any] | None,
    directed: bool,
    source: Source,
) -> Graph:
    """The graph of edges int[edges, 2]; undirected ones are there in both directions."""
    edges = both_ways(pair[:, 0], pair[:, 1], values, not directed)
    return build_graph(num_vertices, *edges, directed=directed, source=source)
