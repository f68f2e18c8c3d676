"""The population that samplers draw from, and a batch: what they draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    """All vertices in the order of the source, as far as samplers must know them.

    Attributes:
        indptr, indices (int64[num_vertices + 1], int32[num_nonzeros], or None): Pattern of the
            normalised matrix; columns are unique and ascending in every row. It may be left out
            where a sampler does not need it and no `Batch.block` is asked for.
        train_mask (bool[num_vertices], or None): Not None wherever the vertex data have one: the
            sampler `neighbour` draws the same batches from the same population only.
        clusters (int32[num_vertices], or None): Cluster of every vertex, from 0.
    """

    num_vertices: int
    indptr: npt.NDArray[np.int64] | None = None
    indices: npt.NDArray[np.int32] | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    clusters: npt.NDArray[np.int32] | None = None

    @property
    def pattern(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """``indptr, indices``; InputError if they were left out."""
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
        """The clusters that have a vertex: of the k-th, vertices ``[ptr[k]:ptr[k + 1]]``."""
        assert self.clusters is not None
        _, sizes = np.unique(self.clusters, return_counts=True)
        vertices = np.argsort(self.clusters, kind="stable").astype(np.int32)
        return np.concatenate([[0], np.cumsum(sizes)]), vertices


@dataclass(frozen=True, eq=False)
class BatchLayer:
    """The nonzeros that one layer of a batch keeps; vertices by their number in the population.

    Attributes:
        rows: int32[m], ascending.
        ptr: int64[m + 1].
        columns (int32[ptr[-1]]): Columns of row ``rows[k]`` are ``columns[ptr[k]:ptr[k + 1]]``,
            unique and ascending.
        places (int32[ptr[-1]] or None): Place of every nonzero in its whole row, columns
            ascending.
        factors (float64[ptr[-1]] or None): What the nonzeros are multiplied by, never 0. Both are
            there if the batch is `listed`.
    """

    rows: npt.NDArray[np.int32]
    ptr: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    places: npt.NDArray[np.int32] | None = None
    factors: Floats | None = None


class Batch(ABC):
    """One mini-batch: a function of sampler, population, seed and number.

    Attributes:
        num_blocks: 1: all layers use the same block; otherwise one block per layer, block 0 nearest
            the input.
        listed: Whether ranks take the nonzeros of a block from `block`, which takes no longer than
            its rows and nonzeros do; otherwise they ask for `factors` of all nonzeros between
            `vertices`.
    """

    num_blocks: int = 1
    listed: bool = False

    @abstractmethod
    def vertices(self) -> Int32s | None:
        """All that take part in any block, as row or as column, ascending: int32[m]; None: all."""

    def targets(self) -> Int32s | None:
        """Those whose output counts for the loss, likewise; None: all that take part."""
        return None

    def factors(self, block: int, vertices: Ints, rows: Ints, columns: Ints) -> Floats | None:
        """Factors of nonzeros of the matrix: 0 where the batch leaves them out.

        Parameters:
            block: In 0..num_blocks - 1.
            vertices (int[v]): Vertices of the batch; the answer means nothing for others.
            rows, columns (int[m]): Nonzero k is (``vertices[rows[k]]``, ``vertices[columns[k]]``).

        Returns:
            float64[m], or None: all are 1
        """
        return None

    @abstractmethod
    def block(self, block: int) -> BatchLayer:
        """All nonzeros of one block; needs the pattern of the population."""


class VertexBatch(Batch):
    """A batch of vertices and the subgraph that they induce."""

    def __init__(self, population: Population) -> None:
        self.population = population

    @abstractmethod
    def vertices(self) -> Int32s:
        """All vertices of the batch, ascending."""

    def block(self, block: int) -> BatchLayer:
        from plancc.sampling.kernels import induced

        indptr, indices = self.population.pattern
        rows = self.vertices()
        return BatchLayer(rows, *induced(indptr, indices, rows))


@dataclass(frozen=True, eq=False)
class Inclusion:
    """Probabilities of a sampler, where they are known: all that the expected volume needs.

    If column j takes part, a part that owns c rows which use it (row j itself apart) needs it with
    probability ``reach[c]``. So a column's expected rows moved are
    ``share * sum over the parts other than its owner of reach[c]``.

    Attributes:
        share: Probability that a vertex which may take part does.
        reach (float64[m + 1]): Concave, from 0; m is at least the most pins of any net.
        vertices (bool[num_vertices], or None): Those that may take part, with all nonzeros between
            them; None: all.
    """

    share: float
    reach: npt.NDArray[np.float64]
    vertices: npt.NDArray[np.bool_] | None = None
