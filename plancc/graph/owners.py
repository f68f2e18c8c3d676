"""Owners: the part of every row of a matrix and, in an edge partition, of every nonzero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph, first_true

Owner = npt.NDArray[np.int32]
"""Part of every row, int32[n]."""


@dataclass(frozen=True, eq=False)
class Owners:
    """The owner of every row and of every nonzero of a matrix. Parts may be empty.

    Row i of the features H and row i of the product have the same owner. A part that owns nonzero
    (i, j) needs row j of H and has a partial sum of row i of the product.

    Attributes:
        rows (int32[n]): Part of every row.
        nonzeros (int32[nnz] or None): Part of every nonzero, in CSR order; a diagonal nonzero
            belongs to its row's owner. None: every nonzero belongs to its row's owner.
    """

    rows: npt.NDArray[np.int32]
    nonzeros: npt.NDArray[np.int32] | None = None

    def __eq__(self, other: object) -> bool:
        """Whether all owners are equal; an edge partition never equals a row partition."""
        if not isinstance(other, Owners):
            return NotImplemented
        if self.nonzeros is None or other.nonzeros is None:
            nonzeros_equal = self.nonzeros is other.nonzeros
        else:
            nonzeros_equal = np.array_equal(self.nonzeros, other.nonzeros)
        return nonzeros_equal and np.array_equal(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash

    @property
    def is_edge_partition(self) -> bool:
        """Whether nonzeros have separate owners (`nonzeros`). If so, the plan has a fold."""
        return self.nonzeros is not None

    @property
    def sharers(self) -> npt.NDArray[np.int32]:
        """Owner of every nonzero if nonzeros have owners of their own, else owner of every row."""
        return self.rows if self.nonzeros is None else self.nonzeros

    def of_nonzeros(self, matrix: Graph) -> npt.NDArray[np.int32]:
        """Return the part of every nonzero of `matrix` in CSR order, int32[nnz]."""
        if self.nonzeros is None:
            return np.repeat(self.rows, matrix.row_nonzeros())
        return self.nonzeros

    def row_load(self, num_parts: int) -> npt.NDArray[np.int64]:
        """Return the number of rows of every part, int64[num_parts]."""
        return np.bincount(self.rows, minlength=num_parts)

    def nonzero_load(self, matrix: Graph, num_parts: int) -> npt.NDArray[np.int64]:
        """Return the number of nonzeros of every part, int64[num_parts]."""
        if self.nonzeros is not None:
            return np.bincount(self.nonzeros, minlength=num_parts)
        load = np.bincount(self.rows, weights=matrix.row_nonzeros(), minlength=num_parts)
        return load.astype(np.int64)

    def renumbered(self, part: npt.NDArray[np.int32]) -> Owners:
        """Return the owners after part m is renamed to ``part[m]``; `part` is int32[num_parts]."""
        nonzeros = None if self.nonzeros is None else part[self.nonzeros]
        return Owners(part[self.rows], nonzeros)

    def check(self, matrix: Graph, num_parts: int) -> None:
        """Raise InputError unless these owners fit the rows and the nonzeros of the matrix."""
        check_owners(self.rows, matrix.num_vertices, num_parts, "rows")
        if self.nonzeros is None:
            return
        check_owners(self.nonzeros, matrix.num_nonzeros, num_parts, "nonzeros")
        row = np.repeat(np.arange(matrix.num_vertices, dtype=np.int32), matrix.row_nonzeros())
        if (
            k := first_true((matrix.indices == row) & (self.nonzeros != self.rows[row]))
        ) is not None:
            raise InputError(f"nonzero ({row[k]}, {row[k]}) does not belong to its row's owner")


def check_owners(
    owner: npt.NDArray[np.int32], num_owned: int, num_parts: int, what: str = "vertices"
) -> None:
    """Raise InputError unless `owner` has `num_owned` entries, all in 0..num_parts-1.

    `what` says what the parts own, for messages.
    """
    if len(owner) != num_owned:
        raise InputError(f"there are {len(owner)} owners for {num_owned} {what}")
    if num_owned > 0 and not (int(owner.min()) >= 0 and int(owner.max()) < num_parts):
        raise InputError(
            f"owners {owner.min()}..{owner.max()} of {what}: must be in 0..{num_parts - 1}"
        )
