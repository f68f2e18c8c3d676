"""Recover the matrix or the graph of a plan from its parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.plan.exchange import Int32Array
from plancc.plan.links import places_of
from plancc.plan.plan import Plan
from plancc.plan.values import LINKS


def matrix_of(plan: Plan) -> sp.csr_array:
    """Return the whole matrix [n, n], numbered by vertex; values of repeated nonzeros are added."""
    return _csr(plan, plan.value)


def graph_of(plan: Plan) -> Graph:
    """Return the whole matrix as a Graph; values of repeated nonzeros are added."""
    matrix = matrix_of(plan)
    rows, columns = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return Graph(rows, columns, matrix.data, types=plan.header.types)


def typed_graph_of(plan: Plan) -> Graph:
    """Return the normalised graph of the plan, in which repeated nonzeros stay separate."""
    if not plan.columns:
        return graph_of(plan)
    rows, columns = ends_of(plan)
    keys = (columns, rows) if plan.relation is None else (plan.relation, columns, rows)
    order = np.lexsort(keys)
    indptr = np.searchsorted(rows[order], np.arange(plan.num_vertices + 1)).astype(np.int64)
    arrays: Any = (indptr, columns[order], plan.value[order])
    return replace(Graph(*arrays), types=plan.header.types, columns=plan.columns_at(order))


def source_graph_of(plan: Plan) -> Graph:
    """Recover the graph before normalisation, without edge features, with the ids of its source.

    Loops that do not change the matrix are lost. Raises InputError if edges have weights, or if
    normalisation dropped edges (i, j) because row j is empty.
    """
    header, matrix = plan.header, typed_graph_of(plan).without_read_columns()
    values = matrix.values
    assert values is not None
    scaled, loops = header.normalization != "none", header.self_loops
    row = matrix.nonzero_rows()
    diagonal = row == matrix.indices

    def graph(own: npt.NDArray[np.floating]) -> Graph:
        """Return the graph with the values `own` on the diagonal, without entries of value 0."""
        given = values.astype(np.float64)
        given[diagonal] = own
        kept = ~diagonal | (given != 0)
        plain = scaled or bool((given[kept] == 1).all())
        return replace(
            matrix,
            indptr=np.concatenate([[0], np.cumsum(kept)])[matrix.indptr],
            indices=matrix.indices[kept],
            values=None if plain else given[kept],
            columns=matrix.columns_at(kept),
            directed=header.directed,
            original_ids=plan.original_id,
        )

    own = values[diagonal].astype(np.float64)
    # with k nonzeros in a row, the diagonal is 2 / (k + 1) if the graph has a loop, else 1 / k
    if loops and scaled:
        nonzeros = matrix.row_nonzeros()[row[diagonal]]
        own = ((own * (nonzeros + 1) > 1.75) & (nonzeros > 1)).astype(np.float64)
    elif loops:
        own -= 1
    for _ in range(2):
        found = graph(own)
        again = normalize(found, header.normalization, self_loops=loops, dtype=values.dtype)
        assert again.values is not None
        if len(again.values) != len(values):
            break
        if np.array_equal(again.values, values):
            return found
        low = matrix.indices[again.values > 1.2 * values]  # loops in rows without other edges
        own[np.isin(matrix.indices[diagonal], low)] = 1
    raise InputError(
        "the plan's normalised matrix does not determine the edges (they have weights, or start "
        "at vertices with empty rows); give the whole graph (`graph`)"
    )


def relations_of(plan: Plan) -> npt.NDArray[np.integer]:
    """Return the relation of every nonzero, int[nnz], in the order of the plan; -1 for none."""
    if plan.relation is not None:
        return plan.relation
    assert plan.header.types is not None
    return plan.header.types.relation_of(*ends_of(plan))


def owners_of(plan: Plan) -> Owners:
    """Return the owners of rows and, in an edge plan, of nonzeros in the order of `graph_of`."""
    if plan.fold is None:
        return Owners(plan.owner())
    parts = plan.all_parts.with_distinct_columns()
    distinct = replace(plan, row_ptr=parts.row_ptr, column=parts.column, columns={})
    part = distinct.all_parts.part_of_nonzero().astype(np.int32)
    return Owners(plan.owner(), _csr(distinct, part).data)


def _csr(plan: Plan, of_nonzero: npt.NDArray[Any]) -> sp.csr_array:
    n = plan.num_vertices
    return sp.coo_array((of_nonzero, ends_of(plan)), shape=(n, n)).tocsr(copy=False)


def ends_of(plan: Plan) -> tuple[Int32Array, Int32Array]:
    """Return row and column vertex of every nonzero in the plan's order, int32[nnz] each."""
    parts = plan.all_parts
    rows = plan.global_id[np.repeat(parts.place_of_rows(), np.diff(plan.row_ptr))]
    return rows, plan.global_id[parts.place_of_columns()]


def ends_of_links(plan: Plan) -> Int32Array:
    """Return the source and the target vertex of every link, int32[2, links].

    The plan must have links.
    """
    assert plan.links is not None
    received = plan.exchanges[LINKS].receive
    return plan.global_id[np.stack(places_of(plan.links, plan.part_ptr, 0, received))]
