"""What one rank has of a graph: rows of the normalised matrix, and nets of vertices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.distributed.ranks import Ranks
from plancc.graph.columns import WithColumns
from plancc.graph.csr import MappedGraph
from plancc.graph.graph import Graph, Source
from plancc.graph.kernels import mirror_sum
from plancc.graph.links import Pair, without
from plancc.graph.normalize import Rows, RowsOfTypes
from plancc.graph.remarks import lost_values
from plancc.graph.union import without_relations
from plancc.passes.kernels.label_propagation import ClusterLinks
from plancc.passes.kernels.nets import transpose
from plancc.plan.exchange import Int32Array, Int64Array, offsets


@dataclass(frozen=True, eq=False)
class Share(WithColumns):
    """Consecutive rows of the normalised matrix, and the column nets of the same vertices.

    Attributes:
        bounds (int64[num_ranks + 1]): First vertex of each rank.
        indptr, indices, values: CSR of this rank's rows; `indptr` begins with 0, and `indices` are
            vertices of the whole graph.
        net_ptr, pins (int64[m + 1], int32): Rows that need each vertex of this rank; the same
            arrays as `indptr` and `indices` in an undirected graph.
        degree (int32[n]): Number of nonzeros of every row of the whole matrix.
        columns: Other arrays with an entry for each nonzero; the same names on all ranks.
    """

    bounds: Int64Array
    rank: int
    indptr: Int64Array
    indices: Int32Array
    values: npt.NDArray[np.floating]
    net_ptr: Int64Array
    pins: Int32Array
    degree: Int32Array

    @property
    def first(self) -> int:
        """Index of the share's first vertex."""
        return int(self.bounds[self.rank])

    @property
    def last(self) -> int:
        """Index of the share's last vertex, plus 1."""
        return int(self.bounds[self.rank + 1])

    def sizes(self, graph: Graph) -> Graph:
        """Return a graph with as many nonzeros per row as this share, but all in column 0."""
        indptr = offsets(self.degree)
        nobody = np.broadcast_to(np.int32(0), int(indptr[-1]))  # takes no memory
        return Graph(indptr, nobody, source=graph.source, types=graph.types)

    @property
    def links(self) -> ClusterLinks:
        """Links of this rank's vertices to rows that they need and (if directed) that need them."""
        none = np.empty(0, np.int64)
        other = np.empty(0, np.int32)
        if self.pins is not self.indices:
            other = np.arange(len(self.indptr) - 1, dtype=np.int32)
        return ClusterLinks(self.indptr, self.indices, none, self.net_ptr, self.pins, other)


def read_share(
    files: MappedGraph,
    ranks: Ranks,
    *,
    name: str,
    normalization: str,
    self_loops: bool,
    dtype: npt.DTypeLike,
    away: Pair | None = None,
) -> tuple[Share, Share, Int64Array]:
    """Read and normalise this rank's rows. Collective.

    Returns the share for searches, with distinct columns in each row; the share for the plan; and
    three counts over all ranks, int64[3]: self loops in the source to which 1 is added, weights
    that become 0, and weights that lose digits. `away`, int32[2, links], has edges to leave out, on
    rank 0; elsewhere it is empty.
    """
    indptr = files.indptr
    with ranks.agreement():
        load = indptr + np.arange(len(indptr))
        bounds = np.searchsorted(load, load[-1] * np.arange(ranks.size) // ranks.size)
        bounds = np.append(bounds, len(indptr) - 1).astype(np.int64)
        del load
        first, last = (int(each) for each in bounds[ranks.rank : ranks.rank + 2])
        ids = None if files.original_ids is None else files.original_ids[first:last]
        rows = replace(files.rows(first, last), source=Source(name), original_ids=ids)
        mirrored = np.zeros(1, np.uint64)
        if files.directed is False:
            plain = without_relations(rows)
            mirrored[0] = mirror_sum(first, plain.indptr, plain.indices)
    ranks.sums(mirrored.view(np.int64))
    with ranks.agreement():
        if mirrored.any():
            raise files.not_symmetric()
    if away is not None:
        ends = away if rows.directed else np.concatenate([away, away[::-1]], axis=1)
        to = np.searchsorted(bounds, ends[1], side="right") - 1
        rows = without(rows, ranks.sent(ends.T, to).T, first)
    counts = np.array([0, *lost_values(rows.values, normalization, dtype)])
    if rows.types is None:
        rows, counts[0] = _normalised(ranks, rows, first, normalization, self_loops, dtype)
    else:
        rows = _normalised_by_relation(ranks, rows, first, normalization, dtype)
    plain = without_relations(rows)
    nets = plain.indptr, plain.indices
    if files.directed is not False:
        nets = _nets(ranks, bounds, *nets)

    def shared(each: Graph) -> Share:
        degree = ranks.concatenated(each.row_nonzeros().astype(np.int32))
        arrays: Any = (each.indptr, each.indices, each.values, *nets, degree)
        return Share(bounds, ranks.rank, *arrays, columns=each.columns)

    share = shared(plain)
    return share, share if plain is rows else shared(rows), ranks.sums(counts)


def _normalised(
    ranks: Ranks,
    rows: Graph,
    first: int,
    normalization: str,
    self_loops: bool,
    dtype: npt.DTypeLike,
) -> tuple[Graph, int]:
    """Normalise this rank's rows. Collective.

    Returns the rows, and the number of their self loops to which the identity was added.
    """
    with ranks.agreement():
        arrays = rows.indptr, rows.indices, rows.values
        how = normalization, self_loops, rows.original_ids
        given = Rows(*arrays, first, rows.source.name, *how)
        own_scale = given.scale()
    scale = ranks.concatenated(own_scale) if normalization == "sym" else own_scale
    with ranks.agreement():
        indptr, indices, values = given.scaled(own_scale, scale, dtype)
    return replace(rows, indptr=indptr, indices=indices, values=values), given.num_raised


def _normalised_by_relation(
    ranks: Ranks, rows: Graph, first: int, normalization: str, dtype: npt.DTypeLike
) -> Graph:
    """Normalise this rank's rows of a graph with types. Collective.

    Ranks add their rows' values to the sums by which values are divided. They do so in turns, rank
    0 first, so the order of additions is as in one process.
    """
    with ranks.agreement():
        given = RowsOfTypes(rows, first, normalization)
        sums = given.no_sums
    for turn in range(ranks.size):
        if turn == ranks.rank:
            sums = given.sums(sums)
        sums = [ranks.concatenated(each[: len(each) * (turn == ranks.rank)]) for each in sums]
    with ranks.agreement():
        return given.scaled(sums, dtype)


def _nets(
    ranks: Ranks, bounds: Int64Array, indptr: Int64Array, indices: Int32Array
) -> tuple[Int64Array, Int32Array]:
    """Return, as offsets and rows, the rows that need each vertex of this rank. Collective."""
    ptr, rows, _ = transpose(indptr, indices, indices[:0], int(bounds[-1]))
    rows += np.int32(bounds[ranks.rank])
    ends = ptr[bounds]
    counts = np.diff(ptr).astype(np.int32)
    of_others = ranks.swapped(np.split(counts, bounds[1:-1]))
    pins = ranks.collected(np.split(rows, ends[1:-1]))
    nets = joined(of_others, pins, np.ones(len(pins), np.int8), int(bounds[-1]))
    return nets.indptr.astype(np.int64), nets.indices.astype(np.int32, copy=False)


def joined(counts: list[Int32Array], ends: Int32Array, cost: npt.NDArray[Any], columns: int) -> Any:
    """Join lists from several ranks into one sparse matrix, with ascending columns in each row.

    Values of the same entry from several ranks are added.

    Parameters:
        counts (list of int32[rows]): For each rank, its number of entries for each row.
        ends (int32[entries]): Columns of all entries, row by row; rank 0's entries come first, then
            rank 1's, and so on.
        cost ([entries]): Values of the entries.
    """
    from scipy.sparse import coo_array

    numbers = np.arange(len(counts[0]), dtype=np.int32)
    row = np.concatenate([np.repeat(numbers, of_rank) for of_rank in counts])
    made = coo_array((cost, (row, ends)), shape=(len(numbers), columns)).tocsr()
    made.sort_indices()
    return made
