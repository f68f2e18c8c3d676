"""Training vertices drawn uniformly, and the subgraph that they induce."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from plancc.sampling.batch import Batch, Inclusion, Int32s, Population
from plancc.sampling.counter import first_of, key_of
from plancc.sampling.sampler import SHOWN
from plancc.sampling.uniform import UniformBatch, UniformSampler


@dataclass(frozen=True)
class TrainSampler(UniformSampler):
    """Every set of `batch_size` training vertices is equally likely."""

    name: ClassVar[str] = "train"
    needs: ClassVar[tuple[str, ...]] = ("train_mask",)
    of_training: ClassVar[bool] = True

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        return TrainBatch(population, self.batch_size, key_of(seed, stream, number))

    def inclusion(self, population: Population, most_pins: int) -> Inclusion:
        return replace(super().inclusion(population, most_pins), vertices=population.train_mask)


class TrainBatch(UniformBatch):
    """The first `size` training vertices in the random order of `key`."""

    def vertices(self) -> Int32s:
        training = self.population.training
        return training[first_of(len(training), self._size, self._key)]
