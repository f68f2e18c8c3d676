"""Checks that a partitioner does what `plancc.partitioners.run.partition` relies on."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from plancc.errors import InputError
from plancc.graph.convert import as_graph
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.adapter import Adapter
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition

Problem = Hypergraph | WeightedGraph


class PartitionerTests:
    """Tests of a partitioner. Inherit from this class, and set `name`.

    Attributes:
        name: Name of the partitioner in `plancc.partitioners.PARTITIONERS`.
        heeds_epsilon: Whether no part is ever heavier than epsilon allows. If False, parts may be
            heavier, but plancc must give a warning.
    """

    name: ClassVar[str]
    heeds_epsilon: ClassVar[bool] = True

    @pytest.fixture
    def adapter(self) -> Adapter:
        """Return the partitioner. The test is skipped if the partitioner's library is missing."""
        adapter: Adapter = PARTITIONERS[self.name]
        if not adapter.available():
            pytest.skip(f"{self.name} is not installed: {adapter.install}")
        return adapter

    def problems(self, adapter: Adapter, side: int = 8) -> list[Problem]:
        """Return a partitioning problem of each type that the partitioner accepts.

        All have the same graph: a grid of `side` by `side` vertices, and two isolated vertices.
        """
        path = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(side, side))
        grid = sp.kron(path, sp.eye_array(side)) + sp.kron(sp.eye_array(side), path)
        graph = as_graph(sp.block_diag([grid, sp.csr_array((2, 2))], format="csr"))
        models: list[Any] = [HypergraphModel(), *map(GraphModel, adapter.objectives)]
        problems = [model.build(graph, 2, balance="rows", seed=0) for model in models]
        return [problem for problem in problems if adapter.takes(problem)]

    def owner(
        self, problem: Problem, num_parts: int, epsilon: float = 0.1, seed: int = 1
    ) -> npt.NDArray[np.int32]:
        """Return owners by the partitioner; parts may be too heavy only if a warning says so."""
        given, options = deepcopy(problem), PartitionOptions(self.name, None, epsilon, seed)
        result = partition(problem, num_parts, options)
        assert result.partitioner == self.name
        for name, array in vars(given).items():
            assert np.array_equal(getattr(problem, name), array), f"it has changed {name}"
        weights, owner = problem.vertex_weights, result.owner
        assert (owner.dtype, owner.shape) == (np.int32, (problem.num_vertices,))
        assert set(owner.tolist()) == set(range(num_parts))
        limits = Limits(weights, num_parts, epsilon)
        missed = bool((limits.load(owner) > limits.limit).any())
        assert missed == any("above epsilon" in note for note in result.about_owners)
        assert not (missed and self.heeds_epsilon and epsilon > 0), result.about_owners
        return owner

    def test_declaration(self) -> None:
        """The attributes do not contradict each other.

        A child process can import the function `run` by its name.
        """
        adapter: Adapter = PARTITIONERS[self.name]
        assert adapter.name == self.name
        assert {Hypergraph, WeightedGraph} >= {*adapter.accepts} >= {*adapter.auto_rank}
        assert {*adapter.accepts} >= {*adapter.strong_rank}
        assert (WeightedGraph in adapter.accepts) == bool(adapter.objectives)
        assert len(set(adapter.presets)) == len(adapter.presets) > 0
        assert adapter.install or not adapter.library
        assert isinstance(adapter.version(), str)
        run: Any = adapter.run
        assert getattr(import_module(run.__module__), run.__name__) is run

    def test_number_of_parts(self, adapter: Adapter) -> None:
        """A graph of n vertices can be cut into 2 or n - 1 parts, but not into more than n."""
        for problem in self.problems(adapter, 3):
            for num_parts in (2, 10):
                self.owner(problem, num_parts, epsilon=1.0)
            with pytest.raises(InputError, match="12 parts for 11 vertices"):
                self.owner(problem, 12)

    def test_seed_and_epsilon(self, adapter: Adapter) -> None:
        """The same seed gives the same owners. Epsilon may be 0, and it may be very large."""
        for problem in self.problems(adapter):
            first, again = (self.owner(problem, 3, 0.0, seed=2**31 - 1) for _ in range(2))
            assert first.tobytes() == again.tobytes()
            self.owner(problem, 3, 1e300)

    def test_weights_and_costs(self, adapter: Adapter) -> None:
        """The partitioner accepts weights 0, constraints with weights 0 only, and large weights."""
        for problem in self.problems(adapter):
            ones = problem.vertex_weights
            some = (np.arange(len(ones)) % 3 == 0).astype(np.int64)
            for weights in (some, np.stack([ones, some, 0 * ones], axis=1)):
                self.owner(replace(problem, vertex_weights=weights), 3)
            heavy = replace(problem, vertex_weights=10**12 * ones)
            if isinstance(heavy, Hypergraph):
                heavy = replace(heavy, net_costs=np.full(heavy.num_nets, 10**11))
            else:
                heavy = replace(heavy, edge_weights=np.full(len(heavy.indices), 10**11))
            self.owner(heavy, 3)

    def test_presets_and_threads(self, adapter: Adapter) -> None:
        problem = self.problems(adapter)[0]
        for preset in adapter.presets:
            options = PartitionOptions(self.name, preset, epsilon=0.1, threads=2)
            result = partition(problem, 4, options)
            assert result.preset == preset
            assert set(result.owner.tolist()) == {0, 1, 2, 3}
