"""Vertices that random walks visit, and the subgraph that they induce."""

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
    """Random walks from distinct roots (Zeng et al., GraphSAINT, ICLR 2020, section 3.4).

    ``batch_size // (walk_length + 1)`` roots, at least one; every set of them is equally likely.
    From vertex i a walk goes to one of the columns of row i other than i, each as likely; it stays
    where there is none. (GraphSAINT draws roots that may repeat.)

    Attributes:
        batch_size (int): A batch has at most that many vertices, or the vertices of a single walk.
        walk_length: Steps of every walk, in 1..`MAX_LENGTH`.
    """

    name: ClassVar[str] = "walk"
    needs: ClassVar[tuple[str, ...]] = ("pattern",)

    walk_length: int = option(3, "steps of every walk", at_least=1, at_most=MAX_LENGTH)

    @property
    def num_roots(self) -> int:
        """Walks of a batch."""
        return max(1, self.batch_size // (self.walk_length + 1))

    def roots(self, num_vertices: int, key: np.uint64) -> Int32s:
        """The roots of the batch of `key`, ascending: int32[num_roots]."""
        return first_of(num_vertices, self.num_roots, key)

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        return WalkBatch(population, self, key_of(seed, stream, number))

    def columns_of_owner(
        self, owned: OwnedRows, rows: Int64s, roots: Int32s, step: int, key: np.uint64
    ) -> Int32s:
        """Columns that walks go to from rows of the owner: int32[m]; -1 where a walk stays.

        `rows`: int64[m], where the walks of `roots` are after `step` steps.
        """
        found: Int32s = _columns_of_owner(owned.arrays, rows, roots, step, key)
        return found


class WalkBatch(VertexBatch):
    """The walks of a sampler under `key`."""

    def __init__(self, population: Population, sampler: WalkSampler, key: np.uint64) -> None:
        super().__init__(population)
        self._sampler, self._key = sampler, key

    def vertices(self) -> Int32s:
        roots = self._sampler.roots(self.population.num_vertices, self._key)
        length = self._sampler.walk_length
        return distinct(_walked(*self.population.pattern, roots, length, self._key))


@njit(cache=True, nogil=True)
def _walked(indptr: Any, indices: Any, roots: Any, length: int, key: Any) -> Any:
    """The roots, and where the walks are after each of their steps: int32[m]."""
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
    """Place of a walk's next column in a row, by ascending vertex; -1 where it stays.

    `itself`: place of the diagonal, or the number of nonzeros where there is none.
    """
    degree = nonzeros - (itself < nonzeros)
    if degree == 0:
        return -1
    place = below(random, degree)
    # places from the diagonal on are one higher: the walk never takes it
    return place + (place >= itself)
