"""Checks that a sampler does what the compiler and the runtime rely on to draw mini-batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from plancc.errors import InputError
from plancc.fields import options_of
from plancc.models.stochastic import StochasticModel
from plancc.sampling import (
    FITTED,
    HELD_OUT,
    SAMPLERS,
    SHOWN,
    Batch,
    Population,
    Sampler,
    draw,
    make_sampler,
    parse_sampler,
)
from plancc.testing import documented, taken

VERTICES, TRAINING = 30, 20
"""Number of vertices on which samplers are tested, and number in the training mask."""
BATCHES = 1000
"""Number of batches whose mean volume is compared with the expected volume."""


def pattern_of(density: float) -> npt.NDArray[np.bool_]:
    """Return a random directed pattern, bool[VERTICES, VERTICES]; `density` is the share of True.

    One row is empty, one column is empty, and one vertex is isolated.
    """
    pattern = np.random.default_rng(0).random((VERTICES, VERTICES)) < density
    pattern[1] = pattern[:, 2] = pattern[3] = pattern[:, 3] = False
    return pattern


def population_of(pattern: npt.NDArray[np.bool_]) -> Population:
    """Return a population that has this pattern, a training mask and 15 clusters."""
    rows, columns = np.nonzero(pattern)
    ptr, place = np.searchsorted(rows, np.arange(VERTICES + 1)), np.arange(VERTICES)
    clusters = (7 * (place % 15)).astype(np.int32)
    return Population(VERTICES, ptr, columns.astype(np.int32), place % 3 < 2, clusters)


def kept_by(batch: Batch, k: int) -> set[tuple[int, int]]:
    """Check the arrays of block k of a mini-batch; return its nonzeros as pairs (row, column)."""
    block = batch.block(k)
    assert (block.rows.dtype, block.columns.dtype) == (np.int32, np.int32)
    assert block.ptr.dtype == np.int64
    assert (block.ptr[0], block.ptr[-1]) == (0, len(block.columns))
    assert (np.diff(block.rows) > 0).all()
    rows = np.repeat(block.rows, np.diff(block.ptr))
    kept = list(zip(rows.tolist(), block.columns.tolist(), strict=True))
    assert kept == sorted(set(kept))
    return set(kept)


def members_of(batch: Batch, n: int) -> npt.NDArray[np.int32]:
    """Return the vertices of a mini-batch, ascending; the graph has `n` vertices."""
    found = batch.vertices()
    return np.arange(n, dtype=np.int32) if found is None else found


def factors_of(
    batch: Batch, block: int, vertices: Any, rows: Any, columns: Any
) -> npt.NDArray[np.float64]:
    """Return the factors of nonzeros, as `Batch.factors` does.

    This function also works for a mini-batch that lists its nonzeros.
    """
    if not batch.listed:
        factors = batch.factors(block, vertices, rows, columns)
        return np.ones(len(rows)) if factors is None else factors
    layer = batch.block(block)
    assert layer.factors is not None
    of_rows = np.repeat(layer.rows, np.diff(layer.ptr)).tolist()
    listed = zip(of_rows, layer.columns.tolist(), strict=True)
    known = dict(zip(listed, layer.factors.tolist(), strict=True))
    asked = zip(vertices[rows].tolist(), vertices[columns].tolist(), strict=True)
    return np.array([known.get(nonzero, 0.0) for nonzero in asked], np.float64)


class SamplerTests:
    """Tests of a sampler. Inherit from this class, and set `name`.

    Attributes:
        name: Name of the sampler in `plancc.sampling.SAMPLERS`.
        options: Options for `VERTICES` vertices, `TRAINING` of which are training vertices.
        varies: Whether 27 mini-batches that are drawn with these options all differ.
    """

    name: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    varies: ClassVar[bool] = True

    @pytest.fixture
    def sampler(self) -> Sampler:
        return make_sampler(self.name, VERTICES, TRAINING, **self.options)

    def test_declaration(self, sampler: Sampler) -> None:
        """The sampler has a docstring, and its string gives the same sampler when it is parsed."""
        assert type(sampler) is SAMPLERS[self.name]
        assert sampler.name == self.name
        assert documented(type(sampler))
        read = parse_sampler(str(sampler))
        assert (read, hash(read)) == (sampler, hash(sampler))
        with pytest.raises(InputError, match="not_an_option"):
            make_sampler(self.name, VERTICES, not_an_option=1)

    def test_option_names(self, sampler: Sampler) -> None:
        """No option has the name of a parameter of `plancc.compile`, or of an option of
        `StochasticModel`.
        """
        of_batches = {each.name for each in options_of(StochasticModel)}
        assert not {each.name for each in options_of(sampler)} & (taken() | of_batches)

    def test_population(self, sampler: Sampler) -> None:
        """`check` raises an error if the population lacks data that the sampler needs."""
        population = population_of(pattern_of(0.2))
        sampler.check(population)
        assert sampler.batches_per_epoch(population) >= 1
        for need in sampler.needs:
            missing: dict[str, Any] = {"indptr" if need == "pattern" else need: None}
            with pytest.raises(InputError, match=f"'{self.name}' needs {need}"):
                sampler.check(replace(population, **missing))

    def test_seed_stream_and_number_say_which_batch(self, sampler: Sampler) -> None:
        """A mini-batch depends neither on the sampler object nor on earlier draws."""
        population = population_of(pattern_of(0.3))

        def drawn(sampler: Sampler, *which: int) -> tuple[Any, ...]:
            batch = draw(sampler, population, *which)
            return tuple(frozenset(kept_by(batch, k)) for k in range(batch.num_blocks))

        which = list(product((0, 1, 7), range(3), (SHOWN, FITTED, HELD_OUT)))
        found = [drawn(sampler, *each) for each in which]
        another = make_sampler(self.name, VERTICES, TRAINING, **self.options)
        assert [drawn(another, *each) for each in which[::-1]] == found[::-1]
        assert drawn(sampler, 0, 0) == found[0]
        assert not self.varies or len(set(found)) == len(found)
        with pytest.raises(InputError, match="seed -1"):
            sampler.batch(population, -1, 0)

    @pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
    def test_a_batch_agrees_with_itself(self, sampler: Sampler, density: float) -> None:
        """Blocks, vertices, targets and factors of a mini-batch do not contradict each other."""
        pattern, rng = pattern_of(density), np.random.default_rng(1)
        vertices = rng.permutation(VERTICES).astype(np.int32)
        for number in range(3):
            population = population_of(pattern)
            batch = draw(sampler, population, 4, number)
            assert batch.num_blocks == sampler.num_blocks
            members = members_of(batch, VERTICES)
            assert members.dtype == np.int32
            inside = vertices[np.isin(vertices, members)]
            among = np.argwhere(pattern[np.ix_(inside, inside)]).astype(np.int32)
            rows, columns = rng.permutation(among).T
            touched: set[int] = set()
            for k in range(batch.num_blocks):
                kept, factors = kept_by(batch, k), factors_of(batch, k, inside, rows, columns)
                assert factors.dtype == np.float64
                ends = inside[rows[factors != 0]], inside[columns[factors != 0]]
                assert kept == set(zip(*(each.tolist() for each in ends), strict=True))
                layer = batch.block(k)
                touched |= set(layer.rows.tolist()) | {j for _, j in kept}
                if batch.listed:
                    ptr, indices = population.pattern
                    assert layer.places is not None
                    at = np.repeat(ptr[layer.rows], np.diff(layer.ptr)) + layer.places
                    assert np.array_equal(indices[at], layer.columns)
            assert members.tolist() == sorted(touched)
            targets = batch.targets()
            assert layer.rows.tolist() == (members if targets is None else targets).tolist()

    @pytest.mark.parametrize("density", [0.1, 0.5])
    def test_probabilities_are_those_of_batches(self, sampler: Sampler, density: float) -> None:
        """The expected volume is within four standard errors of the mean of many mini-batches."""
        pattern = pattern_of(density)
        population, most = population_of(pattern), int(pattern.sum(axis=0).max())
        inclusion = sampler.inclusion(population, most)
        if inclusion is None:
            pytest.skip("its probabilities are not known")
        reach, owner = inclusion.reach, np.random.default_rng(3).integers(0, 4, VERTICES)
        assert len(reach) > most
        assert reach[0] == 0
        assert (np.diff(reach) >= 0).all()
        assert (np.diff(reach, 2) <= 1e-12).all()
        may = np.ones(VERTICES, bool) if inclusion.vertices is None else inclusion.vertices
        expected = 0.0
        for j in np.flatnonzero(may):
            users = np.bincount(owner[pattern[:, j] & may & (owner != owner[j])], minlength=4)
            expected += inclusion.share * float(reach[users].sum())
        volumes = np.zeros(BATCHES)
        for number in range(BATCHES):
            batch = draw(sampler, population, 1, number)
            for k in range(batch.num_blocks):
                ends = kept_by(batch, k)
                volumes[number] += len({(j, owner[i]) for i, j in ends if owner[i] != owner[j]})
        error = volumes.std(ddof=1) / math.sqrt(BATCHES)
        assert abs(volumes.mean() - expected) <= 4 * error + 1e-9
