"""Functions that compute tables (sizes of parts and messages) from owners, without a plan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.cost.pairs import pair_volumes
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.grid import Grid
from plancc.plan.receive_sets import grouped
from plancc.predict.schedule import Pairs
from plancc.predict.schedules.tables import (
    Live,
    Tables,
    divides_columns,
    piece_of_rows,
    pieces_of_grid,
    sends_rows,
)


def tables_of_owners(
    matrix: Graph, owners: Owners, num_parts: int, grid: Grid | None = None, name: str = "owners"
) -> Tables:
    """Return the tables of the plan that these owners would give; the plan is not built.

    In a grid that is not square, `Tables.blocks` is approximate: a plan puts interior rows first,
    but here rows of a block are in vertex order.
    """
    expand, fold, own_nonzeros = sp.csr_array((num_parts, num_parts), dtype=np.int64), None, None
    if owners.nonzeros is not None:
        row = matrix.nonzero_rows()
        expand = _copies(matrix.indices, owners, num_parts)
        fold = pairs_of(_copies(row, owners, num_parts).T.tocsr())
        own = owners.nonzeros == owners.rows[row]
        own_nonzeros = np.bincount(owners.nonzeros[own], minlength=num_parts)
    elif sends_rows(grid):
        expand = pair_volumes(matrix, owners.rows, num_parts)
    layout = "row" if fold is None else "edge"
    counted = None
    if grid is not None and divides_columns(grid):
        counted = _column_blocks(matrix, owners.rows, grid)
    return Tables(
        name=name,
        layout=layout if grid is None else grid.layout,
        rows=owners.row_load(num_parts),
        nonzeros=owners.nonzero_load(matrix, num_parts),
        expand=pairs_of(expand),
        fold=fold,
        grid=grid,
        own_nonzeros=own_nonzeros,
        blocks=counted,
    )


def live_tables(
    matrix: Graph,
    owner: Int32Array,
    num_parts: int,
    num_layers: int,
    wanted: npt.NDArray[np.bool_] | None,
    needed: Callable[[Int32Array, Int32Array], Pairs] | None = None,
) -> Live:
    """Return the tables of every layer without dead rows, for a row plan with these owners.

    A row is dead in a layer if no output in the loss needs it.

    Parameters:
        owner (int32[n]): Owner of every row.
        wanted (bool[n] or None): Vertices whose outputs are in the loss; None: all.
        needed: Function that returns the messages if part ``part[k]`` needs the row of vertex
            ``vertex[k]``; its arguments are `part` and `vertex`. None: owners send rows directly.
    """
    (_, inputs), *layers = _live_matrices(matrix, num_layers + 1, wanted)
    found: dict[int, Tables] = {}  # layers that use the same rows
    for used, live in layers:
        if id(used) not in found:
            found[id(used)] = layer_tables(used, live, owner, num_parts, needed)
    rows = np.bincount(owner[inputs], minlength=num_parts)
    return Live(rows, tuple(found[id(used)] for used, _ in layers))


def layer_tables(
    used: Graph,
    live: npt.NDArray[np.bool_],
    owner: Int32Array,
    num_parts: int,
    needed: Callable[[Int32Array, Int32Array], Pairs] | None = None,
) -> Tables:
    """Return `Tables` of one layer, which uses the nonzeros `used` and computes the rows `live`.

    If the function `needed` is given, ``needed(part, vertex)`` returns the messages that bring the
    halo row of ``vertex[k]`` to part ``part[k]``, for every k.
    """
    part = np.repeat(owner, used.row_nonzeros())
    halo = owner[used.indices] != part
    if needed is None:
        expand = pairs_of(pair_volumes(used, owner, num_parts))
    else:
        expand = needed(part[halo], used.indices[halo])
    return Tables(
        name="live",
        layout="row",
        rows=np.bincount(owner[live], minlength=num_parts),
        nonzeros=np.bincount(part, minlength=num_parts),
        expand=expand,
        halo_nonzeros=np.bincount(part[halo], minlength=num_parts),
    )


def _live_matrices(
    matrix: Graph, num_layers: int, wanted: npt.NDArray[np.bool_] | None
) -> list[tuple[Graph, npt.NDArray[np.bool_]]]:
    """Return for every layer, first to last, a matrix of the nonzeros it uses, and its live rows.

    A row is live if a wanted output depends on it; if `wanted` is None, all outputs are wanted.
    Layers with the same live rows share a matrix.
    """
    live = np.ones(len(matrix.indptr) - 1, dtype=np.bool_) if wanted is None else wanted
    layers: list[tuple[Graph, npt.NDArray[np.bool_]]] = []
    for _ in range(num_layers):
        if layers and layers[0][1].sum() == live.sum():
            layers.insert(0, layers[0])  # all neighbours of live rows are live: nothing changes
            continue
        used = matrix
        if not live.all():
            nonzeros = matrix.row_nonzeros() * live
            indptr = np.concatenate([[0], np.cumsum(nonzeros)])
            used = Graph(indptr, matrix.indices[np.repeat(live, matrix.row_nonzeros())])
        layers.insert(0, (used, live))
        live = live.copy()
        live[used.indices] = True
    return layers


def pairs_of(volumes: sp.csr_array) -> Pairs:
    """Return the messages of a matrix whose entry (k, m) is the number of rows from part k to m."""
    entries = volumes.tocoo()
    source, target = (each.astype(np.int32) for each in entries.coords)
    return Pairs(volumes.shape[0], source, target, entries.data.astype(np.int64))


def matrix_of_pairs(pairs: Pairs) -> sp.csr_array:
    """Return the rows that each part sends to each other part: int64[p, p]."""
    entries = pairs.rows, (pairs.source, pairs.target)
    return sp.coo_array(entries, shape=(pairs.num_ranks, pairs.num_ranks)).tocsr()


def _copies(vertex: npt.NDArray[np.integer], owners: Owners, num_parts: int) -> sp.csr_array:
    """Return how many vertices of part k are in nonzeros of another part m.

    The result has this number at [k, m]: int64[num_parts, num_parts]. `vertex` has one end of every
    nonzero, either its row or its column.
    """
    assert owners.nonzeros is not None
    foreign = owners.rows[vertex] != owners.nonzeros
    keys = np.unique(owners.nonzeros[foreign].astype(np.int64) * len(owners.rows) + vertex[foreign])
    part, lacking = np.divmod(keys, len(owners.rows))
    entries = np.ones(len(keys), np.int64), (owners.rows[lacking], part)
    return sp.coo_array(entries, shape=(num_parts, num_parts)).tocsr()


def _column_blocks(matrix: Graph, owner: Int32Array, grid: Grid) -> Int64Array:
    """Return `Tables.blocks`: the nonzeros of every part in every piece of the columns."""
    _, position, part_ptr = grouped(owner, grid.num_parts)
    piece, pieces = piece_of_rows(grid, part_ptr)[position], pieces_of_grid(grid)
    place = np.repeat(owner * pieces, matrix.row_nonzeros()) + piece[matrix.indices]
    found = np.bincount(place, minlength=grid.num_parts * pieces)
    return found.reshape(grid.num_parts, pieces)
