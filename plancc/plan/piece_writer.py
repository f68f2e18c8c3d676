"""Writing a plan in pieces: one file for consecutive parts, by several processes, and the head.

The pieces are written into a folder with a temporary name, which one process makes; when all pieces
and the head are there, it renames both. So the plan appears complete or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from plancc.errors import InputError, output_error
from plancc.plan.attributes import write_attributes
from plancc.plan.digests import Digests, cut_points, digests_of, digests_of_plan, root_of
from plancc.plan.exchange import Int64Array
from plancc.plan.format import (
    FORMAT_VERSION,
    PIECE_FORMAT,
    PIECES,
    Arrays,
    header_attributes,
    names_of,
    node_of,
)
from plancc.plan.pieces import (
    CONTENT,
    FIRST_PART,
    Pieces,
    folder_name,
    new_folder,
    remove_pieces,
)
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile
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
        arrays: Its slices of all datasets that are cut into parts, by name; offsets count from its
            first part.
        content: Its content hash: `root_of` its slices, without header.

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
        contents: The content hash of every piece.
    """

    folder: str
    first_part: Int64Array
    starts: Mapping[str, Int64Array]
    kinds: Mapping[str, ArrayKind]
    contents: Sequence[str]


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
    datasets: dict[str, Any] = {n: arrays[n] for n in names_of(header.types) if n in arrays}
    contents = np.array([[*bytes.fromhex(each)] for each in pieces.contents], np.uint8)
    datasets |= {FIRST_PART: pieces.first_part, CONTENT: contents} | tables
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


def save_in_pieces(
    plan: Plan,
    path: str | PathLike[str],
    first_part: Sequence[int] | Int64Array,
    *,
    compress: bool = False,
    former: Pieces | None = None,
) -> tuple[str, int]:
    """Write a plan whose piece i has the parts ``first_part[i]..first_part[i + 1] - 1``.

    Parameters:
        former: Pieces of the same parts. Those that are the same now get a second name, where the
            file system has such links, and are not written.

    Returns:
        content: The content hash.
        written: How many pieces are written.
    """
    arrays, parts, written = plan.arrays(), np.asarray(first_part, np.int64), 0
    cuts = {name: node_of(name).cut for name in arrays if node_of(name).cut}
    points = {name: cut_points(cut, arrays.__getitem__) for name, cut in cuts.items()}
    starts = {name: at[parts] for name, at in points.items()}
    leaves = digests_of_plan(arrays)
    content = root_of(header_attributes(plan.header), leaves, arrays)
    folder, contents = folder_name(path, content), list[str]()
    with ExitStack() as stack:
        temporary = stack.enter_context(new_folder(path, folder))
        for i, (first, last) in enumerate(pairwise(parts)):
            slices: dict[str, Any] = {}
            own: dict[str, Digests] = {}
            for name, at in points.items():
                start, stop = starts[name][i : i + 2]
                slices[name], own[name] = arrays[name][start:stop], leaves[name][first:last]
                if node_of(name).shared:
                    slices[name] = arrays[name][start : stop + 1] - arrays[name][start]
                    within = at[first : last + 1] - start
                    own[name] = digests_of(slices[name], within, shared=True)
            contents.append(root_of({}, own, slices))
            if not _is_linked(former, i, contents[i], temporary):
                write_piece(temporary, i, slices, contents[i], compress=compress)
                written += 1
        kinds = {name: ArrayKind(arrays[name].dtype, arrays[name].shape) for name in cuts}
        whole = {name: arrays[name] for name in arrays if name not in cuts}
        table = PieceTable(folder, parts, starts, kinds, contents)
        attributes = plan.attributes()
        write_plan_head(path, plan.header, whole, table, leaves, attributes, stack.close)
    return content, written


def _is_linked(former: Pieces | None, index: int, content: str, folder: Path) -> bool:
    """Whether a former piece is the same, and has a name in the new folder now."""
    if former is None or former.contents[index : index + 1] != [content]:
        return False
    try:
        os.link(former.path(index), folder / f"{index}.h5")
    except OSError:
        return False
    return True


def save_like(
    plan: Plan,
    path: str | PathLike[str],
    former: str | PathLike[str],
    *,
    compress: bool = False,
) -> tuple[str, int | None]:
    """Write a plan as another one is stored: in one file, or in pieces of the same parts.

    Parameters:
        former: The file of a plan, whose pieces are not written again where they are the same.
        compress: As of `plancc.plan.plan.Plan.save`, of all that is written.

    Returns:
        content: The content hash.
        written: How many pieces are written; None: the plan is in one file.

    Raises:
        InputError, PlanError: As `PlanFile`; if the former plan is in pieces and has another number
            of parts.
        OutputError: If the plan cannot be written.
    """
    with PlanFile(former) as file:
        if file.pieces is None:
            return plan.save(path, compress=compress), None
        if file.header.num_parts != plan.num_parts:
            raise InputError(
                f"{file.path}: is in pieces of {file.header.num_parts} parts, and the plan has "
                f"{plan.num_parts}"
            )
        first_part = file.pieces.first_part
        return save_in_pieces(plan, path, first_part, compress=compress, former=file.pieces)
