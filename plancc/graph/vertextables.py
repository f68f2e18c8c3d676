"""Functions that read tables of vertex data: columns of numbers, with or without a line of
names."""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.formats import data_keys
from plancc.graph.graph import Graph, first_true
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.rowids import (
    ROW_IDS,
    SAMPLE,
    begins_with_ids,
    id_column,
    ids_of,
    is_id_name,
    is_running,
    may_be_ids,
)
from plancc.graph.signatures import check_kind
from plancc.graph.textfile import check_readable, input_errors, is_number, open_input
from plancc.graph.vertexchecks import finite
from plancc.graph.vertexdata import ALIASES, MASKS, SOURCE_KEYS
from plancc.text import shown

Columns = dict[str, npt.NDArray[Any] | None]
"""Columns of a table, or arrays made of them, by name; None for a column that was not read."""
Keys = Mapping[str, str] | None
MOST_NAMES = 1 << 26
"""Largest length of a line of column names, in bytes."""
_NUMBERED = {
    "features": re.compile(r"(features?|feat|node_feat|x|f|)_?(\d{1,9})"),
    "targets": re.compile(r"(targets?)_?(\d{1,9})"),
}
"""Patterns of numbered column names (f0, f1, ...); such columns together are one matrix."""


def read_table(name: str, graph: Graph, keys: Keys) -> tuple[Columns, str]:
    """Read the arrays of a table; for the result see `arrays_of_columns`.

    Without column names, the first column may hold ids. Of the other columns, a single column is
    the labels, several are the features.
    """
    check_readable(name)
    check_kind(name, "table")
    mark = "\t" if name.lower().removesuffix(".gz").endswith(".tsv") else ","
    with input_errors(name), open_input(name) as stream:
        words, *first = (_words(stream, mark, name) for _ in range(SAMPLE))
    if "index" not in words:  # pandas writes an empty name for its index
        words = [word or "index" for word in words]
    if all(map(is_number, words)):
        return _without_names(name, mark, words, graph, keys)
    if len(set(words)) != len(words) or len(words) != len(first[0] or words):
        raise InputError(f"{name}: {len(words)} names for {len(first[0])} columns; name each once")
    wanted = dict.fromkeys(wanted_columns(words, keys))
    if not wanted and any(map(is_number, words)):
        told = "the line is neither numbers only nor names of columns"
        cure = "if ids are names, add a line of column names, such as id,f0,label"
        raise InputError(f"{name}, line 1: {told}; {cure}")
    rows = [row for row in first if len(row) == len(words)]
    samples = dict(zip(words, zip(*rows, strict=True), strict=True)) if rows else {}
    texts, vertices = list[str](), ids_of(graph)
    if are_names(vertices):
        ids, known = data_keys(keys).get("id"), {*vertices.tolist()}
        for word in words:
            are_ids = all(each.encode() in known for each in samples.get(word, ("",)))
            if is_id_name(word) or word == ids or (word not in wanted and are_ids):
                texts.append(word)
                wanted.pop(word, None)
    others = [
        word
        for word, given in samples.items()
        if word not in wanted and word not in texts and may_be_ids(word, given)
    ]
    place = {word: k for k, word in enumerate(words)}
    kinds = _names_of(keys)

    def read(chosen: list[str], dtype: npt.DTypeLike = np.float64) -> dict[str, npt.NDArray[Any]]:
        if not chosen:
            return {}
        booleans = tuple(place[word] for word in chosen if kinds.get(word) in MASKS)
        reading = TableReading(tuple(place[word] for word in chosen), booleans, tuple(words))
        table = read_numbers(name, mark, skipped=1, dtype=dtype, reading=reading)
        return dict(zip(chosen, table.T, strict=True))

    columns: Columns = dict.fromkeys(words)
    try:
        columns |= read([*wanted, *others])
    except InputError:  # raised perhaps by a column that is not needed
        if not others:
            raise
        columns |= read([*wanted])
    columns |= {word: names_of(np.char.strip(read([word], np.str_)[word])) for word in texts}
    return arrays_of_columns(columns, keys, name, graph)


def _words(stream: BinaryIO, mark: str, name: str) -> list[str]:
    """Return the words of the next line of `stream`; `mark` stands between words."""
    line = stream.readline(MOST_NAMES)
    if len(line) == MOST_NAMES and not line.endswith(b"\n"):
        raise InputError(f"{name}: a line is longer than {MOST_NAMES >> 20} MiB")
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    if '"' in text:
        try:
            return [word.strip() for word in next(csv.reader([text], delimiter=mark))]
        except csv.Error as error:
            raise InputError(f"{name}: the names of the columns: {error}") from error
    return [word.strip() for word in text.split(mark)] if text else []


def _without_names(
    name: str, mark: str, words: list[str], graph: Graph, keys: Keys
) -> tuple[Columns, str]:
    table, found, ids = read_numbers(name, mark), Columns(), ""
    if data_keys(keys).get("id") != "" and begins_with_ids(table, graph):
        bounds = f"{table[:, 0].min():.0f}..{table[:, 0].max():.0f}, every vertex once"
        cure = "(if these are not ids, add a line of column names, such as f0,f1)"
        warn(f"{name}: the first column holds {bounds}, so it is read as vertex ids {cure}")
        ids, found["id"], table = "id", table[:, 0].astype(np.int64), table[:, 1:]
    if table.shape[1] == 1:
        found["labels"] = class_numbers(table[:, -1], f"{name}: the column")
        return found, ids
    if are_names(ids_of(graph)) and is_running("index", table[:, 0]):
        warn(f"{name}: the first column holds row numbers, but is read as a feature")
    if len(table) == graph.num_vertices + 1 and words == [str(k) for k in range(len(words))]:
        told = f"the first line, {','.join(words[:3])}..., is read as names"
        why = f"there are {graph.num_vertices:,} lines besides, one for each vertex"
        warn(f"{name}: {told}: {why}")
        table = table[1:]
    found["features"] = table.astype(np.float32)
    return found, ids


def _names_of(keys: Keys) -> dict[str, str]:
    """Return, for every known column name, its key in `SOURCE_KEYS`."""
    chosen = data_keys(keys)
    usual = (key for key in SOURCE_KEYS if key not in chosen)
    named = {name: key for key in usual for name in (key, *ALIASES.get(key, ()))}
    return named | {name: key for key, name in chosen.items() if name}


def _numbered(names: Iterable[str], known: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns with numbered names (f0, f1, ...) of "features" and of "targets".

    If a table also has a column with the name of the whole array, numbered columns are ignored.
    """
    names, found = list(names), dict[str, list[str]]()
    there = {known[name] for name in names if name in known}
    for key, pattern in _NUMBERED.items():
        groups = dict[str, dict[int, str]]()
        for name in names if key not in there else ():
            if name not in known and (match := pattern.fullmatch(name)):
                groups.setdefault(match[1], {})[int(match[2])] = name
        for prefix, group in groups.items():
            first, last = min(group), max(group)
            whole = first <= 1 and last - first + 1 == len(group) and (prefix or len(group) > 1)
            if whole and key not in found:
                found[key] = [group[k] for k in sorted(group)]
    return found


def wanted_columns(names: Iterable[str], keys: Keys) -> list[str]:
    """Return those of `names` whose columns hold vertex data or row ids."""
    names, known = list(names), _names_of(keys)
    wanted = {*known, *ROW_IDS, *chain.from_iterable(_numbered(names, known).values())}
    return [name for name in names if name in wanted]


def arrays_of_columns(
    columns: Columns, keys: Keys, where: str, graph: Graph
) -> tuple[Columns, str]:
    """Return arrays of vertex data by column, and the name of the column of row ids.

    An array is None if its column was not read or is no vertex data. Without row ids, the name is
    "".
    """
    known = _names_of(keys)
    groups = _numbered(columns, known)
    numbered = {*chain.from_iterable(groups.values())}
    ids = data_keys(keys).get("id")
    if ids is None or (ids and ids not in columns):
        ids = id_column(columns, {*known, *numbered}, graph, where) or ""
    found = Columns()
    for name, column in columns.items():
        key, what = known.get(name, ""), f"{where}: column '{shown(name, 40)}'"
        is_text = column is not None and column.dtype.kind == "S" and name != ids
        if is_text and (key or name in numbered):
            raise InputError(f"{what} holds 'string', not numbers; convert it by pandas.factorize")
        if name in numbered or (name != ids and not key and is_running(name, column)):
            continue  # the column is in a matrix, or is an index of rows
        if column is None or is_text or not (key or name == ids):
            found[name] = None
        elif name == ids or key in ("labels", "clusters"):
            found[name] = class_numbers(column, what) if column.dtype.kind == "f" else column
        elif key in MASKS:
            if column.dtype.kind not in "biuf" or not np.isin(column, (0, 1)).all():
                raise InputError(f"{what} is a mask: it must hold 0 and 1, or True and False")
            found[name] = column == 1
        else:
            found[name] = column.reshape(len(column), prod(column.shape[1:]))
    for key, group in groups.items():
        parts = []
        for name in group:
            part, what = np.asarray(columns[name]), f"{where}: column '{name}'"
            parts.append(finite(part, what) if key == "features" else part)
            if part.ndim != 1:
                raise InputError(f"{what} holds lists, not numbers")
        found[data_keys(keys).get(key, key)] = np.stack(parts, axis=1)
    return found, ids


@dataclass(frozen=True)
class TableReading:
    """The choice of columns to read from a table.

    Attributes:
        columns: Indices of the columns, in the order of the result; empty for all columns.
        booleans: Indices of the columns that may hold True and False.
    """

    columns: tuple[int, ...] = ()
    booleans: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


def _truth(word: str) -> float:
    """Return the number that a word spells; True is 1, and False is 0."""
    word = word.strip().lower()
    return float(word == "true") if word in ("true", "false") else float(word)


def read_numbers(
    path: StrPath,
    mark: str | None = ",",
    skipped: int = 0,
    dtype: npt.DTypeLike = np.float64,
    reading: TableReading | None = None,
) -> npt.NDArray[Any]:
    """Read a table of numbers, plain or .gz, as dtype[rows, columns]; ``nan`` is allowed.

    If `mark` is None, blanks separate the columns. The first `skipped` lines are left out.
    """
    check_readable(path)
    how: Any = {"delimiter": mark, "skiprows": skipped, "ndmin": 2, "comments": None}
    how["encoding"] = "utf-8-sig"
    if reading is not None:
        how |= {"quotechar": '"', "usecols": reading.columns or None}
        how["converters"] = dict.fromkeys(reading.booleans, _truth)
    try:
        with input_errors(path), open_input(path) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy warns of a file without lines
            table: npt.NDArray[Any] = np.loadtxt(stream, dtype, **how)
    except (ValueError, UnicodeDecodeError) as error:
        words = _wrong_word(shown(error), path, skipped, reading)
        raise InputError(f"{os.fspath(path)}{words}") from error
    return table


def has_names(path: StrPath) -> bool:
    """Whether a table begins with a line of names."""
    check_readable(path)
    with input_errors(path), open_input(path) as stream:
        line = stream.readline(MOST_NAMES).decode("utf-8-sig", "replace")
    return not any(map(is_number, re.split(r"[,\t\s]", line)))


def line_of(path: StrPath, row: int, skipped: int) -> int:
    """Return the line, from 1, of row `row`, from 0, of the array that `read_numbers` returns."""
    with open_input(path) as stream:
        rows = (n for n, line in enumerate(stream, 1) if n > skipped and line.strip())
        return next(islice(rows, row, None), row + 1 + skipped)


def _wrong_word(words: str, path: StrPath, skipped: int, reading: TableReading | None) -> str:
    """Return NumPy's message about a wrong table, with the file's line and the column's name."""
    wrong = r"could not convert string (.*) to \w+ at row (\d+), column (\d+)\."
    match = re.fullmatch(wrong, words)
    if match is None:
        return f": not a table of numbers: {re.sub('; use `usecols`.*', '', words)}"
    line, column = line_of(path, int(match[2]), skipped), int(match[3])
    name, advice = f"{column}", "convert words with pandas.factorize"
    if reading is not None and reading.names:
        name = f"'{shown(reading.names[column - 1], 40)}'"
        if column - 1 in reading.booleans:
            advice = "masks hold 0 and 1, or True and False"
    elif line == 1:
        advice = "leave out a line of names"
    if match[1] == "''":
        cure = "give every row a number, as fillna of pandas does (a label of -1 is unknown)"
        return f", line {line}: column {name} is empty; {cure}"
    return f", line {line}: not a table of numbers: {match[1]} in column {name} ({advice})"


def class_numbers(column: npt.NDArray[np.float64], what: str) -> npt.NDArray[np.int64]:
    """Return class numbers, int64[rows]; NaN, an unknown class, becomes -1."""
    known = np.where(np.isnan(column), -1, column)
    if (k := first_true((known != np.floor(known)) | (np.abs(known) > 2**53))) is not None:
        cure = "real numbers to predict are called targets"
        raise InputError(f"{what} holds '{known[k]}', not the number of a class; {cure}")
    return known.astype(np.int64)
