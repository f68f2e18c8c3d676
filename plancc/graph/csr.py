"""Folders of ``.npy`` files: compressed rows that are mapped into memory, not read.

``indptr.npy`` and ``indices.npy`` hold the rows: row i needs the rows ``indices[indptr[i]:indptr[i
+ 1]]``. The folder may also hold ``values.npy``, ``original_ids.npy``, and vertex data:
``features.npy``, ``labels.npy``, ``train_mask.npy`` and so on. ``graph.json`` holds direction,
origin, vertex types and relations. With types, rows are the rows of the union
(`plancc.graph.types`), and type k has files ``k.features.npy`` and so on. ``relation.npy`` exists
if two relations join the same two types.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.canonical import (
    as_values,
    detect_direction,
    graph_of_rows,
    is_canonical,
    with_weight_range,
)
from plancc.graph.columns import columns_of
from plancc.graph.formats import FLAGS, FORMATS, Format, join_names, reading_of, split_names
from plancc.graph.graph import (
    Graph,
    Source,
    as_offsets,
    check_num_vertices,
    first_outside,
    first_true,
)
from plancc.graph.listed_edges import list_edges
from plancc.graph.named_ids import are_names
from plancc.graph.npz import check_integers, map_array
from plancc.graph.rowids import GRAPH_IDS
from plancc.graph.textfile import input_errors
from plancc.graph.types import Types
from plancc.graph.union import without_relations
from plancc.graph.vertexdata import VertexData
from plancc.text import shown

ROWS = ("indptr.npy", "indices.npy")
OTHERS = ("values.npy", "original_ids.npy", "relation.npy")
HEAD = "graph.json"
VERSION = 1
BLOCK = 1 << 22
"""Number of entries that are checked at a time."""


def graph_files(folder: str) -> list[str]:
    """Return the names of the graph's files; empty if `folder` is not in this module's format."""
    there = [name for name in (*ROWS, *OTHERS, HEAD) if os.path.isfile(os.path.join(folder, name))]
    return there if there[:2] == [*ROWS] else []


def read_csr(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """Return the graph that a folder of compressed rows holds.

    A graph of several vertex types cannot be made symmetric or transposed.
    """
    files = MappedGraph.open(path, pattern=pattern)
    n = len(files.indptr) - 1
    if files.types is None:
        files.check_range(0, len(files.indices))
        reading: Any = {"symmetrize": symmetrize, "transpose": transpose, "source": files.source}
        values = files.numbers(0, len(files.indices))
        graph = graph_of_rows(n, files.indptr, files.indices, values, **reading)
    elif symmetrize or transpose:
        raise InputError(
            f"{files.folder}: a typed graph cannot be read with `symmetrize` or `transpose`"
        )
    else:
        graph = files.rows(0, n)
        graph = replace(graph, source=with_weight_range(files.source, graph.values))
    if files.directed and not symmetrize:
        graph = replace(graph, directed=True)
    else:
        graph = replace(graph, directed=detect_direction(without_relations(graph)).directed)
    if graph.directed and files.directed is False:
        raise files.not_symmetric()
    return replace(graph, original_ids=files.original_ids)


@dataclass(frozen=True, eq=False)
class MappedGraph:
    """The arrays of a graph folder, mapped into memory.

    Attributes:
        indptr (int64[n + 1]): Offsets, checked against the number of indices.
        indices (int[entries]): Columns, not yet checked.
        original_ids: The vertices' ids in the source, int64[n] or bytes[n], or None.
        directed: Whether the graph is directed; None if ``graph.json`` does not say.
        relation: Relation of every entry, int[entries]; None if no two relations join the same two
            types.
    """

    folder: str
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.integer]
    values: npt.NDArray[Any] | None
    original_ids: npt.NDArray[Any] | None
    directed: bool | None
    source: Source
    types: Types | None = None
    relation: npt.NDArray[np.integer] | None = None

    @classmethod
    def open(cls, path: StrPath, *, pattern: bool = False) -> MappedGraph:
        """Map the arrays of a folder, without the values if `pattern`; indices stay unchecked."""
        folder = os.fspath(path)
        ptr_name, column_name = (os.path.join(folder, name) for name in ROWS)
        indptr, indices = (
            check_integers(map_array(name), f"{name}:") for name in (ptr_name, column_name)
        )
        n = len(indptr) - 1
        check_num_vertices(n, ptr_name)
        of = f", the number of indices in {column_name}"
        indptr = as_offsets(indptr, len(indices), f"{ptr_name}:", of)
        values = None if pattern else _others(folder, "values.npy", len(indices))
        ids = _others(folder, "original_ids.npy", n)
        head = _head(folder)
        name = os.path.basename(os.path.abspath(folder))
        source = Source(name, format="csr", columns=_columns(head))
        if isinstance(counts := head["made_of"].get("counts"), str):
            source = replace(source, counts=shown(counts))
        if values is not None:
            source = replace(source, **_weights(head))
        types, relation = _types(folder, head), None
        if types is not None and types.num_vertices != n:
            told = f"the types have {types.num_vertices} vertices, but {ptr_name} has {n}"
            raise InputError(f"{os.path.join(folder, HEAD)}: {told}")
        if types is not None and types.are_parallel:
            relation = _others(folder, "relation.npy", len(indices))
            if relation is None:
                raise InputError(f"{folder}: needs relation.npy: two relations join the same types")
        found = (indptr, indices, values, ids, head.get("directed"), source, types, relation)
        return cls(folder, *found)

    def graph(self, source: Source) -> Graph:
        """Return the arrays as a graph without values, whose columns are unchecked.

        Only its size, ids and types may be used, and not its nonzeros.
        """
        columns, directed = self.indices.astype(np.int32, copy=False), self.directed is not False
        own: Any = {"original_ids": self.original_ids, "source": source, "types": self.types}
        return Graph(self.indptr, columns, directed=directed, **own)

    def rows(self, first: int, last: int) -> Graph:
        """Return rows ``first..last-1`` as a graph; its columns are vertices of the whole graph.

        Raise InputError for wrong columns, zero or infinite values, NaN, or a nonzero that no
        relation fits.
        """
        start, stop = int(self.indptr[first]), int(self.indptr[last])
        self.check_range(start, stop)
        indptr = self.indptr[first : last + 1].astype(np.int64) - start
        columns: Any = self.indices[start:stop].astype(np.int32, copy=False)
        values, relation, key = self.numbers(start, stop), None, columns
        if self.types is not None:
            rows = np.repeat(np.arange(first, last), np.diff(indptr))
            of = self.types.relation_of(rows, columns)
            if self.relation is not None:
                of = self.relation[start:stop].astype(np.int64)
                relation = of.astype(np.uint16)
                key = columns * np.int64(len(self.types.relations)) + of
            if (k := first_true(~self.types.fits(rows, columns, of))) is not None:
                entry = f"row {rows[k]}, column {columns[k]}: the entry"
                raise InputError(f"{self.folder}: {entry} fits no relation between its ends")
            list_edges(rows, columns, of)
        if not is_canonical(indptr, key, values):
            told = "the columns of a row do not ascend, or some values are zero"
            raise InputError(f"{self.folder}: {told}; write the folder anew: plancc convert")
        directed, carried = self.directed is not False, columns_of(relation=relation)
        own: Any = {"source": self.source, "types": self.types, "columns": carried}
        return Graph(indptr, columns, values, directed, **own)

    def check_range(self, first: int, last: int) -> None:
        """Raise InputError unless entries ``first..last-1`` of the indices are vertex numbers."""
        n = len(self.indptr) - 1
        for start in range(first, last, BLOCK):
            if (k := first_outside(self.indices[start : min(start + BLOCK, last)], n)) is not None:
                entry = f"entry {start + k} is '{self.indices[start + k]}', out of range 0..{n - 1}"
                raise InputError(f"{os.path.join(self.folder, ROWS[1])}: {entry}")

    def not_symmetric(self) -> InputError:
        """Return the error for a pattern that is not symmetric, contrary to ``graph.json``."""
        told = "'directed' is false, but some entries (i, j) have no (j, i)"
        cure = "set it to true, or read the folder with `symmetrize`"
        return InputError(f"{os.path.join(self.folder, HEAD)}: {told}; {cure}")

    def numbers(self, first: int, last: int) -> npt.NDArray[np.floating] | None:
        """Return the values of entries ``first..last-1``; InputError unless all are finite."""
        if self.values is None:
            return None
        return as_values(self.values[first:last], os.path.join(self.folder, "values.npy"))


def _types(folder: str, head: Mapping[str, Any]) -> Types | None:
    """Return the vertex types and relations in ``graph.json``; None if the file has none."""
    if "types" not in head:
        return None
    try:
        texts = (json.dumps(head.get(n), separators=(",", ":")) for n in ("types", "relations"))
        return Types.parse(*texts)
    except InputError as error:
        raise InputError(f"{os.path.join(folder, HEAD)}: {error}") from None


def _others(folder: str, name: str, length: int) -> npt.NDArray[Any] | None:
    """Map an optional array of `length` entries; None if the file is missing."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    array = map_array(path)
    if array.ndim != 1 or len(array) != length:
        raise InputError(f"{path}: must have {length} entries, not shape {array.shape}")
    if name == "values.npy" or (name == "original_ids.npy" and are_names(array)):
        return array
    if array.dtype.kind not in "iu":
        what = "ids" if name == "original_ids.npy" else "relations"
        raise InputError(f"{path}: {what} of type '{array.dtype}' are not whole numbers")
    if len(array) and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{path}: id '{array.max()}' does not fit into 63 bits")
    return array.astype(np.int64, copy=False)


def _head(folder: str) -> dict[str, Any]:
    """Return the mapping in ``graph.json``; its "made_of" is always a mapping, empty if missing."""
    path = os.path.join(folder, HEAD)
    if not os.path.isfile(path):
        return {"made_of": {}}
    with input_errors(path):
        text = Path(path).read_bytes()
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({shown(error)})") from error
    if not isinstance(head, dict) or not isinstance(head.get("directed", False), bool):
        raise InputError(f"{path}: 'directed' must be true or false")
    version = head.get("version", VERSION)
    if version != VERSION:
        raise InputError(f"{path}: format version '{shown(version)}'; this plancc reads {VERSION}")
    made_of = head.get("made_of")
    return head | {"made_of": made_of if isinstance(made_of, dict) else {}}


def _weights(head: Mapping[str, Any]) -> dict[str, str]:
    """Return `weights` and `weight_range` of ``graph.json``, for `Source`.

    If one is missing there, return only `weights`, with the name of the file of values.
    """
    told = {name: head["made_of"].get(name) for name in ("weights", "weight_range")}
    if all(isinstance(each, str) and each for each in told.values()):
        return {name: shown(each) for name, each in told.items()}
    return {"weights": "'values.npy'"}


def _columns(head: Mapping[str, Any]) -> str:
    """Return the names of the source's columns that hold the ends of edges; "" if unknown."""
    made_of = head["made_of"]
    try:
        names = split_names(shown(made_of.get("columns", "")))
        turned = "transpose" in reading_of(shown(made_of.get("reading", "")))
    except InputError:  # another program wrote graph.json; the names are for display only
        return ""
    return join_names(names[::-1] if turned else names) if len(names) == 2 else ""


def reading_like(provenance: Mapping[str, Any], path: StrPath) -> dict[str, Any]:
    """Return options for `read_graph`, to read `path` as the source of a plan was read.

    If `plancc convert` wrote the folder `path`, options that it has already applied are left out.
    """
    reading: dict[str, Any] = reading_of(str(provenance.get("source_reading", "")))
    format = provenance.get("source_format")
    if format in FORMATS and os.path.basename(path) == provenance.get("source_name"):
        reading["format"] = format
    made_of = _head(os.fspath(path))["made_of"] if os.path.isdir(path) else {}
    if not made_of or format == "csr":
        return reading
    done = reading_of(shown(made_of.get("reading", "")))
    return {name: each for name, each in reading.items() if name in FLAGS and name not in done}


def read_csr_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> dict[str, Any]:
    """Memory-map the arrays of vertex data in a folder; return a dict of them and the vertex ids.

    `split` and `keys` have no effect here; the caller applies them. With several vertex types,
    return such a dict per type.
    """
    folder = os.fspath(path)
    with input_errors(folder):
        names = sorted(os.listdir(folder))
    taken = {*ROWS, *OTHERS} - {"original_ids.npy"}
    stems = (name[:-4] for name in names if name.endswith(".npy") and name not in taken)
    arrays = {stem: map_array(os.path.join(folder, f"{stem}.npy")) for stem in stems}
    types, found = _types(folder, _head(folder)), dict[str, Any]()
    ids: Any = arrays.pop("original_ids", None)
    if types is None:
        return arrays if ids is None else {**arrays, GRAPH_IDS[0]: ids}
    for name, array in arrays.items():
        number, _, key = name.partition(".")
        if number.isdecimal() and int(number) < len(types.names):
            found.setdefault(types.names[int(number)], {})[key] = array
    for name in found if ids is not None else ():
        found[name][GRAPH_IDS[0]] = ids[types.vertices(name)]
    return found


def write_head(folder: Path, directed: bool, source: Source, types: Types | None = None) -> None:
    """Write ``graph.json``: whether the graph is directed, its source, and its types."""
    head = {"version": VERSION, "directed": directed, "made_of": asdict(source)}
    if types is not None:
        head |= zip(("types", "relations"), map(json.loads, types.texts()), strict=True)
    (folder / HEAD).write_text(json.dumps(head, indent=1) + "\n")


def write_csr(graph: Graph, folder: Path) -> None:
    """Write a graph as arrays and a header into an existing folder."""
    for name in (*ROWS, *OTHERS):
        array = getattr(graph, name.removesuffix(".npy"))
        if array is not None:
            np.save(folder / name, array)
    write_head(folder, graph.directed, graph.source, graph.types)


def write_data(data: VertexData, folder: Path) -> None:
    """Write vertex data into the graph's folder: one file for each array of each vertex type."""
    every = {"": data}
    if data.by_type is not None:
        every |= {f"{data.by_type.number(name)}.": each for name, each in data.of_type.items()}
    for prefix, each in every.items():
        for key, array in each.arrays().items():
            np.save(folder / f"{prefix}{key}.npy", array)


FORMAT = Format(
    (),
    read_csr,
    gzip=False,
    read_data=read_csr_data,
    files=graph_files,
    what="a folder of compressed rows in .npy files, mapped into memory",
)
