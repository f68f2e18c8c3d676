"""Graphs and their vertex data from Python objects. Imports none of the libraries they are of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.graph.canonical import as_values, build_graph, detect_direction
from plancc.graph.dgl_files import is_dgl, record_of_dgl
from plancc.graph.formats import data_keys, graph_keys, read_graph
from plancc.graph.graph import Graph, Source, check_num_vertices, check_range, check_square
from plancc.graph.pyg import edge_index_of, graph_of_record, is_data, record_of
from plancc.graph.vertexdata import (
    VertexData,
    check_vertex_data,
    read_vertex_data,
    vertex_data_of,
)
from plancc.graph.weights import with_own_weights

_ACCEPTED = (
    "a Graph, a path, a scipy sparse matrix, a graph of networkx, igraph, PyTorch Geometric or "
    "DGL, or a pair (num_vertices, edge_index)"
)
_DGL = "DGL graph"


def as_graph(obj: Any) -> Graph:
    """Turn what a user has into a Graph.

    Parameters
    ----------
    obj : Graph, path, scipy sparse, networkx graph, (n, edge_index), or an object of a library
        - Graph: returned as it is.
        - Path: read by `plancc.graph.formats.read_graph`.
        - scipy sparse matrix or array, square: ``A`` itself; duplicates are summed, zeros dropped;
          a boolean matrix has no values. Undirected if its pattern is symmetric.
        - networkx: edge u -> v is ``A[u, v]`` (u needs v); undirected graphs have both directions.
          Vertices in the graph's order; integer nodes other than 0..n-1 are kept as
          ``original_ids``. Values if at least one edge has the attribute "weight" (1 for edges
          without it); parallel edges are summed then.
        - ``(n, edge_index)``: int[2, edges] as in PyTorch Geometric, numpy or torch:
          ``edge_index[0]`` is the source j, ``edge_index[1]`` the destination i that aggregates
          from it, hence ``A[i, j]``. No values. Undirected if its pattern is symmetric.
        - A Data of PyTorch Geometric, its ``to_dict()``, or any object or dict with ``edge_index``
          (`plancc.graph.pyg.graph_of_record`).
        - A homogeneous graph of DGL: an edge from u to v is ``A[v, u]``, as in ``(n, edge_index)``.
        - igraph: as networkx; values if edges have the attribute "weight".

    Raises
    ------
    InputError
        For any other object, a dense or non-square matrix, an index out of range, NaN or infinity.
    """
    if isinstance(obj, Graph):
        return obj
    if isinstance(obj, str | os.PathLike):
        return read_graph(obj)
    from scipy.sparse import issparse

    if issparse(obj):
        return _from_scipy(obj)
    if isinstance(obj, tuple | list) and len(obj) == 2 and np.ndim(obj[0]) == 0:
        return _from_edge_index(*obj)
    if isinstance(obj, tuple | list) and len(obj) == 2 and np.ndim(obj[1]) == 0:
        raise InputError("(edge_index, n) is the wrong way round: pass (num_vertices, edge_index)")
    if is_dgl(obj):
        return graph_of_record(record_of_dgl(obj, _DGL), _DGL, Source(_DGL, format="dgl"))
    if is_data(obj):
        name = f"PyG {type(obj).__name__}"
        return graph_of_record(record_of(obj, name), name, Source(name, format="pyg"))
    if isinstance(obj, np.ndarray | tuple | list) or type(obj).__module__ == "torch":
        raise InputError(_no_graph(obj))
    if hasattr(obj, "adj") and hasattr(obj, "nodes") and hasattr(obj, "is_directed"):
        return _from_networkx(obj)
    if hasattr(obj, "vcount") and hasattr(obj, "get_edgelist") and hasattr(obj, "is_directed"):
        return _from_igraph(obj)
    raise InputError(f"'{type(obj).__name__}' is not a graph: pass {_ACCEPTED}")


def as_source(
    obj: Any,
    data: Any = None,
    *,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
) -> tuple[Graph, VertexData]:
    """Graph and vertex data of what a user has; weights of vertices are in the graph.

    Parameters
    ----------
    obj
        As `as_graph` takes it.
    data : path, several paths, VertexData, mapping of str to array, or False, optional
        The vertex data. None: what `obj` holds besides the graph; False: none.
    split, keys
        As in `plancc.graph.vertexdata.read_vertex_data`; ``keys["graph"]`` as in
        `plancc.graph.formats.read_graph`.

    Raises
    ------
    InputError
    """
    if isinstance(obj, str | os.PathLike):
        graph = read_graph(obj, keys=graph_keys(keys))
    elif graph_keys(keys):
        raise InputError("`keys` needs a graph that is read from a file")
    else:
        graph = as_graph(obj)
    choice: Any = {"split": split, "keys": keys}
    if data is None:
        found = own_data(obj, graph, **choice)
    elif data is False or isinstance(data, VertexData):
        if split is not None or data_keys(keys):
            raise InputError("`split` and `keys` choose among arrays by name; `data` has none")
        found = check_vertex_data(vars(data), graph) if data else VertexData()
    elif isinstance(data, Mapping):
        found = vertex_data_of(data, graph, "`data`: ", **choice)
    elif isinstance(data, str | os.PathLike) or (
        isinstance(data, tuple | list) and all(isinstance(d, str | os.PathLike) for d in data)
    ):
        found = read_vertex_data(data, graph, **choice)
    else:
        raise InputError(
            f"`data` is '{type(data).__name__}': pass a path, a VertexData, or a dict of arrays, "
            "as {'features': ..., 'labels': ..., 'train_mask': ...}"
        )
    return with_own_weights(graph, found)


def own_data(
    obj: Any,
    graph: Graph,
    *,
    format: str | None = None,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
    allow_large: bool = False,
) -> VertexData:
    """Vertex data that the source of a graph holds; none where it has none.

    Parameters
    ----------
    obj
        What `graph` was made of, a path or an object.
    graph : Graph
    format, split, keys, allow_large
        As in `plancc.graph.vertexdata.read_vertex_data`.

    Raises
    ------
    InputError
        If it is wrong; the message says how to leave it out.
    """
    choice: Any = {"split": split, "keys": keys, "required": False}
    try:
        if isinstance(obj, str | os.PathLike):
            of_file: Any = {"format": format, "allow_large": allow_large}
            return read_vertex_data(obj, graph, **of_file, **choice)
        if is_dgl(obj):
            return vertex_data_of(record_of_dgl(obj, _DGL), graph, f"{_DGL}: ", **choice)
        if is_data(obj):
            name = f"PyG {type(obj).__name__}"
            return vertex_data_of(record_of(obj, name), graph, f"{name}: ", **choice)
    except InputError as error:
        raise InputError(f"{error} (`data=False` leaves the vertex data out)") from error
    if split is not None or data_keys(keys):
        raise InputError("the graph has no vertex data: drop `split` and `keys`")
    return VertexData()


def _no_graph(obj: Any) -> str:
    """Why an array or a sequence is not a graph."""
    shape = tuple(obj.shape) if hasattr(obj, "shape") else np.shape(obj)
    if len(shape) == 2 and 2 in shape and shape[0] != shape[1]:
        turned = "" if shape[0] == 2 else ".T"
        return (
            f"a bare edge_index of shape {shape} does not say how many vertices there are: pass "
            f"(num_vertices, edge_index{turned})"
        )
    if len(shape) == 2:
        return (
            "a dense matrix is not accepted as graph: convert it by scipy.sparse.csr_array(matrix)"
        )
    return f"'{type(obj).__name__}' is not a graph: pass {_ACCEPTED}"


def _from_scipy(matrix: Any) -> Graph:
    name = f"scipy {type(matrix).__name__}"
    check_square(matrix.shape, name)
    coo = matrix.tocoo()
    row, col = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    values = coo.data
    if values.dtype == np.bool_:
        row, col, values = row[values], col[values], None
    else:
        values = as_values(values, name)
    source = Source(name, format="scipy", weights="'data'")
    return detect_direction(build_graph(matrix.shape[0], row, col, values, source=source))


def _from_networkx(graph: Any) -> Graph:
    name = f"networkx {type(graph).__name__}"
    return graph_of_networkx(graph, name, Source(name, format="networkx"))


def graph_of_networkx(graph: Any, name: str, source: Source, **reading: bool) -> Graph:
    """A Graph of a networkx graph; flags as `plancc.graph.formats.read_graph` has them."""
    from itertools import chain

    n = graph.number_of_nodes()
    check_num_vertices(n, name)
    nodes = list(graph)
    number = dict(zip(nodes, range(n), strict=True))
    edges = list(graph.edges(data="weight"))
    ends = chain.from_iterable((number[u], number[v]) for u, v, _ in edges)
    pair = np.fromiter(ends, np.int32, 2 * len(edges)).reshape(-1, 2)
    row, col = pair[:, 0], pair[:, 1]
    values = None
    if any(weight is not None for _, _, weight in edges):
        try:
            values = np.array([1.0 if w is None else float(w) for _, _, w in edges])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name}: an edge's 'weight' is not a number ({error})") from error
    directed = graph.is_directed()
    if not directed:
        off = row != col
        row, col = np.concatenate([row, col[off]]), np.concatenate([col, row[off]])
        values = values if values is None else np.concatenate([values, values[off]])
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
    built = build_graph(n, row, col, values, directed=directed, source=source, **reading)
    return replace(built, original_ids=ids)


def _from_igraph(graph: Any) -> Graph:
    name = "igraph Graph"
    n = graph.vcount()
    check_num_vertices(n, name)
    pair = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    row, col = pair[:, 0], pair[:, 1]
    values = None
    if "weight" in graph.es.attributes():
        values = as_values(np.array(graph.es["weight"]), f"{name}: 'weight'")
    directed = graph.is_directed()
    if not directed:
        off = row != col
        row, col = np.concatenate([row, col[off]]), np.concatenate([col, row[off]])
        values = values if values is None else np.concatenate([values, values[off]])
    source = Source(name, format="igraph", weights="'weight'")
    return build_graph(n, row, col, values, directed=directed, source=source)


def _from_edge_index(n: Any, edge_index: Any) -> Graph:
    name = "edge_index"
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise InputError(f"(num_vertices, {name}): num_vertices must be an integer, not '{n}'")
    check_num_vertices(int(n), name)
    pair = edge_index_of(edge_index, f"(num_vertices, {name})")
    check_range(pair, int(n), name)
    source, destination = pair
    return detect_direction(
        build_graph(int(n), destination, source, source=Source(name, format="edge_index"))
    )
