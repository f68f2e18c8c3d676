"""Time and energy of neighbour aggregation on an accelerator.

One aggregation is the masked sparse product ``Z = (A H) * M`` (S-SpMM, Equation 4 of Wan et al.
2025). H and Z are n x width.

time
    max(t1, t2) if adders and memory work at the same time, else t1 + t2, where
    t1 = additions / (adders x clock x utilisation) and t2 = bytes / (bandwidth x efficiency).
    There is one addition for every nonzero and column, except for outputs that a mask drops.
energy
    Power x time, plus an energy for every bit that the memory reads or writes.
bytes
    The columns of H and Z are cut into *slices*, and the rows of Z into *tiles*, so that the rows
    of one tile, in the columns of one slice, fit into the output buffer. A is read once per slice,
    and H once per tile. Every design has the slice width that moves the fewest bytes.

Nonzeros are assumed to be spread evenly at random over the tiles. So a tile with e nonzeros needs
each of the n rows of H with probability 1 - (1 - 1/n)^e.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plancc.errors import InputError
from plancc_lab.accelerators.design import Accelerator, Cache, OutputTiles

FEATURE_BYTES = 4
"""Bytes of a float32."""
POINTER_BYTES = 4
"""Bytes of a pointer to a row or a column."""
MOST_SLICE_WIDTHS = 4096
"""Largest number of columns of a slice that is tried, besides all columns."""


@dataclass(frozen=True)
class Aggregations:
    """Neighbour aggregations of one graph.

    Attributes:
        vertices, nonzeros: Rows and nonzeros of A; rounded figures such as 1.81e9 are allowed.
        widths: Columns of H in every aggregation.
        mask_density: Share of the outputs that the mask of dropout and ReLU keeps, in [0, 1]; about
            0.5 in Wan et al. 2025, section 3.2.1.
    """

    vertices: float
    nonzeros: float
    widths: tuple[int, ...]
    mask_density: float = 0.5

    def __post_init__(self) -> None:
        if not self.vertices >= 1:
            raise InputError("the graph has no vertices; give at least one vertex")
        if not 0 <= self.nonzeros <= self.vertices**2:
            raise InputError(
                f"{self.nonzeros:g} nonzeros do not fit into a matrix of {self.vertices:g} rows"
            )
        if not self.widths or min(self.widths) < 1:
            raise InputError(f"widths {self.widths}: give at least one width, each 1 or more")
        if not 0 <= self.mask_density <= 1:
            raise InputError(f"mask_density {self.mask_density:g} is not between 0 and 1")


def gcn_aggregations(
    vertices: float, nonzeros: float, dims: Sequence[int], mask_density: float = 0.5
) -> Aggregations:
    """Return the aggregations of one epoch of a GCN, forward and backward.

    The mask (see `Aggregations`) is dropout's in the forward pass, and ReLU's in the backward pass
    (Wan et al. 2025, section 3.2.1). The first layer has no backward pass, and the last of the
    widths `dims` is not aggregated.
    """
    return Aggregations(vertices, nonzeros, (*dims[:-1], *dims[1:-1]), mask_density)


@dataclass(frozen=True)
class MemoryTraffic:
    """Bytes that one aggregation reads from memory or writes to it.

    Attributes:
        slice_width: Number of columns of H that are processed together.
        features, adjacency: Bytes of H, and of A.
        outputs: Bytes of the results, and of their mask (dropout and ReLU).
    """

    slice_width: int
    features: float
    adjacency: float
    outputs: float

    @property
    def bytes(self) -> float:
        return self.features + self.adjacency + self.outputs


@dataclass(frozen=True)
class AcceleratorEstimate:
    """Time and energy of aggregations on an accelerator.

    Attributes:
        features, adjacency: Bytes of H, and of A, that are read from memory.
        outputs: Bytes of the results, and of the mask (dropout and ReLU), read or written.
        compute_seconds, memory_seconds: Seconds of the adders alone and of the memory alone.
        seconds: Seconds in total; adders and memory may overlap.
    """

    additions: float
    features: float
    adjacency: float
    outputs: float
    compute_seconds: float
    memory_seconds: float
    seconds: float
    joules: float

    @property
    def bytes(self) -> float:
        """Number of all bytes that are read from or written to memory."""
        return self.features + self.adjacency + self.outputs


def estimate(machine: Accelerator, work: Aggregations) -> AcceleratorEstimate:
    """Return time and energy of `work` on `machine`, one aggregation after the other."""
    additions = features = adjacency = outputs = compute = memory = seconds = 0.0
    kept = work.mask_density if machine.memory.masked else 1.0
    for width, times in Counter(work.widths).items():
        moved = memory_traffic(machine.memory, work, width)
        added = kept * work.nonzeros * width
        adding = added / (machine.adders * machine.clock * machine.utilisation)
        moving = moved.bytes / (machine.bandwidth * machine.efficiency)
        additions += times * added
        features += times * moved.features
        adjacency += times * moved.adjacency
        outputs += times * moved.outputs
        compute += times * adding
        memory += times * moving
        seconds += times * (max(adding, moving) if machine.overlaps else adding + moving)
    joules = machine.power * seconds
    joules += machine.memory_energy * 8 * (features + adjacency + outputs)
    return AcceleratorEstimate(
        additions, features, adjacency, outputs, compute, memory, seconds, joules
    )


def memory_traffic(memory: OutputTiles | Cache, work: Aggregations, width: int) -> MemoryTraffic:
    """Return the bytes that the memory moves for one aggregation of `width` columns."""
    if isinstance(memory, Cache):
        return _cached(memory, work, width)
    return _tiled(memory, work, width)


def _tiled(memory: OutputTiles, work: Aggregations, width: int) -> MemoryTraffic:
    n, nonzeros = work.vertices, work.nonzeros
    columns = np.arange(1, min(width, MOST_SLICE_WIDTHS) + 1, dtype=np.float64)
    if width > MOST_SLICE_WIDTHS:
        columns = np.append(columns, float(width))
    held = memory.output_buffer / (FEATURE_BYTES * columns)  # rows of Z
    if memory.masked:
        held = np.minimum(held, 8 * memory.mask_buffer / columns)
    window = np.floor(memory.node_buffer / (FEATURE_BYTES * columns))  # rows of H
    fits = (held >= 1) & (window >= 1)  # one column does
    columns, held, window = columns[fits], np.floor(held[fits]), window[fits]
    slices = np.ceil(width / columns)
    tiles = np.ceil(n / held)

    whole = FEATURE_BYTES * n * width  # H, or Z, once
    needed = np.ones_like(columns)  # share of H that a tile reads
    if not nonzeros:
        needed[:] = 0
    elif memory.skips != "nothing":
        rows = np.minimum(1.0 if memory.skips == "rows" else window, n)
        with np.errstate(divide="ignore"):  # where a window is all rows
            needed = -np.expm1(nonzeros / tiles * np.log1p(-rows / n))
    # A slice of H that the node buffer holds is read once, whichever tiles need it.
    features = np.where(window >= n, whole, tiles * needed * whole)
    pointers = {"csr": n * np.ceil(n / window), "csc": n * tiles, "pairs": 0 * tiles}
    matrix = memory.nonzero_bytes * nonzeros + POINTER_BYTES * pointers[memory.adjacency]
    adjacency = np.where(matrix <= memory.adjacency_buffer, matrix, slices * matrix)
    outputs = _masked_outputs(work, whole) + (0 if memory.masked else 2 * whole)
    best = int(np.argmin(features + adjacency))
    return MemoryTraffic(int(columns[best]), float(features[best]), float(adjacency[best]), outputs)


def _masked_outputs(work: Aggregations, whole: float) -> float:
    """Return the bytes of the output mask, and of the outputs that it keeps.

    `whole` is the size in bytes of all outputs.
    """
    return (work.mask_density + 1 / 32) * whole


def _cached(memory: Cache, work: Aggregations, width: int) -> MemoryTraffic:
    """Return the memory traffic of Z = A H on a processor with a cache, in the better loop order.

    If Z is computed row by row, a read finds its row of H in the cache with a probability that is
    the cached share of H. If Z is computed from one block of H after another, A and H are read
    once, and Z is read and written for every block.
    """
    n = work.vertices
    whole = FEATURE_BYTES * n * width
    unmasked = _masked_outputs(work, whole) + 2 * whole
    matrix = memory.nonzero_bytes * work.nonzeros
    missed = max(0.0, 1 - memory.cache / whole)
    by_rows = MemoryTraffic(
        width,
        whole + missed * FEATURE_BYTES * max(0.0, work.nonzeros - n) * width,
        matrix + POINTER_BYTES * n,
        unmasked,
    )
    blocks = float(np.ceil(whole / memory.cache))
    by_blocks = MemoryTraffic(
        width, whole, matrix + POINTER_BYTES * n * blocks, unmasked + 2 * (blocks - 1) * whole
    )
    return min(by_rows, by_blocks, key=lambda each: each.bytes)
