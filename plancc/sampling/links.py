"""The sampler for link prediction: it draws training links, and neighbours of their ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plancc.errors import InputError
from plancc.fields import option
from plancc.sampling.batch import Batch, Population
from plancc.sampling.counter import key_of, random_order
from plancc.sampling.negatives import Int64Array
from plancc.sampling.neighbour import NeighbourSampler
from plancc.sampling.sampler import SHOWN

ORDER_KEY = 3
"""Last number in the keys (`key_of`) of the random orders of links and of negatives."""


@dataclass(frozen=True)
class LinkSampler(NeighbourSampler):
    """Neighbour sampling whose seed vertices are the ends of training links, as DGL does it.

    A mini-batch has `batch_size` training links and, for each of them, `negatives` negatives:
    random pairs of vertices. Every epoch puts the links and the negatives in a new random order,
    and the mini-batches of the epoch take them in this order. Only the owner of a row draws the
    neighbours of the row.

    Attributes:
        num_links: Number of training links.
        negatives: Number of negatives for each link.
    """

    owners_draw: ClassVar[str] = "ends of links"

    num_links: int = option(0, internal=True)
    negatives: int = option(1, internal=True)

    def available(self, population: Population) -> int:
        return self.num_links

    def num_targets(self, population: Population, training: int) -> int | None:
        return None

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        raise InputError(f"sampler '{self.name}': for links, one rank cannot draw alone")

    def numbers(self, seed: int, number: int) -> tuple[Int64Array, Int64Array, int]:
        """Return the indices of links and of negatives in mini-batch `number`, and its epoch."""
        epoch, place = divmod(number, -(-self.num_links // self.batch_size))
        first = place * self.batch_size
        last = min(first + self.batch_size, self.num_links)
        links, negatives = (
            random_order(k * self.num_links, k * first, k * last, key_of(seed, epoch, ORDER_KEY, k))
            for k in (1, self.negatives)
        )
        return links, negatives, epoch

    def _too_large(self, population: Population) -> str:
        return f"`batch_size` {self.batch_size}: there are only {self.num_links} training links"
