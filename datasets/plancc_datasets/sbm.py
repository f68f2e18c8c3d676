"""Stochastic block model with features: communities that a GNN can learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.fields import check_options, option
from plancc.graph.canonical import build_graph
from plancc.graph.graph import MAX_VERTICES
from plancc.graph.vertexdata import VertexData
from plancc_datasets.dataset import COUNT, SHARE, Dataset, describe, seed_option, split_masks


@dataclass(frozen=True)
class Sbm:
    """Undirected graph whose vertices form blocks; edges are more likely within a block.

    Two vertices of one block are joined with probability `p_in`, two vertices of different blocks
    with probability `p_out`. Block k holds the vertices ``k * size .. (k + 1) * size - 1``; a
    vertex's label is its block. The features of a vertex are the random mean of its block plus
    `noise` times a standard normal vector. Masks: 20 % train, 20 % validation, 60 % test.
    """

    blocks: int = option(8, "number of blocks", **COUNT)
    size: int = option(256, "vertices per block", **COUNT)
    p_in: float = option(0.05, "probability of an edge within a block", **SHARE)
    p_out: float = option(0.002, "probability of an edge between blocks", **SHARE)
    num_features: int = option(32, "features per vertex", at_least=1, at_most=65536)
    noise: float = option(1.0, "deviation of features", at_least=0, at_most=1e6, python_only=True)
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        n = self.blocks * self.size
        if n > MAX_VERTICES:
            raise InputError(
                f"options 'blocks' and 'size' make '{n}' vertices; the limit is {MAX_VERTICES}"
            )
        rng = np.random.default_rng(self.seed)
        inner_pairs = self.blocks * (self.size * (self.size - 1) // 2)
        outer_pairs = n * (n - 1) // 2 - inner_pairs
        inner = _sample(rng, inner_pairs, self.p_in)
        outer = _sample(rng, outer_pairs, self.p_out)
        row, col = self._ends(inner, outer)
        graph = build_graph(n, row, col, symmetrize=True, source=describe(self))
        labels = np.repeat(np.arange(self.blocks, dtype=np.int32), self.size)
        means = rng.standard_normal((self.blocks, self.num_features), dtype=np.float32)
        features = rng.standard_normal((n, self.num_features), dtype=np.float32)
        features *= np.float32(self.noise)
        features += means[labels]
        return Dataset(graph, VertexData(features, labels, **split_masks(labels, rng)))

    def _ends(
        self, inner: npt.NDArray[np.int64], outer: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return both vertices of the pairs with these numbers.

        `inner` numbers pairs within a block, block by block. `outer` numbers pairs between blocks,
        one pair of blocks after the other.
        """
        per_block = max(self.size * (self.size - 1) // 2, 1)
        low, high = _pair(inner % per_block)
        start = inner // per_block * self.size
        first, second = _pair(outer // self.size**2)
        place = outer % self.size**2
        row = np.concatenate([start + low, first * self.size + place // self.size])
        col = np.concatenate([start + high, second * self.size + place % self.size])
        return row, col


def _pair(number: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the pairs (low, high) with these numbers: (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    high = ((1 + np.sqrt(8 * number.astype(np.float64) + 1)) / 2).astype(np.int64)
    high += (high + 1) * high // 2 <= number  # the square root may be off by one
    high -= high * (high - 1) // 2 > number
    return number - high * (high - 1) // 2, high


def _sample(rng: np.random.Generator, population: int, p: float) -> npt.NDArray[np.int64]:
    """Draw distinct numbers below `population`, each with probability `p`, in O(drawn) memory."""
    count = int(rng.binomial(population, p)) if population else 0
    if count == population:
        return np.arange(population, dtype=np.int64)
    left_out = count > population // 2  # then it is quicker to draw the numbers that are left out
    wanted = population - count if left_out else count
    taken = np.unique(rng.integers(0, population, wanted))
    while len(taken) < wanted:
        more = rng.integers(0, population, 2 * (wanted - len(taken)) + 16)
        fresh = np.setdiff1d(more, taken)
        fresh = rng.permutation(fresh)[: wanted - len(taken)]
        taken = np.union1d(taken, fresh)
    if left_out:
        kept = np.ones(population, np.bool_)
        kept[taken] = False
        return np.flatnonzero(kept)
    return taken
