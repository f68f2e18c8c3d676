"""The share of a plan that a rank of a process grid reads.

The plan file holds a row plan. In scheme "feature" and in sparse grids, a rank reads its part of
this row plan, with messages. In all other grids, which broadcast, it reads the nonzeros whose row
belongs to its process row, and whose column belongs to its process column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Int64Array
from plancc.plan.grid import Grid, Piece
from plancc.plan.parts import GridShare, Part, PartRange
from plancc.plan.plan import Plan
from plancc.plan.rank_parts import RankParts


def with_grid(plan: Plan, grid: Grid) -> Plan:
    """Return the plan of a process grid: the row plan `plan` with another header."""
    if plan.header.layout != "row" or plan.num_parts != grid.num_parts:
        raise InputError(
            f"grid '{grid}' needs a row plan of {grid.num_parts} parts, but this plan has "
            f"{plan.num_parts} parts and layout '{plan.header.layout}'"
        )
    return replace(plan, header=replace(plan.header, layout=grid.layout, grid=grid))


def keeps_part(grid: Grid) -> bool:
    """Return whether each rank reads exactly one part of the row plan, with its messages."""
    return grid.sparse or grid.scheme == "feature"


def share_of_rank(
    held: RankParts, block: PartRange, part: Part | None, vertex_data: VertexData
) -> Part:
    """Return the Part, with a `GridShare`, that one rank of a grid plan reads.

    The `index` of this Part is the rank, and its `num_parts` the number of ranks.

    Parameters:
        block: The parts that ``held.parts_to_read`` names, without vertex data.
        part: The rank's part of the row plan; None if ``keeps_part(grid)`` is false.
        vertex_data: Vertex data of the rows ``held.rows(block.part_ptr)``.
    """
    grid, rank = held.header.grid, held.rank
    assert grid is not None
    first, last = held.rows(block.part_ptr)
    own = np.arange(first, last) - block.first_row
    row_ptr, column, value = np.zeros(1, np.int64), block.column[:0], block.value[:0]
    if part is None:
        columns = block.place_of_columns()
        kept = _is_held(columns, grid, rank, block.part_ptr)
        counts = np.add.reduceat(np.append(kept, 0), np.minimum(block.row_ptr[:-1], len(kept)))
        counts = np.where(np.diff(block.row_ptr) > 0, counts, 0)
        row_ptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        column, value = columns[kept].astype(np.int32), block.value[kept]
    share = GridShare(grid, rank, block.part_ptr, row_ptr, column, value, part)
    ids = block.global_id[own]
    return Part.of_rows(rank, held.num_ranks, first, ids, vertex_data, share, value.dtype)


def _is_held(
    place: Int64Array, grid: Grid, rank: int, part_ptr: Int64Array
) -> npt.NDArray[np.bool_]:
    """Return whether the rank has each of the columns `place` of A, numbered in plan order."""
    if grid.columns == grid.layers == 1:
        return np.ones(len(place), np.bool_)
    _, column, layer = grid.position(rank)
    pieces = [p for p in grid.pieces(part_ptr, layer) if p.column == column]
    return column_in_pieces(place, pieces) >= 0


def column_in_pieces(place: npt.NDArray[np.integer], pieces: Sequence[Piece]) -> Int64Array:
    """Return the index of each place in the concatenated ranges `pieces`; -1 outside all pieces."""
    nowhere = (0, 0)  # an empty piece, for places before the first piece
    first, last = np.array([nowhere, *((p.first, p.last) for p in pieces)], np.int64).T
    start = np.cumsum(last - first) - (last - first)
    at = np.searchsorted(first, place, side="right") - 1  # the last piece that begins by there
    return np.where(place < last[at], place - first[at] + start[at], -1)
