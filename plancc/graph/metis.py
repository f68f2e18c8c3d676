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

import numpy as np

from plancc.errors import InputError, warn
from plancc.graph.canonical import build_graph, is_symmetric
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.kernels import format_lines
from plancc.graph.listed_edges import ListedEdges, nonzeros_of_edges
from plancc.graph.textfile import Integers, StrPath, fail, fail_first, read_bytes, read_integers

MOST_BYTES = 80
"""Bytes that a METIS file has for every vertex and edge, at most, as far as it is looked for."""
MOST_COMMENTS = 1000
"""Lines of comments that it has at most, likewise."""
_FORMATS = (0, 1, 10, 11, 100, 101, 110, 111)


def read_metis(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """Read a METIS graph file, plain or .gz.

    The graph is undirected. Edge weights become the values, vertex weights
    ``Graph.vertex_weights``; vertex sizes are not taken.

    Parameters:
        path, pattern: As in `plancc.graph.formats.read_graph`.
        symmetrize, transpose: Change nothing: the format is undirected.

    Raises:
        InputError: For a wrong header, a wrong number of lines or edges, a neighbour out of range,
            listed twice, or the vertex itself, an edge weight < 1, a negative vertex weight, an
            edge that is not stored in both directions with one weight; the message names file, line
            and value.
    """
    data = read_bytes(path)
    try:
        return _graph(path, read_integers(path, data), pattern)
    except InputError as error:  # others name their edge lists .graph too
        advice = "read as a METIS graph; `format` edgelist reads an edge list"
        raise InputError(f"{error} ({advice})") from error


def is_metis(path: StrPath, data: bytes, head: bytes) -> bool:
    """Whether a text is a METIS file, if `head` is its first line that is no comment.

    Most texts are known by their first line: they are too long or too short for its numbers.
    """
    words = head.split()
    if not 2 <= len(words) <= 4 or not all(word.isdigit() and len(word) < 12 for word in words):
        return False
    n, edges = map(int, words[:2])
    likely = n > 0 and 4 * edges <= len(data) <= MOST_BYTES * (n + edges + 1)
    if not likely or not n <= data.count(b"\n") <= n + MOST_COMMENTS:
        return False
    try:
        _graph(path, read_integers(path, data), True)
    except InputError:
        return False
    return True


def _graph(path: StrPath, numbers: Integers, pattern: bool) -> Graph:
    first, n, edges, digits, ncon = _header(path, numbers)
    ptr = numbers.ptr[first + 1 :]
    line = numbers.line[first + 1 :]
    count = np.diff(ptr)
    if len(count) < n:
        last = int(numbers.line[-1])
        fail(path, last, f"the file ends after the lines of {len(count)} vertices of", n)
    if count[n:].any():
        k = n + int(np.argmax(count[n:] > 0))
        message = f"the header declares {n} vertices; this line is one more:"
        fail(path, int(line[k]), message, numbers.values[ptr[k]])
    ptr, line, count = ptr[: n + 1], line[:n], count[:n]

    has_sizes, has_weights, has_values = digits >= 100, digits // 10 % 10 == 1, digits % 10 == 1
    ncon = ncon if has_weights else 0
    prefix = has_sizes + ncon
    message = f"{prefix} numbers of the vertex are expected before its neighbours, not"
    fail_first(path, count < prefix, line, message, count)
    lead = ptr[:-1, None] + np.arange(prefix)
    leading = numbers.values[lead]
    if (leading < 0).any():
        k = int(np.argmax((leading < 0).any(axis=1)))
        what = "vertex size" if has_sizes and leading[k, 0] < 0 else "vertex weight"
        fail(path, int(line[k]), f"a {what} is negative:", leading[k][leading[k] < 0][0])
    is_entry = np.ones(len(numbers.values), np.bool_)
    is_entry[: ptr[0]] = False
    is_entry[ptr[-1] :] = False
    is_entry[lead] = False
    entry = numbers.values[is_entry]
    count = count - prefix
    weight = None
    if has_values:
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
        weight = None if pattern else weight
    graph = build_graph(
        n,
        row,
        (entry - 1).astype(np.int32),
        weight,
        directed=False,
        source=Source.of_file(path, "metis", "the edge weights"),
    )
    if graph.num_nonzeros < len(row):
        place = nonzeros_of_edges(graph, ListedEdges(row, entry - 1))
        again = ~np.isin(np.arange(len(row)), np.unique(place, return_index=True)[1])
        fail_first(path, again, line, "a neighbour is listed twice:", entry, row)
    if not is_symmetric(graph, values=True):
        mirror = nonzeros_of_edges(graph, ListedEdges(entry - 1, row))
        k = int(np.argmin(mirror))
        if mirror[k] < 0:
            message = f"vertex {entry[k]} does not list {row[k] + 1} in turn; an edge is stored in"
            fail(path, int(line[row[k]]), f"{message} both directions:", f"{row[k] + 1} {entry[k]}")
        assert graph.values is not None
        assert weight is not None
        k = int(np.argmax(graph.values[mirror] != weight))
        message = f"the edge to vertex {entry[k]} has another weight in the other direction:"
        fail(path, int(line[row[k]]), message, weight[k])
    if len(row) != 2 * edges:
        fail(path, int(numbers.line[first]), f"the header declares {edges} edges; the file holds",
             len(row) // 2)  # fmt: skip
    if has_sizes:
        warn(f"{os.fspath(path)}: not taken: the sizes of vertices")
    weights = np.ascontiguousarray(leading[:, int(has_sizes) :]) if ncon else None
    return replace(graph, vertex_weights=weights)


def _header(path: StrPath, numbers: Integers) -> tuple[int, int, int, int, int]:
    """(its line among the lines of numbers, vertices, edges, fmt as number, ncon)."""
    filled = np.flatnonzero(np.diff(numbers.ptr))
    if not len(filled):
        raise InputError(f"{os.fspath(path)}: the file has no header line")
    first = int(filled[0])
    line = int(numbers.line[first])
    head = numbers.values[numbers.ptr[first] : numbers.ptr[first + 1]].tolist()
    text = " ".join(map(str, head))
    if not 2 <= len(head) <= 4:
        fail(path, line, "the header 'VERTICES EDGES [FMT [NCON]]' is expected, not", text)
    n, edges = head[:2]
    digits = head[2] if len(head) > 2 else 0
    if digits not in _FORMATS:
        fail(path, line, "FMT is up to three digits 0 or 1, not", digits)
    ncon = head[3] if len(head) > 3 else 1
    if ncon < 0 or (ncon < 1 and digits // 10 % 10):
        fail(path, line, "NCON is at least 1, not", ncon)
    if edges < 0:
        fail(path, line, "the number of edges is negative:", edges)
    check_num_vertices(n, f"{os.fspath(path)}, line {line}")
    return first, n, edges, digits, ncon


def write_metis(
    graph: Graph, temporary: Path, *, pattern: bool = False, compress: bool = False, path: StrPath
) -> None:
    """Write a METIS graph file; see `plancc.graph.formats.write_graph`.

    Self loops are dropped, as the format has none. Values become edge weights.

    Raises:
        InputError: If the graph is not symmetric, or its values are not whole numbers >= 1.
    """
    name = os.fspath(path)
    n = graph.num_vertices
    row = np.repeat(np.arange(n, dtype=np.int32), graph.row_nonzeros())
    kept = row != graph.indices
    weight = None
    if graph.values is not None and not pattern:
        weight = graph.values[kept]
        wrong = (weight < 1) | (weight != np.floor(weight)) | (weight > 2**53)
        if wrong.any():
            raise InputError(
                f"{name}: METIS edge weights are whole numbers >= 1, not "
                f"'{weight[np.argmax(wrong)]}'; write the graph without values (`pattern`)"
            )
    if not is_symmetric(graph, values=weight is not None):
        raise InputError(
            f"{name}: METIS files hold undirected graphs and this one is not symmetric; "
            "symmetrize it first"
        )
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
