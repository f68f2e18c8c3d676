"""Process grids: how the ranks of a grid plan or a feature plan share the parts.

A part is a block of rows. The grid says which ranks share a part, and what each rank holds of H and
A (Tripathy et al. 2020, Table II; Wan et al. 2025, Section 3.1 for "feature"). There are P ranks;
in "feature" they form groups, and each group shares one part:

    scheme    parts      ranks of a part   a rank holds of H                 a rank holds of A
    1d        P          1                 the part's rows                   the part's rows
    1.5d      P / c      c (copies)        the part's rows (c copies)        some of the columns
    2d        Pr         Pc                some columns of the part's rows   one block
    3d        Pr x Pl    Pc                some columns of the part's rows   one block of one layer
    feature   groups     P / groups        some of the part's rows           all rows of the part

Process row i, process column j and layer k have rank ``(i * layers + k) * columns + j``. So the
ranks of a part, and the parts of a process row, are consecutive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError

SCHEMES = ("1d", "1.5d", "2d", "3d", "feature")
SPARSE_SCHEMES = ("1d", "1.5d")
"""Schemes that can send only the rows that a rank needs."""

Int64Array = npt.NDArray[np.int64]


class Position(NamedTuple):
    """Position of a rank in the grid: process row, process column (in "1.5d": copy) and layer."""

    row: int
    column: int
    layer: int


class Piece(NamedTuple):
    """A range of rows of H that one broadcast sends to ranks of the same grid layer.

    The receiving ranks multiply the same range of columns of A by these rows.

    Attributes:
        first, last: The range is ``first:last`` in plan order.
        row: The process row that holds these rows of H.
        column: The process column that holds these columns of A.
    """

    first: int
    last: int
    row: int
    column: int

    @property
    def size(self) -> int:
        """Number of rows of H that are sent, which equals the number of columns of A."""
        return self.last - self.first


@dataclass(frozen=True)
class Grid:
    """A process grid; InputError is raised if the scheme does not allow its sizes.

    Attributes:
        scheme: One of `SCHEMES`.
        rows: Number of process rows; in "feature", number of groups of ranks that share a part.
        columns: Number of process columns: in "1.5d" the replication factor; in "feature" the
            number of ranks in a group.
        layers: Number of grid layers. Only "3d" allows more than 1.
        sparse: Whether ranks send only needed rows, in messages; only for "1d" and "1.5d".
    """

    scheme: str
    rows: int
    columns: int = 1
    layers: int = 1
    sparse: bool = False

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise InputError(f"grid '{self.scheme}': choose from {', '.join(SCHEMES)}")
        if min(self.rows, self.columns, self.layers) < 1:
            raise InputError(f"grid '{self}': every number must be at least 1")
        if self.scheme == "1d" and self.columns > 1:
            raise InputError(f"grid '{self}': scheme 1d allows only one process column")
        if self.scheme != "3d" and self.layers > 1:
            raise InputError(f"grid '{self}': only scheme 3d allows layers")
        if self.sparse and self.scheme not in SPARSE_SCHEMES:
            raise InputError(f"grid '{self}': only schemes 1d and 1.5d can be sparse")

    def __str__(self) -> str:
        sizes = [self.rows, self.columns, self.layers]
        shape = sizes[: {"1d": 1, "3d": 3}.get(self.scheme, 2)]
        return f"{self.scheme} {'x'.join(map(str, shape))}{' sparse' * self.sparse}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a grid as `str` prints it, such as "2d 4x4" or "1d 8 sparse"."""
        words = text.split(" ")
        try:
            names = ("rows", "columns", "layers")
            sizes = dict(zip(names, map(int, words[1].split("x")), strict=False))
            found = cls(words[0], sparse="sparse" in words[2:], **sizes)
        except (IndexError, TypeError, ValueError):
            found = None
        if found is None or str(found) != text:
            raise InputError(f"grid '{text}': is not a grid; write a grid like '2d 4x4'")
        return found

    @property
    def layout(self) -> str:
        """Layout of the plans that have this grid: "grid" or "feature"."""
        return "feature" if self.scheme == "feature" else "grid"

    @property
    def num_ranks(self) -> int:
        return self.rows * self.columns * self.layers

    @property
    def num_parts(self) -> int:
        """Number of parts, which are blocks of rows."""
        return self.rows * self.layers

    @property
    def exchanges_rows(self) -> bool:
        """Whether the ranks send exactly the messages of the row plan."""
        return self.scheme == "1d" and self.sparse

    @property
    def splits_columns(self) -> bool:
        """Whether each rank holds only some columns of H between products."""
        return self.scheme in ("2d", "3d") and self.columns > 1

    @property
    def copies(self) -> int:
        """Number of ranks that compute the loss of each row."""
        return 1 if self.scheme == "feature" else self.columns

    def rank(self, row: int, column: int = 0, layer: int = 0) -> int:
        return (row * self.layers + layer) * self.columns + column

    def position(self, rank: int) -> Position:
        part, column = divmod(rank, self.columns)
        row, layer = divmod(part, self.layers)
        return Position(row, column, layer)

    def part(self, rank: int) -> int:
        """Return the index of the part (a block of rows) that a rank holds or shares."""
        return rank // self.columns

    def ranks_of_row(self, rank: int) -> list[int]:
        """Return the ranks in the process row and layer of `rank`, by column; they share a part."""
        first = self.part(rank) * self.columns
        return list(range(first, first + self.columns))

    def ranks_of_column(self, rank: int) -> list[int]:
        """Return the ranks in the process column and grid layer of `rank`, from top to bottom."""
        _, column, layer = self.position(rank)
        return [self.rank(row, column, layer) for row in range(self.rows)]

    def ranks_of_fiber(self, rank: int) -> list[int]:
        """Return the ranks at the same process row and column as `rank`, one per grid layer."""
        row, column, _ = self.position(rank)
        return [self.rank(row, column, layer) for layer in range(self.layers)]

    def chunk(self, part: int) -> int:
        """Return the process column that needs the rows of H of this part, in a "1.5d" grid.

        As in Tripathy et al. 2020, Equation 3. If the number of parts is no multiple of the number
        of columns, the extra parts are spread over all columns; in the paper, the last column gets
        all extra parts.
        """
        return part * self.columns // self.rows

    def slice_of_columns(self, width: int, column: int) -> tuple[int, int]:
        """Return the range ``first:last`` of columns that a process column holds.

        The matrix has `width` columns in all.
        """
        return width * column // self.columns, width * (column + 1) // self.columns

    def check_width(self, width: int) -> None:
        """Raise InputError if the grid splits `width` columns over more than `width` ranks."""
        if self.splits_columns and width < self.columns:
            raise InputError(
                f"grid '{self}' splits columns over {self.columns} ranks, but a layer is "
                f"{width} wide; use at most {width} process column{'s' * (width != 1)}, or wider "
                "layers"
            )

    def share_of_rows(self, first: int, last: int, column: int) -> tuple[int, int]:
        """Return the range of rows that one rank of a part updates, in scheme "feature".

        `column` is the rank's process column, and ``first:last`` the rows of the part, in plan
        order.
        """
        start, stop = self.slice_of_columns(last - first, column)
        return first + start, first + stop

    def rows_of_rank(self, part_ptr: Int64Array, rank: int) -> tuple[int, int]:
        """Return the range ``first:last`` of rows that a rank holds between products.

        The range is in plan order.
        """
        part = self.part(rank)
        first, last = int(part_ptr[part]), int(part_ptr[part + 1])
        if self.scheme != "feature":
            return first, last
        return self.share_of_rows(first, last, self.position(rank).column)

    def parts_of_block(self, rank: int) -> tuple[int, int]:
        """Return the range ``first:last`` of the parts that a rank reads in its process row."""
        first = self.part(rank) // self.layers * self.layers
        return first, first + self.layers

    def pieces(self, part_ptr: Int64Array, layer: int = 0) -> list[Piece]:
        """Return the pieces that the ranks of one `layer` of a 3-D grid broadcast in turn.

        Other grids have only layer 0. A square grid has a piece for each process row; other grids
        have lcm(rows, columns) pieces. In "1.5d" every part is a piece, and `Piece.column` is the
        process column that needs the part's rows. (Algorithms 1 and 3 of Tripathy et al. 2020.)
        """
        parts = list(pairwise(part_ptr.tolist()))
        if self.scheme == "1.5d":
            return [Piece(*parts[part], part, self.chunk(part)) for part in range(self.num_parts)]
        count = math.lcm(self.rows, self.columns)
        per_row, per_column = count // self.rows, count // self.columns
        pieces = []
        for number in range(count):
            row, place = divmod(number, per_row)
            start, stop = parts[row * self.layers + layer]
            first, last = ((stop - start) * k // per_row for k in (place, place + 1))
            pieces.append(Piece(start + first, start + last, row, number // per_column))
        return pieces
