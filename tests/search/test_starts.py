"""Which partitioner begins, by what is measured of a graph."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long
from search_helpers import check, graph_of, limits_of, small_graph, within

from plancc.graph.normalize import normalize
from plancc.graph.types import Types
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.models.weights import vertex_weights
from plancc.options import SearchOptions
from plancc.partitioners import PARTITIONERS, run
from plancc.partitioners.process import run_in_child
from plancc.search import rows, starts
from plancc.search.effort import search
from plancc.search.presets import KIND_NUMBERS, Kinds, Starts
from plancc.search.starts import beginnings, kind_of, tightest
from plancc_datasets import load_dataset


def problems(matrix, balance="nnz"):
    graph = GraphModel().build(matrix, 4, balance=balance, seed=1)
    return graph, HypergraphModel().build(matrix, 4, balance=balance, seed=1)


def degrees(matrix):
    return np.diff(problems(matrix)[0].indptr)


def names(kind, effort, matrix, balance="nnz", num_parts=2, num_nonzeros=0, **options):
    weights = vertex_weights(matrix, balance)
    found = beginnings(kind, effort, weights, num_nonzeros, num_parts, **options)
    return [" ".join(filter(None, b.name)) for b in found]


def star_forest():
    """Ten stars of 40 leaves on a ring of 2000: two kinds of degrees."""
    n = 2000
    ring = sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)).tolil()
    for hub in range(10):
        ring[hub, 100 + 40 * hub : 140 + 40 * hub] = 1
    return graph_of(ring.tocsr() + ring.tocsr().T)


def test_kinds():
    grid, stars = degrees(small_graph("grid")), degrees(star_forest())
    assert [kind_of(grid, share) for share in (None, 0.05, 0.3, 0.9)] == [
        *("even", "thin", "even", "dense")
    ]
    assert [kind_of(stars, share) for share in (None, 0.05, 0.3, 0.9)] == [
        *("hubs", "hubs", "hubs", "wide")
    ]
    assert kind_of(degrees(graph_of(sp.csr_matrix((40, 40))))) == "even"


def test_the_best_start_is_first_and_best_has_those_of_all():
    for adapter in ("metis", "kaminpar", "mtkahypar"):
        if not PARTITIONERS[adapter].available():
            pytest.skip(f"{adapter} is not installed")
    grid = small_graph("grid")
    assert names("even", "fast", grid) == ["metis kway volume", "kaminpar fast cut"]
    assert names("even", "fast", grid, num_parts=40)[0] == "kaminpar fast cut"
    hubs = ["builtin eco", "kaminpar fast cut", "metis kway cut"]
    assert names("hubs", "fast", grid) == hubs
    assert names("hubs", "fast", grid, num_parts=17) == hubs[1:]
    assert names("hubs", "fast", grid, num_nonzeros=300_000) == hubs[1:]
    assert names("wide", "balanced", grid, num_nonzeros=300_000)[0] == "builtin eco"
    assert names("hubs", "fast", grid, beside=False) == hubs[1:]
    of_best = [n for kind in KIND_NUMBERS for n in names(kind, "best", grid)]
    assert not {"builtin eco", "kaminpar fast cut"} & {*of_best}
    assert names("even", "balanced", grid) == ["metis kway volume", "metis recursive cut"]
    for kind in KIND_NUMBERS:
        every = names(kind, "best", grid)
        assert {"mtkahypar quality", "mtkahypar default", "metis kway cut"} <= {*every}
        assert set(names(kind, "balanced", grid)) <= {*every}


@pytest.mark.parametrize(
    ("name", "num_parts", "step"), [("sbm", 4, "of clusters"), ("rmat", 64, "random")]
)
def test_a_search_from_clusters_and_where_there_are_none(monkeypatch, name, num_parts, step):
    monkeypatch.setattr(starts, "KINDS", Kinds(hub_edges=0.0, mild=0.0))  # all have hubs
    smaller = {}
    for each in ("metis", "kaminpar"):
        adapter = PARTITIONERS[each]
        of_all = [replace(start, least_nonzeros=0) for start in adapter.starts]
        smaller[each] = replace(adapter, starts=tuple(of_all))
    loaded = PARTITIONERS.loaded() | smaller
    monkeypatch.setattr(type(PARTITIONERS), "loaded", lambda self: loaded)
    options = {"rmat": {"scale": 11, "edge_factor": 8}, "sbm": {}}[name]
    matrix = normalize(load_dataset(name, **options).graph)
    result = search(matrix, num_parts, SearchOptions(effort="fast", epsilon=0.1))
    assert step in result.tried[0].step
    check(result, matrix, num_parts, epsilon=0.1)


def test_steps_of_a_road_and_of_a_mesh():
    """Few rows on the boundary: nothing is swept beyond the limit, minimum cuts come last."""
    road = normalize(load_dataset("grid", rows=80, cols=80).graph)
    result = search(road, 4, SearchOptions(effort="balanced"))
    assert check(result, road, 4) == 0
    every = [trial.step for trial in result.tried]
    assert every[:3] == ["metis volume kway seed 1", "climb", "minimum cuts"]  # of effort fast
    steps = every[3:]
    assert steps[1:5:2] == ["climb", "metis cut recursive seed 1"]
    starts = [step for step in steps if step.startswith(("metis", "kaminpar"))]
    assert len(starts) == 6
    assert steps.count("minimum cuts") == 7
    assert steps[-1] == "minimum cuts"
    assert "sweeps" not in steps
    volumes = [trial.volume for trial in result.tried[:3]]
    assert volumes == sorted(volumes, reverse=True)
    result = search(road, 4, SearchOptions(effort="fast"))
    assert [trial.step for trial in result.tried][1:] == ["climb", "minimum cuts"]
    even = normalize(load_dataset("grid", rows=40, cols=40).graph)
    result = search(even, 8, SearchOptions(effort="fast", epsilon=0.05))
    assert [trial.step for trial in result.tried][1:] == ["climb"]
    mesh = small_graph("grid")
    steps = [trial.step for trial in search(mesh, 8, SearchOptions(effort="balanced")).tried]
    assert steps[-1] == "minimum cuts"
    assert "combined" in steps


def test_starts_into_few_parts_are_chosen_by_their_sweeps():
    """V-cycles follow the best two of five starts; other starts have none."""
    matrix = normalize(load_dataset("sbm", size=400, blocks=5, seed=3).graph)
    tried = search(matrix, 5, SearchOptions(effort="balanced")).tried
    steps = [trial.step for trial in tried]
    starts = [k for k, step in enumerate(steps) if step.startswith(("metis", "kaminpar"))]
    assert len(starts) == 1 + 5  # that of effort fast too
    assert not any("V-cycle" in step for step in steps[: max(starts)])
    refined = sorted(trial.volume for trial in tried if trial.step == "sweeps")
    assert len(refined) >= 4
    firsts = [k for k, step in enumerate(steps) if step.startswith("V-cycle 1")]
    assert len(firsts) == 2
    assert steps.count("combined") <= 3
    assert tried[-1].volume <= refined[0]


def test_seeds_of_a_partitioner_have_one_process(monkeypatch):
    """With a budget each start has its own, so that it can be stopped; the owners are the same."""
    begun = []

    def counting(adapter, problem, num_parts, options, *rest):
        begun.append((adapter.name, options["preset"], options["seeds"]))
        return run_in_child(adapter, problem, num_parts, options, *rest)

    monkeypatch.setattr(run, "run_in_child", counting)
    road = normalize(load_dataset("grid", rows=80, cols=80).graph)
    options = SearchOptions(effort="balanced", seed=5)
    together = search(road, 4, options)
    assert begun == [("metis", how, [5, 6, 7]) for how in ("kway", "recursive")]
    begun.clear()
    apart = search(road, 4, replace(options, budget=1000.0))
    assert sorted(begun) == [
        ("metis", how, [k]) for how in ("kway", "recursive") for k in (5, 6, 7)
    ]
    assert np.array_equal(together.owners.rows, apart.owners.rows)
    assert [each.step for each in together.tried] == [each.step for each in apart.tried]


def test_no_cycle_follows_one_that_found_nothing_better():
    for name in ("grid", "rmat"):
        result = search(small_graph(name), 8, SearchOptions(effort="balanced", seed=2))
        best = np.inf
        for before, trial in zip(result.tried, result.tried[1:], strict=False):
            best = min(best, before.volume)
            if "V-cycle" in before.step and "V-cycle" in trial.step:
                k = int(before.step.split()[1].rstrip(","))
                if k > 1:  # the first one follows sweeps
                    assert before.volume <= best


def test_a_start_that_fails_makes_room_for_the_next(failing):
    failing(lambda _, options: options.partitioner == "metis")
    result = search(small_graph("grid"), 4, SearchOptions(effort="fast"))
    check(result, small_graph("grid"), 4)
    assert "left out: it crashed" in result.warnings


def test_two_balances_on_a_mesh():
    matrix, p = normalize(load_dataset("grid", rows=60, cols=60).graph), 8
    limits = limits_of(matrix, p, 0.1, 0.01)
    within(search(matrix, p, SearchOptions(effort="balanced"), limits=limits), limits)


def district(share):
    """A grid of 60 x 60 vertices, a corner of 20 x 20 with a share of the diagonals besides."""
    number = np.arange(3600).reshape(60, 60)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    corner = number[:20, :20]
    kept = np.random.default_rng(1).random((19, 19)) < share
    pairs.append((corner[:-1, :-1][kept], corner[1:, 1:][kept]))
    rows, columns = (np.concatenate([pair[k].ravel() for pair in pairs]) for k in (0, 1))
    upper = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(3600, 3600))
    return graph_of(upper + upper.T)


def test_the_tightest_balance_is_tried_alone_where_it_is_loose_enough_for_single_vertices():
    matrix = district(0.5)
    graph = degrees(matrix)
    assert tightest(graph, limits_of(matrix, 4, 0.1, 0.05)).names == ("rows",)
    assert tightest(graph, limits_of(matrix, 4, 0.05, 0.1)).names == ("nnz",)
    assert tightest(graph, limits_of(matrix, 18, 0.1, 0.05)).names == ("rows",)  # 10 vertices
    assert tightest(graph, limits_of(matrix, 19, 0.1, 0.05)) is None
    assert tightest(graph, limits_of(matrix, 4, 0.05, 0.05)) is None
    assert tightest(graph, Limits(np.ones(3600, np.int64), 4, 0.05)) is None
    stars = degrees(star_forest())
    assert tightest(stars, limits_of(star_forest(), 4, 0.1, 0.05)) is None


@pytest.mark.parametrize(
    ("effort", "allowed", "held"),
    [
        *(("fast", 0.06, "all"), ("fast", 0.03, "nearly"), ("fast", 0.012, "no")),
        *(("balanced", 0.03, "nearly"), pytest.param("balanced", 0.06, "all", marks=long)),
        pytest.param("balanced", 0.012, "no", marks=long),
    ],
)
def test_a_start_by_the_tightest_balance_is_kept_if_it_nearly_holds_the_others(
    effort, allowed, held, monkeypatch
):
    given, kept = [], rows.partitions
    monkeypatch.setattr(rows, "partitions", lambda a, *b, **c: given.append(a) or kept(a, *b, **c))
    matrix, p = district(1.0), 2
    limits = limits_of(matrix, p, allowed, 0.01)
    result = search(matrix, p, SearchOptions(effort=effort), limits=limits)
    steps, first = [trial.step for trial in result.tried], result.tried[0]
    assert limits.overload(limits.load(result.owners.rows)) == 0
    assert steps[0].endswith("by rows")
    assert given[0].vertex_weights.ndim == 1
    balanced_again = [step.startswith("balancing V-cycle") for step in steps]
    if held == "all":
        assert first.overload == 0
        assert not any(balanced_again)
        assert "metis volume kway seed 1" not in steps
    elif held == "nearly":
        assert 0 < first.overload <= Starts.nearly * p
        assert balanced_again[1]
        assert result.tried[1].overload < first.overload
    else:
        assert first.overload > Starts.nearly * p
        assert steps[1] == "metis volume kway seed 1"


def test_fast_carries_weight_on_even_graphs_above_one_of_several_limits():
    """Sweeps of single vertices pay for the balance with volume."""
    grid = load_dataset("grid", rows=30, cols=30).graph
    matrix, options = normalize(grid), SearchOptions(effort="fast")
    start, carried, *_ = search(matrix, 16, options, limits=limits_of(matrix, 16, 0.01, 0.01)).tried
    assert start.overload > 0
    assert carried.step.startswith("balancing V-cycle")
    assert carried.overload == 0
    assert carried.volume < start.volume


def test_fast_makes_another_start_where_the_balance_is_dear():
    """Rings of all sizes: METIS keeps them whole, beyond the limit; to restore that cuts many."""
    sizes = range(3, 90)
    halves = [sp.diags_array([1.0, 1.0], offsets=[1, 1 - n], shape=(n, n)) for n in sizes]
    rings = sp.block_diag(halves, format="csr")
    matrix = graph_of(rings + rings.T)
    result = search(matrix, 16, SearchOptions(effort="fast"))
    assert check(result, matrix, 16) == 0
    first, restored, *rest = result.tried
    assert first.overload > 0
    assert restored.volume > 1.2 * first.volume
    assert any(trial.step.startswith("kaminpar") for trial in rest)


@pytest.mark.parametrize(
    ("degree", "popular", "kind"), [(80, 80, "dense"), (80, 420, "wide"), (4, 20, "dense")]
)
def test_popular_vertices_are_hubs_where_they_have_many_neighbours(degree, popular, kind):
    """As in dense social networks, where no vertex has 8 times the mean."""
    n, rng = 800, np.random.default_rng(1)
    share = np.where(np.arange(n) < 60, popular, degree / 2)[:, None] / n
    found = degrees(graph_of(sp.csr_matrix(rng.random((n, n)) < share)))
    assert found.max() < 8 * found.mean()
    assert kind_of(found, 0.9) == kind


def test_a_start_that_fails_after_one_by_the_tightest_balance_makes_room_for_the_next(failing):
    """The weights of METIS' first start are of one balance; it fails for several."""
    matrix, p = district(1.0), 2
    limits = limits_of(matrix, p, 0.012, 0.01)
    failing(lambda given, options: options.partitioner == "metis" and given.vertex_weights.ndim > 1)
    result = search(matrix, p, SearchOptions(effort="fast"), limits=limits)
    steps = [trial.step for trial in result.tried]
    assert steps[0].endswith("by rows")
    assert result.tried[0].overload > Starts.nearly * p
    assert result.warnings == ["left out: it crashed"]
    assert limits.overload(limits.load(result.owners.rows)) == 0


@pytest.mark.parametrize(("typed", "first"), [(False, "random"), (True, "metis")])
def test_graphs_of_types_without_clusters_begin_with_a_partitioner(monkeypatch, typed, first):
    how = next(each for each in PARTITIONERS["metis"].starts if each.clustered)
    begun = [starts.Beginning(PARTITIONERS["metis"], how)]
    monkeypatch.setattr(rows, "beginnings", lambda *given: begun)  # those of a large graph
    matrix, told = small_graph("rmat"), []
    if typed:
        counts = {"user": 300, "item": matrix.num_vertices - 300}
        relations = [(a, "of", b) for a in counts for b in counts]
        matrix = replace(matrix, types=Types(counts, tuple(relations)))
    search(matrix, 8, SearchOptions(effort="fast", seed=3), report=told.append)
    assert told[0].step.startswith(first)
