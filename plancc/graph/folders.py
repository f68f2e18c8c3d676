"""Function that converts a source into a folder of ``.npy`` files (`plancc.graph.csr`).

The folder is written whole or not at all. Edges that do not fit into memory are sorted on the disk
(`plancc.graph.external`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from plancc.errors import InputError
from plancc.files import StrPath, atomic_folder
from plancc.graph.bounds import VERTICES_PER_BYTE, bounded
from plancc.graph.convert import data_beside
from plancc.graph.csr import write_csr, write_data
from plancc.graph.external import convert
from plancc.graph.formats import (
    FLAGS,
    FORMATS,
    Format,
    check_beginning,
    find_format,
    read_graph,
    size_of_source,
    source_of,
)
from plancc.graph.graph import Graph
from plancc.graph.textfile import is_gzip
from plancc.memory import available_memory

TEXT, GZIP = 8, 40
"""Bytes of memory for every byte of a text, and of a gzipped text, while the text is read whole."""
ENTRY = 33
"""Bytes of memory that an entry takes while a text is read whole."""
SHARE = 0.5
"""Share of the memory that sorting takes; the system buffers written files in the rest."""


def to_folder(
    path: StrPath,
    folder: StrPath,
    *,
    format: str | None = None,
    data: StrPath | Sequence[StrPath] | None = None,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
    memory: int | None = None,
    allow_large: bool = False,
    **reading: Any,
) -> Graph:
    """Write a source into a new or empty folder as ``.npy`` files, and return the mapped graph.

    If `data` is None, the vertex data that the source holds are written; if `memory` is None,
    sorting may take the free memory.
    """
    name = find_format(path, format)
    entry: Format = FORMATS[name]
    if os.path.isfile(path):
        check_beginning(path, name)
    room = available_memory() if memory is None else memory
    large = False
    if entry.entries is not None and room is not None and _is_there(path, entry):
        large = _taken(path, entry) > room
    options: dict[str, Any] = {"format": format, "allow_large": allow_large}
    with atomic_folder(folder) as made:
        if large:
            assert room is not None
            assert entry.entries is not None
            flags = {flag: bool(reading.pop(flag, False)) for flag in FLAGS}
            if keys and "graph" in keys:
                raise InputError(f"{os.fspath(path)}: `keys` cannot choose a graph in a text file")
            choices = {key: value for key, value in reading.items() if value}
            for choice in choices.keys() - set(entry.options):
                raise InputError(f"{os.fspath(path)}: `{choice}` is not for format '{name}'")
            said = choices.get("num_vertices", 0) // VERTICES_PER_BYTE
            size = max(size_of_source(os.fspath(path), entry), said)
            with bounded(size, allow_large=allow_large):
                # with `pattern`, values are not read, so wrong values are accepted
                without: Any = {"pattern": True} if flags["pattern"] else {}
                source = entry.entries(path, **without, **choices)
                source.source = source_of(path, name, flags | choices, source.source)
                convert(source, made, int(SHARE * room), **flags)
            graph = read_graph(made, "csr", allow_large=True)
            if (warn := getattr(source, "warn_of_direction", None)) is not None:
                warn(graph.directed)
        else:
            graph = read_graph(path, keys=keys, **options, **reading)
            write_csr(graph, made)
        found = data_beside(path, graph, data, split=split, keys=keys, **options)
        write_data(found, made)
        del graph, found  # their arrays map files that are renamed next
    return read_graph(folder, "csr", allow_large=True)


def check_reading(path: StrPath, memory: int | None, *, format: str | None = None) -> None:
    """Raise InputError if reading a text file takes more than `memory` bytes; None: no limit."""
    if memory is None or not os.path.exists(path):
        return
    name = find_format(path, format)
    entry: Format = FORMATS[name]
    if not _is_there(path, entry):
        return
    check_beginning(path, name)
    takes = 0 if entry.entries is None else _taken(path, entry)
    if takes > memory:
        told = f"about {takes / 2**20:,.0f} MiB, but `memory` is {memory / 2**20:,.0f} MiB"
        cure = "`plancc convert` makes a folder from the file within this memory"
        raise InputError(f"{os.fspath(path)}: reading the file takes {told}; {cure}")


def _is_there(path: StrPath, entry: Format) -> bool:
    """Whether the source exists: a file, or, if graphs of the format may be folders, a folder."""
    return os.path.isfile(path) or (entry.files is not None and os.path.isdir(path))


def _taken(path: StrPath, entry: Format) -> int:
    """Estimate the bytes of memory to read a text file: from a count in its header, or its size."""
    assert entry.entries is not None
    claimed = getattr(entry.entries, "claimed", None)
    if claimed is not None:
        return ENTRY * int(claimed(path))
    return os.path.getsize(path) * (GZIP if is_gzip(path) else TEXT)
