"""Vertices that random walks visit, and the subgraph that they induce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from plancc.errors import InputError
from plancc.fields import option
from plancc.kernel import njit
from plancc.sampling.batch import Batch, Int32s, Population, VertexBatch
from plancc.sampling.counter import below, bits, first_of, key_of
from plancc.sampling.kernels import diagonal, distinct
from plancc.sampling.sampler import SHOWN, SizedSampler

MAX_LENGTH = 1_000_000


@dataclass(frozen=True)
class WalkSampler(SizedSampler):
    """Random walks from distinct roots (Zeng et al., GraphSAINT, ICLR 2020, section 3.4).

    ``batch_size // (walk_length + 1)`` roots, at least one; every set of them is equally likely.
    From vertex i a walk goes to one of the columns of row i other than i, each as likely; it stays
    where there is none. (GraphSAINT draws roots that may repeat.)

    Attributes
    ----------
    batch_size : int
        A batch has at most that many vertices, or those of a single walk.
    walk_length : int
        Steps of every walk, in 1..`MAX_LENGTH`.
    """

    name: ClassVar[str] = "walk"
    needs: ClassVar[tuple[str, ...]] = ("pattern",)

    walk_length: int = option(3, "steps of every walk")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.walk_length < 1:
            raise InputError(f"`walk_length` {self.walk_length}: at least 1 is needed")
        if self.walk_length > MAX_LENGTH:
            raise InputError(f"`walk_length` {self.walk_length}: at most {MAX_LENGTH} is possible")

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        roots = max(1, self.batch_size // (self.walk_length + 1))
        return WalkBatch(population, roots, self.walk_length, key_of(seed, stream, number))


class WalkBatch(VertexBatch):
    """Walks of `length` steps from the first `roots` vertices in the random order of `key`."""

    def __init__(self, population: Population, roots: int, length: int, key: np.uint64) -> None:
        super().__init__(population)
        self._roots, self._length, self._key = roots, length, key

    def vertices(self) -> Int32s:
        n = self.population.num_vertices
        roots = first_of(n, self._roots, self._key)
        return distinct(_walked(*self.population.pattern, roots, self._length, self._key))


@njit(cache=True, nogil=True)
def _walked(indptr: Any, indices: Any, roots: Any, length: int, key: Any) -> Any:
    """The roots, and where the walks are after each of their steps: int32[m]."""
    visited = np.empty(len(roots) * (length + 1), dtype=np.int32)
    size = 0
    for root in roots:
        walk = bits(key, root)
        i = root
        visited[size] = i
        size += 1
        for step in range(length):
            nonzeros = indptr[i + 1] - indptr[i]
            itself = diagonal(indptr, indices, i)
            degree = nonzeros - (itself < nonzeros)
            if degree == 0:
                break
            place = below(bits(walk, step), degree)
            i = indices[indptr[i] + place + (place >= itself)]
            visited[size] = i
            size += 1
    return visited[:size]
