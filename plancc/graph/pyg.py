"""Graphs of PyTorch Geometric: objects, and files that torch.save wrote. Imports neither library.

``edge_index[0]`` is the source j, ``edge_index[1]`` the target i that aggregates from it, hence
``A[i, j]``. A sparse ``adj_t`` is ``A`` itself.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.graph.canonical import as_values, build_graph, check_edge_index, detect_direction
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, check_num_vertices
from plancc.graph.rowids import GRAPH_IDS
from plancc.graph.textfile import StrPath, show
from plancc.graph.torchfile import StoredHetero, StoredObject, load_torch
from plancc.graph.vertexdata import ALIASES, KEYS, MASKS, as_array

Record = dict[str, Any]
HETERO = "heterogeneous graphs are not supported: take one type of vertex and one of edge"
_FEATURES = ("features", *ALIASES["features"])
_OF_VERTICES = (*_FEATURES, *KEYS[1:], *ALIASES["labels"])


def is_data(obj: Any) -> bool:
    """Whether an object looks like a Data or a HeteroData."""
    if isinstance(obj, Mapping):
        return "edge_index" in obj or "adj_t" in obj
    has_edges = hasattr(obj, "edge_index") or hasattr(obj, "adj_t")
    return "HeteroData" in type(obj).__name__ or (has_edges and not hasattr(obj, "indptr"))


def record_of(obj: Any, where: str) -> Record:
    """The attributes of a Data by name.

    Raises
    ------
    InputError
        For a heterogeneous graph, several graphs, and what is no graph.
    """
    if isinstance(obj, StoredObject):
        held = obj.state if isinstance(obj.state, dict) else {}
        held = held.get("_store", held)
        if isinstance(obj, StoredHetero):
            raise InputError(f"{where}: {HETERO}")
        if isinstance(held, StoredObject) and isinstance(held.state, dict):
            held = held.state.get("_mapping", held.state)
        obj = held
    elif isinstance(obj, tuple | list):
        return _of_several(obj, where)
    elif not isinstance(obj, Mapping) and is_data(obj):
        if "HeteroData" in type(obj).__name__ or hasattr(obj, "edge_types"):
            raise InputError(f"{where}: {HETERO}")
        obj = obj.to_dict() if callable(getattr(obj, "to_dict", None)) else vars(obj)
    if not isinstance(obj, Mapping):
        raise InputError(f"{where}: holds no graph but '{type(obj).__name__}'")
    if "_global_store" in obj or any(isinstance(key, tuple) for key in obj):
        raise InputError(f"{where}: {HETERO}")
    return {str(key): value for key, value in obj.items()}


def _of_several(obj: tuple[Any, ...] | list[Any], where: str) -> Record:
    """The only graph of a list, or of the (data, slices) of an InMemoryDataset."""
    if isinstance(obj, list) or not 2 <= len(obj) <= 3 or not _is_record(obj[0]):
        if len(obj) != 1:
            raise InputError(f"{where}: holds {len(obj)} graphs; one is expected")
        return record_of(obj[0], where)
    slices = obj[1]
    if isinstance(slices, Mapping):
        ends = slices.get("edge_index", slices.get("x"))
        if ends is not None and len(ends) != 2:
            raise InputError(f"{where}: holds {len(ends) - 1} graphs; one is expected")
    return record_of(obj[0], where)


def _is_record(obj: Any) -> bool:
    return isinstance(obj, StoredObject | Mapping) or hasattr(obj, "edge_index")


def graph_of_record(
    record: Record, where: str, source: Source, graph_key: str = "edge_index", **reading: bool
) -> Graph:
    """The graph of a record.

    Parameters
    ----------
    record : dict
        ``edge_index`` int[2, edges], or ``adj_t``, a sparse tensor; ``edge_weight``, or
        ``edge_attr`` of one column: the values;
        ``num_nodes``, else as many vertices as the features have rows, or other vertex data that
        have one for every vertex of ``edge_index``; ``n_id`` or ``ids``, int[n] that differ, are
        the vertices' ids.
    where : str
        Names the source in messages.
    source : Source
    graph_key : str
        The name of ``edge_index``.
    **reading
        Flags as `plancc.graph.formats.read_graph` has them.

    Raises
    ------
    InputError
    """
    flags = {name: on for name, on in reading.items() if name != "pattern"}
    pair, values, weights = record.get(graph_key), None, "'adj_t'"
    if pair is None and record.get("adj_t") is not None:
        n, row, col, values = _of_sparse(record["adj_t"], where)
    elif pair is None:
        names = ", ".join(show(name) for name in list(record)[:20])
        raise InputError(f"{where}: '{graph_key}' is missing; there are {names or 'no keys'}")
    else:
        col, row = edge_index_of(pair, where)
        n = _num_vertices(record, row, col, where)
        what = f"{where}: '{graph_key}'"
        _check_ends(pair=(col, row), num_vertices=n, what=what, cure=_cure(record, n))
        weights, values = _weights(record, len(row), where)
    if reading.get("pattern"):
        values = None
    source = replace(source, weights=weights)
    graph = build_graph(n, row, col, values, source=source, **flags)
    return replace(detect_direction(graph), original_ids=_ids(record, n))


def _ids(record: Record, num_vertices: int) -> npt.NDArray[np.int64] | None:
    """The vertices' own ids; None where there are none that differ, or where they are 0..n-1."""
    for name in GRAPH_IDS:
        if tuple(getattr(record.get(name), "shape", ())) == (num_vertices,):
            ids = as_array(record[name], f"'{name}'")
            if ids.dtype.kind in "iu":
                ids = ids.astype(np.int64)
                ascending = np.unique(ids)
                if len(ascending) == num_vertices and ascending[0] >= 0:
                    return None if (ids == np.arange(num_vertices)).all() else ids
    return None


def edge_index_of(edge_index: Any, where: str) -> npt.NDArray[np.integer]:
    """An edge_index as integers of shape (2, edges)."""
    return check_edge_index(as_array(edge_index, f"{where}: 'edge_index'"), where)


def _check_ends(
    pair: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]],
    num_vertices: int,
    what: str,
    cure: str,
) -> None:
    """InputError for a vertex number that is out of range; the message says where it is."""
    for side, ends in enumerate(pair):
        wrong = (ends < 0) | (ends >= num_vertices)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InputError(
                f"{what}[{side}, {k}]: vertex '{ends[k]}' is out of range 0..{num_vertices - 1} "
                f"({np.count_nonzero(wrong):,} of {len(ends):,} entries): "
                f"{cure if ends[k] >= 0 else 'vertices are numbered from 0'}"
            )


def _cure(record: Record, num_vertices: int) -> str:
    """What says how many vertices there are, and what to do if it is too few."""
    if record.get("num_nodes") is not None:
        return f"'num_nodes' is {num_vertices:,}; give the number of all vertices"
    shapes = {name: getattr(record.get(name), "shape", None) for name in (*_OF_VERTICES, *MASKS)}
    rows = {name: int(shape[0]) for name, shape in shapes.items() if shape}
    name = next((name for name in rows if rows[name] == num_vertices), "x")
    more = [f", '{each}' {rows[each]:,}" for each in rows if rows[each] > num_vertices][:1]
    return f"'{name}' has {num_vertices:,} rows{''.join(more)}; give a row for every vertex"


def _num_vertices(
    record: Record, row: npt.NDArray[np.integer], col: npt.NDArray[np.integer], where: str
) -> int:
    given = record.get("num_nodes")
    if given is not None:
        given = as_array(given, f"{where}: 'num_nodes'")
        if given.size != 1 or given.dtype.kind not in "iu":
            raise InputError(f"{where}: 'num_nodes' must be one whole number")
        n = int(given.reshape(-1)[0])
        check_num_vertices(n, where)
        return n
    n = int(max(row.max(initial=-1), col.max(initial=-1))) + 1
    for name in _OF_VERTICES:
        if hasattr(record.get(name), "shape") and record[name].shape:
            rows = int(record[name].shape[0])
            if rows >= n or name in _FEATURES:
                return rows
            warnings.warn(
                f"{where}: '{name}' has {rows:,} rows, and 'edge_index' names vertex {n - 1:,}: it "
                "is not taken for the number of vertices",
                PlanccWarning,
                stacklevel=2,
            )
    warnings.warn(
        f"{where}: neither 'num_nodes' nor data of vertices is there: taken as {n:,} vertices, up "
        "to the largest in 'edge_index'",
        PlanccWarning,
        stacklevel=2,
    )
    return n


def _weights(record: Record, edges: int, where: str) -> tuple[str, npt.NDArray[Any] | None]:
    """Name of the edges' values, and one for each edge."""
    for name in ("edge_weight", "edge_attr"):
        if record.get(name) is None:
            continue
        values = as_array(record[name], f"{where}: '{name}'")
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if name == "edge_attr" and values.ndim == 2:
            warnings.warn(
                f"{where}: 'edge_attr' has {values.shape[1]} columns and is left out; a graph has "
                "one value per edge ('edge_weight')",
                PlanccWarning,
                stacklevel=2,
            )
            continue
        if values.shape != (edges,):
            raise InputError(
                f"{where}: '{name}' of shape {values.shape} must have one value for each of the "
                f"{edges} edges"
            )
        return f"'{name}'", as_values(values, f"{where}: '{name}'")
    return "", None


def _of_sparse(
    matrix: Any, where: str
) -> tuple[int, npt.NDArray[np.integer], npt.NDArray[np.integer], npt.NDArray[Any] | None]:
    """(n, row, column, values) of a sparse tensor of torch."""
    what = f"{where}: 'adj_t'"
    shape = tuple(getattr(matrix, "shape", ()))
    square = len(shape) > 1 and shape[0] == shape[1] and shape[2:] in ((), (1,))
    if not square or not callable(getattr(matrix, "to_sparse_coo", 0)):
        raise InputError(f"{what} is no square sparse tensor of torch; save 'edge_index'")
    check_num_vertices(int(shape[0]), where)
    coo = matrix.detach().to_sparse_coo().coalesce()
    row, col = as_array(coo.indices(), what)
    values = as_array(coo.values(), what).reshape(-1)
    return int(shape[0]), row, col, None if (values == 1).all() else values


def _record(path: StrPath) -> Record:
    where = os.fspath(path)
    return record_of(load_torch(path), where)


def read_pyg(
    path: StrPath,
    *,
    pattern: bool = False,
    symmetrize: bool = False,
    transpose: bool = False,
    keys: Mapping[str, str] | None = None,
) -> Graph:
    """Read a file of torch.save: a Data, its ``to_dict()``, a dict of tensors, or the
    ``processed/data.pt`` of an InMemoryDataset of one graph.

    Parameters
    ----------
    path, pattern, symmetrize, transpose, keys
        As in `plancc.graph.formats.read_graph`; ``keys["graph"]`` names ``edge_index``.

    Raises
    ------
    InputError
        For what is no graph, several graphs, a heterogeneous graph, an object that is no tensor.
    BackendUnavailable
        Without torch.
    """
    source = Source.of_file(path, "pyg")
    name = (keys or {}).get("graph", "edge_index")
    flags = {"pattern": pattern, "symmetrize": symmetrize, "transpose": transpose}
    return graph_of_record(_record(path), os.fspath(path), source, name, **flags)


def read_pyg_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> Record:
    """The tensors of the file by name."""
    return _record(path)


FORMAT = Format(
    (".pt", ".pth"),
    read_pyg,
    gzip=False,
    options=("keys",),
    read_data=read_pyg_data,
    needs="torch",
    what="PyTorch Geometric: Data, or a dict of tensors, of torch.save",
)
