"""Refinement for the volume, of the whole graph and of mini-batches: never worse and exact."""

import time

import numpy as np
import pytest
from cases import long, seeds, turns
from nets_helpers import (
    CURVES,
    context,
    graph_of,
    grid,
    groupings,
    hypergraph,
    random_graph,
    random_owner,
    random_problem,
    slow_expected,
    slow_volume,
)
from worlds import slow_overload

from plancc.errors import InputError
from plancc.models.problem import Hypergraph
from plancc.passes.deadline import Deadline
from plancc.passes.refine import RefineExpected, RefineVolume

BOTH = [None, "half"]  # the volume of the graph, and one of batches


def reach_of(curve: str, problem: Hypergraph) -> np.ndarray:
    return CURVES[curve](np.arange(1 + np.diff(problem.net_ptr).max()))


def refined(problem, owner, num_parts, curve=None, *, other=None, **options):
    """Refine; nothing is worse, and what is reported is true.

    `curve` is a name of `CURVES` or probabilities; None is the volume of the graph.
    """
    epsilon, given = options.setdefault("epsilon", 0.05), owner.copy()
    reach = reach_of(curve, problem) if isinstance(curve, str) else curve
    own = {name: options.pop(name) for name in ("cycles", "polishes") if name in options}
    if "budget" in options:
        options["deadline"] = Deadline.after(options.pop("budget"))
    pass_ = RefineVolume(**own) if curve is None else RefineExpected(reach=reach, **own)
    found = pass_.refine(owner, problem, context(problem, num_parts, **options), other)
    np.testing.assert_array_equal(owner, given)
    assert found.owner.dtype == np.int32
    assert found.owner.shape == owner.shape
    assert found.owner.min() >= 0
    assert found.owner.max() < num_parts
    assert np.isin(np.unique(owner), found.owner).all()
    for merit, each in ((found.before, owner), (found.after, found.owner)):
        volume = slow_volume(problem, each)
        assert merit.volume == volume
        if curve is None:
            assert merit.value == volume
        else:
            lowered = reach if reach[1] > 0 else np.arange(len(reach))  # else the edge cut
            assert merit.value == pytest.approx(slow_expected(problem, each, lowered))
    before, after = (
        slow_overload(problem.vertex_weights, each, num_parts, epsilon)
        for each in (owner, found.owner)
    )
    assert after <= before + 1e-12
    assert found.after.value <= found.before.value or after < before
    return found


@turns(curve=[None, *CURVES], num_parts=[2, 3, 8, 30], constraints=[1, 2])
def test_never_worse(curve, num_parts, constraints):
    for costs in (True, False) if curve is None else (True,):
        rng = np.random.default_rng(num_parts + costs)
        problem = random_problem(rng, 400, 600, constraints=constraints, costs=costs)
        owner = random_owner(rng, 400, num_parts)
        first = refined(problem, owner, num_parts, curve)
        assert first.after.value < first.before.value
        refined(problem, first.owner, num_parts, curve, seed=2)


@pytest.mark.parametrize("seed", seeds(15, quick=10))
@pytest.mark.parametrize("batches", [False, True])
def test_small_random_problems(seed, batches):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    num_parts = int(rng.integers(1, n + 1))
    problem = random_problem(rng, n, int(rng.integers(0, 15)), constraints=int(rng.integers(1, 4)))
    epsilon = float(rng.choice([0.0, 0.1, 3.0]))
    owner = random_owner(rng, n, num_parts)
    concave = np.concatenate([[0.0], np.cumsum(np.sort(rng.random(8))[::-1])])
    refined(problem, owner, num_parts, concave if batches else None, epsilon=epsilon)


@pytest.mark.parametrize("curve", [None, "few"])
def test_unbalanced_partitions_are_balanced(curve):
    graph = random_graph(np.random.default_rng(2), 600, 2500)
    owner = (9 * np.random.default_rng(3).random(600) ** 3).astype(np.int32)
    found = refined(hypergraph(graph, balance="nnz,rows"), owner, 9, curve)
    assert found.before.overload > found.after.overload == 0


@pytest.mark.parametrize("curve", BOTH)
def test_same_seed_same_bytes(curve):
    problem = hypergraph(random_graph(np.random.default_rng(4), 600, 2500), balance="nnz")
    owner = random_owner(np.random.default_rng(5), 600, 6)
    runs = [refined(problem, owner, 6, curve, seed=seed).owner.tobytes() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("curve", BOTH)
def test_no_budget_left(curve):
    rng = np.random.default_rng(6)
    problem = random_problem(rng, 300, 500)
    assert refined(problem, random_owner(rng, 300, 4), 4, curve, budget=0.0).cycles == 0


def test_budget():
    """Cycles end when time is up."""
    problem = hypergraph(random_graph(np.random.default_rng(6), 300, 1500))
    owner = random_owner(np.random.default_rng(7), 300, 8)
    start = time.perf_counter()
    found = refined(problem, owner, 8, cycles=10**9, budget=0.3)
    assert time.perf_counter() - start < 60
    assert 1 <= found.cycles < 10**9


def test_a_good_partition_gets_better_and_a_perfect_one_stays():
    problem = hypergraph(grid(32, 32), balance="rows")
    stripes = (np.arange(1024) // 64).astype(np.int32)
    assert refined(problem, stripes, 16).after.volume < 0.8 * slow_volume(problem, stripes)
    cliques = np.arange(160).reshape(8, 20)
    edges = np.concatenate([[np.repeat(c, 20), np.tile(c, 20)] for c in cliques], axis=1)
    perfect = (np.arange(160) // 20).astype(np.int32)
    assert refined(hypergraph(graph_of(edges, 160)), perfect, 8).owner is perfect


TINY = {
    "no nets": ([0], [], [1, 1, 1], [0, 1, 0], 2),
    "one vertex": ([0, 1, 2], [0, 0], [1], [0], 1),
    "one vertex per part": ([0, 3], [0, 1, 2], [1, 1, 1], [2, 0, 1], 3),
    "one part": ([0, 3], [0, 1, 2], [1, 1, 1], [0, 0, 0], 1),
    "no weights": ([0, 3, 5], [0, 1, 2, 2, 3], [0, 0, 0, 0], [0, 1, 0, 1], 2),
    "one weight": ([0, 3, 5], [0, 1, 2, 2, 3], [0, 0, 5, 0], [0, 1, 2, 1], 3),
    "heavy": ([0, 3, 5], [0, 1, 2, 2, 3], [90, 1, 1, 1], [0, 1, 0, 1], 2),
    "three heavy": ([0, 3, 5], [0, 1, 2, 2, 3], [9, 9, 9, 1], [0, 0, 0, 1], 2),
    "empty parts": ([0, 3, 5], [0, 1, 2, 2, 3], [1, 1, 1, 1], [0, 0, 0, 0], 4),
}


@turns(name=TINY, epsilon=[0.0, 0.05, 10.0])
def test_tiny(name, epsilon):
    ptr, pins, weights, owner, num_parts = TINY[name]
    problem = Hypergraph(np.array(ptr), np.array(pins, np.int32), np.array(weights))
    refined(problem, np.array(owner, np.int32), num_parts, epsilon=epsilon)


@pytest.mark.parametrize("curve", ["volume", "cut", "half", pytest.param("few", marks=long)])
def test_the_optimum_of_tiny_graphs(curve):
    """Eight vertices in two and in four parts, against every partition without an overload."""
    found, exact = 0, 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        num_parts = 2 + 2 * (seed % 2)
        size = 8 // num_parts
        problem = hypergraph(random_graph(rng, 8, 16), balance="rows")
        reach = CURVES[curve](np.arange(9))
        best = min(
            slow_expected(problem, np.argsort(order) // size, reach)
            for order in groupings(tuple(range(8)), size)
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
    problem = hypergraph(graph_of(edges, 300), 6, "rows")
    planted = group.astype(np.int32)
    wrong = planted.copy()
    some = rng.choice(300, 75, replace=False)
    wrong[some] = rng.permutation(wrong[some])
    found = refined(problem, wrong, 6, curve, epsilon=0.0)
    goal = slow_expected(problem, planted, reach_of(curve, problem))
    assert found.after.value <= goal + 1e-9


def test_the_curve_decides():
    """Each goal is better by its own measure than the other."""
    rng = np.random.default_rng(8)
    problem = hypergraph(random_graph(rng, 700, 4000), 5)
    owner = random_owner(rng, 700, 5)
    by_volume = refined(problem, owner, 5, seed=1)
    by_cut = refined(problem, owner, 5, "cut", seed=1)
    assert by_volume.after.volume < by_cut.after.volume
    cut = slow_expected(problem, by_volume.owner, reach_of("cut", problem))
    assert by_cut.after.value < cut


def test_two_partitions_are_combined():
    """No worse than the better one; and the second says where the first V-cycle leads."""
    problem = hypergraph(random_graph(np.random.default_rng(4), 600, 2500), 6)
    starts = [random_owner(np.random.default_rng(seed), 600, 6) for seed in (5, 6)]
    one, two = (refined(problem, owner, 6, "half", cycles=1) for owner in starts)
    if two.after < one.after:
        one, two = two, one
    alone = refined(problem, one.owner, 6, "half", cycles=1)
    both = refined(problem, one.owner, 6, "half", cycles=1, other=two.owner)
    assert both.cycles == 1
    assert both.before == one.after
    assert both.after < one.after
    assert not np.array_equal(both.owner, alone.owner)


def test_wrong_input():
    rng = np.random.default_rng(0)
    problem = random_problem(rng, 30, 40, most_pins=6)
    owner = random_owner(rng, 30, 3)
    most = int(np.diff(problem.net_ptr).max())
    sourceless = Hypergraph(**vars(problem) | {"net_sources": None})
    enough = np.zeros(most + 1)
    for given, wrong, reach, words in (
        (problem, owner[:-1], enough, "29 owners for 30 vertices"),
        (problem, owner + 1, enough, "must be in 0..2"),
        (sourceless, owner, enough, "needs a hypergraph with `net_sources`"),
        (problem, owner, np.zeros(most), f"`reach` has {most} entries, but needs more than {most}"),
        (problem, owner, RefineExpected().reach, "`reach` has 1 entries"),
    ):
        with pytest.raises(InputError, match=words):
            RefineExpected(reach=reach).refine(wrong, given, context(problem, 3))


def test_v_cycles_for_batches_end_with_the_first_in_vain():
    """Two cliques with an edge between them, as they should be cut."""
    owner = np.repeat(np.arange(2, dtype=np.int32), 20)
    pins = [*([np.arange(20)] * 20), *([np.arange(20, 40)] * 20)]
    pins[0] = np.arange(21)
    problem = Hypergraph(
        np.cumsum([0, *map(len, pins)]),
        np.concatenate(pins).astype(np.int32),
        np.ones(40, dtype=np.int64),
        net_sources=np.arange(40, dtype=np.int32),
    )
    reach = 1 - 0.9 ** np.arange(22)
    found = RefineExpected(reach=reach, cycles=3).refine(owner, problem, context(problem, 2))
    assert found.cycles == 1
    assert found.after == found.before
