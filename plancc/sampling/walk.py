"""The sampler that draws random walks; a mini-batch is the subgraph of the visited vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from plancc.fields import option
from plancc.kernel import njit
from plancc.sampling.batch import Batch, Int32s, Population, VertexBatch
from plancc.sampling.counter import below, bits, first_of, key_of
from plancc.sampling.kernels import diagonal, distinct
from plancc.sampling.owned import Int64s, OwnedRows
from plancc.sampling.sampler import SHOWN, SizedSampler

MAX_LENGTH = 1_000_000


@dataclass(frozen=True)
class WalkSampler(SizedSampler):
    """A mini-batch has the vertices of random walks (Zeng et al., GraphSAINT, ICLR 2020, sec. 3.4).

    The walks start from ``batch_size // (walk_length + 1)`` distinct vertices (roots), at least
    one; every set of roots is equally likely. From vertex i, a walk goes to a random neighbour of
    i: a column of row i other than i. If there is no neighbour, the walk stays at i. GraphSAINT
    differs in one point: there two walks may have the same root.

    Attributes:
        batch_size (int): Largest number of vertices in a batch. Only a batch with a single walk may
            have more.
        walk_length: Steps of every walk, in 1..`MAX_LENGTH`.
    """

    name: ClassVar[str] = "walk"
    needs: ClassVar[tuple[str, ...]] = ("pattern",)

    walk_length: int = option(3, "steps of every walk", at_least=1, at_most=MAX_LENGTH)

    @property
    def num_roots(self) -> int:
        """Number of walks in a mini-batch."""
        return max(1, self.batch_size // (self.walk_length + 1))

    def roots(self, num_vertices: int, key: np.uint64) -> Int32s:
        """Return the roots of the mini-batch with random key `key`, ascending: int32[num_roots]."""
        return first_of(num_vertices, self.num_roots, key)

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        key = key_of(seed, stream, number)

        def drawn() -> Int32s:
            roots = self.roots(population.num_vertices, key)
            return distinct(_walked(*population.pattern, roots, self.walk_length, key))

        return VertexBatch(population, drawn)

    def columns_of_owner(
        self, owned: OwnedRows, rows: Int64s, roots: Int32s, step: int, key: np.uint64
    ) -> Int32s:
        """Return the column to which each walk goes next, int32[m]; -1 if the walk stays.

        `rows`, int64[m]: the owner's rows where the walks from `roots` are after `step` steps.
        """
        found: Int32s = _columns_of_owner(owned.arrays, rows, roots, step, key)
        return found


@njit(cache=True, nogil=True)
def _walked(indptr: Any, indices: Any, roots: Any, length: int, key: Any) -> Any:
    """Return all vertices that walks of `length` steps visit, int32[m], with repeats and roots."""
    visited = np.empty(len(roots) * (length + 1), dtype=np.int32)
    size = 0
    for root in roots:
        i = root
        visited[size] = i
        size += 1
        for step in range(length):
            nonzeros = indptr[i + 1] - indptr[i]
            place = _place(nonzeros, diagonal(indptr, indices, i), bits(bits(key, root), step))
            if place < 0:
                break
            i = indices[indptr[i] + place]
            visited[size] = i
            size += 1
    return visited[:size]


@njit(cache=True, nogil=True)
def _columns_of_owner(owned: Any, rows: Any, roots: Any, step: int, key: Any) -> Any:
    _, row_ptr, column, by_vertex, diagonals = owned
    found = np.full(len(rows), -1, dtype=np.int32)
    for k in range(len(rows)):
        first, nonzeros = row_ptr[rows[k]], row_ptr[rows[k] + 1] - row_ptr[rows[k]]
        place = _place(nonzeros, diagonals[rows[k]], bits(bits(key, roots[k]), step))
        if place >= 0:
            found[k] = column[first + (by_vertex[first + place] if len(by_vertex) > 0 else place)]
    return found


@njit(cache=True, nogil=True)
def _place(nonzeros: Any, itself: Any, random: Any) -> Any:
    """Return a walk's next nonzero, as a position in a row sorted by column; -1: the walk stays.

    The row has `nonzeros` nonzeros. `itself` is the position of the diagonal nonzero; if there is
    none, it equals `nonzeros`. `random` has 64 random bits.
    """
    degree = nonzeros - (itself < nonzeros)
    if degree == 0:
        return -1
    place = below(random, degree)
    # places from the diagonal on are one higher, because a walk never takes the diagonal
    return place + (place >= itself)
