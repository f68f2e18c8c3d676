"""Exchanges of vertices between parts, measured without their own code."""

import numpy as np
import pytest
from nets_helpers import hypergraph, random_graph, random_problem, slow_volume
from worlds import slow_overload

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.multilevel import Sweeps


def exchanged(problem, owner, num_parts, epsilon, *, seed=1, deadline=None):
    """Owners after exchanges, and how many were made; the counts of the state must be right."""
    nets = nets_of(problem)
    state = state_of(nets, owner, num_parts)
    limits = Limits(nets.weight, num_parts, epsilon)
    rng = np.random.default_rng(seed)
    made = Sweeps(limits, rng, deadline or Deadline()).trade(nets, state)
    assert volume(nets, state) == slow_volume(problem, state.owner)
    for found, column in zip(state.sums.T, nets.weight.T, strict=True):
        counted = np.bincount(state.owner, weights=column, minlength=num_parts)
        assert found.tolist() == counted.tolist()
    return state.owner, made


def problem_of(weights) -> Hypergraph:
    """One net of all vertices."""
    pins = np.arange(len(weights), dtype=np.int32)
    return Hypergraph(np.array([0, len(pins)]), pins, np.asarray(weights))


@pytest.mark.parametrize(
    ("weights", "owner"),
    [
        ([3, 3, 2, 2], [0, 0, 1, 1]),  # no single move helps
        ([[9, 1], [1, 1], [5, 1], [3, 1]], [0, 0, 1, 1]),  # one for none, or for one
    ],
)
def test_few_vertices(weights, owner):
    problem, owner = problem_of(weights), np.array(owner, dtype=np.int32)
    before = slow_overload(weights, owner, 2, 0.0)
    found, _ = exchanged(problem, owner, 2, 0.0)
    after = slow_overload(weights, found, 2, 0.0)
    least = min(
        slow_overload(weights, [k >> v & 1 for v in range(len(owner))], 2, 0.0)
        for k in range(1 << len(owner))
    )
    assert after == pytest.approx(least)
    assert (before > least) == (after < before)


@pytest.mark.parametrize("num_parts", [3, 32, 150])
def test_full_by_rows(num_parts):
    """Every part has as many rows as it may, so that only exchanges can lower the nonzeros."""
    rng = np.random.default_rng(num_parts)
    graph = random_graph(rng, 12 * num_parts, 60 * num_parts)
    problem = hypergraph(graph, num_parts, "nnz,rows")
    weights = problem.vertex_weights
    heaviest_first = np.argsort(-weights[:, 0], kind="stable")
    owner = np.empty(len(weights), dtype=np.int32)
    owner[heaviest_first] = np.arange(len(weights)) // 12
    epsilon = 0.05
    assert slow_overload(weights, owner, num_parts, epsilon) > 0
    found, made = exchanged(problem, owner, num_parts, epsilon)
    assert made > 0
    assert slow_overload(weights, found, num_parts, epsilon) == 0
    assert np.bincount(found, minlength=num_parts).tolist() == [12] * num_parts


def test_no_exchange_makes_it_worse():
    rng = np.random.default_rng(3)
    for constraints in (1, 2, 3):
        for num_parts in (2, 7, 40):
            problem = random_problem(rng, 80, 150, constraints=constraints)
            owner = rng.permutation(np.arange(80) % num_parts).astype(np.int32)
            owner[rng.random(80) < 0.2] = 0
            filled = set(owner.tolist())
            weights = problem.vertex_weights
            before = slow_overload(weights, owner, num_parts, 0.01)
            found, made = exchanged(problem, owner, num_parts, 0.01)
            after = slow_overload(weights, found, num_parts, 0.01)
            assert after < before if made else found.tolist() == owner.tolist()
            assert set(found.tolist()) >= filled
            again, _ = exchanged(problem, owner, num_parts, 0.01)
            assert again.tobytes() == found.tobytes()


def test_the_cheapest_comes_first():
    """Among vertices that weigh the same, the one leaves that has its nets in the other part."""
    pins = np.array([0, 4, 1, 2, 3, 1, 2, 3, 4, 5], dtype=np.int32)
    problem = Hypergraph(np.array([0, 2, 5, 8, 10]), pins, np.ones(6, dtype=np.int64))
    owner = np.array([0, 0, 0, 0, 1, 1], dtype=np.int32)
    found, made = exchanged(problem, owner, 2, 0.0)
    assert (found.tolist(), made) == ([1, 0, 0, 0, 1, 1], 1)


def test_after_the_deadline():
    weights = [3, 3, 1, 1]
    owner = np.array([0, 0, 1, 1], dtype=np.int32)
    late = Deadline.after(0.0)
    assert exchanged(problem_of(weights), owner, 2, 0.0, deadline=late)[1] == 0
    assert exchanged(problem_of(weights), owner, 2, 0.0)[1] == 1
