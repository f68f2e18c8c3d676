"""Rebalancing, measured without its own code."""

import numpy as np
import pytest
from nets_helpers import context, hypergraph, random_graph, random_owner, slow_volume
from worlds import slow_overload

from plancc.models.problem import Hypergraph
from plancc.models.weights import combined
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition
from plancc.passes.rebalance import rebalance


def problem_of(seed=0, n=1200, balance="nnz,rows"):
    graph = random_graph(np.random.default_rng(seed), n, 5 * n)
    return hypergraph(graph, 2, balance)


@pytest.mark.parametrize("num_parts", [2, 8, 24])
def test_several_constraints_after_one_combined_weight(num_parts):
    problem = problem_of()
    weights = problem.vertex_weights
    single = Hypergraph(**vars(problem) | {"vertex_weights": combined(weights)})
    owner = partition(single, num_parts, PartitionOptions("builtin", epsilon=0.02)).owner
    found = rebalance(owner, problem, context(problem, num_parts, 0.02))
    before = slow_overload(weights, owner, num_parts, 0.02)
    assert slow_overload(weights, found, num_parts, 0.02) == 0
    assert (found is owner) == (before == 0)
    assert slow_volume(problem, found) <= 1.5 * slow_volume(problem, owner)


def test_nothing_to_do():
    """Even parts, one part, a part for every vertex, no weights."""
    even, small = problem_of(balance="rows"), problem_of(n=30)
    nothing = Hypergraph(**vars(small) | {"vertex_weights": np.zeros((30, 2), np.int64)})
    for problem, owner, num_parts in (
        (even, np.arange(1200, dtype=np.int32) % 4, 4),
        (even, np.zeros(1200, np.int32), 1),
        (small, random_owner(np.random.default_rng(5), 30, 30), 30),
        (nothing, np.zeros(30, np.int32), 4),
    ):
        assert rebalance(owner, problem, context(problem, num_parts)) is owner


def test_all_in_one_part():
    problem = problem_of(balance="rows")
    owner = np.zeros(1200, dtype=np.int32)
    found = rebalance(owner, problem, context(problem, 8, 0.01))
    assert np.bincount(found, minlength=8).max() <= 151
    assert not owner.any()
    again = rebalance(owner, problem, context(problem, 8, 0.01))
    assert again.tobytes() == found.tobytes()


def test_heavy_vertices_come_as_close_as_they_can():
    weights = np.array([50, 1, 1, 1, 1, 1, 1, 1])
    pins = np.arange(8, dtype=np.int32)
    problem = Hypergraph(np.array([0, 8]), pins, weights)
    found = rebalance(np.zeros(8, np.int32), problem, context(problem, 2))
    loads = np.bincount(found, weights=weights, minlength=2)
    assert sorted(loads) == [7, 50]
