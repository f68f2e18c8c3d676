"""Seeds, and for every layer a sample of the neighbours that it reads. Knows pattern and mask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.fields import option
from plancc.kernel import njit
from plancc.sampling.batch import Batch, BatchLayer, Bools, Floats, Ints, Population
from plancc.sampling.counter import below, bits, first_of, key_of, marked
from plancc.sampling.kernels import diagonal, place_in
from plancc.sampling.sampler import SHOWN, SizedSampler


@dataclass(frozen=True)
class NeighbourSampler(SizedSampler):
    """Layer-wise neighbour sampling (Hamilton et al., GraphSAGE, NeurIPS 2017, algorithm 2).

    Every set of `batch_size` seeds is equally likely, among the training vertices if the population
    has a training mask. The rows of the last block are the seeds, those of every other block the
    columns of the block after it. A row keeps its diagonal, if the pattern has it, and of its d
    other columns ``min(fan-out, d)``, every set of them as likely; these are multiplied by d over
    their number, so that the expected product is that of the whole row.

    Attributes
    ----------
    batch_size : int
        Number of seeds.
    fanouts : tuple of int
        One per layer, each at least 1, the first for the layer nearest the output (the first hop
        from the seeds, as in PyG's ``num_neighbors``).
    """

    name: ClassVar[str] = "neighbour"
    needs: ClassVar[tuple[str, ...]] = ("pattern",)
    of_training: ClassVar[bool] = True

    fanouts: tuple[int, ...] = option(
        help="columns sampled per row, a number per layer, the output layer first",
        metavar="F1,F2,...",
    )

    @property
    def num_blocks(self) -> int:
        return len(self.fanouts)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.fanouts:
            raise InputError("`fanouts`: one per layer is needed")
        if min(self.fanouts) < 1:
            given = ",".join(map(str, self.fanouts))
            raise InputError(f"`fanouts` {given}: at least 1 is needed")

    def check_layers(self, num_layers: int) -> None:
        numbers, given = len(self.fanouts), ",".join(map(str, self.fanouts))
        if numbers != num_layers:
            raise InputError(
                f"`fanouts` {given} has {numbers} number{'s' * (numbers != 1)}, the model "
                f"{num_layers} layer{'s' * (num_layers != 1)}"
            )

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        key = key_of(seed, stream, number)
        seeds = first_of(self.available(population), self.batch_size, key)
        if population.train_mask is not None:
            seeds = population.training[seeds]
        return NeighbourBatch(population, seeds, self.fanouts, key)


class NeighbourBatch(Batch):
    """The nonzeros that `seeds`, ascending, read under `key`."""

    def __init__(
        self,
        population: Population,
        seeds: npt.NDArray[np.int32],
        fanouts: tuple[int, ...],
        key: np.uint64,
    ) -> None:
        self.population = population
        self.num_blocks = len(fanouts)
        self._seeds, self._fanouts, self._key = seeds, fanouts, key

    def members(self, vertices: Ints) -> Bools:
        return self._inside[vertices]

    def targets(self, vertices: Ints) -> Bools:
        return np.isin(vertices, self._seeds)

    def rows(self, block: int, vertices: Ints) -> Bools:
        rows = self._blocks[block][0].rows
        found: Bools = rows[np.searchsorted(rows, vertices).clip(max=len(rows) - 1)] == vertices
        return found

    def factors(self, block: int, vertices: Ints, rows: Ints, columns: Ints) -> Floats:
        kept, scale = self._blocks[block]
        found: Floats = _factors(vertices, rows, columns, kept.rows, kept.ptr, kept.columns, scale)
        return found

    def block(self, block: int) -> BatchLayer:
        return self._blocks[block][0]

    @cached_property
    def _blocks(self) -> list[tuple[BatchLayer, npt.NDArray[np.float64]]]:
        """Every block, and the factor of every row's nonzeros off the diagonal."""
        n = self.population.num_vertices
        indptr, indices = self.population.pattern
        blocks: list[tuple[BatchLayer, npt.NDArray[np.float64]]] = []
        rows = self._seeds
        for hop, fanout in enumerate(self._fanouts):
            key = np.uint64(bits(self._key, hop))
            ptr, columns, scale = _sampled(indptr, indices, rows, min(fanout, n), key)
            blocks.append((BatchLayer(rows, ptr, columns), scale))
            rows = marked(columns, n)
        return blocks[::-1]

    @cached_property
    def _inside(self) -> npt.NDArray[np.bool_]:
        inside = np.zeros(self.population.num_vertices, dtype=np.bool_)
        for block, _ in self._blocks:
            inside[block.rows] = inside[block.columns] = True
        return inside


@njit(cache=True, nogil=True)
def _sampled(indptr: Any, indices: Any, rows: Any, fanout: Any, key: Any) -> Any:
    """Nonzeros that `rows` keep: ptr, columns (ascending by row), degree / kept of every row.

    Subsets are drawn by Floyd's algorithm (Bentley and Floyd, CACM 1987).
    """
    most, total = np.int64(0), np.int64(0)
    for i in rows:
        nonzeros = indptr[i + 1] - indptr[i]
        most = max(most, nonzeros)
        total += min(nonzeros, fanout + 1)
    ptr = np.zeros(len(rows) + 1, dtype=np.int64)
    columns = np.empty(total, dtype=np.int32)
    scale = np.ones(len(rows), dtype=np.float64)
    is_kept = np.zeros(most, dtype=np.bool_)  # of the nonzeros of one row
    size = 0
    for k in range(len(rows)):
        i = rows[k]
        start, nonzeros = indptr[i], indptr[i + 1] - indptr[i]
        itself = diagonal(indptr, indices, i)
        degree = nonzeros - (itself < nonzeros)
        if degree <= fanout:
            columns[size : size + nonzeros] = indices[start : start + nonzeros]
            size += nonzeros
        else:
            row_key = bits(key, i)
            for m in range(fanout):
                last = degree - fanout + m
                place = below(bits(row_key, m), last + 1)
                place += place >= itself
                if is_kept[place]:
                    place = last + (last >= itself)
                is_kept[place] = True
            if itself < nonzeros:
                is_kept[itself] = True
            for a in range(nonzeros):
                if is_kept[a]:
                    columns[size] = indices[start + a]
                    size += 1
            is_kept[:nonzeros] = False
            scale[k] = degree / fanout
        ptr[k + 1] = size
    return ptr, columns[:size].copy(), scale


@njit(cache=True, nogil=True)
def _factors(
    vertices: Any, rows: Any, columns: Any, kept_rows: Any, ptr: Any, kept: Any, scale: Any
) -> Any:
    """Factors of nonzeros under a block of rows `kept_rows`, columns `kept`."""
    place = np.empty(len(vertices), dtype=np.int32)
    for v in range(len(vertices)):
        place[v] = place_in(kept_rows, vertices[v])
    factors = np.zeros(len(rows), dtype=np.float64)
    for k in range(len(rows)):
        r = place[rows[k]]
        if r == len(kept_rows):
            continue
        i, j = vertices[rows[k]], vertices[columns[k]]
        row = kept[ptr[r] : ptr[r + 1]]
        if place_in(row, j) < len(row):
            factors[k] = 1.0 if i == j else scale[r]
    return factors
