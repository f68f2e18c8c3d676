"""Records: dicts with the arrays of a graph, such as its edges and vertex data, by name.

Readers of other frameworks make records, and this module makes graphs from records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.canonical import as_values, build_graph, check_edge_index, detect_direction
from plancc.graph.edge_features import LEFT_OUT
from plancc.graph.formats import Format, Held
from plancc.graph.graph import Graph, Source, check_num_vertices, first_outside
from plancc.graph.listed_edges import EdgeFeatures, ListedEdges
from plancc.graph.rowids import vertex_ids
from plancc.graph.textfile import show
from plancc.graph.types import Relation, check_relation, in_words
from plancc.graph.union import Entries, IntArray, united, with_ids
from plancc.graph.vertexdata import ALIASES, KEYS, MASKS, as_array

Array = npt.NDArray[Any]
Record = dict[Any, Any]
"""Arrays by name. For a graph of several vertex types: records by type, and by relation (source,
name, destination)."""
_WEIGHTS = ("edge_weight", "edge_attr", "edge-feat")
_OF_EDGES = (*_WEIGHTS, "edge_feat", "edge_label")
"""Names of arrays of edge data that are read: weights, features, and labels for link prediction."""
_FEATURES = ("features", *ALIASES["features"])
_OF_VERTICES = (*_FEATURES, *KEYS[1:], *ALIASES["labels"])


def graph_of_record(
    record: Record, where: str, source: Source, graph_key: str = "edge_index", **reading: bool
) -> Graph:
    """Return the graph of a record.

    A record has these arrays, some of them optional:

    - Edges: ``edge_index``, int[2, edges], or ``adj_t``, a sparse tensor.
    - Values: ``edge_weight``, or ``edge_attr`` or ``edge-feat`` of one column.
    - Number of vertices: ``num_nodes``, else the number of rows of vertex data.
    - Ids: ``n_id`` or ``ids``, n distinct whole numbers or strings.

    `graph_key` is the name that the record uses for ``edge_index``.
    """
    if is_typed(record):
        return _graph_of_types(record, where, source, **reading)
    pattern = reading.pop("pattern", False)
    pair, values, weights = record.get(graph_key), None, "'adj_t'"
    if pair is None and record.get("adj_t") is not None:
        n, row, col, values = _sparse_entries(record["adj_t"], where)
    elif pair is None:
        names = ", ".join(show(name) for name in list(record)[:20])
        raise InputError(f"{where}: '{graph_key}' is missing; there are {names or 'no keys'}")
    else:
        col, row = edge_index_of(pair, where)
        n = _num_vertices(record, row, col, where)
        _check_ends((col, row), n, f"{where}: '{graph_key}'", _cure(record, n))
        weights, values = _weights(record, len(row), where, n)
    source = replace(source, weights=weights)
    graph = build_graph(n, row, col, None if pattern else values, source=source, **reading)
    return replace(detect_direction(graph), original_ids=vertex_ids(record, n))


def _graph_of_types(record: Record, where: str, source: Source, **reading: bool) -> Graph:
    """Return the graph of several vertex types that a record describes."""
    for flag in ("symmetrize", "transpose"):
        if reading.get(flag):
            raise InputError(f"{where}: a graph with relations cannot be read with `{flag}`")
    entries: dict[Relation, Entries] = {}
    for relation, each in record.items():
        if isinstance(relation, tuple) and each.get("edge_index") is not None:
            check_relation(relation, where)
            what = f"{where}: {in_words(relation)}"
            column, row = edge_index_of(each["edge_index"], what)
            values = None if reading.get("pattern") else _weights(each, len(row), what)[1]
            entries[relation] = row, column, values
    named = (name for name in record if isinstance(name, str) and not name.startswith("_"))
    ends: dict[str, list[IntArray]] = {name: [np.empty(0, np.int64)] for name in named}
    for (start, _, end), (row, column, _) in entries.items():
        ends.setdefault(start, []).append(column)
        ends.setdefault(end, []).append(row)
    counts = {}
    for name, used in ends.items():
        vertices = np.concatenate(used)
        what = f"{where}: type {show(name)}"
        counts[name] = _num_vertices(record.get(name) or {}, vertices, vertices, what)
    graph = united(counts, entries, source)
    return with_ids(graph, [vertex_ids(record.get(name), n) for name, n in counts.items()])


def edge_index_of(edge_index: Any, where: str) -> IntArray:
    """Return an edge_index as int[2, edges].

    Raises:
        InputError: If it has another type or shape.
    """
    return check_edge_index(as_array(edge_index, f"{where}: 'edge_index'"), where)


def _check_ends(pair: tuple[IntArray, IntArray], num_vertices: int, what: str, cure: str) -> None:
    """Raise InputError if an edge has a vertex that is out of range.

    `pair` is edge_index; `cure` is advice for a vertex number that is too large.
    """
    for side, ends in enumerate(pair):
        if (k := first_outside(ends, num_vertices)) is not None:
            wrong = np.count_nonzero((ends < 0) | (ends >= num_vertices))
            told = f"vertex '{ends[k]}' is out of range 0..{num_vertices - 1}"
            way = cure if ends[k] >= 0 else "vertices are numbered from 0"
            raise InputError(
                f"{what}[{side}, {k}]: {told} ({wrong:,} of {len(ends):,} entries): {way}"
            )


def _cure(record: Record, num_vertices: int) -> str:
    """Return advice on too large vertex numbers; it names the entry that sets the vertex count."""
    if record.get("num_nodes") is not None:
        return f"'num_nodes' is {num_vertices:,}; give the number of all vertices"
    shapes = {name: getattr(record.get(name), "shape", None) for name in (*_OF_VERTICES, *MASKS)}
    rows = {name: int(shape[0]) for name, shape in shapes.items() if shape}
    name = next((name for name in rows if rows[name] == num_vertices), "x")
    more = [f", '{each}' {rows[each]:,}" for each in rows if rows[each] > num_vertices][:1]
    return f"'{name}' has {num_vertices:,} rows{''.join(more)}; give a row for every vertex"


def _num_vertices(record: Record, row: IntArray, col: IntArray, where: str) -> int:
    given = record.get("num_nodes")
    if given is not None:
        given = as_array(given, f"{where}: 'num_nodes'")
        if given.size != 1 or given.dtype.kind not in "iu":
            raise InputError(f"{where}: 'num_nodes' must be one whole number")
        n = int(given.reshape(-1)[0])
        check_num_vertices(n, where)
        return n
    n = int(max(row.max(initial=-1), col.max(initial=-1))) + 1
    for name in _OF_VERTICES:
        if hasattr(record.get(name), "shape") and record[name].shape:
            rows = int(record[name].shape[0])
            of_edges = rows == len(row) > n
            if name in _FEATURES or (rows >= n and not of_edges):
                return rows
            told = f"'{name}' has {rows:,} rows{', the number of edges' * of_edges}"
            why = f"'edge_index' names vertex {n - 1:,}, so the rows are not taken as the vertices"
            warn(f"{where}: {told}, and {why}")
    taken = f"the graph gets {n:,} vertices, up to the largest in 'edge_index'"
    warn(f"{where}: neither 'num_nodes' nor data of vertices is given: {taken}")
    return n


def _weights(
    record: Record, edges: int, where: str, vertices: int = -1
) -> tuple[str, Array | None]:
    """Return name and values, number[edges], of the edge weights; "" and None if there are none."""
    taken: tuple[str, Array | None] = "", None
    for name in _WEIGHTS:
        if record.get(name) is None:
            continue
        values = as_array(record[name], f"{where}: '{name}'")
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if name != "edge_weight" and (values.ndim == 2 or taken[0]):
            columns = values.shape[1] if values.ndim == 2 else 1
            kept = "('edge_weight'); to keep all columns, set `edge_features` to source"
            warn(f"{where}: '{name}' has {columns} columns and {LEFT_OUT} {kept}")
            continue
        if values.shape != (edges,):
            rule = f"must have one value for each of the {edges} edges"
            raise InputError(f"{where}: '{name}' of shape {values.shape} {rule}")
        taken = f"'{name}'", as_values(values, f"{where}: '{name}'")
    shapes = {name: tuple(getattr(record[name], "shape", ())) for name in record}
    others = [
        show(name)
        for name, shape in shapes.items()
        if shape[:1] == (edges,)
        and name not in (*_OF_EDGES, *_OF_VERTICES, *MASKS)
        and (edges != vertices or re.match("edge_(?!.*index)", str(name)))
        and not str(name).endswith("index")
    ]
    if others:
        warn(f"{where}: ignored: {', '.join(others)} of edges; give weights the name 'edge_weight'")
    return taken


def edges_of_record(record: Record, where: str, graph_key: str = "edge_index") -> Any:
    """Return the `EdgeFeatures` of a record: features or weights; None if there are neither.

    A record with ``adj_t`` has no edge features. With several vertex types, the result is a dict
    of features by relation.
    """
    if is_typed(record):
        every = (name for name in record if isinstance(name, tuple))
        known = (
            (each, edges_of_record(record[each], f"{where}: {in_words(each)}")) for each in every
        )
        return {each: found.features for each, found in known if found is not None}
    found = (record.get(name) for name in ("edge_attr", "edge-feat", "edge_feat", "edge_weight"))
    features = next((each for each in found if each is not None), None)
    if features is None or record.get(graph_key) is None:
        return None
    column, row = edge_index_of(record[graph_key], where)
    features = as_array(features, f"{where}: features of edges")
    features = features[:, None] if features.ndim == 1 else features
    if features.ndim != 2 or len(features) != len(row) or features.dtype.kind not in "biuf":
        told = f"features of edges are of shape {features.shape} and type {features.dtype}"
        raise InputError(f"{where}: {told}; give a row of numbers for each of the {len(row)} edges")
    return EdgeFeatures(ListedEdges(row, column), features)


def _sparse_entries(matrix: Any, where: str) -> tuple[int, IntArray, IntArray, Array | None]:
    """Return (n, row, column, values) of a sparse tensor of torch; values are None if all are 1."""
    what = f"{where}: 'adj_t'"
    shape = tuple(getattr(matrix, "shape", ()))
    square = len(shape) > 1 and shape[0] == shape[1] and shape[2:] in ((), (1,))
    if not square or not callable(getattr(matrix, "to_sparse_coo", 0)):
        raise InputError(f"{what} is not a square sparse tensor of torch; save 'edge_index'")
    check_num_vertices(int(shape[0]), where)
    coo = matrix.detach().to_sparse_coo().coalesce()
    row, col = as_array(coo.indices(), what)
    values = as_array(coo.values(), what).reshape(-1)
    return int(shape[0]), row, col, None if (values == 1).all() else values


def is_typed(record: Mapping[Any, Any]) -> bool:
    """Return whether a record has relations, that is, describes a graph of several vertex types."""
    return any(isinstance(name, tuple) for name in record)


def held_record(record: Record, name: str, format: str) -> Held:
    """Return a `Held` for an object that another library made; `record` is the object's content."""
    return Held(
        name,
        partial(graph_of_record, record, name, Source(name, format=format)),
        record,
        partial(edges_of_record, record, name),
    )


def format_of_records(
    name: str, read_record: Callable[[StrPath], Record], extensions: tuple[str, ...], **others: Any
) -> Format:
    """Return the format of files that hold one record each: a dict with the arrays of a graph.

    If the format's attribute `options` has "keys", a user may pass ``keys["graph"]``: the name that
    ``edge_index`` has in the file.
    """

    def read(path: StrPath, *, keys: Mapping[str, str] | None = None, **flags: bool) -> Graph:
        key, source = (keys or {}).get("graph", "edge_index"), Source.of_file(path, name)
        record, where = read_record(path), os.fspath(path)
        if record.get("edge_label_index") is not None:
            links = "'edge_label_index', links to learn (`links` reads them from .npz)"
            warn(f"{where}: ignored: {links}")
        return graph_of_record(record, where, source, key, **flags)

    def read_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> Record:
        return read_record(path)

    def read_edges(path: StrPath, *, keys: Mapping[str, str]) -> Any:
        key = keys.get("graph", "edge_index")
        return edges_of_record(read_record(path), os.fspath(path), key)

    readers = {"read_data": read_data, "read_edges": read_edges}
    return Format(extensions, read, gzip=False, **readers | others)
