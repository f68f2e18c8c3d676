"""Readers of PyTorch Geometric's graphs: objects in memory, and files of torch.save.

Neither torch nor PyTorch Geometric is imported. An edge from j to i (``edge_index[0]``,
``edge_index[1]``) is ``A[i, j]``: i reads the features of j. A sparse ``adj_t`` is ``A`` itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.formats import Held
from plancc.interop.record import Record, format_of_records, held_record, is_typed
from plancc.interop.torchfile import StoredHetero, StoredObject, load_torch


def is_data(obj: Any) -> bool:
    """Whether an object looks like a Data or HeteroData, or like the dict of its ``to_dict()``."""
    if isinstance(obj, Mapping):
        return "edge_index" in obj or "adj_t" in obj or "_global_store" in obj
    has_edges = hasattr(obj, "edge_index") or hasattr(obj, "adj_t")
    return "HeteroData" in type(obj).__name__ or (has_edges and not hasattr(obj, "indptr"))


def record_of(obj: Any, where: str) -> Record:
    """Return the arrays of a Data by name, or of a HeteroData by vertex type and relation."""
    if isinstance(obj, StoredObject):
        held = obj.state if isinstance(obj.state, dict) else {}
        held = held.get("_store", held)
        if isinstance(obj, StoredHetero):
            stores = [held.get(f"_{kind}_store_dict") for kind in ("node", "edge")]
            both = [store for store in stores if isinstance(store, dict)]
            return {name: record_of(each, where) for store in both for name, each in store.items()}
        if isinstance(held, StoredObject) and isinstance(held.state, dict):
            held = held.state
        obj = held.get("_mapping", held) if isinstance(held, dict) else held
    elif isinstance(obj, tuple | list):
        return _only_record(obj, where)
    elif not isinstance(obj, Mapping) and is_data(obj):
        obj = obj.to_dict() if callable(getattr(obj, "to_dict", None)) else vars(obj)
    if not isinstance(obj, Mapping):
        raise InputError(f"{where}: holds a '{type(obj).__name__}', not a graph")
    if is_typed(obj):
        return {key: dict(value) for key, value in obj.items() if isinstance(value, Mapping)}
    return {str(key): value for key, value in obj.items()}


def _only_record(obj: tuple[Any, ...] | list[Any], where: str) -> Record:
    """Return the record (arrays by name) of the only graph in `obj`, else raise InputError.

    `obj` is a list of graphs, or the tuple (data, slices) of an InMemoryDataset.
    """
    whole = not isinstance(obj, list) and 2 <= len(obj) <= 3 and _is_record(obj[0])
    if not whole or any(map(_is_graph, obj[1:])):
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


def _is_graph(obj: Any) -> bool:
    """Whether an object is a graph; `slices` of an InMemoryDataset (1D "edge_index") are not."""
    if isinstance(obj, Mapping):
        return getattr(obj.get("edge_index"), "ndim", 1) == 2
    return _is_record(obj)


def hold(obj: Any) -> Held | None:
    """Return a `Held`, which can make a `Graph`, if `obj` is PyG data (`is_data`); else None."""
    if not is_data(obj):
        return None
    name = f"PyG {type(obj).__name__}"
    return held_record(record_of(obj, name), name, "pyg")


def read_record(path: StrPath) -> Record:
    """Read the only graph in a file as a record.

    The file holds a Data, a HeteroData or a dict of tensors, or is ``processed/data.pt`` of an
    InMemoryDataset.
    """
    return record_of(load_torch(path), os.fspath(path))


FORMAT = format_of_records(
    "pyg",
    read_record,
    (".pt", ".pth"),
    options=("keys",),
    hold=hold,
    needs="torch",
    what="PyTorch Geometric: Data, HeteroData, or a dict of tensors, of torch.save",
)
