"""Features, labels, targets, masks and clusters in ``.npz`` files, in the source's vertex order.

Keys, all optional: ``features`` (dense) or ``feat_indptr``, ``feat_indices``, ``feat_data``,
``feat_shape`` (a CSR matrix); ``labels``, or for several classes per vertex ``targets`` (a matrix
of 0 and 1, which may also be called ``labels``); ``train_mask``, ``val_mask``, ``test_mask``;
``clusters``. Other keys are ignored. Pickled objects are never loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import atomic_write
from plancc.graph.npz import Archive
from plancc.graph.textfile import StrPath


@dataclass(frozen=True)
class VertexData:
    """Features, labels, targets, masks, clusters, one row per vertex; in a plan, in plan order.

    Attributes
    ----------
    features : float32[num_vertices, num_features], or None
    labels : int32[num_vertices], or None
        Class of every vertex; -1 where it is unknown.
    train_mask, val_mask, test_mask : bool[num_vertices], or None
    clusters : int32[num_vertices], or None
        Cluster of every vertex, from 0: what the sampler `cluster` draws.
    targets : bool[num_vertices, num_classes], or None
        In place of labels where a vertex may be of any number of classes.
    """

    features: npt.NDArray[np.float32] | None = None
    labels: npt.NDArray[np.int32] | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    val_mask: npt.NDArray[np.bool_] | None = None
    test_mask: npt.NDArray[np.bool_] | None = None
    clusters: npt.NDArray[np.int32] | None = None
    targets: npt.NDArray[np.bool_] | None = None

    def take(self, order: npt.NDArray[np.integer]) -> VertexData:
        """The same data with row k taken from row ``order[k]``."""
        arrays = (getattr(self, field.name) for field in fields(self))
        return VertexData(*(None if array is None else array[order] for array in arrays))


MASKS = ("train_mask", "val_mask", "test_mask")
KEYS = ("features", "labels", *MASKS, "clusters", "targets")


def read_vertex_data(path: StrPath, num_vertices: int) -> VertexData:
    """Read the data of all vertices.

    Parameters
    ----------
    path : str or PathLike
        An .npz file as the module describes. Sparse features are made dense.
    num_vertices : int
        Rows that every array must have.

    Raises
    ------
    InputError
        For a damaged archive, pickled objects, none of the keys, and what `check_vertex_data`
        refuses; the message names file, key and value.
    """
    with Archive(path) as archive:
        arrays = {key: archive[key] for key in KEYS if key in archive}
        if "features" not in arrays and "feat_indptr" in archive:
            arrays["features"] = _sparse_features(archive, num_vertices)
        if "targets" not in arrays and "labels" in arrays and arrays["labels"].ndim == 2:
            arrays["targets"] = arrays.pop("labels")
        if not arrays:
            raise InputError(
                f"{archive.name}: no vertex data: none of the keys '{', '.join(KEYS)}' is there"
            )
        return check_vertex_data(arrays, num_vertices, f"{archive.name}: ")


def check_vertex_data(
    arrays: Mapping[str, npt.ArrayLike | None], num_vertices: int, where: str = ""
) -> VertexData:
    """Vertex data in the types that plans hold.

    Parameters
    ----------
    arrays : mapping
        Some of `KEYS`.
    num_vertices : int
    where : str
        Put before every message.

    Raises
    ------
    InputError
        A wrong number of rows or dimensions, NaN or infinity, labels that are not integers >= -1,
        masks that are not boolean, clusters that are not integers >= 0, targets other than 0 and
        1, labels and targets both; the message names key and value.
    """
    checked = {
        key: _CHECKS[key](np.asarray(array), f"{where}key '{key}'")
        for key, array in arrays.items()
        if array is not None
    }
    for key, array in checked.items():
        if len(array) != num_vertices:
            raise InputError(
                f"{where}key '{key}' has '{len(array)}' rows, the graph {num_vertices} vertices"
            )
    if "labels" in checked and "targets" in checked:
        raise InputError(f"{where}keys 'labels' and 'targets' are both there; a graph has one")
    return VertexData(**checked)


def _features(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.float32]:
    if array.ndim != 2 or not array.shape[1]:
        raise InputError(f"{what} must be a matrix, not of shape '{array.shape}'")
    return _finite(array, what)


def _finite(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.float32]:
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} holds no numbers but '{array.dtype}'")
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(array, dtype=np.float32)
    wrong = ~np.isfinite(result)
    if wrong.any():
        raise InputError(f"{what} holds '{array[wrong][0]}', not a finite 32-bit number")
    return result


def _check_list(array: npt.NDArray[Any], what: str, kinds: str, words: str) -> None:
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise InputError(
            f"{what} must be a list of {words}, not '{array.dtype}' of shape {array.shape}"
        )


def _integers(array: npt.NDArray[Any], what: str, least: int, rule: str) -> npt.NDArray[np.int32]:
    _check_list(array, what, "iu", "integers")
    wrong = (array < least) | (array > np.iinfo(np.int32).max)
    if wrong.any():
        raise InputError(f"{what} holds '{array[wrong][0]}'; {rule}")
    return array.astype(np.int32)


def _mask(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.bool_]:
    _check_list(array, what, "b", "booleans")
    return array


def _targets(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.bool_]:
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "biuf":
        raise InputError(
            f"{what} must be a matrix of 0 and 1, not '{array.dtype}' of shape {array.shape}"
        )
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        raise InputError(f"{what} holds '{array[wrong][0]}'; targets are 0 or 1")
    return array.astype(np.bool_)


_CHECKS: dict[str, Callable[[npt.NDArray[Any], str], npt.NDArray[Any]]] = {
    "features": _features,
    "labels": partial(_integers, least=-1, rule="labels are integers >= -1 (-1: unknown)"),
    **dict.fromkeys(MASKS, _mask),
    "clusters": partial(_integers, least=0, rule="clusters are integers >= 0"),
    "targets": _targets,
}


def _sparse_features(archive: Archive, num_vertices: int) -> npt.NDArray[np.float32]:
    from scipy.sparse import csr_array

    shape = archive.integers("feat_shape", 2).tolist()
    if shape[0] != num_vertices:
        raise InputError(
            f"{archive.name}: key 'feat_shape' has '{shape[0]}' rows, "
            f"the graph {num_vertices} vertices"
        )
    if shape[1] < 1:
        raise InputError(f"{archive.name}: key 'feat_shape' holds '{shape[1]}' columns")
    indices = archive.indices("feat_indices", shape[1])
    ptr = archive.pointers("feat_indptr", num_vertices, len(indices))
    data = archive["feat_data"]
    if data.shape != indices.shape:
        raise InputError(
            f"{archive.name}: key 'feat_data' must have {len(indices)} entries, not '{data.shape}'"
        )
    data = _finite(data, f"{archive.name}: key 'feat_data'")
    return csr_array((data, indices, ptr), shape=tuple(shape)).toarray()


def save_vertex_data(data: VertexData, path: StrPath) -> None:
    """Write vertex data as `read_vertex_data` reads it; features are stored dense.

    Raises
    ------
    InputError
        If there is nothing to write.
    OutputError
        If the file cannot be written.
    """
    arrays = {key: getattr(data, key) for key in KEYS if getattr(data, key) is not None}
    if not arrays:
        raise InputError(f"{path}: there are no features, labels, masks or clusters to write")
    with atomic_write(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **arrays)
