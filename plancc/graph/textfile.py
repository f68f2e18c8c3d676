"""Input files, plain or gzipped: functions that open, read and check them.

Messages of all readers have one form: ``FILE, line N: what is wrong 'value'``.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath, open_file
from plancc.graph import kernels
from plancc.graph.bounds import check_unpacked, largest
from plancc.text import shown

Number = TypeVar("Number", int, float)
_POINTER = b"version https://git-lfs."


def fail(
    path: StrPath, line: int, message: str, value: object = None, advice: str = ""
) -> NoReturn:
    """Raise InputError with the file, the line (from 1), a value (unless None) and advice."""
    tail = ("" if value is None else f" {show(value)}") + (f": {advice}" if advice else "")
    raise InputError(f"{os.fspath(path)}, line {line}: {message}{tail}")


def fail_first(
    path: StrPath,
    wrong: npt.NDArray[np.bool_],
    lines: npt.NDArray[np.int64],
    message: str,
    values: npt.NDArray[Any],
    row: npt.NDArray[np.integer] | None = None,
) -> None:
    """Call `fail` with ``values[k]`` for the first k where ``wrong[k]`` is true, if there is one.

    The line is ``lines[k]``; if `row` is given, the line is ``lines[row[k]]``.
    """
    if wrong.any():
        k = int(np.argmax(wrong))
        fail(path, int(lines[k if row is None else row[k]]), message, values[k])


def text_chunks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the rest of a text in pieces of about `size` bytes, each of whole lines."""
    rest = b""
    while chunk := stream.read(size):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
    if rest:
        yield rest + b"\n"


def later(error: InputError, lines: int) -> InputError:
    """Return the error with `lines` added to the line number that its message names."""
    text = re.sub(r", line (\d+):", lambda m: f", line {int(m[1]) + lines}:", str(error), count=1)
    return InputError(text)


def show(value: object) -> str:
    """Return a value from a file in quotes: printable, at most 40 characters."""
    return f"'{shown(value, 40)}'"


def check_readable(path: StrPath) -> None:
    """Raise InputError for a missing, unreadable or empty file, a Git LFS pointer, or a folder."""
    with open_file(path) as stream, input_errors(path):
        begin = stream.read(len(_POINTER))
    if not begin:
        raise InputError(f"{os.fspath(path)}: the file is empty")
    if begin == _POINTER:
        raise InputError(
            f"{os.fspath(path)}: this is a Git LFS pointer, not the file; `git lfs pull` fetches it"
        )


@contextlib.contextmanager
def input_errors(path: StrPath) -> Iterator[None]:
    """Translate errors of reading bytes (permissions, a damaged .gz) into InputError."""
    name = os.fspath(path)
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: the gzip data is damaged or truncated ({error})") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def is_gzip(path: StrPath) -> bool:
    return os.fspath(path).lower().endswith(".gz")


class _Unpacked(io.RawIOBase):
    """The decompressed bytes of a .gz file.

    Reading raises InputError if there are more bytes than `plancc.graph.bounds` allows.
    """

    def __init__(self, path: StrPath) -> None:
        self._path, self._most, self._read = path, largest(path), 0
        self._raw = open_file(path)
        self._stream = gzip.GzipFile(fileobj=self._raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._stream.readinto(buffer)
        self._read += size
        if self._most is not None and self._read > self._most:
            check_unpacked(self._read, self._path, f"{os.fspath(self._path)}: its content")
        return size

    def close(self) -> None:
        self._stream.close()
        self._raw.close()
        super().close()


def open_input(path: StrPath) -> BinaryIO:
    """Open a file for reading bytes; a file with the extension .gz is decompressed."""
    if not is_gzip(path):
        return open_file(path)
    return io.BufferedReader(_Unpacked(path), 1 << 16)


def read_bytes(path: StrPath) -> bytes:
    """Return all bytes of a text file, decompressed, without a UTF-8 byte order mark.

    UTF-16 and an empty text are an InputError.
    """
    check_readable(path)
    with input_errors(path), open_input(path) as stream:
        data = stream.read()
    check_encoding(path, data)
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise InputError(f"{os.fspath(path)}: the file is empty")
    return data


def check_encoding(path: StrPath, data: bytes) -> None:
    """Raise InputError for a text with the byte order mark of UTF-16 (or little-endian UTF-32)."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{os.fspath(path)}: the text is UTF-16; save it as UTF-8 or ASCII")


def data_lines(
    path: StrPath, stream: Iterable[bytes], skipped: int = 0, comments: tuple[bytes, ...] = ()
) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text of every line that is neither blank nor a comment.

    The first `skipped` lines are left out too. Raise InputError for a vertical tab, a form feed or
    a carriage return within a line: only Python treats these characters as blanks.
    """
    for line, text in enumerate(stream, 1):
        if line <= skipped or (comments and text.startswith(comments)):
            continue
        if any(mark in text.rstrip(b" \t\r\n") for mark in b"\v\f\r"):
            fail(path, line, "the line contains a control character", text)
        if text.strip():
            yield line, text


def read_number(path: StrPath, line: int, what: str, word: bytes, kind: type[Number]) -> Number:
    """Return the number that a word spells; raise InputError unless it is a finite number."""
    without = f" (`pattern` reads without {what}s)" * (what in ("weight", "value"))
    try:
        if b"_" in word or word.startswith(b"+"):  # Python accepts 1_000 and +1, other readers not
            raise ValueError(word)
        value = kind(word)
    except ValueError:
        words = "a number" if kind is float else "a whole number"
        fail(path, line, f"the {what} is not {words}{without}:", word)
    if isinstance(value, float) and not isfinite(value):
        fail(path, line, f"the {what} is not finite{without}:", word)
    return value


def is_number(word: str | bytes) -> bool:
    """Whether a word is a number that ``float`` accepts, such as 1, 2.5e3 or nan."""
    try:
        float(word)
    except ValueError:
        return False
    return True


class Integers(NamedTuple):
    """Lines of whole numbers.

    Attributes:
        values: The numbers in all lines, int64[tokens].
        ptr (int64[lines + 1]): Line k has the numbers ``values[ptr[k]:ptr[k + 1]]``. Blank lines
            count as lines; comments do not.
        line (int64[lines]): Number of every line in the file, 1-based.
    """

    values: npt.NDArray[np.int64]
    ptr: npt.NDArray[np.int64]
    line: npt.NDArray[np.int64]


def read_integers(
    path: StrPath,
    data: bytes,
    *,
    comments: bytes = b"%",
    usual: bool = False,
    advice: Callable[[bytes], str] = lambda token: "",
) -> Integers:
    """Split a text of whole numbers, separated by blanks and tabs, into lines.

    A line that begins with one of the characters `comments` is skipped. A number of more than 18
    digits raises InputError; if `usual`, so does a number such as 007 or -0.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    buffer = np.frombuffer(data, dtype=np.uint8)
    skipped = np.frombuffer(comments, dtype=np.uint8)
    none = np.empty(0, dtype=np.int64)
    num_values, num_lines, bad = kernels.scan_integers(buffer, skipped, usual, none, none, none)
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        token = re.split(rb"[ \t\r\n]", data[bad : bad + 80], maxsplit=1)[0]
        digits = token.removeprefix(b"-")
        many = " in the usual spelling:" if usual and digits[:1] == b"0" else (
            " of at most 18 digits" * digits.isdigit()
        )  # fmt: skip
        fail(path, line, f"this is not a whole number{many}", token, advice(token))
    values, ptr = np.empty(num_values, dtype=np.int64), np.zeros(num_lines + 1, dtype=np.int64)
    numbers = Integers(values, ptr, np.empty(num_lines, dtype=np.int64))
    kernels.scan_integers(buffer, skipped, usual, *numbers)
    return numbers
