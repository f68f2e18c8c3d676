"""`stochastic-hp` from options to provenance, against expectations and batches counted in dense."""

import math
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long
from search_helpers import graph_of, small_graph
from worlds import kept_nonzeros, net_list, slow_overload

import plancc
from plancc.graph.vertexdata import VertexData
from plancc.models.limits import Limits
from plancc.models.stochastic import MAX_BATCHES, StochasticModel, hoeffding_nets
from plancc.options import SearchOptions
from plancc.passes.context import Context
from plancc.report.provenance import read_tried
from plancc.sampling import FITTED, HELD_OUT, Population, parse_sampler
from plancc.search import effort as best_of_effort
from plancc.search.expectation import expectation_of
from plancc.search.presets import EXPECTED, Samples
from plancc_datasets import load_dataset

SEED, P, EPSILON = 1, 6, 0.05


@cache
def source_of(name: str) -> sp.csr_array:
    if name == "rmat":
        graph = load_dataset("rmat", scale=8, edge_factor=6, seed=3).graph
    elif name == "grid":
        graph = load_dataset("grid", rows=14, cols=18).graph
    elif name == "sbm":
        graph = load_dataset("sbm", blocks=9, size=40, p_in=0.2, p_out=0.02, seed=2).graph
    else:
        return sp.csr_array((np.random.default_rng(4).random((220, 220)) < 0.03).astype(float))
    n = graph.num_vertices
    ones = np.ones(len(graph.indices))
    return sp.csr_array((ones, graph.indices, graph.indptr), shape=(n, n))


@cache
def dense(name: str) -> np.ndarray:
    """The pattern of the normalised matrix: with its diagonal."""
    array = source_of(name).toarray() != 0
    return array | np.eye(len(array), dtype=bool)


def compiled(name: str, model: str = "stochastic-hp", num_parts: int = P, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plancc.PlanccWarning)
        return plancc.compile(
            source_of(name), model, num_parts, **{"epsilon": EPSILON, "seed": SEED} | options
        )


@cache
def others(name: str, effort: str) -> dict[str, np.ndarray]:
    """Owners for the rows of a whole batch and for few cut edges."""
    return {
        "hp": compiled(name, "hp", effort=effort, balance="nnz").owner(),
        "gp": compiled(name, "gp", balance="nnz").owner(),
    }


def pins_in_parts(array: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Rows of part q other than j itself that use column j: int[p, n]; 0 for j's own part."""
    off = array & ~np.eye(len(array), dtype=bool)
    count = np.stack([off[owner == q].sum(axis=0) for q in range(owner.max() + 1)])
    count[owner, np.arange(len(owner))] = 0
    return count


def uniform_volume(array, owner, size: int, inside=None) -> float:
    """Expected rows moved by a set of `size` of those inside, by binomial coefficients."""
    if inside is not None:
        array, owner = array[np.ix_(inside, inside)], owner[inside]
    n = len(array)
    reach = [
        1 - math.comb(n - 1 - c, size - 1) / math.comb(n - 1, size - 1) if c < n else 0.0
        for c in range(n)
    ]
    return size / n * float(np.array(reach)[pins_in_parts(array, owner)].sum())


def heavy(name: str, owner) -> float:
    return slow_overload(dense(name).sum(axis=1), owner, P, EPSILON)


@pytest.mark.parametrize(
    ("name", "effort", "shares"),
    [
        ("rmat", "fast", (0.06, 1.0)),
        *(
            pytest.param(name, effort, (0.01, 0.06, 0.25, 0.6, 1.0), marks=long)
            for name in ("rmat", "directed", "grid", "sbm")
            for effort in ("fast", "balanced")
        ),
    ],
)
def test_no_worse_than_hp_and_gp_for_any_batch_size(name, effort, shares):
    """From the edge cut to the whole graph; and the figure is the closed form's."""
    array = dense(name)
    n = len(array)
    ratios = []
    for share in shares:
        size = max(1, round(share * n))
        plan = compiled(name, batch_size=size, effort=effort)
        owner, found = plan.owner(), plan.provenance
        exact = uniform_volume(array, owner, size)
        assert found["expected_volume"] == pytest.approx(exact, rel=1e-9)
        assert found["batches"] == "exact"
        assert found["sampler"] == f"uniform batch_size={size}"
        assert heavy(name, owner) == 0
        tried = read_tried(found)
        best = [each for each in tried if each["best"]][-1]
        assert best["value"] == pytest.approx(exact, rel=1e-9)
        assert best["volume"] == plan.metrics().volume
        if share == 1:
            assert exact == pytest.approx(plan.metrics().volume)
        there = [
            uniform_volume(array, other, size)
            for other in others(name, effort).values()
            if heavy(name, other) == 0
        ]
        assert exact <= min(there) * (1 + 1e-9), share
        if 0.05 < share < 0.7:
            ratios.append(exact / min(there))
    assert min(ratios) < 0.99


@cache
def data_of(name: str) -> VertexData:
    n = len(dense(name))
    clusters = (np.arange(n) * 12 // n).astype(np.int32)
    return VertexData(train_mask=np.arange(n) % 3 == 0, clusters=clusters)


def population_of(name: str) -> Population:
    array, data = dense(name), data_of(name)
    matrix = sp.csr_array(array)
    return Population(
        len(array),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        train_mask=data.train_mask,
        clusters=data.clusters,
    )


def kept_by(name: str, batch):
    """Rows and columns of the nonzeros that each block of a batch keeps, by its factors."""
    for kept in kept_nonzeros(batch, dense(name)):
        yield np.array(kept, np.int64).reshape(-1, 2).T


def volumes(name: str, plan, numbers, stream: int) -> np.ndarray:
    """Rows moved by batches of the plan's own sampler."""
    sampler, population = parse_sampler(plan.provenance["sampler"]), population_of(name)
    owner, n = plan.owner(), len(dense(name))
    found = np.zeros(len(numbers))
    for at, k in enumerate(numbers):
        for rows, columns in kept_by(name, sampler.batch(population, SEED, k, stream)):
            cut = owner[rows] != owner[columns]
            found[at] += len(np.unique(owner[rows[cut]].astype(np.int64) * n + columns[cut]))
    return found


def held_out_volumes(name: str, plan) -> np.ndarray:
    """Those of as many held-out batches as make up the figure of the provenance."""
    found = np.zeros(0)
    for number in (64, 128, 256, 512, 1024):
        more = volumes(name, plan, range(len(found), number), HELD_OUT)
        found = np.concatenate([found, more])
        if found.mean() == pytest.approx(plan.provenance["expected_volume"], rel=1e-12):
            return found
    raise AssertionError("no number of held-out batches has this mean")


SAMPLED = {
    "neighbour": {"batch_size": 12, "fanouts": (3, 2)},
    "walk": {"batch_size": 40, "walk_length": 3},
    "cluster": {"batch_size": 60},
}


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        ("rmat", "neighbour"),
        *(pytest.param(*case, marks=long) for case in (("directed", "walk"), ("rmat", "cluster"))),
    ],
)
def test_sampled_figures(name, sampler):
    """The mean over held-out batches with its interval, and the gap to those of the sample."""
    plan = compiled(name, sampler=sampler, data=data_of(name), effort="fast", **SAMPLED[sampler])
    found = plan.provenance
    held_out, mean = held_out_volumes(name, plan), found["expected_volume"]
    number = len(held_out)
    half = 1.96 * held_out.std() / number**0.5
    low, high = found["expected_volume_low"], found["expected_volume_high"]
    assert low < mean < high
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=0.2)
    assert number == 1024 or (high - low) / 2 < 0.011 * mean

    assert Samples.min_batches <= found["batches"] <= MAX_BATCHES
    on_sample = volumes(name, plan, range(found["batches"]), FITTED).mean()
    assert found["expected_volume_on_sample"] == pytest.approx(on_sample, rel=1e-12)
    assert found["expected_volume_gap"] == pytest.approx((mean - on_sample) / mean, abs=1e-12)
    best = [each for each in read_tried(found) if each["best"]][-1]
    assert best["value"] == pytest.approx(mean, rel=1e-12)

    vertices, nonzeros, nets = set(), set(), []
    population, drawn = population_of(name), parse_sampler(found["sampler"])
    for k in range(found["batches"]):
        nets.append(0)
        for rows, columns in kept_by(name, drawn.batch(population, SEED, k, FITTED)):
            vertices |= {*rows.tolist(), *columns.tolist()}
            off = rows != columns
            nonzeros |= set(zip(rows[off].tolist(), columns[off].tolist(), strict=True))
            nets[-1] += len(set(columns.tolist()))
    n = len(dense(name))
    assert found["vertices_seen"] == pytest.approx(len(vertices) / n)
    assert found["nonzeros_seen"] == pytest.approx(len(nonzeros) / (dense(name).sum() - n))
    assert found["nets_per_batch"] == pytest.approx(np.mean(nets[:4]))
    bound = hoeffding_nets(P, 0.1, 0.5)
    assert found["hoeffding_nets"] == bound
    assert found["hoeffding_batches"] == math.ceil(bound / np.mean(nets[:4]))
    assert found["batches"] == max(Samples.min_batches, found["hoeffding_batches"])  # effort fast


@pytest.mark.parametrize(
    ("name", "sampler", "effort"),
    [
        ("rmat", "walk", "fast"),
        pytest.param("directed", "walk", "balanced", marks=long),
        pytest.param("rmat", "neighbour", "balanced", marks=long),
    ],
)
def test_sampled_plans_are_no_worse_on_the_batches_that_judge_them(name, sampler, effort):
    data = data_of(name)
    plan = compiled(name, sampler=sampler, data=data, effort=effort, **SAMPLED[sampler])
    number = range(512)
    ours = volumes(name, plan, number, HELD_OUT).mean()
    for model, owner in others(name, effort).items():
        if heavy(name, owner) == 0:
            file = compiled(name, "file", part=owner)
            file.provenance["sampler"] = plan.provenance["sampler"]
            assert ours <= 1.01 * volumes(name, file, number, HELD_OUT).mean(), model


def net_counts(hypergraph) -> Counter:
    found: Counter = Counter()
    for e, pins in enumerate(net_list(hypergraph)):
        key = frozenset(pins), int(hypergraph.net_sources[e])
        found[key] += int(hypergraph.net_costs[e])
    return found


def walk(**options):
    return StochasticModel("walk", sampler_options={"batch_size": 24}, **options)


@pytest.mark.parametrize(("decisive", "number"), [(math.inf, 1), (0.0, 3)])
def test_a_cut_that_is_far_better_is_all(decisive, number, monkeypatch):
    """`number`: refinements for the expected volume, the combined one among them."""
    monkeypatch.setattr(best_of_effort, "EXPECTED", replace(EXPECTED, decisive=decisive))
    steps = [trial["step"] for trial in read_tried(compiled("rmat").provenance)]
    steps = steps[steps.index("kaminpar cut default seed 1") :]  # after those of effort fast
    assert sum("for expected volume" in step for step in steps) == number
    assert sum(step.startswith("mtkahypar cut") for step in steps) == 1
    assert any(step.startswith("metis cut") for step in steps) == (number > 1)


def test_growth_and_the_prior():
    """Four times as many batches; every nonzero is a net of its own besides."""
    name, p = "directed", 4
    matrix, weights = graph_of(dense(name)), np.ones(len(dense(name)), np.int64)
    model = walk(theta=3.0)
    found = expectation_of(model, matrix, weights, p, SEED)
    sampler, population = model.source(matrix).sampler, population_of(name)

    def by_hand(batches: int) -> Counter:
        nets: Counter = Counter()
        for k in range(batches):
            for rows, columns in kept_by(name, sampler.batch(population, SEED, k, FITTED)):
                pins: dict[int, set[int]] = {}
                for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
                    pins.setdefault(j, {j}).add(i)
                nets.update((frozenset(net), j) for j, net in pins.items() if len(net) > 1)
        return nets

    edges = [(i, j) for i, j in np.argwhere(dense(name)).tolist() if i != j]
    prior = Counter((frozenset(edge), edge[1]) for edge in edges)
    assert net_counts(found.problem) == by_hand(Samples.min_batches) + prior
    assert found.problem.vertex_weights is weights
    fitted_to_it = found.refiner(1).refine(
        np.arange(len(weights)).astype(np.int32) % p,
        found.problem,
        Context(Limits(weights, p, 0.01)),
    )
    assert found.grow(fitted_to_it.owner, p, np.inf)
    assert net_counts(found.problem) == by_hand(4 * Samples.min_batches) + prior

    fixed = walk(batches=5)
    found = expectation_of(fixed, matrix, weights, p, SEED)
    assert net_counts(found.problem) == by_hand(5)  # the paper's model as it is
    assert not found.grow(fitted_to_it.owner, p, np.inf)
    exact = expectation_of(StochasticModel(), matrix, weights, p, SEED)
    assert not exact.grow(fitted_to_it.owner, p, np.inf)


def test_a_sample_grows_with_the_effort():
    options = {"sampler": "walk", "batch_size": 40, "theta": 3.0}
    fast = compiled("rmat", num_parts=2, effort="fast", **options).provenance
    more = compiled("rmat", num_parts=2, **options).provenance
    assert fast["batches"] == Samples.min_batches < more["batches"]
    assert more["expected_volume"] < fast["expected_volume"]
    assert abs(more["expected_volume_gap"]) < fast["expected_volume_gap"]


def test_too_few_batches_are_told():
    with pytest.warns(plancc.PlanccWarning, match=".batches. 'auto'") as caught:
        plan = plancc.compile(
            source_of("rmat"), "stochastic-hp", P, epsilon=EPSILON, effort="fast", batches=1
        )
    found = plan.provenance
    told = [str(note.message) for note in caught]
    assert found["warnings"] == "\n".join(told)
    assert len(told) == 1
    assert f"{found['vertices_seen']:.1%} of the vertices" in told[0]
    assert f"{found['nonzeros_seen']:.1%} of the nonzeros" in told[0]
    assert f"sends {found['expected_volume']:.1f} rows" in told[0]
    assert found["batches"] == 1
    array, size = dense("rmat"), round(0.06 * len(dense("rmat")))
    exact = uniform_volume(array, plan.owner(), size)
    assert exact > uniform_volume(array, compiled("rmat", effort="fast").owner(), size)
    # two standard errors or so around the closed form
    half = found["expected_volume_high"] - found["expected_volume_low"]
    assert abs(found["expected_volume"] - exact) < half


def test_training_vertices():
    array, name = dense("rmat"), "rmat"
    inside = np.arange(len(array)) % 3 == 0
    size = int(inside.sum()) // 3
    options = {"sampler": "train", "data": data_of(name), "batch_size": size}
    plan = compiled(name, **options)
    exact = uniform_volume(array, plan.owner(), size, inside)
    assert plan.provenance["expected_volume"] == pytest.approx(exact, rel=1e-9)
    for other in others(name, "fast").values():
        assert exact < uniform_volume(array, other, size, inside)


@pytest.mark.parametrize("keep", [1e-9, pytest.param(0.1, marks=long), 1.0])
def test_edges(keep):
    plan = compiled("rmat", sampler="edges", keep=keep, effort="fast")
    count = pins_in_parts(dense("rmat"), plan.owner())
    exact = -np.expm1(count * np.log1p(-min(keep, 1 - 1e-16))).sum()
    assert plan.provenance["expected_volume"] == pytest.approx(exact, rel=1e-6)
    assert plan.provenance["hoeffding_batches"] >= 1
    if keep == 1:
        assert exact == pytest.approx(plan.metrics().volume)


@pytest.mark.parametrize(
    "options",
    [
        {"effort": "fast"},
        {"effort": "balanced", "threads": 2},
        pytest.param({"effort": "best"}, marks=long),
        {"effort": "best", "budget": 0.1},
        *(pytest.param({"partitioner": name}, marks=long) for name in ("builtin", "mtkahypar")),
        {"preset": "default"},
        {"topology": "3x2"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("one_round")
def test_ways_to_search(options):
    """Figures are those of the owners, the last step is better than the first."""
    plan = compiled("rmat", batch_size=16, **options)
    found = plan.provenance
    exact = uniform_volume(dense("rmat"), plan.owner(), 16)
    assert found["expected_volume"] == pytest.approx(exact, rel=1e-9)
    assert heavy("rmat", plan.owner()) == 0
    tried = read_tried(found)
    assert exact < tried[0]["value"]
    assert found["partitioner"] == options.get("partitioner", found["partitioner"])
    assert tried[-1]["step"].startswith(("refined for expected", "combined for expected volume"))
    assert "topology" not in options or found["topology"] == "3x2"


@pytest.mark.parametrize("partitioner", ["builtin", "mtkahypar"])
def test_the_papers_model_alone(partitioner):
    """A given number of batches and a named partitioner: its answer, as it is."""
    plan = compiled("rmat", partitioner=partitioner, batches=4, batch_size=100)
    found = plan.provenance
    assert "tried" not in found
    assert (found["partitioner"], found["batches"]) == (partitioner, 4)
    assert len(held_out_volumes("rmat", plan)) >= 64


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"sampler": "neighbour", **SAMPLED["neighbour"]}, marks=long)]
)
def test_same_seed_same_plan(options, tmp_path):
    runs = [
        compiled("rmat", seed=seed, data=data_of("rmat"), effort="fast", **options)
        for seed in (1, 1, 2)
    ]
    hashes = [plan.content_sha256() for plan in runs]
    assert hashes[0] == hashes[1] != hashes[2]
    for name, value in runs[0].provenance.items():
        if name not in ("created", "search_seconds", "tried"):
            assert runs[1].provenance[name] == value
    runs[0].save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5")
    read = plancc.load(tmp_path / "plan.h5").provenance
    assert {name: read[name] for name in runs[0].provenance} == runs[0].provenance


@pytest.mark.parametrize(
    ("effort", "self_loops", "shift"),
    [
        ("fast", True, 1),
        pytest.param("best", False, 2, marks=long),
        pytest.param("best", True, 3, marks=long),
        pytest.param("fast", False, 4, marks=long),
    ],
)
def test_nothing_to_search(effort, self_loops, shift):
    """One part, a part for every vertex, one vertex, no edge, batches of one and of all."""
    options = {"effort": effort, "self_loops": self_loops}
    array = np.random.default_rng(0).random((20, 20)) < 0.2
    lone = np.zeros((20, 20), bool)
    cases = (array, 1), (array, 20), (lone[:1, :1], 1), (lone, 4), (lone, 20)
    for k, (given, p) in enumerate(cases):
        n = len(given)
        every = (
            {"batch_size": 1},
            {"batch_size": n},
            {"sampler": "edges", "keep": 0.5},
            {"sampler": "walk", "batch_size": n},
            {"batch_size": n, "batches": 2},
        )
        for extra in (every[k], every[(k + shift) % 5]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", plancc.PlanccWarning)
                plan = plancc.compile(
                    sp.csr_array(given.astype(float)), "stochastic-hp", p, **options, **extra
                )
            found = plan.provenance["expected_volume"]
            assert np.bincount(plan.owner(), minlength=p).min() >= 1
            if p == 1 or given is not array or extra == {"batch_size": 1}:
                assert found == 0
            elif extra.get("batch_size") == n and "sampler" not in extra:
                assert found == pytest.approx((array & ~np.eye(20, dtype=bool)).sum())


def test_balance_by_batches():
    """Weights by the closed form; one balance, and two."""
    array, data = dense("rmat"), data_of("rmat")
    n, size = len(array), 20
    train = data.train_mask
    m = int(train.sum())
    among = (array & np.outer(train, train)) | np.diag(train)
    degree = among.sum(axis=1) - train
    expected = size / m * (train + degree * (size - 1) / (m - 1))
    weights = np.rint(1000 * expected / expected.mean())
    for balance in ("batch", "nnz,batch"):
        options = {"sampler": "train", "batch_size": size, "data": data, "effort": "fast"}
        plan = compiled("rmat", balance=balance, epsilon=0.1, **options)
        loads = {"nnz": array.sum(axis=1), "batch": weights}
        shown = plan.provenance["balance_imbalance"].split(",")
        for text, name in zip(shown, balance.split(","), strict=True):
            parts = np.bincount(plan.owner(), weights=loads[name], minlength=P)
            assert float(text) == pytest.approx(parts.max() / parts.mean() - 1, abs=1e-5)
            assert float(text) < 0.13
        assert plan.provenance["balance"] == balance
    assert n > m


def test_clusters_on_demand():
    """As many as asked for, of about one size; the sampler draws from them."""
    plan = compiled("grid", clusters=9, sampler="cluster", batch_size=84, effort="fast")
    clusters = np.empty(252, int)
    clusters[plan.global_id] = plan.vertex_data.clusters
    sizes = np.bincount(clusters)
    assert len(sizes) == 9
    assert sizes.max() <= 1.1 * 28 + 1
    rows, columns = np.nonzero(dense("grid"))
    assert (clusters[rows] == clusters[columns]).mean() > 0.7
    assert plan.provenance["vertices_seen"] == 1
    again = compiled("grid", "rp", clusters=9)
    other = np.empty(252, int)
    other[again.global_id] = again.vertex_data.clusters
    assert other.tolist() == clusters.tolist()
    for number, of_all in ((1, 0), (252, np.arange(252))):
        plan = compiled("grid", "block", clusters=number)
        found = np.sort(plan.vertex_data.clusters)
        assert found.tolist() == np.broadcast_to(of_all, 252).tolist()


WRONG = {
    "theta": ({"theta": 1e-12}, "theta 1e-12, delta 0.5: Hoeffding's bound is above"),
    "option": ({"part": "x"}, "model 'stochastic-hp' has no option `part`: it has `sampler`"),
    "vertex data": ({"vertex_data": VertexData()}, "no option `vertex_data`"),
    "batches of gp": ({"model": "gp", "batches": 3}, "model 'gp' has no option `batches`"),
    "size": ({"balance": "batch", "batch_size": 0}, "`batch_size` 0: must be at least 1"),
    "no clusters": ({"clusters": 0}, "0 clusters: at least 1"),
    "clusters text": ({"clusters": "3"}, "`clusters` '3': a whole number"),
    "clusters 2.5": ({"clusters": 2.5}, "`clusters` 2.5: a whole number"),
    "clusters true": ({"clusters": True}, "`clusters` True: a whole number"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
def test_wrong_options(options, words):
    with pytest.raises(plancc.InputError) as caught:
        compiled("rmat", **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_search_itself_takes_an_expectation():
    matrix = small_graph("grid")
    weights = matrix.row_nonzeros().astype(np.int64)
    expectation = expectation_of(
        StochasticModel.from_options({"batch_size": 30}), matrix, weights, 4, SEED
    )
    from plancc.search.effort import search

    result = search(matrix, 4, SearchOptions(epsilon=EPSILON), expectation=expectation)
    n = matrix.num_vertices
    pattern = sp.csr_array((np.ones(len(matrix.indices)), matrix.indices, matrix.indptr), (n, n))
    exact = uniform_volume(pattern.toarray() != 0, result.owners.rows, 30)
    assert result.value == pytest.approx(exact, rel=1e-9)
    assert exact == pytest.approx(expectation.value(result.owners.rows, 4))
