"""The population that samplers draw from, and the batches that they draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError

Ints = npt.NDArray[Any]
Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Population:
    """All vertices in the order of the source, with the arrays that samplers need.

    Attributes:
        indptr, indices (int64[num_vertices + 1], int32[num_nonzeros], or None): Pattern of the
            normalised matrix; columns are unique and ascending in every row. None if the sampler
            does not need the pattern and nobody asks for a `Batch.block`.
        train_mask (bool[num_vertices], or None): Training mask; None only if the vertex data have
            no training mask. (Without a mask, the sampler `neighbour` draws other batches.)
        clusters (int32[num_vertices], or None): Cluster of every vertex, from 0.
    """

    num_vertices: int
    indptr: npt.NDArray[np.int64] | None = None
    indices: npt.NDArray[np.int32] | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    clusters: npt.NDArray[np.int32] | None = None

    @property
    def pattern(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """``indptr, indices``; InputError if the population has no pattern."""
        if self.indptr is None or self.indices is None:
            raise InputError("this sampler needs the pattern of the whole matrix")
        return self.indptr, self.indices

    @cached_property
    def training(self) -> npt.NDArray[np.int32]:
        """Training vertices, ascending; InputError if there are none."""
        if self.train_mask is None or not self.train_mask.any():
            raise InputError("the training mask holds no vertex")
        return np.flatnonzero(self.train_mask).astype(np.int32)

    @cached_property
    def listed_clusters(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The clusters with vertices: cluster k has ``vertices[ptr[k]:ptr[k + 1]]``."""
        assert self.clusters is not None
        _, sizes = np.unique(self.clusters, return_counts=True)
        vertices = np.argsort(self.clusters, kind="stable").astype(np.int32)
        return np.concatenate([[0], np.cumsum(sizes)]), vertices


@dataclass(frozen=True, eq=False)
class BatchLayer:
    """The nonzeros that one layer of a batch keeps; vertices are numbers in the population.

    Attributes:
        rows (int32[m]): Rows, ascending.
        ptr: int64[m + 1].
        columns (int32[ptr[-1]]): Columns of row ``rows[k]`` are ``columns[ptr[k]:ptr[k + 1]]``,
            unique and ascending.
        places (int32[ptr[-1]] or None): Position of every nonzero among all nonzeros of its row, in
            order of columns.
        factors (float64[ptr[-1]] or None): Factors of the nonzeros, never 0. Batches that are
            `listed` have both places and factors.
    """

    rows: npt.NDArray[np.int32]
    ptr: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    places: npt.NDArray[np.int32] | None = None
    factors: Floats | None = None


class Batch(ABC):
    """One mini-batch: a function of sampler, population, seed and number.

    Attributes:
        num_blocks: 1 if all layers use the same block, otherwise the number of layers. Block 0 is
            the block of the first layer.
        listed: Whether ranks take the nonzeros of a block from `block`, in time proportional to its
            rows and nonzeros. Otherwise they ask for `factors` of all nonzeros between `vertices`.
    """

    num_blocks: int = 1
    listed: bool = False

    @abstractmethod
    def vertices(self) -> Int32s | None:
        """Return the vertices that are rows or columns of a block, ascending, int32[m]; None for
        all."""

    def targets(self) -> Int32s | None:
        """Return the vertices with an output in the loss, ascending, int32[m]; None for all
        vertices."""
        return None

    def factors(self, block: int, vertices: Ints, rows: Ints, columns: Ints) -> Floats | None:
        """Return the batch's factor on each of some nonzeros; 0 if the batch leaves the nonzero
        out.

        Parameters:
            block: Number of a block, in 0..num_blocks - 1.
            vertices (int[v]): Vertices of the batch; factors of other vertices are undefined.
            rows, columns (int[m]): Nonzero k is (``vertices[rows[k]]``, ``vertices[columns[k]]``).

        Returns:
            float64[m], or None if all are 1
        """
        return None

    @abstractmethod
    def block(self, block: int) -> BatchLayer:
        """Return all nonzeros of one block; the population must have its pattern."""


class VertexBatch(Batch):
    """A batch of vertices, with the subgraph that they induce.

    Parameters:
        drawn: Function that returns the vertices, ascending: int32[m].
    """

    def __init__(self, population: Population, drawn: Callable[[], Int32s]) -> None:
        self.population, self._drawn = population, drawn

    def vertices(self) -> Int32s:
        return self._drawn()

    def block(self, block: int) -> BatchLayer:
        from plancc.sampling.kernels import induced

        indptr, indices = self.population.pattern
        rows = self.vertices()
        return BatchLayer(rows, *induced(indptr, indices, rows))


@dataclass(frozen=True, eq=False)
class Inclusion:
    """A sampler's probabilities, if known, from which the expected volume follows.

    Let a batch include vertex j. A part that owns c rows i != j with a nonzero in column j needs
    row j with probability ``reach[c]``. So row j is sent ``share * sum of reach[c]`` times on
    average, where the sum is over the parts that do not own row j.

    Attributes:
        share: Probability that a batch includes a given vertex of `vertices`.
        reach (float64[m + 1]): Probabilities, a concave sequence that begins with 0; m is at least
            the number of pins of every net.
        vertices (bool[num_vertices], or None): Vertices that a batch may include, together with all
            nonzeros between included vertices; None for all vertices.
    """

    share: float
    reach: npt.NDArray[np.float64]
    vertices: npt.NDArray[np.bool_] | None = None
