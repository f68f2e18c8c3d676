"""Functions that check vertex data and convert them to the types that plans hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.bounds import CLASSES, DENSE_PER_BYTE, check_classes, check_unpacked, max_clusters
from plancc.graph.graph import Graph, as_vertices
from plancc.graph.mapped import MappedRows, feature_type, is_mapped
from plancc.graph.npz import Archive
from plancc.graph.rowids import ids_of, reading_advice
from plancc.graph.types import Types
from plancc.graph.vertexdata import MASKS, DataByType, VertexData
from plancc.graph.wholeweights import whole_weights
from plancc.memory import check_memory
from plancc.text import shown

BLOCK = 1 << 22
"""Number of values that are checked at a time."""
EXACT = 1 << 24
"""All whole numbers up to this one are exact in float32."""
MOST_COLUMNS = 2**31 - 1
"""Largest number of columns of features."""


def check_vertex_data(
    arrays: Mapping[str, npt.ArrayLike | None],
    graph: Graph,
    where: str = "",
    names: Mapping[str, str] | None = None,
) -> VertexData:
    """Check vertex data, and return the data in the dtypes that plans hold.

    The keys of `arrays` are in `SOURCE_KEYS`; `names` maps them to names for error messages.
    """
    names = names or {}
    checked: dict[str, Any] = {key: each for key, each in arrays.items() if each is not None}
    for key, array in checked.items():
        if not isinstance(array, MappedRows):
            what = f"{where}key '{names.get(key, key)}'"
            checked[key] = _CHECKS[key](np.asarray(array), what)
    check_rows(checked, graph, where, names)
    if "clusters" in checked:
        _check_clusters(checked["clusters"], f"{where}key '{names.get('clusters', 'clusters')}'")
    if "labels" in checked and "targets" in checked:
        raise InputError(f"{where}keys 'labels' and 'targets' are both given; give one of them")
    return VertexData(**checked)


def checked_again(data: VertexData, graph: Graph) -> VertexData:
    """Check a `VertexData` that a user made, or its data of each vertex type, and return it."""
    if data.by_type is None or graph.types is None:
        return check_vertex_data(data.arrays(), graph)
    found = {
        name: check_vertex_data(each.arrays(), of_one_type(graph, name), f"type '{shown(name)}': ")
        for name, each in data.of_type.items()
    }
    return data_by_type(found, graph.types)


def of_one_type(graph: Graph, name: str) -> Graph:
    """Return a graph that has the vertices of one type, with their ids, and no edges."""
    assert graph.types is not None
    vertices, ids = graph.types.vertices(name), graph.original_ids
    return as_vertices(graph.types.counts[name], None if ids is None else ids[vertices])


def data_by_type(found: Mapping[str, VertexData], types: Types) -> VertexData:
    """Return the vertex data of a graph with vertex types; `found` may lack some types."""
    return VertexData(by_type=DataByType.of(found, types, np.arange(types.num_vertices)))


def check_labels(data: VertexData, where: str, graph: Graph) -> None:
    """Raise InputError for a class number far above the number of classes that occur."""
    for name, each in data.of_type.items():
        vertices = as_vertices(0 if each.labels is None else len(each.labels))
        check_labels(each, f"{where}: type '{shown(name)}'", vertices)
    if data.labels is not None:
        largest = int(data.labels.max(initial=-1))
        if largest >= CLASSES:  # smaller class numbers are always allowed
            vertex = ids_of(graph)[np.argmax(data.labels)]
            occurring = len(np.unique(data.labels[data.labels >= 0]))
            check_classes(largest, occurring, f"{where}: the label of vertex {vertex}")


def _check_clusters(clusters: npt.NDArray[np.int32], what: str) -> None:
    """Raise InputError for a cluster number far above the number of vertices."""
    if clusters.max(initial=-1) >= max_clusters(len(clusters)):
        told = f"'{clusters.max()}' in row {int(np.argmax(clusters))} (counted from 0)"
        cure = f"there are {len(clusters):,} vertices; number the clusters from 0"
        raise InputError(f"{what} holds {told}, but {cure}")


def check_rows(
    arrays: Mapping[str, npt.NDArray[Any]], graph: Graph, where: str, names: Mapping[str, str]
) -> None:
    """Raise InputError unless every array has a row for every vertex."""
    count, edges = graph.num_vertices, graph.num_nonzeros
    for key, array in arrays.items():
        if len(array) != count:
            alike = [names.get(each, each) for each in arrays if len(arrays[each]) == count]
            of_edges = f" ({edges:,} is the number of its edges)" * (len(array) == edges > 0)
            as_one = f", as many as '{alike[0]}' has rows" if alike else ""
            one = "label (-1: unknown)" if key == "labels" else "row"
            cure = reading_advice(len(array), graph) or f"; give every vertex one {one}"
            told = f"but the graph has {count} vertices{of_edges}{as_one}{cure}"
            raise InputError(f"{where}key '{names.get(key, key)}' has '{len(array)}' rows, {told}")


def _features(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    if array.ndim != 2 or not array.shape[1]:
        raise InputError(f"{what} must be a matrix, not of shape '{array.shape}'")
    if is_mapped(array):
        step = max(1, BLOCK // array.shape[1])
        for start in range(0, len(array), step):
            finite(array[start : start + step], what, start)
        rows: Any = MappedRows(array)
        return rows
    return finite(array, what)


def finite(array: npt.NDArray[Any], what: str, first: int = 0) -> npt.NDArray[Any]:
    """Return features in the dtype of plans; raise InputError unless all numbers are finite."""
    if array.dtype.kind not in "biuf":
        cure = "save it as float32 or integers"
        raise InputError(f"{what} holds '{array.dtype}', not real numbers; {cure}")
    with np.errstate(over="ignore"):
        kind = feature_type(array.dtype.newbyteorder("="))
        result = np.ascontiguousarray(array, dtype=kind)
    cure = "replace it, for example with torch.nan_to_num or np.nan_to_num"
    _refuse(array, ~np.isfinite(result), what, f", not a finite 32-bit number: {cure}", first)
    _warn_of_lost_digits(array, result, what)
    return result


def _warn_of_lost_digits(given: npt.NDArray[Any], made: npt.NDArray[Any], what: str) -> None:
    """Warn if large numbers lose digits in float32."""
    if given.dtype == made.dtype or not (abs(made) >= EXACT).any():
        return
    if lost := np.count_nonzero((made.astype(np.float64) != given) & (abs(made) >= EXACT)):
        told = f"{lost:,} of {given.size:,} numbers lose digits in float32"
        cure = "subtract the smallest number, or standardise them first"
        warn(f"{what}: {told}; the largest is {np.nanmax(given):,.15g}: {cure}")


def _refuse(
    array: npt.NDArray[Any], wrong: npt.NDArray[np.bool_], what: str, rule: str, first: int = 0
) -> None:
    """If `wrong` marks a number in `array`, raise InputError with its value, place and `rule`.

    `first` is the index of the array's first row in the source.
    """
    if not wrong.any():
        return
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    numbers = (int(place[0]) + first, *place[1:])
    words = ", ".join(f"{name} {k}" for name, k in zip(("row", "column"), numbers, strict=False))
    raise InputError(f"{what} holds '{array[place]}' in {words} (counted from 0){rule}")


def check_list(array: npt.NDArray[Any], what: str, kinds: str, words: str) -> None:
    """Raise InputError unless an array has one axis and a dtype whose kind is in `kinds`.

    `words` says in the message what the array must list, such as "integers".
    """
    if array.ndim == 1 and array.dtype.kind in kinds:
        return
    advice = ""
    if array.ndim == 1 and words == "integers":
        advice = "; np.unique(names, return_inverse=True)[1] turns names into numbers"
        if array.dtype.kind not in "US":
            advice = "; convert it, for example with y.long() or y.astype(int); -1 means unknown"
            advice += "; real numbers are called targets"
    raise InputError(
        f"{what} must be a list of {words}, not '{array.dtype}' of shape {array.shape}{advice}"
    )


def _integers(array: npt.NDArray[Any], what: str, least: int, rule: str) -> npt.NDArray[np.int32]:
    check_list(array, what, "iu", "integers")
    most = np.iinfo(np.int32).max
    _refuse(array, array > most, what, f"; the largest possible number is {most:,}")
    _refuse(array, array < least, what, f"; {rule}")
    return array.astype(np.int32)


def _mask(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.bool_]:
    check_list(array, what, "b", "booleans")
    return array


def _targets(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """Return targets as booleans if all are 0 or 1, else as float32; NaN in a row means unknown."""
    if array.ndim == 1 and array.dtype.kind == "f":
        array = array[:, np.newaxis]
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "biuf":
        rule = "must be a matrix of 0 and 1, or of real numbers"
        raise InputError(f"{what} {rule}, not '{array.dtype}' of shape {array.shape}")
    others = (array != 0) & (array != 1)
    if not others.any():
        return array.astype(np.bool_)
    if array.dtype.kind != "f":
        _refuse(array, others, what, "; targets are 0 or 1, or real numbers of a floating type")
    unknown = np.isnan(array)
    if not (others & ~unknown).any():
        rule = "targets of 0 and 1 must all be known; give one column as labels, with -1 if unknown"
        _refuse(array, others, what, f"; {rule}")
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(array, np.float32)
    wrong = ~np.isfinite(numbers) & ~unknown.all(axis=1, keepdims=True)
    rule = "if a target of a vertex is unknown, its whole row must be NaN"
    _refuse(array, wrong, what, f", not a finite 32-bit number; {rule}")
    _warn_of_lost_digits(array, numbers, what)
    return numbers


_CHECKS: dict[str, Callable[[npt.NDArray[Any], str], npt.NDArray[Any]]] = {
    "features": _features,
    "labels": partial(_integers, least=-1, rule="labels are integers >= -1 (-1: unknown)"),
    **dict.fromkeys(MASKS, _mask),
    "clusters": partial(_integers, least=0, rule="clusters are integers >= 0"),
    "targets": _targets,
    "weights": whole_weights,
}


def sparse_features(archive: Archive, graph: Graph) -> npt.NDArray[np.float32]:
    from scipy.sparse import csr_array

    shape = archive.integers("feat_shape", 2).tolist()
    count = graph.num_vertices
    if shape[0] != count:
        cure = reading_advice(shape[0], graph) or "; give every vertex one row"
        told = f"has '{shape[0]}' rows, but the graph has {count} vertices{cure}"
        raise InputError(f"{archive.name}: key 'feat_shape' {told}")
    if shape[1] < 1:
        raise InputError(f"{archive.name}: key 'feat_shape' needs >= 1 columns, not '{shape[1]}'")
    indices = archive.indices("feat_indices", shape[1])
    ptr = archive.offsets("feat_indptr", count, len(indices))
    data = archive["feat_data"]
    what = f"{archive.name}: key 'feat_data'"
    if data.shape != indices.shape:
        raise InputError(f"{what} must have {len(indices)} entries, not shape {data.shape}")
    matrix = csr_array((finite(data, what), indices, ptr), shape=tuple(shape))
    return dense(matrix, archive.name, what)


def dense(matrix: Any, path: StrPath, what: str) -> npt.NDArray[np.float32]:
    """Return a CSR or CSC array of scipy as dense features, float32[rows, columns].

    InputError is raised if the dense matrix is too wide or larger than the memory.
    """
    rows, columns = matrix.shape
    size = f"{what}, dense of shape {matrix.shape},"
    if columns > MOST_COLUMNS:
        raise InputError(f"{size} is too wide: features have at most {MOST_COLUMNS} columns")
    wanted = rows * columns * np.dtype(np.float32).itemsize
    check_unpacked(wanted, path, size, DENSE_PER_BYTE)
    check_memory(wanted, size)
    data = finite(matrix.data, what)
    if data.dtype == np.float16:  # scipy has no sparse matrices of float16
        data = data.astype(np.float32)
    parts = (data, matrix.indices, matrix.indptr)
    return type(matrix)(parts, matrix.shape).toarray()
