"""Expected volume of mini-batches: its value, its moves, its sweeps and its refinement."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from nets_helpers import (
    bounds,
    graph_of,
    net_list,
    random_graph,
    random_owner,
    random_problem,
    slow_overload,
    slow_volume,
)

from plancc.errors import InputError
from plancc.models.hypergraph import HypergraphModel
from plancc.models.problem import Hypergraph
from plancc.passes.kernels.coarsening import cluster, contract
from plancc.passes.kernels.expected import expected, sweep_expected
from plancc.passes.kernels.nets import nets_of, with_transpose, without_transpose
from plancc.passes.kernels.state import move, state_of, volume
from plancc.passes.multilevel import Goal
from plancc.passes.refine import RefineExpected, RefineVolume

KINDS = [(2, 8), (3, 3), (4, 12), (7, 5), (40, 9)]  # parts, most pins of a net
CURVES = {
    "volume": lambda pins: np.minimum(pins, 1.0),
    "cut": lambda pins: pins.astype(float),
    "half": lambda pins: 1 - 0.5**pins,
    "few": lambda pins: 1 - 0.98**pins,
    "square root": np.sqrt,
    "nothing": np.zeros_like,
}


def concave(rng, most: int) -> np.ndarray:
    """A random concave curve from 0."""
    return np.concatenate([[0.0], np.cumsum(np.sort(rng.random(most))[::-1])])


def slow_expected(problem: Hypergraph, owner, reach) -> float:
    """Part by part, from sets of pins; only nets with a source and costs, or costs of 1."""
    total = 0.0
    for e, pins in enumerate(net_list(problem)):
        cost = 1 if problem.net_costs is None else int(problem.net_costs[e])
        source = int(problem.net_sources[e])
        count = Counter(int(owner[v]) for v in pins if owner[v] != owner[source])
        total += cost * sum(float(reach[c]) for c in count.values())
    return total


def make(seed, num_parts, most_pins, n=40, num_nets=70, **options):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n, num_nets, most_pins=most_pins, **options)
    nets = nets_of(problem, sized=True)
    return rng, problem, nets, state_of(nets, random_owner(rng, n, num_parts), num_parts)


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize(("num_parts", "most_pins"), KINDS)
def test_value_and_its_limits(num_parts, most_pins, costs):
    rng, problem, nets, state = make(1, num_parts, most_pins, costs=costs)
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
        rng, problem, nets, _ = make(seed, 2, 9, n=60, num_nets=120, costs=costs)
        reach = concave(rng, 9)
        coarse, whole = nets, np.arange(60)
        for number in (25, 12, 8)[:levels]:
            given = rng.integers(number, size=len(coarse.weight))
            label = np.unique(given, return_inverse=True)[1].astype(np.int32)
            coarse, whole = contract(with_transpose(without_transpose(coarse)), label), label[whole]
        num = len(coarse.weight)
        assert (coarse.size > 1).any()
        for num_parts in (2, 3, 7):
            owner = rng.integers(num_parts, size=num).astype(np.int32)
            state = state_of(coarse, owner, num_parts)
            exact = slow_expected(problem, owner[whole], reach)
            assert expected(coarse, state, reach) == pytest.approx(exact, rel=1e-12)
            assert volume(coarse, state) == slow_volume(problem, owner[whole])


@pytest.mark.parametrize(("num_parts", "most_pins"), KINDS)
def test_counts_of_clusters_after_many_moves(num_parts, most_pins):
    rng, _, nets, _ = make(3, num_parts, most_pins, n=120, num_nets=200, costs=True)
    label = np.unique(rng.integers(50, size=120), return_inverse=True)[1].astype(np.int32)
    coarse = contract(nets, label)
    n = len(coarse.weight)
    state = state_of(coarse, random_owner(rng, n, num_parts), num_parts)
    for step in range(2001):
        v, there = int(rng.integers(n)), int(rng.integers(num_parts))
        if there != state.owner[v]:
            move(v, there, coarse, state)
        if step % 1000 == 0:
            again = state_of(coarse, state.owner, num_parts)
            np.testing.assert_array_equal(state.spread, again.spread)
            np.testing.assert_array_equal(state.sums, again.sums)
            for e in range(len(coarse.cost)):
                assert in_parts(state, e) == in_parts(again, e)
            pins = range(coarse.net_ptr[5], coarse.net_ptr[6])
            counted = Counter()
            for k in pins:
                counted[int(state.owner[coarse.pins[k]])] += int(coarse.size[k])
            assert in_parts(state, 5) == counted


def in_parts(state, e) -> dict[int, int]:
    """Part to pins of net e, from its slots in use."""
    slots = range(state.slot_ptr[e], state.slot_ptr[e + 1])
    if len(slots) < len(state.sums):
        slots = slots[: state.spread[e]]
    return {int(state.part[k]): int(state.count[k]) for k in slots if state.count[k] > 0}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("price", [0.0, 0.6])
def test_sweep_takes_the_best_part(curve, coarse, price):
    """One vertex at a time, against trying every part that its nets touch."""
    num_parts, most_pins = 5, 7
    rng, problem, nets, _ = make(4, num_parts, most_pins, n=60, num_nets=80, costs=True)
    whole = np.arange(60)
    if coarse:
        whole = np.unique(rng.integers(25, size=60), return_inverse=True)[1].astype(np.int32)
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


@pytest.mark.parametrize("curve", ["cut", "half", "few"])
@pytest.mark.parametrize(("num_parts", "most_pins"), KINDS)
@pytest.mark.parametrize("price", [0.0, 0.3, 50.0])
def test_sweeps_never_worsen(curve, num_parts, most_pins, price):
    rng, problem, nets, state = make(5, num_parts, most_pins, costs=True, n=60, num_nets=90)
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


def test_sweep_keeps_below_the_cap():
    rng, _, nets, state = make(6, 4, 6, constraints=2)
    cap = state.sums + rng.integers(0, 9, state.sums.shape).astype(float)
    before = state.owner.copy()
    for _ in range(3):
        limits = bounds(4, cap, 0, cap, constraints=2)
        sweep_expected(rng.permutation(40), nets, state, np.arange(7.0), limits)
        assert (state.sums <= cap).all()
    assert (state.owner != before).any()


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


def test_clusters_with_an_overlap_keep_apart_what_must_and_weigh_little():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 80, 120, constraints=2)
        nets = nets_of(problem, sized=True)
        coarse = contract(nets, cluster(nets, rng.permutation(80), np.zeros(80), np.full(2, 5)))
        n = len(coarse.weight)
        together, heaviest = rng.integers(3, size=n), np.array([9, 11])
        label = cluster(coarse, rng.permutation(n), together, heaviest, float(rng.random()))
        assert label.max() + 1 < n
        for k in range(label.max() + 1):
            members = np.flatnonzero(label == k)
            assert len(set(together[members].tolist())) == 1
            assert len(members) == 1 or (coarse.weight[members].sum(axis=0) <= heaviest).all()


def refined(problem, owner, num_parts, reach, **options):
    """Refine; nothing is worse, and what is reported is true."""
    epsilon = options.setdefault("epsilon", 0.05)
    given = owner.copy()
    found = RefineExpected(reach=reach, **options).run(problem, owner, num_parts)
    np.testing.assert_array_equal(owner, given)
    assert found.owner.dtype == np.int32
    assert found.owner.shape == owner.shape
    assert found.owner.min() >= 0
    assert found.owner.max() < num_parts
    assert np.isin(np.unique(owner), found.owner).all()
    lowered = reach if reach[1] > 0 else np.arange(len(reach))  # else the edge cut
    assert found.before.value == pytest.approx(slow_expected(problem, owner, lowered))
    assert found.after.value == pytest.approx(slow_expected(problem, found.owner, lowered))
    assert found.after.volume == slow_volume(problem, found.owner)
    weights = problem.vertex_weights
    before = slow_overload(weights, owner, num_parts, epsilon)
    after = slow_overload(weights, found.owner, num_parts, epsilon)
    assert after <= before + 1e-12
    assert found.after.value <= found.before.value or after < before
    return found


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("num_parts", [2, 3, 8, 30])
def test_never_worse(curve, num_parts):
    rng = np.random.default_rng(num_parts)
    constraints = 1 + num_parts % 2
    problem = random_problem(rng, 400, 600, constraints=constraints, costs=True)
    reach = CURVES[curve](np.arange(9))
    owner = random_owner(rng, 400, num_parts)
    first = refined(problem, owner, num_parts, reach)
    assert first.after.value < first.before.value
    refined(problem, first.owner, num_parts, reach, seed=2)


@pytest.mark.parametrize("seed", range(12))
def test_small_random_problems(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    num_parts = int(rng.integers(1, n + 1))
    problem = random_problem(rng, n, int(rng.integers(0, 15)), constraints=int(rng.integers(1, 4)))
    epsilon = float(rng.choice([0.0, 0.1, 3.0]))
    owner = random_owner(rng, n, num_parts)
    refined(problem, owner, num_parts, concave(rng, 8), epsilon=epsilon)


@pytest.mark.parametrize("curve", ["volume", "cut", "half", "few"])
def test_the_optimum_of_tiny_graphs(curve):
    """Eight vertices in two and in four parts, against every partition without an overload."""
    reach = CURVES[curve](np.arange(9))
    found, exact = 0, 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        num_parts = 2 + 2 * (seed % 2)
        problem = HypergraphModel().build(random_graph(rng, 8, 16), 2, balance="rows", seed=0)
        best = min(
            slow_expected(problem, owner, reach)
            for owner in product(range(num_parts), repeat=8)
            if set(Counter(owner).values()) == {8 // num_parts}
        )
        owner = rng.permutation(np.arange(8) % num_parts).astype(np.int32)
        tries = [
            refined(problem, owner, num_parts, reach, epsilon=0.0, cycles=8, seed=k)
            for k in range(5)
        ]
        reached = min(each.after.value for each in tries)
        assert all(each.after.overload == 0 for each in tries)
        assert reached >= best - 1e-9
        found += reached
        exact += best
    assert found <= 1.05 * exact


@pytest.mark.parametrize("curve", ["cut", "half", "few"])
def test_finds_what_was_planted(curve):
    """Six groups with many edges inside and a few between them, from a quarter that is wrong."""
    rng = np.random.default_rng(7)
    group = np.arange(300) % 6
    ends = rng.integers(300, size=(2, 30000))
    inside = group[ends[0]] == group[ends[1]]
    edges = np.concatenate([ends[:, inside][:, :4000], ends[:, ~inside][:, :500]], axis=1)
    problem = HypergraphModel().build(graph_of(edges, 300), 6, balance="rows", seed=0)
    reach = CURVES[curve](np.arange(1 + np.diff(problem.net_ptr).max()))
    planted = group.astype(np.int32)
    wrong = planted.copy()
    some = rng.choice(300, 75, replace=False)
    wrong[some] = rng.permutation(wrong[some])
    found = refined(problem, wrong, 6, reach, epsilon=0.0)
    assert found.after.value <= slow_expected(problem, planted, reach) + 1e-9


def test_the_curve_decides():
    """Each goal is better by its own measure than the other."""
    rng = np.random.default_rng(8)
    problem = HypergraphModel().build(random_graph(rng, 700, 4000), 5, balance="nnz", seed=0)
    most = int(np.diff(problem.net_ptr).max())
    owner = random_owner(rng, 700, 5)
    cut = CURVES["cut"](np.arange(most + 1))
    by_volume = RefineVolume(seed=1).run(problem, owner, 5)
    by_cut = RefineExpected(seed=1, reach=cut).run(problem, owner, 5)
    assert by_volume.after.volume < by_cut.after.volume
    assert by_cut.after.value < slow_expected(problem, by_volume.owner, cut)


def test_same_seed_same_bytes():
    rng = np.random.default_rng(4)
    problem = HypergraphModel().build(random_graph(rng, 600, 2500), 6, balance="nnz", seed=0)
    reach = CURVES["half"](np.arange(1 + np.diff(problem.net_ptr).max()))
    owner = random_owner(np.random.default_rng(5), 600, 6)
    runs = [refined(problem, owner, 6, reach, seed=seed).owner.tobytes() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_two_partitions_are_combined():
    """No worse than the better one; and the second says where the first V-cycle leads."""
    rng = np.random.default_rng(4)
    problem = HypergraphModel().build(random_graph(rng, 600, 2500), 6, balance="nnz", seed=0)
    reach = CURVES["half"](np.arange(1 + np.diff(problem.net_ptr).max()))
    starts = [random_owner(np.random.default_rng(seed), 600, 6) for seed in (5, 6)]
    one, two = (refined(problem, owner, 6, reach, cycles=1) for owner in starts)
    if two.after < one.after:
        one, two = two, one
    pass_ = RefineExpected(reach=reach, cycles=1, epsilon=0.05)
    alone = pass_.run(problem, one.owner, 6)
    both = pass_.run(problem, one.owner, 6, other=two.owner)
    assert both.cycles == 1
    assert both.before == one.after
    assert both.after < one.after
    assert not np.array_equal(both.owner, alone.owner)


def test_unbalanced_partitions_are_balanced():
    rng = np.random.default_rng(2)
    problem = HypergraphModel().build(random_graph(rng, 600, 2500), 9, balance="nnz,rows", seed=0)
    reach = CURVES["few"](np.arange(1 + np.diff(problem.net_ptr).max()))
    owner = (9 * np.random.default_rng(3).random(600) ** 3).astype(np.int32)
    assert refined(problem, owner, 9, reach).after.overload == 0


def test_no_budget_left():
    rng = np.random.default_rng(6)
    problem = random_problem(rng, 300, 500)
    owner = random_owner(rng, 300, 4)
    assert refined(problem, owner, 4, np.arange(9.0), budget=0.0).cycles == 0


def test_wrong_input():
    rng = np.random.default_rng(0)
    problem = random_problem(rng, 30, 40, most_pins=6)
    owner = random_owner(rng, 30, 3)
    most = int(np.diff(problem.net_ptr).max())
    run = RefineExpected(reach=np.zeros(most + 1)).run
    for sourceless, wrong, words in (
        (False, owner[:-1], "29 owners for 30 vertices"),
        (False, owner + 1, "must be in 0..2"),
        (True, owner, "net sources"),
    ):
        given = Hypergraph(**vars(problem) | {"net_sources": None}) if sourceless else problem
        with pytest.raises(InputError, match=words):
            run(given, wrong, 3)
    with pytest.raises(InputError, match=f"{most} probabilities: a net has {most} pins"):
        RefineExpected(reach=np.zeros(most)).run(problem, owner, 3)
    with pytest.raises(InputError, match="1 probabilities"):
        RefineExpected().run(problem, owner, 3)
