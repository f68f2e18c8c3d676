"""Clusters drawn uniformly, and the subgraph that they induce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plancc.sampling.batch import Batch, Int32s, Population, VertexBatch
from plancc.sampling.counter import first_of, key_of
from plancc.sampling.sampler import SHOWN, SizedSampler


@dataclass(frozen=True)
class ClusterSampler(SizedSampler):
    """Random clusters, with `batch_size` vertices on average; at least one.

    Every set of that many clusters is equally likely (Chiang et al., Cluster-GCN, KDD 2019, section
    3.2, "stochastic multiple partitions"). Cluster numbers that no vertex has do not count.
    """

    name: ClassVar[str] = "cluster"
    needs: ClassVar[tuple[str, ...]] = ("clusters",)

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        drawn = self._clusters_per_batch(population)
        return ClusterBatch(population, drawn, key_of(seed, stream, number))

    def batches_per_epoch(self, population: Population) -> int:
        num_clusters = len(population.listed_clusters[0]) - 1
        return -(-num_clusters // self._clusters_per_batch(population))

    def _clusters_per_batch(self, population: Population) -> int:
        num_clusters = len(population.listed_clusters[0]) - 1
        return max(1, round(self.batch_size * num_clusters / population.num_vertices))


class ClusterBatch(VertexBatch):
    """The first `drawn` clusters in the random order of `key`."""

    def __init__(self, population: Population, drawn: int, key: np.uint64) -> None:
        super().__init__(population)
        self._drawn, self._key = drawn, key

    def vertices(self) -> Int32s:
        ptr, vertices = self.population.listed_clusters
        drawn = first_of(len(ptr) - 1, self._drawn, self._key)
        return np.sort(np.concatenate([vertices[ptr[k] : ptr[k + 1]] for k in drawn]))
