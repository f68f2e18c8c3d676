"""Features, labels and masks in ``.npz`` files, in the source's vertex order.

Keys, all optional: ``features`` (dense) or ``feat_indptr``, ``feat_indices``, ``feat_data``,
``feat_shape`` (a CSR matrix); ``labels``; ``train_mask``, ``val_mask``, ``test_mask``. Other keys
are ignored. Pickled objects are never loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import atomic_write
from plancc.graph.npz import Archive
from plancc.graph.textfile import StrPath


@dataclass(frozen=True)
class VertexData:
    """Features, labels and masks, one row per vertex; in a plan, in plan order.

    Attributes
    ----------
    features : float32[num_vertices, num_features], or None
    labels : int32[num_vertices], or None
        Class of every vertex; -1 where it is unknown.
    train_mask, val_mask, test_mask : bool[num_vertices], or None
    """

    features: npt.NDArray[np.float32] | None = None
    labels: npt.NDArray[np.int32] | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    val_mask: npt.NDArray[np.bool_] | None = None
    test_mask: npt.NDArray[np.bool_] | None = None

    def take(self, order: npt.NDArray[np.integer]) -> VertexData:
        """The same data with row k taken from row ``order[k]``."""
        arrays = (getattr(self, field.name) for field in fields(self))
        return VertexData(*(None if array is None else array[order] for array in arrays))


MASKS = ("train_mask", "val_mask", "test_mask")
KEYS = ("features", "labels", *MASKS)


def read_vertex_data(path: StrPath, num_vertices: int) -> VertexData:
    """Read the data of all vertices.

    Parameters
    ----------
    path : str or PathLike
        An .npz file as the module describes. Sparse features are made dense.
    num_vertices : int
        Rows that every array must have.

    Returns
    -------
    VertexData
        features float32[num_vertices, num_features], labels int32[num_vertices] (-1: unknown),
        masks bool[num_vertices]; None where the file has none.

    Raises
    ------
    InputError
        For a damaged archive, pickled objects, none of the keys, a wrong length, NaN or infinity,
        labels that are not integers >= -1, masks that are not boolean; the message names file, key
        and value.
    """
    with Archive(path) as archive:
        sparse = "feat_indptr" in archive
        if not sparse and not any(key in archive for key in KEYS):
            raise InputError(
                f"{archive.name}: no vertex data: none of the keys '{', '.join(KEYS)}' is there"
            )
        features: npt.NDArray[np.float32] | None = None
        if "features" in archive:
            features = _check_features(archive, "features", archive["features"], num_vertices)
        elif sparse:
            features = _sparse_features(archive, num_vertices)
        return VertexData(
            features,
            _labels(archive, num_vertices),
            *(_mask(archive, key, num_vertices) for key in MASKS),
        )


def _check_length(archive: Archive, key: str, length: int, num_vertices: int) -> None:
    if length != num_vertices:
        raise InputError(
            f"{archive.name}: key '{key}' has '{length}' rows, the graph {num_vertices} vertices"
        )


def _check_features(
    archive: Archive, key: str, value: npt.NDArray[Any], num_vertices: int | None
) -> npt.NDArray[np.float32]:
    if num_vertices is not None:
        if value.ndim != 2 or not value.shape[1]:
            raise InputError(
                f"{archive.name}: key '{key}' must be a matrix, not of shape '{value.shape}'"
            )
        _check_length(archive, key, len(value), num_vertices)
    if value.dtype.kind not in "biuf":
        raise InputError(f"{archive.name}: key '{key}' holds no numbers but '{value.dtype}'")
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(value, dtype=np.float32)
    wrong = ~np.isfinite(result)
    if wrong.any():
        raise InputError(
            f"{archive.name}: key '{key}' holds '{value[wrong][0]}', not a finite 32-bit number"
        )
    return result


def _sparse_features(archive: Archive, num_vertices: int) -> npt.NDArray[np.float32]:
    from scipy.sparse import csr_array

    shape = archive.integers("feat_shape", 2).tolist()
    _check_length(archive, "feat_shape", shape[0], num_vertices)
    if shape[1] < 1:
        raise InputError(f"{archive.name}: key 'feat_shape' holds '{shape[1]}' columns")
    indices = archive.indices("feat_indices", shape[1])
    ptr = archive.pointers("feat_indptr", num_vertices, len(indices))
    data = archive["feat_data"]
    if data.shape != indices.shape:
        raise InputError(
            f"{archive.name}: key 'feat_data' must have {len(indices)} entries, not '{data.shape}'"
        )
    data = _check_features(archive, "feat_data", data, None)
    return csr_array((data, indices, ptr), shape=tuple(shape)).toarray()


def _labels(archive: Archive, num_vertices: int) -> npt.NDArray[np.int32] | None:
    if "labels" not in archive:
        return None
    labels = archive.integers("labels")
    _check_length(archive, "labels", len(labels), num_vertices)
    wrong = (labels < -1) | (labels > np.iinfo(np.int32).max)
    if wrong.any():
        raise InputError(
            f"{archive.name}: key 'labels' holds '{labels[wrong][0]}'; labels are integers >= -1 "
            "(-1: unknown)"
        )
    return labels.astype(np.int32)


def _mask(archive: Archive, key: str, num_vertices: int) -> npt.NDArray[np.bool_] | None:
    if key not in archive:
        return None
    mask = archive[key]
    if mask.ndim != 1 or mask.dtype != np.bool_:
        raise InputError(
            f"{archive.name}: key '{key}' must be a list of booleans, not '{mask.dtype}' of shape "
            f"{mask.shape}"
        )
    _check_length(archive, key, len(mask), num_vertices)
    return mask


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
        raise InputError(f"{path}: there are no features, labels or masks to write")
    with atomic_write(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **arrays)
