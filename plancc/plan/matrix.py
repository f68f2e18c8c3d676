"""The matrix that a plan distributes, read back from its parts. Knows no file and no lowering."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.graph.graph import Graph
from plancc.plan.plan import Int32Array, Int64Array, Plan


def matrix_of(plan: Plan) -> sp.csr_array:
    """The whole matrix in the vertices' own numbering, from the parts and their receive sets.

    Shape (n, n), columns ascending; duplicate entries, if a damaged plan has any, are added up.
    """
    return _in_csr_order(plan, plan.value)


def graph_of(plan: Plan) -> Graph:
    """The same matrix as a Graph, for the metrics of owner vectors."""
    matrix = matrix_of(plan)
    return Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def nonzero_owner_of(plan: Plan) -> Int32Array:
    """The part that holds each nonzero of `graph_of`, in its order: int32[num_nonzeros]."""
    return _in_csr_order(plan, part_of_nonzero(plan).astype(np.int32)).data


def _in_csr_order(plan: Plan, of_nonzero: npt.NDArray[Any]) -> sp.csr_array:
    rows = plan.global_id[np.repeat(place_of_rows(plan), np.diff(plan.row_ptr))]
    columns = plan.global_id[place_of_columns(plan)]
    n = plan.num_vertices
    return sp.coo_array((of_nonzero, (rows, columns)), shape=(n, n)).tocsr(copy=False)


def halo_ptr(plan: Plan) -> Int64Array:
    """Where every part's receive set starts among all: int64[num_parts + 1]."""
    return plan.receive.row_ptr[plan.receive.ptr]


def part_of_nonzero(plan: Plan) -> Int64Array:
    """The part that holds each nonzero, int64[num_nonzeros]."""
    return np.repeat(np.arange(plan.num_parts), np.diff(plan.row_ptr[plan.local_ptr]))


def is_own_row(plan: Plan) -> npt.NDArray[np.bool_]:
    """Which local rows their part owns, bool[num_local_rows]; the others are folded."""
    held, rows = np.diff(plan.local_ptr), np.diff(plan.part_ptr)
    local = np.arange(plan.local_ptr[-1]) - np.repeat(plan.local_ptr[:-1], held)
    return local < np.repeat(rows, held)


def place_of_rows(plan: Plan) -> Int64Array:
    """Plan order of every local row, int64[num_local_rows]."""
    own_place = np.arange(plan.num_vertices)
    if plan.fold is None:
        return own_place
    own, fold = is_own_row(plan), plan.fold.send
    place = np.empty(len(own), dtype=np.int64)
    place[own] = own_place
    place[~own] = plan.part_ptr[np.repeat(fold.peer, np.diff(fold.row_ptr))] + fold.row
    return place


def place_of_columns(plan: Plan) -> Int64Array:
    """Plan order of every nonzero's column, int64[num_nonzeros]."""
    part = part_of_nonzero(plan)
    rows = np.diff(plan.part_ptr)[part]
    own = plan.column < rows
    halo = plan.part_ptr[np.repeat(plan.receive.peer, np.diff(plan.receive.row_ptr))]
    halo = halo + plan.receive.row
    place = plan.part_ptr[part] + plan.column
    place[~own] = halo[halo_ptr(plan)[part[~own]] + plan.column[~own] - rows[~own]]
    return place
