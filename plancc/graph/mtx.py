"""MatrixMarket coordinate files. Entry (i, j) of the file is ``A[i, j]``: row i needs row j.

scipy's ``mmread`` (fast_matrix_market) parses the entries. ``mmread`` accepts some garbled lines
(``1 1.5 1`` is read as column 1, value 0.5), so the bytes are checked first.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph import kernels
from plancc.graph.canonical import all_finite, build_graph, is_symmetric, to_scipy
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.textfile import (
    check_encoding,
    check_readable,
    data_lines,
    fail,
    input_errors,
    is_gzip,
    open_input,
    read_number,
    text_chunks,
)
from plancc.graph.union import Entries, rectangular

_FIELDS = {"pattern": 0, "integer": 1, "unsigned-integer": 1, "real": 2, "double": 2}
_ANYTHING = -1
"""Code of a field for which the text after row and column is not checked."""
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")
_CHUNK = 1 << 22
_SMALL = 1 << 19  # bytes; for smaller files, plain Python is quicker than loading numba


@dataclass(frozen=True)
class _Header:
    """The header of a MatrixMarket file.

    Attributes:
        field, symmetry: Words of the banner.
        size: Number of rows.
        lines: Number of lines before the entries, including the line of sizes.
        one_percent: Whether the banner begins with one percent sign.
        without_values: Whether the values of the file are skipped.
    """

    field: str
    symmetry: str
    size: int
    columns: int
    entries: int
    lines: int
    one_percent: bool
    without_values: bool

    @property
    def has_values(self) -> bool:
        """Whether the graph gets values from the file."""
        return self.field != "pattern" and not self.without_values

    def text(self, entries: int) -> bytes:
        """Return a header that declares `entries` entries, for scipy's `mmread`.

        If the graph gets no values from the file, the header declares a pattern, so that `mmread`
        skips the rest of each line.
        """
        field = self.field if self.has_values else "pattern"
        banner = f"%%MatrixMarket matrix coordinate {field} general"
        return f"{banner}\n{self.size} {self.columns} {entries}\n".encode()


def read_mtx(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """Read a MatrixMarket coordinate file, plain or .gz.

    The graph is directed if the header says "general". A pattern file has no values; others become
    float64. Network Repository's banner with one percent sign is read with a warning. A rectangular
    matrix is a graph of two vertex types (`plancc.graph.union.rectangular`).
    """
    entries = MtxEntries(path, pattern=pattern)
    row, col, values = entries.whole()
    how: Any = {"symmetrize": symmetrize, "transpose": transpose, "source": entries.source}
    if entries.shape[0] != entries.shape[1]:
        return rectangular(entries.shape, (row, col, values), **how)
    return build_graph(entries.num_vertices, row, col, values, directed=entries.directed, **how)


def _read_header(path: StrPath, *, pattern: bool = False) -> _Header:
    """Return the header of a file: what the lines before the entries say."""
    check_readable(path)
    with input_errors(path), open_input(path) as stream:
        banner = stream.readline(4096)
        lines, text = 1, b"%"
        while text and (not text.strip() or text.lstrip().startswith(b"%")):
            text, lines = stream.readline(), lines + 1
    check_encoding(path, banner)
    banner = banner.removeprefix(codecs.BOM_UTF8)
    field, symmetry = _banner(path, banner)
    if not text:
        fail(path, lines, "the file ends before the line 'ROWS COLUMNS ENTRIES'")
    words = text.split()
    if len(words) != 3 or not all(map(bytes.isdigit, words)):
        message = "three whole numbers 'ROWS COLUMNS ENTRIES' are expected, not"
        fail(path, lines, message, text, "write them into the file, above the entries")
    if long := [word for word in words if len(word) > 20]:
        fail(path, lines, "a size of the matrix is out of range:", long[0])
    rows, columns, entries = map(int, words)
    if rows != columns and symmetry != "general":
        message = f"a {symmetry} matrix must be square, not one of"
        fail(path, lines, message, f"{rows} x {columns}")
    for each in (rows, columns, rows if rows == columns else rows + columns):
        check_num_vertices(each, f"{os.fspath(path)}, line {lines}")
    return _Header(field, symmetry, rows, columns, entries, lines, banner[1:2] != b"%", pattern)


def _banner(path: StrPath, banner: bytes) -> tuple[str, str]:
    """Return the field and the symmetry in `banner`, the first line of a MatrixMarket file."""
    words = banner.decode("latin-1").split()
    # case matters for this word only; Network Repository writes it with one percent sign
    if not words or words[0] not in ("%%MatrixMarket", "%MatrixMarket"):
        message = "a MatrixMarket file begins with '%%MatrixMarket', not"
        fail(path, 1, message, banner, "`format` edgelist reads an edge list")
    if len(words) != 5 or words[1].lower() != "matrix":
        rule = "'%%MatrixMarket matrix FORMAT FIELD SYMMETRY'"
        fail(path, 1, f"the header must be {rule}, not", banner)
    _, _, layout, field, symmetry = (word.lower() for word in words)
    if layout != "coordinate":
        fail(path, 1, "a graph is read from a coordinate (sparse) matrix, not", layout)
    if symmetry == "hermitian":  # Julia writes this for real numbers; `pattern` reads no values
        symmetry = "symmetric"
    if field != "complex" and field not in _FIELDS:
        fail(path, 1, f"the field must be one of {', '.join(_FIELDS)}, not", field)
    if symmetry not in _SYMMETRIES:
        fail(path, 1, f"the symmetry must be one of {', '.join(_SYMMETRIES)}, not", symmetry)
    if field == "unsigned-integer" and symmetry == "skew-symmetric":
        fail(path, 1, "skew-symmetric values have signs, so the field cannot be", field)
    return field, symmetry


def _lines(path: StrPath, header: _Header) -> Iterator[bytes]:
    """Yield the lines of the entries in pieces of about `_CHUNK` bytes."""
    with input_errors(path), open_input(path) as stream:
        for _ in range(header.lines):
            stream.readline()
        yield from text_chunks(stream, _CHUNK)


def _checked(header: _Header, text: bytes) -> int:
    """Return the number of entries in `text`; raise ValueError for a line that is not an entry."""
    field = _ANYTHING if header.without_values else _FIELDS.get(header.field, 0)
    count = int(kernels.check_entries(np.frombuffer(text, np.uint8), field))
    if count < 0:
        raise ValueError("a line is not an entry")
    return count


def _parsed(header: _Header, count: int, text: bytes) -> Entries:
    """Return the `count` entries that `text` lists.

    Raise ValueError or OverflowError for a wrong line.
    """
    from scipy.io import mmread

    matrix = mmread(io.BytesIO(header.text(count) + text), spmatrix=False)
    values = matrix.data if header.has_values else None
    if values is not None and not all_finite(values):
        raise ValueError("a value is not finite")
    return *matrix.coords, values


def _check_size(path: StrPath, header: _Header) -> None:
    """Raise InputError, before memory is taken, if the file is too short for its entries."""
    # deflate packs at most 1032 bytes into one
    most = os.path.getsize(path) * (1100 if is_gzip(path) else 1)
    if header.entries * (6 if header.has_values else 4) > most + 1:
        _explain(path, header)
        fail(path, header.lines, "the file is too short for its number of entries:", header.entries)


class MtxEntries:
    """The entries of a MatrixMarket file, chunk by chunk (`plancc.graph.external.Entrywise`).

    Errors of entries are raised when the entries are read.
    """

    original_ids = None

    @staticmethod
    def claimed(path: StrPath) -> int:
        """Return the number of entries that the header declares, doubled for symmetric matrices."""
        header = _read_header(path)
        _check_size(path, header)
        return header.entries * (1 if header.symmetry == "general" else 2)

    def __init__(self, path: StrPath, *, pattern: bool = False) -> None:
        header = _read_header(path, pattern=pattern)
        if header.field == "complex" and not pattern:
            message = "complex matrices are not supported (`pattern` reads them without values):"
            fail(path, 1, message, header.field)
        if header.one_percent:
            what = "the banner begins with one '%', and is read as '%%MatrixMarket'"
            warn(f"{os.fspath(path)}: {what}")
        self._header, self._path = header, path
        _check_size(path, header)
        self.num_vertices, self.shape = header.size, (header.size, header.columns)
        self.directed = header.symmetry == "general"
        self.weighted = header.has_values
        self.most = header.entries * (1 if self.directed else 2)
        self.source = Source.of_file(path, "mtx")

    def __iter__(self) -> Iterator[Entries]:
        if self.shape[0] != self.shape[1]:
            told = f"a matrix of shape {self.shape[0]} x {self.shape[1]} cannot be read in pieces"
            cure = "compile the file on one rank, without `memory`"
            raise InputError(f"{os.fspath(self._path)}: {told}: {cure}")
        for entries in self._chunks():
            yield self._mirrored(*entries)

    def whole(self) -> Entries:
        """Return all entries together, with the other half of a symmetric matrix at the end."""
        none, values = np.empty(0, np.int32), None
        try:
            parts = [*self._chunks()] or [(none, none, np.empty(0))]
            row, col = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
            if self.weighted:
                values = np.concatenate([part[2] for part in parts])
        except MemoryError as error:
            self._fail(error)
        return self._mirrored(row, col, values)

    def _chunks(self) -> Iterator[Entries]:
        """Yield the entries as the file has them: of a symmetric matrix, only the stored half."""
        found, header = 0, self._header
        small = os.path.getsize(self._path) < _SMALL and not is_gzip(self._path)
        if small:
            _explain(self._path, header)
        lines = _lines(self._path, header)
        for text in [b"".join(lines)] if small else lines:
            try:
                count = header.entries if small else _checked(header, text)
                entries = _parsed(header, count, text)
            except (ValueError, OverflowError) as error:
                self._fail(error)
            found += len(entries[0])
            if found > header.entries:
                self._fail()
            yield entries
        if found != header.entries:
            self._fail()

    def _mirrored(self, row: Any, col: Any, values: Any) -> Entries:
        """Return the entries, followed by the other half of a symmetric matrix."""
        if self.directed:
            return row, col, values
        off = row != col
        if values is not None:
            sign = -1 if self._header.symmetry == "skew-symmetric" else 1
            self._check_half(row, col, values, sign)
            values = np.concatenate([values, sign * values[off]])
        return np.concatenate([row, col[off]]), np.concatenate([col, row[off]]), values

    def _check_half(self, row: Any, col: Any, values: Any, sign: int) -> None:
        """Raise InputError if a symmetric matrix lists both (i, j) and (j, i) of an entry.

        The error is also raised if the diagonal of a skew-symmetric matrix is not 0.
        """
        above = row < col
        if sign < 0 and (wrong := (row == col) & (values != 0)).any():
            self._fail_entry(wrong, "a skew-symmetric matrix has zeros on its diagonal, not")
        if above.any() and (row > col).any():
            keys = row.astype(np.int64) * self.num_vertices + col
            mirror = col.astype(np.int64) * self.num_vertices + row
            wrong = above & np.isin(mirror, keys[row > col])
            if wrong.any():
                also = f"a {self._header.symmetry} file lists either (i, j) or (j, i), but"
                way = "both are given: write 'general' in line 1, or leave out one of the two:"
                self._fail_entry(wrong, f"{also} {way}")

    def _fail_entry(self, wrong: Any, message: str) -> NoReturn:
        """Raise InputError for the first entry of the file for which `wrong`, bool[m], is true."""
        with input_errors(self._path), open_input(self._path) as stream:
            lines = data_lines(self._path, stream, self._header.lines)
            line, text = next(islice(lines, int(np.argmax(wrong)), None))
        fail(self._path, line, message, text)

    def _fail(self, error: Exception | None = None) -> NoReturn:
        _explain(self._path, self._header)
        why = "" if error is None else f": {error}"
        raise InputError(f"{os.fspath(self._path)}: is not a MatrixMarket file{why}") from error


def _explain(path: StrPath, header: _Header) -> None:
    """Raise InputError for the first wrong line, if any. Plain Python, slow for large files."""
    valued = header.has_values
    number: Any = float if _FIELDS.get(header.field) == 2 else int
    least = 0 if header.field == "unsigned-integer" else -(2**63)
    count, line = 0, header.lines
    way = " (`pattern` reads without values)"
    expected = f"'ROW COLUMN{' VALUE' * valued}' is expected"
    with input_errors(path), open_input(path) as stream:
        for line, text in data_lines(path, stream, header.lines):
            words = text.split()[: 2 if header.without_values else None]
            if count == header.entries:
                message = f"the header declares {header.entries} entries; this is one more:"
                fail(path, line, message, text)
            if len(words) != (3 if valued else 2):
                fail(path, line, f"{expected}{way * (len(words) > 1)}, not", text)
            bounds = ("row", header.size), ("column", header.columns)
            for word, (what, bound) in zip(words, bounds, strict=False):
                if not word.isdigit():
                    fail(path, line, f"the {what} is not a whole number:", word)
                if len(word) > 18 or not 1 <= int(word) <= bound:
                    fail(path, line, f"the {what} is out of range 1..{bound}:", word)
            if valued:
                value = read_number(path, line, "value", words[2], number)
                if number is int and not least <= value < least + 2**64:
                    kind = "unsigned 64-bit" if least == 0 else "64-bit"
                    fail(path, line, f"the value is not a {kind} integer{way}:", words[2])
            count += 1
    if count < header.entries:
        fail(path, line, f"the file ends after {count} of {header.entries} entries")


def write_mtx(
    graph: Graph, temporary: Path, *, pattern: bool = False, compress: bool = False, path: StrPath
) -> None:
    """Write a MatrixMarket coordinate file; see `plancc.graph.formats.write_graph`.

    Directed graphs are "general", others "symmetric", or "skew-symmetric" if their values are.
    """
    from scipy.io import mmwrite
    from scipy.sparse import tril

    values = not pattern and graph.values is not None
    symmetry = "general"
    if not graph.directed:
        if is_symmetric(graph, values=values):
            symmetry = "symmetric"
        elif is_symmetric(graph, values=values, skew=True):
            symmetry = "skew-symmetric"
    matrix = to_scipy(graph) if symmetry == "general" else tril(to_scipy(graph))
    field = "real" if values else "pattern"
    with open(temporary, "wb") as raw:
        stream = gzip.GzipFile("", "wb", 6, raw, mtime=0) if compress else raw
        if matrix.nnz:
            mmwrite(stream, matrix.tocoo(), field=field, symmetry=symmetry)
        else:  # mmwrite calls every empty matrix real
            n = graph.num_vertices
            head = f"%%MatrixMarket matrix coordinate {field} {symmetry}\n{n} {n} 0\n"
            stream.write(head.encode())
        stream.close()


FORMAT = Format((".mtx",), read_mtx, write_mtx, entries=MtxEntries, what="MatrixMarket")
