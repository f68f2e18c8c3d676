"""METIS ``.graph`` files (manual of METIS 5, section 4.1): undirected, no self loops, 1-based.

% comment
VERTICES EDGES [FMT [NCON]]      FMT: three digits, vertex sizes | vertex weights | edge weights
[size] [w1 .. wNCON] v1 [e1] v2 [e2] ...      one line per vertex; a blank line: no neighbour
"""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.arrays import Int64Array
from plancc.graph.canonical import build_graph, is_symmetric
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, check_num_vertices, first_true
from plancc.graph.kernels import format_lines
from plancc.graph.listed_edges import ListedEdges, nonzeros_of_edges
from plancc.graph.textfile import Integers, fail, fail_first, read_bytes, read_integers

MOST_BYTES = 80
"""Largest number of bytes, for every vertex and edge, of a text that `is_metis` recognises."""
MOST_COMMENTS = 1000
"""Largest number of lines of comments in a text that `is_metis` recognises."""
_FORMATS = (0, 1, 10, 11, 100, 101, 110, 111)


def read_metis(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """Read a METIS graph file, plain or .gz; the graph is undirected.

    Edge weights become the values, and vertex weights become ``Graph.vertex_weights``. Vertex sizes
    are ignored, and `symmetrize` and `transpose` have no effect.
    """
    data = read_bytes(path)
    try:
        return _graph(path, read_integers(path, data), pattern)
    except InputError as error:  # some programs give edge lists the extension .graph
        advice = "read as a METIS graph; `format` edgelist reads an edge list"
        raise InputError(f"{error} ({advice})") from error


def is_metis(path: StrPath, data: bytes, head: bytes) -> bool:
    """Whether a text is a METIS file; `head` is its first line that is not a comment."""
    words = head.split()
    if not 2 <= len(words) <= 4 or not all(word.isdigit() and len(word) < 12 for word in words):
        return False
    n, edges = map(int, words[:2])
    # most texts of other formats fail here: their length does not fit the numbers
    likely = n > 0 and 4 * edges <= len(data) <= MOST_BYTES * (n + edges + 1)
    if not likely or not n <= data.count(b"\n") <= n + MOST_COMMENTS:
        return False
    try:
        _graph(path, read_integers(path, data), True)
    except InputError:
        return False
    return True


def _graph(path: StrPath, numbers: Integers, pattern: bool) -> Graph:
    head = _header(path, numbers)
    n, edges, prefix = head.vertices, head.edges, head.sizes + head.weights
    ptr, line = _vertex_lines(path, numbers, head)
    count = np.diff(ptr) - prefix
    message = f"{prefix} numbers of the vertex are expected before its neighbours, not"
    fail_first(path, count < 0, line, message, count + prefix)
    lead = ptr[:-1, None] + np.arange(prefix)
    leading = numbers.values[lead]
    if (k := first_true((leading < 0).any(axis=1))) is not None:
        what = "vertex size" if head.sizes and leading[k, 0] < 0 else "vertex weight"
        fail(path, int(line[k]), f"a {what} is negative:", leading[k][leading[k] < 0][0])
    is_entry = np.arange(ptr[-1]) >= ptr[0]
    is_entry[lead] = False
    entry, weight = numbers.values[: ptr[-1]][is_entry], None
    if head.has_values:
        message = "the last neighbour has no edge weight:"
        fail_first(path, count % 2 == 1, line, message, numbers.values[ptr[1:] - 1])
        entry, weight = entry[0::2], entry[1::2]
        count //= 2
    row = np.repeat(np.arange(n, dtype=np.int32), count)
    message = f"a neighbour is out of range 1..{n}:"
    fail_first(path, (entry < 1) | (entry > n), line, message, entry, row)
    message = "a vertex is its own neighbour (METIS has no self loops):"
    fail_first(path, entry - 1 == row, line, message, entry, row)
    if weight is not None:
        fail_first(path, weight < 1, line, "an edge weight must be at least 1, not", weight, row)
    values = None if pattern else weight
    column = (entry - 1).astype(np.int32)
    source = Source.of_file(path, "metis", "the edge weights")
    graph = build_graph(n, row, column, values, directed=False, source=source)
    if graph.num_nonzeros < len(row):
        place = nonzeros_of_edges(graph, ListedEdges(row, entry - 1))
        again = ~np.isin(np.arange(len(row)), np.unique(place, return_index=True)[1])
        fail_first(path, again, line, "a neighbour is listed twice:", entry, row)
    if not is_symmetric(graph, values=True):
        _fail_mirror(path, graph, ListedEdges(entry - 1, row, values=values), line)
    if len(row) != 2 * edges:
        message = f"the header declares {edges} edges; the file holds"
        fail(path, head.line, message, len(row) // 2)
    if head.sizes:
        warn(f"{os.fspath(path)}: ignored: the sizes of vertices")
    weights = np.ascontiguousarray(leading[:, head.sizes :]) if head.weights else None
    return replace(graph, vertex_weights=weights)


def _vertex_lines(
    path: StrPath, numbers: Integers, head: _MetisHeader
) -> tuple[Int64Array, Int64Array]:
    """Return where each vertex's numbers begin in `numbers.values` (then the end), and its line."""
    n, first = head.vertices, head.first + 1
    ptr, line = numbers.ptr[first:], numbers.line[first:]
    if len(line) < n:
        message = f"the file ends after the lines of {len(line)} vertices of"
        fail(path, int(numbers.line[-1]), message, n)
    if ptr[n] < ptr[-1]:
        k = n + int(np.argmax(np.diff(ptr[n:]) > 0))
        message = f"the header declares {n} vertices; this line is one more:"
        fail(path, int(line[k]), message, numbers.values[ptr[k]])
    return ptr[: n + 1], line[:n]


def _fail_mirror(path: StrPath, graph: Graph, turned: ListedEdges, line: Int64Array) -> NoReturn:
    """Raise InputError for the first edge without a reverse edge (`turned`) of the same weight."""
    row, other = turned.column, turned.row + 1
    mirror = nonzeros_of_edges(graph, turned)
    if (k := first_true(mirror < 0)) is not None:
        message = f"vertex {other[k]} does not list {row[k] + 1}, but an edge must be stored in"
        fail(path, int(line[row[k]]), f"{message} both directions:", f"{row[k] + 1} {other[k]}")
    assert graph.values is not None
    assert turned.values is not None
    k = int(np.argmax(graph.values[mirror] != turned.values))
    message = f"the edge to vertex {other[k]} has another weight in the other direction:"
    fail(path, int(line[row[k]]), message, turned.values[k])


class _MetisHeader(NamedTuple):
    """The header of a METIS file.

    Attributes:
        first: Index of the header among the lines that `read_integers` returns.
        sizes, weights: Number of sizes, and of weights, of a vertex, which are listed before the
            vertex's neighbours.
        has_values: Whether an edge weight follows every neighbour.
    """

    first: int
    line: int
    vertices: int
    edges: int
    sizes: int
    weights: int
    has_values: bool


def _header(path: StrPath, numbers: Integers) -> _MetisHeader:
    filled = np.flatnonzero(np.diff(numbers.ptr))
    if not len(filled):
        raise InputError(f"{os.fspath(path)}: the file has no header line")
    first = int(filled[0])
    line = int(numbers.line[first])
    head = numbers.values[numbers.ptr[first] : numbers.ptr[first + 1]].tolist()
    if not 2 <= len(head) <= 4:
        text = " ".join(map(str, head))
        fail(path, line, "the header 'VERTICES EDGES [FMT [NCON]]' is expected, not", text)
    n, edges, digits, ncon = head + [0, 1][len(head) - 2 :]
    if digits not in _FORMATS:
        fail(path, line, "FMT must be up to three digits 0 or 1, not", digits)
    has_weights = digits // 10 % 10
    if ncon < has_weights:
        fail(path, line, "NCON must be at least 1, not", ncon)
    if edges < 0:
        fail(path, line, "the number of edges is negative:", edges)
    check_num_vertices(n, f"{os.fspath(path)}, line {line}")
    return _MetisHeader(first, line, n, edges, digits // 100, ncon * has_weights, digits % 10 == 1)


def write_metis(
    graph: Graph, temporary: Path, *, pattern: bool = False, compress: bool = False, path: StrPath
) -> None:
    """Write a METIS file of a symmetric graph; see `plancc.graph.formats.write_graph`.

    Self loops are dropped, since the format forbids them. Values, whole numbers >= 1, become edge
    weights.
    """
    name = os.fspath(path)
    n = graph.num_vertices
    row = np.repeat(np.arange(n, dtype=np.int32), graph.row_nonzeros())
    kept = row != graph.indices
    weight = None
    if graph.values is not None and not pattern:
        weight = graph.values[kept]
        wrong = (weight < 1) | (weight != np.floor(weight)) | (weight > 2**53)
        if (k := first_true(wrong)) is not None:
            told = f"METIS edge weights are whole numbers >= 1, not '{weight[k]}'"
            raise InputError(f"{name}: {told}; write the graph without values (`pattern`)")
    if not is_symmetric(graph, values=weight is not None):
        told = "METIS files only hold undirected graphs, and this graph is not symmetric"
        raise InputError(f"{name}: {told}; symmetrize it first")
    count = np.bincount(row[kept], minlength=n)
    columns = graph.indices[kept].astype(np.int64) + 1
    if weight is not None:
        columns = np.column_stack([columns, weight.astype(np.int64)]).ravel()
    per_entry = 1 if weight is None else 2
    ptr = np.concatenate([[0], np.cumsum(count * per_entry)]).astype(np.int64)
    vertex = graph.vertex_weights
    if vertex is not None:
        place = np.repeat(ptr[:-1], vertex.shape[1])
        columns = np.insert(columns, place, vertex.ravel())
        ptr = ptr + np.arange(n + 1) * vertex.shape[1]
    header = f"{n} {int(kept.sum()) // 2}"
    if vertex is not None or weight is not None:
        header += f" 0{int(vertex is not None)}{int(weight is not None)}"
    if vertex is not None:
        header += f" {vertex.shape[1]}"
    data = header.encode() + b"\n" + format_lines(ptr, columns).tobytes()
    temporary.write_bytes(gzip.compress(data, 6, mtime=0) if compress else data)


FORMAT = Format((".graph", ".metis"), read_metis, write_metis, what="METIS graphs")
