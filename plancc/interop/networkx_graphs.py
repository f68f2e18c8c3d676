"""Graphs of networkx in memory.

Edge u -> v is ``A[u, v]``: u needs v. Undirected graphs have both directions; the edges' attribute
``weight`` is the value. Nodes are ids where each is another text or whole number.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from plancc.errors import InputError, warn
from plancc.graph.canonical import both_ways, build_graph
from plancc.graph.formats import Held
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.named_ids import as_ids
from plancc.graph.textfile import show


def hold(obj: Any) -> Held | None:
    """A graph of networkx; None for other objects."""
    if not all(hasattr(obj, name) for name in ("is_directed", "adj", "nodes")):
        return None
    name = f"networkx {type(obj).__name__}"
    return Held(name, partial(_graph_of_networkx, obj, name), {})


def _graph_of_networkx(graph: Any, name: str) -> Graph:
    nodes = list(graph)
    check_num_vertices(len(nodes), name)
    number = {node: k for k, node in enumerate(nodes)}
    found = list(graph.edges(data=True))
    if left := sorted(map(show, {each for *_, data in found for each in data} - {"weight"})):
        words = f"not taken: {', '.join(left)} of edges; name the one that is the weight 'weight'"
        warn(f"{name}: {words}")
    ends = chain.from_iterable((number[u], number[v]) for u, v, _ in found)
    pair = np.fromiter(ends, np.int32, 2 * len(found)).reshape(-1, 2)
    weights, values = [data.get("weight") for *_, data in found], None
    if any(weight is not None for weight in weights):
        try:
            values = np.array([1.0 if weight is None else float(weight) for weight in weights])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name}: an edge's 'weight' is not a number ({error})") from error
    source = Source(name, format="networkx", weights="'weight'")
    directed = graph.is_directed()
    edges = both_ways(pair[:, 0], pair[:, 1], values, not directed)
    ids = as_ids(nodes)
    if ids is not None and np.array_equal(ids, np.arange(len(ids))):
        ids = None
    built = build_graph(len(nodes), *edges, directed=directed, source=source)
    return replace(built, original_ids=ids)
