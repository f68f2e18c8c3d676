"""Functions that make graphs and vertex data from a user's objects, such as a networkx graph.

They recognise the objects of other libraries without importing these libraries.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.graph.canonical import build_graph, check_edge_index, detect_direction
from plancc.graph.edge_features import taking_features, with_edges
from plancc.graph.formats import Held, data_keys, find_held, graph_keys, read_graph
from plancc.graph.graph import Graph, Source, check_num_vertices, check_range
from plancc.graph.listed_edges import listing
from plancc.graph.rowids import vertex_ids
from plancc.graph.types import Relation, check_relation, in_words
from plancc.graph.union import Entries, entries_of, rectangular, united, with_ids
from plancc.graph.vertexchecks import checked_again
from plancc.graph.vertexdata import INDEX_LISTS, VertexData, as_array
from plancc.graph.vertexsources import read_vertex_data, vertex_data_of
from plancc.graph.weights import with_own_weights
from plancc.text import shown

_ACCEPTED = (
    "a Graph, a path, a scipy sparse matrix, a graph of networkx, igraph, PyTorch Geometric or "
    "DGL, or a pair (num_vertices, edge_index)"
)


def as_graph(obj: Any) -> Graph:
    """Turn a user's object into a Graph.

    Parameters:
        obj (Graph, path, scipy sparse, networkx graph, (n, edge_index), or an object of a library):
            - Graph: returned as it is.
            - Path: read by `plancc.graph.formats.read_graph`.
            - scipy sparse matrix or array: ``A`` itself. Repeated entries are summed, zeros are
              dropped, and a boolean matrix has no values. The graph is undirected if its pattern is
              symmetric. A rectangular matrix is a graph of two vertex types
              (`plancc.graph.union.rectangular`).
            - ``{type: count, (source, name, destination): matrix or edge_index}``: a graph of
              several vertex types (`graph_of_relations`). Instead of the count, a type may have a
              mapping from names to arrays of vertex data. If the mapping has no array with a row
              per vertex, its entry "num_nodes" is the count.
            - networkx: edge u -> v is ``A[u, v]`` (u needs v); undirected graphs have both
              directions. Vertices are in the graph's order. Nodes are kept as ``original_ids`` if
              all are text or all are whole numbers. The graph has values if an edge has the
              attribute "weight". An edge without this attribute has value 1, and values of parallel
              edges are summed.
            - ``(n, edge_index)``: int[2, edges] of numpy or torch, as in PyTorch Geometric:
              ``edge_index[0]`` is the source j, ``edge_index[1]`` the destination i, hence
              ``A[i, j]``. The graph has no values, and is undirected if its pattern is symmetric.
            - A Data of PyTorch Geometric, its ``to_dict()``, or any object or dict with
              ``edge_index`` (`plancc.interop.record.graph_of_record`).
            - A homogeneous graph of DGL: an edge from u to v is ``A[v, u]``, as in ``(n,
              edge_index)``.
            - igraph: see networkx. The graph has values if edges have the attribute "weight".

    Raises:
        InputError: For any other object, a dense matrix, an index out of range, NaN or infinity.
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
        raise InputError("(edge_index, n) is in the wrong order; pass (num_vertices, edge_index)")
    if isinstance(obj, np.ndarray | tuple | list) or type(obj).__module__ == "torch":
        raise InputError(_no_graph(obj))
    held = find_held(obj)
    if held is not None:
        return held.graph()
    if is_typed(obj):
        return graph_of_relations(obj)
    raise InputError(f"'{type(obj).__name__}' is not a graph; pass {_ACCEPTED}")


def as_source(
    obj: Any,
    data: Any = None,
    *,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
    edge_features: Any = None,
    **reading: Any,
) -> tuple[Graph, VertexData]:
    """Return the graph (with vertex weights) and the vertex data of a user's object.

    If `data` is None, the data that `obj` holds are returned; if False, no data. `reading` are
    options of `plancc.graph.formats.read_graph`, for a path.
    """
    format, large = reading.get("format"), bool(reading.get("allow_large"))
    listed: Any = nullcontext() if edge_features is None else listing()
    with taking_features(edge_features is not None), listed as edges:
        if isinstance(obj, str | os.PathLike):
            graph = read_graph(obj, keys=graph_keys(keys), **reading)
        elif graph_keys(keys):
            raise InputError("`keys` needs a graph that is read from a file")
        else:
            obj = unpacked(obj)
            graph = obj.graph() if isinstance(obj, Held) else as_graph(obj)
    if edge_features is not None:
        of_source: Any = {"keys": keys, "format": format}
        of_source["symmetrize"] = bool(reading.get("symmetrize"))
        graph = with_edges(graph, edge_features, edges, obj, **of_source)
    choice: Any = {"split": split, "keys": keys, "allow_large": large}
    found = data_beside(obj, graph, data, **choice, format=format)
    return with_own_weights(graph, found)


def unpacked(obj: Any) -> Any:
    """Return a `Held` if `obj` is from another library or a mapping of relations; else `obj`.

    A caller that keeps the `Held` need not read `obj` again.
    """
    if isinstance(obj, str | os.PathLike | Held):
        return obj
    return find_held(obj) or _held_relations(obj) or obj


def data_beside(
    obj: Any,
    graph: Graph,
    data: Any,
    *,
    split: str | None,
    keys: Mapping[str, str] | None,
    format: str | None,
    allow_large: bool,
) -> VertexData:
    """Return the vertex data of `graph`, which was made from `obj`."""
    choice: Any = {"split": split, "keys": keys}
    if data is None:
        return own_data(obj, graph, **choice, format=format, allow_large=allow_large)
    if data is False or isinstance(data, VertexData):
        if split is not None or data_keys(keys):
            raise InputError("`split` and `keys` choose arrays by name, but `data` has no names")
        return checked_again(data, graph) if data else VertexData()
    if isinstance(data, Mapping):
        return vertex_data_of(data, graph, "`data`: ", **choice)
    paths = data if isinstance(data, tuple | list) else [data]
    if all(isinstance(each, str | os.PathLike) for each in paths):
        return read_vertex_data(data, graph, **choice, allow_large=allow_large)
    given = "a path, a VertexData, or a dict such as {'features': ..., 'labels': ..., "
    raise InputError(f"`data` is '{type(data).__name__}'; pass {given}'train_mask': ...}}")


def own_data(
    obj: Any,
    graph: Graph,
    *,
    format: str | None = None,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
    allow_large: bool = False,
) -> VertexData:
    """Return the vertex data that the source of a graph holds; empty if it holds none.

    `obj` is the source: a path, or a graph in memory, as `find_held` returns it.
    """
    choice: Any = {"split": split, "keys": keys, "required": False}
    try:
        if isinstance(obj, str | os.PathLike):
            of_file: Any = {"format": format, "allow_large": allow_large}
            found = read_vertex_data(obj, graph, **of_file, **choice)
            if found.arrays() or found.by_type or split is None:
                return found
        elif isinstance(obj, Held) and obj.data:
            return vertex_data_of(obj.data, graph, f"{obj.name}: ", **choice)
    except InputError as error:
        raise InputError(f"{error} (`data=False` leaves the vertex data out)") from error
    if split is not None or data_keys(keys):
        raise InputError("the graph has no vertex data; drop `split` and `keys`")
    return VertexData()


def _no_graph(obj: Any) -> str:
    """Return a message that says why an array or a sequence is not a graph."""
    shape = tuple(obj.shape) if hasattr(obj, "shape") else np.shape(obj)
    if len(shape) == 2 and 2 in shape and shape[0] != shape[1]:
        told = f"a bare edge_index of shape {shape} does not say how many vertices there are"
        return f"{told}; pass (num_vertices, edge_index{'' if shape[0] == 2 else '.T'})"
    if len(shape) == 2:
        cure = "convert it with scipy.sparse.csr_array(matrix)"
        return f"a dense matrix is not accepted as a graph; {cure}"
    return f"'{type(obj).__name__}' is not a graph; pass {_ACCEPTED}"


def _from_scipy(matrix: Any) -> Graph:
    name = f"scipy {type(matrix).__name__}"
    row, col, values = entries_of(matrix, name)
    source = Source(name, format="scipy", weights="'data'")
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        return rectangular(matrix.shape, (row, col, values), source)
    return detect_direction(build_graph(matrix.shape[0], row, col, values, source=source))


def _from_edge_index(n: Any, edge_index: Any) -> Graph:
    name = "edge_index"
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise InputError(f"(num_vertices, {name}): num_vertices must be an integer, not '{n}'")
    check_num_vertices(int(n), name)
    where = f"(num_vertices, {name})"
    pair = check_edge_index(as_array(edge_index, f"{where}: '{name}'"), where)
    check_range(pair, int(n), name)
    made_of = Source(name, format="edge_index")
    return detect_direction(build_graph(int(n), pair[1], pair[0], source=made_of))


def is_typed(obj: Any) -> bool:
    """Whether `obj` is a mapping with relations as keys: (source, name, destination)."""
    return isinstance(obj, Mapping) and any(isinstance(name, tuple) for name in obj)


def _held_relations(obj: Any) -> Held | None:
    """Return a `Held` for a mapping of relations, with its vertex data by type.

    Return None for other objects.
    """
    if not is_typed(obj):
        return None
    data = {name: each for name, each in obj.items() if isinstance(each, Mapping)}
    return Held("relations", partial(graph_of_relations, obj), data)


def _count_of(given: Any) -> Any:
    """Return a type's number of vertices; `given` is this number, or a mapping of vertex data."""
    if not isinstance(given, Mapping):
        return given
    lists = {*chain.from_iterable(INDEX_LISTS.values())}
    rows = (np.shape(each)[0] for key, each in given.items() if np.ndim(each) and key not in lists)
    return given.get("num_nodes", next(rows, 0))


def graph_of_relations(relations: Mapping[Any, Any]) -> Graph:
    """Return the graph of ``{type: count, (source, name, destination): matrix or edge_index}``.

    A scipy matrix has a row for every destination vertex and a column for every source vertex. An
    ``edge_index``, int[2, edges], has sources in row 0 and destinations in row 1, and needs the
    counts.
    """
    source = Source("relations", format="dict")
    counts = {name: _count_of(each) for name, each in relations.items() if isinstance(name, str)}
    found = {name: each for name, each in relations.items() if not isinstance(name, str)}
    for relation, given in found.items():
        check_relation(relation, source.name)
        if not hasattr(given, "tocoo") or len(given.shape) != 2:
            continue
        for name, size in ((relation[0], given.shape[1]), (relation[2], given.shape[0])):
            if counts.setdefault(name, size) != size:
                told = f"the matrix has {size:,} vertices of type '{shown(name)}', but there are"
                rule = f"{shown(counts[name])}: rows are destinations, columns are sources"
                raise InputError(f"{source.name}: {in_words(relation)}: {told} {rule}")
    entries: dict[Relation, Entries] = {}
    for relation, given in found.items():
        where = f"{source.name}: {in_words(relation)}"
        if hasattr(given, "tocoo"):
            entries[relation] = entries_of(given, where)
            continue
        column, row = check_edge_index(as_array(given, f"{where}: edge_index"), where)
        for name in (relation[0], relation[2]):
            if name not in counts:
                told = f"does not say how many vertices type '{shown(name)}' has"
                raise InputError(f"{where}: edge_index {told}; add an entry '{shown(name)}': count")
        entries[relation] = row, column, None
    graph = united(counts, entries, source)
    return with_ids(graph, [vertex_ids(relations.get(name), n) for name, n in counts.items()])
