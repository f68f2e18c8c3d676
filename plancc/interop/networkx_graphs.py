"""GraphML, GML and Pajek, by the readers of networkx; graphs of networkx and igraph in memory.

Edge u -> v is ``A[u, v]``: u needs v.
Undirected files hold both directions; the edges' attribute ``weight`` is the value. Names of
vertices that all are whole numbers are kept as ids; those of GML are its ``id``, not its ``label``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.canonical import as_values, build_graph
from plancc.graph.formats import Format, Held
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.textfile import StrPath, check_readable, input_errors, open_input
from plancc.text import shown

MOST_PROLOG = 1 << 20
"""Bytes in which the first element of an XML file must begin."""


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
    edges = list(graph.edges(data="weight"))
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
    if "weight" in graph.es.attributes():
        values = as_values(np.array(graph.es["weight"]), f"{name}: 'weight'")
    source = Source(name, format="igraph", weights="'weight'")
    return _build(n, pair, values, graph.is_directed(), source)


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


def _refuse_declarations(path: StrPath) -> None:
    """InputError for XML with a document type, whose entities may expand without bound."""
    from xml.parsers.expat import ExpatError, ParserCreate

    name, parser = os.fspath(path), ParserCreate()
    began: list[str] = []

    def refuse(*_: Any) -> None:
        raise InputError(f"{name}: XML with a document type (DOCTYPE) is not read")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda tag, _: began.append(tag)
    with input_errors(path), open_input(path) as stream:
        for _ in range(MOST_PROLOG >> 12):
            data = stream.read(1 << 12)
            try:
                parser.Parse(data, not data)
            except (ExpatError, LookupError, ValueError) as error:
                raise InputError(f"{name}: not XML: {error}") from error
            if began or not data:
                return
    raise InputError(f"{name}: not GraphML: no element in the first {MOST_PROLOG} bytes")


def _reader(name: str, **options: Any) -> Callable[..., Graph]:
    """The reader of files that ``networkx.read_<name>`` parses with these options."""

    def read(path: StrPath, **reading: bool) -> Graph:
        import networkx

        check_readable(path)
        if name == "graphml":
            _refuse_declarations(path)
        where = os.fspath(path)
        try:
            with input_errors(path), open_input(path) as stream:
                graph = getattr(networkx, f"read_{name}")(stream, **options)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # networkx raises whatever its parsers meet
            words = shown(error) or type(error).__name__
            raise InputError(f"{where}: cannot be read as {name}: {words}") from error
        return graph_of_networkx(_numbered(graph), where, Source.of_file(path, name), **reading)

    return read


def _numbered(graph: Any) -> Any:
    """The same graph, its vertices whole numbers if all their names are."""
    from networkx import relabel_nodes

    names = list(graph)
    if not all(isinstance(each, str) and each.isascii() and each.isdigit() for each in names):
        return graph
    numbers = [int(each) for each in names if len(each) <= 18]
    if len(set(numbers)) != len(names):  # as in "1" and "01"
        return graph
    return relabel_nodes(graph, dict(zip(names, numbers, strict=True)))


GRAPHML = Format((".graphml",), _reader("graphml"), hold=hold, what="GraphML")
GML = Format((".gml",), _reader("gml", label="id"), what="GML")
PAJEK = Format((".net",), _reader("pajek"), what="Pajek")
