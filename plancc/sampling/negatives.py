"""Negatives of training links: pairs of any vertices, drawn by counters.

Negative i has the vertex ``(first + i) % n`` as its source, and any vertex as its target. The owner
of the source draws it, so that negatives are the same on any number of ranks.
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
    """Return the negatives whose sources are in `vertices`: the source's index there, and the
    target.

    Every vertex is the source of ``total / num_vertices`` negatives, rounded up or down.

    Parameters:
        vertices: int64[m].
        total: Number of negatives of all vertices.
        epoch: Seed, and number of the epoch.

    Returns:
        source, target : int64[k]
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
    """Return the source and the target vertex of every negative in `numbers`, int64[m] each.

    Other parameters: see `drawn_negatives`.
    """
    key, n = key_of(*epoch, NEGATIVES_KEY), np.uint64(num_vertices)
    first = _below(key, np.array([total], np.int64), n)[0]
    return (first + numbers) % num_vertices, _below(key, numbers, n)


def _below(key: np.uint64, places: Int64Array, bound: np.uint64) -> Int64Array:
    """Return numbers below a bound by key and places, the same as `counter.below` returns."""
    bits = mix.in_python(key ^ mix.in_python(places.astype(np.uint64)))
    found: Int64Array = (((bits >> _HALF) * bound) >> _HALF).astype(np.int64)
    return found
