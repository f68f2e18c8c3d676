"""The matrix that a plan distributes, read back from its parts. Knows no file and no lowering."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from plancc.graph.graph import Graph
from plancc.plan.plan import Int64Array, Plan


def matrix_of(plan: Plan) -> sp.csr_array:
    """The whole matrix in the vertices' own numbering, from the parts and their receive sets.

    Shape (n, n), columns ascending; duplicate entries, if a damaged plan has any, are added up.
    """
    rows = np.repeat(plan.global_id, np.diff(plan.row_ptr))
    columns = plan.global_id[place_of_columns(plan)]
    n = plan.num_vertices
    coordinates = (rows, columns)
    return sp.coo_array((plan.value, coordinates), shape=(n, n)).tocsr(copy=False)


def graph_of(plan: Plan) -> Graph:
    """The same matrix as a Graph, for the metrics of owner vectors."""
    matrix = matrix_of(plan)
    return Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def halo_ptr(plan: Plan) -> Int64Array:
    """Where every part's receive set starts among all: int64[num_parts + 1]."""
    return plan.receive.row_ptr[plan.receive.ptr]


def part_of_nonzero(plan: Plan) -> Int64Array:
    """The part that holds each nonzero, int64[num_nonzeros]."""
    return np.repeat(np.arange(plan.num_parts), np.diff(plan.row_ptr[plan.part_ptr]))


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
