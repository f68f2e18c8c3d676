"""The sampler that draws seed vertices and, for every layer, some neighbours of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from plancc.errors import InputError
from plancc.fields import option
from plancc.kernel import njit
from plancc.sampling.batch import Batch, BatchLayer, Int32s, Population
from plancc.sampling.counter import below, bits, first_of, key_of
from plancc.sampling.kernels import ascending, diagonal, distinct
from plancc.sampling.owned import Int64s, OwnedBlock, OwnedRows
from plancc.sampling.sampler import SHOWN, SizedSampler

MARKS_FROM = 64
"""Smallest fan-out for which `_mark_subset` is used; below, `_insert_subset` is faster."""


@dataclass(frozen=True)
class NeighbourSampler(SizedSampler):
    """Layer-wise neighbour sampling (Hamilton et al., GraphSAGE, NeurIPS 2017, algorithm 2).

    A mini-batch has `batch_size` seed vertices; every set of this size is equally likely. If the
    population has a training mask, all seed vertices are training vertices. The rows of the last
    block are the seed vertices. The rows of every other block are the columns of the next block.

    A row keeps its nonzero on the diagonal, if there is one. If the row has d other nonzeros, it
    keeps k = ``min(fan-out, d)`` of them; every set of k is equally likely. These k nonzeros are
    multiplied by ``d / k``, so that the expected product equals the product with the whole row.

    Attributes:
        batch_size (int): Number of seed vertices.
        fanouts: A fan-out for each layer, at least 1. The first fan-out is for the last layer,
            whose rows are the seed vertices (as in PyG's ``num_neighbors``).
        column: Name of an array with a value per nonzero, such as "relation". If given, neighbours
            are drawn separately for each value, and the rows of a block are also rows of the
            previous block. "" if there is no such array.
    """

    name: ClassVar[str] = "neighbour"
    needs: ClassVar[tuple[str, ...]] = ("pattern",)
    of_training: ClassVar[bool] = True
    column: ClassVar[str] = ""

    fanouts: tuple[int, ...] = option(
        help="columns sampled per row, a number per layer, the output layer first",
        metavar="F1,F2,...",
    )

    @property
    def num_blocks(self) -> int:
        return len(self.fanouts)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.fanouts:
            raise InputError("`fanouts` is empty: give a fan-out for each layer")
        if min(self.fanouts) < 1:
            given = ",".join(map(str, self.fanouts))
            raise InputError(f"`fanouts` {given}: a fan-out must be at least 1")

    def check_layers(self, num_layers: int) -> None:
        numbers, given = len(self.fanouts), ",".join(map(str, self.fanouts))
        if numbers != num_layers:
            raise InputError(
                f"`fanouts` {given} has {numbers} number{'s' * (numbers != 1)}, but the model has "
                f"{num_layers} layer{'s' * (num_layers != 1)}"
            )

    def num_targets(self, population: Population, training: int) -> int | None:
        return self.batch_size if training == self.available(population) else None

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        key = key_of(seed, stream, number)
        seeds = first_of(self.available(population), self.batch_size, key)
        if population.train_mask is not None:
            seeds = population.training[seeds]
        return NeighbourBatch(population, seeds, self.fanouts, key)

    def seeds_of_owner(self, owned: OwnedRows, key: np.uint64) -> Int64s:
        """Return the owner's rows that are seed vertices of a mini-batch; ascending."""
        rows = owned.chosen(first_of(owned.available, self.batch_size, key))
        found: Int64s = ascending(rows[rows >= 0])
        return found

    def block_of_owner(
        self, owned: OwnedRows, rows: Int64s, hop: int, key: np.uint64
    ) -> OwnedBlock:
        """Draw nonzeros for the owner's rows `rows`, which are ascending.

        `hop` counts layers from the last layer, 0, whose rows are the seed vertices.
        """
        fanout = min(self.fanouts[hop], owned.num_vertices)
        drawn = _sampled_of_owner(owned.arrays, rows, fanout, np.uint64(bits(key, hop)))
        return OwnedBlock(rows, *drawn)


class NeighbourBatch(Batch):
    """A batch of `NeighbourSampler` for given seed vertices.

    `seeds` are ascending; `key` determines which nonzeros are drawn.
    """

    listed = True

    def __init__(
        self, population: Population, seeds: Int32s, fanouts: tuple[int, ...], key: np.uint64
    ) -> None:
        self.population = population
        self.num_blocks = len(fanouts)
        self._seeds, self._fanouts, self._key = seeds, fanouts, key

    def vertices(self) -> Int32s:
        blocks = self._blocks  # the columns of a block are the rows of the block before
        found: Int32s = distinct(np.concatenate([blocks[0].columns, *(b.rows for b in blocks)]))
        return found

    def targets(self) -> Int32s:
        return self._seeds

    def block(self, block: int) -> BatchLayer:
        return self._blocks[block]

    @cached_property
    def _blocks(self) -> list[BatchLayer]:
        n = self.population.num_vertices
        indptr, indices = self.population.pattern
        blocks: list[BatchLayer] = []
        for hop, fanout in enumerate(self._fanouts):
            rows = distinct(blocks[-1].columns) if blocks else self._seeds
            key = np.uint64(bits(self._key, hop))
            blocks.append(BatchLayer(rows, *_sampled(indptr, indices, rows, min(fanout, n), key)))
        return blocks[::-1]


@njit(cache=True, nogil=True)
def _sampled(indptr: Any, indices: Any, rows: Any, fanout: Any, key: Any) -> Any:
    """Draw nonzeros of `rows`; return ptr, columns, places and factors of a `BatchLayer`."""
    sizes = np.empty(len(rows), dtype=np.int64)
    itself = np.empty(len(rows), dtype=np.int32)
    for k in range(len(rows)):
        sizes[k] = indptr[rows[k] + 1] - indptr[rows[k]]
        itself[k] = diagonal(indptr, indices, rows[k])
    ptr, places, scales = subsets(rows, sizes, itself, fanout, key)
    columns = np.empty(len(places), dtype=np.int32)
    factors = np.empty(len(places), dtype=np.float64)
    for k in range(len(rows)):
        for a in range(ptr[k], ptr[k + 1]):
            columns[a] = indices[indptr[rows[k]] + places[a]]
            factors[a] = 1.0 if places[a] == itself[k] else scales[k]
    return ptr, columns, places, factors


@njit(cache=True, nogil=True)
def _sampled_of_owner(owned: Any, rows: Any, fanout: Any, key: Any) -> Any:
    """Draw nonzeros of an owner's `rows`; return ptr, nonzeros and factors of an `OwnedBlock`."""
    vertices, row_ptr, _, by_vertex, diagonals = owned
    sizes = row_ptr[rows + 1] - row_ptr[rows]
    ptr, places, scales = subsets(vertices[rows], sizes, diagonals[rows], fanout, key)
    nonzeros = np.empty(len(places), dtype=np.int64)
    factors = np.empty(len(places), dtype=np.float64)
    for k in range(len(rows)):
        first, itself, kept = row_ptr[rows[k]], diagonals[rows[k]], slice(ptr[k], ptr[k + 1])
        by_place = len(by_vertex) == 0
        # Places count by ascending vertex; `by_vertex` turns them into the order of the slice.
        if not by_place and itself < sizes[k]:
            itself = by_vertex[first + itself]
        by_place |= len(places[kept]) == sizes[k]
        for a in range(ptr[k], ptr[k + 1]):
            nonzeros[a] = first + (places[a] if by_place else by_vertex[first + places[a]])
        if not by_place:
            nonzeros[kept].sort()
        for a in range(ptr[k], ptr[k + 1]):
            factors[a] = 1.0 if nonzeros[a] == first + itself else scales[k]
    return ptr, nonzeros, factors


@njit(cache=True, nogil=True)
def subsets(vertices: Any, sizes: Any, itself: Any, fanout: Any, key: Any) -> Any:
    """Choose at random the nonzeros that each of m rows keeps.

    The choice depends only on the row's vertex and `key`. This is Floyd's algorithm (Bentley and
    Floyd, CACM 1987). Each row is sorted by column.

    Parameters:
        sizes (int64[m]): Number of nonzeros of every row.
        itself (int32[m]): Position of every row's diagonal nonzero, or the row's size.
        fanout (int): Number of nonzeros off the diagonal that a row keeps, if it has more.

    Returns:
        ptr (int64[m + 1]), places (int32[ptr[-1]]): Ascending positions of kept nonzeros; row k has
            ``places[ptr[k]:ptr[k + 1]]``.
        scales (float64[m]): For every row, the factor of its nonzeros off the diagonal.
    """
    ptr = np.zeros(len(vertices) + 1, dtype=np.int64)
    for k in range(len(vertices)):
        off_diagonal = sizes[k] - (itself[k] < sizes[k])
        ptr[k + 1] = ptr[k] + min(off_diagonal, fanout) + sizes[k] - off_diagonal
    places = np.empty(ptr[-1], dtype=np.int32)
    scales = np.ones(len(vertices), dtype=np.float64)
    for k in range(len(vertices)):
        kept, nonzeros = places[ptr[k] : ptr[k + 1]], sizes[k]
        if len(kept) < nonzeros:
            # Kept nonzeros must have the mean of all nonzeros: scale = degree / fan-out.
            scales[k] = (nonzeros - (itself[k] < nonzeros)) / fanout
        draw_subset(kept, nonzeros, itself[k], fanout, bits(key, vertices[k]))
    return ptr, places, scales


@njit(cache=True, nogil=True)
def draw_subset(kept: Any, nonzeros: Any, itself: Any, fanout: Any, key: Any) -> None:
    """Fill `kept` with the positions of the nonzeros that a row of `nonzeros` nonzeros keeps.

    `itself` and `fanout` are as in the function `subsets`, for this row; `key` is the row's random
    number, from which the choice follows.
    """
    if len(kept) == nonzeros:
        for place in range(nonzeros):
            kept[place] = place
    elif fanout < MARKS_FROM or fanout * fanout < nonzeros:
        _insert_subset(kept, nonzeros, itself, key)
    else:
        _mark_subset(kept, nonzeros, itself, key)


@njit(cache=True, nogil=True)
def _insert_subset(found: Any, nonzeros: Any, itself: Any, key: Any) -> None:
    """Fill `found` with distinct random positions of nonzeros in a row, ascending.

    `itself` is the position of the row's diagonal, which `found` always includes; it is equal to
    the number `nonzeros` if the row has no diagonal. Takes O(len(found)^2).
    """
    size = 0
    if itself < nonzeros:
        found[0], size = itself, 1
    for last in range(nonzeros - len(found), nonzeros - size):  # places without the diagonal
        # Floyd: draw from the first `last + 1` places; if the place is taken, take `last` itself.
        # Places skip the diagonal, so places from the diagonal on are one higher.
        place = below(bits(key, last - nonzeros + len(found)), last + 1)
        if not _inserted(found, size, place + (place >= itself)):
            _inserted(found, size, last + (last >= itself))
        size += 1


@njit(cache=True, nogil=True)
def _mark_subset(found: Any, nonzeros: Any, itself: Any, key: Any) -> None:
    """Fill `found` like `_insert_subset`, in time proportional to the number of `nonzeros`."""
    taken = np.zeros(nonzeros, dtype=np.uint8)
    if itself < nonzeros:
        taken[itself] = 1
    first = nonzeros - len(found)
    for last in range(first, nonzeros - (itself < nonzeros)):
        place = below(bits(key, last - first), last + 1)
        place += place >= itself
        taken[last + (last >= itself) if taken[place] else place] = 1
    size = 0
    for place in range(nonzeros):
        if taken[place]:
            found[size] = place
            size += 1


@njit(cache=True, nogil=True)
def _inserted(ascending: Any, end: int, x: Any) -> bool:
    """Insert x into the sorted numbers ``ascending[:end]``; return False if x is among them."""
    a = end
    while a > 0 and ascending[a - 1] > x:
        a -= 1
    if a > 0 and ascending[a - 1] == x:
        return False
    # shift larger numbers by one place
    for b in range(end, a, -1):
        ascending[b] = ascending[b - 1]
    ascending[a] = x
    return True
