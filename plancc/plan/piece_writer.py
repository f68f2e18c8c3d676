"""Writing a plan in pieces: one file for consecutive parts, by several processes, and the head.

The pieces are written into a folder with a temporary name, which one process makes; when all pieces
and the head are there, it renames both. So the plan appears complete or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from plancc.errors import output_error
from plancc.plan.attributes import write_attributes
from plancc.plan.digests import Digests, root_of
from plancc.plan.exchange import Int64Array
from plancc.plan.format import (
    FORMAT_VERSION,
    PIECE_FORMAT,
    PIECES,
    Arrays,
    header_attributes,
    names_of,
)
from plancc.plan.pieces import FIRST_PART, remove_pieces
from plancc.plan.values import Header
from plancc.plan.writer import LIBVER, Stream, write_array, write_file


class ArrayKind(NamedTuple):
    """Type and size of a whole dataset."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def write_piece(
    folder: str | PathLike[str], index: int, arrays: Arrays, content: str, *, compress: bool
) -> None:
    """Write the file of a piece.

    Parameters:
        folder: It exists.
        index: Number of the piece.
        arrays: Its slices of all datasets that are cut into parts, by name, with the values that
            they have in one file: offsets count from the first part of the plan.
        content: The plan's content hash.

    Raises:
        OutputError: If the disk is full, or the folder cannot be written.
    """
    path = os.path.join(folder, f"{index}.h5")
    try:
        _write_piece(path, index, arrays, content, compress)
    except OSError as error:
        raise output_error(path, error) from error


def _write_piece(path: str, index: int, arrays: Arrays, content: str, compress: bool) -> None:
    said = {
        "format": PIECE_FORMAT,
        "format_version": FORMAT_VERSION,
        "piece": index,
        "content_sha256": content,
    }
    os.close(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o666))
    stream = Stream(path, "r+")
    try:
        with h5py.File(stream, "w", libver=(LIBVER, LIBVER)) as file:
            write_attributes(file, said)
            for name, array in arrays.items():
                write_array(file, name, array, compress, stream.check)
        os.fsync(stream.fileno())
    finally:
        stream.close()
        stream.check()  # HDF5 may say anything after a failed write


@dataclass(frozen=True, eq=False)
class PieceTable:
    """What the head of a plan says of its pieces.

    Attributes:
        folder: Name of their folder, beside the head.
        first_part: int64[pieces + 1].
        starts: Of every dataset that is cut into parts: the entry at which each piece begins,
            int64[pieces + 1].
        kinds: Types and sizes of the same.
    """

    folder: str
    first_part: Int64Array
    starts: Mapping[str, Int64Array]
    kinds: Mapping[str, ArrayKind]


def write_plan_head(
    path: str | PathLike[str],
    header: Header,
    whole: Arrays,
    pieces: PieceTable,
    digests: Mapping[str, Digests],
    attributes: Mapping[str, Mapping[str, Any]],
    first: Callable[[], None],
) -> str:
    """Write the head of a plan whose pieces are written, and return the content hash.

    Parameters:
        whole: Datasets that are not cut into parts.
        digests: Of all datasets.
        attributes: As of `plancc.plan.writer.write_file`.
        first: Gives the folder of the pieces its name. If the head cannot get its own then, the
            pieces are removed, and a plan that was there before stays.
    """
    kinds = pieces.kinds
    empty = {name: np.empty((0, *kind.shape[1:]), kind.dtype) for name, kind in kinds.items()}
    tables = {f"{PIECES}/{name}": at for name, at in pieces.starts.items()}
    content = root_of(header_attributes(header), digests, {**whole, **kinds})
    arrays = {**whole, **empty}
    datasets = {name: arrays[name] for name in names_of(header.types) if name in arrays}
    datasets |= {FIRST_PART: pieces.first_part} | tables
    try:
        write_file(
            path,
            header,
            datasets,
            attributes,
            compress=False,
            known=(digests, content),
            more={PIECES: pieces.folder},
            first=first,
        )
    except BaseException:
        remove_pieces(path, Path(os.path.realpath(path)).with_name(pieces.folder))
        raise
    return content
