"""Edge lists in the form of SNAP. A line ``u v [w]`` is ``A[u, v]``: row u needs row v."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import compress, islice
from typing import Any, NamedTuple, NoReturn

import numpy as np

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph import kernels
from plancc.graph.arrays import FloatArray, Int64Array, IntArray
from plancc.graph.canonical import build_graph, detect_direction
from plancc.graph.claims import (
    Said,
    claims_of,
    first_line,
    is_source_first,
    warn_of_counts,
    warn_of_direction,
    warn_of_numbers,
    warn_of_two_sides,
)
from plancc.graph.formats import Format, join_names, split_names
from plancc.graph.graph import Graph, Source, first_true
from plancc.graph.ids import ID_OPTIONS, USUAL, PiecewiseEdges, check_ids, edge_columns, number
from plancc.graph.metis import is_metis
from plancc.graph.named_ids import Names, is_name, read_names, warn_of_empty, whole_names
from plancc.graph.textfile import (
    check_encoding,
    check_readable,
    data_lines,
    fail,
    fail_first,
    input_errors,
    is_number,
    later,
    open_input,
    read_bytes,
    read_integers,
    read_number,
    show,
    text_chunks,
)
from plancc.graph.types import Relation, in_words
from plancc.graph.union import Entries, rectangular
from plancc.text import shown

COMMENT = (b"#", b"%")
_TO_LINES = bytes.maketrans(b" ", b"\n")
CHUNK = 1 << 24
"""Bytes of a text that are read at a time, if the text is not read whole."""
_NEXT_BYTES = 1 << 16  # bytes that are searched for the line below a line of names
_EXACT = 10**15  # ids below this number are exact as float64
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_DECIMAL_COMMA = re.compile(rb"-?\d*,\d+([eE][-+]?\d+)?")
_QUOTED = re.compile(rb'"([-+]?[.\d][-+.\deE]*)"')
_QUOTED_COMMA = re.compile(rb'"([-+]?[.,\d][-+.,\deE]*)"')
_NAME = re.compile(rb"[A-Za-z][\w:.-]*")
_TRAILING = re.compile(rb"(?m)(?<=\S)[ \t]+#.*$")
_LIKE_NAMES = re.compile(rb"(?m)^[#%][^\s#%].*$")
_MARKS = {b"|", b"->", b"--", b"-", b"=>", b"<->"}
"""Words that some files have between the two ends of an edge, in place of a separator."""
_PLUS = re.compile(rb"(?m) \+(?=[.\d]\S*$)")


class End(NamedTuple):
    """One end, u or v, of all edges.

    Attributes:
        ids: int[edges], vertex numbers within the vertex type.
        name: Name of the type.
    """

    ids: IntArray
    num_vertices: int
    name: str


class _Table(NamedTuple):
    """The layout of the lines of an edge list.

    Attributes:
        separator: Separator of the columns; empty for blanks and tabs.
        chosen: Positions, from 0, of the columns of u and v (the ends of an edge), and perhaps of
            the weights.
        weights: Name of the weights; "" for an edge list without weights.
        ends: Joined names of the columns of u and v (`plancc.graph.formats.join_names`), or "".
        comma: Whether weights have a decimal comma.
        start: Offset in bytes, in the text, of the first line of edges.
        named: Whether ids are names.
        below: Offset after the line of column names; `start` without such a line.
    """

    separator: bytes
    columns: int
    chosen: tuple[int, ...]
    weights: str
    ends: str
    comma: bool
    start: int
    claims: Said
    named: bool
    below: int


def read_edgelist(
    path: StrPath,
    *,
    pattern: bool = False,
    symmetrize: bool = False,
    transpose: bool = False,
    num_vertices: int | None = None,
    keep_ids: bool = False,
    columns: Sequence[str] = (),
) -> Graph:
    """Read an edge list, plain or .gz: one edge ``u v`` or ``u v weight`` per line.

    The first line of data shows the separator (blanks, tabs, commas or semicolons), and whether ids
    are names (`plancc.graph.named_ids`). Unless commas separate columns, weights may have a decimal
    comma. Lines that begin with ``#`` or ``%`` are comments. The first line may hold column names:
    words in a .csv or .tsv file, or words above a line of numbers in other files. The graph is
    undirected if its pattern is symmetric.

    `columns` are names or, without names, positions from 1; if empty,
    `plancc.graph.ids.edge_columns` finds the columns.
    """
    data, table = _read(path, columns)
    names, entries = _edges_of(path, data, table, pattern=pattern)
    _warn_of_names(path, data, table, names, entries)
    claims = table.claims
    if not (table.ends or columns or table.named):
        data, claims, entries = _without_sizes(path, data, table, entries)
    u, v, weights = entries
    where = os.fspath(path)
    if not (table.ends or columns or table.named) and weights is not None:
        warn_of_numbers(where, u, v, weights)
    if pattern:
        weights = None
    source = Source.of_file(path, "edgelist", table.weights, table.ends)
    flags: Any = {"symmetrize": symmetrize, "transpose": transpose, "source": source}
    by_number = keep_ids or num_vertices is not None
    if claims.sides is not None and not by_number:
        if names is not None:
            raise InputError(f"{where}: {claims.place} 'bip', whose ids must be numbers from 1")
        return _bipartite_graph(path, claims, (u, v, weights), flags)
    place, options = partial(_place, path, data), (num_vertices, keep_ids)
    found = number(u, v, where, *options, place=place, names=names)
    warn_of_two_sides(where, split_names(table.ends), u, v)
    loops = int(np.count_nonzero(u == v)) if claims.edges else 0
    edges, ids = (len(u), loops), found.original_ids
    warn_of_counts(claims, where, edges, found.num_vertices, ids, by_number)
    graph = detect_direction(build_graph(found.num_vertices, found.u, found.v, weights, **flags))
    warn_of_direction(claims, where, graph.directed)
    return replace(graph, original_ids=found.original_ids)


def _without_sizes(
    path: StrPath, data: bytes, table: _Table, entries: Entries
) -> tuple[bytes, Said, Entries]:
    """Make a comment of the first line if it holds sizes; return the text, claims and edges.

    Claims are what the file says about the graph. They then include these sizes.
    """
    start, claims = table.start, table.claims
    first = [float(each[0]) for each in entries if each is not None]
    below = [ends[1:] for ends in entries[:2]]
    words, sizes = first_line(first, len(below[0]), below, bool(table.separator))
    if words:
        text, line = data[start : data.find(b"\n", start)].strip(), data.count(b"\n", 0, start) + 1
        warn(f"{os.fspath(path)}, line {line}: {show(text)} {words}")
    if sizes is not None:
        claims = claims._replace(place=sizes.place, vertices=sizes.vertices, edges=sizes.edges)
        data = data[:start] + b"#" + data[start + 1 :]
        u, v, weights = entries
        entries = u[1:], v[1:], None if weights is None else weights[1:]
    return data, claims, entries


def _bipartite_graph(path: StrPath, claims: Said, entries: Entries, flags: dict[str, Any]) -> Graph:
    """Return the graph of an edge list of KONECT whose u and v have separate ids, both from 1."""
    where, (u, v, weights) = os.fspath(path), entries
    if not (u.all() and v.all()):
        rule = "'bip', where ids count from 1 on both sides; a smaller id occurs"
        raise InputError(f"{where}: {claims.place} {rule}: '0'")
    assert claims.sides is not None
    shape = (max(int(u.max()), claims.sides[0]), max(int(v.max()), claims.sides[1]))
    warn_of_counts(claims, where, (len(u), 0), sum(shape))
    return rectangular(shape, (u - 1, v - 1, weights), **flags)


def read_edges(path: StrPath) -> tuple[bytes, Any]:
    """Return the text of an edge list, and its edges: u, v and weights (or None).

    In the returned text, a line of column names has become a comment.
    """
    data, table = _read(path)
    names, (u, v, weights) = _edges_of(path, data, table)
    return data, (u, v, weights) if names is None else (names[u], names[v], weights)


def _read(path: StrPath, columns: Sequence[str] = ()) -> tuple[bytes, _Table]:
    """Return the text and the layout of an edge list; raise InputError if it holds no edge."""
    data, table = _sniff(path, read_bytes(path), tuple(columns))
    if table is None:
        raise InputError(f"{os.fspath(path)}: the file holds no edge")
    return data, table


class EdgeListEntries(PiecewiseEdges):
    """The edges of an edge list, chunk by chunk.

    A list is refused if its ids are names, if one of its lines declares sizes, or if u and v are
    numbered separately.
    """

    def __init__(
        self,
        path: StrPath,
        *,
        num_vertices: int | None = None,
        keep_ids: bool = False,
        columns: Sequence[str] = (),
        pattern: bool = False,
    ) -> None:
        check_readable(path)
        where, self._pattern = os.fspath(path), pattern
        self._path, self._columns, self._room = path, tuple(columns), num_vertices
        self._table: _Table | None = None
        self._first: list[float] = []
        super().__init__(where, num_vertices, keep_ids)
        table, by_number = self._table, keep_ids or num_vertices is not None
        assert table is not None
        self._check_whole(table, by_number)
        warn_of_two_sides(where, split_names(table.ends), *self.sides)
        edges = self.most, self.loops
        warn_of_counts(table.claims, where, edges, self.num_vertices, self.original_ids, by_number)
        self.warn_of_direction = partial(warn_of_direction, table.claims, where)
        self.source = Source.of_file(path, "edgelist", table.weights, table.ends)
        self.weighted = bool(table.weights)

    def _check_whole(self, table: _Table, by_number: bool) -> None:
        """Raise InputError for a list that cannot be read in chunks.

        In such a list, u and v have separate ids (and are not given by vertex number), or the first
        line may hold the numbers of vertices and edges.
        """
        where = self.where
        if table.claims.sides is not None and not by_number:
            cure = "compile the file on one rank, without `memory`"
            raise InputError(f"{where}: a bipartite list ('bip') cannot be read in pieces; {cure}")
        below = np.setdiff1d(np.union1d(*self.sides), self._first[:2])
        named = table.ends or self._columns or not len(below)
        if not named and first_line(self._first, self.most - 1, [below], is_table=False)[0]:
            told = "the first line may be the numbers of vertices and edges"
            cure = "put # before it, or name the `columns` of edges, as 1,2, to read it as an edge"
            raise InputError(f"{where}: {told}; {cure}")

    def pieces(self) -> Iterator[Entries]:
        """Yield the ids u and v, and the weights, of every chunk of lines."""
        path, line, table, before = self._path, 0, None, b""
        with input_errors(path), open_input(path) as stream:
            for text in text_chunks(stream, CHUNK):
                data = text = before + text
                if table is None:
                    check_encoding(path, data)
                    data = data.removeprefix(codecs.BOM_UTF8)
                    data, table = _sniff(path, data, self._columns)
                    before = text if table is None else b""
                    if table is None:
                        continue
                    self._table = table
                if table.named:
                    raise whole_names(self.where)
                try:
                    u, v, weights = _columns_of(path, data, table, self._pattern)
                except InputError as error:
                    raise later(error, line) from error
                if self._room is not None:
                    place = partial(_place, path, data, before=line)
                    check_ids(u, v, self._room, place)
                if not self._first:
                    self._first = [float(each[0]) for each in (u, v, weights) if each is not None]
                yield u, v, weights
                line += text.count(b"\n")
                table = table._replace(start=0)
        if table is None:
            what = "holds no edge" if before.strip() else "is empty"
            raise InputError(f"{os.fspath(path)}: the file {what}")


def _edges_of(
    path: StrPath, data: bytes, table: _Table, pattern: bool = False
) -> tuple[Names | None, Entries]:
    """Return the vertices' names (None if ids are numbers), and the edges; see `_columns_of`.

    If there are names, u and v of the edges are positions in the list of names.
    """
    if not table.named:
        return None, _columns_of(path, data, table, pattern)
    found = read_names(path, data, table.separator, table.columns, table.chosen)
    weights = None
    if table.weights:
        plain = table._replace(separator=b"", columns=3, chosen=(0, 1, 2), start=0)
        weights = _columns_of(path, found.weights, plain, pattern)[2]
    return found.names, (found.u, found.v, weights)


def _warn_of_names(
    path: StrPath, data: bytes, table: _Table, names: Names | None, edges: Entries
) -> None:
    """Warn of comments that may be edges between names, and of names such as "nan" (no value)."""
    if names is None:
        return
    where, begin = os.fspath(path), table.below
    marks = (data.find(b"\n" + sign, max(begin - 1, 0)) for sign in COMMENT)
    if max(marks) < 0:  # quicker than the regular expression
        begin = len(data)
    lines = (each.group() for each in _LIKE_NAMES.finditer(data, begin))
    found = [line for line in lines if len(_words(line, table.separator)) == table.columns]
    if found:
        told = f"{len(found):,} lines that begin with {found[0][:1].decode()} are read as comments"
        cure = "put such a name into double quotes to make it an id"
        warn(f"{where}: {told}, the first {show(found[0].strip())}: {cure}")
    warn_of_empty(where, names, *edges[:2])


def _columns_of(path: StrPath, data: bytes, table: _Table, pattern: bool = False) -> Entries:
    """Return ids u and v, and weights or None; if `pattern`, weights are not checked."""
    if b'"' in data:
        quoted = _QUOTED if table.separator == b"," else _QUOTED_COMMA
        data = quoted.sub(rb"\1", data)
    is_whole = table.chosen == tuple(range(table.columns))
    if is_whole and data.find(b"#", table.start) >= 0:
        data = _TRAILING.sub(b"", data)
    if table.comma and b"," in data:
        data = data.replace(b",", b".")
    layout = table.separator, table.columns
    with suppress(InputError):  # raised for weights that are not whole, and for wrong lines
        has_blanks = is_whole and not table.separator
        plain = data if has_blanks else _taken(path, data, *layout, table.chosen)
        u, v, last = _integers(path, plain, len(table.chosen), b"#%" * has_blanks)
        return u, v, last if table.weights else None
    if table.weights and not pattern:
        if is_whole and data.count(b"\r") > data.count(b"\r\n"):  # data_lines raises an error
            deque(data_lines(path, io.BytesIO(data), comments=COMMENT), maxlen=0)
        return _read_weighted(path, _taken(path, data, *layout, table.chosen))
    return *_integers(path, _taken(path, data, *layout, table.chosen[:2]), 2)[:2], None


def _taken(
    path: StrPath, data: bytes, separator: bytes, columns: int, chosen: tuple[int, ...]
) -> bytes:
    """Return the text of an edge list with the `chosen` columns only, separated by blanks."""
    text = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
    out = np.empty_like(text)
    mark = separator[0] if separator else 0
    end, bad = kernels.take_columns(text, mark, columns, np.array(chosen), out)
    if bad >= 0:
        line = data[bad:].split(b"\n", 1)[0]
        _fail_columns(path, data.count(b"\n", 0, bad) + 1, line, separator, columns)
    return out[:end].tobytes()


def _fail_columns(
    path: StrPath, line: int, text: bytes, separator: bytes, columns: int
) -> NoReturn:
    """Raise InputError for a line with a wrong number of columns, or with an empty column."""
    words = [word.strip() for word in _words(text, separator)]
    sizes = " (put # before a line of sizes)" * (len(words) > columns)
    message, advice = f"{columns} columns are expected, as in the first line{sizes}, not", ""
    if len(words) == columns and not all(words):
        message = f"column {words.index(b'') + 1} is empty:"
        advice = "leave out the line, or the column (`columns` chooses others)"
    fail(path, line, message, text, advice)


class _Line(NamedTuple):
    """A line of a text that is neither blank nor a comment.

    Attributes:
        start, after: Offsets in bytes, in the text, of this line and of the next line.
        number: Number of the line, from 1.
        text: The line without quotes around numbers and without a final comment.
    """

    start: int
    after: int
    number: int
    text: bytes
    separator: bytes
    words: list[bytes]


def _line_from(path: StrPath, data: bytes, start: int, wanted: tuple[str, ...]) -> _Line | None:
    """Return the first line at or after byte `start` that is no blank or comment line, or None."""
    text, end = b"", start - 1
    while not text.strip() or text.startswith(COMMENT):
        start = end + 1
        if start >= len(data):
            return None
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        text = data[start:end]
    text = _QUOTED.sub(rb"\1", text)
    if re.match(rb"\s*\d", text) and not wanted:
        text = _TRAILING.sub(b"", text)
    tabs = os.fspath(path).lower().removesuffix(".gz").endswith(".tsv") and text.count(b"\t") > 2
    separator = _separator(text, tabs or bool(wanted))
    if not separator and b"\t" in text and any(map(is_name, text.split(b"\t")[:2])):
        separator = b"\t"  # names may have blanks
    number = data.count(b"\n", 0, start) + 1
    _refuse_others(path, number, text, data, wanted)
    return _Line(start, end + 1, number, text, separator, _words(text, separator))


def _sniff(path: StrPath, data: bytes, wanted: tuple[str, ...]) -> tuple[bytes, _Table | None]:
    """Return the text of an edge list, and its layout (None if the text has no line of edges).

    In the returned text, a line of column names has become a comment.
    """
    where, names, below = os.fspath(path), list[str](), 0
    line = _line_from(path, data, 0, wanted)
    if line is not None and _names_columns(path, line, data, wanted):
        data = data[: line.start] + b"#" + data[line.start + 1 :]
        names, below = (
            [word.strip(b' \t\r"').decode(errors="replace") for word in line.words],
            line.after,
        )
        line = _line_from(path, data, below, wanted)
    if line is None:
        return data, None
    words, head = line.words, data[: line.start]
    _check_width(path, line, names, wanted)
    if not names:  # SNAP writes the names into the last comment, with tabs or commas between
        last = head.rstrip().split(b"\n")[-1].lstrip(b"#% ").strip()
        listed = [word.strip() for word in re.split(rb"[\t,]", last)]
        if len(listed) == len(words) and all(map(_NAME.fullmatch, listed)):
            said = [word.decode(errors="replace") for word in listed]
            names = said if {*wanted} <= {*said} else []
    called = names or [str(k + 1) for k in range(len(words))]
    chosen = tuple(range(len(words)))
    are_text = [_LETTER.search(each) and not _is_like_a_number(each) for each in words]
    of_text = len(words) == 3 and all(are_text)
    if wanted or len(words) > 3 or of_text or (names and len({*names}) == len(names)):
        taken = edge_columns(where, called, wanted, {*compress(called, are_text)})
        chosen = tuple(map(called.index, taken))
    weights = "".join(f"column {show(called[k])}" for k in chosen[2:])
    mark = line.separator
    return data, _Table(
        separator=mark,
        columns=len(words),
        chosen=chosen,
        weights=weights,
        ends=join_names([called[k] for k in chosen[:2]]) if names else "",
        comma=bool(weights) and (mark == b";" or (mark != b"," and b"," in line.text)),
        start=line.start,
        claims=claims_of(head),
        named=not words[0].endswith(b":") and any(is_name(words[k]) for k in chosen[:2]),
        below=below or line.start,
    )


def _check_width(path: StrPath, line: _Line, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise InputError if the first line of edges has a wrong number of columns.

    If columns have names, there must be as many columns as names. Without names, 2 or 3 columns
    are needed, or any number if the user chose columns (`wanted`).
    """
    width = len(line.words)
    if names and len(names) != width:
        of_r = ", without row names of R (row.names = FALSE)" * (width == len(names) + 1)
        few = f"as many columns as there are names ({len(names)}){of_r} are expected, not"
        fail(path, line.number, few, line.text)
    if width not in (2, 3) and not (wanted or names):
        cure = "put # before a line that is not an edge"
        if width > 1:
            cure = "`columns` 1,2 reads the first two columns, 1,2,3 weights too"
        message = f"two or three columns 'u v [weight]' are expected ({cure}), not"
        fail(path, line.number, message, line.text)


def _names_columns(path: StrPath, line: _Line, data: bytes, wanted: Sequence[str]) -> bool:
    """Whether the first line of a text holds column names; warn if it may also be an edge."""
    words, separator, after = line.words, line.separator, line.after
    if words[2:] and words == [b"", *(b"%d" % k for k in range(len(words) - 1))]:
        return True  # pandas writes this line for an index and columns without names
    if any(map(_is_like_a_number, words)):
        return False
    # a file with the extension of a table usually has a line of names
    is_table = os.fspath(path).lower().removesuffix(".gz").endswith((".csv", ".tsv"))
    lines = data[after : after + _NEXT_BYTES].splitlines()
    text = next((line for line in lines if line.strip() and not line.startswith(COMMENT)), b"")
    below = _words(text, separator.strip())  # this line may have blanks in place of tabs
    if len(below) > 1 and all(map(_is_like_a_number, below[:2])):
        return is_table or any(map(_LETTER.search, words))
    names = [word.strip().decode(errors="replace") for word in words]
    is_edge = len(words) in (2, 3) and not words[0].endswith(b":")
    if not is_edge or not {*names}.isdisjoint(wanted):
        return is_table
    by_number = any(each.isdigit() for each in wanted)
    if len(words) == len(below) == 3 and (
        _is_like_a_number(below[2]) or (is_table and not by_number)
    ):  # the line below is an edge with a weight
        return True
    usual = len(USUAL & {*map(str.lower, names)}) > 1
    ids = [word.strip(b' \t\r"') for word in words[:2]]
    again = [word for word in ids if word and _is_id(word, data, after, separator)]
    if usual is not bool(again) or by_number or not text:
        return usual and not again
    found = usual or is_table
    taken, cure = ("names of columns", "`columns` 1,2 makes the line an edge") if found else (
        "an edge", "a # before the line makes it a comment"
    )  # fmt: skip
    one = show(again[0]) if again else "neither word"
    told = f"{os.fspath(path)}, line {line.number}: {show((separator or b' ').join(words))}"
    warn(f"{told} is read as {taken}; {one} occurs as an id below ({cure})")
    return found


def _is_id(word: bytes, data: bytes, start: int, separator: bytes) -> bool:
    """Return whether any line of `data` after offset `start` has a column equal to `word`."""
    found = re.escape(word)
    ends = rb'[\s"%s]' % re.escape(separator)
    pattern = re.compile(rb"%s(?<=%s%s)(?=%s|$)" % (found, ends, found, ends))
    for each in pattern.finditer(data, start):
        begin, end = data.rfind(b"\n", 0, each.start()) + 1, data.find(b"\n", each.start())
        line = data[begin:] if end < 0 else data[begin:end]
        if word in [other.strip(b' \t\r"') for other in _words(line, separator)]:
            return True
    return False


def _words(text: bytes, separator: bytes) -> list[bytes]:
    """Return the texts of a line's columns; double quotes may enclose a separator."""
    if separator and b'"' in text:
        try:
            line = text.decode("utf-8", "surrogateescape")
            words = next(csv.reader([line], delimiter=separator.decode()), [])
            return [word.encode("utf-8", "surrogateescape") for word in words]
        except csv.Error:
            pass
    return text.split(separator or None)


def _separator(text: bytes, tabs: bool) -> bytes:
    """Return what separates a line's words: ``;``, ``,``, a tab (if `tabs`), or "" for blanks."""
    words = text.split()
    if b";" in text:
        return b";"
    if b"," in text and not (
        len(words) == 3 and words[0].isdigit() and _DECIMAL_COMMA.fullmatch(words[2])
    ):
        return b","
    return b"\t" if tabs and b"\t" in text else b""


def _refuse_others(
    path: StrPath, line: int, text: bytes, data: bytes, wanted: Sequence[str]
) -> None:
    """Raise InputError if the first line shows another format, or another way to write edges."""
    words = text.split()
    mark = words[1] if len(words) == 3 else b"|" if len(words) == 1 else b""
    if mark in _MARKS and mark in text and not wanted:
        around = " (`columns` 1,3 reads the columns around it)" * (len(words) == 3)
        kinds = "columns are separated by blanks, tabs, commas or semicolons, not by"
        fail(path, line, f"{kinds} {show(mark)}{around}:", text)
    if re.fullmatch(rb"\s*[(\[].*,.*[)\]]\s*", text):
        fail(path, line, "an edge must be two words without brackets, such as 'u,v', not", text)
    if b"{" in text:
        cure = "write the file with nx.write_edgelist(graph, path, data=False), or data=['weight']"
        fail(path, line, f"the data of an edge is a dict; {cure}, not", text)
    if is_metis(path, data, text):
        told = "this is the header of a METIS graph, and the lines below are its vertices"
        cure = "`format` metis reads it (put a line '#' before it to read an edge list)"
        fail(path, line, f"{told}; {cure}:", text)


def _is_like_a_number(word: bytes) -> bool:
    """Whether a word is a number, or begins like one (such as `"1"`); it is no column name then."""
    return is_number(word) or re.match(r"\W*\d", word.decode(errors="replace")) is not None


def read_integer_columns(
    path: StrPath, data: bytes, separator: bytes
) -> tuple[Int64Array, Int64Array]:
    """Return ids u and v, int64[lines], of a text of two columns.

    Raise InputError for a wrong line.
    """
    return _integers(path, _taken(path, data, separator, 2, (0, 1)), 2)[:2]


def _integers(
    path: StrPath, plain: bytes, columns: int, comments: bytes = b""
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the ids u, the ids v, and the last column (v if there are two), int64[lines] each.

    `plain` is a text of whole numbers with blanks between the columns (see `_taken`).
    """
    numbers = read_integers(path, plain, comments=comments, usual=True, advice=_advice)
    count = np.diff(numbers.ptr)
    if (k := first_true((count != columns) & (count != 0))) is not None:
        line = int(numbers.line[k])
        _fail_columns(path, line, plain.split(b"\n", line)[line - 1], b"", columns)
    table = numbers.values.reshape(-1, columns)
    u, v = table[:, 0], table[:, 1]
    if (u < 0).any() or (v < 0).any():
        lines, values = numbers.line[count > 0], np.where(u < 0, u, v)
        fail_first(path, values < 0, lines, "a vertex id is negative (ids count from 0):", values)
    return u, v, table[:, -1]


def check_ends(path: StrPath, data: bytes, ends: Sequence[End], what: str) -> None:
    """Raise InputError for the first line of an edge list with a vertex number out of range.

    `data` is the text without a line of column names. `ends` has the numbers in every column of
    vertices, and `what` begins the message.
    """
    wrong = np.stack([end.ids >= end.num_vertices for end in ends])
    if (k := first_true(wrong.any(axis=0))) is not None:
        line = _line_of(path, data, k)
        ids, count, name = ends[int(np.argmax(wrong[:, k]))]
        message = f"a vertex of type '{shown(name)}' is out of range 0..{count - 1}:"
        advice = "vertices count from 0 within their type"
        advice += " (put # before a line of sizes)" * (k == 0)
        fail(path, line, f"{what}: {message}", int(ids[k]), advice)


def _line_of(path: StrPath, data: bytes, edge: int) -> int:
    """Return the line number, counted from 1, of the edge with index `edge`."""
    return next(islice(data_lines(path, io.BytesIO(data), comments=COMMENT), edge, None))[0]


def _place(path: StrPath, data: bytes, edge: int, before: int = 0) -> str:
    """Return a phrase that names an edge's file and line; `data` begins after `before` lines."""
    return f"{os.fspath(path)}, line {before + _line_of(path, data, edge)}"


def check_relation_file(path: StrPath, counts: Mapping[str, int], relation: Relation) -> None:
    """Raise InputError if a vertex number in the edge list of a relation is out of range.

    `is_source_first` decides which column holds the sources.
    """
    data, table = _sniff(path, read_bytes(path), ())
    if table is not None:
        u, v, _ = _columns_of(path, data, table)
        source, _, destination = relation
        turned = is_source_first(split_names(table.ends), source, destination)
        kinds = (source, destination) if turned else (destination, source)
        ends = [End(ids, counts[kind], kind) for ids, kind in zip((u, v), kinds, strict=True)]
        check_ends(path, data, ends, in_words(relation))


def _read_weighted(path: StrPath, plain: bytes) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Return u and v, int64[lines], and weights, float64[lines], of a text that `_taken` made."""
    from scipy.io import mmread

    if b" +" in plain:  # mmread refuses plus signs
        plain = _PLUS.sub(b" ", plain)
    entries = kernels.check_entries(np.frombuffer(plain, np.uint8), 3)
    if entries > 0:
        # mmread is the quickest parser: pass a dense matrix of three rows, one number a line
        head = b"%%%%MatrixMarket matrix array real general\n3 %d\n" % entries
        u, v, w = mmread(io.BytesIO(head + plain.translate(_TO_LINES)))
        if np.isfinite(w).all():
            if max(u.max(), v.max()) < _EXACT:
                return u.astype(np.int64), v.astype(np.int64), w.copy()
            return *_integers(path, _taken(path, plain, b"", 3, (0, 1)), 2)[:2], w.copy()
    _integers(path, _taken(path, plain, b"", 3, (0, 1)), 2)
    for line, text in data_lines(path, io.BytesIO(plain)):
        read_number(path, line, "weight", text.split()[2], float)
    raise InputError(f"{os.fspath(path)}: is not an edge list")


def _advice(word: bytes) -> str:
    """Return advice about a word that is not an id."""
    if re.fullmatch(rb"-?[0-9]+[.][0-9]*", word):
        return "write ids without a point (in pandas: .astype(int))"
    if word.endswith(b":"):
        return "write an adjacency list as an edge list, with one edge per line"
    if re.fullmatch(rb"-?0\d*", word):
        other = "or with a letter before every id, which makes ids names"
        return f"write it without leading zeros or sign, {other}"
    if word.removeprefix(b"-").isdigit():
        return "number the ids anew, for example with pandas.factorize"
    names = "move a line with a name to the top (and put # before a line of sizes)"
    return f"ids are whole numbers, as in the first line; to use names, {names}"


FORMAT = Format(
    (".txt", ".csv", ".tsv", ".el", ".edges"),
    read_edgelist,
    options=(*ID_OPTIONS, "columns"),
    entries=EdgeListEntries,
    what="edge lists (SNAP)",
)
