"""Graphs of networkx and igraph in memory.

Edge u -> v is ``A[u, v]``: u needs v.
Undirected graphs have both directions; the edges' attribute ``weight`` is the value. Names of
vertices that all are whole numbers are kept as ids.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.graph.canonical import as_values, build_graph
from plancc.graph.formats import Held
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.textfile import show


def hold(obj: Any) -> Held | None:
    """A graph of networkx or of igraph; None for other objects."""
    if not hasattr(obj, "is_directed"):
        return None
    if hasattr(obj, "adj") and hasattr(obj, "nodes"):
        name = f"networkx {type(obj).__name__}"
        return Held(
            name, partial(graph_of_networkx, obj, name, Source(name, format="networkx")), {}
        )
    if hasattr(obj, "vcount") and hasattr(obj, "get_edgelist"):
        return Held("igraph Graph", partial(_graph_of_igraph, obj, "igraph Graph"), {})
    return None


def graph_of_networkx(graph: Any, name: str, source: Source, **reading: bool) -> Graph:
    """A Graph of a networkx graph; flags as `plancc.graph.formats.read_graph` has them."""
    from itertools import chain

    n = graph.number_of_nodes()
    check_num_vertices(n, name)
    nodes = list(graph)
    number = dict(zip(nodes, range(n), strict=True))
    found = list(graph.edges(data=True))
    _tell(name, {each for *_, data in found for each in data})
    edges = [(u, v, data.get("weight")) for u, v, data in found]
    ends = chain.from_iterable((number[u], number[v]) for u, v, _ in edges)
    pair = np.fromiter(ends, np.int32, 2 * len(edges)).reshape(-1, 2)
    values = None
    if any(weight is not None for _, _, weight in edges):
        try:
            values = np.array([1.0 if w is None else float(w) for _, _, w in edges])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name}: an edge's 'weight' is not a number ({error})") from error
    ids = None
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        try:
            ids = np.array(nodes, dtype=np.int64)
        except OverflowError:
            ids = None
        if ids is not None and np.array_equal(ids, np.arange(n)):
            ids = None
    if reading.pop("pattern", False):
        values = None
    source = replace(source, weights="'weight'")
    built = _build(n, pair, values, graph.is_directed(), source, **reading)
    return replace(built, original_ids=ids)


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
    **reading: bool,
) -> Graph:
    """The graph of edges int[edges, 2]; undirected ones are there in both directions."""
    row, col = pair[:, 0], pair[:, 1]
    if not directed:
        off = row != col
        row, col = np.concatenate([row, col[off]]), np.concatenate([col, row[off]])
        values = values if values is None else np.concatenate([values, values[off]])
    return build_graph(num_vertices, row, col, values, directed=directed, source=source, **reading)
