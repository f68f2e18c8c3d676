"""The expected volume of mini-batches as the objective of a search: exact, or from samples."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from plancc.cost.batches import batch_figures
from plancc.graph.graph import Graph
from plancc.graph.owners import Owner
from plancc.models.nets import merge_equal_nets
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.stochastic import (
    AUTO,
    MAX_BATCHES,
    BatchSource,
    GrowingSample,
    NetSample,
    StochasticModel,
    batches_of,
    fitted_cut,
    hoeffding_nets,
)
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.expected import expected
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.refine import RefineExpected, RefineVolume, refiner
from plancc.sampling import HELD_OUT, Inclusion
from plancc.search.presets import Samples


class Expectation(Protocol):
    """An expected volume of mini-batches that a search can minimise.

    Attributes:
        deadline: Time after which samples no longer grow; the search sets it.
        exact: Whether values are computed from probabilities instead of sampled mini-batches.
    """

    deadline: Deadline
    exact: bool

    @property
    def problem(self) -> Hypergraph:
        """The hypergraph on which refinement lowers the expected volume."""

    def refiner(self, cycles: int | None = None, polishes: bool = True) -> RefineVolume:
        """Return the pass that lowers the expected volume; parameters: see `RefineVolume`."""

    def cut(self, graph: WeightedGraph, num_parts: int) -> WeightedGraph:
        """Return the graph with edge weights, so that the cut estimates the expected volume."""

    def value(self, owner: Owner, num_parts: int) -> float:
        """Return the expected number of rows that all parts send for one mini-batch."""

    def grow(self, owner: Owner, num_parts: int, best: float) -> bool:
        """Enlarge the sample of mini-batches if it is too small; return whether it was enlarged.

        A sample is too small if mini-batches outside it send clearly more rows for `owner` than
        mini-batches in it. `best` is the least expected volume so far; it may be that of the
        owners at the start of refinement.
        """

    def about(self, owner: Owner, num_parts: int) -> tuple[dict[str, Any], list[str]]:
        """Return facts about the estimate for `owner`: provenance entries, and warnings."""


def expectation_of(
    model: StochasticModel,
    matrix: Graph,
    weights: npt.NDArray[np.int64],
    num_parts: int,
    seed: int,
    threads: int = 1,
) -> Expectation:
    """Return the expected volume for a model's sampler: exact if possible, else sampled."""
    source = model.source(matrix)
    recipe = _recipe(model, source, num_parts, seed)
    if model.batches == AUTO:
        exact = source.exact(weights)
        if exact is not None:
            return ExactExpectation(*exact, recipe)
    return SampledExpectation(model, source, weights, seed, threads, recipe)


def _recipe(
    model: StochasticModel, source: BatchSource, num_parts: int, seed: int
) -> dict[str, Any]:
    """Return entries for the provenance: the sampler, and the number of mini-batches needed.

    With this number, the mean connectivity of a net has an error below the model's `theta` with
    probability 1 - `delta` (Demirci et al. 2022, equation 14: Hoeffding's bound).
    """
    nets = hoeffding_nets(num_parts, model.theta, model.delta)
    per_batch = source.nets_per_batch(seed)
    return {
        "sampler": str(source.sampler),
        "theta": float(model.theta),
        "delta": float(model.delta),
        "hoeffding_nets": nets,
        "hoeffding_batches": batches_of(nets, per_batch),
        "nets_per_batch": per_batch,
    }


class ExactExpectation:
    """An expected volume that is computed exactly from the sampler's probabilities."""

    exact = True

    def __init__(self, problem: Hypergraph, inclusion: Inclusion, recipe: dict[str, Any]) -> None:
        self.problem = problem
        self.deadline = Deadline()
        self._inclusion, self._recipe = inclusion, recipe
        self._nets = nets_of(problem)

    def refiner(self, cycles: int | None = None, polishes: bool = True) -> RefineVolume:
        reach, most = self._inclusion.reach, RefineExpected.cycles if cycles is None else cycles
        return RefineExpected(most, polishes, reach=reach)

    def cut(self, graph: WeightedGraph, num_parts: int) -> WeightedGraph:
        return fitted_cut(graph, self.problem, self._inclusion, num_parts)

    def value(self, owner: Owner, num_parts: int) -> float:
        state = state_of(self._nets, owner, num_parts)
        return self._inclusion.share * float(expected(self._nets, state, self._inclusion.reach))

    def grow(self, owner: Owner, num_parts: int, best: float) -> bool:
        return False

    def about(self, owner: Owner, num_parts: int) -> tuple[dict[str, Any], list[str]]:
        value = self.value(owner, num_parts)
        return self._recipe | {"batches": "exact", "expected_volume": value}, []


class SampledExpectation:
    """An expected volume that is estimated from a sample of mini-batches.

    Refinement works on the sample's nets. `value` is the mean volume of other, *held-out*
    mini-batches.
    """

    exact = False

    def __init__(
        self,
        model: StochasticModel,
        source: BatchSource,
        weights: npt.NDArray[np.int64],
        seed: int,
        threads: int,
        recipe: dict[str, Any],
    ) -> None:
        self.deadline = Deadline()
        self._source, self._weights, self._recipe = source, weights, recipe
        self._seed, self._threads = seed, threads
        self._fixed = model.batches != AUTO
        self._num_held_out = 0
        self._judged: deque[tuple[Owner, npt.NDArray[np.int64]]] = deque(maxlen=Samples.most_judged)
        self._last = math.inf
        self._growing = GrowingSample(source, seed)
        if self._fixed:
            self._wanted = int(model.batches)
        else:
            self._wanted = min(max(recipe["hoeffding_batches"], Samples.min_batches), MAX_BATCHES)

    @cached_property
    def _sample(self) -> NetSample:
        return self._growing.grown(self._wanted, self.deadline.passed)

    @cached_property
    def problem(self) -> Hypergraph:
        problem = self._sample.hypergraph if self._fixed else self._smoothed()
        return replace(problem, vertex_weights=self._weights)

    def _smoothed(self) -> Hypergraph:
        """Return the sample's nets, and one more net for every off-diagonal nonzero.

        The two pins of this net are the ends of the nonzero's edge. So each nonzero counts as if it
        were drawn once more (Laplace's rule of succession).
        """
        seen = self._sample.hypergraph
        assert seen.net_costs is not None
        assert seen.net_sources is not None
        pairs = self._source.pairs()
        ends = seen.net_ptr[-1] + 2 * np.arange(1, len(pairs) + 1)
        net_ptr, pins, _, cost, source = merge_equal_nets(
            np.concatenate([seen.net_ptr, ends]),
            np.concatenate([seen.pins, pairs.ravel()]),
            np.empty(0, dtype=np.int32),
            np.concatenate([seen.net_costs, np.ones(len(pairs), dtype=np.int64)]),
            np.concatenate([seen.net_sources, pairs[:, 0]]),
        )
        return Hypergraph(net_ptr, pins, seen.vertex_weights, net_costs=cost, net_sources=source)

    def refiner(self, cycles: int | None = None, polishes: bool = True) -> RefineVolume:
        return replace(refiner("volume", cycles), polishes=polishes)

    def cut(self, graph: WeightedGraph, num_parts: int) -> WeightedGraph:
        return graph

    def value(self, owner: Owner, num_parts: int) -> float:
        return float(self._held_out(owner, num_parts).mean())

    def grow(self, owner: Owner, num_parts: int, best: float) -> bool:
        enough = self._wanted >= MAX_BATCHES or self._sample.num_batches < self._wanted
        if self._fixed or enough or self._gap(owner, num_parts) <= Samples.max_gap:
            return False
        value, last = self.value(owner, num_parts), self._last
        self._last = value
        if value <= best and value > (1 - Samples.min_progress) * last:
            return False
        self._wanted = min(Samples.growth * self._wanted, MAX_BATCHES)
        del self._sample, self.problem  # the next access makes them from more batches
        return True

    def about(self, owner: Owner, num_parts: int) -> tuple[dict[str, Any], list[str]]:
        volumes = self._held_out(owner, num_parts)
        low, high = _interval(volumes)
        on_sample, gap = self._on_sample(owner, num_parts), self._gap(owner, num_parts)
        sample = self._sample
        how = self._recipe | {
            "batches": sample.num_batches,
            "expected_volume": float(volumes.mean()),
            "expected_volume_low": low,
            "expected_volume_high": high,
            "expected_volume_on_sample": on_sample,
            "expected_volume_gap": gap,
            "vertices_seen": sample.vertices_seen,
            "nonzeros_seen": sample.nonzeros_seen,
        }
        notes, few = list[str](), self._fixed and sample.nonzeros_seen < Samples.seen_enough
        if few or gap > Samples.gap_to_tell:
            number, shares = sample.num_batches, (sample.vertices_seen, sample.nonzeros_seen)
            seen = "{:.1%} of the vertices and {:.1%} of the nonzeros".format(*shares)
            moves = f"in other batches, the plan sends {volumes.mean():.1f} rows per batch"
            cure = "; `batches` 'auto' enlarges the sample until the two agree" * self._fixed
            who = f"the sample of {number} batch{'es contains' if number > 1 else ' contains'}"
            notes.append(f"{who} {seen}: {moves}, in the sample {on_sample:.1f}{cure}")
        bound = self._recipe["hoeffding_batches"]
        if not self._fixed and sample.num_batches < bound:
            why = " and has reached the memory limit" if sample.full else ""
            has = f"the sample has {sample.num_batches:,}{why}"
            notes.append(f"theta and delta require {bound:,} batches; {has}")
        elif self._fixed and sample.num_batches < self._wanted:
            why = "whose nets reached the memory limit" if sample.full else "when time was up"
            notes.append(f"the sample ends after {sample.num_batches} batches, {why}")
        return how, notes

    def _gap(self, owner: Owner, num_parts: int) -> float:
        """Return (f - s) / f: how much better the owners fit the sample than other mini-batches.

        f and s are the mean rows sent in a held-out mini-batch and in one of the sample.
        """
        fresh = self.value(owner, num_parts)
        return (fresh - self._on_sample(owner, num_parts)) / fresh if fresh > 0 else 0.0

    def _on_sample(self, owner: Owner, num_parts: int) -> float:
        nets = nets_of(self._sample.hypergraph)
        return float(volume(nets, state_of(nets, owner, num_parts)) / self._sample.num_batches)

    def _held_out(self, owner: Owner, num_parts: int) -> npt.NDArray[np.int64]:
        """Return the volume of every held-out mini-batch for these owners, int64[mini-batches].

        The first call chooses the number of mini-batches; the last few results are kept.
        """
        for known, volumes in tuple(self._judged):
            if known is owner:
                return volumes
        number = self._num_held_out or Samples.min_held_out
        volumes = self._volumes(owner, num_parts, range(number))
        while self._num_held_out == 0:
            low, high = _interval(volumes)
            precise = (high - low) / 2 <= Samples.precision * volumes.mean()
            if precise or number >= Samples.max_held_out or self.deadline.passed():
                self._num_held_out = number
            else:
                more = self._volumes(owner, num_parts, range(number, 2 * number))
                volumes, number = np.concatenate([volumes, more]), 2 * number
        self._judged.append((owner, volumes))
        return volumes

    def _volumes(self, owner: Owner, num_parts: int, numbers: range) -> npt.NDArray[np.int64]:
        source = self._source
        [figures] = batch_figures(
            source.sampler,
            source.population,
            [(owner, num_parts)],
            numbers,
            seed=self._seed,
            stream=HELD_OUT,
            threads=self._threads,
        )
        return figures.volume


def _interval(values: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Return the 95% interval of the mean of `values`, by percentile bootstrap (Efron 1979)."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(Samples.resamples, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
