"""Ids of vertices that are names: UTF-8 strings instead of whole numbers.

Vertices are numbered in byte order of their names, so a graph does not depend on the order of lines
in its source. Names are bytes, padded with NUL to the width of the longest name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph import kernels
from plancc.graph.textfile import fail, is_number
from plancc.memory import check_memory

Names = npt.NDArray[np.bytes_]
NAMED = "ids are names"
LONGEST = 1024
"""Largest length of a name in bytes."""
_EMPTY = [b"nan", b"NaN", b"None", b"null", b"NULL", b"NA", b"<NA>"]
_WHOLE = re.compile("0|-?[1-9][0-9]{0,18}")
_ROWS = 1 << 14
"""Number of names that are checked at a time."""
_WRONG = (
    "{} columns are expected, as in the first line, not",
    "an id or a weight is empty (leave the line out):",
    f"an id has more than {LONGEST:,} bytes:",
    "an id contains a control character:",
)
"""Messages for the faults of a line that `kernels.number_names` finds."""


class NamedEdges(NamedTuple):
    """Edges of a text whose ids are names.

    Attributes:
        names (bytes[n]): Distinct names, ascending.
        u, v (int64[edges]): Both ends of each edge, as positions in `names`.
        weights (bytes): A line ``0 0 WEIGHT`` for every edge (ids are replaced by 0), as input for
            the parser of numbers; empty if no column of weights was chosen.
    """

    names: Names
    u: npt.NDArray[np.int64]
    v: npt.NDArray[np.int64]
    weights: bytes


def is_name(word: bytes) -> bool:
    """Whether an id in the first line of an edge list is a name.

    A number, punctuation alone, and a number between quotes are not names.
    """
    text = word.decode(errors="replace")
    return not is_number(text) and re.fullmatch(r"\W*\d*\W*", text) is None


def are_names(ids: Any) -> bool:
    """Whether `ids`, an array, a dataset or None, are names."""
    return ids is not None and ids.dtype.kind == "S"


def read_names(
    path: StrPath, data: bytes, separator: bytes, columns: int, chosen: tuple[int, ...]
) -> NamedEdges:
    """Read the edges ``u v`` of a text in which u and v are names.

    The text `data` has `columns` columns; `chosen` are the positions, from 0, of u, v and perhaps
    weights. An id that is empty, too long or not UTF-8 is an InputError.
    """
    text = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
    ends = np.empty((2, np.count_nonzero(text == ord("\n"))), np.int64)
    out = np.empty(len(text) if len(chosen) > 2 else 0, np.uint8)
    first, last = np.zeros((2, columns), np.int64)
    mark = separator[0] if separator else 0
    edges, places, size, bad, what = kernels.number_names(
        text, mark, np.array(chosen), LONGEST, first, last, ends, out
    )
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        fail(path, line, _WRONG[what].format(columns), data[bad:].split(b"\n", 1)[0])
    width = int(np.diff(places).max())
    check_memory(3 * width * len(places), f"{os.fspath(path)}: names of up to {width} bytes")
    table = np.zeros((len(places), width), np.uint8)
    kernels.copy_names(text, places, table)
    if (k := _no_text(table)) is not None:
        begin, stop = places[k].tolist()
        message = "an id is not UTF-8, in which the file must be saved:"
        fail(path, data.count(b"\n", 0, begin) + 1, message, data[begin:stop])
    names = table.view(f"S{width}")[:, 0]
    if b'""' in data:  # a doubled quote stands for a quote within quotes
        names = np.char.replace(names, b'""', b'"')
    names, number = np.unique(names, return_inverse=True)
    u, v = (number[each[:edges]] for each in ends)
    return NamedEdges(names, u, v, out[:size].tobytes())


def sorted_names(texts: npt.NDArray[Any], where: str) -> tuple[Names, npt.NDArray[np.int64]]:
    """Return the distinct names among `texts`, ascending, and each text's index, int64[n].

    Raises InputError for a text that is empty, is too long, or has a NUL.
    """
    encoded = [text.encode() for text in texts]
    width = max(map(len, encoded))
    wrong = next((text for text in texts if not text or "\0" in text), None)
    if width > LONGEST or wrong is not None:
        what = "is empty, or has a NUL" if wrong is not None else f"has more than {LONGEST:,} bytes"
        raise InputError(f"{where}: an id {what}; correct it, or leave out its row")
    check_memory(3 * width * len(encoded), f"{where}: names of up to {width} bytes")
    names, number = np.unique(np.array(encoded, f"S{width}"), return_inverse=True)
    return names, number


def as_ids(given: Collection[Any]) -> npt.NDArray[Any] | None:
    """Return names as ids of vertices: int64[n] if all are whole numbers, else bytes[n].

    None if a name is repeated, is empty, or is neither text nor a whole number.
    """
    kinds = {*map(type, given)}
    if bool in kinds or not all(issubclass(kind, str | int | np.integer) for kind in kinds):
        return None
    numbers = not any(issubclass(kind, str) for kind in kinds)
    words: Any = given if numbers else [*map(str, given)]
    if len({*words}) < len(words):
        return None
    with suppress(InputError, OverflowError, UnicodeEncodeError):
        if numbers or all(_WHOLE.fullmatch(k) and abs(int(k)) < 1 << 63 for k in words):
            return np.array([*map(int, words)], np.int64)
        names, number = sorted_names(np.array(words, object), "")
        return names[number]
    return None


def _no_text(table: npt.NDArray[np.uint8]) -> int | None:
    """Return the first row of `table`, uint8[rows, width], that is not UTF-8; None if none is."""
    if table.max(initial=0) < 128:
        return None
    for start in range(0, len(table), _ROWS):
        rows = table[start : start + _ROWS]
        try:
            rows.tobytes().decode()
        except UnicodeDecodeError as error:
            return start + error.start // table.shape[1]
    return None


def warn_of_empty(
    where: str, names: Names | None, u: npt.NDArray[Any], v: npt.NDArray[Any]
) -> None:
    """Warn of ids such as "nan", which pandas and R write for an empty cell."""
    if names is None:
        return
    for name in _EMPTY:
        k = np.searchsorted(names, name)
        if names[k : k + 1].tolist() == [name]:
            count = np.count_nonzero(u == k) + np.count_nonzero(v == k)
            warn(f"{where}: id '{name.decode()}' occurs {count:,} times; it may mark empty cells")


def names_of(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return ids as names, bytes[n]: strings in UTF-8, whole numbers in digits, names unchanged."""
    if ids.dtype.kind in "OT" and all(isinstance(each, str) for each in ids.flat):
        ids = ids.astype(np.str_)
    if ids.dtype.kind == "U":
        return np.char.encode(ids, "utf-8")
    return ids.astype(np.bytes_) if ids.dtype.kind in "iu" else ids


def whole_names(where: str) -> InputError:
    """Return the error for a source whose ids are names, but which is read piece by piece."""
    return InputError(f"{where}: {NAMED}, so the source must fit in memory; give more `memory`")


def check_no_numbers(where: str, num_vertices: int | None, keep_ids: bool) -> None:
    """Raise InputError if an option declares the ids, which are names, to be vertex numbers."""
    given = "keep_ids" if keep_ids else "num_vertices"
    if keep_ids or num_vertices is not None:
        cure = f"leave out `{given}`, which is only for ids that are vertex numbers"
        raise InputError(f"{where}: {NAMED}, numbered in alphabetical order; {cure}")
