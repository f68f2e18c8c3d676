"""The sampler that draws training vertices uniformly.

A mini-batch is the subgraph that the drawn vertices induce.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from plancc.sampling.batch import Batch, Inclusion, Int32s, Population, VertexBatch
from plancc.sampling.counter import first_of, key_of
from plancc.sampling.sampler import SHOWN
from plancc.sampling.uniform import UniformSampler


@dataclass(frozen=True)
class TrainSampler(UniformSampler):
    """A mini-batch has `batch_size` random training vertices; all such sets are equally likely."""

    name: ClassVar[str] = "train"
    needs: ClassVar[tuple[str, ...]] = ("train_mask",)
    of_training: ClassVar[bool] = True

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        key = key_of(seed, stream, number)

        def drawn() -> Int32s:
            training = population.training
            return training[first_of(len(training), self.batch_size, key)]

        return VertexBatch(population, drawn)

    def inclusion(self, population: Population, most_pins: int) -> Inclusion:
        return replace(super().inclusion(population, most_pins), vertices=population.train_mask)
