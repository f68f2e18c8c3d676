"""A sparse product of which a mask keeps some outputs: multiply all, or skip what is masked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from plancc.graph.graph import Graph
from plancc.kernel import njit

TILE = 16
"""Columns of a tile: a cache line of float32."""
METHODS = ("multiply, then mask, s", "skip tiles", "skip columns")
"""Seconds of the first; the others over it, above 1 where skipping is faster."""
REPETITIONS = 5


@njit
def multiply(indptr: Any, indices: Any, x: Any, mask: Any, out: Any) -> None:
    """All columns of a row, then the mask."""
    width = x.shape[1]
    for row in range(len(indptr) - 1):
        out[row] = 0
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            for c in range(width):
                out[row, c] += x[column, c]
        for c in range(width):
            out[row, c] *= mask[row, c]


@njit
def skip_tiles(indptr: Any, indices: Any, x: Any, mask: Any, out: Any) -> None:
    """The tiles of a row that have a column to keep, one after the other; then the mask.

    The matrices are [rows, tiles, `TILE`]: so the compiler knows the length of the inner loops.
    """
    total = np.empty(TILE, np.float32)
    for row in range(len(indptr) - 1):
        for tile in range(x.shape[1]):
            kept = np.float32(0)
            for c in range(TILE):
                kept += mask[row, tile, c]
                total[c] = 0
            if kept > 0:
                for k in range(indptr[row], indptr[row + 1]):
                    column = indices[k]
                    for c in range(TILE):
                        total[c] += x[column, tile, c]
            for c in range(TILE):
                out[row, tile, c] = total[c] * mask[row, tile, c]


@njit
def skip_columns(indptr: Any, indices: Any, x: Any, mask: Any, out: Any) -> None:
    """The columns of a row that are kept, one by one."""
    width = x.shape[1]
    kept = np.empty(width, np.uint64)  # of unsigned numbers none counts from the end
    for row in range(len(indptr) - 1):
        out[row] = 0
        live = 0
        for c in range(width):
            if mask[row, c]:
                kept[live] = c
                live += 1
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            for at in range(live):
                out[row, kept[at]] += x[column, kept[at]]


def compared(graph: Graph, width: int, density: float, whole_tiles: bool) -> dict[str, float]:
    """A row: `METHODS`. All three have the same result, to the last bit.

    `width` is a multiple of `TILE`.
    """
    rng = np.random.default_rng(1)
    shape = (graph.num_vertices, width)
    x = rng.standard_normal(shape, dtype=np.float32)
    if whole_tiles:
        tiles = rng.random((graph.num_vertices, -(-width // TILE))) < density
        mask = np.repeat(tiles, TILE, axis=1)[:, :width].astype(np.float32)
    else:
        mask = (rng.random(shape, dtype=np.float32) < density).astype(np.float32)
    kernels: dict[str, Callable[..., Any]] = dict(
        zip(METHODS, (multiply, skip_tiles, skip_columns), strict=True)
    )
    outs = {name: np.empty(shape, np.float32) for name in METHODS}
    tiled = graph.num_vertices, width // TILE, TILE
    forms = {name: tiled if kernel is skip_tiles else shape for name, kernel in kernels.items()}
    seconds = dict.fromkeys(METHODS, np.inf)
    for _ in range(REPETITIONS + 1):
        for name, kernel in kernels.items():
            begin = time.perf_counter()
            matrices = (each.reshape(forms[name]) for each in (x, mask, outs[name]))
            kernel(graph.indptr, graph.indices, *matrices)
            seconds[name] = min(seconds[name], time.perf_counter() - begin)
    first = outs[METHODS[0]]
    for name in METHODS[1:]:
        if not np.array_equal(outs[name], first):
            raise AssertionError(f"{name} has another result")
    return {METHODS[0]: seconds[METHODS[0]]} | {
        name: seconds[METHODS[0]] / seconds[name] for name in METHODS[1:]
    }
