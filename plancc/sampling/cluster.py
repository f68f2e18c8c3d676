"""Clusters drawn uniformly, and the subgraph that they induce. Knows no clustering algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.sampling.batch import Batch, Bools, Ints, Population, VertexBatch
from plancc.sampling.counter import first_of, key_of
from plancc.sampling.sampler import SHOWN, SizedSampler


@dataclass(frozen=True)
class ClusterSampler(SizedSampler):
    """Random clusters: as many as have `batch_size` vertices on average, at least one.

    Every set of that many clusters is equally likely (Chiang et al., Cluster-GCN, KDD 2019, section
    3.2, "stochastic multiple partitions"). Cluster numbers that no vertex has do not count.
    """

    name: ClassVar[str] = "cluster"
    needs: ClassVar[tuple[str, ...]] = ("clusters",)

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        drawn = self._clusters_per_batch(population)
        return ClusterBatch(population, drawn, key_of(seed, stream, number))

    def batches_per_epoch(self, population: Population) -> int:
        num_clusters, _ = population.numbered_clusters
        return -(-num_clusters // self._clusters_per_batch(population))

    def _clusters_per_batch(self, population: Population) -> int:
        num_clusters, _ = population.numbered_clusters
        return max(1, round(self.batch_size * num_clusters / population.num_vertices))


class ClusterBatch(VertexBatch):
    """The first `drawn` clusters in the random order of `key`."""

    def __init__(self, population: Population, drawn: int, key: np.uint64) -> None:
        super().__init__(population)
        num_clusters, self._cluster_of = population.numbered_clusters
        self._drawn = np.zeros(num_clusters, dtype=np.bool_)
        self._drawn[first_of(num_clusters, drawn, key)] = True

    def members(self, vertices: Ints) -> Bools:
        return self._drawn[self._cluster_of[vertices]]

    def vertices(self) -> npt.NDArray[np.int32]:
        return np.flatnonzero(self._drawn[self._cluster_of]).astype(np.int32)
