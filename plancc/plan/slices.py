"""Read a rank's slice of a plan file.

With r ranks and p parts, rank k has the parts ``k * p // r .. (k + 1) * p // r - 1``. Offsets are
checked before use, so a damaged file causes an error, never an access outside an array.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from plancc.files import StrPath
from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Int64Array
from plancc.plan.format import LINK_DATASETS, links_of
from plancc.plan.grid_slices import keeps_part, share_of_rank
from plancc.plan.links import sources_problem
from plancc.plan.merge import merge
from plancc.plan.part_invariants import check, claims_of, data_invariants, part_invariants
from plancc.plan.parts import GridShare, Part, PartRange
from plancc.plan.plan import fields_of
from plancc.plan.rank_parts import RankParts, parts_of_rank
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header

NONZEROS_AT_ONCE = 1 << 26
"""Largest number of nonzeros that `check_tables` reads at once."""


def read_rank_slice(path: StrPath, rank: int, num_ranks: int) -> tuple[Header, Part]:
    """Read from a plan file only what one rank needs: the header, and its part.

    In this part, `index` is the rank, `num_parts` is `num_ranks`, and peers are ranks.
    """
    with PlanFile(path) as file:
        return file.header, read_part(file, rank, num_ranks)


def read_rows(file: PlanFile, rank: int, num_ranks: int, on_disk: bool = False) -> Part:
    """Read a rank's rows with vertex data and links, but without nonzeros and messages.

    Links stay as stored, part by part. Numbers in features are not checked. No compiled function is
    called. With `on_disk`, features stay in the file (`PlanFile.rows_on_disk`).
    """
    header, share = file.header, None
    held = parts_of_rank(file.path, header, rank, num_ranks)
    part_ptr = file.read("rows/part_ptr")
    first, last = held.rows(part_ptr)
    if header.grid is not None:
        empty = np.zeros(0, np.int32)
        share = GridShare(header.grid, rank, part_ptr, np.zeros(1, np.int64), empty, np.zeros(0))
    global_id = file.read("rows/global_id", *held.parts)
    before = part_ptr[held.parts[0]]
    data = _read_own_data(file, held, part_ptr, on_disk)
    check(data_invariants(replace(data, features=None), header.num_vertices), file.path)
    ids = global_id[first - before : last - before]
    rows = Part.of_rows(rank, num_ranks, first, ids, data, share)
    if header.links is None:
        return rows
    return replace(rows, links=links_of(header, file.read_parts(*held.parts, LINK_DATASETS)))


def read_part(
    file: PlanFile, rank: int, num_ranks: int, vertex_data: VertexData | None = None
) -> Part:
    """Read the slice of one rank from an open plan; see `read_rank_slice`.

    `vertex_data` come from `read_rows`; their features may be reordered in place.
    """
    held = parts_of_rank(file.path, file.header, rank, num_ranks)
    parts = _read_parts(file, *held.parts_to_read)
    data = vertex_data or _read_own_data(file, held, parts.part_ptr)
    check(data_invariants(data, file.header.num_vertices), file.path)
    alone = parts.only_part(held) if _runs_alone(held) else None
    if file.header.grid is not None:
        part = share_of_rank(held, parts, alone, data)
    elif alone is not None:
        part = replace(alone, vertex_data=data)
    else:
        part = merge(parts, held, data)
    return replace(part, claims=claims_of(parts, held))


def _runs_alone(held: RankParts) -> bool:
    """Return whether the rank runs exactly one part, and sends this part's messages."""
    grid = held.header.grid
    return held.num_ranks == held.header.num_parts if grid is None else keeps_part(grid)


def _read_own_data(
    file: PlanFile, held: RankParts, part_ptr: Int64Array, on_disk: bool = False
) -> VertexData:
    """Read the vertex data of a rank's rows in plan order; `on_disk` keeps features on disk."""
    data, (first, last) = file.read_vertex_data(*held.parts, on_disk), held.rows(part_ptr)
    start, stop = part_ptr[list(held.parts)]
    return data if (first, last) == (start, stop) else data.take(np.arange(first, last) - start)


def _read_parts(file: PlanFile, first: int, last: int) -> PartRange:
    """Read and check parts ``first..last-1``."""
    header = file.header
    part_ptr, fields = file.read("rows/part_ptr"), fields_of(header, file.read_parts(first, last))
    parts = PartRange(first=first, last=last, part_ptr=part_ptr, **fields)
    check(part_invariants(parts, header), file.path)
    if parts.links is not None:
        check([sources_problem(parts.links, header.links or 0)], file.path)
    return parts


def check_tables(file: PlanFile) -> None:
    """Check everything that `PlanFile.read_plan` checks, except the stored figures.

    To save memory, parts are read in groups; an edge plan is read whole.
    """
    header = replace(file.header, grid=None)
    if header.layout == "edge":
        file.read_plan()
        return
    part_ptr = file.read("rows/part_ptr")
    row_ptr = file.read("matrix/row_ptr")
    _, block_of_part = np.unique(row_ptr[part_ptr[:-1]] // NONZEROS_AT_ONCE, return_inverse=True)
    starts = np.searchsorted(block_of_part, np.arange(block_of_part[-1] + 2))
    digest = vertices = 0
    for block, (first, last) in enumerate(pairwise(starts.tolist())):
        parts = _read_parts(file, first, last)
        data = file.read_vertex_data(first, last)
        check(data_invariants(data, header.num_vertices), file.path)
        claims = claims_of(parts, RankParts(header, block, starts))
        digest += int(claims.sent.sum()) - int(claims.expected.sum())
        vertices += claims.vertices
    differ = "a part expects other rows than another part sends" if digest % 2**64 else ""
    repeated = "a vertex has several rows, or none" if vertices % 2**64 else ""
    of_all = [
        ("sends and receives mirror each other", differ),
        ("rows/global_id is a permutation", repeated),
    ]
    check(of_all, file.path)
