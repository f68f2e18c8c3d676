"""The registry of graph formats, and functions that read and write a graph in any format."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.fields import option, options_of, taking
from plancc.files import StrPath, sha256_of
from plancc.graph.bounds import VERTICES_PER_BYTE, bounded
from plancc.graph.graph import Graph, Source, check_one_type
from plancc.graph.signatures import check_kind
from plancc.graph.textfile import check_readable, input_errors
from plancc.registry import Registry, check_choice, place_of
from plancc.text import shown

PACKED = (".zip", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz")
"""Extensions of packed files that plancc does not unpack."""
FORMATS = Registry(
    "format",
    "plancc.formats",
    {
        "mtx": "plancc.graph.mtx:FORMAT",
        "metis": "plancc.graph.metis:FORMAT",
        "edgelist": "plancc.graph.edgelist:FORMAT",
        "npz": "plancc.graph.npz:FORMAT",
        "csr": "plancc.graph.csr:FORMAT",
        "relations": "plancc.graph.types_toml:FORMAT",
        "pyg": "plancc.interop.pyg:FORMAT",
        "ogb": "plancc.interop.ogb:FORMAT",
        "dgl": "plancc.interop.dgl_graphs:FORMAT",
        "parquet": "plancc.interop.parquet:FORMAT",
        "h5ad": "plancc.interop.h5ad:FORMAT",
        "graphml": "plancc.interop.attributed:GRAPHML",
        "gml": "plancc.interop.attributed:GML",
        "pajek": "plancc.interop.attributed:PAJEK",
    },
    instance_of="plancc.graph.formats:Format",
)
FLAGS = ("pattern", "symmetrize", "transpose")
"""Reading options of every format."""
LARGE = "allow_large"
"""Reading option of every format that readers do not get as a parameter."""
CHOICES = ("num_vertices", "keep_ids", "columns", "keys")
"""Reading options of some formats (`Format.options`)."""
of_file = partial(option, section="Reading the graph")


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a graph from its file."""

    format: str | None = of_file(
        None, f"graph format, in place of the extension's: {', '.join(FORMATS)}", metavar="NAME"
    )
    pattern: bool = of_file(False, "ignore the values: every entry is 1", more="A stored zero too.")
    symmetrize: bool = of_file(
        False,
        "add entry (j, i) for every (i, j)",
        more="The result is undirected. A file that declares itself symmetric is left as it is.",
    )
    transpose: bool = of_file(False, "read entry (i, j) as (j, i)")
    allow_large: bool = of_file(
        False,
        "accept a file that declares far more than its size suggests",
        more="More vertices, and larger data (`plancc.graph.bounds`).",
    )
    num_vertices: int | None = of_file(
        None, "Edge lists: the vertices are 0..N-1, also those without an edge", metavar="N"
    )
    keep_ids: bool = of_file(
        False,
        "Edge lists: ids are the vertex numbers, from 0 to the largest id",
        more="Without `num_vertices` or `keep_ids` the vertices are the ids that occur, in "
        "ascending order.",
    )
    columns: Sequence[str] | None = of_file(
        None,
        "Edge lists, Parquet, GML, GraphML: columns of the edges, by name or by number from 1",
        more="A third one is of the weights. Numbers are for a text without a line of names.",
        metavar="U,V[,WEIGHT]",
    )
    keys: Mapping[str, str] | None = of_file(
        None,
        "name that the source has for WHAT: graph, features, labels ... (.h5ad, .npz, .pt)",
        more='As in ``{"graph": "distances", "features": "X_pca"}``: of the matrix where a source '
        "has several, and of vertex data (`plancc.graph.vertexsources.read_vertex_data`).",
        metavar="WHAT=NAME",
    )


READING = tuple(each.name for each in options_of(ReadOptions))
"""Names of all reading options."""


class Held(NamedTuple):
    """A graph in memory that another library made.

    Attributes:
        name: Name of the object, for messages.
        graph: ``graph() -> Graph`` makes the graph.
        data: Vertex data by name, perhaps together with arrays of edges. Empty if the object has no
            data.
        edges: ``edges()`` returns edge features; see `Format.read_edges`. None if the object has no
            edge features.
    """

    name: str
    graph: Callable[[], Graph]
    data: Mapping[str, Any]
    edges: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Format:
    """One graph format.

    Attributes:
        extensions: Extensions with their dot, in lower case, without ``.gz``.
        read: ``read(path, *, pattern, symmetrize, transpose, **choices) -> Graph`` reads a graph;
            `choices` are the given options among `options`.
        write: ``write(graph, temporary, *, pattern, compress, path) -> None`` writes the file
            `temporary`, gzipped if `compress`; errors name `path`. None if the format is not
            written.
        gzip: Whether ``.gz`` may follow the extension.
        options: Names in `CHOICES` that `read` accepts.
        read_data: ``read_data(path, *, split, keys) -> Mapping[str, array]`` reads the vertex data
            of the source, by the source's own names, with all vertices in the order of the graph;
            the mapping is empty if there are none. `split` is the name of a split or None; for
            `keys` see `read_vertex_data`. The attribute is None if files of this format hold no
            vertex data.
        read_edges: ``read_edges(path, *, keys) -> plancc.graph.listed_edges.EdgeFeatures or None``
            reads edges with features of any width. For a graph of several vertex types it returns
            the features by relation. None if the format has no edge features.
        files: ``files(folder) -> list of str`` returns the names of the graph's files in a folder;
            empty for a folder of another format. None if the format has no folders.
        entries: ``entries(path, **choices) -> plancc.graph.external.Entrywise`` reads the entries
            chunk by chunk, for sources that do not fit into memory. None if files of this format
            cannot be read in chunks.
        hold: ``hold(object) -> Held or None`` returns a `Held` for an object that is a graph of the
            format's library, and None for other objects. The attribute is None if the library has
            no such objects.
        read_columns: ``read_columns(path, wanted, named) -> dict of str to array or None`` reads a
            table of vertices: the arrays of the columns whose names ``wanted(names)`` returns, and
            None for every other column. `named` says whether the graph's ids are names. The
            attribute is None if the format has no tables.
        read_links: ``read_links(folder) -> Mapping[str, array]`` reads pairs for link prediction,
            under the names that `plancc.graph.links.read_links` uses. None if the format has no
            links.
        read_parts: ``read_parts(path) -> int32[num_vertices]`` reads the part of every vertex. None
            if the format has no partitions.
        needs: Library that the format needs, as an argument of `pip install`; "" for no library.
        what: Short description of the format.
    """

    extensions: tuple[str, ...]
    read: Callable[..., Graph]
    write: Callable[..., None] | None = None
    gzip: bool = True
    options: tuple[str, ...] = ()
    read_data: Callable[..., Mapping[str, Any]] | None = None
    read_edges: Callable[..., Any] | None = None
    files: Callable[[str], list[str]] | None = None
    entries: Callable[..., Any] | None = None
    hold: Callable[[Any], Held | None] | None = None
    read_columns: Callable[..., dict[str, Any]] | None = None
    read_links: Callable[..., Mapping[str, Any]] | None = None
    read_parts: Callable[[StrPath], npt.NDArray[np.int32]] | None = None
    needs: str = ""
    what: str = ""


def library(module: str, where: str, install: str) -> Any:
    """Import an optional library; raise BackendUnavailable if it is missing or cannot be loaded.

    For the message, `where` is the file that needs the library, and `install` its pip requirement.
    """
    try:
        return import_module(module)
    except Exception as error:  # an import runs the library's code, which may raise anything
        name = module.partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        why = "" if missing else f" ({shown(error)})"
        raise BackendUnavailable(
            f"{where}: reading this format needs {name}{why}: pip install '{install}'"
        ) from error


def find_format(path: StrPath, format: str | None = None) -> str:
    """Return `format` if given, or the format that the extension or a folder's files show."""
    if format is not None:
        check_choice("format", format, FORMATS)
        return format
    formats: dict[str, Format] = FORMATS.loaded()
    if os.path.isdir(path):
        return _find_folder(os.fspath(path), formats)
    where = os.fspath(path)
    name = os.path.basename(where).lower()
    zipped = name.endswith(".gz")
    extension = os.path.splitext(name.removesuffix(".gz"))[1]
    for candidate, entry in formats.items():
        if extension in entry.extensions and (entry.gzip or not zipped):
            return candidate
    if extension == ".h5":
        raise InputError(f"{where}: the extension .h5 stands for a plan; give the graph file")
    if extension == ".hgr":
        raise InputError(f"{where}: a hypergraph is not a graph; give it to plancc partition")
    if extension in PACKED:
        raise InputError(f"{where}: the file is packed, but only .gz can be read; unpack it first")
    every = ((name, " ".join(entry.extensions) or "a folder") for name, entry in formats.items())
    known = ", ".join(f"{name} ({extensions})" for name, extensions in every)
    told = f"cannot infer the format from the extension '{extension}{'.gz' * zipped}'"
    raise InputError(f"{where}: {told}; name the `format`, one of {known}")


def find_held(obj: Any) -> Held | None:
    """Return the `Held` of a graph object that another library made; None for other objects."""
    holds = (entry.hold for entry in FORMATS.loaded().values() if entry.hold is not None)
    return next((held for hold in holds if (held := hold(obj)) is not None), None)


def format_of_table(path: StrPath) -> Format | None:
    """Return the format that reads a file or folder as a table of vertices; None if none does."""
    name, folder = os.fspath(path), os.path.isdir(path)
    for entry in FORMATS.loaded().values():
        if folder and entry.files is not None and entry.files(name):
            return None if entry.read_columns is None else entry
        if not folder and entry.read_columns and name.lower().endswith(entry.extensions):
            return entry
    return None


def check_beginning(path: StrPath, format: str) -> None:
    """Refuse a file whose first bytes show another format.

    Formats that other packages add are not checked.
    """
    if FORMATS.is_own(format) and not os.path.isdir(path):
        check_kind(path, format)


def _find_folder(path: str, formats: dict[str, Format]) -> str:
    able = {name: entry.files for name, entry in formats.items() if entry.files is not None}
    for name, files in able.items():
        if files(path):
            return name
    raise InputError(f"{path}: is a folder, but in none of the formats {', '.join(able)}")


@taking(ReadOptions)
def read_graph(path: StrPath, format: str | None = None, **options: Any) -> Graph:
    """Read a graph from a file or a folder.

    ``A[i, j] != 0`` means that row i needs row j. A MatrixMarket entry (i, j) and an edge-list
    line ``i j`` both are ``A[i, j]``. Repeated entries are summed if the file has values; otherwise
    they count as one nonzero. Zeros are dropped, and self loops are kept.

    Parameters:
        path: The file or folder. The extension of a file (``plancc list formats``), or the names of
            the files in a folder, determine the format.
        **options

    Returns:
        The graph. Its ``source`` has base name, SHA-256, format and reading options. The hash is
        computed from the file's bytes; for a folder, from lines ``<SHA-256>  <name>``, one for
        every file of the graph.

    Raises:
        InputError: For a file that is missing, unreadable, empty, of unknown format, or wrong; the
            message names file, line and value. For a reading option that the format does not have.
        BackendUnavailable: If the library that reads this format is not installed.
    """
    if not os.path.isdir(path):
        check_readable(path)
    name = find_format(path, format)
    reader: Format = FORMATS[name]
    if os.path.isdir(path) and (reader.files is None or not reader.files(os.fspath(path))):
        what = "is a folder, not a file" if reader.files is None else f"is not a folder of '{name}'"
        raise InputError(f"{os.fspath(path)}: {what}")
    flags = {flag: bool(options.pop(flag, False)) for flag in FLAGS}
    allow_large = options.pop(LARGE, False)
    choices = {k: value for k, value in options.items() if value is not None and value is not False}
    for choice in choices:
        of_data = choice == "keys" and reader.read_data and "graph" not in choices["keys"]
        if choice not in reader.options and not of_data:
            check_choice("reading option", choice, CHOICES)
            able = (each for each, entry in FORMATS.loaded().items() if choice in entry.options)
            told = f"`{choice}` is only for {', '.join(able)}, not for format '{name}'"
            raise InputError(f"{os.fspath(path)}: {told}")
    check_beginning(path, name)
    taken = {key: value for key, value in choices.items() if key in reader.options}
    with ThreadPoolExecutor(1) as pool:  # hashing does not hold the interpreter lock
        digest = pool.submit(_sha256_of_source, os.fspath(path), reader)
        size = size_of_source(os.fspath(path), reader)
        try:
            # a number of vertices that the user gives is allowed
            size = max(size, choices.get("num_vertices", 0) // VERTICES_PER_BYTE)
            with bounded(size, allow_large=allow_large):
                graph = reader.read(path, **flags, **taken)
        except MemoryError as error:
            raise InputError(f"{os.fspath(path)}: not enough memory for this graph") from error
        if not isinstance(graph, Graph):
            told = f"{FORMATS.words_of(name)} reads a {type(graph).__name__}"
            where = place_of(reader.read)
            raise BackendError(f"{told}, not a plancc.graph.graph.Graph ({where})")
        source = source_of(path, name, flags | taken, graph.source, digest.result)
    return replace(graph, source=source)


def source_of(
    path: StrPath,
    format: str,
    reading: Mapping[str, Any],
    made: Source | None = None,
    digest: Callable[[], str] | None = None,
) -> Source:
    """Return the `Source` of a file or folder, with `reading` options by name.

    `made` is the source as the reader describes it: its weights, columns and counts. `digest`
    returns the hash of the files; without `digest`, the files are read and hashed.
    """
    with input_errors(path):
        sha256 = digest() if digest else _sha256_of_source(os.fspath(path), FORMATS[format])
    name = os.path.basename(os.path.abspath(path))
    words = _reading_words(reading)
    return replace(made or Source(), name=name, sha256=sha256, format=format, reading=words)


def graph_keys(keys: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return a dict with only the entry "graph" of `keys`; None if `keys` has no such entry."""
    return {"graph": keys["graph"]} if keys and "graph" in keys else None


def data_keys(keys: Mapping[str, str] | None) -> dict[str, str]:
    """Return the entries of `keys` that name vertex data."""
    return {key: name for key, name in (keys or {}).items() if key != "graph"}


def size_of_source(path: str, format: Format) -> int:
    """Return the size in bytes of a file, or of all files of the graph in a folder."""
    return sum(map(os.path.getsize, _files_of(path, format).values()))


def _files_of(path: str, format: Format) -> dict[str, str]:
    """Return the graph's files: paths by file name if `path` is a folder, else `path` by ""."""
    if format.files is None or not os.path.isdir(path):
        return {"": path}
    return {name: os.path.join(path, name) for name in format.files(path)}


def _sha256_of_source(path: str, format: Format) -> str:
    files = _files_of(path, format)
    if "" in files:
        return sha256_of(path)
    lines = (f"{sha256_of(file)}  {name}\n" for name, file in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _reading_words(reading: Mapping[str, Any]) -> str:
    """Return the given reading options as one line, which `reading_of` reads."""
    words = []
    for name, value in reading.items():
        if value is True:
            words.append(name)
        elif name == "keys":
            words += [f"keys={value['graph']}"] if "graph" in value else []
        elif value is not False:
            listed = isinstance(value, tuple | list)
            words.append(f"{name}={join_names(value) if listed else value}")
    return shlex.join(words)


def join_names(names: Sequence[str]) -> str:
    """Join names with commas; a name with a comma or a quote is quoted as in CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(names)  # names with \r or \n are quoted too
    return line.getvalue()[:-2]


def split_names(line: str) -> tuple[str, ...]:
    """Return the names in a line that `join_names` made; raise InputError for a wrong line."""
    try:
        return tuple(next(csv.reader([line]), ()))
    except csv.Error as error:
        told = f"`columns` '{shown(line, 40)}' are not names with commas between: {error}"
        raise InputError(told) from None


def reading_of(words: str) -> dict[str, Any]:
    """Return the known options of `read_graph` that the string `Source.reading` holds."""
    reading: dict[str, Any] = {}
    try:
        listed = shlex.split(words)
    except ValueError as error:
        raise InputError(f"the reading options '{shown(words)}' cannot be read: {error}") from error
    for word in listed:
        name, _, value = word.partition("=")
        if name in (*FLAGS, "keep_ids"):
            reading[name] = True
        elif name == "num_vertices" and value.isdecimal() and len(value) <= 18:
            reading[name] = int(value)
        elif name == "columns":
            reading[name] = split_names(value)
        elif name == "keys":
            reading[name] = {"graph": value}
    return reading


def write_graph(
    graph: Graph, path: StrPath, format: str | None = None, *, pattern: bool = False
) -> None:
    """Write a graph as a MatrixMarket or METIS file.

    If writing fails, no file is left, and an existing file stays unchanged.

    Parameters:
        path: Extension .mtx, .graph or .metis, each also with .gz.
        format: "mtx" or "metis"; None for the format of the extension.
        pattern: Leave the values out.

    Raises:
        InputError: For a format that cannot be written or cannot hold this graph.
        OutputError: If the file cannot be written.
    """
    from plancc.files import atomic_write

    name = find_format(path, format)
    write = FORMATS[name].write
    if write is None:
        able = (each for each, entry in FORMATS.loaded().items() if entry.write is not None)
        told = f"format '{name}' can be read but not written; choose from {', '.join(able)}"
        raise InputError(f"{os.fspath(path)}: {told}")
    check_one_type(graph, os.fspath(path))
    compress = os.fspath(path).lower().endswith(".gz")
    with atomic_write(path) as temporary:
        write(graph, temporary, pattern=pattern, compress=compress, path=path)
