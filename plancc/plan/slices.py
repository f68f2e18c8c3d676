"""Reading a rank's slice of a plan file. Knows no MPI: a rank is a number here.

Rank k of r takes the contiguous block of parts ``k * p // r .. (k + 1) * p // r - 1``; what of
several parts becomes of one rank is `plancc.plan.merge`'s business. Every number that is used as
an index is checked here, so that a damaged file is an error and never a wrong address.
"""

from __future__ import annotations

from os import PathLike

import numpy as np

from plancc.errors import InputError, PlanError
from plancc.graph.vertexdata import VertexData
from plancc.plan.format import vertex_data_from_arrays
from plancc.plan.grid_slices import (
    check_ranks,
    keeps_part,
    parts_to_read,
    rows_of_rank,
    share_of_rank,
)
from plancc.plan.merge import Block, Messages, PartialRows, merge
from plancc.plan.plan import Header, Int32Array, Int64Array, Part, PartFold
from plancc.plan.reader import PlanFile


def block_of_parts(num_parts: int, num_ranks: int) -> Int64Array:
    """First part of every rank, int64[num_ranks + 1]."""
    return np.arange(num_ranks + 1, dtype=np.int64) * num_parts // num_ranks


def read_rank_slice(path: str | PathLike[str], rank: int, num_ranks: int) -> tuple[Header, Part]:
    """What rank `rank` of `num_ranks` needs of a plan file; nothing else is read.

    Parameters
    ----------
    path : path of the plan
    rank, num_ranks : int
        ``0 <= rank < num_ranks <= num_parts``; of a grid plan exactly the ranks of its grid.

    Returns
    -------
    Header, Part
        `Part.index` and `Part.num_parts`, and the peers, are in ranks.

    Raises
    ------
    InputError
        If the file is missing, or the plan does not run on so many ranks.
    PlanError
        If the file is damaged.
    """
    with PlanFile(path) as file:
        return file.header, read_part(file, rank, num_ranks)


def read_part(file: PlanFile, rank: int, num_ranks: int) -> Part:
    """The slice of rank `rank` from an open plan; see `read_rank_slice`."""
    num_parts = file.header.num_parts
    if not 0 <= rank < num_ranks:
        raise InputError(f"rank {rank} of {num_ranks}: ranks are numbered from 0")
    if file.header.grid is not None:
        return _read_grid_share(file, rank, num_ranks)
    if num_ranks > num_parts:
        raise InputError(
            f"{file.path}: {num_ranks} ranks for a plan of {num_parts} parts; start at most "
            f"{num_parts} ranks, or compile the plan for more parts"
        )
    ranks = block_of_parts(num_parts, num_ranks)
    block = _read_block(file, int(ranks[rank]), int(ranks[rank + 1]))
    if num_ranks < num_parts:
        return merge(block, rank, ranks)
    return _only_part(file, block)


def _read_grid_share(file: PlanFile, rank: int, num_ranks: int) -> Part:
    """Of vertex data the rows that the rank has, whatever else it reads of their block."""
    grid = check_ranks(file.path, file.header, num_ranks)
    block = _read_block(file, *parts_to_read(grid, rank), with_data=False)
    part = _only_part(file, block) if keeps_part(grid) else None
    data = _read_vertex_data(file, *rows_of_rank(grid, block.part_ptr, rank))
    return share_of_rank(grid, rank, block, part, data)


def _only_part(file: PlanFile, block: Block) -> Part:
    """The part that a block of one part is."""
    index = block.first
    num_interior = file.read("rows/num_interior", index, index + 1)
    _check(file, "rows/num_interior", _within(num_interior, len(block.global_id) + 1))
    return Part(
        index=index,
        num_parts=file.header.num_parts,
        first_row=block.first_row,
        global_id=block.global_id,
        num_interior=int(num_interior[0]),
        row_ptr=block.row_ptr,
        column=block.column,
        value=block.value,
        send_peer=block.send.peer,
        send_ptr=block.send.row_ptr,
        send_row=block.send.row,
        recv_peer=block.receive.peer,
        recv_ptr=block.receive.row_ptr,
        vertex_data=block.vertex_data,
        fold=(
            None
            if block.fold is None
            else PartFold(
                send_peer=block.fold.send.peer,
                send_ptr=block.fold.send.row_ptr,
                recv_peer=block.fold.receive.peer,
                recv_ptr=block.fold.receive.row_ptr,
                recv_row=block.fold.receive.row,
            )
        ),
    )


def _read_block(file: PlanFile, first: int, last: int, *, with_data: bool = True) -> Block:
    """Parts first..last-1 as they stand in the file, offsets from zero, all indices in range."""
    part_ptr = read_offsets(file, "rows/part_ptr", file.header.num_vertices)
    row0, row1 = int(part_ptr[first]), int(part_ptr[last])
    rows = np.diff(part_ptr)
    _, send = _read_messages(file, "expand/send", first, last)
    _, receive = _read_messages(file, "expand/recv", first, last)
    local_ptr, fold, folded_before = part_ptr[first : last + 1], None, 0
    if file.header.layout == "edge":
        folded_before, fold = _read_partial_rows(file, first, last, rows)
        local_ptr = local_ptr + folded_before + fold.send.row_ptr[fold.send.ptr]
    local0, local1 = int(local_ptr[0]), int(local_ptr[-1])
    row_ptr = _slice_offsets(file, "matrix/row_ptr", local0, local1, file.header.num_nonzeros)
    nonzeros = int(row_ptr[0]), int(row_ptr[-1])
    row_ptr = row_ptr - row_ptr[0]
    column = file.read("matrix/column", *nonzeros)
    width = rows[first:last] + np.diff(receive.row_ptr[receive.ptr])
    nonzero_ptr = row_ptr[local_ptr - local0]
    for part in range(first, last):
        held = column[nonzero_ptr[part - first] : nonzero_ptr[part - first + 1]]
        _check(file, "matrix/column", _within(held, int(width[part - first])))
    send_bound = rows[send.part_of_row(first)]
    receive_bound = rows[receive.peer_of_row()]
    global_id = file.read("rows/global_id", row0, row1)
    _check(file, "rows/global_id", _within(global_id, file.header.num_vertices))
    _check(file, "expand/send_row", ((send.row >= 0) & (send.row < send_bound)).all())
    _check(file, "expand/recv_row", ((receive.row >= 0) & (receive.row < receive_bound)).all())
    return Block(
        first=first,
        last=last,
        part_ptr=part_ptr,
        global_id=global_id,
        local_ptr=local_ptr - local0,
        row_ptr=row_ptr,
        column=column,
        value=file.read("matrix/value", *nonzeros),
        send=send,
        receive=receive,
        vertex_data=_read_vertex_data(file, row0, row1) if with_data else VertexData(),
        fold=fold,
    )


def _read_vertex_data(file: PlanFile, row0: int, row1: int) -> VertexData:
    """Rows ``row0:row1`` in plan order of all that the plan carries."""
    names = file.vertex_data_names()
    return vertex_data_from_arrays(
        {f"vertex_data/{name}": _vertex_data(file, name, row0, row1) for name in names}
    )


def _vertex_data(file: PlanFile, name: str, row0: int, row1: int) -> np.ndarray:
    """Rows of one vertex data array, with the values that the format allows."""
    array = file.read(f"vertex_data/{name}", row0, row1)
    if name == "features":
        _check(file, f"vertex_data/{name}", np.isfinite(array).all())
    elif name == "labels":
        _check(file, f"vertex_data/{name}", (array >= -1).all())
    elif name == "clusters":
        _check(file, f"vertex_data/{name}", (array >= 0).all())
    else:
        _check(file, f"vertex_data/{name}", (array <= 1).all())
    return array


def _read_partial_rows(
    file: PlanFile, first: int, last: int, rows: Int64Array
) -> tuple[int, PartialRows]:
    """The folded rows of all parts before `first`, and the fold of parts first..last-1."""
    before, send = _read_messages(file, "fold/send", first, last)
    _, receive = _read_messages(file, "fold/recv", first, last)
    for prefix, row, owner in (
        ("send", send.row, send.peer_of_row()),
        ("recv", receive.row, receive.part_of_row(first)),
    ):
        _check(file, f"fold/{prefix}_row", ((row >= 0) & (row < rows[owner])).all())
    return before, PartialRows(send, receive)


def _read_messages(file: PlanFile, table: str, first: int, last: int) -> tuple[int, Messages]:
    """The rows in a table before part `first`, and the messages of parts first..last-1."""
    in_fold = table.startswith("fold")
    messages = file.fold_messages if in_fold else file.messages
    volume = file.fold_volume if in_fold else file.volume
    ptr = read_offsets(file, f"{table}_ptr", messages)[first : last + 1]
    start, stop = int(ptr[0]), int(ptr[-1])
    row_ptr = _slice_offsets(file, f"{table}_row_ptr", start, stop, volume)
    peer = file.read(f"{table}_peer", start, stop)
    _check(file, f"{table}_peer", _within(peer, file.header.num_parts))
    before = int(row_ptr[0])
    row = file.read(f"{table}_row", before, int(row_ptr[-1]))
    return before, Messages(ptr - ptr[0], peer, row_ptr - before, row)


def read_offsets(file: PlanFile, name: str, total: int) -> Int64Array:
    """A whole offset table, which must rise from 0 to `total`."""
    offsets: Int64Array = file.read(name)
    _check(file, name, offsets[0] == 0 and offsets[-1] == total and _rises(offsets))
    return offsets


def _slice_offsets(file: PlanFile, name: str, start: int, stop: int, total: int) -> Int64Array:
    """Entries start..stop of an offset table, which must rise within 0..total."""
    offsets: Int64Array = file.read(name, start, stop + 1)
    in_range = offsets[0] >= 0 and offsets[-1] <= total
    _check(file, name, in_range and _rises(offsets))
    return offsets


def _rises(offsets: Int64Array) -> np.bool_:
    return (offsets[1:] >= offsets[:-1]).all()  # a difference could overflow


def _within(numbers: Int32Array | Int64Array, bound: int) -> bool:
    return len(numbers) == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < bound)


def _check(file: PlanFile, name: str, holds: bool | np.bool_) -> None:
    if not holds:
        raise PlanError(f"{file.path}: /{name} is damaged: a number is out of range")
