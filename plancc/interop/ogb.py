"""Folders of the Open Graph Benchmark as they lie on disk (node property prediction).

``raw/edge.csv.gz`` or ``raw/data.npz``, and vertex data beside it. A line ``u,v`` is an edge from
source u to target v, hence ``A[v, u]``, as in PyTorch Geometric. Whether inverse edges belong to
the graph is not written in the folder: where OGB says so, read it with `symmetrize`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.edgelist import read_integer_columns
from plancc.graph.graph import check_num_vertices
from plancc.graph.npz import Archive
from plancc.graph.textfile import StrPath, read_bytes
from plancc.graph.vertexdata import class_numbers, read_numbers
from plancc.interop.record import HETERO, Record, edge_index_of, format_of_records
from plancc.interop.torchfile import load_torch

_TABLE = (".csv.gz", ".csv")
_SPLITS = {"train": "train_idx", "valid": "valid_idx", "test": "test_idx"}


def _table(folder: str, name: str) -> str:
    """Name of a table relative to the folder; "" if it is not there."""
    names = (f"{name}{extension}" for extension in _TABLE)
    return next((each for each in names if os.path.isfile(os.path.join(folder, each))), "")


def graph_files(folder: str) -> list[str]:
    """The files that the graph is read from; empty if this is no folder of OGB."""
    if os.path.isfile(os.path.join(folder, "raw/data.npz")):
        return ["raw/data.npz"]
    for name in ("raw/edge", "raw/triplet-type-list"):
        if _table(folder, name):
            others = ("raw/num-node-list", "raw/edge-feat")
            return [found for each in (name, *others) if (found := _table(folder, each))]
    return []


def read_record(path: StrPath) -> Record:
    """The graph of a folder.

    In ``raw/`` are ``edge``, ``num-node-list`` and, as values if it has one column, ``edge-feat``,
    each as .csv.gz or .csv; or all of it is in ``raw/data.npz``.

    Raises
    ------
    InputError
        For a heterogeneous graph, several graphs, a missing or a wrong file.
    """
    folder = os.fspath(path)
    if _table(folder, "raw/triplet-type-list"):
        raise InputError(f"{folder}: {HETERO}")
    if os.path.isfile(os.path.join(folder, "raw/data.npz")):
        with Archive(os.path.join(folder, "raw/data.npz")) as archive:
            n = _one_graph(archive.integers("num_nodes_list"), archive.name)
            pair = edge_index_of(archive["edge_index"], archive.name)
            values = archive.get("edge_feat")
    else:
        sizes = _table(folder, "raw/num-node-list")
        if not sizes:
            raise InputError(f"{folder}: raw/num-node-list.csv.gz is missing")
        where = os.path.join(folder, sizes)
        n = _one_graph(read_numbers(where), where)
        edges = os.path.join(folder, _table(folder, "raw/edge"))
        pair = np.stack(read_integer_columns(edges, read_bytes(edges), b",", 2)[:2])
        features = _table(folder, "raw/edge-feat")
        values = read_numbers(os.path.join(folder, features)) if features else None
    return {"num_nodes": np.array(n), "edge_index": pair, "edge-feat": values}


def _one_graph(counts: npt.NDArray[Any], where: str) -> int:
    if counts.size != 1:
        raise InputError(f"{where}: holds {counts.size} graphs; one is expected")
    n = float(counts.reshape(-1)[0])
    if not n.is_integer():
        raise InputError(f"{where}: holds '{n}', not the number of vertices")
    check_num_vertices(int(n), where)
    return int(n)


def read_ogb_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> dict[str, Any]:
    """Features, labels (-1 where the file has nan) or targets, and the lists of one split."""
    folder, found = os.fspath(path), dict[str, Any]()
    data, labels = (os.path.join(folder, f"raw/{name}.npz") for name in ("data", "node-label"))
    if os.path.isfile(data):
        with Archive(data) as archive:
            found |= {name: archive[name] for name in archive if name.startswith("node_")}
        if os.path.isfile(labels):
            with Archive(labels) as archive:
                found["labels"] = _labels(archive["node_label"], archive.name)
    else:
        if table := _table(folder, "raw/node-feat"):
            found["features"] = read_numbers(os.path.join(folder, table), dtype=np.float32)
        if table := _table(folder, "raw/node-label"):
            where = os.path.join(folder, table)
            found["labels"] = _labels(read_numbers(where), where)
    return found | _split(folder, split)


def _labels(labels: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Classes of one task; the columns of several as they are."""
    if labels.ndim == 2 and labels.shape[1] > 1:
        if np.isnan(labels).any():
            raise InputError(f"{where}: labels of several tasks are unknown (nan); give 0 or 1")
        return labels
    if labels.dtype.kind not in "biuf":
        raise InputError(f"{where}: labels are no numbers but '{labels.dtype}'")
    return class_numbers(labels.reshape(-1).astype(np.float64), f"{where}: the label")


def _split(folder: str, split: str | None) -> dict[str, Any]:
    root = os.path.join(folder, "split")
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    names = [name for name in names if _split_files(root, name)]
    if not names and split is None:
        return {}
    if split is None and len(names) > 1:
        raise InputError(
            f"{folder}: has several splits: choose one by `split`, {' or '.join(names)}"
        )
    name = names[0] if split is None else split
    if name not in names:
        raise InputError(f"{folder}: no split '{name}': choose from {', '.join(names) or 'none'}")
    files = _split_files(root, name)
    if "split_dict" in files:
        where = os.path.join(root, name, "split_dict.pt")
        held = load_torch(where)
        if not isinstance(held, dict):
            raise InputError(f"{where}: expected a dict with keys train, valid and test")
        return {key: held[part] for part, key in _SPLITS.items() if part in held}
    found = {}
    for part, file in files.items():
        where = os.path.join(root, name, file)
        found[_SPLITS[part]] = class_numbers(read_numbers(where).reshape(-1), f"{where}: the line")
    return found


def _split_files(root: str, name: str) -> dict[str, str]:
    folder = os.path.join(root, name)
    files = {part: table for part in _SPLITS if (table := _table(folder, part))}
    if not files and os.path.isfile(os.path.join(folder, "split_dict.pt")):
        return {"split_dict": "split_dict.pt"}
    return files


FORMAT = format_of_records(
    "ogb",
    read_record,
    (),
    read_data=read_ogb_data,
    files=graph_files,
    what="folders of the Open Graph Benchmark (node property prediction)",
)
