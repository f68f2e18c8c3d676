"""Readers of GraphML, GML and Pajek: text formats that list vertices, and edges with attributes.

Edge u -> v is ``A[u, v]``: u needs v. An undirected edge is read in both directions. Ids are the
distinct strings by which edges refer to vertices. If these strings are only running numbers such as
n0, n1, ..., ids are the labels of the vertices.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import chain
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.canonical import both_ways, build_graph
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, check_num_vertices, first_true
from plancc.graph.named_ids import as_ids
from plancc.graph.textfile import (
    check_readable,
    data_lines,
    fail,
    input_errors,
    is_number,
    open_input,
    read_bytes,
    read_number,
    show,
)
from plancc.graph.union import rectangular, with_ids
from plancc.interop.networkx_graphs import hold

ENDS = ("source", "target")
WEIGHT = "weight"
_CHUNK = 1 << 16
_NAMES = {"label", "name", "graphics"}
"""Attributes of vertices, for names and drawing, that are ignored without a warning."""
_LABELS = ("label", "name")
"""Attributes of vertices that may be ids."""
_UNNAMED = {"id", "key", "graphics", "edgegraphics", "nodegraphics"}
"""Attributes of edges that are ignored without a warning."""


@dataclass(eq=False)
class _Found:
    """The vertices and edges that a parser has found in a file.

    Attributes:
        directed: Whether an edge is directed if the edge itself does not say so.
        vertices: Index of every vertex, by the name that edges use.
        names: Lists of vertex attributes by name. One of these lists may become the ids.
        rows: Number of rows of a two-mode network; 0 for other networks.
        ends: For every edge, the names of its source and its target.
        lines: For every edge, the number of its line in the file.
        mutual: For every edge, whether it is undirected.
        words: Edge attributes by name; each maps the index of an edge to a string.
        defaults: Default values of attributes of edges, as strings.
        others: Names of ignored contents, for a warning.
    """

    path: StrPath
    directed: bool = True
    vertices: dict[Any, int] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    rows: int = 0
    ends: list[tuple[Any, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    mutual: list[bool] = field(default_factory=list)
    words: dict[str, dict[int, str]] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)

    def add_vertex(self, line: int, name: Any) -> None:
        if name is None:
            fail(self.path, line, "a vertex has no id")
        if name in self.vertices:
            fail(self.path, line, f"vertex {show(name)} occurs twice; give every vertex its own id")
        self.vertices[name] = len(self.vertices)

    def add_edge(self, line: int, ends: tuple[Any, Any], mutual: bool) -> None:
        if None in ends:
            fail(self.path, line, "an edge has no source or no target")
        self.ends.append(ends)
        self.lines.append(line)
        self.mutual.append(mutual)

    def add_word(self, name: str, word: str) -> None:
        """Record that the last edge has the value `word` for the attribute `name`."""
        self.words.setdefault(name, {})[len(self.ends) - 1] = word

    def numbers(self) -> Any:
        """Return source and target of every edge, int32[2, edges]."""
        known = self.vertices
        try:
            every = map(known.__getitem__, chain.from_iterable(self.ends))
            return np.fromiter(every, np.int32, 2 * len(self.ends)).reshape(-1, 2).T
        except KeyError:
            wrong = ((k, e) for k, pair in enumerate(self.ends) for e in pair if e not in known)
            k, end = next(wrong)
            fail(self.path, self.lines[k], f"{show(end)} is the end of an edge, but not a vertex")

    def ids(self, of: slice = slice(None)) -> Any:
        """Return the ids of the vertices in the range `of`; None if there are no ids.

        Ids are the first list in ``self.names`` that has a different name for every vertex, and
        does not just number the vertices (n0, n1, ...).
        """
        found: Any = None
        n = len(self.vertices)
        for every in filter(None, self.names.values()):
            names = every[of]
            start = names[0].removesuffix("0")
            if not start[-1:].isdigit() and names == [f"{start}{k}" for k in range(len(names))]:
                continue
            ids = as_ids(names) if len(every) == n else None
            if found is None and ids is not None:
                found = ids
            elif ids is None or not np.array_equal(found, ids):
                self.others["names of vertices"] = None
        return found

    def weight(self, columns: Sequence[str] | None) -> str:
        """Return the name of the attribute that holds the values of edges; "" if there is none.

        The name is the third of `columns`; if `columns` is None, "weight" in upper or lower case.
        """
        if columns is None:
            alike = [name for name in self.words if name.lower() == WEIGHT]
            return WEIGHT if WEIGHT in alike else alike[0] if len(alike) == 1 else ""
        where, wanted = os.fspath(self.path), tuple(columns)
        if wanted[:2] != ENDS or len(wanted) > 3:
            raise InputError(f"{where}: give `columns` as source,target[,ATTRIBUTE]")
        if wanted[2:] and wanted[2] not in self.words:
            listed = ", ".join(map(show, self.words)) or "none"
            told = f"no edge has the attribute {show(wanted[2])}"
            raise InputError(f"{where}: {told}; edges have {listed}")
        return "".join(wanted[2:])

    def values(self, name: str) -> Any:
        """Return the values of all edges, read from the attribute `name`: float64[edges].

        A missing value is the attribute's default in the file, else 1, with a warning.
        """
        words, made = self.words[name], np.full(len(self.ends), 1.0)
        if name in self.defaults:
            made[:] = read_number(self.path, 1, "default", self.defaults[name].encode(), float)
        for k, word in words.items():
            made[k] = read_number(self.path, self.lines[k], WEIGHT, word.encode(), float)
        if (missing := len(made) - len(words)) and name not in self.defaults:
            where = f"{os.path.basename(self.path)}: {missing:,} of {len(made):,} edges"
            warn(f"{where} have no {show(name)}, and get the value 1")
        return made

    def warn_of_ignored(self, weight: str) -> None:
        """Warn of everything in the file that is not used; attribute `weight` holds edge values."""
        left = [name for name in self.words if name != weight]
        listed = [*self.others, *(f"{show(name)} of edges" for name in left)]
        numeric = [name for name in left if all(map(is_number, self.words[name].values()))]
        way = f"; `columns` source,target,{numeric[0]} reads it as weights" if numeric else ""
        if listed:
            warn(f"{os.path.basename(self.path)}: ignored: {', '.join(listed)}{way}")


def _reader(name: str, parse: Callable[[StrPath], _Found]) -> Callable[..., Graph]:
    """Return the reader of a format; `parse` is the parser of its files."""

    def read(
        path: StrPath, *, pattern: bool = False, columns: Sequence[str] | None = None, **flags: bool
    ) -> Graph:
        check_readable(path)
        found = parse(path)
        n = len(found.vertices)
        check_num_vertices(n, os.fspath(path))
        row, column = found.numbers()
        sides = (slice(0, found.rows), slice(found.rows, n)) if found.rows else (slice(n),)
        ids = [found.ids(side) for side in sides]
        weight = found.weight(columns)
        values = found.values(weight) if weight and not pattern else None
        if not pattern:
            found.warn_of_ignored(weight)
        source = Source.of_file(path, name, f"'{weight}'")
        if found.rows:
            entries = *_between(found, row, column), values
            graph = rectangular((found.rows, n - found.rows), entries, source, **flags)
            return with_ids(graph, ids[:: -1 if flags.get("transpose") else 1])
        mutual = np.array(found.mutual, np.bool_)
        directed = not mutual.all() if len(mutual) else found.directed
        row, column, values = both_ways(row, column, values, mutual)
        graph = build_graph(n, row, column, values, directed=directed, source=source, **flags)
        return replace(graph, original_ids=ids[0])

    return read


def _between(found: _Found, row: Any, column: Any) -> tuple[Any, Any]:
    """Return the row and the column of each edge in a two-mode network; both count from 0."""
    turned = np.array(found.mutual, np.bool_) & (column < found.rows)
    row, column = np.where(turned, column, row), np.where(turned, row, column)
    if (k := first_true((row >= found.rows) | (column < found.rows))) is not None:
        between = f"the first {found.rows} vertices, the rows, to the others"
        fail(found.path, found.lines[k], f"an edge does not lead from {between}")
    return row, column - found.rows


_GML = re.compile(r'"[^"]*"|#[^\n]*|\[|\]|[^\s\[\]"]+|"')


def _parse_gml(path: StrPath) -> _Found:
    """Parse a GML file; lists within vertices and edges are attributes."""
    text = read_bytes(path).decode("utf-8", "replace")
    found, key, record = _Found(path, directed=False), "", dict[str, str]()
    opened: list[str] = []
    at = graphs = counted = 0
    line = 1
    for token in _GML.finditer(text):
        word, begin = token[0], token.start()
        line, counted = line + text.count("\n", counted, begin), begin
        if word.startswith("#"):
            continue
        if not key and word == "]" and opened:
            closed = opened.pop()
            if opened == ["graph"] and closed == "node":
                found.add_vertex(at, record.pop("id", None))
                for name in filter(record.__contains__, _LABELS):  # always in this order
                    found.names.setdefault(name, []).append(unescape(record[name]))
                found.others |= {f"{show(k)} of vertices": None for k in record if k not in _NAMES}
            elif opened == ["graph"] and closed == "edge":
                found.add_edge(at, (record.pop("source", None), record.pop("target", None)), False)
                for name, value in record.items():
                    if name not in _UNNAMED:
                        found.add_word(name, value)
        elif not key:
            if not re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]*", word):
                fail(path, line, "a name is expected, not", word)
            key = word
        else:
            if word == "]" or word == '"':
                fail(path, line, f"{show(key)} has no value, but", word)
            if word == "[":
                opened.append(key)
                graphs += opened == ["graph"]
                if graphs > 1 or (key == "graph" and len(opened) > 1):
                    fail(path, line, "one graph is read, and this begins another:", key)
                if len(opened) == 2:
                    at, record = line, {}
                elif len(opened) == 3:
                    record[key] = ""
            elif opened == ["graph"] and key == "directed":
                found.directed = word.strip('"') != "0"
            elif len(opened) == 2:
                record[key] = word.strip('"')
            key = ""
    if key or opened or not graphs:
        fail(path, line, "the file ends within a list" if key or opened else "it has no graph")
    found.mutual = [not found.directed] * len(found.ends)
    found.names = {"": list(found.vertices), **found.names}
    return found


class _GraphML:
    """Handlers for the XML elements of a GraphML file."""

    def __init__(self, path: StrPath) -> None:
        self.found = _Found(path, directed=False)
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.opened: list[str] = []
        self.keys: dict[str, tuple[str, str]] = {}
        self.key, self.words, self.graphs = "", "", 0

    def refuse(self, *_: Any) -> None:
        where = os.fspath(self.found.path)
        raise InputError(f"{where}: XML with a document type (DOCTYPE) is not supported")

    def start(self, tag: str, given: dict[str, str]) -> None:
        tag, line, found = tag.rpartition(" ")[2], self.parser.CurrentLineNumber, self.found
        if not self.opened and tag != "graphml":
            fail(found.path, line, "a GraphML begins with 'graphml', not", tag)
        inside = "data" in self.opened  # elements within data belong to drawing tools: skip them
        self.opened.append(tag)
        if inside:
            return
        if tag in ("data", "default"):
            self.words = ""
            self.key = given.get("key", "") if tag == "data" else self.key
        elif tag == "key":
            self.key = given.get("id", "")
            name = given.get("attr.name") or given.get("yfiles.type") or self.key
            self.keys[self.key] = name, given.get("for", "all")
        elif tag == "hyperedge":
            fail(found.path, line, "an edge of several vertices (hyperedge) is not read")
        elif tag == "port":
            found.others["ports of vertices"] = None
        elif tag == "graph" and len(self.opened) == 2:
            found.directed = given.get("edgedefault") == "directed"
            self.graphs += 1
            if self.graphs > 1:
                fail(found.path, line, "one graph is read, and this begins another:", tag)
        elif tag == "graph":
            found.others["the nesting of graphs, whose vertices and edges are read"] = None
        elif tag == "node":
            found.add_vertex(line, given.get("id"))
        elif tag == "edge":
            default = "true" if found.directed else "false"
            mutual = given.get("directed", default).lower() in ("false", "0")
            found.add_edge(line, (given.get(ENDS[0]), given.get(ENDS[1])), mutual)

    def end(self, _: str) -> None:
        tag, found = self.opened.pop(), self.found
        name, of = self.keys.get(self.key, (self.key, "all"))
        word = self.words.strip()
        if tag == "default" and of in ("edge", "all"):
            found.defaults[name] = word
        if tag != "data" or not self.opened:
            return
        if self.opened[-1] == "edge" and name not in _UNNAMED:
            found.add_word(name, word)
        elif self.opened[-1] == "node" and name in _LABELS:
            found.names.setdefault(name, []).append(word)
        elif self.opened[-1] == "node" and name not in _NAMES:
            found.others[f"{show(name)} of vertices"] = None

    def text(self, words: str) -> None:
        if self.opened[-1] in ("data", "default"):
            self.words += words


def _parse_graphml(path: StrPath) -> _Found:
    """Parse a GraphML file; graphs nested in vertices are added to the outer graph."""
    handlers = _GraphML(path)
    with input_errors(path), open_input(path) as stream:
        try:
            while data := stream.read(_CHUNK):
                handlers.parser.Parse(data, False)
            handlers.parser.Parse(b"", True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise InputError(f"{os.fspath(path)}: is not XML: {error}") from error
    if not handlers.graphs:
        raise InputError(f"{os.fspath(path)}: the GraphML holds no graph")
    found = handlers.found
    found.names = {"": list(found.vertices), **found.names}
    return found


_PAJEK = re.compile(rb'"[^"]*"|\[[^\]]*\]|[^\s"\[]+')
_PAJEK_NUMBER = re.compile(rb"[-+]?([0-9.]|nan$|inf(inity)?$)", re.IGNORECASE)
_DRAWN = frozenset(
    b"x_fact y_fact phi r q ic bc bw lc la lr lphi fos font l c p s w a ap h1 h2 a1 a2 k1 k2 lp "
    b"lsize".split()
)
_SHAPES = frozenset(b"ellipse box diamond triangle cross empty house man woman cloud".split())
"""Words that say how vertices and edges are drawn."""
_PAJEK_EDGES = ("arcs", "edges", "arcslist", "edgeslist", "matrix")
"""Names of the sections that hold edges."""


class _Pajek:
    """A parser of the lines of a Pajek network, section by section."""

    def __init__(self, path: StrPath) -> None:
        self.found, self.labels = _Found(path), dict[int, bytes]()
        self.size: int | None = None
        self.section = ""
        self.cells: list[float] = []
        self.line, self.relations = 0, set[bytes]()

    def fail(self, message: str, value: object = None) -> NoReturn:
        fail(self.found.path, self.line, message, value)

    def whole(self, word: bytes, what: str = "vertex") -> int:
        """Return the whole number in `word`: a vertex, or a number of vertices."""
        return read_number(self.found.path, self.line, what, word, int)

    def begin(self, words: list[bytes]) -> None:
        """Begin the section that the words of a line name."""
        found, self.section = self.found, words[0][1:].decode("latin-1").lower()
        if self.section in _PAJEK_EDGES:
            if not self.size:
                self.fail("*Vertices N with the number of vertices must come first, not", words[0])
            self.relations |= {word.strip(b":") for word in words[1:2]}
        elif self.section not in ("network", "vertices"):
            message = "a network has the sections *Vertices, *Arcs, *Edges, *Arcslist, *Edgeslist"
            self.fail(f"{message} and *Matrix, not", words[0])
        elif self.size is not None:
            self.fail("one network is read, and this begins another:", words[0])
        elif self.section == "vertices":
            counts = [self.whole(word, "number of vertices") for word in words[1:3]]
            self.size, found.rows = (*counts, 0, 0)[:2]
            if counts:
                check_num_vertices(self.size, f"{os.fspath(found.path)}, line {self.line}")
                if not 0 <= found.rows <= self.size:
                    self.fail(f"there are more rows than the {self.size} vertices:", words[2])
                found.rows %= self.size

    def add(self, words: list[bytes]) -> None:
        """Read a line's words as an entry of the current section."""
        found, section = self.found, self.section
        if words[-1].startswith(b"[") and words[1:]:
            found.others["times of vertices and edges"] = None
            words = words[:-1]
        if section == "vertices":
            vertex = self.whole(words[0])
            if vertex in self.labels:
                self.fail("the vertex is listed twice:", words[0])
            self.labels[vertex] = (words[1:] or words)[0].strip(b'"')
            self.name(words[2:], "vertices")
        elif section == "matrix":
            self.cells += [read_number(found.path, self.line, WEIGHT, w, float) for w in words]
        elif section in ("arcs", "edges"):
            if re.fullmatch(rb"\d+:", words[0]):
                self.relations.add(words.pop(0).strip(b":"))
            if len(words) < 2:
                self.fail("'SOURCE TARGET [WEIGHT]' is expected, not", b" ".join(words))
            self.add_edge(self.whole(words[0]), self.whole(words[1]))
            tail = words[2:]
            if tail and _PAJEK_NUMBER.match(tail[0]):
                found.add_word(WEIGHT, tail.pop(0).decode("latin-1"))
            self.name(tail, "edges")
        elif section in ("arcslist", "edgeslist"):
            source, *targets = map(self.whole, words)
            for target in targets:
                self.add_edge(source, target)
        else:
            self.fail("a section as *Vertices is expected, not", words[0])

    def add_edge(self, source: int, target: int) -> None:
        self.check(source, target)
        self.found.add_edge(self.line, (source, target), self.section.startswith("edges"))

    def check(self, *vertices: int) -> None:
        """Raise InputError for a number that is not a vertex."""
        for each in vertices:
            if not 1 <= each <= (self.size or 0):
                self.fail(f"the vertex is out of range 1..{self.size}:", each)

    def name(self, tail: list[bytes], of: str) -> None:
        """Read the attributes at the end of a line, and record their names for a warning.

        Attributes of drawings are skipped without a warning. `of` is "vertices" or "edges".
        """
        words = iter(tail)
        for word in words:
            if word[:1].isalpha() and word.lower() not in _SHAPES:
                next(words, None)
                if word.lower() not in _DRAWN:
                    self.found.others[f"{show(word)} of {of}"] = None
            elif not word[:1].isalpha() and not _PAJEK_NUMBER.match(word) and word[:1] != b'"':
                self.fail("this is neither a number nor an attribute:", word)

    def end(self) -> None:
        """End a section.

        After *Vertices, check that all vertices are in range; after *Matrix, add its edges.
        """
        n, rows = self.size or 0, self.found.rows
        if self.section == "vertices":
            self.size = n or len(self.labels)
            self.check(*self.labels)
        elif self.section == "matrix":
            shape = rows or n, n - rows
            if len(self.cells) != shape[0] * shape[1]:
                message = f"a matrix of {shape[0]} x {shape[1]} cannot have"
                self.fail(message, f"{len(self.cells)} numbers")
            cells = np.array(self.cells).reshape(shape)
            for i, j in np.argwhere(cells).tolist():
                self.add_edge(i + 1, j + 1 + rows)
                self.found.add_word(WEIGHT, str(cells[i, j]))
            self.cells = []


def _parse_pajek(path: StrPath) -> _Found:
    """Parse a Pajek network, whose vertices are numbers from 1."""
    reader = _Pajek(path)
    found, lines = reader.found, read_bytes(path).split(b"\n")
    for line, text in data_lines(path, lines, comments=(b"%",)):
        words = _PAJEK.findall(text)
        if text.count(b'"') % 2 or not words:
            fail(path, line, "a quote is not closed:", text)
        if words[0].startswith(b"*"):
            reader.end()
            reader.line = line
            reader.begin(words)
        else:
            reader.line = line
            reader.add(words)
    reader.end()
    if reader.size is None:
        reader.fail("the file ends before *Vertices")
    if len(reader.relations) > 1:
        found.others[f"the numbers of {len(reader.relations)} relations"] = None
    vertices = range(1, reader.size + 1)
    found.vertices = {vertex: k for k, vertex in enumerate(vertices)}
    if len(reader.labels) == reader.size:
        found.names[""] = [reader.labels[k].decode("utf-8", "replace") for k in vertices]
    return found


GRAPHML = Format(
    (".graphml",),
    _reader("graphml", _parse_graphml),
    options=("columns",),
    hold=hold,
    what="GraphML",
)
GML = Format((".gml",), _reader("gml", _parse_gml), options=("columns",), what="GML")
PAJEK = Format((".net",), _reader("pajek", _parse_pajek), what="Pajek")
