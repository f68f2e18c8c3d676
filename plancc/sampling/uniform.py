"""The sampler that draws vertices uniformly; a mini-batch is the subgraph that they induce."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.sampling.batch import Batch, Inclusion, Population, VertexBatch
from plancc.sampling.counter import first_of, key_of
from plancc.sampling.sampler import SHOWN, SizedSampler


@dataclass(frozen=True)
class UniformSampler(SizedSampler):
    """A mini-batch has `batch_size` random vertices; all such sets are equally likely.

    This is the sampler of Demirci et al. 2022, section 4.3.3.
    """

    name: ClassVar[str] = "uniform"

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        key = key_of(seed, stream, number)
        return VertexBatch(
            population, partial(first_of, population.num_vertices, self.batch_size, key)
        )

    def inclusion(self, population: Population, most_pins: int) -> Inclusion:
        n = self.available(population)
        return Inclusion(self.batch_size / n, reach_of_sets(n, self.batch_size, most_pins))


def reach_of_sets(n: int, size: int, most: int) -> npt.NDArray[np.float64]:
    """Return `Inclusion.reach`, float64[most + 1], for mini-batches of `size` random vertices of n.

    Entry c is the probability that a mini-batch with a given vertex also has at least one of c
    other given vertices:

        1 - C(n - 1 - c, size - 1) / C(n - 1, size - 1)
    """
    others = np.maximum(n - 1 - np.arange(most), 1)  # vertices from which the next of c is drawn
    with np.errstate(divide="ignore"):
        outside = np.log1p(-np.minimum((size - 1) / others, 1.0))  # if earlier ones are outside
    return -np.expm1(np.concatenate([[0.0], np.cumsum(outside)]))
