"""Functions that read the weights of vertices, for balance "weights".

A text has a line for every vertex: weights, separated by commas, tabs or blanks, and perhaps an id.
With ids, lines may be in any order. The column of ids has a known name
(`plancc.graph.rowids.id_column`). If columns have no names, it is the first column, if this column
holds every id once, or if it holds strings and the graph's ids are strings.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.formats import format_of_table
from plancc.graph.graph import Graph
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.npz import map_array
from plancc.graph.rowids import ROW_IDS, begins_with_ids, id_column, ids_of
from plancc.graph.textfile import check_readable, fail, input_errors, is_number, open_input
from plancc.graph.vertexdata import VertexData
from plancc.graph.vertexsources import read_vertex_data, vertex_data_of
from plancc.graph.vertextables import MOST_NAMES, TableReading, class_numbers, line_of, read_numbers
from plancc.graph.wholeweights import RULE, first_wrong


def weighted(graph: Graph, weights: Any) -> Graph:
    """Return the graph with vertex weights from a file (`read_weights`) or an array.

    An array is number[num_vertices] or number[num_vertices, num_weights], in vertex order.
    """
    if isinstance(weights, str | os.PathLike):
        return replace(graph, vertex_weights=read_weights(weights, graph))
    found = vertex_data_of({"weights": weights}, graph, "`weights`: ").weights
    return replace(graph, vertex_weights=found)


def with_own_weights(graph: Graph, data: VertexData) -> tuple[Graph, VertexData]:
    """Return graph and vertex data, after moving the weights from the data to the graph."""
    if data.weights is None:
        return graph, data
    return replace(graph, vertex_weights=data.weights), replace(data, weights=None)


def read_weights(path: StrPath, graph: Graph) -> npt.NDArray[np.int64]:
    """Read weights of all vertices, int64[num_vertices, num_weights]; fractions are scaled.

    The file is ``.npy``; ``.npz`` or ``.parquet`` with a key or column "weights" or "weight"; or a
    text, plain or .gz, as the module describes.
    """
    name = os.fspath(path)
    plain = name.lower().removesuffix(".gz")
    if plain.endswith(".npz") or format_of_table(name) is not None:
        found = read_vertex_data(path, graph).weights
    else:
        check_readable(name)
        held = {"weights": map_array(name)} if plain.endswith(".npy") else _read_text(name, graph)
        found = vertex_data_of(held, graph, f"{name}: ").weights
    if found is None:
        raise InputError(f"{name}: the file has vertex data, but no 'weight'")
    return found


def _read_text(name: str, graph: Graph) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a text file: "weights", and "id" if there is a column of ids."""
    named = are_names(ids_of(graph))
    with input_errors(name), open_input(name) as stream:
        line = stream.readline(MOST_NAMES).decode("utf-8-sig", "replace").strip()
    mark = next((each for each in ("\t," if named else ",\t") if each in line), None)
    words = [word.strip() for word in line.split(mark)]
    skipped, ids = int(not all(map(is_number, words))), list[int]()
    if named:
        texts = np.char.strip(read_numbers(name, mark, dtype=np.str_, reading=TableReading()))
        words = texts[0].tolist()
        skipped = int(not any(map(is_number, words)))
        table = names_of(texts[skipped:])
        ids = [k for k, word in enumerate(table[:1].flat) if not is_number(word)][:1]
    else:
        table = read_numbers(name, mark, skipped)
    if skipped and len(words) == table.shape[1]:
        alone = [word for word in words if len(words) == 1 and word.lower() not in ROW_IDS]
        taken = ("weight", "weights", *alone)
        called = id_column(dict(zip(words, table.T, strict=True)), taken, graph, name)
        ids = ids if called is None else [words.index(called)]
    elif not skipped and begins_with_ids(table, graph):
        ids = [0]
    of_ids, weights = table[:, ids], np.delete(table, ids, axis=1)
    if named:
        others = tuple(np.delete(np.arange(table.shape[1]), ids).tolist())
        reading = TableReading(others, names=tuple(words) if skipped else ())
        weights = read_numbers(name, mark, skipped, reading=reading)
    if (wrong := first_wrong(weights)) is not None:
        fail(name, line_of(name, wrong[0], skipped), f"{RULE}, not", f"{weights[wrong]:g}")
    if not ids:
        return {"weights": weights}
    column = of_ids[:, 0] if named else class_numbers(of_ids[:, 0], f"{name}: the column of ids")
    return {"weights": weights, "id": column}
