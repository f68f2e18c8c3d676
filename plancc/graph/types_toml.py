"""Folders with a ``types.toml``, which names types and relations, and a file for each relation.

    [types]
    author = 5000
    paper = {count = 3000, features = "paper.npy", labels = "topic.npy"}

    [[relations]]
    source = "author"
    name = "writes"
    destination = "paper"
    file = "writes.mtx"
    edge_features = "since.npy"

A matrix has a row for every destination vertex and a column for every source vertex. An edge list
or a Parquet file has two columns of vertex numbers, which count from 0 within each type. The
destination is in the first column, or in the second if the names of the columns say so
(`plancc.graph.claims.is_source_first`). Edge features have a row for every edge of the file.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from plancc.errors import InputError, PlanccWarning, warn
from plancc.files import StrPath, read_toml
from plancc.graph.arrays import IntArray
from plancc.graph.claims import TOLD, is_source_first
from plancc.graph.edge_features import LEFT_OUT
from plancc.graph.edge_weights import SUMMED
from plancc.graph.edgelist import check_relation_file
from plancc.graph.formats import FORMATS, Format, find_format, split_names
from plancc.graph.graph import Graph, Source
from plancc.graph.listed_edges import EdgeFeatures, listing, with_features
from plancc.graph.named_ids import NAMED
from plancc.graph.npz import map_array
from plancc.graph.textfile import show
from plancc.graph.types import Relation, Types, check_relation, in_words
from plancc.graph.union import RECTANGULAR, Entries, united
from plancc.graph.vertexdata import INDEX_LISTS, SOURCE_KEYS
from plancc.graph.vertexsources import names_of_data
from plancc.text import shown

HEAD, EDGE_FEATURES = "types.toml", "edge_features"
_ENDS = ("source", "name", "destination")
_LISTS = {*chain.from_iterable(INDEX_LISTS.values())}
"""Names of lists of vertices."""


def graph_files(folder: str) -> list[str]:
    """Return ``types.toml`` and the files of relations; empty if there is no ``types.toml``."""
    if not os.path.isfile(os.path.join(folder, HEAD)):
        return []
    files = _read_head(folder)[1]
    return [HEAD, *dict.fromkeys(files.values())]


def _read_head(
    folder: str,
) -> tuple[dict[str, int], dict[Relation, str], dict[str, dict[str, str]], dict[Relation, str]]:
    """Return vertex counts, and the files of relations, vertex data and edge features."""
    path = os.path.join(folder, HEAD)
    head = read_toml(path)
    counts, listed = head.pop("types", None), head.pop("relations", None)
    if not isinstance(counts, dict) or not isinstance(listed, list) or head:
        others = "".join(f", not {shown(name)}" for name in [*head][:1])
        rule = "a table [types] of counts and tables [[relations]] are expected, and nothing else"
        raise InputError(f"{path}: {rule}{others}")
    data = {name: dict(each) for name, each in counts.items() if isinstance(each, dict)}
    for kind, of_type in data.items():
        if "count" not in of_type:
            raise InputError(f"{path}: type '{shown(kind)}' has no count of vertices")
        counts[kind] = of_type.pop("count")
        for key, name in of_type.items():
            _check_file(folder, name, f"{path}: {key} of type '{shown(kind)}'")
    files, features = dict[Relation, str](), dict[Relation, str]()
    for k, each in enumerate(listed, 1):
        if not isinstance(each, dict) or set(each) - {EDGE_FEATURES} != {*_ENDS, "file"}:
            rule = f"needs {', '.join(_ENDS)} and file, may have {EDGE_FEATURES}, and nothing else"
            raise InputError(f"{path}: relation {k} {rule}")
        relation: Any = tuple(each[name] for name in _ENDS)
        check_relation(relation, path)
        name = _check_file(folder, each["file"], f"{path}: {in_words(relation)}")
        if relation in files:
            raise InputError(f"{path}: {in_words(relation)} is listed twice")
        files[relation] = name
        if EDGE_FEATURES in each:
            what = f"{path}: {EDGE_FEATURES} of {in_words(relation)}"
            features[relation] = _check_file(folder, each[EDGE_FEATURES], what)
    try:
        Types(counts, tuple(files))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return counts, files, data, features


def _check_file(folder: str, name: Any, what: str) -> str:
    """Return the file name `name`; raise InputError unless the file is inside the folder."""
    inside = isinstance(name, str) and not os.path.isabs(name) and ".." not in name.split("/")
    if not inside or not os.path.isfile(os.path.join(folder, name)):
        raise InputError(f"{what}: '{shown(name)}' is not a file inside the folder")
    return str(name)


def read_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> dict[str, Any]:
    """Map the .npy files of vertex data into memory; return the arrays by type and name."""
    folder = os.fspath(path)
    counts, _, data, _ = _read_head(folder)
    for kind, of_type in data.items():
        for key in sorted(of_type.keys() - names_of_data(keys)):
            told = f"type '{shown(kind)}' has a key {show(key)}, which is not a name of vertex data"
            known = f"{', '.join(SOURCE_KEYS)}; `keys` reads other names"
            raise InputError(f"{os.path.join(folder, HEAD)}: {told}: {known}")
    found = {}
    for kind, of_type in data.items():
        files = {key: os.path.join(folder, name) for key, name in of_type.items()}
        found[kind] = {key: map_array(file) for key, file in files.items()}
        for key in found[kind].keys() - _LISTS:
            rows, count = np.shape(found[kind][key])[:1], counts[kind]
            if rows != (count,):
                told = f"{key} of type '{shown(kind)}' have {sum(rows):,} rows"
                cure = f"{HEAD} says {count:,} vertices; give every vertex one row"
                raise InputError(f"{files[key]}: {told}, but {cure}")
    return found


def read_relations(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """Read the graph of a folder with a ``types.toml``; see `plancc.graph.formats.read_graph`.

    InputError is raised if `symmetrize` or `transpose` is true.
    """
    folder = os.fspath(path)
    if symmetrize or transpose:
        raise InputError(f"{folder}: a typed graph cannot be read with `symmetrize` or `transpose`")
    counts, files, data, features = _read_head(folder)
    named = {*files.values(), *features.values()}.union(*map(dict.values, data.values()))
    kinds = (".npy", *(os.path.splitext(name)[1] or "." for name in files.values()))
    others = [name for name in sorted({*os.listdir(folder)} - named) if name.endswith(kinds)]
    others = [show(name) for name in others if not name.lower().startswith("readme")]
    if others:
        warn(f"{folder}: ignored: {', '.join(others)}, which {HEAD} does not name")
    if features:
        warn(f"{folder}: '{EDGE_FEATURES}' {LEFT_OUT}; to keep more, set `edge_features` to source")
    entries, told = dict[Relation, Entries](), list[str]()
    for relation, name in files.items():
        graph, row, column = _matrix(os.path.join(folder, name), relation, counts, pattern)
        entries[relation] = row, column, graph.values
        summed = SUMMED in graph.source.weight_range and graph.source.weight_range.split(", ")[-1]
        told += [
            f"of {in_words(relation)} {each}" for each in (summed, graph.source.counts) if each
        ]
    graph = united(counts, entries, Source.of_file(path, "relations", "the relations' values"))
    told += filter(None, [graph.source.counts])
    return replace(graph, source=replace(graph.source, counts=", ".join(told)))


def read_edges(path: StrPath, *, keys: Mapping[str, str]) -> dict[Relation, Any]:
    """Return the edge features by relation, in the order of each relation's nonzeros."""
    counts, files, _, features = _read_head(os.fspath(path))
    found = {}
    for relation, name in features.items():
        of, file = (os.path.join(path, each) for each in (files[relation], name))
        with listing() as edges:
            graph, *_ = _matrix(of, relation, counts, pattern=False)
        given = EdgeFeatures(edges[-1]._replace(relation=None), map_array(file))
        found[relation] = with_features(graph, given, file).edge_features
    return found


def _matrix(
    path: str, relation: Relation, counts: dict[str, int], pattern: bool
) -> tuple[Graph, IntArray, IntArray]:
    """Return the graph of a relation's file, and both ends of its nonzeros, int[nonzeros] each.

    Rows are numbered within the destination type, columns within the source type.
    """
    source, _, destination = relation
    sizes, where = [counts[destination], counts[source]], f"{path}: {in_words(relation)}"
    name = find_format(path)
    reader: Format = FORMATS[name]
    lists_ids = "num_vertices" in reader.options
    graph, turned = _read_file(path, name, relation, counts, pattern)
    row, column = graph.nonzero_rows(), graph.indices.astype(np.int64)
    shape = (graph.num_vertices, graph.num_vertices)
    if graph.types is not None:
        shape = (graph.types.counts["rows"], graph.types.counts["columns"])
        column -= shape[0]
    if not lists_ids and [*shape] != sizes:
        there = f"{sizes[0]} destination vertices and {sizes[1]} source vertices"
        raise InputError(f"{where}: the matrix is {shape[0]} x {shape[1]}, but there are {there}")
    for each, size in ((row, sizes[0]), (column, sizes[1])):
        if each.max(initial=-1) >= size:
            if name == "edgelist":
                check_relation_file(path, counts, relation)
            at = ""
            if reader.entries is not None:
                at = f", row {_first_far(reader, path, sizes[:: -1 if turned else 1])}"
            told = f"vertex '{each.max()}' is out of range 0..{size - 1}"
            raise InputError(f"{path}{at}: {in_words(relation)}: {told}")
    return graph, row, column


def _read_file(
    path: str, name: str, relation: Relation, counts: dict[str, int], pattern: bool
) -> tuple[Graph, bool]:
    """Return the graph of a relation's file, and whether the first column holds the sources.

    Errors and warnings of the reader are reworded: some of its advice does not fit a relation.
    """
    reader: Format = FORMATS[name]
    source, _, destination = relation
    options: dict[str, Any] = {"pattern": pattern, "symmetrize": False}
    most, turned = max(counts[source], counts[destination]), False
    if lists_ids := "num_vertices" in reader.options:
        options["num_vertices"] = most
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            # `united` has such warnings for the folder's own types
            warnings.filterwarnings("ignore", f"{RECTANGULAR}|{TOLD}")
            warnings.filterwarnings("ignore", ".*the smallest id is 1, and vertex 0 has no edge")
            warnings.filterwarnings("ignore", ".*the columns are read by their names")
            graph = reader.read(path, transpose=False, **options)
            names = split_names(graph.source.columns)
            if turned := lists_ids and is_source_first(names, source, destination):
                warnings.simplefilter("ignore")  # the first reading has warned
                graph = reader.read(path, transpose=True, **options)
        for heard in said:  # `columns` is not an option of a relation: drop this advice
            if heard.category is PlanccWarning:
                warn(re.sub(r" \(`columns`[^)]*\)", "", str(heard.message)))
        return graph, turned
    except InputError as error:
        words = str(error)
    if NAMED in words:
        cure = "must be numbers, from 0 within each type; number the vertices first"
        raise InputError(f"{path}: {in_words(relation)}: {NAMED}, and {cure}")
    chosen, cure = "Name them with `columns`", "Leave columns out, or name them source and target"
    if name == "edgelist" and chosen not in words:
        check_relation_file(path, counts, relation)
    raise InputError(words.replace(f" (`num_vertices` {most})", "").replace(chosen, cure))


def _first_far(reader: Format, path: str, sizes: list[int]) -> int:
    """Return the index of a table's first edge with an end out of range.

    `sizes` has the number of vertices at either end.
    """
    assert reader.entries is not None
    ends = [np.stack(edges[:2]) for edges in reader.entries(path, keep_ids=True)]
    wrong = np.concatenate(ends, axis=1) >= np.array(sizes)[:, None]
    return int(np.argmax(wrong.any(axis=0)))


FORMAT = Format(
    (),
    read_relations,
    gzip=False,
    files=graph_files,
    read_data=read_data,
    read_edges=read_edges,
    what="a folder of relations between types of vertices, and a types.toml",
)
