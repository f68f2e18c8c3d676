"""Folders of ``.npy`` files: compressed rows that are mapped into memory, not read.

``indptr.npy`` and ``indices.npy`` are the rows: row i needs the rows
``indices[indptr[i]:indptr[i + 1]]``. ``values.npy`` may be beside them, ``original_ids.npy``, and
vertex data: ``features.npy``, ``labels.npy``, ``train_mask.npy`` and so on. ``graph.json`` says
what arrays do not: whether the graph is directed, and what it was made of. `plancc convert` writes
such a folder.

Where rows are canonical, the arrays of the graph are the files: the system reads the pages that are
looked at, and drops them when memory is short.
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
from plancc.graph.canonical import as_values, detect_direction, graph_of_rows
from plancc.graph.formats import Format, join_names, reading_of, split_names
from plancc.graph.graph import Graph, Source, as_offsets, check_num_vertices, check_one_type
from plancc.graph.npz import map_array
from plancc.graph.textfile import StrPath, input_errors
from plancc.text import shown

ROWS = ("indptr.npy", "indices.npy")
OTHERS = ("values.npy", "original_ids.npy")
HEAD = "graph.json"
VERSION = 1
BLOCK = 1 << 22
"""Entries that are looked at together."""


def graph_files(folder: str) -> list[str]:
    """The files that the graph is read from; empty if this is no such folder."""
    there = [name for name in (*ROWS, *OTHERS, HEAD) if os.path.isfile(os.path.join(folder, name))]
    return there if there[:2] == [*ROWS] else []


def read_csr(
    path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
) -> Graph:
    """The graph of a folder.

    Parameters:
        path, pattern, symmetrize, transpose: As in `plancc.graph.formats.read_graph`.

    Raises:
        InputError: For a file that is missing, cut short or of another type, arrays that disagree
            in length, offsets that do not ascend, an index out of range; the message names the
            file.
    """
    files = MappedGraph.open(path, pattern=pattern)
    files.check_range(0, len(files.indices))
    source = files.source
    reading: dict[str, Any] = {"symmetrize": symmetrize, "transpose": transpose, "source": source}
    n = len(files.indptr) - 1
    values = files.numbers(0, len(files.indices))
    graph = graph_of_rows(n, files.indptr, files.indices, values, **reading)
    if files.directed and not symmetrize:
        graph = replace(graph, directed=True)
    else:
        graph = detect_direction(graph)
    if graph.directed and files.directed is False:
        raise files.not_symmetric()
    return replace(graph, original_ids=files.original_ids)


@dataclass(frozen=True, eq=False)
class MappedGraph:
    """The arrays of a folder, mapped.

    Attributes:
        indptr (int64[n + 1]): Offsets that fit the indices.
        indices (int[entries]): Not yet looked at.
        values: number[entries], or None.
        original_ids: int64[n], or None.
        directed: None: ``graph.json`` does not say.
        source: With the weights as ``graph.json`` has them.
    """

    folder: str
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.integer]
    values: npt.NDArray[Any] | None
    original_ids: npt.NDArray[np.int64] | None
    directed: bool | None
    source: Source

    @classmethod
    def open(cls, path: StrPath, *, pattern: bool = False) -> MappedGraph:
        """Map the arrays of a folder; `pattern`: without values.

        Raises:
            InputError: As `read_csr`, but for what is in the indices.
        """
        folder = os.fspath(path)
        ptr_name, column_name = (os.path.join(folder, name) for name in ROWS)
        indptr, indices = map_array(ptr_name), map_array(column_name)
        for name, array in ((ptr_name, indptr), (column_name, indices)):
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise InputError(
                    f"{name}: must be a list of integers, not '{array.dtype}' of shape "
                    f"{array.shape}"
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
        if values is not None:
            source = replace(source, **_weights(head))
        return cls(folder, indptr, indices, values, ids, head.get("directed"), source)

    def graph(self, source: Source) -> Graph:
        """The arrays as a graph, unchecked: for its sizes and ids."""
        return Graph(
            self.indptr,
            self.indices.astype(np.int32, copy=False),
            directed=self.directed is not False,
            original_ids=self.original_ids,
            source=source,
        )

    def check_range(self, first: int, last: int) -> None:
        """InputError unless entries ``first..last-1`` of the indices are vertices."""
        n = len(self.indptr) - 1
        for start in range(first, last, BLOCK):
            some = self.indices[start : min(start + BLOCK, last)]
            if some.min() < 0 or some.max() >= n:
                at = start + int(np.argmax((some < 0) | (some >= n)))
                raise InputError(
                    f"{os.path.join(self.folder, ROWS[1])}: entry {at} is '{self.indices[at]}', "
                    f"out of range 0..{n - 1}"
                )

    def not_symmetric(self) -> InputError:
        """What to raise if a pattern that is said to be symmetric is not."""
        return InputError(
            f"{os.path.join(self.folder, HEAD)}: 'directed' is false, and entries (i, j) are "
            "without (j, i): write true, or read with `symmetrize`"
        )

    def numbers(self, first: int, last: int) -> npt.NDArray[np.floating] | None:
        """The values of entries ``first..last-1``; InputError unless they are finite numbers."""
        if self.values is None:
            return None
        return as_values(self.values[first:last], os.path.join(self.folder, "values.npy"))


def _others(folder: str, name: str, length: int) -> npt.NDArray[Any] | None:
    """An array that need not be there."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    array = map_array(path)
    if array.ndim != 1 or len(array) != length:
        raise InputError(f"{path}: must have {length} entries, not shape {array.shape}")
    if name != "original_ids.npy":
        return array
    if array.dtype.kind not in "iu":
        raise InputError(f"{path}: ids of type '{array.dtype}' are not whole numbers")
    if len(array) and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{path}: id '{array.max()}' does not fit into 63 bits")
    return array.astype(np.int64, copy=False)


def _head(folder: str) -> dict[str, Any]:
    """What ``graph.json`` says; nothing where it is missing."""
    path = os.path.join(folder, HEAD)
    if not os.path.isfile(path):
        return {}
    with input_errors(path):
        text = Path(path).read_bytes()
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({shown(error)})") from error
    if not isinstance(head, dict) or not isinstance(head.get("directed", False), bool):
        raise InputError(f"{path}: 'directed' must be true or false")
    version = head.get("version", VERSION)
    if version != VERSION:
        raise InputError(f"{path}: version '{shown(version)}' is not {VERSION}; update plancc")
    return head


def _weights(head: Mapping[str, Any]) -> dict[str, str]:
    """Name and range of the weights, as ``graph.json`` has them."""
    made_of = head.get("made_of")
    if isinstance(made_of, dict):
        told = [made_of.get(name) for name in ("weights", "weight_range")]
        if all(isinstance(each, str) and each for each in told):
            return dict(zip(("weights", "weight_range"), map(shown, told), strict=True))
    return {"weights": "'values.npy'"}


def _columns(head: Mapping[str, Any]) -> str:
    """Names of the columns that rows and columns were, as ``graph.json`` has them; "" without."""
    made_of = head.get("made_of")
    if not isinstance(made_of, dict):
        return ""
    try:
        names = split_names(shown(made_of.get("columns", "")))
        turned = "transpose" in reading_of(shown(made_of.get("reading", "")))
    except InputError:  # others wrote it; it is for display only
        return ""
    return join_names(names[::-1] if turned else names) if len(names) == 2 else ""


def read_csr_data(
    path: StrPath, *, split: str | None, keys: Mapping[str, str]
) -> dict[str, npt.NDArray[Any]]:
    """The other arrays of a folder, mapped; `split` and `keys` are looked up by the caller."""
    folder = os.fspath(path)
    with input_errors(folder):
        names = sorted(os.listdir(folder))
    taken = {*ROWS, *OTHERS}
    return {
        name.removesuffix(".npy"): map_array(os.path.join(folder, name))
        for name in names
        if name.endswith(".npy") and name not in taken
    }


def write_head(folder: Path, directed: bool, source: Source) -> None:
    """Write ``graph.json``."""
    head = {"version": VERSION, "directed": directed, "made_of": asdict(source)}
    (folder / HEAD).write_text(json.dumps(head, indent=1) + "\n")


def write_csr(graph: Graph, folder: Path) -> None:
    """Write a graph as a folder, which exists; InputError for one of types."""
    check_one_type(graph, "a folder of compressed rows")
    arrays: dict[str, npt.NDArray[Any] | None] = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "values": graph.values,
        "original_ids": graph.original_ids,
    }
    for name, array in arrays.items():
        if array is not None:
            np.save(folder / f"{name}.npy", array)
    write_head(folder, graph.directed, graph.source)


FORMAT = Format(
    (),
    read_csr,
    gzip=False,
    read_data=read_csr_data,
    files=graph_files,
    what="a folder of compressed rows in .npy files, mapped into memory",
)
