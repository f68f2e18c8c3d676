"""Training vertices drawn uniformly, and the subgraph that they induce. Knows the mask only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plancc.sampling.batch import Batch, Inclusion, Population, VertexBatch
from plancc.sampling.counter import among_first, first_of, key_of
from plancc.sampling.sampler import SHOWN, Sampler, check_batch_size
from plancc.sampling.uniform import reach_of_sets


@dataclass(frozen=True)
class TrainSampler(Sampler):
    """Every set of `batch_size` training vertices is equally likely.

    Attributes
    ----------
    batch_size : int
        In 1..training vertices.
    """

    name: ClassVar[str] = "train"
    needs: ClassVar[tuple[str, ...]] = ("train_mask",)
    of_training: ClassVar[bool] = True

    batch_size: int

    def check(self, population: Population) -> None:
        super().check(population)
        check_batch_size(self.batch_size, len(population.training), "training vertices")

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        return TrainBatch(population, self.batch_size, key_of(seed, stream, number))

    def inclusion(self, population: Population, most_pins: int) -> Inclusion:
        available = len(population.training)
        reach = reach_of_sets(available, self.batch_size, most_pins)
        return Inclusion(self.batch_size / available, reach, population.train_mask)

    def batches_per_epoch(self, population: Population) -> int:
        return -(-len(population.training) // self.batch_size)


class TrainBatch(VertexBatch):
    """The first `size` training vertices in the random order of `key`."""

    def __init__(self, population: Population, size: int, key: np.uint64) -> None:
        super().__init__(population)
        self._size, self._key = size, key

    def members(self, vertices: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        training = self.population.training
        assert self.population.train_mask is not None
        inside = self.population.train_mask[vertices]
        places = np.searchsorted(training, vertices[inside])
        inside[inside] = among_first(places, len(training), self._size, self._key)
        return inside

    def vertices(self) -> npt.NDArray[np.int32]:
        training = self.population.training
        return training[first_of(len(training), self._size, self._key)]
