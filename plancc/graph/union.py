"""Functions that make the union graph of several vertex types from a matrix for each relation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.graph.canonical import (
    ZEROS,
    as_values,
    build_graph,
    check_finite,
    detect_direction,
    with_weight_range,
)
from plancc.graph.columns import columns_of
from plancc.graph.graph import Graph, Source, check_num_vertices, first_outside
from plancc.graph.listed_edges import list_edges
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.types import Relation, Types, first_of_columns, in_words
from plancc.text import shown

IntArray = npt.NDArray[np.integer]
Entries = tuple[IntArray, IntArray, npt.NDArray[Any] | None]
"""Row (destination), column (source) and value of every entry; values are None for a pattern."""
_RULE = "vertices count from 0 within their type"
RELATION = ("columns", "A", "rows")
"""The only relation of a graph that is made from a rectangular matrix."""
RECTANGULAR = ".*(of type '(rows|columns)' have no edges|'columns A rows' has no edges)"
"""Regular expression that matches the warnings of `united` about a rectangular matrix."""


def united(counts: Mapping[str, int], entries: Mapping[Relation, Entries], source: Source) -> Graph:
    """Return the union graph of several relations; it is undirected if its pattern is symmetric.

    If some relations have values, the edges of all other relations get the value 1.
    """
    with_source = f"{source.name}: "
    try:
        types = Types(dict(counts), tuple(entries))
    except InputError as error:
        raise InputError(f"{with_source}{error}") from None
    is_weighted = any(values is not None for _, _, values in entries.values())
    rows, columns, weights = [], [], []
    for relation, (row, column, values) in entries.items():
        start, _, end = relation
        for each, name in ((row, end), (column, start)):
            if (k := first_outside(each, types.counts[name])) is not None:
                told = f"vertex '{each[k]}' of type '{shown(name)}' is out of range"
                bound = f"0..{types.counts[name] - 1}: {_RULE}"
                raise InputError(f"{with_source}{in_words(relation)}: {told} {bound}")
        if values is None:
            values = np.ones(len(row), np.float32)
        rows.append(row + types.vertices(end).start)
        columns.append(column + types.vertices(start).start)
        weights.append(as_values(values, f"{with_source}{in_words(relation)}"))
    values = np.concatenate(weights) if is_weighted else None
    ends = np.concatenate(rows), np.concatenate(columns)
    for relation, (row, _, _) in entries.items():
        if not len(row):
            warn(f"{with_source}{in_words(relation)} has no edges")
    idle = np.ones(types.num_vertices, np.bool_)
    for vertices in (*rows, *columns):
        idle[vertices] = False
    for name, count in types.counts.items():
        if alone := int(idle[types.vertices(name)].sum()):
            what = f"{alone:,} of {count:,} vertices of type '{shown(name)}' have no edges"
            warn(f"{with_source}{what}")
    for remark in (*_counted_otherwise(types, entries), *_twins(entries)):
        warn(f"{with_source}{remark}")
    number = np.repeat(np.arange(len(rows), dtype=np.uint16), [len(each) for each in rows])
    if types.are_parallel:
        list_edges(*ends, number, values)
        graph = _parallel(types, ends, number, values, source)
        return replace(graph, directed=detect_direction(without_relations(graph)).directed)
    graph = build_graph(types.num_vertices, *ends, values, source=source)
    list_edges(*ends, number, values)
    return replace(detect_direction(graph), types=types)


def with_ids(graph: Graph, of_types: Sequence[npt.NDArray[Any] | None]) -> Graph:
    """Return the graph with vertex ids, given by type; None stands for the ids 0, 1, 2, ...

    Ids of a type are distinct. If the ids of one type are names, the ids of all types become names.
    """
    assert graph.types is not None
    counts = graph.types.counts.values()
    if all(each is None for each in of_types):
        return graph
    every = [np.arange(n) if x is None else x for n, x in zip(counts, of_types, strict=True)]
    named = any(map(are_names, every))
    return replace(graph, original_ids=np.concatenate([*map(names_of, every)] if named else every))


def _counted_otherwise(types: Types, entries: Mapping[Relation, Entries]) -> Iterator[str]:
    """Yield remarks on types whose ids seem to start from 1, or after the ids of other types."""
    least = [
        (relation, name, int(ends.min()))
        for relation, (row, column, _) in entries.items()
        for ends, name in ((column, relation[0]), (row, relation[2]))
        if len(ends)
    ]
    if least and all(smallest == 1 for *_, smallest in least):
        told = "vertex 0 of every type has no edges"
        yield f"{told}: {_RULE}; if your ids count from 1, subtract 1"
        return
    for relation, name, smallest in least:
        before = types.vertices(name).start
        if before > 1 and smallest == before:
            told = f"no edge has a vertex of '{shown(name)}' below {before:,}, and {before:,}"
            why = f"is the number of vertices of the types before: {_RULE}"
            cure = f"if your ids count over all types, subtract {before:,}"
            yield f"{in_words(relation)}: {told} {why}; {cure}"


def _twins(entries: Mapping[Relation, Entries]) -> Iterator[str]:
    """Yield a remark for each relation that has the same two types and edges as another."""
    seen: dict[Any, Relation] = {}
    for relation, (row, column, _) in entries.items():
        key = frozenset((relation[0], relation[2])), len(row), int(row.sum()), int(column.sum())
        other = seen.setdefault(key, relation)
        same = np.array_equal(row, entries[other][0]) and np.array_equal(column, entries[other][1])
        if other == relation or not len(row) or not same:
            continue
        pairs = np.stack([row, column]).astype(np.int64)
        there, back = (np.unique(each[0] << 32 | each[1]) for each in (pairs, pairs[::-1]))
        if not np.array_equal(there, back):  # otherwise the relation is its own reverse
            told = f"has the edges of {in_words(other)}, source for source"
            yield f"{in_words(relation)} {told}: a reverse relation exchanges source and target"


def _parallel(
    types: Types,
    ends: tuple[IntArray, IntArray],
    relation: npt.NDArray[np.uint16],
    values: npt.NDArray[Any] | None,
    source: Source,
) -> Graph:
    """Return the graph of relations, some of which are parallel (they join the same two types).

    Entries with equal row, column and relation are merged. Nonzeros are sorted by these three.
    """
    n, (row, column) = types.num_vertices, ends
    check_num_vertices(n, source.name)
    order = np.lexsort((relation, column, row))
    row, column, relation = row[order], column[order], relation[order]
    first = np.ones(len(row), np.bool_)
    first[1:] = (np.diff(row) != 0) | (np.diff(column) != 0) | (np.diff(relation) != 0)
    kept = np.flatnonzero(first)
    source = with_weight_range(source, values, len(row) - len(kept))
    if values is not None:
        values = np.add.reduceat(values[order], kept) if len(kept) else values
        check_finite(values, source.name)
        source = source.counting(ZEROS, int((values == 0).sum()))
        kept, values = kept[values != 0], values[values != 0]
    indptr = np.searchsorted(row[kept], np.arange(n + 1)).astype(np.int64)
    columns, relation = column[kept].astype(np.int32), relation[kept]
    carried = columns_of(relation=relation)
    return Graph(indptr, columns, values, source=source, types=types, columns=carried)


def without_relations(graph: Graph) -> Graph:
    """Return the graph without relations; nonzeros with the same row and column are summed.

    Searches need the result, in which the columns of every row are distinct.
    """
    if graph.relation is None:
        return graph
    first, values = first_of_columns(graph.indptr, graph.indices), graph.values
    if values is not None and len(values):
        values = np.add.reduceat(values, np.flatnonzero(first))
    return replace(replace(graph, columns={}).only(first), values=values)


def rectangular(
    shape: tuple[int, int],
    entries: Entries,
    source: Source,
    *,
    symmetrize: bool = False,
    transpose: bool = False,
) -> Graph:
    """Return a rectangular matrix as a graph with types "rows" and "columns" and one relation."""
    row, column, values = entries
    if transpose:
        shape, row, column = (shape[1], shape[0]), column, row
    if symmetrize:
        told = f"a matrix of {shape[0]} rows and {shape[1]} columns cannot be symmetric"
        raise InputError(f"{source.name}: {told}; read it without `symmetrize`")
    counts = {"rows": shape[0], "columns": shape[1]}
    return united(counts, {RELATION: (row, column, values)}, source)


def block_of(graph: Graph, relation: Relation) -> Any:
    """Return the matrix of a relation: csr_array[destination vertices, source vertices]."""
    from scipy.sparse import csr_array

    assert graph.types is not None
    source, _, destination = relation
    values = np.ones(graph.num_nonzeros) if graph.values is None else graph.values
    if graph.relation is not None:
        values = values * (graph.relation == graph.types.relations.index(relation))
    shape = (graph.num_vertices,) * 2
    whole = csr_array((values, graph.indices, graph.indptr), shape=shape, copy=True)
    whole.sum_duplicates()
    whole.eliminate_zeros()
    return whole[graph.types.vertices(destination), graph.types.vertices(source)]


def entries_of(matrix: Any, where: str) -> Entries:
    """Return the entries of a sparse matrix of scipy; `where` begins messages."""
    if len(matrix.shape) != 2:
        raise InputError(f"{where}: a graph needs a matrix, not an array of shape {matrix.shape}")
    coo = matrix.tocoo()
    row, column = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    if coo.data.dtype == np.bool_:
        return row[coo.data], column[coo.data], None
    return row, column, as_values(coo.data, where)
