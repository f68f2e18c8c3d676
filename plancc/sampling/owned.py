"""`OwnedRows`: the rows of one owner, from which a sampler can draw without any other rows."""

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
    """The nonzeros that the rows of one owner keep in one block of a mini-batch.

    Attributes:
        rows (int64[m]): Rows of the owner, ascending.
        ptr (int64[m + 1]), nonzeros (int64[ptr[-1]]): Row ``rows[k]`` keeps the nonzeros with the
            indices ``nonzeros[ptr[k]:ptr[k + 1]]`` in the owner's matrix, ascending.
        factors (float64[ptr[-1]] or None): Number by which the value of every kept nonzero is
            multiplied; None if all are 1.
    """

    rows: Int64s
    ptr: Int64s
    nonzeros: Int64s
    factors: Floats | None


class OwnedRows:
    """The rows of one owner, in the form in which a sampler draws from them.

    Parameters:
        population: The population, which needs no pattern; it is not kept.
        draws_training: Whether only training vertices are drawn as seed vertices.
        row_ptr (int64[num_rows + 1]), column (int32[nonzeros]): The owner's matrix. Its first
            num_rows columns belong to the owner's rows, in order.
        vertices (int32[columns]): Vertex of every column.
        relation (uint16[nonzeros]): Relation of every nonzero, if drawn by relation.

    Attributes:
        num_vertices (int): Number of vertices of the whole graph.
        available (int): Number of vertices of the whole graph that may be drawn.
        arrays (tuple): Arrays for kernels. An *order* (int32[nonzeros]) sorts the nonzeros of each
            row: it lists their positions in the row.

            Without relations: `vertices`, `row_ptr`, `column`, order by vertex (empty if all rows
            are sorted), and position of each row's diagonal in this order, or the row's length.

            With relations: `vertices`, `row_ptr`, order by relation and then by vertex, `relation`.
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
        """Return the owner's row of each drawn vertex, int64[m]; -1 for vertices of other owners.

        `places`, ascending, are indices in the ascending list of all vertices that may be drawn.
        """
        found: Int64s = found_in(self._place, self._row, places)
        return found


@njit(cache=True, nogil=True)
def _diagonals(row_ptr: Any, column: Any, places: Any) -> Any:
    """Return the position of every row's diagonal nonzero, or the row's size if it has none.

    Positions count a row's nonzeros in ascending order of vertices: the nonzero at position k of
    row i is number ``places[row_ptr[i] + k]`` in the row as it is stored. Both begin at 0.
    """
    found = np.empty(len(row_ptr) - 1, dtype=np.int32)
    for i in range(len(found)):
        first, size = row_ptr[i], row_ptr[i + 1] - row_ptr[i]
        found[i] = size
        for k in range(size):
            if column[first + places[first + k]] == i:
                found[i] = k
    return found
