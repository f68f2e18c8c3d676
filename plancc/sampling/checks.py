"""Batches of third parties' samplers, checked where compiler and runtime draw them."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.sampling.batch import Batch, BatchLayer, Floats, Int32s, Ints, Population
from plancc.sampling.sampler import SAMPLERS, SHOWN, Sampler
from plancc.text import shown


def draw(
    sampler: Sampler, population: Population, seed: int, number: int, stream: int = SHOWN
) -> Batch:
    """Draw a batch as `Sampler.batch` does; a third party's checks what it answers.

    Raises:
        InputError: If the sampler refuses; or where a third party's batch, now or when it is asked,
            gives what `plancc.sampling.Batch` does not allow.
    """
    batch = sampler.batch(population, seed, number, stream)
    if type(sampler).__module__.startswith("plancc.sampling."):
        return batch
    return CheckedBatch(sampler, population, batch, number)


class CheckedBatch(Batch):
    """A batch that raises InputError for wrong answers, in the time that reading them takes.

    Parameters:
        number: Of the batch, for messages.
    """

    def __init__(self, sampler: Sampler, population: Population, batch: Batch, number: int) -> None:
        self._population, self._batch = population, batch
        self._who = f"{SAMPLERS.words_of(sampler.name)}, batch {number}"
        self._require(isinstance(batch, Batch), "`batch()` must be a plancc.sampling.Batch", batch)
        self.num_blocks, self.listed = batch.num_blocks, batch.listed
        same = self.num_blocks == sampler.num_blocks
        self._require(
            same, f"`num_blocks` must be the sampler's, {sampler.num_blocks}", self.num_blocks
        )
        of_pattern = not self.listed or "pattern" in sampler.needs
        self._require(
            of_pattern, '`listed` needs "pattern" in `needs` of the sampler', sampler.needs
        )
        self._vertices, self._targets = batch.vertices(), batch.targets()
        for name, found in (("vertices", self._vertices), ("targets", self._targets)):
            if found is not None:
                self._require_vertices(name, found, ", or None")
                self._require_inside(name, found)

    def vertices(self) -> Int32s | None:
        return self._vertices

    def targets(self) -> Int32s | None:
        return self._targets

    def factors(self, block: int, vertices: Ints, rows: Ints, columns: Ints) -> Floats | None:
        found, size = self._batch.factors(block, vertices, rows, columns), len(rows)
        self._require(
            found is None or (_is(found, np.float64, size) and _are_finite(found)),
            f"`factors` must be float64[{size}], one finite number per nonzero, or None",
            found,
        )
        return found

    def block(self, block: int) -> BatchLayer:
        layer = self._batch.block(block)
        what = "`block()` must be a plancc.sampling.BatchLayer"
        self._require(isinstance(layer, BatchLayer), what, layer)
        rows, ptr, columns = layer.rows, layer.ptr, layer.columns
        self._require_vertices("rows", rows)
        self._require(
            _is(ptr, np.int64, len(rows) + 1) and ptr[0] == 0 and bool((np.diff(ptr) >= 0).all()),
            "`ptr` of a block must be int64[rows + 1], ascending from 0",
            ptr,
        )
        self._require(
            _is(columns, np.int32, ptr[-1]) and self._are_vertices(columns, ptr[1:-1]),
            f"`columns` of a block must be int32[ptr[-1]], strictly ascending numbers "
            f"{self._range} in every row",
            columns,
        )
        self._require_inside("rows", rows)
        self._require_inside("columns", columns)
        if self.listed:
            self._require_places(layer)
        return layer

    def _require_places(self, layer: BatchLayer) -> None:
        places, factors, size = layer.places, layer.factors, len(layer.columns)
        indptr, indices = self._population.pattern
        right = _is(places, np.int32, size)
        if right:
            assert places is not None
            rows = np.repeat(layer.rows, np.diff(layer.ptr))
            right = bool(((places >= 0) & (places < indptr[rows + 1] - indptr[rows])).all())
            right = right and np.array_equal(indices[indptr[rows] + places], layer.columns)
        what = "of a `listed` batch must be int32[columns], places of columns in their rows"
        self._require(right, f"`places` {what} of the pattern", places)
        self._require(
            _is(factors, np.float64, size) and _are_finite(factors, but=0.0),
            "`factors` of a `listed` batch must be float64[columns], finite and not 0",
            factors,
        )

    @property
    def _range(self) -> str:
        return f"in 0..{self._population.num_vertices - 1}"

    def _are_vertices(self, found: Int32s, starts: Ints | None = None) -> bool:
        """Whether they are, and ascend; but from each of `starts` on anew."""
        ascend = np.diff(found) > 0
        if starts is not None:
            ascend[starts[(starts > 0) & (starts < len(found))] - 1] = True
        inside = (found >= 0) & (found < self._population.num_vertices)
        return bool(ascend.all() and inside.all())

    def _require_vertices(self, name: str, found: Any, otherwise: str = "") -> None:
        needed = f"an int32 array of strictly ascending numbers {self._range}{otherwise}"
        right = _is(found, np.int32) and self._are_vertices(found)
        self._require(right, f"`{name}` must be {needed}", found)

    def _require_inside(self, name: str, found: Any) -> None:
        members = self._vertices
        if members is not None:
            right = bool(np.isin(found, members).all())
            self._require(right, f"`{name}` must be among its `vertices`", found)

    def _require(self, right: bool, needed: str, found: Any) -> None:
        if not right:
            got = shown(reprlib.repr(found))
            if isinstance(found, np.ndarray):
                some = np.array2string(found, threshold=6)
                got = f"{found.dtype}{list(found.shape)} {shown(some)}"
            raise InputError(f"{self._who}: {needed}; it is {got}")


def _is(found: Any, dtype: npt.DTypeLike, size: int | None = None) -> bool:
    """Whether it is an array of one dimension."""
    right = isinstance(found, np.ndarray) and found.dtype == dtype and found.ndim == 1
    return right and size in (None, len(found))


def _are_finite(factors: Any, but: float = np.nan) -> bool:
    return bool((np.isfinite(factors) & (factors != but)).all())
