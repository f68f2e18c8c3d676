"""Edge lists in Parquet: a file, or a folder of files.

A row ``u, v [, w]`` of the table is ``A[u, v]``: u needs v, as in an edge list in text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.bounds import check_unpacked
from plancc.graph.canonical import as_values, build_graph, detect_direction
from plancc.graph.claims import warn_of_two_sides
from plancc.graph.formats import Format, join_names, library
from plancc.graph.graph import Graph, Source, first_true
from plancc.graph.ids import ID_OPTIONS, PiecewiseEdges, edge_columns, number
from plancc.graph.listed_edges import is_listing
from plancc.graph.named_ids import Names, names_of, sorted_names, warn_of_empty, whole_names
from plancc.graph.rowids import SAMPLE, is_id_name, may_be_ids, natural_order, warn_of_parts
from plancc.graph.textfile import check_readable, show
from plancc.graph.union import Entries
from plancc.memory import check_memory
from plancc.text import shown

NEEDS = "plancc[parquet]"
BATCH = 1 << 20
"""Number of rows that are read at a time, if the files are read piece by piece."""
DEEPEST = 3
"""Largest depth of nested folders that are searched for files."""
BYTES_OF_NUMBER = 16
"""Bytes that a number needs while it is read: 8 in an array of Arrow, and 8 in one of NumPy."""
EXTENSIONS = (".parquet", ".pq")
INDEX = "__index_level_0__"
"""Column name that pandas gives to an index without a name."""


def parts_of(folder: str) -> list[str]:
    """List the Parquet files below a folder, sorted, except names beginning with ``_`` or ``.``."""
    found = []
    for place, folders, files in os.walk(folder):
        deep = os.path.relpath(place, folder).count(os.sep) >= DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if name[0] not in "_.")
        for name in files:
            if name[0] not in "_." and name.lower().endswith(EXTENSIONS):
                found.append(os.path.relpath(os.path.join(place, name), folder))
    return sorted(found)


def read_parquet(
    path: StrPath,
    *,
    columns: Sequence[str] = (),
    num_vertices: int | None = None,
    keep_ids: bool = False,
    pattern: bool = False,
    **flags: bool,
) -> Graph:
    """Read edges from the columns of Parquet files; see `plancc.graph.formats.read_graph`.

    `columns` names u, v and perhaps weights; if empty, `plancc.graph.ids.edge_columns` finds the
    columns. The graph is undirected if every edge also occurs in reverse.
    """
    where = os.fspath(path)
    with _arrow_errors(where):
        table, names = _edge_columns(where, tuple(columns), pattern)
        rows = table.count_rows()
        _check_cost(rows * len(names), where, f"{where}: reading {rows:,} edges")
        read = table.to_table(columns=list(names))
        if not rows:
            raise InputError(f"{where}: the file holds no edge")
        ids, (u, v, weights) = _named_edges(read, names, where)
    warn_of_empty(where, ids, u, v)
    if is_listing():
        warn_of_parts(where, parts_of(where), "data of edges follow this order")
    options, place = (num_vertices, keep_ids), lambda k: f"{where}, row {k}"
    found = number(u, v, where, *options, place=place, names=ids)
    warn_of_two_sides(where, names[:2], u, v)
    source = _source(where, names)
    graph = build_graph(found.num_vertices, found.u, found.v, weights, source=source, **flags)
    return replace(detect_direction(graph), original_ids=found.original_ids)


class ParquetEntries(PiecewiseEdges):
    """The edges of Parquet files, which are read in batches of rows; see `read_parquet`."""

    changed = "the files changed while they were read"

    def __init__(
        self,
        path: StrPath,
        *,
        columns: Sequence[str] = (),
        num_vertices: int | None = None,
        keep_ids: bool = False,
        pattern: bool = False,
    ) -> None:
        where = os.fspath(path)
        with _arrow_errors(where):
            self._table, self._columns = _edge_columns(where, tuple(columns), pattern)
            rows = self._table.count_rows()
        wanted = rows * len(self._columns) * BYTES_OF_NUMBER
        check_unpacked(wanted, _files_of(where), f"{where}: reading {rows:,} edges")
        super().__init__(where, num_vertices, keep_ids)
        warn_of_two_sides(where, self._columns[:2], *self.sides)
        self.weighted = len(self._columns) == 3
        self.source = _source(where, self._columns)

    @staticmethod
    def claimed(path: StrPath) -> int:
        """Return the number of edges according to the metadata of the files."""
        where = os.fspath(path)
        with _arrow_errors(where):
            return int(_table_of(where).count_rows())

    def pieces(self) -> Iterator[Entries]:
        """Read some rows of the file at a time; yield their ids u and v, and their weights."""
        names, where = list(self._columns), self.where
        with _arrow_errors(where):
            arrow = library("pyarrow", where, NEEDS)
            if any(_is_text(arrow, self._table.schema.field(name).type) for name in names[:2]):
                raise whole_names(where)
            alone: Any = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
            for batch in self._table.to_batches(columns=names, batch_size=BATCH, **alone):
                yield _edges(batch, names, where)


@contextmanager
def _arrow_errors(where: str) -> Iterator[None]:
    """Context manager that turns pyarrow's exceptions into InputError."""
    arrow = library("pyarrow", where, NEEDS)
    try:
        yield
    except InputError:
        raise
    except (arrow.ArrowException, OSError, OverflowError, ValueError) as error:
        raise InputError(f"{where}: cannot be read as Parquet: {shown(error)}") from error


def _edge_columns(
    where: str, columns: tuple[str, ...], pattern: bool = False
) -> tuple[Any, tuple[str, ...]]:
    """Return the files `where` as a table, not read yet, and the names of the edges' columns.

    If `columns` is empty, the columns are found by their names.
    """
    arrow, table = library("pyarrow", where, NEEDS), _table_of(where)
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    whole = {name for name, kind in kinds.items() if arrow.types.is_integer(kind)}
    numbers = whole | {name for name, kind in kinds.items() if arrow.types.is_floating(kind)}
    ids = whole | {name for name, kind in kinds.items() if _is_text(arrow, kind)}
    _warn_of_folders(where)
    names = edge_columns(where, table.schema.names, columns, kinds.keys() - numbers)
    names = names[:2] if pattern else names
    for k, name in enumerate(names):
        if name not in (ids if k < 2 else numbers):
            rule = "numbers: `pattern` reads without weights"
            if k < 2:
                rule = "whole numbers: ids are whole numbers or text (in pandas: .astype(int))"
            raise InputError(f"{where}: column '{name}' holds '{kinds[name]}', not {rule}")
    return table, names


def _table_of(where: str) -> Any:
    """Return the files as one table, which is not read yet."""
    dataset = library("pyarrow.dataset", where, NEEDS)
    return dataset.dataset(_files_of(where), format="parquet")


def _warn_of_folders(where: str) -> None:
    """Warn that names of folders such as year=2020 are not read as columns."""
    parts = parts_of(where)
    if named := sorted(
        {name for part in parts for name in re.findall(r"([^/\\]+)=[^/\\]*[/\\]", part)}
    ):
        warn(f"{where}: ignored: {', '.join(map(show, named))}, as folder names give no columns")


def _source(where: str, names: Sequence[str]) -> Source:
    weights = f"column {show(names[2])}" if len(names) == 3 else ""
    return Source.of_file(os.path.abspath(where), "parquet", weights, join_names(names[:2]))


def _edges(read: Any, names: Sequence[str], where: str) -> Entries:
    """Return the ids u and v of edges, and weights or None. `read`: table or record batch."""
    u, v = (_ids(read.column(k), f"{where}: column '{names[k]}'") for k in (0, 1))
    return u, v, _weights(read, names, where)


def _weights(read: Any, names: Sequence[str], where: str) -> npt.NDArray[np.floating] | None:
    if len(names) < 3:
        return None
    what = f"{where}: column '{names[2]}'"
    _check_nulls(read.column(2), what, "weights")
    return as_values(read.column(2).to_numpy(), what)


def _named_edges(read: Any, names: Sequence[str], where: str) -> tuple[Names | None, Entries]:
    """Return the sorted names of the vertices (None if ids are numbers), and the edges.

    If there are names, u and v of an edge are positions in the list of names.
    """
    arrow = library("pyarrow", where, NEEDS)
    if not any(_is_text(arrow, read.schema.field(k).type) for k in (0, 1)):
        return None, _edges(read, names, where)
    columns = [read.column(k).cast(arrow.large_string()) for k in (0, 1)]
    for k, column in enumerate(columns):
        _check_nulls(column, f"{where}: column '{names[k]}'", "ids")
    both = arrow.chunked_array([each for column in columns for each in column.chunks])
    both = both.combine_chunks().dictionary_encode()
    known, found = sorted_names(both.dictionary.to_numpy(zero_copy_only=False), where)
    u, v = np.split(found[both.indices.to_numpy()], 2)
    return known, (u, v, _weights(read, names, where))


def _check_cost(numbers: int, where: str, what: str) -> None:
    """Raise InputError if the files or the memory cannot hold as many `numbers` as are declared."""
    wanted = numbers * BYTES_OF_NUMBER
    check_unpacked(wanted, _files_of(where), what)
    check_memory(wanted, what)


def _files_of(where: str) -> list[str]:
    """Return the file's path, or a folder's files in the order of the numbers in their names."""
    files = [where]
    if os.path.isdir(where):
        files = [os.path.join(where, name) for name in sorted(parts_of(where), key=natural_order)]
    for each in files:
        check_readable(each)
    return files


def read_columns(
    path: StrPath, wanted: Callable[[list[str]], list[str]], named: bool = False
) -> dict[str, npt.NDArray[Any] | None]:
    """Read columns of a table of vertices; lists of equal length become the rows of a matrix.

    `wanted` chooses among the names of all columns. Columns that may hold ids are read too; if
    `named`, so is every column of strings. A column that was not read maps to None. An unnamed
    index of pandas is "index"; a null number is nan.
    """
    where = os.fspath(path)
    arrow = library("pyarrow", where, NEEDS)
    with _arrow_errors(where):
        table = _table_of(where)
        _warn_of_folders(where)
        names = list(table.schema.names)
        if len(set(names)) != len(names):
            raise InputError(f"{where}: two columns have the same name")
        chosen = wanted(names)
        kinds = {name: table.schema.field(name).type for name in names}
        texts = [n for n in names if n not in chosen and _is_text(arrow, kinds[n])]
        chosen += [n for n in texts if named or is_id_name(n)]
        renamed = INDEX not in chosen and "index" not in names
        whole = [name for name in names if arrow.types.is_integer(kinds[name])]
        rest = [name for name in whole if name not in chosen]
        first = table.head(SAMPLE, columns=rest).to_pydict() if rest else {}
        chosen += [name for name, column in first.items() if may_be_ids(name, column)]
        numbers = _count_of_numbers(table, chosen)
        _check_cost(numbers, where, f"{where}: reading {numbers:,} numbers")
        read = table.to_table(columns=chosen)
    found: dict[str, npt.NDArray[Any] | None] = dict.fromkeys(names)
    for name in chosen:
        if name in texts and not is_id_name(name) and read.column(name).null_count:
            continue  # a column with nulls does not hold ids
        found[name] = _array(arrow, read.column(name), f"{where}: column '{shown(name, 40)}'", True)
    columns = {"index" if renamed and name == INDEX else name: found[name] for name in found}
    return {**_range_of_pandas(table.schema.pandas_metadata, len(read)), **columns}


def _count_of_numbers(table: Any, chosen: list[str]) -> int:
    """Return how many numbers the chosen columns hold, including numbers within lists."""
    begins, count = tuple(f"{name}." for name in chosen), 0
    for known in (fragment.metadata for fragment in table.get_fragments()):
        for group in map(known.row_group, range(known.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                if f"{column.path_in_schema}.".startswith(begins):
                    count += column.num_values
    return count


def _range_of_pandas(known: Any, rows: int) -> dict[str, npt.NDArray[Any] | None]:
    """Return {name: index} if pandas stored only start, stop and step of the index, else {}.

    The name is "index" if the index has none. An index 0, 1, 2, ... gives {} too.
    """
    for each in (known or {}).get("index_columns", ()):
        if not isinstance(each, dict) or each.get("kind") != "range":
            continue
        ends: Any = [each.get(name) for name in ("start", "stop", "step")]
        if not all(isinstance(end, int) for end in ends):
            continue
        start, stop, step = ends
        if (start, step) == (0, 1):
            continue
        if step and len(range(start, stop, step)) == rows:
            return {each.get("name") or "index": np.arange(start, stop, step)}
    return {}


def _array(arrow: Any, column: Any, what: str, of_ids: bool = False) -> npt.NDArray[Any]:
    """Return a column's numbers, as a matrix if it holds lists; if `of_ids`, read text as ids."""
    kind, rows = column.type, len(column)
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or (
        arrow.types.is_fixed_size_list(kind)
    ):  # fmt: skip
        compute = library("pyarrow.compute", what, NEEDS)
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            raise InputError(f"{what} holds lists of different lengths, or empty ones")
        return _array(arrow, compute.list_flatten(column), what).reshape(rows, -1)
    if of_ids and _is_text(arrow, kind):
        _check_nulls(column, what, "ids")
        return names_of(column.cast(arrow.large_string()).to_numpy())
    known = (arrow.types.is_integer, arrow.types.is_floating, arrow.types.is_boolean)
    if not any(is_kind(kind) for is_kind in known):
        raise InputError(f"{what} holds '{kind}', not numbers; convert it by pandas.factorize")
    array: npt.NDArray[Any] = column.to_numpy()
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what}: {column.null_count} values are null; replace them by numbers")
    return array


def _check_nulls(column: Any, what: str, of: str) -> None:
    if column.null_count:
        compute = library("pyarrow.compute", what, NEEDS)
        row = compute.index(compute.is_null(column), True).as_py()
        told = f"{column.null_count:,} {of} are null, the first in row {row} (from 0)"
        raise InputError(f"{what}: {told}; leave these rows out (dropna of pandas)")


def _is_text(arrow: Any, kind: Any) -> bool:
    """Return whether a column of this type holds strings, plain or dictionary-encoded."""
    types, of = arrow.types, getattr(kind, "value_type", kind)
    text = types.is_string, types.is_large_string, getattr(types, "is_string_view", types.is_string)
    return not types.is_list(kind) and any(is_kind(of) for is_kind in text)


def _ids(column: Any, what: str) -> npt.NDArray[np.int64]:
    _check_nulls(column, what, "ids")
    ids: npt.NDArray[Any] = column.to_numpy()
    if (k := first_true((ids < 0) | (ids > np.iinfo(np.int64).max))) is not None:
        raise InputError(f"{what} holds '{ids[k]}', not a vertex id")
    return ids.astype(np.int64, copy=False)


FORMAT = Format(
    EXTENSIONS,
    read_parquet,
    gzip=False,
    options=(*ID_OPTIONS, "columns"),
    files=parts_of,
    needs=NEEDS,
    entries=ParquetEntries,
    read_columns=read_columns,
    what="edge lists in Parquet, a file or a folder of parts",
)
