"""Reader of the Open Graph Benchmark's folders (node and link property prediction).

A folder has ``raw/edge.csv.gz`` or ``raw/data.npz``, and files of vertex data. A line ``u,v`` is an
edge from u to v, hence ``A[v, u]``, as in PyTorch Geometric. Only OGB's page of the data set says
whether reverse edges belong to the graph; if so, read with `symmetrize`.

A heterogeneous graph has its relations in ``raw/triplet-type-list`` and in folders of
``raw/relations``, and data by vertex type: ``raw/node-feat/TYPE``, ``split/NAME/TYPE``.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.edgelist import End, check_ends, read_integer_columns
from plancc.graph.graph import check_num_vertices
from plancc.graph.npz import Archive
from plancc.graph.textfile import fail, read_bytes, show
from plancc.graph.vertextables import class_numbers, read_numbers
from plancc.interop.record import Record, edge_index_of, format_of_records
from plancc.interop.torchfile import load_torch
from plancc.text import shown

_TABLE = (".csv.gz", ".csv")
TRIPLES, COUNTS = "raw/triplet-type-list", "raw/num-node-dict"
_TAKEN = ("edge_feat", "edge_index", "edge_reltype")
"""Names of arrays of edge data that are read; others are ignored with a warning."""
_SPLITS = {"train": "train_idx", "valid": "valid_idx", "test": "test_idx"}


def _table(folder: str, name: str) -> str:
    """Return the name of a table's file relative to the folder; "" if the table is missing."""
    names = (f"{name}{extension}" for extension in _TABLE)
    return next((each for each in names if os.path.isfile(os.path.join(folder, each))), "")


def graph_files(folder: str) -> list[str]:
    """Return the names of the graph's files; empty if this is not a folder of OGB."""
    if os.path.isfile(os.path.join(folder, "raw/data.npz")):
        return ["raw/data.npz"]
    names: tuple[str, ...] = ("raw/edge", "raw/num-node-list", "raw/edge-feat")
    if _table(folder, TRIPLES):
        triples = _triples(folder)
        of_edges = (f"{_edges(each)}-feat" for each in triples)
        names = (TRIPLES, COUNTS, *map(_edges, triples), *of_edges)
    elif not _table(folder, "raw/edge"):
        return []
    return [found for each in names if (found := _table(folder, each))]


def read_record(path: StrPath) -> Record:
    """Read the graph of a folder as a record: a dict with its arrays by name.

    ``raw/`` has tables (.csv.gz or .csv) or ``data.npz``. If ``edge-feat`` has a single column, it
    holds the values of the edges.
    """
    folder = os.fspath(path)
    if _table(folder, TRIPLES):
        return _relations(folder)
    if os.path.isfile(os.path.join(folder, "raw/data.npz")):
        with Archive(os.path.join(folder, "raw/data.npz")) as archive:
            n = _one_graph(archive.integers("num_nodes_list"), archive.name)
            pair = edge_index_of(archive["edge_index"], archive.name)
            values = archive.get("edge_feat")
            _warn_of_others(folder, "raw/data.npz", [name for name in archive if "edge" in name])
    else:
        sizes = _table(folder, "raw/num-node-list")
        if not sizes:
            raise InputError(f"{folder}: raw/num-node-list.csv.gz is missing")
        where = os.path.join(folder, sizes)
        n = _one_graph(read_numbers(where), where)
        pair, _ = _pair(os.path.join(folder, _table(folder, "raw/edge")))
        _check_number(folder, "raw/edge", pair)
        _warn_of_others(folder, "raw/", os.listdir(os.path.join(folder, "raw")))
        features = _table(folder, "raw/edge-feat")
        values = read_numbers(os.path.join(folder, features)) if features else None
    return {"num_nodes": np.array(n), "edge_index": pair, "edge-feat": values}


def _pair(path: str) -> tuple[npt.NDArray[np.int64], bytes]:
    """Return the two columns of a table of edges, int64[2, edges], and the file's bytes."""
    text = read_bytes(path)
    return np.stack(read_integer_columns(path, text, b",")), text


def _lines(folder: str, name: str) -> tuple[str, list[list[str]]]:
    """Return the path of a table of strings, and its rows, each a list of strings."""
    where = os.path.join(folder, _table(folder, name) or f"{name}.csv.gz")
    text = read_bytes(where).decode("utf-8-sig", "replace")
    return where, [line for line in csv.reader(text.splitlines()) if line]


def _triples(folder: str) -> list[list[str]]:
    """Return source, name and destination of every relation."""
    where, triples = _lines(folder, TRIPLES)
    for k, each in enumerate(triples, 1):
        if len(each) != 3 or any("/" in name or name in ("", ".", "..") for name in each):
            raise InputError(f"{where}, line {k}: '{shown(','.join(each))}' is not a relation")
        if each in triples[: k - 1]:
            fail(where, k, f"relation '{shown(' '.join(each))}' is listed twice")
    return triples


def _edges(triple: list[str]) -> str:
    """Return the name of the table of a relation's edges; `triple` is source, name, destination."""
    return f"raw/relations/{'___'.join(triple)}/edge"


def _counts(folder: str) -> dict[str, Any]:
    """Return the number of vertices of every type, by name."""
    where, lines = _lines(folder, COUNTS)
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        raise InputError(f"{where}: give a line of types and a line of vertex counts")
    for count in lines[1]:
        if not (count.isascii() and count.isdigit()):
            raise InputError(f"{where}, line 2: {show(count)} is not a number of vertices")
    return {name: np.array(int(count)) for name, count in zip(*lines, strict=True)}


def _relations(folder: str) -> Record:
    """Return the record of the heterogeneous graph in a folder of OGB."""
    record: Record = {name: {"num_nodes": count} for name, count in _counts(folder).items()}
    for triple in _triples(folder):
        for name in {triple[0], triple[2]} - record.keys():
            raise InputError(f"{folder}: {COUNTS} does not list vertex type '{shown(name)}'")
        where = os.path.join(folder, _table(folder, _edges(triple)) or f"{_edges(triple)}.csv.gz")
        pair, text = _pair(where)
        ends = [
            End(ids, int(record[name]["num_nodes"]), name)
            for ids, name in zip(pair, triple[::2], strict=True)
        ]
        check_ends(where, text, ends, f"relation '{shown(' '.join(triple))}'")
        _check_number(folder, _edges(triple), pair)
        record[tuple(triple)] = {"edge_index": pair}
        of_relation = os.path.dirname(_edges(triple))
        _warn_of_others(folder, f"{of_relation}/", os.listdir(os.path.join(folder, of_relation)))
        if features := _table(folder, f"{_edges(triple)}-feat"):
            record[tuple(triple)]["edge-feat"] = read_numbers(os.path.join(folder, features))
    return record


def _check_number(folder: str, edges: str, pair: npt.NDArray[np.integer]) -> None:
    """Raise InputError if ``num-edge-list`` exists and gives another number of edges."""
    if name := _table(folder, os.path.join(os.path.dirname(edges), "num-edge-list")):
        where, count = os.path.join(folder, name), pair.shape[1]
        said = float(read_numbers(where).sum())
        if said != count:
            raise InputError(f"{where}: says '{said:.15g}' edges, but there are {count:,}")


def _warn_of_others(folder: str, where: str, names: Iterable[str]) -> None:
    """Warn of edge data that are not read; `names` are all files or arrays at `where`."""
    stems = {name: name.partition(".")[0].replace("-", "_") for name in sorted(names)}
    left = [name for name, stem in stems.items() if stem.startswith("edge_") and stem not in _TAKEN]
    if left:
        words = ", ".join(show(name) for name in left)
        warn(f"{folder}: ignored data of edges in {where}: {words}")


def _one_graph(counts: npt.NDArray[Any], where: str) -> int:
    if counts.size != 1:
        raise InputError(f"{where}: holds {counts.size} graphs; one is expected")
    n = float(counts.reshape(-1)[0])
    if not n.is_integer():
        raise InputError(f"{where}: holds '{n}', not the number of vertices")
    check_num_vertices(int(n), where)
    return int(n)


def read_ogb_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> dict[str, Any]:
    """Read features, labels or targets, and the training, validation and test vertices of a split.

    A label that is NaN becomes -1. A heterogeneous graph has data by vertex type.
    """
    folder, found = os.fspath(path), dict[str, Any]()
    if _table(folder, TRIPLES):
        types = _counts(folder)
        splits = _split(folder, split, types)
        return {name: _tables(folder, f"/{name}") | splits.get(name, {}) for name in types}
    data, labels = (os.path.join(folder, f"raw/{name}.npz") for name in ("data", "node-label"))
    if not os.path.isfile(data):
        found = _tables(folder)
    else:
        with Archive(data) as archive:
            found |= {name: archive[name] for name in archive if name.startswith("node_")}
        if os.path.isfile(labels):
            with Archive(labels) as archive:
                found["labels"] = _labels(archive["node_label"], archive.name)
    return found | _split(folder, split, {"": None}).get("", {})


def _tables(folder: str, of_type: str = "") -> dict[str, Any]:
    """Read features and labels; `of_type` is "/TYPE" for the folders of a vertex type, else ""."""
    names = [f"raw/{name}{of_type and f'{of_type}/{name}'}" for name in ("node-feat", "node-label")]
    found, (features, labels) = dict[str, Any](), (_table(folder, name) for name in names)
    if features:
        found["features"] = read_numbers(os.path.join(folder, features), dtype=np.float32)
    if labels:
        where = os.path.join(folder, labels)
        found["labels"] = _labels(read_numbers(where), where)
    return found


def _labels(labels: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Return the labels of one task as classes, int64[rows], or of several tasks as they are."""
    if labels.ndim == 2 and labels.shape[1] > 1:
        if np.isnan(labels).any():
            raise InputError(f"{where}: with several tasks, every label must be 0 or 1, not nan")
        return labels
    if labels.dtype.kind not in "biuf":
        raise InputError(f"{where}: labels are of type '{labels.dtype}', not numbers")
    return class_numbers(labels.reshape(-1).astype(np.float64), f"{where}: the label")


def _split(folder: str, split: str | None, types: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the vertices of one split by vertex type, then by training, validation and test.

    The type of a graph with one type is "". If `split` is None, the graph must have at most one
    split; if it has no split, the dict is empty.
    """
    root, names = _splits(folder)
    names = [n for n in names if any(_split_files(root, os.path.join(n, each)) for each in types)]
    if not names and split is None:
        return {}
    name = _chosen(folder, names, split)
    return {each: _lists(root, os.path.join(name, each)) for each in types}


def _splits(folder: str) -> tuple[str, list[str]]:
    """Return the folder of splits, and the names of the splits."""
    root = os.path.join(folder, "split")
    return root, sorted(os.listdir(root)) if os.path.isdir(root) else []


def _chosen(folder: str, names: list[str], split: str | None) -> str:
    """Return `split` if it is in `names`; for None, the only name. Raise InputError otherwise."""
    if split is None and len(names) > 1:
        cure = f"choose one by `split`, {' or '.join(names)}"
        raise InputError(f"{folder}: has several splits; {cure}")
    name = names[0] if split is None and names else split
    if name not in names:
        raise InputError(f"{folder}: no split '{name}'; choose from {', '.join(names) or 'none'}")
    return name


def _lists(root: str, name: str) -> dict[str, Any]:
    """Return the training, validation and test vertices in the folder ``root/name``, by key."""
    files = _split_files(root, name)
    if "split_dict" in files:
        where = os.path.join(root, name, "split_dict.pt")
        held = load_torch(where)
        if not isinstance(held, dict):
            raise InputError(f"{where}: must be a dict with keys train, valid and test")
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


def read_ogb_links(path: StrPath) -> dict[str, Any]:
    """Read positive and negative links for link prediction, from the data set's only split.

    The files are ``train.pt``, ``valid.pt``, ``test.pt``, or ``edge.csv.gz`` and
    ``edge_neg.csv.gz`` in folders ``train``, ``valid``, ``test``.
    """
    folder = os.fspath(path)
    root, names = _splits(folder)
    name = _chosen(folder, [n for n in names if _link_files(os.path.join(root, n))], None)
    found: dict[str, Any] = {}
    for part, key in (("train", "train"), ("valid", "val"), ("test", "test")):
        where = os.path.join(root, name, f"{part}.pt")
        if os.path.isfile(where):
            found |= _split_ends(load_torch(where), key, where)
            continue
        for table, end in (("edge", ""), ("edge_neg", "_negative")):
            if file := _table(os.path.join(root, name), f"{part}/{table}"):
                found[f"{key}{end}"], _ = _pair(os.path.join(root, name, file))
    return {name: each for name, each in found.items() if not name.startswith("train_")}


def _link_files(folder: str) -> bool:
    """Return whether a folder holds a split for link prediction."""
    return os.path.isfile(os.path.join(folder, "train.pt")) or bool(_table(folder, "train/edge"))


def _split_ends(held: Any, key: str, where: str) -> dict[str, Any]:
    """Return the links in train.pt, valid.pt or test.pt, by the names that `plancc.graph.links`
    uses."""
    if not isinstance(held, dict) or not {"edge", "source_node"} & held.keys():
        rule = "a dict with 'edge', or 'source_node' and 'target_node'"
        raise InputError(f"{where}: expected {rule}")
    if "edge" in held:
        names = {"edge": key, "edge_neg": f"{key}_negative"}
        found = {mine: np.asarray(held[name]).T for name, mine in names.items() if name in held}
    else:
        ends = [np.asarray(held.get(f"{end}_node", ())) for end in ("source", "target")]
        if len(ends[0]) != len(ends[1]):
            raise InputError(f"{where}: has {len(ends[0])} sources, but {len(ends[1])} targets")
        found = {key: np.stack(ends)}
        if "target_node_neg" in held:
            found[f"{key}_target_negative"] = np.asarray(held["target_node_neg"])
    return found


FORMAT = format_of_records(
    "ogb",
    read_record,
    (),
    read_data=read_ogb_data,
    read_links=read_ogb_links,
    files=graph_files,
    what="folders of the Open Graph Benchmark (node and link property prediction)",
)
