"""Functions that find the column of ids in vertex data, and the row of every vertex."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.graph.formats import FORMATS, reading_of
from plancc.graph.graph import Graph, first_true
from plancc.graph.listed_edges import places_in
from plancc.graph.named_ids import are_names, as_ids, names_of
from plancc.graph.textfile import show
from plancc.graph.vertexdata import as_array
from plancc.text import shown

ROW_IDS = ("id", "ids")
"""Names of row ids; in tables, upper and lower case are the same."""
_OF_PANDAS = ("index", "unnamed: 0", "")
USUAL_IDS = (
    *("node_id", "nodeid", "vertex_id", "vertexid", "nid", "vid", "node", "vertex"),
    *_OF_PANDAS,
)
"""Other usual names of ids, in lower case; such a column must hold the ids of most vertices."""
_MOST = 0.9
"""A column with a usual name holds ids, some perhaps wrong, if it has the ids of this share of the
vertices.
"""
FEW = 2
"""Up to this number of vertices, a column of 0 and 1 may hold every vertex by chance."""
SAMPLE = 200
"""Number of rows at the beginning of a table that are tested for ids."""
GRAPH_IDS = ("n_id", "ids")
"""Names of arrays of vertex ids that may accompany an ``edge_index``."""


def rows_by_id(ids: npt.NDArray[Any], graph: Graph, what: str) -> npt.NDArray[np.intp]:
    """Return the row of every vertex, int[num_vertices].

    `ids`, int or bytes[rows] from `like_ids_of`, has the id of every row, in any order. If a vertex
    has no row, InputError is raised. With a warning, rows of no vertex are left out, and ids off by
    1 are shifted.
    """
    vertices, ids = ids_of(graph), one_column(ids)
    kinds, called = ("S", "names") if are_names(vertices) else ("iu", "integers")
    if ids.ndim != 1 or ids.dtype.kind not in kinds:
        given = f"'{ids.dtype}' of shape {ids.shape}"
        raise InputError(f"{what} must be a list of vertex ids, {called}, not {given}")
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]
    if shift := _shift(ascending, vertices):
        told = f"ids count from {ascending[0]} here, the graph's from {vertices.min()}"
        warn(f"{what}: {told}: {-shift:+d} is added to each id")
        ascending = ascending - shift
    if (k := first_true(ascending[1:] == ascending[:-1])) is not None:
        raise InputError(f"{what} holds {show(ascending[k])} twice; give every id one row")
    place = places_in(ascending, vertices)
    there = place >= 0
    if not there.all():
        differ = f"; an id here is {show(ids[0])}" * (not there.any())
        if kinds == "iu" and ascending[0] == 1 and vertices.min() == 0:
            differ = "; ids count from 1 here, the graph's from 0"
        told = f"vertex {show(vertices[~there][0])} of the graph has no row"
        missing = f"({np.count_nonzero(~there):,} of {len(vertices):,} vertices have none)"
        cure = "give every vertex a row; a label of -1 means that the label is unknown"
        raise InputError(f"{what}: {told} {missing}{differ}: {cure}")
    if others := len(ids) - len(vertices):
        all_there = ascending[0] == 0 and ascending[-1] == len(ids) - 1 and has_choice(graph)
        kept = f"; `num_vertices` {len(ids)}, or `keep_ids`, makes them vertices" * bool(all_there)
        told = f"{others:,} of {len(ids):,} rows are left out"
        warn(f"{what}: {told}: their ids do not occur in the graph{kept}")
    return order[place]


def one_column(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a matrix of one column as an array of one axis; return other arrays unchanged."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _shift(ascending: npt.NDArray[Any], vertices: npt.NDArray[Any]) -> int:
    """Return by how much the ids `ascending` are larger than the graph's ids: 1, -1, or 0.

    The result is 0 unless both lists are consecutive numbers, one from 0 and the other from 1.
    """
    if are_names(vertices):
        return 0
    count, least = len(vertices), vertices.min(initial=2)
    if len(ascending) != count or {ascending[:1].sum(), least} != {0, 1}:
        return 0
    whole = ascending[-1] - ascending[0] == vertices.max() - least == count - 1
    return int(ascending[0] - least) * bool(whole)


def is_id_name(name: str) -> bool:
    """Whether a column of this name usually holds ids."""
    return name.strip().lower() in (*ROW_IDS, *USUAL_IDS)


def may_be_ids(name: str, first: Sequence[Any]) -> bool:
    """Whether a column may hold ids, judged by its name and its first entries."""
    if not all(isinstance(each, int) or str(each).isdecimal() for each in first):
        return False
    return name.strip().lower() in ROW_IDS or len({*first}) == len(first)


def id_column(
    columns: Mapping[str, npt.NDArray[Any] | None], taken: Collection[str], graph: Graph, where: str
) -> str | None:
    """Return the name of the column of row ids; None if rows are in the order of the vertices.

    Raise InputError if a column holds every vertex's id once, but in another order, and its name is
    not a usual name for ids.
    """
    vertices = ids_of(graph)
    rest = {name: each for name, each in columns.items() if each is not None and name not in taken}
    lower = {name: name.strip().lower() for name in rest}
    for name in rest:
        if lower[name] in ROW_IDS:
            return name
    for name in (each for usual in USUAL_IDS for each in rest if lower[each] == usual):
        share = _share_named(rest[name], vertices)
        if share == 1 or (share >= _MOST and lower[name] not in _OF_PANDAS):
            return name
    for name, column in rest.items():
        if _share_named(column, vertices) < 1:
            continue
        if not are_in_order(column, vertices):
            told = f"column {show(name)} holds every vertex once, not in the graph's order"
            cure = f"if it names the vertex of each row, call it 'id' or give `keys` id={name}"
            raise InputError(f"{where}: {told}; {cure}; if not, give `keys` with an empty id: id=")
        if are_names(vertices):
            return name
    return None


def ids_of(graph: Graph) -> npt.NDArray[Any]:
    """Return the ids of all vertices, int64[n] or bytes[n].

    They are the vertices' numbers if the graph has no ids, or if several types have the same ids.
    """
    ids = graph.original_ids
    if ids is None or (graph.types and len(np.unique(ids)) < len(ids)):
        return np.arange(graph.num_vertices)
    return ids


def ids_beside(held: Mapping[str, Any], count: int) -> tuple[str, npt.NDArray[Any]] | None:
    """Return key and ids (int64 or bytes[count]) of the first entry of `held` with ids, or None."""
    for name in GRAPH_IDS:
        given = held.get(name)
        if isinstance(given, np.ndarray) and given.dtype.kind in "OTU":
            given = given.tolist()
        ids = as_ids(given) if isinstance(given, list | tuple) else given
        if tuple(getattr(ids, "shape", ())) == (count,):
            ids = as_array(ids, f"'{name}'")
            if ids.dtype.kind in "iuS":
                return name, ids if are_names(ids) else ids.astype(np.int64)
    return None


def vertex_ids(held: Any, count: int) -> npt.NDArray[Any] | None:
    """Return the ids that `ids_beside` finds; None if they are 0..n-1, repeated or negative."""
    _, ids = (isinstance(held, Mapping) and ids_beside(held, count)) or ("", None)
    if ids is None or len(ascending := np.unique(ids)) < count:
        return None
    numbers = not are_names(ids) and (ascending[0] < 0 or np.array_equal(ids, np.arange(count)))
    return None if numbers else ids


def _share_named(column: Any, vertices: npt.NDArray[Any]) -> float:
    """Return the share of the vertices whose ids occur in a column.

    The share counts as 0 if the column repeats an id, and as 1 if the column's ids are those of the
    vertices plus 1, or minus 1 (`_shift`).
    """
    kinds = "S" if are_names(vertices) else "iuf"
    if column.ndim != 1 or not len(vertices) or column.dtype.kind not in kinds:
        return 0.0
    if column.dtype.kind == "f" and not ((column == np.floor(column)) & (column < 2**53)).all():
        return 0.0
    ids = np.sort(column if kinds == "S" else column.astype(np.int64))
    if (ids[1:] == ids[:-1]).any():
        return 0.0
    if _shift(ids, vertices):
        return 1.0
    return np.count_nonzero(places_in(ids, vertices) >= 0) / len(vertices)


def are_in_order(column: npt.NDArray[Any], vertices: npt.NDArray[Any]) -> bool:
    """Whether a column holds the ids of all vertices in the order of the vertices.

    If ids are numbers, all ids in the column may differ from the vertices' ids by the same amount.
    """
    if are_names(vertices):
        return np.array_equal(column, vertices)
    return len(column) == len(vertices) and bool(
        (column.astype(np.int64) - vertices == int(column[0]) - vertices[0]).all()
    )


def begins_with_ids(table: npt.NDArray[np.float64], graph: Graph) -> bool:
    """Whether the first column of a table without names holds every vertex's id exactly once.

    The column may also hold every id plus 1, or every id minus 1. The result is False for a table
    of one column, and for a graph of at most `FEW` vertices.
    """
    vertices = ids_of(graph)
    return table.shape[1] > 1 and len(vertices) > FEW and _share_named(table[:, 0], vertices) == 1


def is_running(name: str, column: npt.NDArray[Any] | None) -> bool:
    """Whether a column is the index of rows that pandas or R writes, from 0 or 1."""
    if column is None or name.strip().lower() not in _OF_PANDAS:
        return False
    numbers = (np.arange(first, first + len(column)) for first in (0, 1))
    return any(np.array_equal(column, names_of(k) if are_names(column) else k) for k in numbers)


def natural_order(name: str) -> list[Any]:
    """Return a key that sorts names by the numbers in them: part.2 before part.10."""
    words: list[Any] = re.split(r"([0-9]+)", name)
    words[1::2] = map(int, words[1::2])
    return words


def warn_of_parts(folder: str, names: Sequence[str], what: str) -> None:
    """Warn if a folder's files are not read in alphabetical order: part.2 before part.10."""
    for plain, name in zip(names, sorted(names, key=natural_order), strict=True):
        if plain != name and os.path.isdir(folder):
            order = f"by the numbers in their names, {show(name)} before {show(plain)}"
            warn(f"{folder}: its {len(names)} files are read {order}: {what}")
            return


def like_ids_of(ids: npt.NDArray[Any], graph: Graph) -> npt.NDArray[Any]:
    """Return ids of rows, converted to names if the graph's ids are names."""
    return names_of(ids) if are_names(ids_of(graph)) else ids


def warn_of_order(graph: Graph, where: str) -> None:
    """Warn that rows without ids are taken in the order of the vertices, if this may be wrong.

    The order may be wrong if ids do not ascend or, in a graph from a file, are names or have gaps.
    """
    ids, in_file = graph.original_ids, bool(graph.source.sha256)
    if ids is None or graph.types is not None:  # the ids of types are separate
        return
    if in_file if are_names(ids) else (np.diff(ids) != 1 if in_file else np.diff(ids) < 0).any():
        order = f"in the graph's order of vertices ({_first(ids)}); if the rows have another order"
        warn(f"{where}rows without ids are read {order}, give a key or column 'id'")


def warn_of_lines(graph: Graph, path: Any) -> None:
    """Warn, if ids are names, that line k of the file `path` is taken for vertex k."""
    ids: Any = graph.original_ids
    if isinstance(path, str | os.PathLike) and are_names(ids):
        warn(f"{os.fspath(path)}: lines are read in the graph's order of vertices ({_first(ids)})")


def warn_of_numbers(graph: Graph, what: str) -> None:
    """Warn that the numbers `what` are read as vertex numbers, if the source has other ids."""
    if graph.original_ids is not None:
        others = f"not as the source's ids ({_first(graph.original_ids)})"
        warn(f"{what} are read as vertex numbers from 0, {others}")


def _first(ids: npt.NDArray[Any]) -> str:
    return ", ".join(shown(each, 40) for each in ids[:4].tolist()) + ", ..." * (len(ids) > 4)


def has_choice(graph: Graph) -> bool:
    """Whether the graph's format has the option `num_vertices`; False if the ids are names."""
    name = graph.source.format
    known = name in FORMATS and not are_names(graph.original_ids)
    return known and "num_vertices" in FORMATS[name].options


def reading_advice(rows: int, graph: Graph) -> str:
    """Return ": " and advice on how to read the graph so that it has `rows` vertices, or ""."""
    if not has_choice(graph):
        return ""
    ids, count = graph.original_ids, graph.num_vertices
    if kept := {"keep_ids", "num_vertices"} & reading_of(graph.source.reading).keys():
        from_one = bool(rows == count - 1 and graph.indptr[1] == 0 and graph.indices.all())
        cure = f": vertex 0 has no edge; if ids count from 1, leave out `{min(kept)}`"
        return cure * from_one
    least, largest = (0, count - 1) if ids is None else (int(ids.min()), int(ids.max()))
    if rows <= largest - (least == 1):
        return ""
    if least == 1 and rows - 1 == largest == count:
        return ": vertices count from 0 here, and the graph's ids from 1"
    occur = f"ids up to {largest} occur in the graph, {count} in all"
    subtract = "subtract 1 from them, and " * (rows == largest)
    return f": {occur}; {subtract}read it with `num_vertices` {rows}"
