"""Kernels of the passes against plain Python on random hypergraphs."""

from collections import Counter

import numpy as np
import pytest
from cases import seeds, turns
from nets_helpers import (
    KINDS,
    bounds,
    counts,
    make,
    random_label,
    random_owner,
    random_problem,
    slow_volume,
)
from worlds import net_list

from plancc.models.problem import Hypergraph
from plancc.passes.kernels import volume as sweeping
from plancc.passes.kernels.coarsening import cluster, contract
from plancc.passes.kernels.expected import sweep_expected
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import boundary, move, pins_in, state_of, volume
from plancc.passes.kernels.volume import rate, relief_costs, relieve, sweep


def check_state(nets, state):
    size = nets.size if len(nets.size) else np.ones(len(nets.pins), int)
    for e, pins in enumerate(net_list(nets)):
        expected = Counter()
        for v, k in zip(pins, size[nets.net_ptr[e] : nets.net_ptr[e + 1]].tolist(), strict=True):
            expected[int(state.owner[v])] += k
        assert counts(state, e) == expected
        assert state.spread[e] == len(expected)
        for q in range(len(state.sums)):
            assert pins_in.in_python(e, q, state) == expected[q]
    sums = [nets.weight[state.owner == q].sum(axis=0) for q in range(len(state.sums))]
    np.testing.assert_array_equal(state.sums, sums)


def test_nets_hold_the_problem_and_its_transpose():
    rng = np.random.default_rng(0)
    problem = random_problem(rng, 30, 50, constraints=2, costs=True)
    nets = nets_of(problem)
    several = np.diff(problem.net_ptr) > 1
    assert net_list(nets) == [pins for pins in net_list(problem) if len(pins) > 1]
    for v in range(30):
        own = nets.nets[nets.vertex_ptr[v] : nets.vertex_ptr[v + 1]].tolist()
        assert own == [e for e, pins in enumerate(net_list(nets)) if v in pins]
    assert nets.cost.tolist() == problem.net_costs[several].tolist()
    assert nets.source.tolist() == problem.net_sources[several].tolist()
    np.testing.assert_array_equal(nets.weight, problem.vertex_weights)
    plain = nets_of(Hypergraph(problem.net_ptr, problem.pins, problem.vertex_weights[:, 0]))
    assert plain.cost.tolist() == [1] * several.sum()
    assert len(plain.source) == 0
    assert plain.weight.shape == (30, 1)


@turns(kind=KINDS, coarse=[False, True])
def test_counts_after_many_moves(kind, coarse):
    """Of vertices, and of clusters with several pins of a net."""
    num_parts, most_pins = kind
    rng, problem, nets, state = make(
        1, num_parts, most_pins, 60, 90, coarse, constraints=2, costs=True
    )
    whole = np.arange(60)
    if coarse:
        whole = random_label(rng, 60, 45)
        nets = contract(nets, whole)
        state = state_of(nets, random_owner(rng, len(nets.weight), num_parts), num_parts)
    given, n = state.owner.copy(), len(nets.weight)
    for step in range(600):
        v, there = int(rng.integers(n)), int(rng.integers(num_parts))
        if there != state.owner[v]:
            move(v, there, nets, state)
        if step % 300 == 0:
            check_state(nets, state)
    check_state(nets, state)
    assert volume(nets, state) == slow_volume(problem, state.owner[whole])
    cut = [set(pins) for pins in net_list(nets) if len(set(state.owner[pins].tolist())) > 1]
    assert boundary(nets, state).tolist() == sorted(set().union(*cut))
    assert (state.owner != given).any()
    copied = state_of(nets, given, num_parts)
    move(0, int(given[0] + 1) % num_parts, nets, copied)
    assert copied.owner[0] != given[0]


@pytest.mark.parametrize(("num_parts", "most_pins"), KINDS)
def test_predicted_gains_are_true(num_parts, most_pins):
    _, problem, nets, state = make(2, num_parts, most_pins, costs=True)
    before = slow_volume(problem, state.owner)
    for v in range(40):
        score, seen = np.zeros(num_parts, np.int64), np.empty(num_parts, np.int64)
        num, base = rate(v, nets, state, score, seen)
        listed = seen[:num].tolist()
        assert len(set(listed)) == num
        assert set(np.flatnonzero(score)) <= set(listed)
        touched = [set(state.owner[pins].tolist()) for pins in net_list(problem) if v in pins]
        some = set().union(*(parts for parts in touched if 1 < len(parts) < num_parts))
        everywhere = any(len(parts) == num_parts > 1 for parts in touched)
        assert set(listed) == (some or (set(range(num_parts)) if everywhere else set()))
        for q in set(range(num_parts)) - {int(state.owner[v])}:
            owner = state.owner.copy()
            owner[v] = q
            assert base + score[q] == before - slow_volume(problem, owner)


@turns(kind=KINDS, price=[0.0, 0.3, 50.0])
def test_sweep_gains_what_it_says(kind, price):
    num_parts, most_pins = kind
    rng, problem, nets, state = make(3, num_parts, most_pins, costs=True, n=60, num_nets=90)
    owner = state.owner.copy()
    before = slow_volume(problem, owner)
    target = rng.uniform(0.3, 1.7, num_parts) * problem.vertex_weights.sum() / num_parts
    prices = price * rng.uniform(0.5, 2, num_parts)

    def penalised(owner):
        loads = np.bincount(owner, weights=problem.vertex_weights, minlength=num_parts)
        return slow_volume(problem, owner) + prices / 2 @ np.maximum(loads - target, 0) ** 2

    first = penalised(owner)
    limits = bounds(num_parts, target, prices)
    moved, gained, evaluations = sweep(rng.permutation(60), nets, state, limits)
    check_state(nets, state)
    assert before - slow_volume(problem, state.owner) == gained
    assert penalised(state.owner) <= first + 1e-6
    assert moved >= (state.owner != owner).sum() > 0
    assert evaluations > 0
    assert np.bincount(state.owner, minlength=num_parts).min() >= 1


def slow_sweep(order, nets, state, limits):
    """A sweep by the definition: every part that `rate` lists, the first of equals."""
    num_parts = len(state.sums)
    for v in order:
        here, weight = state.owner[v], nets.weight[v]
        score, seen = np.zeros(num_parts, np.int64), np.empty(num_parts, np.int64)
        num, base = rate(v, nets, state, score, seen)

        def penalties(q, added, weight=weight):
            over = np.maximum(state.sums[q] + added * weight - limits.target[q], 0)
            return (limits.price[q] / 2 * over**2).sum()

        best, best_value = -1, -np.inf
        for q in seen[:num].tolist():
            if q == here or (state.sums[q] + weight > limits.cap[q]).any():
                continue
            value = float(base + score[q]) + penalties(here, 0) - penalties(here, -1)
            value += penalties(q, 0) - penalties(q, 1)
            if value > best_value:
                best, best_value = q, value
        lighter = best >= 0 and state.sums[best, 0] + weight[0] < state.sums[here, 0]
        if (best_value > 0 or (best_value == 0 and lighter)) and (state.sums[here] != weight).any():
            move(v, int(best), nets, state)


@turns(kind=[(40, 3), (40, 30), (40, 90), (3, 9)], price=[0.0, 0.5])
def test_sweep_agrees_with_its_definition(kind, price):
    """Few parts listed, many, and nets that have room for all: the same owners, ties included."""
    num_parts, most_pins = kind
    kind = {"n": 200, "num_nets": 150, "constraints": 2, "costs": most_pins == 30}
    rng, _, nets, state = make(6, num_parts, most_pins, **kind)
    _, _, _, expected = make(6, num_parts, most_pins, **kind)
    mean = nets.weight.sum(axis=0, keepdims=True) // num_parts
    prices = price * rng.uniform(0.2, 2, (num_parts, 2))
    limits = bounds(num_parts, mean, prices, mean * 1.5, constraints=2)
    for _ in range(3):
        order = rng.permutation(200)
        sweep(order, nets, state, limits)
        slow_sweep(order, nets, expected, limits)
        assert state.owner.tolist() == expected.owner.tolist()
    check_state(nets, state)


@pytest.mark.parametrize("blocks", [4, 200])
def test_sweep_in_blocks_is_the_same_with_any_number_of_threads(monkeypatch, blocks):
    """Blocks of one vertex move as without blocks."""
    monkeypatch.setattr(sweeping, "BLOCKS", blocks)
    cases = [make(6, 7, 9, n=200, num_nets=150, constraints=2) for _ in range(4)]
    mean = cases[0][2].weight.sum(axis=0, keepdims=True) // 7
    limits = bounds(7, mean, 0.1, mean * 1.5, constraints=2)
    for _ in range(3):
        order = cases[0][0].permutation(200)
        monkeypatch.setattr(sweeping, "BLOCKED_PINS", 0)
        for threads, (_, _, nets, state) in enumerate(cases[:3], 1):
            before = volume(nets, state)
            moved, gained, _ = sweep(order, nets, state, limits, threads)
            assert moved > 0
            assert before - volume(nets, state) == gained
            assert state.owner.tolist() == cases[0][3].owner.tolist()
            assert (state.sums <= limits.cap).all()
            check_state(nets, state)
        _, _, nets, expected = cases[3]
        monkeypatch.setattr(sweeping, "BLOCKED_PINS", 10**9)
        sweep(order, nets, expected, limits)
        assert blocks < 200 or state.owner.tolist() == expected.owner.tolist()


def test_costs_that_four_bytes_do_not_hold():
    ptr, pins = np.array([0, 2, 4, 6]), np.array([0, 1, 0, 2, 0, 2], np.int32)
    huge = np.array([2**33, 2**32 - 1, 2**32])
    nets = nets_of(Hypergraph(ptr, pins, np.ones(3, np.int64), huge))
    state = state_of(nets, np.array([0, 1, 2]), 3)
    apart = nets._replace(weight=np.ones((3, 1), np.int64))
    state.sums[0] += 1  # so that vertex 0 is not all that its part has
    assert sweep(np.array([0]), apart, state, bounds(3, 9, 0))[1] == 2**33
    assert state.owner[0] == 1


@pytest.mark.parametrize("batches", [False, True])
def test_sweep_keeps_below_the_cap(batches):
    rng, _, nets, state = make(6, 4, 6, sized=batches, constraints=2)
    cap = state.sums + rng.integers(0, 9, state.sums.shape).astype(float)
    before, limits = state.owner.copy(), bounds(4, cap, 0, cap, constraints=2)
    for _ in range(3):
        if batches:
            sweep_expected(rng.permutation(40), nets, state, np.arange(7.0), limits)
        else:
            assert sweep(rng.permutation(40), nets, state, limits)[1] >= 0
        assert (state.sums <= cap).all()
    assert (state.owner != before).any()


def test_moves_that_gain_nothing_make_parts_lighter_by_their_capacity():
    """A part of capacity 3 may weigh three times as much before a vertex leaves it for nothing."""
    everywhere = np.array([0, 1, 2, 3, 4, 5, 6, 7], np.int32)  # its net touches both parts anyway
    nets = nets_of(Hypergraph(np.array([0, 8]), everywhere, np.ones(8, np.int64)))
    for scale, sizes in ((np.ones(2), [4, 4]), (np.array([1.0, 3.0]), [6, 2])):
        state = state_of(nets, np.array([0, 0, 0, 0, 0, 0, 0, 1]), 2)
        limits = bounds(2, 9, 0)._replace(scale=scale)
        for _ in range(3):
            sweep(np.arange(8), nets, state, limits)
        assert state.sums.ravel().tolist() == sizes


@pytest.mark.parametrize("constraints", [1, 2])
def test_relief(constraints):
    for seed in range(8):
        rng, _, nets, state = make(seed, 5, 6, constraints=constraints)
        share = rng.uniform(0.6, 1.4, (5, 1)) if seed % 2 else np.ones((5, 1))
        limit = 1.1 * np.ceil(share * state.sums.sum(axis=0) / 5)
        over = (state.sums > limit).any(axis=1)

        def overload(sums, limit=limit):
            return (np.maximum(sums - limit, 0) / limit).sum()

        costs = relief_costs(nets, state, limit)
        assert np.isinf(costs[~over[state.owner]]).all()
        finite = np.flatnonzero(np.isfinite(costs))
        before = overload(state.sums)
        relieve(finite[np.argsort(costs[finite])], nets, state, limit)
        check_state(nets, state)
        assert overload(state.sums) < before or len(finite) == 0
        assert np.bincount(state.owner, minlength=5).min() >= 1


@pytest.mark.parametrize("sourced", [True, False])
@pytest.mark.parametrize("costs", [True, False])
def test_contraction_keeps_the_volume(sourced, costs):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 50, 120, most_pins=5, constraints=2, costs=costs)
        if not sourced:
            problem = Hypergraph(**vars(problem) | {"net_sources": None})
        nets = nets_of(problem)
        label = random_label(rng, 50, 12)
        num = label.max() + 1
        coarse = contract(nets, label)
        groups = [(tuple(pins), *_source(coarse, e)) for e, pins in enumerate(net_list(coarse))]
        assert len({(tuple(sorted(pins)), *rest) for pins, *rest in groups}) == len(groups)
        assert all(len(set(pins)) == len(pins) > 1 for pins, *_ in groups)
        if sourced:
            assert all(source in pins for pins, source in groups)
        again = contract(coarse, np.arange(num, dtype=np.int32))
        assert len(again.net_ptr) == len(coarse.net_ptr)
        for num_parts in (2, 6):
            owner = rng.integers(num_parts, size=num)
            assert slow_volume(coarse, owner) == slow_volume(problem, owner[label])
            state = state_of(coarse, owner, num_parts)
            fine = state_of(nets, owner[label], num_parts)
            assert volume(coarse, state) == volume(nets, fine)
            np.testing.assert_array_equal(state.sums, fine.sums)
            if sourced:
                for q in range(num_parts):
                    assert _sent(coarse, owner, q) == _sent(nets, owner[label], q)


def _source(nets, e):
    return (int(nets.source[e]),) if len(nets.source) else ()


def _sent(nets, owner, q) -> int:
    """Rows that part q sends."""
    return sum(
        int(nets.cost[e]) * (len({int(owner[v]) for v in pins}) - 1)
        for e, pins in enumerate(net_list(nets))
        if owner[nets.source[e]] == q
    )


@pytest.mark.parametrize("seed", seeds(10, quick=4))
@pytest.mark.parametrize("coarse", [False, True])
def test_clusters_keep_apart_what_must_and_weigh_little(seed, coarse):
    """Of vertices, and of clusters by an overlap of their pins."""
    rng = np.random.default_rng(seed)
    nets, overlap = nets_of(random_problem(rng, 80, 120, constraints=2), sized=coarse), ()
    if coarse:
        nets = contract(nets, cluster(nets, rng.permutation(80), np.zeros(80), np.full(2, 5)))
        overlap = (float(rng.random()),)
    n = len(nets.weight)
    together, heaviest = rng.integers(3, size=n), np.array([9, 11])
    label = cluster(nets, rng.permutation(n), together, heaviest, *overlap)
    num = label.max() + 1
    assert np.unique(label).tolist() == list(range(num))
    assert num < n
    for k in range(num):
        members = np.flatnonzero(label == k)
        assert len(set(together[members].tolist())) == 1
        assert len(members) == 1 or (nets.weight[members].sum(axis=0) <= heaviest).all()


def test_clusters_join_who_share_nets():
    """Four cliques, joined by one net."""
    pins = [np.arange(5 * k, 5 * k + 5) for k in range(4)] + [np.array([0, 5, 10, 15])]
    ptr = np.cumsum([0, *map(len, pins)])
    nets = nets_of(Hypergraph(ptr, np.concatenate(pins).astype(np.int32), np.ones(20, np.int64)))
    label = cluster(nets, np.arange(20)[::-1], np.zeros(20), np.array([5]))
    assert len(set(zip(label, np.arange(20) // 5, strict=True))) == label.max() + 1


def test_no_nets_at_all():
    nets = nets_of(Hypergraph(np.zeros(1, np.int64), np.empty(0, np.int32), np.ones(4, np.int64)))
    state = state_of(nets, np.array([0, 1, 2, 0]), 3)
    assert volume(nets, state) == 0
    assert len(boundary(nets, state)) == 0
    label = cluster(nets, np.arange(4), np.zeros(4), np.array([4]))
    assert label.tolist() == [0, 1, 2, 3]
    coarse = contract(nets, np.array([0, 0, 1, 1], np.int32))
    assert coarse.weight.tolist() == [[2], [2]]
    assert len(coarse.pins) == 0
