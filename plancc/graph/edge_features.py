"""Features of vertices from features or weights of their edges."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.formats import FORMATS, Held, find_format, graph_keys
from plancc.graph.graph import Graph
from plancc.graph.vertexdata import VertexData, check_vertex_data

REDUCTIONS = ("mean", "sum")
LEFT_OUT = "is left out; a graph has one value per edge"
"""What is said of features of edges that are not taken."""


class EdgeFeatures(NamedTuple):
    """The edges of a source with their features; edge k is ``A[row[k], column[k]]``.

    Attributes:
        row, column: int[edges].
        features: number[edges, width].
    """

    row: npt.NDArray[np.integer]
    column: npt.NDArray[np.integer]
    features: npt.NDArray[Any]


def edge_features_of(
    obj: Any, keys: Mapping[str, str] | None = None, format: str | None = None
) -> EdgeFeatures | None:
    """The features of edges in a path or an object; None where the graph has all that there is."""
    if isinstance(obj, Held):
        return None if obj.edges is None else obj.edges()
    if not isinstance(obj, str | os.PathLike):
        return None
    read = FORMATS[find_format(obj, format)].read_edges
    found: EdgeFeatures | None = None if read is None else read(obj, keys=graph_keys(keys) or {})
    return found


@contextmanager
def taking_features(reduction: str | None) -> Iterator[None]:
    """Within it a graph is read without a word on features of edges, which a reduction takes."""
    with warnings.catch_warnings():
        if reduction is not None:
            warnings.filterwarnings("ignore", f".*{LEFT_OUT}")
        yield


def with_edge_features(
    data: VertexData,
    graph: Graph,
    reduction: str,
    edges: EdgeFeatures | None,
    *,
    symmetrize: bool = False,
    transpose: bool = False,
) -> VertexData:
    """The data with a feature of every vertex for each of its edges: their mean or sum.

    The edges of vertex i are those that it aggregates over, the row ``A[i, :]``, loops too.

    Parameters:
        reduction: A name in `REDUCTIONS`; sums are in float64.
        edges: With every edge that the source lists; None: the weights of the graph are the
            features.
        symmetrize, transpose: As the graph was read. As in its matrix, features of an edge that is
            listed both ways are added where it has values, and stay with their own direction where
            it has none.

    Raises:
        InputError: For a graph of types, if the vertices have features, or the edges have neither
            these nor weights.
    """
    where, n = graph.source.name, graph.num_vertices
    given = f"{where}: `features_from_edges` {reduction}"
    if graph.types is not None:
        raise InputError(f"{given} is for graphs of one type")
    if data.features is not None:
        raise InputError(f"{given}: the vertices have features; leave out one of them")
    if edges is not None:
        row, column, values = edges
        if transpose:
            row, column = column, row
        if symmetrize:
            off = row != column
            if graph.values is None:
                off = ~np.isin(column * np.int64(n) + row, row * np.int64(n) + column)
            row = np.concatenate([row, column[off]])
            values = np.concatenate([values, values[off]])
    elif graph.values is not None:
        row, values = np.repeat(np.arange(n), np.diff(graph.indptr)), graph.values[:, None]
    else:
        raise InputError(f"{given}: the edges have neither features nor weights")
    sums = np.stack([np.bincount(row, each, n) for each in values.T], axis=1).astype(np.float64)
    if reduction == "mean":
        sums = sums / np.bincount(row, minlength=n).clip(min=1)[:, None]
    found = replace(data, features=sums.astype(np.float32))
    return check_vertex_data(vars(found), graph, f"{given}: ")
