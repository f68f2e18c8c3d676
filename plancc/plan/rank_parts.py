"""`RankParts`: the parts that a rank has, and their rows.

If several ranks have the same part, only one of them, its `RankParts.speaker`, reports the part
when the plan is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array
from plancc.plan.values import Header


@dataclass(frozen=True, eq=False)
class RankParts:
    """Which parts of a plan a rank has; ranks of a grid may share a part.

    Attributes:
        ranks (int64[num_ranks + 1]): First part of every rank, then the number of parts.
    """

    header: Header
    rank: int
    ranks: Int64Array

    @property
    def num_ranks(self) -> int:
        return len(self.ranks) - 1

    @cached_property
    def _ends(self) -> Int64Array:
        """For every rank, the index of its last part, plus 1: int64[num_ranks]."""
        return np.maximum(self.ranks[:-1] + 1, self.ranks[1:])

    @property
    def parts(self) -> tuple[int, int]:
        """The range ``first:last`` of the parts that contain the rank's rows."""
        return int(self.ranks[self.rank]), int(self._ends[self.rank])

    @property
    def parts_to_read(self) -> tuple[int, int]:
        """The range of parts that the rank reads; on a "3d" grid, these are more than `parts`."""
        grid = self.header.grid
        return self.parts if grid is None else grid.parts_of_block(self.rank)

    @property
    def speaker(self) -> Int64Array:
        """For each part, the lowest rank that has the part: int64[num_parts].

        Only the `Claims` of that rank include the part (`part_invariants.claims_of`).
        """
        return np.searchsorted(self._ends, np.arange(self.header.num_parts), side="right")

    def rows(self, part_ptr: Int64Array) -> tuple[int, int]:
        """Return the range ``first:last`` of the rank's rows in plan order."""
        if self.header.grid is not None:
            return self.header.grid.rows_of_rank(part_ptr, self.rank)
        first, last = part_ptr[list(self.parts)].tolist()
        return first, last


def block_of_parts(num_parts: int, num_ranks: int) -> Int64Array:
    """Return the first part of every rank, then the number of parts: int64[num_ranks + 1]."""
    return np.arange(num_ranks + 1, dtype=np.int64) * num_parts // num_ranks


def parts_of_rank(path: str, header: Header, rank: int, num_ranks: int) -> RankParts:
    """Return a rank's parts; raise InputError if the plan at `path` cannot run on `num_ranks`."""
    if not 0 <= rank < num_ranks:
        raise InputError(f"rank {rank} of {num_ranks} is out of range; the first rank is 0")
    check_num_ranks(path, header, num_ranks)
    return RankParts(header, rank, block_of_parts(header.num_parts, num_ranks))


def check_num_ranks(path: str, header: Header, num_ranks: int) -> None:
    """Raise InputError for more ranks than parts, or for a number that does not fit the grid."""
    grid, num_parts = header.grid, header.num_parts
    if grid is not None and num_ranks != grid.num_ranks:
        raise InputError(
            f"{path}: cannot start {num_ranks} ranks for a plan of grid '{grid}', which runs on "
            f"exactly {grid.num_ranks} ranks"
        )
    if grid is None and num_ranks > num_parts:
        raise InputError(
            f"{path}: cannot start {num_ranks} ranks for a plan of {num_parts} parts; start at "
            f"most {num_parts} ranks, or compile the plan for more parts"
        )
