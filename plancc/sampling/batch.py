"""`Population`, from which samplers draw, and `Batch`, which they draw."""

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
    """All vertices, in the order of the graph's source, with the arrays that samplers need.

    Attributes:
        indptr, indices (int64[num_vertices + 1], int32[num_nonzeros], or None): Pattern of the
            normalised matrix, columns ascending; None if the sampler does not need it.
        train_mask (bool[num_vertices], or None): Training mask, if the vertex data has a mask.
        clusters (int32[num_vertices], or None): Cluster of every vertex; clusters count from 0.
    """

    num_vertices: int
    indptr: npt.NDArray[np.int64] | None = None
    indices: npt.NDArray[np.int32] | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    clusters: npt.NDArray[np.int32] | None = None

    @property
    def pattern(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The pair ``indptr, indices``; InputError if the population has no pattern."""
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
        """The vertices of every cluster, as two arrays (ptr, vertices).

        The k-th cluster that has vertices has ``vertices[ptr[k]:ptr[k + 1]]``.
        """
        assert self.clusters is not None
        _, sizes = np.unique(self.clusters, return_counts=True)
        vertices = np.argsort(self.clusters, kind="stable").astype(np.int32)
        return np.concatenate([[0], np.cumsum(sizes)]), vertices


@dataclass(frozen=True, eq=False)
class BatchLayer:
    """The nonzeros that a mini-batch keeps in one network layer. Rows and columns are vertices.

    Attributes:
        rows (int32[m]): Rows, ascending.
        ptr (int64[m + 1]), columns (int32[ptr[-1]]): Unique and ascending columns of every row: row
            ``rows[k]`` keeps ``columns[ptr[k]:ptr[k + 1]]``.
        places (int32[ptr[-1]] or None): Position of every kept nonzero in the matrix's row.
        factors (float64[ptr[-1]] or None): Number by which the value of every kept nonzero is
            multiplied, never 0. In a batch that is `listed`, neither `places` nor `factors` may be
            None.
    """

    rows: npt.NDArray[np.int32]
    ptr: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    places: npt.NDArray[np.int32] | None = None
    factors: Floats | None = None


class Batch(ABC):
    """One mini-batch; a block is the matrix that a layer of the batch uses.

    Attributes:
        num_blocks: 1 if all layers share a block, otherwise the number of layers.
        listed: If True, ranks call `block`, which must take time in proportion to the nonzeros that
            it returns. If False, they call `factors` with all nonzeros between `vertices`.
    """

    num_blocks: int = 1
    listed: bool = False

    @abstractmethod
    def vertices(self) -> Int32s | None:
        """Return the vertices that are rows or columns of a block, ascending, int32[m].

        None if these are all vertices."""

    def targets(self) -> Int32s | None:
        """Return the vertices whose outputs enter the loss, ascending, int32[m].

        None if these are all vertices."""
        return None

    def factors(self, block: int, vertices: Ints, rows: Ints, columns: Ints) -> Floats | None:
        """Return the factors of the given nonzeros, float64[m], or None if all are 1.

        The factor is 0 if the batch leaves the nonzero out.

        Parameters:
            vertices (int[v]): Vertices, which must all be in the batch.
            rows, columns (int[m]): Row and column of every nonzero, as indices in `vertices`.
        """
        return None

    @abstractmethod
    def block(self, block: int) -> BatchLayer:
        """Return all nonzeros of the block with this index; the population must have a pattern."""


class VertexBatch(Batch):
    """A mini-batch of vertices and all nonzeros between them.

    `drawn` returns the vertices, int32[m], ascending.
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
    """Probabilities that a batch of a sampler includes a vertex, and that a part needs its row.

    A part that has c rows with a nonzero in column j, but not row j, needs row j with probability
    ``reach[c]`` if the batch includes j.

    Attributes:
        share: Probability that a batch includes vertex j, equal for all j in `vertices`.
        reach (float64[m + 1]): Concave, begins with 0. No net has more than m pins, so c <= m.
        vertices (bool[num_vertices], or None): Whether a batch may include a vertex; None: all. A
            batch keeps all nonzeros between its vertices.
    """

    share: float
    reach: npt.NDArray[np.float64]
    vertices: npt.NDArray[np.bool_] | None = None
