"""The matrix that a plan distributes, read back from its parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.plan.exchange import Int32Array
from plancc.plan.parts import taken
from plancc.plan.plan import Plan


def matrix_of(plan: Plan) -> sp.csr_array:
    """The whole matrix in the vertices' own numbering, from the parts and their receive sets.

    Shape (n, n), columns ascending; duplicate entries, as parallel relations have them, are added.
    """
    return _in_csr_order(plan, plan.value)


def graph_of(plan: Plan) -> Graph:
    """The same matrix as a Graph, for the metrics of owner vectors: the sum of relations."""
    matrix = matrix_of(plan)
    rows, columns = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return Graph(rows, columns, matrix.data, types=plan.header.types)


def typed_graph_of(plan: Plan) -> Graph:
    """The graph whose plan it is: with parallel relations and features of edges."""
    relation, features = plan.relation, plan.edge_features
    if relation is None and features is None:
        return graph_of(plan)
    rows, columns = ends_of(plan)
    order = np.lexsort((columns, rows) if relation is None else (relation, columns, rows))
    indptr = np.searchsorted(rows[order], np.arange(plan.num_vertices + 1)).astype(np.int64)
    matrix = Graph(indptr, columns[order], plan.value[order], types=plan.header.types)
    return replace(matrix, relation=taken(relation, order), edge_features=taken(features, order))


def relations_of(plan: Plan) -> npt.NDArray[np.integer]:
    """Relation of every nonzero in the order of the plan, int[nnz]; -1 where it is of none."""
    if plan.relation is not None:
        return plan.relation
    assert plan.header.types is not None
    return plan.header.types.relation_of(*ends_of(plan))


def owners_of(plan: Plan) -> Owners:
    """Owners of the rows and, in an edge plan, of the nonzeros of `graph_of`."""
    if plan.fold is None:
        return Owners(plan.owner())
    distinct = replace(plan, **_distinct(plan))
    part = distinct.all_parts.part_of_nonzero().astype(np.int32)
    return Owners(plan.owner(), _in_csr_order(distinct, part).data)


def _distinct(plan: Plan) -> dict[str, Any]:
    """The fields of a plan with distinct columns in a row."""
    parts = plan.all_parts.with_distinct_columns()
    return {
        "row_ptr": parts.row_ptr,
        "column": parts.column,
        "relation": None,
        "edge_features": None,
    }


def _in_csr_order(plan: Plan, of_nonzero: npt.NDArray[Any]) -> sp.csr_array:
    n = plan.num_vertices
    return sp.coo_array((of_nonzero, ends_of(plan)), shape=(n, n)).tocsr(copy=False)


def ends_of(plan: Plan) -> tuple[Int32Array, Int32Array]:
    """Vertex of row and of column of every nonzero, int32[nnz] each, in the order of the plan."""
    parts = plan.all_parts
    rows = plan.global_id[np.repeat(parts.place_of_rows(), np.diff(plan.row_ptr))]
    return rows, plan.global_id[parts.place_of_columns()]
