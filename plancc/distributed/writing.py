"""Write one plan file from several ranks.

Rank 0 creates the file, and each rank writes its share of every dataset. A rank whose file system
does not have the file sends its share to rank 0, in blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.distributed.ranks import Ranks
from plancc.errors import output_error
from plancc.files import StrPath, atomic_write
from plancc.plan.digests import bytes_of, leaves_of, points_of, root_of
from plancc.plan.exchange import Int64Array
from plancc.plan.format import dataset_of, header_attributes
from plancc.plan.plan import Plan
from plancc.plan.values import Header
from plancc.plan.writer import Reserved, reserve_file

BLOCK_BYTES = 1 << 25
"""Number of bytes of a slice that are written, or sent to rank 0, at once."""


class RowBlock(NamedTuple):
    """The rows ``first:last`` of `array`, and the byte `place` of the file at which they begin."""

    place: int
    array: Any
    first: int
    last: int

    def content(self) -> memoryview:
        """Return the rows as bytes."""
        return bytes_of(self.array[self.first : self.last])


def write_plan(
    ranks: Ranks,
    output: StrPath,
    header: Header,
    parts: Plan,
    attributes: Mapping[str, Mapping[str, Any]],
) -> str:
    """Write the plan file, and return its content hash, the same as in one process. Collective.

    `attributes` are HDF5 attributes: group -> name -> value; only rank 0's are written. If one
    rank cannot write, all raise OutputError, and a former file is kept.
    """
    arrays = parts.arrays()
    nodes = {name: dataset_of(name) for name in arrays}
    points = points_of(arrays)
    starts = {cut: _offsets(ranks, at[-1:]) for cut, at in points.items()}
    entries: dict[str, npt.NDArray[Any]] = {}
    datasets: dict[str, npt.NDArray[Any] | Reserved] = {}
    for name, array in arrays.items():
        cut, shared = nodes[name].cut, nodes[name].shared
        if cut:
            # offsets count from the first part of the plan
            entries[name] = array + ranks.before(int(array[-1])) if shared else array
            shape = int(starts[cut][-1]) + shared, *array.shape[1:]
            datasets[name] = Reserved(array.dtype, shape)
            continue
        ends = nodes[name].ends
        every = _offsets(ranks, np.diff(array)) if ends else ranks.concatenated(array)
        datasets[name] = entries[name] = every
    with ranks.agreement():  # features may be read from a file
        leaves = leaves_of(entries, points)
    for name in leaves:
        if nodes[name].cut:
            leaves[name] = ranks.concatenated(leaves[name])
    content = root_of(header_attributes(header), leaves, datasets)
    with ExitStack() as stack:
        made = None
        with ranks.agreement(), _output_errors(output):
            if ranks.rank == 0:
                temporary = str(stack.enter_context(atomic_write(output)))
                places = reserve_file(temporary, header, datasets, attributes, leaves, content)
                made = temporary, os.path.getsize(temporary), places
        temporary, size, places = ranks.broadcast(made)
        blocks: list[RowBlock] = []
        for name, place in places.items():
            array, first = entries[name], int(starts[nodes[name].cut][ranks.rank])
            # the next rank's offsets begin with this rank's last offset
            length = len(array) - (nodes[name].shared and ranks.rank < ranks.size - 1)
            blocks += _blocks(place, array, first, length)
        with _opened(temporary, size, ranks.here < ranks.size) as file:
            _fill(ranks, output, file, blocks)
        with ranks.agreement():
            stack.close()  # the file gets its name
    return content


def _blocks(place: int, array: Any, first: int, length: int) -> list[RowBlock]:
    """Cut the rows ``0:length`` of `array` into blocks, which are written one by one.

    Row 0 of `array` is row `first` of a dataset, which begins at byte `place` of the file.
    """
    row_bytes = array.nbytes // max(1, len(array))
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    rows = range(0, length if row_bytes else 0, step)
    return [
        RowBlock(place + (first + k) * row_bytes, array, k, min(k + step, length)) for k in rows
    ]


@contextmanager
def _opened(path: str, size: int, is_far: bool) -> Iterator[int]:
    """Open the file of rank 0 for writing; yield its descriptor, or -1 if it cannot be reached.

    The file name has a random part, so if another computer has a file of this name, it is this
    file, on a shared disk. If `is_far` (ranks on several computers write the file), NFS writes only
    the given bytes, not whole pages, in which other ranks write too.
    """
    file = -1
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | (os.O_DSYNC if is_far else 0))
    try:
        yield file if file >= 0 and os.fstat(file).st_size == size else -1
    finally:
        if file >= 0:
            os.close(file)


def _fill(ranks: Ranks, output: StrPath, file: int, blocks: list[RowBlock]) -> None:
    """Write the blocks of all ranks. Collective.

    `file` is negative on ranks that cannot reach the file; rank 0 writes for them.
    """
    with ranks.agreement(), _output_errors(output):
        for block in blocks if file >= 0 else ():
            _write_at(file, block.place, block.content())
    sent = ranks.gathered([block.place for block in blocks] if file < 0 else [])
    for rank, places in enumerate(sent):
        for number, place in enumerate(places):
            content = np.empty(0, np.uint8)
            if rank == ranks.rank:
                content = np.frombuffer(blocks[number].content(), np.uint8)
            content = ranks.at_root(content)
            with ranks.agreement(), _output_errors(output):
                if ranks.rank == 0:
                    _write_at(file, place, bytes_of(content))


def _write_at(file: int, place: int, content: memoryview) -> None:
    while content:
        written = os.pwrite(file, content, place)
        place, content = place + written, content[written:]


@contextmanager
def _output_errors(path: StrPath) -> Iterator[None]:
    """Turn errors of the operating system into OutputErrors that name the plan file."""
    try:
        yield
    except OSError as error:
        raise output_error(os.fspath(path), error) from error


def _offsets(ranks: Ranks, sizes: Int64Array) -> Int64Array:
    """Return the running sums of the sizes of all ranks, from 0, along the last axis.

    Collective.
    """
    every = ranks.concatenated(np.ascontiguousarray(sizes.T)).T
    sums = np.cumsum(every, axis=-1)
    return np.ascontiguousarray(np.concatenate([0 * sums[..., :1], sums], axis=-1))
