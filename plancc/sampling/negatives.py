"""Negatives of training links: random pairs of vertices, with or without an edge.

Negative i of an epoch starts at vertex ``(first + i) % n``, with a random ``first``; its target is
a random vertex. The owner of the source draws the negative, the same on any number of ranks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.sampling.counter import key_of, mix

Int64Array = npt.NDArray[np.int64]

NEGATIVES_KEY = 2
"""Last number in the keys (`key_of`) of negatives; layers draw with other last numbers."""
_HALF = np.uint64(32)


def drawn_negatives(
    vertices: Int64Array, num_vertices: int, total: int, epoch: tuple[int, int]
) -> tuple[Int64Array, Int64Array]:
    """Return source and target of the negative pairs whose sources are in `vertices`.

    A source is an index in `vertices`, a target is a vertex: two arrays, int64[pairs]. Every vertex
    has `total` / `num_vertices` pairs, rounded up or down. `epoch`: random seed, and epoch's index.
    """
    key, n = key_of(*epoch, NEGATIVES_KEY), np.uint64(num_vertices)
    first = _below(key, np.array([total], np.int64), n)[0]
    number = (vertices - first) % num_vertices
    counts = np.maximum(0, -(-(total - number) // num_vertices))
    source = np.repeat(np.arange(len(vertices)), counts)
    turn = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    return source, _below(key, number[source] + turn * num_vertices, n)


def ends_of_negatives(
    numbers: Int64Array, num_vertices: int, total: int, epoch: tuple[int, int]
) -> tuple[Int64Array, Int64Array]:
    """Return sources and targets of the negatives `numbers`, int64[m]; see `drawn_negatives`."""
    key, n = key_of(*epoch, NEGATIVES_KEY), np.uint64(num_vertices)
    first = _below(key, np.array([total], np.int64), n)[0]
    return (first + numbers) % num_vertices, _below(key, numbers, n)


def _below(key: np.uint64, places: Int64Array, bound: np.uint64) -> Int64Array:
    """Return ``counter.below(counter.bits(key, place), bound)`` for all places, by NumPy."""
    bits = mix.in_python(key ^ mix.in_python(places.astype(np.uint64)))
    found: Int64Array = (((bits >> _HALF) * bound) >> _HALF).astype(np.int64)
    return found
