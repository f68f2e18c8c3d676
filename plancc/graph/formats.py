"""The formats by name and by extension. Knows which module reads what, and nothing of how."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from plancc.errors import InputError
from plancc.files import sha256_of
from plancc.graph.graph import Graph, Source
from plancc.graph.textfile import StrPath, check_readable, input_errors
from plancc.registry import Registry, check_choice

FORMATS = Registry(
    "format",
    "plancc.formats",
    {
        "mtx": "plancc.graph.mtx:FORMAT",
        "metis": "plancc.graph.metis:FORMAT",
        "edgelist": "plancc.graph.edgelist:FORMAT",
        "npz": "plancc.graph.npz:FORMAT",
    },
    instance_of="plancc.graph.formats:Format",
)


@dataclass(frozen=True)
class Format:
    """One graph format.

    Attributes
    ----------
    extensions : tuple of str
        With their dot, lower case, without ``.gz``.
    read : callable
        ``read(path, *, pattern, symmetrize, transpose) -> Graph``.
    write : callable, or None
        ``write(graph, temporary, *, pattern, compress, path) -> None``: writes to the file
        `temporary`, gzipped if `compress`; errors name `path`.
    gzip : bool
        Whether ``.gz`` may follow the extension.
    """

    extensions: tuple[str, ...]
    read: Callable[..., Graph]
    write: Callable[..., None] | None = None
    gzip: bool = True


def find_format(path: StrPath, format: str | None = None) -> str:
    """Name of the format of a file: `format` if given, else by the file's extension.

    Raises
    ------
    InputError
        For an unknown name or extension; the message lists the formats.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
        return format
    name = os.path.basename(os.fspath(path)).lower()
    zipped = name.endswith(".gz")
    extension = os.path.splitext(name.removesuffix(".gz"))[1]
    known = []
    entry: Format
    for candidate, entry in FORMATS.loaded().items():
        if extension in entry.extensions and (entry.gzip or not zipped):
            return candidate
        known.append(f"{candidate} ({' '.join(entry.extensions)})")
    raise InputError(
        f"{os.fspath(path)}: cannot infer the format from the extension "
        f"'{extension}{'.gz' if zipped else ''}'; name the `format`, one of {', '.join(known)}"
    )


def read_graph(
    path: StrPath,
    format: str | None = None,
    *,
    pattern: bool = False,
    symmetrize: bool = False,
    transpose: bool = False,
) -> Graph:
    """Read a graph file.

    ``A[i, j] != 0`` means that row i needs row j. A MatrixMarket entry (i, j) and an edge-list
    line ``i j`` both are ``A[i, j]``. Duplicates are summed where the file has values and are one
    nonzero where it has none; zeros are dropped; self loops are kept.

    Parameters
    ----------
    path : str or PathLike
        The format follows from the extension: .mtx; .graph, .metis; .txt, .csv, .tsv, .el,
        .edges, all also with .gz; .npz.
    format : str, optional
        Name of a format in `FORMATS`, whatever the extension.
    pattern : bool
        Ignore the values: every stored entry, a stored zero too, is a one.
    symmetrize : bool
        Read every entry (i, j) as (j, i) too; the result is undirected. A file that declares
        itself symmetric is left as it is.
    transpose : bool
        Read entry (i, j) as (j, i).

    Returns
    -------
    Graph
        With ``source`` = base name, SHA-256 of the file's bytes, format.

    Raises
    ------
    InputError
        For a file that is missing, unreadable, empty, of unknown format, or wrong; the message
        names file, line and value.
    """
    check_readable(path)
    name = find_format(path, format)
    reader: Format = FORMATS[name]
    with ThreadPoolExecutor(1) as pool:  # hashing does not hold the interpreter lock
        digest = pool.submit(sha256_of, path)
        try:
            graph = reader.read(path, pattern=pattern, symmetrize=symmetrize, transpose=transpose)
        except MemoryError as error:
            raise InputError(f"{os.fspath(path)}: not enough memory for this graph") from error
        with input_errors(path):
            sha256 = digest.result()
    flags = {"pattern": pattern, "symmetrize": symmetrize, "transpose": transpose}
    reading = " ".join(flag for flag, on in flags.items() if on)
    return replace(graph, source=Source(os.path.basename(os.fspath(path)), sha256, name, reading))


def write_graph(
    graph: Graph, path: StrPath, format: str | None = None, *, pattern: bool = False
) -> None:
    """Write a graph as MatrixMarket or METIS file, whole or not at all.

    Parameters
    ----------
    path : str or PathLike
        Extension .mtx, .graph or .metis, each also with .gz.
    format : str, optional
        "mtx" or "metis", whatever the extension.
    pattern : bool
        Leave the values out.

    Raises
    ------
    InputError
        For a format that cannot be written or cannot hold this graph.
    OutputError
        If the file cannot be written.
    """
    from plancc.files import atomic_write

    name = find_format(path, format)
    write = FORMATS[name].write
    if write is None:
        able = [each for each, entry in FORMATS.loaded().items() if entry.write is not None]
        raise InputError(
            f"{os.fspath(path)}: format '{name}' can be read but not written; "
            f"choose from {', '.join(able)}"
        )
    compress = os.fspath(path).lower().endswith(".gz")
    with atomic_write(path) as temporary:
        write(graph, temporary, pattern=pattern, compress=compress, path=path)
