"""Graphs of PyTorch Geometric: objects, and files that torch.save wrote. Imports neither library.

``edge_index[0]`` is the source j, ``edge_index[1]`` the target i that aggregates from it, hence
``A[i, j]``. A sparse ``adj_t`` is ``A`` itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from plancc.errors import InputError
from plancc.graph.formats import Held
from plancc.graph.textfile import StrPath
from plancc.interop.record import Record, format_of_records, held_record, is_typed
from plancc.interop.torchfile import StoredHetero, StoredObject, load_torch


def is_data(obj: Any) -> bool:
    """Whether an object looks like a Data or a HeteroData, or is its ``to_dict()``."""
    if isinstance(obj, Mapping):
        return "edge_index" in obj or "adj_t" in obj or "_global_store" in obj
    has_edges = hasattr(obj, "edge_index") or hasattr(obj, "adj_t")
    return "HeteroData" in type(obj).__name__ or (has_edges and not hasattr(obj, "indptr"))


def record_of(obj: Any, where: str) -> Record:
    """The attributes of a Data by name; of a HeteroData, attributes of its types and relations.

    Raises:
        InputError: For several graphs, and what is no graph.
    """
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
        return _of_several(obj, where)
    elif not isinstance(obj, Mapping) and is_data(obj):
        obj = obj.to_dict() if callable(getattr(obj, "to_dict", None)) else vars(obj)
    if not isinstance(obj, Mapping):
        raise InputError(f"{where}: holds no graph but '{type(obj).__name__}'")
    if is_typed(obj):
        return {key: dict(value) for key, value in obj.items() if isinstance(value, Mapping)}
    return {str(key): value for key, value in obj.items()}


def _of_several(obj: tuple[Any, ...] | list[Any], where: str) -> Record:
    """The only graph of a list, or of the (data, slices) of an InMemoryDataset."""
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
    """Whether it is a graph, and not the slices of one, whose edge_index is a list."""
    if isinstance(obj, Mapping):
        return getattr(obj.get("edge_index"), "ndim", 1) == 2
    return _is_record(obj)


def hold(obj: Any) -> Held | None:
    """A Data or HeteroData, its ``to_dict()``, any object or dict with ``edge_index``; or None."""
    if not is_data(obj):
        return None
    name = f"PyG {type(obj).__name__}"
    return held_record(record_of(obj, name), name, "pyg")


def read_record(path: StrPath) -> Record:
    """What a file holds: a Data or HeteroData, its ``to_dict()``, a dict of tensors, or the
    ``processed/data.pt`` of an InMemoryDataset of one graph.

    Raises:
        InputError: For what is no graph, several graphs, an object that is no tensor.
        BackendUnavailable: Without torch.
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
