"""Functions that find vertex data in files, archives and objects by the names of the arrays.

Names that `plancc.graph.vertexdata` does not list are ignored. Pickled objects are never loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.bounds import allowing
from plancc.graph.formats import FORMATS, Format, data_keys, find_format, format_of_table
from plancc.graph.graph import Graph, as_vertices, first_outside, first_true
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.npz import Archive, map_array, read_npz_data
from plancc.graph.rowids import (
    GRAPH_IDS,
    ROW_IDS,
    USUAL_IDS,
    are_in_order,
    id_column,
    ids_beside,
    ids_of,
    like_ids_of,
    one_column,
    reading_advice,
    rows_by_id,
    warn_of_numbers,
    warn_of_order,
    warn_of_parts,
)
from plancc.graph.signatures import check_kind
from plancc.graph.textfile import check_readable, show
from plancc.graph.types import Types
from plancc.graph.vertexchecks import (
    check_labels,
    check_list,
    check_rows,
    check_vertex_data,
    data_by_type,
    of_one_type,
    sparse_features,
)
from plancc.graph.vertexdata import ALIASES, INDEX_LISTS, MASKS, SOURCE_KEYS, VertexData, as_array
from plancc.graph.vertextables import Keys, arrays_of_columns, read_table, wanted_columns
from plancc.registry import check_choice
from plancc.text import shown

Array = npt.NDArray[Any]
OF_GRAPHS = frozenset(
    (
        *("edge_index", "adj_t", "edge_weight", "edge_attr", "edge_feat", "edge_time"),
        *("num_nodes", "num_nodes_list", "num_edges_list", "indptr", "indices", "row", "col"),
        *("data", "format", "shape", "feat_indptr", "feat_indices", "feat_data", "feat_shape"),
    )
)
"""Names of arrays of a graph, or of sparse features."""
_OF_EDGES = frozenset(("edge_index", "adj_t", "indptr"))
"""Names of arrays of edges; vertex data in the same source are in the order of the vertices."""
MOST_LISTED = 5
"""Largest number of names that a warning lists."""
NO_GRAPH = (".npy", ".csv", ".tsv")
"""Extensions of files that are read as vertex data, not as a graph, if a user gives them as `data`.
So are tables (`plancc.graph.formats.format_of_table`)."""


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
    """Read the data of all vertices from one source, or from several with different arrays.

    Parameters:
        path: One source, or several. Sources are:

            - ``.npz`` with the names of `plancc.graph.vertexdata`; sparse features (CSR) are
              ``feat_indptr``, ``feat_indices``, ``feat_data`` and ``feat_shape``.
            - ``.npy``: a matrix is the features, a list of whole numbers is the labels, a list of
              other numbers is the targets.
            - ``.csv``, ``.tsv``, also ``.gz``: columns with known names. Without names, a single
              column of integers is the labels, and several columns are the features.
            - A graph file or folder of a format that holds vertex data.

        num_vertices: Number of rows of every array, or the graph whose vertices are counted.
        split: Name of the split, or index of the column in masks of several splits.
        keys: Names of arrays in the source, by key in `SOURCE_KEYS`. ``{"id": NAME}`` is the column
            of row ids; ``{"id": ""}`` says that rows are in the order of the vertices.
        allow_large: Whether to accept sizes and class numbers above `plancc.graph.bounds`.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else path
    graph, several = as_vertices(num_vertices), len(paths) > 1
    names = [os.fspath(each) for each in paths]
    choice: Any = {"split": split, "required": required, "elsewhere": several}
    found: dict[str, Any] = {}
    home: dict[str, str] = {}
    missing = {k: v for k, v in data_keys(keys).items() if v and (several or k == "id")}
    with allowing(large=allow_large):
        for name in names:
            held, ids = _held(name, graph, format, split, keys, required)
            if held is None:
                continue
            chosen = keys if ids is None else {**(keys or {}), "id": ids}
            data = vertex_data_of(held, graph, f"{name}: ", **choice, keys=chosen)
            missing = {key: called for key, called in missing.items() if called not in held}
            if data.by_type is not None:
                if several:
                    raise InputError(f"{name}: give data by type alone, without other vertex data")
                found["by_type"] = data.by_type
            for key, array in data.arrays().items():
                if key in found:
                    raise InputError(f"{name}: {key} are in {home[key]}, too; give them once")
                found[key], home[key] = array, name
        listed = ", ".join(names)
        for called in missing.values():
            raise InputError(f"key '{called}' is missing in {'all of ' * several}{listed}")
        data = VertexData(**found)
        check_labels(data, listed, graph)
        return data


def _held(
    name: str, graph: Graph, format: str | None, split: str | None, keys: Keys, required: bool
) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return the arrays of a source by the source's own names, and the name of the column of ids.

    The arrays are None if the format holds no vertex data. The column's name is "" for a table
    without ids, and None for sources other than tables.
    """
    plain, known = name.lower().removesuffix(".gz"), format
    if format is None and required:
        table = format_of_table(name)
        if table is not None and table.read_columns is not None:
            named = are_names(ids_of(graph))
            columns = table.read_columns(name, partial(wanted_columns, keys=keys), named)
            held, ids = arrays_of_columns(columns, keys, name, graph)
            if table.files is not None and not ids:
                warn_of_parts(name, table.files(name), "rows follow this order")
            return held, ids
        if plain.endswith(".npy"):
            return _read_array_file(name), None
        if plain.endswith(NO_GRAPH):
            return read_table(name, graph, keys)
    read: Callable[..., Mapping[str, Any]] | None = read_npz_data
    if format is not None or os.path.isdir(name) or not _unknown(name):
        known = find_format(name, format)
        of_format: Format = FORMATS[known]
        read = of_format.read_data
    if read is None:
        if not required and not data_keys(keys):
            return None, None
        able = (each for each in FORMATS if FORMATS.loaded()[each].read_data is not None)
        cure = f"give .npz, .npy, .csv, or a source of format {', '.join(able)}"
        raise InputError(f"{name}: format '{known}' holds no vertex data; {cure}")
    found = read(name, split=split, keys=keys or {})
    return _archive_arrays(found, graph, keys or {}) if isinstance(found, Archive) else found, None


def _unknown(name: str) -> bool:
    """Whether no format has the extension of the file."""
    try:
        find_format(name)
    except InputError:
        return True
    return False


def names_of_data(keys: Mapping[str, str]) -> set[str]:
    """Return all names of arrays that are read: known names, row ids, and the names in `keys`."""
    others = (*ALIASES.values(), *INDEX_LISTS.values(), keys.values())
    return {*SOURCE_KEYS, *ROW_IDS, *chain.from_iterable(others)}


def _archive_arrays(archive: Archive, graph: Graph, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the arrays of an archive by name; None for arrays that cannot be vertex data."""
    wanted = names_of_data(keys) | {*USUAL_IDS}
    found: dict[str, Any] = {name: archive[name] if name in wanted else None for name in archive}
    if "feat_indptr" in found and "features" not in found:
        ids = _row_ids(found)
        rows = as_vertices(len(found[ids])) if ids else graph
        found["features"] = sparse_features(archive, rows)
    return found


def vertex_data_of(
    held: Mapping[str, Any],
    num_vertices: int | Graph,
    where: str = "",
    *,
    split: str | None = None,
    keys: Keys = None,
    required: bool = True,
    elsewhere: bool = False,
    in_order: bool = False,
) -> VertexData:
    """Return the vertex data in `held`, which maps the source's names to arrays (NumPy, torch).

    For several vertex types, `held` may map every type to such a mapping. Arrays with unknown names
    are ignored, with a warning. For the other parameters see `read_vertex_data`.

    Parameters:
        elsewhere: Whether the names in `keys` may be in another source.
        in_order: Whether rows are in the order of the vertices, even if the source has ids.
    """
    graph = as_vertices(num_vertices)
    if graph.types is not None and _are_by_type(held, graph.types, keys):
        return _data_of_types(held, graph, graph.types, where, split, keys)
    keys, count = data_keys(keys), graph.num_vertices
    _check_keys(keys, held, where, elsewhere)
    called = _names_in(held, keys, None if required else count)
    lists = [key for key in called if key not in keys and called[key] in INDEX_LISTS.get(key, ())]
    whats = {key: f"{where}key '{name}'" for key, name in called.items()}
    arrays = {key: as_array(held[called[key]], whats[key]) for key in called if key not in lists}
    by_line = in_order or keys.get("id") == ""
    ids = "" if by_line else _row_ids(held, called.values(), keys.get("id"))
    own, rows = _own_ids(held, graph), count
    if ids and called:
        of_rows = like_ids_of(as_array(held[ids], f"{where}key '{ids}'"), graph)
        rows = len(of_rows) if of_rows.ndim else 0
    if called or not required:
        taken = called | ({"ids": ids} if ids and called else {}) | ({"own": own} if own else {})
        whose = "" if by_line or ids else _may_be_row_ids(held, graph)
        _warn_of_unused(held, taken, rows, where, whose)
    if not called and not required:
        return VertexData()
    if not called:
        told = f"none of the keys '{', '.join(SOURCE_KEYS)}' is present, only {_listed(held)}"
        raise InputError(f"{where}there is no vertex data: {told}")
    for key in [key for key in MASKS if key in arrays]:
        arrays[key] = _boolean_mask(arrays[key], rows, whats[key], key)
    if ids:
        for key, array in arrays.items():
            if not array.ndim or len(array) != rows:
                rule = f"must have a row for each of the {rows} ids of '{ids}'"
                raise InputError(f"{whats[key]} of shape {array.shape} {rule}")
        of_vertices = rows_by_id(of_rows, graph, f"{where}key '{ids}'")
        arrays |= {key: _mask_of_ids(held[called[key]], of_rows, whats[key]) for key in lists}
        if rows > count:
            arrays = {key: array[of_vertices] for key, array in arrays.items()}
    else:
        check_rows({k: v for k, v in arrays.items() if v.ndim}, graph, where, called)
        if own is None:
            warn_of_order(graph, where)
        if lists and own is None:
            listed = ", ".join(show(called[key]) for key in lists)
            warn_of_numbers(graph, f"{where}the vertices of {listed}")
        arrays |= {key: _mask_of(held[called[key]], graph, whats[key]) for key in lists}
    _move_targets(arrays, called)
    for key in [key for key in MASKS if key in arrays]:
        arrays[key] = _split_column(arrays[key], split, whats[key])
    checked = check_vertex_data(arrays, graph, where, called)
    # without rows to leave out, check before reordering: errors then name rows of the source
    return checked.take(of_vertices) if ids and rows == count else checked


def _check_keys(
    keys: Mapping[str, str], held: Mapping[str, Any], where: str, elsewhere: bool
) -> None:
    """Raise InputError for unknown keys, and for names that `held` lacks.

    If `elsewhere`, another source may have the missing names: they raise no error.
    """
    for key in keys:
        check_choice("name of vertex data", key, (*SOURCE_KEYS, "id"))
    for name in filter(None, keys.values()):
        if name not in held and not elsewhere:
            raise InputError(f"{where}key '{name}' is missing; there are {_listed(held)}")


def _move_targets(arrays: dict[str, Array], called: dict[str, str]) -> None:
    """Move labels with several columns, or with real numbers, to the targets."""
    labels = arrays.get("labels")
    if labels is None:
        return
    real = called["labels"] != "labels" and _has_fractions(labels)
    if labels.dtype.kind in "iu" and one_column(labels).ndim == 1:
        arrays["labels"] = one_column(labels)
    elif (labels.ndim == 2 or real) and "targets" not in arrays:
        arrays["targets"], called["targets"] = arrays.pop("labels"), called["labels"]


def _names_in(
    held: Mapping[str, Any], keys: Mapping[str, str], weights: int | None
) -> dict[str, str]:
    """Return the name of each array of vertex data in the source, by key in `SOURCE_KEYS`.

    If `weights` is not None, only arrays with `weights` rows count as vertex weights, since others
    may be edge weights.
    """
    called = dict[str, str]()
    for key in SOURCE_KEYS:
        own = (key, *ALIASES.get(key, ()), *INDEX_LISTS.get(key, ()))
        for name in (keys[key],) if key in keys else own:
            given = held.get(name)
            rows = tuple(getattr(given, "shape", ()))[:1]
            if given is not None and (key != "weights" or weights is None or rows == (weights,)):
                called.setdefault(key, name)
    return called


def _are_by_type(held: Mapping[str, Any], types: Types, keys: Keys) -> bool:
    """Whether `held` maps vertex types to their arrays."""
    given = {name for name, each in held.items() if each is not None}
    named = given & ({*types.counts} - names_of_data(keys or {}))
    return bool(named) or any(isinstance(each, Mapping) for each in held.values())


def _data_of_types(
    held: Mapping[Any, Any], graph: Graph, types: Types, where: str, split: str | None, keys: Keys
) -> VertexData:
    """Return the vertex data in `held`, which has a mapping of arrays for each vertex type.

    If `held` also has relations as keys, rows are in the order of the vertices, even if `held` has
    ids.
    """
    found, missing = {}, data_keys(keys)
    choice: Any = {"split": split, "keys": keys, "required": False, "elsewhere": True}
    choice["in_order"] = any(isinstance(name, tuple) for name in held)
    for name, given in held.items():
        if not isinstance(name, str) or name.startswith("_"):
            continue  # a relation, or an entry about the whole graph
        what = f"{where}type '{shown(name)}': "
        if name not in types.counts:
            raise InputError(f"{what}is unknown; types are {shown(', '.join(types.counts), 200)}")
        if not isinstance(given, Mapping):
            raise InputError(f"{what}give a mapping of names to arrays")
        for key in ("weights", *ALIASES["weights"], missing.get("weights")):
            if given.get(key) is not None:
                cure = "`weights` expects one vector for all vertices, in the order of types"
                told = f"key {show(key)}: weights of only some vertex types are not accepted"
                raise InputError(f"{what}{told}; {cure}")
        data = vertex_data_of(given, of_one_type(graph, name), what, **choice)
        missing = {key: each for key, each in missing.items() if each not in given}
        if data.arrays():
            found[name] = data
    for each in filter(None, missing.values()):
        raise InputError(f"{where}key '{each}' is missing in all types")
    return data_by_type(found, types)


def _has_fractions(labels: Array) -> bool:
    """Whether a list holds numbers that are not whole, and therefore are not classes."""
    if labels.ndim != 1 or labels.dtype.kind != "f":
        return False
    return bool((labels != np.floor(labels))[~np.isnan(labels)].any())


def _listed(held: Iterable[str], most: int = 20) -> str:
    names = [show(name) for name in held]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")


def _row_ids(
    held: Mapping[str, Any], taken: Iterable[str] = (), wanted: str | None = None
) -> str | None:
    """Return the name of the array of row ids; None if rows are in the order of the vertices.

    The user may give the name `wanted`; if `held` lacks it, usual names are tried. Arrays in
    `taken` have another use.
    """
    if wanted in held:
        return wanted
    names = () if held.keys() & _OF_EDGES else ROW_IDS
    return next((name for name in names if held.get(name) is not None and name not in taken), None)


def _may_be_row_ids(held: Mapping[str, Any], graph: Graph) -> str:
    """Return "; " and advice if an array of `held` may hold row ids, else ""."""
    own = {name: held[name] for name in USUAL_IDS if isinstance(held.get(name), np.ndarray)}
    name = None if held.keys() & _OF_EDGES else id_column(own, (), graph, "")
    if name is None or are_in_order(own[name], ids_of(graph)):
        return ""
    return f"; `keys` id={name} reads rows by it"


def _own_ids(held: Mapping[str, Any], graph: Graph) -> str | None:
    """Return the name of the array that holds the ids of all vertices in their order, or None."""
    name, ids = ids_beside(held, graph.num_vertices) or (None, None)
    same = ids is not None and np.array_equal(like_ids_of(ids, graph), ids_of(graph))
    return name if same else None


def _warn_of_unused(
    held: Mapping[str, Any], called: Mapping[str, str], rows: int, where: str, whose: str
) -> None:
    """Warn of ignored arrays that have a row for every vertex."""
    unused = []
    for name, value in held.items():
        shape = (len(value),) if isinstance(value, list | tuple) else getattr(value, "shape", ())
        if value is not None and (not shape or shape[0] != rows):
            continue
        if name not in OF_GRAPHS and name not in called.values() and not name.startswith("_"):
            unused.append(name)
    if unused:
        known = ", ".join(("features", *ALIASES["features"]))
        missing = f"; there are no features (names of features: {known}, or columns f0, f1, f2 ...)"
        missing *= "features" not in called
        if not {*GRAPH_IDS}.isdisjoint(unused):
            missing += "; vertices, and predictions for them, are numbered by row, from 0"
        warn(f"{where}ignored: {_listed(unused, MOST_LISTED)}{whose}{missing}")


def _mask_of(value: Any, graph: Graph, what: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the vertices whose numbers are in the list `value`, bool[num_vertices]."""
    count = graph.num_vertices
    numbers = one_column(as_array(value, what))
    check_list(numbers, what, "iu", "vertex numbers")
    if (k := first_outside(numbers, count)) is not None:
        why = reading_advice(int(numbers.max()) + 1, graph)
        raise InputError(f"{what} holds vertex '{numbers[k]}', out of range 0..{count - 1}{why}")
    mask = np.zeros(count, np.bool_)
    mask[numbers] = True
    return mask


def _mask_of_ids(value: Any, ids: Array, what: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows whose ids are in the list `value`, bool[rows]."""
    listed = as_array(value, what).reshape(-1)
    if are_names(ids):
        listed = names_of(listed)
    check_list(listed, what, "S" if are_names(ids) else "iu", "vertex ids")
    if (k := first_true(~np.isin(listed, ids))) is not None:
        raise InputError(f"{what} holds the id {show(listed[k])}, which no row has")
    return np.isin(ids, listed)


def _boolean_mask(mask: Array, rows: int, what: str, key: str) -> Array:
    """Return a mask of 0 and 1 as booleans; raise InputError if it may be a list of vertices."""
    if mask.dtype.kind not in "iu" or not mask.ndim:
        return mask
    if len(mask) == rows and np.isin(mask, (0, 1)).all():
        return mask.astype(np.bool_)
    if mask.size > len(mask):
        return mask
    rule = f"must be a list of booleans, or of 0 and 1, one for each of {rows} vertices"
    cure = f"a list of vertex numbers is called '{INDEX_LISTS[key][0]}'"
    raise InputError(f"{what} {rule}, not '{mask.dtype}' of shape {mask.shape}; {cure}")


def _split_column(mask: Array, split: str | None, what: str) -> Array:
    """Return column `split` of a mask that has a column for every split; flatten other masks."""
    mask = one_column(mask)
    if mask.ndim == 2:
        count = mask.shape[1]
        if split is None or not split.isascii() or not split.isdigit() or int(split) >= count:
            raise InputError(f"{what} has {count} splits; choose one by `split` 0..{count - 1}")
        mask = mask[:, int(split)]
    return mask


def _read_array_file(name: str) -> dict[str, Array]:
    """Read a .npy file; shape and numbers decide the key: "features", "labels" or "targets"."""
    check_readable(name)
    check_kind(name, "npy")
    array = map_array(name)
    if array.ndim != 1:
        return {"features": array}
    return {"targets" if _has_fractions(array) else "labels": array}
