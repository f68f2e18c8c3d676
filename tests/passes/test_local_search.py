"""Localised searches with rollback."""

from dataclasses import replace

import numpy as np
import pytest
from cases import seeds
from nets_helpers import grid, hypergraph, make, slow_volume
from worlds import slow_overload

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.local_search import TRIED, local_search, new_search
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import boundary, state_of, volume
from plancc.passes.multilevel import Sweeps
from plancc.passes.presets import V_CYCLES, LocalSearch


def searched(
    nets, state, limits, *, width=4, patience=20, max_pins=100, max_work=10**9, most=10**9
):
    limit = np.asarray(limits.limit, dtype=float)
    order, scale = boundary(nets, state), 1 / limits.relative
    search, keys, finished = new_search(len(state.owner)), np.empty(1, dtype=np.int64), False
    effort = width, patience, max_pins, max_work, most
    while not finished:
        keys, finished = local_search(order, keys, *effort, limit, scale, search, nets, state)
    return search.rows[0], search.number[TRIED]


def test_two_moves_that_pay_only_together():
    """Vertices 1 and 2 belong to 3 and 4; the first that goes loses more than it saves."""
    nets_with_costs = [([0, 1], 1), ([1, 2], 4), ([1, 3], 3), ([2, 4], 3), ([3, 4], 9)]
    ptr = np.arange(0, 2 * len(nets_with_costs) + 1, 2)
    pins = np.array([v for net, _ in nets_with_costs for v in net], dtype=np.int32)
    costs = np.array([cost for _, cost in nets_with_costs])
    problem = Hypergraph(ptr, pins, np.array([2, 1, 1, 1, 1]), costs)
    nets = nets_of(problem)
    limits = Limits(nets.weight, 2, 0.4)
    given = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    assert slow_volume(nets, given) == 6

    def after(patience):
        state = state_of(nets, given, 2)
        gained, tried = searched(nets, state, limits, width=1, patience=patience)
        return int(gained), int(tried), state.owner.tolist()

    gained, _, owner = after(5)
    assert gained == 5
    assert owner == [0, 1, 1, 1, 1]
    state = state_of(nets, given, 2)
    Sweeps(limits, np.random.default_rng(0)).settle(nets, state)
    assert state.owner.tolist() == given.tolist()  # what no single move finds


@pytest.mark.parametrize("seed", seeds(12, quick=8))
def test_gains_are_exact_and_the_rest_is_undone(seed):
    constraints, num_parts = 1 + seed % 2, 3 + seed % 4
    _, _, nets, state = make(seed, num_parts, 7, 120, 150, constraints=constraints, costs=True)
    limits = Limits(nets.weight, num_parts, 0.1)
    given, sums = state.owner.copy(), state.sums.copy()
    gained, tried = searched(nets, state, limits, patience=seed)
    assert slow_volume(nets, given) - slow_volume(nets, state.owner) == gained > 0
    assert tried >= (given != state.owner).sum() > 0
    fresh = state_of(nets, state.owner, num_parts)
    assert volume(nets, state) == volume(nets, fresh)
    np.testing.assert_array_equal(state.sums, fresh.sums)
    assert (state.sums <= np.maximum(sums, limits.limit)).all()


@pytest.mark.parametrize("seed", range(4))
def test_pauses_change_nothing(seed):
    _, _, nets, first = make(seed, 4, 7, 120, 150, costs=True)
    given, found = first.owner, []
    for max_work in (0, 100, 10**9):
        state = state_of(nets, given, 4)
        result = searched(nets, state, Limits(nets.weight, 4, 0.1), max_work=max_work)
        found.append(([int(number) for number in result], state.owner.tolist()))
    assert found[0] == found[1] == found[2]
    assert found[0][1] != given.tolist()


@pytest.mark.parametrize("asked", [1, 2, 7, 20])
def test_a_search_in_progress_ends_at_the_deadline(monkeypatch, asked):
    """No call follows once the deadline has passed, and what does not pay is undone."""
    calls, answers = [], []

    def counted(*arguments):
        calls.append(len(answers))
        return local_search(*arguments)

    def stop():
        answers.append(len(answers) >= asked)
        return answers[-1]

    monkeypatch.setattr("plancc.passes.multilevel.local_search", counted)
    _, _, nets, state = make(0, 4, 7, 120, 150, costs=True)
    given, limits = state.owner.copy(), Limits(nets.weight, 4, 0.1)
    short = replace(V_CYCLES, local_search=LocalSearch(work=50))
    rng, deadline = np.random.default_rng(1), Deadline(stop=stop)
    sweeps = Sweeps(limits, rng, deadline, numbers=short)
    saved = sweeps.search(nets, state)
    assert answers == [False] * asked + [True]
    assert len(calls) == asked
    assert slow_volume(nets, given) - slow_volume(nets, state.owner) == saved >= 0
    assert saved > 0 or asked < 20
    np.testing.assert_array_equal(state.sums, state_of(nets, state.owner, 4).sums)


def test_nothing_moves_where_nothing_helps():
    nets = nets_of(hypergraph(grid(8, 16), 2))
    owner = (np.arange(128) % 16 // 8).astype(np.int32)
    state = state_of(nets, owner, 2)
    gained, tried = searched(nets, state, Limits(nets.weight, 2, 0.5))
    assert gained == 0
    assert tried > 0
    np.testing.assert_array_equal(state.owner, owner)


def test_polish():
    rng = np.random.default_rng(3)
    nets = nets_of(hypergraph(grid(24, 24), 4))
    owner = (np.arange(576) // 144).astype(np.int32)
    swapped = rng.random(576) < 0.1
    owner[swapped] = rng.permutation(owner[swapped])
    found = []
    for deadline in (Deadline(), Deadline(), Deadline(-np.inf)):
        limits = Limits(nets.weight, 4, 0.03)
        sweeps = Sweeps(limits, np.random.default_rng(1), deadline)
        state = state_of(nets, owner, 4)
        work = sweeps.polish(nets, state)
        assert (work > 0) == (deadline.at > 0)
        found.append(state.owner)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], owner)
    assert slow_volume(nets, found[0]) < 0.6 * slow_volume(nets, owner)
    overload = [slow_overload(nets.weight, o, 4, 0.03) for o in (found[0], owner)]
    assert overload[0] <= overload[1]
