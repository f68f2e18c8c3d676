"""Features, labels, targets, masks and clusters of all vertices, in the source's vertex order.

Sources have these names, all optional: ``features``; ``labels``, or ``targets`` (a matrix of 0 and
1 for several classes per vertex, or of real numbers; also called ``labels``); ``train_mask``,
``val_mask``, ``test_mask``; ``clusters``; ``weights``. `ALIASES` and `INDEX_LISTS` say how else
these may be called. Other names are ignored. Pickled objects are never loaded.
"""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from math import prod
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.files import atomic_write
from plancc.graph.bounds import (
    CLASSES,
    DENSE_PER_BYTE,
    allowing,
    check_classes,
    check_unpacked,
    most_clusters,
)
from plancc.graph.formats import FORMATS, Format, data_keys, find_format, format_of_table
from plancc.graph.graph import Graph
from plancc.graph.mapped import MappedRows, feature_type, is_mapped
from plancc.graph.npz import Archive, map_array, read_npz_data
from plancc.graph.rowids import GRAPH_IDS, ROW_IDS, rows_by_id, warn_of_order, why_not
from plancc.graph.signatures import check_kind
from plancc.graph.textfile import StrPath, check_readable, input_errors, open_input, show
from plancc.graph.types import Types
from plancc.graph.wholeweights import whole_weights
from plancc.memory import check_memory
from plancc.registry import check_choice
from plancc.text import shown


@dataclass(frozen=True)
class VertexData:
    """Features, labels, targets, masks, clusters, one row per vertex; in a plan, in plan order.

    Attributes:
        features (float32, float16 or int8[num_vertices, num_features], or None): Of a mapped file
            `plancc.graph.mapped.MappedRows`: nothing is read that is not looked at.
        labels (int32[num_vertices], or None): Class of every vertex; -1 where it is unknown.
        train_mask, val_mask, test_mask: bool[num_vertices], or None.
        clusters (int32[num_vertices], or None): Cluster of every vertex, from 0: what the sampler
            `cluster` draws.
        targets (bool[num_vertices, num_classes] or float32[num_vertices, num_targets], or None): In
            place of labels: of which classes a vertex is, or its real numbers; a row of NaN where
            these are unknown.
        weights (int64[num_vertices, num_weights], or None): For balance "weights"
            (`plancc.graph.weights`); of sources only, plans have none.
        by_type: Of a graph of types.
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
        """The data of every type that has some."""
        return {} if self.by_type is None else self.by_type.of_type

    def take(self, order: npt.NDArray[np.integer]) -> VertexData:
        """The same data with row k taken from row ``order[k]``."""
        found: dict[str, Any] = {key: _taken(each, order) for key, each in self.arrays().items()}
        by_type = None if self.by_type is None else self.by_type.take(order)
        return VertexData(**found, by_type=by_type)

    def reordered(self, order: npt.NDArray[np.integer]) -> VertexData:
        """`take` of all rows, which are held once: features change places in memory.

        So nobody else may need `self` any more; features that cannot be written are copied.
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
        """What there is of rows of all types, by the names of the attributes."""
        return {key: each for key in SOURCE_KEYS if (each := getattr(self, key)) is not None}

    def sizes(self) -> dict[str, int]:
        """Columns of features and targets, classes, clusters, vertices in every mask."""
        sizes = {}
        if self.features is not None:
            sizes["features"] = self.features.shape[1]
        if self.targets is not None:
            real = self.targets.dtype.kind == "f"
            sizes["real_targets" if real else "targets"] = self.targets.shape[1]
            if real and (unknown := int(np.isnan(self.targets[:, 0]).sum())):
                sizes["without_targets"] = unknown
        if self.labels is not None:
            sizes["classes"] = int(self.labels.max(initial=-1)) + 1
        if self.clusters is not None:
            sizes["clusters"] = int(self.clusters.max(initial=-1)) + 1
        for mask in MASKS:
            if getattr(self, mask) is not None:
                sizes[mask] = int(getattr(self, mask).sum())
        for name, each in self.of_type.items():
            sizes |= {f"{key} of {name}": size for key, size in each.sizes().items()}
        return sizes


@dataclass(frozen=True)
class DataByType:
    """Vertex data of every type by itself, with its own widths.

    Attributes:
        of_type: Of types that have some: a row for every row that is of the type, in the same
            order.
        row_type (int64[rows]): Number of the type of every row of all types.
    """

    of_type: Mapping[str, VertexData]
    types: Types
    row_type: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls, of_type: Mapping[str, VertexData], types: Types, vertices: npt.NDArray[np.integer]
    ) -> Self:
        """The data of rows that are these vertices of the union."""
        kept = {name: of_type[name] for name in types.counts if name in of_type}
        return cls(kept, types, types.type_of(vertices))

    @property
    def labelled(self) -> list[str]:
        """Types with labels or targets."""
        found = self.of_type.items()
        return [n for n, each in found if each.labels is not None or each.targets is not None]

    def number(self, name: str) -> int:
        """Number of a type."""
        return self.types.names.index(name)

    def take(self, order: npt.NDArray[np.integer]) -> Self:
        """The same data with row k, of all types, taken from row ``order[k]``."""
        row_type, found = self.row_type[order], {}
        for name, each in self.of_type.items():
            place = np.cumsum(self.row_type == self.number(name)) - 1
            found[name] = each.take(place[order[row_type == self.number(name)]])
        return replace(self, of_type=found, row_type=row_type)

    def problem(self) -> str:
        """Which data have no row for every vertex of their type; "" if all have."""
        for name, each in self.of_type.items():
            rows = int((self.row_type == self.number(name)).sum())
            for key, array in each.arrays().items():
                if len(array) != rows:
                    return f"{key} of '{name}' have {len(array)} rows, there are {rows} vertices"
        return ""


def _taken(array: Any, order: npt.NDArray[np.integer]) -> Any:
    """Some rows of an array; those of a file are not read, where they are all of them."""
    whole = isinstance(array, MappedRows) and len(order) == len(array)
    return array.take(order) if whole else array[order]


COLUMNS_MOVED = 16
"""Columns of features that are copied at once while rows change places."""
MASKS = ("train_mask", "val_mask", "test_mask")
KEYS = ("features", "labels", *MASKS, "clusters", "targets")
"""Names of what plans hold."""
SOURCE_KEYS = (*KEYS, "weights")
"""Names of what sources hold."""
ALIASES = {
    "features": ("x", "feat", "node_feat"),
    "labels": ("y", "label", "node_label"),
    "val_mask": ("valid_mask",),
    "weights": ("weight",),
}
"""Other names of what sources hold, as PyTorch Geometric, DGL and OGB have them."""
INDEX_LISTS = {
    "train_mask": ("train_idx", "train_index"),
    "val_mask": ("val_idx", "valid_idx", "val_index", "valid_index"),
    "test_mask": ("test_idx", "test_index"),
}
"""Names of lists of vertex numbers that stand in place of a mask."""
BLOCK = 1 << 22
"""Numbers of a file that are looked at together."""
MOST_NAMES = 1 << 26
"""Longest line of column names, in bytes."""
MOST_COLUMNS = 2**31 - 1
"""Widest features."""
OF_GRAPHS = frozenset(
    (
        *("edge_index", "adj_t", "edge_weight", "edge_attr", "edge_feat", "edge_time"),
        *("num_nodes", "num_nodes_list", "num_edges_list", "indptr", "indices", "row", "col"),
        *("data", "format", "shape", "feat_indptr", "feat_indices", "feat_data", "feat_shape"),
    )
)
"""Names that are of a graph, or of sparse features."""
MOST_LISTED = 5
"""Most names that a warning spells out."""
NO_GRAPH = (".npy", ".csv", ".tsv")
"""Extensions of files that hold vertex data and no graph, where vertex data are asked for; those of
tables (`plancc.graph.formats.format_of_table`) too."""
_NUMBERED = {
    "features": re.compile(r"(features?|feat|node_feat|x|f|)_?(\d{1,9})"),
    "targets": re.compile(r"(targets?)_?(\d{1,9})"),
}
"""Names of columns that are a matrix together."""


def read_vertex_data(
    path: StrPath | Sequence[StrPath],
    num_vertices: int | Graph,
    *,
    format: str | None = None,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
    required: bool = True,
    allow_large: bool = False,
) -> VertexData:
    """Read the data of all vertices.

    Parameters:
        path: ``.npz`` with names as the module describes, or sparse features as ``feat_indptr``,
            ``feat_indices``, ``feat_data``, ``feat_shape`` (CSR), which are made dense. ``.npy``: a
            matrix is the features, a list of whole numbers the labels, of others the targets.
            ``.csv``, ``.tsv``, also ``.gz``: a column of integers is the labels, several columns
            are the features; with a line of names the columns that have one of ours. Or a graph
            file or folder of a format that holds vertex data too. Of several sources every array
            may be in one.
        num_vertices: Rows that every array must have.
        format: Name of a format in `plancc.graph.formats.FORMATS`, whatever the extension.
        split: The split to take where the source has several: its name, or the column of masks that
            have one for every split.
        keys: The source's names of some of `SOURCE_KEYS`, as in ``{"features": "X_pca", "labels":
            "leiden"}``. Of several sources one must have the name.
        required: Whether a source without vertex data is wrong.
        allow_large: Read larger data than a file of its size should hold, and class numbers far
            above the number of classes that occur (`plancc.graph.bounds`).

    Raises:
        InputError: For a damaged file, pickled objects, none of the names, several splits and no
            choice among them, and what `check_vertex_data` refuses; the message names file, key and
            value.
        BackendUnavailable: If the library that reads this format is not installed.
    """
    with allowing(large=allow_large):
        if not isinstance(path, str | os.PathLike):
            data = _merged(path, num_vertices, split, keys)
            where = ", ".join(os.fspath(each) for each in path)
        else:
            where = os.fspath(path)
            held = _held(path, num_vertices, format, split, keys, required)
            if held is None:
                return VertexData()
            choice: Any = {"split": split, "keys": keys, "required": required}
            data = vertex_data_of(held, num_vertices, f"{where}: ", **choice)
        _check_labels(data, where)
        return data


def _held(
    path: StrPath,
    num_vertices: int | Graph,
    format: str | None,
    split: str | None,
    keys: Mapping[str, str] | None,
    required: bool = True,
) -> Mapping[str, Any] | None:
    """What a source holds, by its own names; None if its format holds no vertex data."""
    name = os.fspath(path)
    plain = name.lower().removesuffix(".gz")
    held: Mapping[str, Any]
    table = format_of_table(plain) if format is None and required else None
    if table is not None and table.read_columns is not None:
        held = _of_columns(table.read_columns(path, partial(_wanted, keys=keys)), keys, name)
    elif format is None and plain.endswith(NO_GRAPH) and required:
        if plain.endswith(".npy"):
            held = _read_array_file(name)
        else:
            held = _read_table(name, num_vertices, keys)
    else:
        read: Callable[..., Mapping[str, Any]] = read_npz_data
        if format is not None or os.path.isdir(name) or not _unknown(name):
            known = find_format(path, format)
            of_format: Format = FORMATS[known]
            if of_format.read_data is None:
                if not required and not data_keys(keys):
                    return None
                able = [each for each in FORMATS if FORMATS.loaded()[each].read_data is not None]
                raise InputError(
                    f"{name}: format '{known}' holds no vertex data; give .npz, .npy, .csv, or a "
                    f"source of format {', '.join(able)}"
                )
            read = of_format.read_data
        held = read(path, split=split, keys=keys or {})
    if isinstance(held, Archive):
        held = _of_archive(held, num_vertices, keys or {})
    return held


def _unknown(name: str) -> bool:
    """Whether no format has the extension."""
    try:
        find_format(name)
    except InputError:
        return True
    return False


def _merged(
    paths: Sequence[StrPath],
    num_vertices: int | Graph,
    split: str | None,
    keys: Mapping[str, str] | None,
) -> VertexData:
    found: dict[str, Any] = {}
    home: dict[str, str] = {}
    missing = data_keys(keys)
    for path in paths:
        held = _held(path, num_vertices, None, split, keys) or {}
        where = f"{os.fspath(path)}: "
        choice: Any = {"split": split, "keys": keys, "elsewhere": len(paths) > 1}
        data = vertex_data_of(held, num_vertices, where, **choice)
        missing = {key: name for key, name in missing.items() if name not in held}
        if data.by_type is not None:
            if len(paths) > 1:
                raise InputError(f"{where}data by type are of one source: give it alone")
            return data
        for key, array in data.arrays().items():
            if key in found:
                raise InputError(f"{os.fspath(path)}: {key} are in {home[key]} too; give one")
            found[key], home[key] = array, os.fspath(path)
    for name in missing.values():
        listed = ", ".join(os.fspath(path) for path in paths)
        raise InputError(f"key '{name}' is missing in all of {listed}")
    return VertexData(**found)


def names_of_data(keys: Mapping[str, str]) -> set[str]:
    """All names of arrays that are taken, ids of rows too, with those that `keys` choose."""
    others = (*ALIASES.values(), *INDEX_LISTS.values(), keys.values())
    return {*SOURCE_KEYS, *ROW_IDS, *chain.from_iterable(others)}


def _of_archive(
    archive: Archive, num_vertices: int | Graph, keys: Mapping[str, str]
) -> dict[str, Any]:
    """All names of an archive; arrays that cannot be vertex data are not read, and None."""
    wanted = names_of_data(keys)
    found: dict[str, Any] = {name: archive[name] if name in wanted else None for name in archive}
    if "feat_indptr" in found and "features" not in found:
        ids = _row_ids(found)
        rows = num_vertices if ids is None else len(found[ids])
        found["features"] = _sparse_features(archive, rows)
    return found


def vertex_data_of(
    held: Mapping[str, Any],
    num_vertices: int | Graph,
    where: str = "",
    *,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
    required: bool = True,
    elsewhere: bool = False,
    in_order: bool = False,
) -> VertexData:
    """Vertex data from arrays (numpy, torch) by the names of their source.

    Parameters:
        held (mapping of str to array): Names as in `SOURCE_KEYS`, `ALIASES`, `INDEX_LISTS`; others
            are ignored. Of a graph of types also such a mapping for every type, by its name.
        num_vertices, split, keys, required: As in `read_vertex_data`.
        where: Put before every message.
        elsewhere: Whether another source may have what `keys` name.
        in_order: Whether rows are in the order of the vertices, whatever their ids.

    Raises:
        InputError: As `read_vertex_data`.

    Warns:
        PlanccWarning: If rows without ids are of vertices whose ids do not ascend.
    """
    types = None if isinstance(num_vertices, int) else num_vertices.types
    of_types = {*(() if types is None else types.counts)} - names_of_data(keys or {})
    if types is not None and (
        any(isinstance(each, Mapping) for each in held.values()) or of_types & held.keys()
    ):
        return _by_type(held, types, where, split, keys)
    count = num_vertices if isinstance(num_vertices, int) else num_vertices.num_vertices
    arrays: dict[str, npt.NDArray[Any]] = {}
    lists: dict[str, Any] = {}
    called: dict[str, str] = {}
    keys = data_keys(keys)
    for key in keys:
        check_choice("name of vertex data", key, SOURCE_KEYS)
    for key in SOURCE_KEYS:
        if key in keys and keys[key] not in held and not elsewhere:
            raise InputError(f"{where}key '{keys[key]}' is missing; there are {_listed(held)}")
        names = (keys[key],) if key in keys else (key, *ALIASES.get(key, ()))
        for name in names:
            value = held.get(name)
            if key == "weights" and not (required or _has_rows(value, count)):
                continue  # a graph's own, of edges
            if value is not None:
                arrays[key], called[key] = as_array(value, f"{where}key '{name}'"), name
                break
        else:
            for name in () if key in keys else INDEX_LISTS.get(key, ()):
                value = held.get(name)
                if value is not None:
                    lists[key], called[key] = value, name
                    break
    ids = None if in_order else _row_ids(held, called.values())
    rows = count
    if ids is not None and (arrays or lists):
        called["ids"] = ids
        of_rows = as_array(held[ids], f"{where}key '{ids}'")
        rows = len(of_rows) if of_rows.ndim else 0
    own = _own_ids(held, num_vertices)
    if own is not None:
        called["original_ids"] = own
    if arrays or lists or not (required or elsewhere):
        _warn_of_unused(held, called, rows, where)
    if not arrays and not lists:
        if not required:
            return VertexData()
        raise InputError(
            f"{where}no vertex data: none of the keys '{', '.join(SOURCE_KEYS)}' is there, but "
            f"{_listed(held)}"
        )
    for key in arrays.keys() & set(MASKS):
        arrays[key] = _of_0_and_1(arrays[key], rows, f"{where}key '{called[key]}'", key)
    if ids is None:
        if own is None:
            warn_of_order(num_vertices, where)
        _check_rows({k: v for k, v in arrays.items() if v.ndim}, num_vertices, where, called)
        for key, value in lists.items():
            arrays[key] = _mask_of(value, num_vertices, f"{where}key '{called[key]}'")
    else:
        for key, array in arrays.items():
            if not array.ndim or len(array) != rows:
                raise InputError(
                    f"{where}key '{called[key]}' of shape {array.shape} must have a row for each "
                    f"of the {rows} ids of '{ids}'"
                )
        of_vertices = rows_by_id(of_rows, num_vertices, f"{where}key '{ids}'")
        for key, value in lists.items():
            arrays[key] = _mask_of_ids(value, of_rows, f"{where}key '{called[key]}'")
        arrays = {key: array[of_vertices] for key, array in arrays.items()}
    labels = arrays.get("labels")
    if labels is not None:
        real = called["labels"] != "labels" and _has_fractions(labels)
        if labels.ndim == 2 and labels.shape[1] == 1 and labels.dtype.kind in "iu":
            arrays["labels"] = labels[:, 0]
        elif (labels.ndim == 2 or real) and "targets" not in arrays:
            arrays["targets"], called["targets"] = arrays.pop("labels"), called["labels"]
    for key in MASKS:
        if key in arrays:
            arrays[key] = _of_split(arrays[key], split, f"{where}key '{called[key]}'")
    return check_vertex_data(arrays, num_vertices, where, called)


def _by_type(
    held: Mapping[Any, Any],
    types: Types,
    where: str,
    split: str | None,
    keys: Mapping[str, str] | None,
) -> VertexData:
    """`vertex_data_of` of a mapping for every type; rows beside relations are in their order."""
    found, missing = {}, data_keys(keys)
    choice: Any = {"split": split, "keys": keys, "required": False, "elsewhere": True}
    choice["in_order"] = any(isinstance(name, tuple) for name in held)
    for name, given in held.items():
        if not isinstance(name, str) or name.startswith("_"):
            continue  # relations, and what is of the whole graph
        what = f"{where}type '{shown(name)}': "
        if name not in types.counts:
            raise InputError(f"{what}is unknown; types are {shown(', '.join(types.counts), 200)}")
        if not isinstance(given, Mapping):
            raise InputError(f"{what}give a mapping of names to arrays")
        for key in ("weights", *ALIASES["weights"], missing.get("weights")):
            if given.get(key) is not None:
                raise InputError(
                    f"{what}key {show(key)}: weights of some of the types are not taken: "
                    "`weights` takes one vector, of all vertices, type after type"
                )
        data = vertex_data_of(given, types.counts[name], what, **choice)
        missing = {key: each for key, each in missing.items() if each not in given}
        if data.arrays():
            found[name] = data
    for each in missing.values():
        raise InputError(f"{where}key '{each}' is missing in all types")
    return VertexData(by_type=DataByType.of(found, types, np.arange(types.num_vertices)))


def _has_fractions(labels: npt.NDArray[Any]) -> bool:
    """Whether a list holds numbers that are not whole, and thus no classes."""
    if labels.ndim != 1 or labels.dtype.kind != "f":
        return False
    return bool((labels != np.floor(labels))[~np.isnan(labels)].any())


def _has_rows(value: Any, count: int) -> bool:
    return tuple(getattr(value, "shape", ()))[:1] == (count,)


def _listed(held: Iterable[str], most: int = 20) -> str:
    names = [show(name) for name in held]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")


def _row_ids(held: Mapping[str, Any], taken: Iterable[str] = ()) -> str | None:
    """Return the name of the id column, or None if rows follow the graph's order."""
    if held.keys() & {"edge_index", "adj_t", "indptr"}:
        return None
    return next(
        (name for name in ROW_IDS if held.get(name) is not None and name not in taken), None
    )


def _own_ids(held: Mapping[str, Any], num_vertices: int | Graph) -> str | None:
    """The name of the ids that the graph took from the same source, or None."""
    if isinstance(num_vertices, int) or not held.keys() & {"edge_index", "adj_t"}:
        return None
    ids = num_vertices.original_ids
    if ids is None:
        ids = np.arange(num_vertices.num_vertices)
    for name in GRAPH_IDS:
        if _has_rows(held.get(name), len(ids)) and np.array_equal(
            as_array(held[name], f"'{name}'"), ids
        ):
            return name
    return None


def _warn_of_unused(
    held: Mapping[str, Any], called: Mapping[str, str], rows: int, where: str
) -> None:
    """Say which arrays with a row for every vertex are not taken."""
    unused = []
    for name, value in held.items():
        shape = getattr(value, "shape", ())
        if isinstance(value, list | tuple):
            shape = (len(value),)
        if value is not None and (not shape or shape[0] != rows):
            continue
        if name not in OF_GRAPHS and name not in called.values() and not name.startswith("_"):
            unused.append(name)
    if unused:
        missing = "" if "features" in called else (
            "; there are no features (names of features: "
            f"{', '.join(('features', *ALIASES['features']))}, or columns f0, f1, f2 ...)"
        )  # fmt: skip
        if not {*GRAPH_IDS}.isdisjoint(unused):
            missing += "; vertices, and predictions for them, are numbered by row, from 0"
        warnings.warn(
            f"{where}not taken: {_listed(unused, MOST_LISTED)}{missing}",
            PlanccWarning,
            stacklevel=3,
        )


def as_array(value: Any, what: str) -> npt.NDArray[Any]:
    """A numpy array of what may be a tensor."""
    if hasattr(value, "tocoo"):
        raise InputError(f"{what} is sparse: give it dense, as of `toarray`")
    try:
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{what} cannot be read as an array ({error})") from error


def _mask_of(value: Any, num_vertices: int | Graph, what: str) -> npt.NDArray[np.bool_]:
    """The mask of a list of vertex numbers."""
    count = num_vertices if isinstance(num_vertices, int) else num_vertices.num_vertices
    numbers = as_array(value, what)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    _check_list(numbers, what, "iu", "vertex numbers")
    wrong = (numbers < 0) | (numbers >= count)
    if wrong.any():
        raise InputError(
            f"{what} holds vertex '{numbers[wrong][0]}', out of range 0..{count - 1}"
            f"{why_not(int(numbers.max()) + 1, num_vertices)}"
        )
    mask = np.zeros(count, np.bool_)
    mask[numbers] = True
    return mask


def _mask_of_ids(value: Any, ids: npt.NDArray[np.integer], what: str) -> npt.NDArray[np.bool_]:
    """The mask, over rows with these ids, of a list of ids."""
    listed = as_array(value, what).reshape(-1)
    _check_list(listed, what, "iu", "vertex ids")
    wrong = ~np.isin(listed, ids)
    if wrong.any():
        raise InputError(f"{what} holds the id '{listed[wrong][0]}', which no row has")
    return np.isin(ids, listed)


def _of_0_and_1(mask: npt.NDArray[Any], rows: int, what: str, key: str) -> npt.NDArray[Any]:
    """Integers of 0 and 1 as booleans; InputError for what looks like a list of vertices."""
    if mask.dtype.kind not in "iu" or not mask.ndim:
        return mask
    if len(mask) == rows and np.isin(mask, (0, 1)).all():
        return mask.astype(np.bool_)
    if mask.size > len(mask):
        return mask
    raise InputError(
        f"{what} must be a list of booleans, or of 0 and 1, one for each of {rows} vertices, not "
        f"'{mask.dtype}' of shape {mask.shape}; a list of vertex numbers is called "
        f"'{INDEX_LISTS[key][0]}'"
    )


def _of_split(mask: npt.NDArray[Any], split: str | None, what: str) -> npt.NDArray[Any]:
    """One column of masks that have one for every split."""
    if mask.ndim == 2 and mask.shape[1] == 1:
        mask = mask[:, 0]
    if mask.ndim == 2:
        count = mask.shape[1]
        if split is None or not split.isascii() or not split.isdigit() or int(split) >= count:
            raise InputError(f"{what} has {count} splits: choose one by `split` 0..{count - 1}")
        mask = mask[:, int(split)]
    return mask


def _read_array_file(name: str) -> dict[str, npt.NDArray[Any]]:
    check_readable(name)
    check_kind(name, "npy")
    array = map_array(name)
    if array.ndim != 1:
        return {"features": array}
    return {"targets" if _has_fractions(array) else "labels": array}


def _read_table(
    name: str, num_vertices: int | Graph, keys: Mapping[str, str] | None
) -> Mapping[str, npt.NDArray[Any] | None]:
    """Columns of numbers by their names; without names one is the labels, several the features."""
    check_readable(name)
    check_kind(name, "table")
    mark = "\t" if name.lower().removesuffix(".gz").endswith(".tsv") else ","
    with input_errors(name), open_input(name) as stream:
        words, second = (_words(stream, mark, name) for _ in range(2))
    try:
        [float(word) for word in words]
    except ValueError:
        pass
    else:
        return _without_names(name, mark, words, num_vertices)
    if len(set(words)) != len(words) or len(words) != len(second or words):
        raise InputError(f"{name}: {len(words)} column names for {len(second)} columns")
    wanted = [*_wanted(words, keys)]
    of_masks = {name for name, key in _names_of(keys).items() if key in MASKS}
    reading = TableReading(
        columns=tuple(words.index(word) for word in wanted),
        booleans=tuple(words.index(word) for word in wanted if word in of_masks),
        names=tuple(words),
    )
    columns: dict[str, npt.NDArray[Any] | None] = dict.fromkeys(words)
    if wanted:
        table = read_numbers(name, mark, skipped=1, reading=reading)
        columns |= {word: table[:, place] for place, word in enumerate(wanted)}
    return _of_columns(columns, keys, name)


def _words(stream: BinaryIO, mark: str, name: str) -> list[str]:
    """The words of the next line."""
    line = stream.readline(MOST_NAMES)
    if len(line) == MOST_NAMES and not line.endswith(b"\n"):
        raise InputError(f"{name}: a line is longer than {MOST_NAMES >> 20} MiB")
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    if '"' in text:
        try:
            return [word.strip() for word in next(csv.reader([text], delimiter=mark))]
        except csv.Error as error:
            raise InputError(f"{name}: the names of the columns: {error}") from error
    return [word.strip() for word in text.split(mark)] if text else []


def _without_names(
    name: str, mark: str, words: list[str], num_vertices: int | Graph
) -> dict[str, npt.NDArray[Any]]:
    table = read_numbers(name, mark)
    count = num_vertices if isinstance(num_vertices, int) else num_vertices.num_vertices
    if table.shape[1] == 1:
        return {"labels": class_numbers(table[:, 0], f"{name}: the column")}
    if len(table) == count + 1 and words == [str(k) for k in range(len(words))]:
        warnings.warn(
            f"{name}: the first line, {','.join(words[:3])}..., is taken as names: there are "
            f"{count:,} lines besides, as many as vertices",
            PlanccWarning,
            stacklevel=2,
        )
        table = table[1:]
    return {"features": table.astype(np.float32)}


def _names_of(keys: Mapping[str, str] | None) -> dict[str, str]:
    """What is in a column, by its name."""
    chosen = data_keys(keys)
    named = {
        name: key
        for key in SOURCE_KEYS
        for name in (key, *ALIASES.get(key, ()))
        if key not in chosen
    }
    return named | {name: key for key, name in chosen.items()}


def _numbered(key: str, names: Iterable[str], keys: Mapping[str, str] | None) -> list[str]:
    """Columns of a matrix by number, as f0, f1, ... or 0, 1, ..., unless it has a name."""
    known, groups = _names_of(keys), dict[str, dict[int, str]]()
    for name in names:
        if known.get(name) == key:
            return []
        if name not in known and (match := _NUMBERED[key].fullmatch(name)):
            groups.setdefault(match[1], {})[int(match[2])] = name
    for prefix, group in groups.items():
        first, last = min(group), max(group)
        if first <= 1 and last - first + 1 == len(group) and (prefix or len(group) > 1):
            return [group[k] for k in sorted(group)]
    return []


def _wanted(names: Iterable[str], keys: Mapping[str, str] | None) -> list[str]:
    """The columns that are read."""
    names = list(names)
    known = {
        *_names_of(keys),
        *ROW_IDS,
        *(w for key in _NUMBERED for w in _numbered(key, names, keys)),
    }
    return [name for name in names if name in known]


def _of_columns(
    columns: Mapping[str, npt.NDArray[Any] | None], keys: Mapping[str, str] | None, where: str
) -> dict[str, npt.NDArray[Any] | None]:
    """Arrays of vertex data from columns; those that are not read are None."""
    known, groups = _names_of(keys), {key: _numbered(key, columns, keys) for key in _NUMBERED}
    numbered = {name for group in groups.values() for name in group}
    found: dict[str, npt.NDArray[Any] | None] = {}
    for name, column in columns.items():
        key, what = known.get(name, ""), f"{where}: column '{shown(name, 40)}'"
        if column is None or name in numbered:
            if name not in numbered:
                found[name] = None
        elif name in ROW_IDS or key in ("labels", "clusters"):
            found[name] = class_numbers(column, what) if column.dtype.kind == "f" else column
        elif key in MASKS:
            if column.dtype.kind not in "biuf" or not np.isin(column, (0, 1)).all():
                raise InputError(f"{what} is a mask: it must hold 0 and 1, or True and False")
            found[name] = column == 1
        else:
            found[name] = column.reshape(len(column), prod(column.shape[1:]))
    for key, group in groups.items():
        parts = [np.asarray(columns[name]) for name in group]
        if key == "features":
            parts = [
                _finite(part, f"{where}: column '{name}'")
                for part, name in zip(parts, group, strict=True)
            ]
        for part, name in zip(parts, group, strict=True):
            if part.ndim != 1:
                raise InputError(f"{where}: column '{name}' holds lists, not numbers")
        if group:
            found[data_keys(keys).get(key, key)] = np.stack(parts, axis=1)
    return found


@dataclass(frozen=True)
class TableReading:
    """What of a table is read.

    Attributes:
        columns: The columns, in this order.
        booleans: Those that may hold True and False.
        names: The names of all columns, for messages.
    """

    columns: tuple[int, ...]
    booleans: tuple[int, ...]
    names: tuple[str, ...]


def _truth(word: str) -> float:
    """A number, or 1 and 0 for True and False."""
    word = word.strip().lower()
    return float(word == "true") if word in ("true", "false") else float(word)


def read_numbers(
    path: StrPath,
    mark: str | None = ",",
    skipped: int = 0,
    dtype: npt.DTypeLike = np.float64,
    reading: TableReading | None = None,
) -> npt.NDArray[Any]:
    """A table of numbers, plain or .gz, dtype[rows, columns]; ``nan`` may stand in it.

    `mark` is between columns; None: blanks.

    Raises:
        InputError: For a word that is no number, or lines of different lengths; the message names
            the file.
    """
    check_readable(path)
    try:
        with input_errors(path), open_input(path) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a file without lines
            table: npt.NDArray[Any] = np.loadtxt(
                stream,
                dtype,
                comments=None,
                delimiter=mark,
                skiprows=skipped,
                ndmin=2,
                encoding="utf-8-sig",
                quotechar='"' if reading is not None else None,
                usecols=None if reading is None else reading.columns,
                converters=None if reading is None else dict.fromkeys(reading.booleans, _truth),
            )
    except (ValueError, UnicodeDecodeError) as error:
        names = () if reading is None else reading.names
        words = _wrong_word(shown(error), lambda row: line_of(path, row, skipped), names)
        raise InputError(f"{os.fspath(path)}{words}") from error
    return table


def line_of(path: StrPath, row: int, skipped: int) -> int:
    """The line, from 1, of a row that `read_numbers` read, from 0: it leaves out empty lines."""
    with open_input(path) as stream:
        rows = (n for n, line in enumerate(stream, 1) if n > skipped and line.strip())
        return next(islice(rows, row, None), row + 1 + skipped)


def _wrong_word(words: str, line_at: Callable[[int], int], names: Sequence[str]) -> str:
    """What numpy says of a table, with the line in the file and the column by name."""
    match = re.fullmatch(
        r"could not convert string (.*) to \w+ at row (\d+), column (\d+)\.", words
    )
    if match is None:
        words = re.sub(r"; use `usecols`.*", "", words)
        return f": not a table of numbers: {words}"
    line, column = line_at(int(match[2])), int(match[3])
    name = f" '{shown(names[column - 1], 40)}'" if column <= len(names) else f" {column}"
    return f", line {line}: not a table of numbers: {match[1]} in column{name}"


def class_numbers(column: npt.NDArray[np.float64], what: str) -> npt.NDArray[np.int64]:
    """Class numbers; NaN, an unknown class, is -1."""
    known = np.where(np.isnan(column), -1, column)
    wrong = (known != np.floor(known)) | (np.abs(known) > 2**53)
    if wrong.any():
        raise InputError(
            f"{what} holds '{known[wrong][0]}', not the number of a class; a column of real "
            "numbers to learn is called targets"
        )
    return known.astype(np.int64)


def check_vertex_data(
    arrays: Mapping[str, npt.ArrayLike | None],
    num_vertices: int | Graph,
    where: str = "",
    names: Mapping[str, str] | None = None,
) -> VertexData:
    """Vertex data in the types that plans hold.

    Parameters:
        arrays: Some of `SOURCE_KEYS`.
        where: Put before every message.
        names: What messages call an array, where that is not its key.

    Raises:
        InputError: A wrong number of rows or dimensions, NaN or infinity, labels that are not
            integers >= -1, masks that are not boolean, clusters that are not integers >= 0 or far
            above the number of vertices, integer targets other than 0 and 1, labels and targets
            both, weights below 0; the message names key and value.
    """
    names = names or {}
    checked: dict[str, Any] = {
        key: array
        if isinstance(array, MappedRows)
        else _CHECKS[key](np.asarray(array), f"{where}key '{names.get(key, key)}'")
        for key, array in arrays.items()
        if array is not None
    }
    _check_rows(checked, num_vertices, where, names)
    if "clusters" in checked:
        _check_clusters(checked["clusters"], f"{where}key '{names.get('clusters', 'clusters')}'")
    if "labels" in checked and "targets" in checked:
        raise InputError(f"{where}keys 'labels' and 'targets' are both there; a graph has one")
    return VertexData(**checked)


def checked_again(data: VertexData, graph: Graph) -> VertexData:
    """Vertex data that a user made, as `check_vertex_data` returns them; errors are its own."""
    if data.by_type is None or graph.types is None:
        return check_vertex_data(data.arrays(), graph)
    types, found = graph.types, {}
    for name, each in data.of_type.items():
        vertices = types.vertices(name)
        count, where = vertices.stop - vertices.start, f"type '{shown(name)}': "
        found[name] = check_vertex_data(each.arrays(), count, where)
    return VertexData(by_type=DataByType.of(found, types, np.arange(types.num_vertices)))


def _check_labels(data: VertexData, where: str) -> None:
    """InputError for a class far above how many there are."""
    for name, each in data.of_type.items():
        _check_labels(each, f"{where}: type '{shown(name)}'")
    if data.labels is not None:
        largest = int(data.labels.max(initial=-1))
        if largest >= CLASSES:  # few need no count
            vertex = int(np.argmax(data.labels))
            occurring = len(np.unique(data.labels[data.labels >= 0]))
            check_classes(largest, occurring, f"{where}: the label of vertex {vertex}")


def _check_clusters(clusters: npt.NDArray[np.int32], what: str) -> None:
    """InputError for a cluster far above how many there can be."""
    if clusters.max(initial=-1) >= most_clusters(len(clusters)):
        raise InputError(
            f"{what} of vertex {int(np.argmax(clusters))} is '{clusters.max()}', and there are "
            f"{len(clusters):,} vertices: number the clusters from 0"
        )


def _check_rows(
    arrays: Mapping[str, npt.NDArray[Any]],
    num_vertices: int | Graph,
    where: str,
    names: Mapping[str, str],
) -> None:
    """InputError unless every array has a row for every vertex."""
    count = num_vertices if isinstance(num_vertices, int) else num_vertices.num_vertices
    for key, array in arrays.items():
        if len(array) != count:
            alike = [names.get(each, each) for each in arrays if len(arrays[each]) == count]
            as_one = f", as many as '{alike[0]}' has rows" if alike else ""
            cure = why_not(len(array), num_vertices) or (
                ": give every vertex one label (-1: unknown)"
                if key == "labels"
                else ": give every vertex one row"
            )
            raise InputError(
                f"{where}key '{names.get(key, key)}' has '{len(array)}' rows, the graph {count} "
                f"vertices{as_one}{cure}"
            )


def _features(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    if array.ndim != 2 or not array.shape[1]:
        raise InputError(f"{what} must be a matrix, not of shape '{array.shape}'")
    if is_mapped(array):
        step = max(1, BLOCK // array.shape[1])
        for start in range(0, len(array), step):
            _finite(array[start : start + step], what, start)
        rows: Any = MappedRows(array)
        return rows
    return _finite(array, what)


def _finite(array: npt.NDArray[Any], what: str, first: int = 0) -> npt.NDArray[Any]:
    """`first`: number of the first row."""
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{what} holds no real numbers but '{array.dtype}': save it as float32 or integers"
        )
    with np.errstate(over="ignore"):
        kind = feature_type(array.dtype.newbyteorder("="))
        result = np.ascontiguousarray(array, dtype=kind)
    wrong = ~np.isfinite(result)
    if wrong.any():
        raise InputError(
            f"{what} holds {_first(array, wrong, first)}, not a finite 32-bit number: replace it, "
            "for example by torch.nan_to_num or np.nan_to_num"
        )
    return result


def _first(array: npt.NDArray[Any], wrong: npt.NDArray[np.bool_], first: int = 0) -> str:
    """The first wrong number and its place; `first`: number of the first row."""
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    numbers = (int(place[0]) + first, *place[1:])
    words = ", ".join(f"{name} {k}" for name, k in zip(("row", "column"), numbers, strict=False))
    return f"'{array[place]}' in {words} (counted from 0)"


def _check_list(array: npt.NDArray[Any], what: str, kinds: str, words: str) -> None:
    if array.ndim != 1 or array.dtype.kind not in kinds:
        advice = ""
        if array.ndim == 1 and words == "integers":
            numbers = "np.unique(names, return_inverse=True)[1] numbers names"
            cast = (
                "convert it, for example by y.long() or y.astype(int); -1 stands for unknown; real "
                "numbers are called targets"
            )
            advice = f"; {numbers if array.dtype.kind in 'US' else cast}"
        raise InputError(
            f"{what} must be a list of {words}, not '{array.dtype}' of shape {array.shape}{advice}"
        )


def _integers(array: npt.NDArray[Any], what: str, least: int, rule: str) -> npt.NDArray[np.int32]:
    _check_list(array, what, "iu", "integers")
    most = np.iinfo(np.int32).max
    wrong = array > most
    if wrong.any():
        raise InputError(f"{what} holds {_first(array, wrong)}; at most {most:,} are possible")
    wrong = array < least
    if wrong.any():
        raise InputError(f"{what} holds {_first(array, wrong)}; {rule}")
    return array.astype(np.int32)


def _mask(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.bool_]:
    _check_list(array, what, "b", "booleans")
    return array


def _targets(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """Booleans where all are 0 and 1, else float32; a row of NaN is of an unknown vertex."""
    if array.ndim == 1 and array.dtype.kind == "f":
        array = array[:, np.newaxis]
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "biuf":
        raise InputError(
            f"{what} must be a matrix of 0 and 1, or of real numbers, not '{array.dtype}' of shape "
            f"{array.shape}"
        )
    wrong = (array != 0) & (array != 1)
    if not wrong.any():
        return array.astype(np.bool_)
    if array.dtype.kind != "f" or not (wrong & ~np.isnan(array)).any():
        raise InputError(
            f"{what} holds {_first(array, wrong)}; targets are 0 or 1, or real numbers of a "
            "floating type"
        )
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(array, np.float32)
    wrong = ~np.isfinite(numbers) & ~np.isnan(array).all(axis=1, keepdims=True)
    if wrong.any():
        raise InputError(
            f"{what} holds {_first(array, wrong)}, not a finite 32-bit number; only a row of NaN "
            "alone stands for an unknown vertex"
        )
    return numbers


_CHECKS: dict[str, Callable[[npt.NDArray[Any], str], npt.NDArray[Any]]] = {
    "features": _features,
    "labels": partial(_integers, least=-1, rule="labels are integers >= -1 (-1: unknown)"),
    **dict.fromkeys(MASKS, _mask),
    "clusters": partial(_integers, least=0, rule="clusters are integers >= 0"),
    "targets": _targets,
    "weights": whole_weights,
}


def _sparse_features(archive: Archive, num_vertices: int | Graph) -> npt.NDArray[np.float32]:
    from scipy.sparse import csr_array

    shape = archive.integers("feat_shape", 2).tolist()
    count = num_vertices if isinstance(num_vertices, int) else num_vertices.num_vertices
    if shape[0] != count:
        raise InputError(
            f"{archive.name}: key 'feat_shape' has '{shape[0]}' rows, the graph {count} vertices"
            f"{why_not(shape[0], num_vertices) or ': give every vertex one row'}"
        )
    if shape[1] < 1:
        raise InputError(f"{archive.name}: key 'feat_shape' holds '{shape[1]}' columns")
    indices = archive.indices("feat_indices", shape[1])
    ptr = archive.offsets("feat_indptr", count, len(indices))
    data = archive["feat_data"]
    if data.shape != indices.shape:
        raise InputError(
            f"{archive.name}: key 'feat_data' must have {len(indices)} entries, not '{data.shape}'"
        )
    data = _finite(data, f"{archive.name}: key 'feat_data'")
    matrix = csr_array((data, indices, ptr), shape=tuple(shape))
    return dense(matrix, archive.name, f"{archive.name}: key 'feat_data'")


def dense(matrix: Any, path: StrPath, what: str) -> npt.NDArray[np.float32]:
    """A sparse matrix of scipy as dense features.

    Parameters:
        matrix: csr_array or csc_array.
        path: The file that it is in.
        what: Names it in messages.

    Raises:
        InputError: For numbers that are not finite, and if it is too wide, or larger than the
            memory.
    """
    rows, columns = matrix.shape
    size = f"{what}, dense of shape {matrix.shape},"
    if columns > MOST_COLUMNS:
        raise InputError(f"{size} is too wide: features have at most {MOST_COLUMNS} columns")
    wanted = rows * columns * np.dtype(np.float32).itemsize
    check_unpacked(wanted, path, size, DENSE_PER_BYTE)
    check_memory(wanted, size)
    data = _finite(matrix.data, what)
    if data.dtype == np.float16:  # scipy has no sparse ones
        data = data.astype(np.float32)
    parts = (data, matrix.indices, matrix.indptr)
    return type(matrix)(parts, matrix.shape).toarray()


def save_vertex_data(data: VertexData, path: StrPath) -> None:
    """Write vertex data as `read_vertex_data` reads it; features are stored dense.

    Raises:
        InputError: If there is nothing to write.
        OutputError: If the file cannot be written.
    """
    arrays = {key: value for key in SOURCE_KEYS if (value := getattr(data, key)) is not None}
    if not arrays:
        raise InputError(f"{path}: there are no features, labels, masks or clusters to write")
    with atomic_write(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **arrays)
