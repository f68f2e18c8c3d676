"""The rows of one owner, from which a sampler draws batches without the pattern of other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.kernel import njit
from plancc.sampling.batch import Floats, Int32s, Population
from plancc.sampling.kernels import found_in, order_by_vertex

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OwnedBlock:
    """The nonzeros that rows of an owner keep in one block.

    Attributes:
        rows (int64[m]): Rows of the owner, ascending.
        ptr, nonzeros (int64[m + 1], int64[ptr[-1]]): Row k keeps the ascending nonzeros
            ``nonzeros[ptr[k]:ptr[k + 1]]`` of the owner's matrix.
        factors (float64[ptr[-1]] or None): Factors of the nonzeros; None if all are 1.
    """

    rows: Int64s
    ptr: Int64s
    nonzeros: Int64s
    factors: Floats | None


class OwnedRows:
    """The rows of one owner, from which a sampler draws instead of from a `Population`.

    Besides the matrix, the object holds 4 bytes for every row, 8 bytes for every own vertex that
    may be drawn, and 4 bytes for every nonzero unless all rows ascend by vertex. If nonzeros are
    drawn by relation, the object holds 6 bytes for every nonzero.

    Parameters:
        population: The population, without its pattern; read only here.
        draws_training: Whether only training vertices are drawn.
        row_ptr, column (int64[num_rows + 1], int32[nonzeros]): The matrix of the owner; column i <
            num_rows is the diagonal of row i.
        vertices (int32[columns]): Vertex of every column, own rows first.
        relation (uint16[nonzeros]): Relation of every nonzero, if nonzeros are drawn by relation.

    Attributes:
        num_vertices, available (int): Number of vertices of the whole graph, and number of vertices
            that may be drawn.
        arrays ((int32[columns], int64[num_rows + 1], int32[nonzeros], int32[...],
            int32[num_rows])): Arrays for kernels: `vertices`, `row_ptr`, `column`; each row's
            places of nonzeros by ascending vertex, empty if all rows are in this order; the place
            of every row's diagonal in this order, the number of nonzeros if it is missing. With
            relations: `vertices`, `row_ptr`; each row's places by relation, then vertex;
            `relation`.
    """

    def __init__(
        self,
        population: Population,
        draws_training: bool,
        row_ptr: Int64s,
        column: Int32s,
        vertices: Int32s,
        relation: npt.NDArray[np.uint16] | None = None,
    ) -> None:
        own = vertices[: len(row_ptr) - 1]
        self.num_vertices = self.available = population.num_vertices
        place, row = own, np.arange(len(own), dtype=np.int32)
        if draws_training:
            training = population.training
            self.available = len(training)
            assert population.train_mask is not None
            row = np.flatnonzero(population.train_mask[own]).astype(np.int32)
            place = np.searchsorted(training, own[row]).astype(np.int32)
        order = np.argsort(place)
        self._place, self._row = place[order], row[order]
        self.arrays: tuple[Any, ...]
        if relation is not None:
            key = relation.astype(np.int64) * self.num_vertices + vertices[column]
            places, _ = order_by_vertex(row_ptr, np.arange(len(key)), key)
            self.arrays = vertices, row_ptr, places, relation
            return
        places, in_order = order_by_vertex(row_ptr, column, vertices)
        diagonal = _diagonals(row_ptr, column, places)
        if in_order:
            places = places[:0].copy()
        self.arrays = vertices, row_ptr, column, places, diagonal

    def chosen(self, places: Int32s) -> Int64s:
        """Return the owner's row of each vertex, int64[m]; -1 for a vertex of another owner.

        `places`: int32[m], ascending places among all vertices that may be drawn, by vertex.
        """
        found: Int64s = found_in(self._place, self._row, places)
        return found


@njit(cache=True, nogil=True)
def _diagonals(row_ptr: Any, column: Any, places: Any) -> Any:
    """Return each row's place of the diagonal in the order `places`, or its number of nonzeros."""
    found = np.empty(len(row_ptr) - 1, dtype=np.int32)
    for i in range(len(found)):
        first, size = row_ptr[i], row_ptr[i + 1] - row_ptr[i]
        found[i] = size
        for k in range(size):
            if column[first + places[first + k]] == i:
                found[i] = k
    return found
