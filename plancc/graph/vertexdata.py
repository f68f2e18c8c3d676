"""Features, labels, targets, masks and clusters of all vertices, and their names in sources.

Sources have these names, all optional: ``features``; ``labels`` or ``targets``; ``train_mask``,
``val_mask``, ``test_mask``; ``clusters``; ``weights``. Targets are a matrix: of 0 and 1 if a vertex
may have several classes, else of real numbers. Other accepted names are in `ALIASES` and
`INDEX_LISTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath, atomic_write
from plancc.graph.mapped import MappedRows
from plancc.graph.types import Types

MASKS = ("train_mask", "val_mask", "test_mask")
KEYS = ("features", "labels", *MASKS, "clusters", "targets")
"""Names of the vertex data that plans hold."""
SOURCE_KEYS = (*KEYS, "weights")
"""Names of the vertex data that sources hold."""
ALIASES = {
    "features": ("x", "feat", "node_feat"),
    "labels": ("y", "label", "node_label"),
    "val_mask": ("valid_mask",),
    "weights": ("weight",),
}
"""Names that PyTorch Geometric, DGL and OGB have for vertex data."""
INDEX_LISTS = {
    "train_mask": ("train_idx", "train_index"),
    "val_mask": ("val_idx", "valid_idx", "val_index", "valid_index"),
    "test_mask": ("test_idx", "test_index"),
}
"""Names of lists of vertex numbers that sources may have instead of a mask."""
COLUMNS_MOVED = 16
"""Number of columns of features that are copied at a time when rows are reordered."""


@dataclass(frozen=True)
class VertexData:
    """Features, labels, targets, masks and clusters: arrays with a row for every vertex.

    In a plan, rows are in the order of the plan's rows, otherwise in the order of the vertices.

    Attributes:
        features (float32, float16 or int8[num_vertices, num_features], or None): Features. If their
            file is mapped into memory, they are a `plancc.graph.mapped.MappedRows`, and a row is
            read when it is used.
        labels (int32[num_vertices], or None): Class of every vertex; -1 if unknown.
        train_mask, val_mask, test_mask: bool[num_vertices], or None.
        clusters (int32[num_vertices], or None): Cluster of every vertex, from 0; the sampler
            `cluster` draws clusters.
        targets (bool[num_vertices, num_classes] or float32[num_vertices, num_targets], or None):
            Classes of every vertex, or real numbers to predict, instead of labels. A row of NaN
            stands for unknown targets.
        weights (int64[num_vertices, num_weights], or None): Weights for balance "weights"
            (`plancc.graph.weights`). Sources may have weights; plans have none.
        by_type: Data of every vertex type; None for a graph of one type.
    """

    features: npt.NDArray[Any] | None = None
    labels: npt.NDArray[np.int32] | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    val_mask: npt.NDArray[np.bool_] | None = None
    test_mask: npt.NDArray[np.bool_] | None = None
    clusters: npt.NDArray[np.int32] | None = None
    targets: npt.NDArray[np.bool_] | None = None
    weights: npt.NDArray[np.int64] | None = None
    by_type: DataByType | None = None

    @property
    def of_type(self) -> Mapping[str, VertexData]:
        """Data by vertex type, for the types that have data; empty for a graph of one type."""
        return {} if self.by_type is None else self.by_type.of_type

    def take(self, order: npt.NDArray[np.integer]) -> VertexData:
        """Return the data in another order: row k of the result is row ``order[k]``."""
        found: dict[str, Any] = {key: _taken(each, order) for key, each in self.arrays().items()}
        by_type = None if self.by_type is None else self.by_type.take(order)
        return VertexData(**found, by_type=by_type)

    def reordered(self, order: npt.NDArray[np.integer]) -> VertexData:
        """Return all rows in another order, as `take` does, but reorder the features in place.

        The caller must not use `self` afterwards. Features that are read-only are copied.
        """
        if np.array_equal(order, np.arange(len(order))):
            return self
        features = self.features
        if not (isinstance(features, np.ndarray) and features.flags.writeable):
            return self.take(order)
        for first in range(0, features.shape[1], COLUMNS_MOVED):
            columns = features[:, first : first + COLUMNS_MOVED]
            columns[:] = columns[order]
        return replace(replace(self, features=None).take(order), features=features)

    def arrays(self) -> dict[str, Any]:
        """Return the arrays that are not None, by the names of their attributes."""
        return {key: each for key in SOURCE_KEYS if (each := getattr(self, key)) is not None}

    def sizes(self) -> dict[str, int]:
        """Return sizes by name.

        The sizes are: the numbers of columns of the features and of the targets, the number of
        vertices without a target, the numbers of classes and of clusters, and the number of
        vertices in each mask; also those of every vertex type that has data.
        """
        sizes = {}
        if self.features is not None:
            sizes["features"] = self.features.shape[1]
        if self.targets is not None:
            real = self.targets.dtype.kind == "f"
            sizes["real_targets" if real else "targets"] = self.targets.shape[1]
            if real and (unknown := int(np.isnan(self.targets[:, 0]).sum())):
                sizes["without_targets"] = unknown
        for name, numbers in (("classes", self.labels), ("clusters", self.clusters)):
            if numbers is not None:
                sizes[name] = int(numbers.max(initial=-1)) + 1
        for mask in MASKS:
            if getattr(self, mask) is not None:
                sizes[mask] = int(getattr(self, mask).sum())
        for name, each in self.of_type.items():
            sizes |= {f"{key} of {name}": size for key, size in each.sizes().items()}
        return sizes


@dataclass(frozen=True)
class DataByType:
    """Vertex data of every vertex type; the width of an array may differ from type to type.

    Attributes:
        of_type: Data by type, without types that have no data; rows are in the order of `row_type`.
        row_type (int64[rows]): Index of the vertex type of every row, for the rows of all types.
    """

    of_type: Mapping[str, VertexData]
    types: Types
    row_type: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls, of_type: Mapping[str, VertexData], types: Types, vertices: npt.NDArray[np.integer]
    ) -> Self:
        """Combine the data of vertex types; `vertices`, int[rows], are numbered over all types.

        Rows of a type's data are in the order in which the type's vertices occur in `vertices`.
        """
        kept = {name: of_type[name] for name in types.counts if name in of_type}
        return cls(kept, types, types.type_of(vertices))

    @property
    def labelled(self) -> list[str]:
        """Names of the types with labels or targets."""
        found = self.of_type.items()
        return [n for n, each in found if each.labels is not None or each.targets is not None]

    def number(self, name: str) -> int:
        """Return the index of the vertex type `name`."""
        return self.types.names.index(name)

    def take(self, order: npt.NDArray[np.integer]) -> Self:
        """Return the data in another order: row k, counted over all types, is row ``order[k]``."""
        row_type, found = self.row_type[order], {}
        for name, each in self.of_type.items():
            place = np.cumsum(self.row_type == self.number(name)) - 1
            found[name] = each.take(place[order[row_type == self.number(name)]])
        return replace(self, of_type=found, row_type=row_type)

    def problem(self) -> str:
        """Return a sentence about an array with too few or too many rows; "" if there is none."""
        for name, each in self.of_type.items():
            rows = int((self.row_type == self.number(name)).sum())
            for key, array in each.arrays().items():
                if len(array) != rows:
                    return f"{key} of '{name}' have {len(array)} rows, but it has {rows} vertices"
        return ""


def _taken(array: Any, order: npt.NDArray[np.integer]) -> Any:
    """Return rows ``order`` of an array. If these are all rows of a mapped file, no row is read."""
    whole = isinstance(array, MappedRows) and len(order) == len(array)
    return array.take(order) if whole else array[order]


def as_array(value: Any, what: str) -> npt.NDArray[Any]:
    """Return an array or a tensor as a NumPy array; raise InputError for other objects."""
    if hasattr(value, "tocoo"):
        raise InputError(f"{what} is sparse; make it dense with `toarray`")
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{what} cannot be read as an array ({error})") from error


def save_vertex_data(data: VertexData, path: StrPath) -> None:
    """Write vertex data for `vertexsources.read_vertex_data`; features are stored dense."""
    if not (arrays := data.arrays()):
        raise InputError(f"{path}: there are no features, labels, masks or clusters to write")
    with atomic_write(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **arrays)
