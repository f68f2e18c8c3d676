"""Minimum cuts between pairs of parts, and the pass that makes them."""

import itertools

import networkx
import numpy as np
import pytest
from cases import seeds
from nets_helpers import graph_of, grid, hypergraph, make, random_owner, slow_volume
from worlds import net_list, slow_overload

from plancc.models.limits import Limits
from plancc.passes.deadline import Deadline
from plancc.passes.flows import Flows
from plancc.passes.kernels import heap
from plancc.passes.kernels.flows import (
    CutNetwork,
    Region,
    adjacent_parts,
    balanced_cut,
    cut_nets_of_pairs,
    empty_flow,
    extend,
    network_of,
)
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.presets import Cuts


def scratch(nets):
    return np.full(len(nets.weight) + len(nets.cost), -1, dtype=np.int32)


def whole_pair(nets, state, pair, room=np.inf, max_pins=1000) -> tuple[CutNetwork, int]:
    """The network of a pair, with as much of both parts as there is room for."""
    partner = np.arange(len(state.sums))
    partner[pair[0]], partner[pair[1]] = pair[1], pair[0]
    ptr, found = cut_nets_of_pairs(partner, 1000, state)
    region = Region(np.full((2, nets.weight.shape[1]), room, dtype=float), 10**6, max_pins)
    cut_nets = found[ptr[pair[0]] : ptr[pair[0] + 1]]
    return network_of(np.array(pair), cut_nets, region, scratch(nets), nets, state)


def made(seed, num_parts, n, num_nets, most_pins=8, constraints=1):
    """Random numbers, nets with costs, and the state of random owners."""
    kind = {"constraints": constraints, "costs": True}
    rng, _, nets, state = make(seed, num_parts, most_pins, n, num_nets, **kind)
    return rng, nets, state


def test_heap_sorts():
    rng = np.random.default_rng(0)
    keys, number = np.empty(200, dtype=np.int64), 0
    given = rng.integers(-50, 50, 200)
    for key in given:
        number = heap.push.in_python(keys, number, key)
    taken = []
    while number:
        key, number = heap.pop.in_python(keys, number)
        taken.append(int(key))
    assert taken == sorted(given.tolist(), reverse=True)


@pytest.mark.parametrize("seed", range(6))
def test_pairs_and_their_nets(seed):
    num_parts = 3 if seed % 2 else 9  # nets with a slot per part, and with one per pin
    _, nets, state = made(seed, num_parts, 40, 60)
    touched = [{int(state.owner[v]) for v in pins} for pins in net_list(nets)]
    for most in (2, 4, 100):
        shared: dict[tuple[int, int], int] = {}
        for parts, cost in zip(touched, nets.cost.tolist(), strict=True):
            for pair in itertools.combinations(sorted(parts), 2) if len(parts) <= most else ():
                shared[pair] = shared.get(pair, 0) + cost
        one, two, cost = (values.tolist() for values in adjacent_parts(most, 1000, nets, state))
        assert dict(zip(zip(one, two, strict=True), cost, strict=True)) == shared
        assert list(zip(one, two, strict=True)) == sorted(shared)
        partner = np.arange(num_parts)
        partner[[0, 2]] = 2, 0
        ptr, found = cut_nets_of_pairs(partner, most, state)
        expected = [e for e, parts in enumerate(touched) if {0, 2} <= parts and len(parts) <= most]
        assert found.tolist() == expected
        assert ptr.tolist() == [0] + [len(expected)] * num_parts


@pytest.mark.parametrize("seed", range(8))
def test_network_has_the_nets_of_the_pair(seed):
    _, nets, state = made(seed, 4, 50, 80)
    room = 8.0 if seed % 2 else np.inf
    net, now = whole_pair(nets, state, (1, 3), room)
    name = {int(v): x for x, v in enumerate(net.vertex) if x > 1}
    assert set(state.owner[list(name)].tolist()) <= {1, 3}
    for v, x in name.items():
        assert net.part[x] == (state.owner[v] == 3)
        assert net.weight[x].tolist() == nets.weight[v].tolist()
    for s, q in enumerate((1, 3)):
        inside = [v for v in name if state.owner[v] == q]
        assert nets.weight[inside].sum() <= room
        assert net.weight[s, 0] + nets.weight[inside].sum() == state.sums[q, 0]
    expected = []
    for pins, cost in zip(net_list(nets), nets.cost.tolist(), strict=True):
        of_pair = [v for v in pins if state.owner[v] in (1, 3)]
        ends = {name.get(v, int(state.owner[v] == 3)) for v in of_pair}
        if len(ends) > 1 and not {0, 1} <= ends and not ends <= {0, 1}:
            expected.append((sorted(ends), cost))
    found = zip(map(sorted, net_list(net)), net.cost.tolist(), strict=True)
    assert sorted(found) == sorted(expected)
    cut = sum(c for ends, c in expected if len({int(net.part[x]) for x in ends}) == 2)
    assert now == cut
    for x in range(len(net.vertex)):
        at = net.pins_of[net.vertex_ptr[x] : net.vertex_ptr[x + 1]]
        assert (net.pins[at] == x).all()
        assert [x in pins for pins in net_list(net)].count(True) == len(at)
        assert all(x in net_list(net)[e] for e in net.net_of[at])


def lawler(net) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from([0, 1])
    for e, (pins, cost) in enumerate(zip(net_list(net), net.cost.tolist(), strict=True)):
        graph.add_edge(("in", e), ("out", e), capacity=cost)
        for x in pins:
            graph.add_edge(x, ("in", e))
            graph.add_edge(("out", e), x)
    return graph


@pytest.mark.parametrize("seed", seeds(25, quick=8))
def test_maximum_flow_and_both_minimum_cuts(seed):
    _, nets, state = made(seed, 2, 60, 90, 5)
    net, _ = whole_pair(nets, state, (0, 1), room=40.0)
    graph = lawler(net)
    expected = networkx.maximum_flow_value(graph, 0, 1)
    flow = empty_flow(net)
    flow.fixed[0, 0] = flow.fixed[1, 1] = True
    first = 1 if seed % 2 else 0  # from either end
    total = 0
    for side in (first, 1 - first):
        flow.queue[0] = side
        total += extend(side, 1, 10**9, 10**9, net, flow)
    assert total == expected > 0
    # What enters a vertex leaves it, and what enters a net.
    balance = np.zeros(len(net.vertex), dtype=int)
    np.add.at(balance, net.pins, flow.sent[0] - flow.sent[1])
    assert balance.tolist() == [total, -total] + [0] * (len(balance) - 2)
    assert (flow.sent >= 0).all()
    for k, through in enumerate(flow.through):
        pins = slice(net.net_ptr[k], net.net_ptr[k + 1])
        assert flow.sent[0, pins].sum() == flow.sent[1, pins].sum() == through <= net.cost[k]
    for side in range(2):
        reached = flow.reached[side, : len(net.vertex)]
        sets = [{bool(reached[x]) for x in pins} for pins in net_list(net)]
        cut = sum(c for c, s in zip(net.cost.tolist(), sets, strict=True) if len(s) == 2)
        assert cut == expected
        assert reached[side]
        assert not reached[1 - side]
        assert flow.weight[side].tolist() == net.weight[reached].sum(axis=0).tolist()


@pytest.mark.parametrize("seed", seeds(40, quick=12))
def test_cut_of_a_pair_against_all_splits(seed):
    """Without limits the smallest cut of all; with them a balanced one that is no worse."""
    _, nets, state = made(seed, 3, 12, 16, 4, 1 + seed % 2)
    nets.weight[:] += 1
    state = state_of(nets, state.owner, 3)
    net, now = whole_pair(nets, state, (0, 2), room=nets.weight.sum() / 4)
    free = range(2, len(net.vertex))
    whole = net.weight.sum(axis=0)

    def cost_of(part):
        return sum(
            cost
            for pins, cost in zip(net_list(net), net.cost.tolist(), strict=True)
            if len({part[x] for x in pins}) == 2
        )

    splits = []
    for choice in itertools.product((0, 1), repeat=len(free)):
        part = [0, 1, *choice]
        weight = [net.weight[np.array(part) == s].sum(axis=0) for s in range(2)]
        splits.append((cost_of(part), part, weight))
    assert now == cost_of(net.part.tolist())
    present = np.stack([net.weight[net.part == s].sum(axis=0) for s in range(2)])
    loose = np.stack([whole, whole]).astype(float)
    tight = np.maximum(present, np.ceil(0.6 * whole)).astype(float)
    for most in (loose, tight):
        moved, cost, _ = balanced_cut(most, now, 10**9, net)
        part = net.part.copy()
        part[moved] = 1 - part[moved]
        assert part[:2].tolist() == [0, 1]
        assert cost == cost_of(part.tolist()) <= now
        weight = np.stack([net.weight[part == s].sum(axis=0) for s in range(2)])
        assert (weight <= most).all()
        assert (weight.sum(axis=1) > 0).all()
        possible = [
            value
            for value, _, sides in splits
            if (np.stack(sides) <= most).all() and (np.stack(sides).sum(axis=1) > 0).all()
        ]
        assert cost >= min(possible)
        if most is loose and (net.weight[:2].sum(axis=1) > 0).all():
            assert cost == min(possible)
        if len(moved) > 0 and cost == now:
            assert (weight / most).max() < (present / most).max()


def test_a_cut_ends_after_a_bound_of_work():
    """With what it has: a cut no worse than the present one, the same in every run."""
    _, nets, state = made(0, 2, 400, 600, 4)
    net, now = whole_pair(nets, state, (0, 1), room=nets.weight.sum() / 3)
    most = np.full((2, 1), 0.6 * nets.weight.sum())
    _, least, whole_work = balanced_cut(most, now, 10**9, net)
    assert least < now
    costs = []
    for max_work in np.linspace(0, whole_work, 9).astype(int).tolist():
        moved, cost, work = balanced_cut(most, now, max_work, net)
        again = balanced_cut(most, now, max_work, net)
        assert (moved.tolist(), cost, work) == (again[0].tolist(), again[1], again[2])
        assert work <= whole_work
        part = net.part.copy()
        part[moved] = 1 - part[moved]
        ends = [{int(part[x]) for x in pins} for pins in net_list(net)]
        assert cost == sum(c for c, e in zip(net.cost.tolist(), ends, strict=True) if len(e) == 2)
        assert len(moved) > 0 or cost == now
        costs.append(cost)
    assert costs[0] == now
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == least


def mesh(rows, columns, num_parts, seed=0):
    """A grid whose parts have ragged boundaries."""
    rng = np.random.default_rng(seed)
    place = np.arange(rows * columns)
    noisy = place % columns + rng.normal(0, 2.0, rows * columns)
    owner = np.empty(rows * columns, dtype=np.int32)
    owner[np.argsort(noisy, kind="stable")] = place * num_parts // (rows * columns)
    return nets_of(hypergraph(grid(rows, columns), num_parts)), owner


def test_straightens_the_boundaries_of_a_mesh():
    nets, owner = mesh(30, 60, 4)
    limits = Limits(nets.weight, 4, 0.02)
    state = state_of(nets, owner, 4)
    before = slow_volume(nets, owner)
    work = Flows(limits, numbers=Cuts(least_gain=0.0)).refine(nets, state)
    assert work > 0
    after = slow_volume(nets, state.owner)
    assert volume(nets, state) == after
    assert after < 1.1 * 3 * 2 * 30 < before / 2  # three straight boundaries, both ways
    assert slow_overload(nets.weight, state.owner, 4, 0.02) <= slow_overload(
        nets.weight, owner, 4, 0.02
    )


@pytest.mark.parametrize(("constraints", "capacities"), [(1, None), (2, None), (1, (1.0, 2, 1, 3))])
def test_never_worse_by_volume_or_overload(constraints, capacities):
    for seed in range(4):
        _, nets, state = made(seed, 4, 300, 300, 4, constraints)
        limits = Limits(nets.weight, 4, 0.1, capacities)
        owner, sums = state.owner.copy(), state.sums.copy()
        Flows(limits, numbers=Cuts(reach=0.1 + 0.2 * seed)).refine(nets, state)
        assert slow_volume(nets, state.owner) < slow_volume(nets, owner)
        assert (state.sums <= np.maximum(limits.limit, sums)).all()
        kept = slow_overload(nets.weight, state.owner, 4, 0.1, capacities)
        assert kept <= slow_overload(nets.weight, owner, 4, 0.1, capacities) + 1e-12
        np.testing.assert_array_equal(state.sums, state_of(nets, state.owner, 4).sums)
        assert (np.bincount(state.owner, minlength=4) > 0).all()


def test_left_out_nets_make_nothing_worse():
    _, nets, state = made(5, 5, 200, 300)
    before = slow_volume(nets, state.owner)
    narrow = Cuts(max_pins=3, max_spread=3)
    Flows(Limits(nets.weight, 5, 0.3), numbers=narrow).refine(nets, state)
    assert volume(nets, state) == slow_volume(nets, state.owner) <= before


def test_threads_change_nothing():
    nets, owner = mesh(24, 80, 8)
    limits = Limits(nets.weight, 8, 0.02)
    found = []
    for threads in (1, 1, 3):
        state = state_of(nets, owner, 8)
        Flows(limits, threads=threads).refine(nets, state)
        found.append(state.owner)
    assert (found[0] != owner).any()
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_graphs_with_hubs_are_left_alone():
    rng = np.random.default_rng(0)
    ends = np.stack([rng.integers(200, size=600), np.where(rng.random(600) < 0.3, 0, -1)])
    ends[1] = np.where(ends[1] < 0, rng.integers(200, size=600), ends[1])
    hub = nets_of(hypergraph(graph_of(ends, 200)))
    _, everywhere, _ = made(0, 40, 400, 2000, 3)  # all 40 parts share nets with all others
    for nets, num_parts in ((hub, 2), (everywhere, 40)):
        state = state_of(nets, random_owner(rng, len(nets.weight), num_parts), num_parts)
        given = state.owner.copy()
        assert Flows(Limits(nets.weight, num_parts, 0.5)).refine(nets, state) == 0
        np.testing.assert_array_equal(state.owner, given)


@pytest.mark.parametrize(
    ("num_parts", "deadline"), [(2, Deadline(-np.inf)), (1, Deadline())], ids=["late", "one part"]
)
def test_nothing_is_done_after_the_deadline_and_for_one_part(num_parts, deadline):
    nets, owner = mesh(10, 20, num_parts)
    state = state_of(nets, owner, num_parts)
    limits = Limits(nets.weight, num_parts, 0.02)
    assert Flows(limits, deadline).refine(nets, state) == 0
    np.testing.assert_array_equal(state.owner, owner)
