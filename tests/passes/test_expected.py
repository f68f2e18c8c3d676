"""Expected volume of mini-batches: its value, its moves and its sweeps."""

from itertools import pairwise

import numpy as np
import pytest
from cases import pairs
from nets_helpers import (
    CURVES,
    KINDS,
    bounds,
    make,
    random_label,
    random_owner,
    slow_expected,
    slow_volume,
)
from worlds import net_list

from plancc.models.problem import Hypergraph
from plancc.passes.kernels.coarsening import cluster, contract
from plancc.passes.kernels.expected import expected, sweep_expected
from plancc.passes.kernels.nets import nets_of, with_transpose, without_transpose
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.multilevel import Goal


def concave(rng, most: int) -> np.ndarray:
    """A random concave curve from 0."""
    return np.concatenate([[0.0], np.cumsum(np.sort(rng.random(most))[::-1])])


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize(("num_parts", "most_pins"), KINDS)
def test_value_and_its_limits(num_parts, most_pins, costs):
    rng, problem, nets, state = make(1, num_parts, most_pins, sized=True, costs=costs)
    owner = state.owner.copy()
    reach = concave(rng, most_pins)
    assert expected(nets, state, reach) == pytest.approx(slow_expected(problem, owner, reach))

    once = CURVES["volume"](np.arange(most_pins + 1))
    assert expected(nets, state, once) == volume(nets, state) == slow_volume(problem, owner)
    cost = problem.net_costs if costs else np.ones(problem.num_nets, int)
    cut = sum(
        int(cost[e]) * sum(owner[v] != owner[problem.net_sources[e]] for v in pins)
        for e, pins in enumerate(net_list(problem))
    )
    assert expected(nets, state, np.arange(most_pins + 1.0)) == cut > 0


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("levels", [1, 3])
def test_coarse_levels_are_exact(levels, costs):
    """Clusters at random, on top of each other; any owners of them."""
    for seed in range(8):
        rng, problem, nets, _ = make(seed, 2, 9, n=60, num_nets=120, sized=True, costs=costs)
        reach = concave(rng, 9)
        coarse, whole = nets, np.arange(60)
        for number in (25, 12, 8)[:levels]:
            label = random_label(rng, len(coarse.weight), number)
            coarse, whole = contract(with_transpose(without_transpose(coarse)), label), label[whole]
        num = len(coarse.weight)
        assert (coarse.size > 1).any()
        for num_parts in (2, 3, 7):
            owner = rng.integers(num_parts, size=num).astype(np.int32)
            state = state_of(coarse, owner, num_parts)
            exact = slow_expected(problem, owner[whole], reach)
            assert expected(coarse, state, reach) == pytest.approx(exact, rel=1e-12)
            assert volume(coarse, state) == slow_volume(problem, owner[whole])


@pairs(curve=CURVES, coarse=[False, True], price=[0.0, 0.6])
def test_sweep_takes_the_best_part(curve, coarse, price):
    """One vertex at a time, against trying every part that its nets touch."""
    num_parts, most_pins = 5, 7
    rng, problem, nets, _ = make(4, num_parts, most_pins, n=60, num_nets=80, sized=True, costs=True)
    whole = np.arange(60)
    if coarse:
        whole = random_label(rng, 60, 25)
        nets = contract(nets, whole)
    n = len(nets.weight)
    state = state_of(nets, random_owner(rng, n, num_parts), num_parts)
    reach = CURVES[curve](np.arange(most_pins + 1))
    target = rng.uniform(0.3, 1.7, num_parts) * problem.vertex_weights.sum() / num_parts
    prices = price * rng.uniform(0.5, 2, num_parts)

    def value(owner):
        loads = np.bincount(owner, weights=nets.weight[:, 0], minlength=num_parts)
        over = np.maximum(loads - target, 0)
        return slow_expected(problem, owner[whole], reach) + prices / 2 @ over**2

    moves = 0
    for v in rng.permutation(n):
        before, owner = value(state.owner), state.owner.copy()
        touched = {int(owner[u]) for pins in net_list(nets) if v in pins for u in pins} - {
            int(owner[v])
        }
        tries = []
        for q in touched:
            other = owner.copy()
            other[v] = q
            tries.append(value(other))
        alone = state.sums[owner[v], 0] == nets.weight[v, 0]
        moved, evaluations = sweep_expected(
            np.array([v]), nets, state, reach, bounds(num_parts, target, prices)
        )
        assert (state.owner != owner).sum() == moved
        if alone:
            assert moved == 0
            continue
        assert evaluations <= len(touched)
        after = value(state.owner)
        assert after <= before + 1e-8
        assert after == pytest.approx(min([before, *tries]), abs=1e-8)
        moves += moved
    assert moves > 3 or curve == "nothing"


def test_parts_of_a_hub_are_not_tried_in_vain():
    """Every leaf of the hub has a partner beside it that costs more than the hub can save."""
    num_parts, leaves = 20, np.arange(1, 61)
    pins = [np.arange(61), *(np.array([leaf, leaf + 60]) for leaf in leaves)]
    ends = np.cumsum([0, *map(len, pins)])
    cost, weight = np.array([1] + [5] * 60), np.ones(121, dtype=np.int64)
    problem = Hypergraph(
        ends,
        np.concatenate(pins).astype(np.int32),
        weight,
        net_costs=cost,
        net_sources=np.arange(61, dtype=np.int32),
    )
    owner = np.concatenate([[0], leaves % num_parts, leaves % num_parts]).astype(np.int32)
    nets = nets_of(problem, sized=True)
    state, reach = state_of(nets, owner, num_parts), CURVES["half"](np.arange(62))
    loose = bounds(num_parts, np.full(num_parts, 121.0), np.zeros(num_parts))
    assert sweep_expected(leaves, nets, state, reach, loose) == (0, 0)
    moved, evaluations = sweep_expected(np.arange(61, 121), nets, state, reach, loose)
    assert (moved, evaluations) == (0, 0)  # partners need the leaf alone
    nets.cost[1:] = 0  # now nothing holds the leaves
    moved, evaluations = sweep_expected(leaves, nets, state, reach, loose)
    assert moved == 57  # those that were not with the hub are now
    assert evaluations >= 57 * (num_parts - 1) / 2


@pairs(curve=["cut", "half", "few"], kind=KINDS, price=[0.0, 0.3, 50.0])
def test_sweeps_never_worsen(curve, kind, price):
    num_parts, most_pins = kind
    rng, problem, nets, state = make(
        5, num_parts, most_pins, n=60, num_nets=90, sized=True, costs=True
    )
    reach = CURVES[curve](np.arange(most_pins + 1))
    target = rng.uniform(0.3, 1.7, num_parts) * problem.vertex_weights.sum() / num_parts

    def penalised():
        loads = np.bincount(state.owner, weights=problem.vertex_weights, minlength=num_parts)
        over = np.maximum(loads - target, 0)
        return slow_expected(problem, state.owner, reach) + price / 2 * (over**2).sum()

    values = [penalised()]
    for _ in range(3):
        order = rng.permutation(60)
        sweep_expected(order, nets, state, reach, bounds(num_parts, target, price))
        values.append(penalised())
    assert all(b <= a + 1e-6 for a, b in pairwise(values))
    assert values[-1] < values[0]
    assert np.bincount(state.owner, minlength=num_parts).min() >= 1
    value = expected(nets, state, reach)
    assert value == pytest.approx(slow_expected(problem, state.owner, reach))


def test_overlap():
    """1 for the volume, 0 for the cut, the share of a second pin in between."""
    assert Goal().overlap == 1
    for reach, overlap in (
        ([0, 1, 1, 1], 1),
        ([0, 1, 2, 3], 0),
        ([0, 0.5, 0.75, 0.875], 0.5),
        ([0, 0, 0], 1),
        ([0, 0.4], 1),
        ([0], 1),
    ):
        assert Goal(np.array(reach, float)).overlap == pytest.approx(overlap)


def test_clusters_follow_the_curve():
    """Vertex 0 sends to 1..6; for the cut only it has a bond with them, for the volume all have."""
    pins = np.arange(7, dtype=np.int32)
    problem = Hypergraph(
        np.array([0, 7]), pins, np.ones(7, np.int64), net_sources=np.zeros(1, np.int32)
    )
    nets = nets_of(problem, sized=True)
    everyone = np.zeros(7, np.int64)
    order = np.arange(7)[::-1]
    for overlap in (0.0, 0.3, 1.0):
        label = cluster(nets, order, everyone, np.array([2]), overlap)
        groups = [set(np.flatnonzero(label == k).tolist()) for k in range(label.max() + 1)]
        pairs = [group for group in groups if len(group) == 2]
        if overlap == 0:
            assert pairs == [{0, 6}]
        else:
            assert len(pairs) == 3
