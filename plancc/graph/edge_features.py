"""Functions that read edge features from the graph's source, a file or an array."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.graph.arrays import FloatArray
from plancc.graph.formats import FORMATS, Held, find_format, graph_keys
from plancc.graph.graph import Graph
from plancc.graph.listed_edges import EdgeFeatures, ListedEdges, with_features
from plancc.graph.npz import map_array
from plancc.graph.types import Types, in_words
from plancc.graph.vertexdata import as_array
from plancc.text import shown

LEFT_OUT = "is left out; a graph has one value per edge"
"""End of the warning about edge features that are not used."""
OF_SOURCE = "source"
"""Value of the option `edge_features` that asks for the features in the graph's source."""


def edge_features_of(
    obj: Any, keys: Mapping[str, str] | None = None, format: str | None = None
) -> Any:
    """Return the `EdgeFeatures` of a path or an object; None if there are none.

    With several vertex types, features are by relation, in the order of the relation's edges.
    """
    if isinstance(obj, Held):
        return None if obj.edges is None else obj.edges()
    if not isinstance(obj, str | os.PathLike):
        return None
    read = FORMATS[find_format(obj, format)].read_edges
    return None if read is None else read(obj, keys=graph_keys(keys) or {})


def with_edges(
    graph: Graph,
    given: Any,
    listed: Sequence[ListedEdges] | None = None,
    source: Any = None,
    *,
    keys: Mapping[str, str] | None = None,
    format: str | None = None,
    symmetrize: bool = False,
) -> Graph:
    """Return the graph with features of its edges.

    `given` has the order of the source's edges: number[edges, width], a .npy file, arrays by
    relation, or `OF_SOURCE`. The source's edges are the last entry of `listed`; without `listed`,
    they are the graph's nonzeros.
    """
    where = f"{graph.source.name}: `edge_features`"
    edges = listed[-1] if listed else ListedEdges.of_nonzeros(graph)
    if isinstance(given, str) and given == OF_SOURCE:
        given = edge_features_of(source, keys, format)
        given = given.features if isinstance(given, EdgeFeatures) else given
        if given is None or not len(given):
            raise InputError(f"{where} {OF_SOURCE}: the source has no features of edges")
    elif isinstance(given, str | os.PathLike):
        where = f"{where} {os.fspath(given)}"
        if not os.fspath(given).endswith(".npy"):
            raise InputError(f"{where}: give features as .npy, or '{OF_SOURCE}' for the source's")
        given = map_array(given)
    if graph.types is not None:
        given = _relation_features(given, graph.types, edges, where)
    elif isinstance(given, Mapping):
        raise InputError(f"{where}: features are given by relation, but the graph has no types")
    found = EdgeFeatures(edges, as_array(given, where))
    return with_features(graph, found, where, symmetrize=symmetrize)


def _relation_features(given: Any, types: Types, edges: ListedEdges, where: str) -> FloatArray:
    """Return the features of all edges, float64[edges, width]; zeros where `given` has none."""
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: the graph has types; give features by relation")
    named = ((types.relation(name), each) for name, each in given.items())
    by_relation = {each: as_array(of, f"{where}: {in_words(each)}") for each, of in named}
    arrays = {each: of[:, None] if of.ndim == 1 else of for each, of in by_relation.items()}
    widths = {each: of.shape[1] for each, of in arrays.items() if of.ndim == 2}
    if len(widths) < len(arrays) or len({*widths.values()}) != 1:
        said = shown(", ".join(f"{each[1]} {widths.get(each, 0)}" for each in arrays)) or "none"
        rule = "all relations with features need the same number of columns"
        raise InputError(f"{where}: {rule}, but the numbers are {said}; add columns of zeros")
    assert edges.relation is not None
    found = np.zeros((len(edges.row), *{*widths.values()}))
    for relation, features in arrays.items():
        of_relation = np.flatnonzero(edges.relation == types.relations.index(relation))
        if len(features) != len(of_relation):
            told = f"there are {len(features):,} rows of features for {len(of_relation):,} edges"
            cure = "give a row for every edge, in the order of the source"
            raise InputError(f"{where}: {in_words(relation)}: {told}; {cure}")
        found[of_relation] = features
    return found


@contextmanager
def taking_features(taken: bool) -> Iterator[None]:
    """Context manager: if `taken`, readers do not warn that edge features are left out."""
    with warnings.catch_warnings():
        if taken:
            warnings.filterwarnings("ignore", f".*{LEFT_OUT}")
        yield
