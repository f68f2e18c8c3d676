"""V-cycles, limits and restoring the balance."""

import numpy as np
import pytest
from nets_helpers import grid, hypergraph, make, random_graph, random_owner, slow_volume
from worlds import slow_overload

from plancc.models.limits import Limits
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.multilevel import Sweeps, coarsen


def test_levels_keep_owners_and_volume():
    rng = np.random.default_rng(0)
    nets = nets_of(hypergraph(grid(40, 40)))
    owner = (np.arange(1600) // 400).astype(np.int32)
    together = owner.astype(np.int64) * 2 + np.arange(1600) % 2
    fine, before = 1600, slow_volume(nets, owner)
    place = np.arange(1600)
    for level, coarse_owner, label in coarsen(nets, owner, together, 4, rng):
        place = label[place]
        np.testing.assert_array_equal(coarse_owner[place], owner)
        assert len(label) == fine > len(level.weight) == len(coarse_owner)
        fine = len(coarse_owner)
        assert slow_volume(level, coarse_owner) == before
        assert level.weight.sum() == nets.weight.sum()
        for number in np.unique(place):
            assert len(np.unique(together[place == number])) == 1
    assert fine < 400


@pytest.mark.parametrize("other", [False, True])
def test_v_cycle(other):
    rng = np.random.default_rng(1)
    nets = nets_of(hypergraph(random_graph(rng, 1500, 6000)))
    owner = random_owner(rng, 1500, 6)
    second = random_owner(rng, 1500, 6) if other else None
    sweeps = Sweeps(Limits(nets.weight, 6, 0.05), rng)
    seen = []

    def refine(level, state):
        seen.append(len(level.weight))
        if len(seen) == 1:  # the coarsest level has the partition that was given
            assert volume(level, state) == slow_volume(nets, owner)
        sweeps.anneal(level, state)

    given = owner.copy()
    state = sweeps.v_cycle(nets, owner, refine, other=second)
    assert seen == sorted(seen)
    assert seen[-1] == 1500
    assert len(seen) > 1
    assert sweeps.evaluations > 0
    np.testing.assert_array_equal(owner, given)
    sweeps.settle(nets, state)
    assert slow_overload(nets.weight, state.owner, 6, 0.05) == 0
    assert volume(nets, state) == slow_volume(nets, state.owner) < slow_volume(nets, owner)
    assert np.bincount(state.owner, minlength=6).min() >= 1


def test_v_cycle_past_its_deadline_refines_once_per_level_that_it_has():
    rng = np.random.default_rng(2)
    nets = nets_of(hypergraph(grid(40, 40)))
    levels = []
    owner = (np.arange(1600) // 400).astype(np.int32)
    sweeps = Sweeps(Limits(nets.weight, 4, 0.05), rng, Deadline(0.0))
    state = sweeps.v_cycle(nets, owner, lambda level, _: levels.append(level))
    assert len(levels) == 2
    np.testing.assert_array_equal(state.owner, owner)


@pytest.mark.parametrize("constraints", [1, 2, 3])
@pytest.mark.parametrize("num_parts", [2, 5, 12])
def test_balance_is_restored(num_parts, constraints):
    for seed in range(4):
        rng, problem, nets, _ = make(seed, num_parts, 6, 400, 600, constraints=constraints)
        owner = (num_parts * rng.random(400) ** 3).astype(np.int32)  # most in part 0
        limits = Limits(nets.weight, num_parts, 0.1)
        state = state_of(nets, owner, num_parts)
        Sweeps(limits, rng).restore_balance(nets, state)
        assert slow_overload(problem.vertex_weights, state.owner, num_parts, 0.1) == 0
        assert volume(nets, state) == slow_volume(problem, state.owner)
        before = state.owner.copy()
        Sweeps(limits, rng).restore_balance(nets, state)
        np.testing.assert_array_equal(state.owner, before)


def test_weight_flows_through_full_parts():
    """A long mesh whose left end is too heavy: a few columns travel, the volume stays low."""
    nets = nets_of(hypergraph(grid(8, 160), 8, "rows"))
    owner = np.clip((np.arange(1280) % 160 - 4) // 19, 0, 7).astype(np.int32)
    limits = Limits(nets.weight, 8, 0.02)
    state = state_of(nets, owner, 8)
    assert limits.overload(state.sums) > 0
    Sweeps(limits, np.random.default_rng(0)).restore_balance(nets, state)
    assert limits.overload(state.sums) == 0
    assert volume(nets, state) <= 1.5 * slow_volume(nets, owner)


def test_settled_parts_stay_settled():
    rng = np.random.default_rng(3)
    nets = nets_of(hypergraph(grid(30, 30)))
    owner = (np.arange(900) * 6 // 900).astype(np.int32)
    state = state_of(nets, owner, 6)
    limits = Limits(nets.weight, 6, 0.03)
    before = volume(nets, state)
    Sweeps(limits, rng).settle(nets, state)
    assert limits.overload(state.sums) == 0
    assert volume(nets, state) <= before
