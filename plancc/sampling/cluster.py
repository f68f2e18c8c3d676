"""The sampler that draws clusters uniformly; a mini-batch is the subgraph of their vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plancc.sampling.batch import Batch, Int32s, Population, VertexBatch
from plancc.sampling.counter import first_of, key_of
from plancc.sampling.sampler import SHOWN, SizedSampler


@dataclass(frozen=True)
class ClusterSampler(SizedSampler):
    """A mini-batch has all vertices of some random clusters, about `batch_size` on average.

    Every mini-batch has the same number of clusters, at least one. All sets of this many clusters
    are equally likely (Chiang et al., Cluster-GCN, KDD 2019, section 3.2, "stochastic multiple
    partitions"). Clusters without vertices are never drawn.
    """

    name: ClassVar[str] = "cluster"
    needs: ClassVar[tuple[str, ...]] = ("clusters",)

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        size, key = self._clusters_per_batch(population), key_of(seed, stream, number)

        def drawn() -> Int32s:
            ptr, vertices = population.listed_clusters
            clusters = first_of(len(ptr) - 1, size, key)
            return np.sort(np.concatenate([vertices[ptr[k] : ptr[k + 1]] for k in clusters]))

        return VertexBatch(population, drawn)

    def batches_per_epoch(self, population: Population) -> int:
        num_clusters = len(population.listed_clusters[0]) - 1
        return -(-num_clusters // self._clusters_per_batch(population))

    def _clusters_per_batch(self, population: Population) -> int:
        num_clusters = len(population.listed_clusters[0]) - 1
        return max(1, round(self.batch_size * num_clusters / population.num_vertices))
