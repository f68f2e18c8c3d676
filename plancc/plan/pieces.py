"""Reading a plan in pieces: a head file, and files of consecutive parts' slices beside it.

The head has all that is not cut into parts, and of every dataset that is: its type and width, the
digests of all parts, and where each piece begins. A rank opens the pieces of its parts only. A
piece does not depend on the others: the head knows it by its own content hash.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanError
from plancc.files import atomic_folder, discard_folder, hold_folder
from plancc.plan.attributes import is_plain, stored
from plancc.plan.container import Container, has_checksums
from plancc.plan.exchange import Int64Array
from plancc.plan.format import MAJOR, PIECE_FORMAT, PIECES, FileNode, indexed_by
from plancc.text import shown as cut

MOST_OPEN = 64
"""Pieces that are open at a time."""
FIRST_PART, CONTENT = (f"{PIECES}/{name}" for name in ("first_part", "content_sha256"))
PIECE_ATTRIBUTES = ("format", "format_version", "piece", "content_sha256")
SHA256_BYTES = 32
HASH_DIGITS, OWN_DIGITS = 12, 8
"""Digits of the content hash in the name of a folder, and random ones, of every writing its own."""
HANDLES = "/proc/self/fd"
PIECE_NAME = re.compile(r"\d+\.h5")
MAX_NAME = 255
"""Longest name of a folder, in bytes."""


def piece_path(head: str, folder: str, index: int) -> str:
    """The file of a piece."""
    return os.path.join(os.path.dirname(os.path.realpath(head)), folder, f"{index}.h5")


def is_folder_name(text: Any) -> bool:
    """Whether a text names a folder beside the head, and nothing else."""
    return (
        isinstance(text, str)
        and text.isprintable()
        and not text.startswith(".")
        and "/" not in text
        and "\\" not in text
        and 0 < len(text.encode(errors="replace")) <= MAX_NAME
    )


def _stem(path: str | PathLike[str]) -> str:
    """How the names of all folders of pieces begin that are made for a head."""
    name = f"{Path(os.path.realpath(path)).stem.lstrip('.')[:100]}.pieces"
    return name if is_folder_name(name) else "plan.pieces"


def folder_name(path: str | PathLike[str], content: str) -> str:
    """A name for the folder of a plan's pieces, for the head's path and the content hash.

    It is another one every time, so that neither a second writer of the plan nor a reader of the
    former one meets what is written.
    """
    return f"{_stem(path)}-{content[:HASH_DIGITS]}-{secrets.token_hex(OWN_DIGITS // 2)}"


def new_folder(path: str | PathLike[str], name: str) -> AbstractContextManager[Path]:
    """The folder of that name for the pieces of a plan; see `plancc.files.atomic_folder`."""
    return atomic_folder(_common(path), name=name)


def _common(path: str | PathLike[str]) -> Path:
    """What all folders of pieces for a head are written and removed as."""
    return Path(os.path.realpath(path)).with_name(_stem(path))


def former_pieces(path: str | PathLike[str]) -> Path | None:
    """The folder of pieces of the plan that is at `path` now, if it was made for this path."""
    target = os.path.realpath(os.fspath(path))
    try:
        if not os.path.isfile(target) or not has_checksums(target):
            return None
        with h5py.File(target, "r", locking=False) as file:
            name, content = (
                str(stored(file, each).value) if is_plain(file.attrs.get_id(each)) else ""
                for each in (PIECES, "content_sha256")
            )
    except (InputError, OSError, RuntimeError, KeyError, ValueError):  # any node may stand there
        return None
    form = rf"{re.escape(f'{_stem(target)}-{content[:HASH_DIGITS]}')}(-[0-9a-f]{{{OWN_DIGITS}}})?"
    own = is_folder_name(name) and re.fullmatch(form, name)
    return Path(target).parent / name if own else None


def remove_pieces(path: str | PathLike[str], folder: Path) -> None:
    """Remove a folder that holds pieces of a head and nothing else, when nobody reads them."""
    with suppress(OSError):
        found = list(folder.iterdir())
        pieces = all(PIECE_NAME.fullmatch(p.name) and p.is_file() for p in found)
        if pieces and not any(p.is_symlink() for p in (folder, *found)):
            discard_folder(folder, _common(path))


class PiecesGone(PlanError):
    """The folder is not there: it never was, or the plan was replaced after its head was opened."""


class Pieces:
    """The pieces of a plan; opened when they are read.

    Parameters:
        folder (str): What the head says.
        content: The plan's content hash.

    Attributes:
        folder: str.
        count: int.
        first_part: int64[count + 1].
        contents: The content hash of every piece; empty before format 1.11, where pieces name
            the plan's.

    Raises:
        PiecesGone: If the folder is not there.
        PlanError: If the name is no folder's, or the pieces have other parts than the plan.
    """

    _held = -1

    def __init__(self, head: Container, folder: Any, num_parts: int, content: str) -> None:
        if not is_folder_name(folder):
            raise head.error(f"attribute '{PIECES}' names no folder beside the file")
        self._head, self.folder, self._content = head, str(folder), content
        self._open: dict[int, Container] = {}
        self._starts: dict[str, Int64Array] = {}
        self.first_part = first = self._offsets(FIRST_PART, None, num_parts)
        if (np.diff(first) < 1).any():
            raise head.error(f"/{FIRST_PART} is damaged: a piece without parts")
        self.count = len(first) - 1
        self.contents = self._contents() if head.is_there(CONTENT, h5py.Dataset) else []
        path = piece_path(head.path, self.folder, 0)
        try:
            self._held = hold_folder(os.path.dirname(path))
        except OSError as error:
            raise PiecesGone(f"{head.path}: piece 0 of {self.count} is missing: {path}") from error

    def __del__(self) -> None:
        """Who forgets a plan lets go of its folder."""
        self._let_go()

    def _let_go(self) -> None:
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def close(self) -> None:
        self._let_go()
        for container in self._open.values():
            container.close()
        self._open.clear()

    def _offsets(self, name: str, length: int | None, total: int | None) -> Int64Array:
        """A table of the head that rises from 0, to `total` if that is known."""
        dataset = self._head.checked(name, FileNode(("<i8",), ()))
        if len(dataset.shape) != 1 or len(dataset) < 2 or length not in (None, len(dataset)):
            raise self._head.error(f"/{name} is damaged: not one number for each piece")
        self._head.check_stored(name, dataset)
        found: Int64Array = dataset[:]
        ends = found[0] == 0 and total in (None, int(found[-1]))
        if not ends or (found[1:] < found[:-1]).any():
            raise self._head.error(f"/{name} is damaged: a number is out of range")
        return found

    def _contents(self) -> list[str]:
        dataset = self._head.checked(CONTENT, FileNode(("|u1",), ()))
        if dataset.shape != (self.count, SHA256_BYTES):
            raise self._head.error(f"/{CONTENT} is damaged: not one hash for each piece")
        self._head.check_stored(CONTENT, dataset)
        return [bytes(each).hex() for each in dataset[:]]

    def starts(self, name: str) -> Int64Array:
        """The entry at which every piece begins, and where the last ends: int64[count + 1]."""
        if name not in self._starts:
            self._starts[name] = self._offsets(f"{PIECES}/{name}", self.count + 1, None)
        return self._starts[name]

    def dataset(self, name: str, node: FileNode, like: h5py.Dataset) -> Pieced:
        """What stands for a dataset that is cut into parts; `like` is the head's, which is empty.

        Raises:
            PlanError: If the head has entries of it.
        """
        if len(like.shape) != len(node.shape) or like.shape[0] != 0:
            raise self._head.error(f"/{name} has entries in a plan in pieces")
        total = int(self.starts(name)[-1]) + node.shared
        return Pieced(self, name, node, (total, *like.shape[1:]), like.dtype)

    def read(self, of: Pieced, start: int, stop: int) -> npt.NDArray[Any]:
        """Some entries of a dataset; see `Pieced`."""
        starts, shared = self.starts(of.name), of.node.shared
        index = min(int(np.searchsorted(starts, start, side="right")) - 1, self.count - 1)
        if stop - start == len(of):
            index = 0
        found, at, tail = [np.empty((0, *of.shape[1:]), of.dtype)], start, None
        while at < stop:
            first, last = int(starts[index]), int(starts[index + 1]) + shared
            dataset = self.slice_of(of, index, last - first)
            again = int(shared and at > start)  # the entry that the piece before has as its last
            with self._piece(index).reading(f"/{of.name}"):
                read = dataset[max(at - again - first, 0) : min(stop, last) - first]
            if shared and self.contents:
                read += self.starts(indexed_by(of.name))[index]
            if again and read[0] != tail:
                raise self._head.error(
                    f"/{of.name} is damaged: pieces {index - 1} and {index} do not fit together"
                )
            found.append(read[again:])
            tail = read[-1] if shared else None
            at = min(stop, last)
            index += 1
        return found[1] if len(found) == 2 else np.concatenate(found)

    def slice_of(self, of: Pieced, index: int, length: int) -> h5py.Dataset:
        """A dataset of a piece."""
        piece = self._piece(index)
        with piece.reading(f"/{of.name}"):
            dataset = piece.checked(of.name, of.node)
            expected = (length, *of.shape[1:])
            if dataset.shape != expected or dataset.dtype != of.dtype:
                raise piece.error(
                    f"/{of.name} is {dataset.dtype.str} of shape {dataset.shape}; the head asks "
                    f"for {of.dtype.str} of shape {expected}"
                )
            piece.check_stored(of.name, dataset)
        return dataset

    def _piece(self, index: int) -> Container:
        if index not in self._open:
            while len(self._open) >= MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            self._open[index] = self._opened(index)
        return self._open[index]

    def path(self, index: int) -> str:
        """Where the file of a piece is found: its name may be another's by now, or gone."""
        if self._held >= 0 and os.path.isdir(HANDLES):
            return f"{HANDLES}/{self._held}/{index}.h5"
        return piece_path(self._head.path, self.folder, index)

    def _opened(self, index: int) -> Container:
        head, path = self._head, self.path(index)
        shown = piece_path(head.path, self.folder, index)
        if not os.path.exists(path):
            raise head.error(f"piece {index} of {self.count} is missing: {shown}")
        piece = Container(path, shown)
        try:
            with piece.reading("the header"):
                said = {
                    name: stored(piece.file, name).value
                    for name in PIECE_ATTRIBUTES
                    if name in piece.file.attrs and is_plain(piece.file.attrs.get_id(name))
                }
                unknown = sorted({*piece.file.attrs}.difference(PIECE_ATTRIBUTES))
                more = unknown or piece.file.visit(lambda at: None if at in head.file else [at])
                newest = int(str(stored(head.file, "format_version").value).split(".")[1])
            if said.get("format") != PIECE_FORMAT:
                raise piece.error(f"not a piece of a plan: 'format' is not '{PIECE_FORMAT}'")
            if said.get("piece") != index:
                raise piece.error(f"says that it is piece {said.get('piece')}, not {index}")
            if more:
                raise piece.error(f"has '{cut(more[0], 40)}', which no piece of the plan has")
            if said.get("format_version") not in [f"{MAJOR}.{k}" for k in range(newest + 1)]:
                raise piece.error(f"'format_version' is none up to {MAJOR}.{newest}, the head's")
            content = self.contents[index] if self.contents else self._content
            if said.get("content_sha256") != content:
                raise piece.error(
                    f"a piece of another plan than {head.path}, or of another version of it: "
                    "its content hash differs"
                )
        except BaseException:
            piece.close()
            raise
        return piece


@dataclass(frozen=True, eq=False)
class Pieced:
    """A dataset whose entries are in pieces; as much of ``h5py.Dataset`` as readers need.

    Attributes:
        shape: Of the whole.
        dtype: dtype.
    """

    pieces: Pieces
    name: str
    node: FileNode
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def piece_of(self, start: int, stop: int) -> tuple[h5py.Dataset | None, int]:
        """The dataset that has the entries ``start:stop``, and the place of the first there.

        None: several pieces have them.
        """
        starts = self.pieces.starts(self.name)
        index = min(int(np.searchsorted(starts, start, side="right")) - 1, self.pieces.count - 1)
        first, last = starts[index : index + 2].tolist()
        there = stop <= last
        return (self.pieces.slice_of(self, index, last - first) if there else None), start - first

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """The entries of a slice with step 1; ``...``: all."""
        start, stop, step = (slice(None) if key is Ellipsis else key).indices(len(self))
        assert step == 1
        return self.pieces.read(self, start, stop)
