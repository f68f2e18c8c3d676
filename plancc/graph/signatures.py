"""Functions that recognise the kind of a file by its first bytes, whatever its name is."""

from __future__ import annotations

import codecs
import os
import re
from typing import NamedTuple

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.textfile import input_errors, open_input

LOOKED_AT = 4096
"""Number of bytes, from the beginning of a file, that are compared with patterns."""


class Kind(NamedTuple):
    """A kind of file, recognised by its first bytes.

    Attributes:
        what: Phrase that names the kind in messages.
        begins: Pattern of the first bytes.
        formats: Names of plancc's formats for such files.
        advice: Advice for the user of such a file, if no format reads it.
    """

    what: str
    begins: re.Pattern[bytes]
    formats: tuple[str, ...] = ()
    advice: str = ""


def _kind(what: str, begins: bytes, *formats: str, advice: str = "") -> Kind:
    return Kind(what, re.compile(begins, re.IGNORECASE), formats, advice)


UNPACK = "unpack it, or pack it with gzip under a name that ends in .gz"
_ERROR = (
    rb"\s*((<\?xml[^>]*>\s*)?<error>"
    rb"|(4\d\d:? *)?(not found|forbidden|unauthorized|access denied)\b[^\n]*\s*\Z)"
)
KINDS = (
    _kind("HDF5", rb"\x89HDF\r\n\x1a\n", "h5ad"),
    _kind("Parquet", rb"PAR1", "parquet"),
    _kind("a zip archive", rb"PK(\x03\x04|\x05\x06)", "npz", "pyg"),
    _kind("a numpy array", rb"\x93NUMPY", "npy", advice="a graph is read from .npz"),
    _kind("gzip", rb"\x1f\x8b\x08", advice="give it a name that ends in .gz"),
    _kind("bzip2", rb"BZh[1-9]1AY&SY", advice=UNPACK),
    _kind("xz", rb"\xfd7zXZ\x00", advice=UNPACK),
    _kind("zstd", rb"\x28\xb5\x2f\xfd", advice=UNPACK),
    _kind("MatrixMarket", rb"\s*%%?[ \t]*MatrixMarket\b", "mtx"),
    _kind(
        "DIMACS",
        rb"(c([ \t][^\n]*)?\n\s*)*p[ \t]+[a-z]+[ \t]+\d+[ \t]+\d+",
        advice="keep its lines of edges alone (grep '^[ae]'), an edge list of `columns` 2,3[,4]",
    ),
    _kind("HTML", rb"\s*<(!doctype html|html)\b", advice="the download returned a web page"),
    _kind("an error", _ERROR, advice="the download returned it"),
    _kind("JSON", rb"\s*(\{\s*\"|\[\s*\{)", advice="write its edges as an edge list, one per line"),
    _kind("GEXF", rb"\s*(<\?xml[^>]*>\s*)?<gexf\b", advice="Gephi exports GraphML"),
    _kind("XML", rb"\s*<(\?xml|graphml)\b", "graphml"),
    _kind("Pajek", rb"\s*\*(vertices|network)\b", "pajek"),
    _kind("GML", rb"\s*(creator\b[^\n]*\n\s*)?graph\s*\[", "gml"),
)
"""Known kinds of files. The patterns match after the byte order mark of a text."""


def check_kind(path: StrPath, format: str) -> None:
    """Raise InputError if a file's first bytes show another format; the message says what to do.

    `format` is a name of plancc's formats, "npy", or "table" (a text of numbers).
    """
    with input_errors(path), open_input(path) as stream:
        head = stream.read(LOOKED_AT).removeprefix(codecs.BOM_UTF8)
    for kind in KINDS:
        if kind.begins.match(head):
            if format not in kind.formats:
                wanted = f"{_NAMES.get(format, format)}{_advice(kind, format)}"
                raise InputError(f"{os.fspath(path)}: begins like {kind.what}, not like {wanted}")
            return


_NAMES = {"edgelist": "an edge list", "npy": "a numpy array", "table": "a table of numbers"}
_OF_DATA = ("npy", "table")
"""Formats of vertex data."""
_DATA_NAMES = ("npz", "npy", "parquet")
"""Extensions of files of vertex data."""


def _advice(kind: Kind, format: str) -> str:
    """Return ": " and advice for a file that is of this kind, but is read as `format`; else ""."""
    if format in _OF_DATA:
        named = next((name for name in kind.formats if name in _DATA_NAMES), "")
        advice = f"give it a name that ends in .{named}" if named else kind.advice
    else:
        readers = [name for name in kind.formats if name != "npy"]
        advice = f"`format` {' or '.join(readers)} reads it" if readers else kind.advice
    return f": {advice}" if advice else ""
