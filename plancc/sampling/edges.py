"""The sampler whose mini-batches have all vertices, but only a random subset of the nonzeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from plancc.errors import InputError
from plancc.fields import option
from plancc.kernel import njit
from plancc.sampling.batch import Batch, BatchLayer, Floats, Inclusion, Ints, Population
from plancc.sampling.counter import bits, key_of, unit
from plancc.sampling.sampler import SHOWN, Sampler


@dataclass(frozen=True)
class EdgeSampler(Sampler):
    """A mini-batch keeps edges independently with probability `keep` (DropEdge, Rong et al. 2020).

    An edge is a nonzero off the diagonal; (i, j) and (j, i) are two edges. A kept nonzero
    is divided by `keep`, so that the expected product equals the product with the whole matrix.
    Nonzeros on the diagonal are always kept, and are not divided.

    Attributes:
        keep: Probability, above 0 and at most 1.
    """

    name: ClassVar[str] = "edges"

    keep: float = option(help="share of nonzeros that are kept", metavar="P")

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise InputError(f"`keep` {self.keep}: must be above 0 and at most 1")

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        return EdgeBatch(population, self.keep, key_of(seed, stream, number))

    def inclusion(self, population: Population, most_pins: int) -> Inclusion:
        pins = np.arange(most_pins + 1, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # keep may be 1
            reach = -np.expm1(pins * np.log1p(-self.keep))
        return Inclusion(1.0, np.where(pins > 0, reach, 0.0))


class EdgeBatch(Batch):
    """A mini-batch of `EdgeSampler`, which keeps nonzeros whose random number is below `keep`."""

    def __init__(self, population: Population, keep: float, key: np.uint64) -> None:
        self.population = population
        self._keep, self._key = float(keep), key

    def vertices(self) -> None:
        return None

    def factors(self, block: int, vertices: Ints, rows: Ints, columns: Ints) -> Floats:
        found: Floats = _factors(vertices, rows, columns, self._keep, self._key)
        return found

    def block(self, block: int) -> BatchLayer:
        rows = np.arange(self.population.num_vertices, dtype=np.int32)
        return BatchLayer(rows, *_kept(*self.population.pattern, self._keep, self._key))


@njit(cache=True, nogil=True)
def _is_kept(row_key: Any, i: Any, j: Any, keep: float) -> Any:
    return i == j or unit(bits(row_key, j)) < keep


@njit(cache=True, nogil=True)
def _factors(vertices: Any, rows: Any, columns: Any, keep: float, key: Any) -> Any:
    factors = np.zeros(len(rows), dtype=np.float64)
    for k in range(len(rows)):
        i, j = vertices[rows[k]], vertices[columns[k]]
        # the mean of a kept edge must be its value: scale by 1 / keep; a diagonal is always kept
        if _is_kept(bits(key, i), i, j, keep):
            factors[k] = 1.0 if i == j else 1.0 / keep
    return factors


@njit(cache=True, nogil=True)
def _kept(indptr: Any, indices: Any, keep: float, key: Any) -> Any:
    """Return the kept nonzeros of all rows: offsets of the rows, and columns."""
    ptr = np.zeros(len(indptr), dtype=np.int64)
    columns = np.empty(len(indices), dtype=np.int32)
    size = 0
    for i in range(len(indptr) - 1):
        row_key = bits(key, i)
        for a in range(indptr[i], indptr[i + 1]):
            # kept, or overwritten by the next column
            columns[size] = indices[a]
            size += _is_kept(row_key, i, indices[a], keep)
        ptr[i + 1] = size
    return ptr, columns[:size].copy()
