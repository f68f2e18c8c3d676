"""Reading a rank's slice of a plan file. Knows no MPI: a rank is a number here.

Rank k of r takes the parts ``k * p // r .. (k + 1) * p // r - 1``; `plancc.plan.merge` makes one of
them. Offsets are checked before anything is read with them, and all else by
`plancc.plan.part_invariants`: a damaged file is an error and never a wrong address.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

import numpy as np

from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Exchange, Int64Array, Side
from plancc.plan.format import vertex_data_from_arrays
from plancc.plan.grid_slices import (
    check_ranks,
    keeps_part,
    parts_to_read,
    rows_of_rank,
    share_of_rank,
)
from plancc.plan.merge import merge
from plancc.plan.part_invariants import check, claims_of, data_invariants, part_invariants
from plancc.plan.parts import Claims, GridShare, Part, PartRange
from plancc.plan.reader import PlanFile
from plancc.plan.values import Exchanges, Header

NONZEROS_AT_ONCE = 1 << 26
"""Most nonzeros of the parts that `check_tables` reads at once."""


def block_of_parts(num_parts: int, num_ranks: int) -> Int64Array:
    """First part of every rank, int64[num_ranks + 1]."""
    return np.arange(num_ranks + 1, dtype=np.int64) * num_parts // num_ranks


def read_rank_slice(path: str | PathLike[str], rank: int, num_ranks: int) -> tuple[Header, Part]:
    """The slice of rank `rank` of `num_ranks`; nothing else of the plan file is read.

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


def check_num_ranks(file: PlanFile, num_ranks: int) -> None:
    """InputError unless an open plan runs on so many ranks: its parts, or the ranks of its grid."""
    num_parts = file.header.num_parts
    if file.header.grid is not None:
        check_ranks(file.path, file.header, num_ranks)
    elif num_ranks > num_parts:
        raise InputError(
            f"{file.path}: {num_ranks} ranks for a plan of {num_parts} parts; start at most "
            f"{num_parts} ranks, or compile the plan for more parts"
        )


def read_rows(file: PlanFile, rank: int, num_ranks: int) -> Part:
    """The rows of rank `rank` in plan order, with vertex data, without nonzeros and messages.

    No kernel is called. Vertex data are checked as far as they are whole numbers.

    Parameters and errors are those of `read_part`.
    """
    header = file.header
    _check_rank(file, rank, num_ranks)
    grid, share = header.grid, None
    part_ptr = file.read_offsets("rows/part_ptr", header.num_vertices)
    if grid is None:
        first, last = block_of_parts(header.num_parts, num_ranks)[rank : rank + 2].tolist()
        own = slice(None)
    else:
        first = grid.part(rank)
        last = first + 1
        own = slice(*(rows_of_rank(grid, part_ptr, rank) - part_ptr[first]).tolist())
        empty = np.zeros(0, np.int32)
        share = GridShare(grid, rank, part_ptr, np.zeros(1, np.int64), empty, np.zeros(0))
    global_id = file.read_within("rows/global_id", header.num_vertices, first, last)[own]
    data = _read_vertex_data(file, first, last)
    if grid is not None:
        data = data.take(np.arange(own.start, own.stop))
    check(data_invariants(replace(data, features=None), header.num_vertices), file.path)
    first_row = int(part_ptr[first]) + (own.start or 0)
    return Part.of_rows(rank, num_ranks, first_row, global_id, data, share)


def read_part(
    file: PlanFile, rank: int, num_ranks: int, vertex_data: VertexData | None = None
) -> Part:
    """The slice of rank `rank` from an open plan; see `read_rank_slice`.

    `vertex_data` of the rank's rows in plan order, as `read_rows` has them, are not read again.
    """
    num_parts = file.header.num_parts
    _check_rank(file, rank, num_ranks)
    if file.header.grid is not None:
        return _read_grid_share(file, rank, num_ranks, vertex_data)
    ranks = block_of_parts(num_parts, num_ranks)
    block, num_interior = _read_parts(file, int(ranks[rank]), int(ranks[rank + 1]), vertex_data)
    rank_of_part = np.repeat(np.arange(num_ranks), np.diff(ranks))
    claims = claims_of(block, rank_of_part, rank, file.header)
    if num_ranks == num_parts:
        return replace(block.only_part(int(num_interior[0])), claims=claims)
    return replace(merge(block, rank, ranks), claims=claims)


def _check_rank(file: PlanFile, rank: int, num_ranks: int) -> None:
    if not 0 <= rank < num_ranks:
        raise InputError(f"rank {rank} of {num_ranks}: ranks are numbered from 0")
    check_num_ranks(file, num_ranks)


def _read_grid_share(
    file: PlanFile, rank: int, num_ranks: int, data: VertexData | None = None
) -> Part:
    """The slice of a rank of a process grid; it may read more rows than it has vertex data of."""
    grid = check_ranks(file.path, file.header, num_ranks)
    first, last = parts_to_read(grid, rank)
    block, num_interior = _read_parts(file, first, last, VertexData())
    part = block.only_part(int(num_interior[0])) if keeps_part(grid) else None
    own = grid.part(rank)
    rows = np.arange(*rows_of_rank(grid, block.part_ptr, rank)) - block.part_ptr[own]
    data = data or _read_vertex_data(file, own, own + 1).take(rows)
    check(data_invariants(data, file.header.num_vertices), file.path)
    share = share_of_rank(grid, rank, block, part, data)
    return replace(share, claims=_claims_of_grid(file.header, rank, block))


def _claims_of_grid(header: Header, rank: int, block: PartRange) -> Claims:
    """Claims of the first rank of every part for that part; the others claim nothing."""
    grid = header.grid
    assert grid is not None
    first_of_part = np.arange(grid.num_parts) * grid.columns
    index = grid.part(rank) - block.first
    counted = rank == first_of_part[grid.part(rank)]
    own = block.of_parts(index, index + counted)
    return claims_of(own, first_of_part, rank, header)


def _read_parts(
    file: PlanFile, first: int, last: int, data: VertexData | None = None
) -> tuple[PartRange, Int64Array]:
    """Parts ``first..last-1`` as they stand in the file, checked; and their `num_interior`.

    Their vertex data are `data`, or read if None.
    """
    header = file.header
    part_ptr = file.read_offsets("rows/part_ptr", header.num_vertices)
    exchanges = Exchanges({step: _read_step(file, step, first, last) for step in header.steps()})
    local_ptr = part_ptr[first : last + 1]
    if exchanges.fold is not None:
        folded = exchanges.fold.send
        local_ptr = local_ptr + folded.row_ptr[folded.ptr]
    row_ptr = file.read_offsets("matrix/row_ptr", header.num_nonzeros, first, last)
    parts = PartRange(
        first=first,
        last=last,
        part_ptr=part_ptr,
        global_id=file.read_within("rows/global_id", header.num_vertices, first, last),
        local_ptr=local_ptr - local_ptr[0],
        row_ptr=row_ptr - row_ptr[0],
        column=file.read("matrix/column", first, last),
        value=file.read("matrix/value", first, last),
        exchanges=exchanges,
        vertex_data=_read_vertex_data(file, first, last) if data is None else data,
        topology=header.topology,
    )
    num_interior = file.read("rows/num_interior")[first:last]
    check(part_invariants(parts, num_interior), file.path)
    return parts, num_interior


def check_tables(file: PlanFile) -> None:
    """Check all that `PlanFile.read_plan` does but the figures, some parts at a time.

    Memory is that of the largest part, or of `NONZEROS_AT_ONCE`; an edge plan is read as a whole.

    Raises
    ------
    PlanError
        Of the first invariant that does not hold.
    """
    header = replace(file.header, grid=None)
    if header.layout == "edge":
        file.read_plan()
        return
    part_ptr = file.read_offsets("rows/part_ptr", header.num_vertices)
    row_ptr = file.read_offsets("matrix/row_ptr", header.num_nonzeros)
    _, block_of_part = np.unique(row_ptr[part_ptr[:-1]] // NONZEROS_AT_ONCE, return_inverse=True)
    digest = vertices = 0
    for block in range(int(block_of_part[-1]) + 1):
        first, last = np.searchsorted(block_of_part, [block, block + 1]).tolist()
        parts, _ = _read_parts(file, first, last)
        claims = claims_of(parts, block_of_part, block, header)
        digest += int(claims.sent.sum()) - int(claims.expected.sum())
        vertices += claims.vertices
    differ = "a part expects other rows than are sent" if digest % 2**64 else ""
    repeated = "a vertex has several rows, or none" if vertices % 2**64 else ""
    of_all = [
        ("sends and receives mirror each other", differ),
        ("rows/global_id is a permutation", repeated),
    ]
    check(of_all, file.path)


def _read_step(file: PlanFile, step: str, first: int, last: int) -> Exchange:
    """The messages of parts ``first..last-1`` in a step or a hop."""
    sides = []
    for end in ("send", "recv"):
        table = f"{step}/{end}"
        ptr, peer, row_ptr = file.read_messages(table, first, last)
        row = file.read(f"{table}_row", first, last)
        sides.append(Side(ptr, peer, row_ptr - row_ptr[0], row))
    return Exchange(*sides)


def _read_vertex_data(file: PlanFile, first: int, last: int) -> VertexData:
    """What the plan carries of the rows of parts ``first..last-1``."""
    names = [f"vertex_data/{name}" for name in file.vertex_data_names()]
    return vertex_data_from_arrays({name: file.read(name, first, last) for name in names})
