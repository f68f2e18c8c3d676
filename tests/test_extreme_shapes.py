"""Stars, cliques, a full row, graphs without an entry: every model, from one vertex on."""

import itertools
import json
import math
import warnings
from dataclasses import asdict

import numpy as np
import pytest
from cases import long, turns
from test_edge_pipeline import volume_of

import plancc
from benchmarks.generated import SHAPES
from benchmarks.generated import extreme as graph_of
from plancc.errors import InputError
from plancc.graph.normalize import normalize
from plancc.models import MODELS, full_rows, make_model, stochastic
from plancc.models.full_rows import FullRows
from plancc.models.limits import Bounds, Limits
from plancc.models.problem import Hypergraph
from plancc.models.process_grid import ProcessGridModel
from plancc.passes.bound import least_volume
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of
from plancc.passes.kernels.volume import sweep

COMPILED = [name for name in MODELS if name != "file"]
BARE = {"normalize": "none", "self_loops": False}


def compiled(graph, model, num_parts, **settings):
    """The plan; None where a process grid says that it cannot be. No other warning passes."""
    refused = InputError if issubclass(MODELS[model], ProcessGridModel) else ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", plancc.PlanccWarning)
        try:
            return plancc.compile(graph, model, num_parts, **settings)
        except refused:
            return None


def check(plan, graph, model):
    """It verifies, and says the volume that counting row by row gives."""
    assert plancc.verify(plan, graph)
    found = plan.metrics()
    for name, value in asdict(found).items():
        assert np.isfinite(np.asarray(value, dtype=float)).all(), name
    if plan.header.grid is None:
        assert found.volume == sum(volume_of(plan))
    assert math.isfinite(plan.provenance["epoch_seconds"])


@turns(model=COMPILED, shape=SHAPES)
def test_every_model_and_shape(model, shape):
    """Sizes and settings are drawn, the same ones in every run."""
    rng = np.random.default_rng([COMPILED.index(model), SHAPES.index(shape)])
    n = int(rng.integers(2, 31))
    parts = int(rng.choice([2, n, max(1, n // 2)]))
    graph = graph_of(shape, n)
    settings = BARE if rng.random() < 0.5 else {}
    if MODELS[model].searched:
        settings = settings | {"effort": "fast"}
    plan = compiled(graph, model, parts, **settings)
    if plan is not None:
        check(plan, graph, model)


@turns(model=COMPILED, settings=[{}, BARE])
def test_one_vertex(model, settings):
    graph = graph_of("empty", 1)
    plan = compiled(graph, model, 1, **settings)
    if plan is not None:
        check(plan, graph, model)
        assert plan.metrics().volume == 0


@pytest.mark.parametrize("leaves", [500, pytest.param(4000, marks=long)])
def test_work_of_a_star_is_linear(leaves):
    """A sweep looks at few parts per leaf, though the net of the hub touches all of them."""
    num_parts, n = 50, leaves + 1
    graph = normalize(graph_of("star", n), "none", self_loops=True)
    lone = Hypergraph(np.array([0, n]), np.arange(n, dtype=np.int32), np.ones(n, dtype=np.int64))
    owner = (np.arange(n) % num_parts).astype(np.int32)
    for problem in (lone, make_model("hp", {}).build(graph, num_parts, balance="rows", seed=1)):
        nets = nets_of(problem)
        state = state_of(nets, owner, num_parts)
        even = np.full((num_parts, 1), nets.weight.sum() / num_parts)
        prices, caps = np.full((num_parts, 1), 0.01), np.full((num_parts, 1), np.inf)
        bounds = Bounds(1.2 * even, prices, caps, np.ones(num_parts))
        _, _, evaluations = sweep(np.arange(n), nets, state, bounds)
        assert evaluations <= 3 * leaves + 2 * num_parts**2


def test_auto_leaves_out_rows_for_a_hub():
    """A row plan gives a hub to one part: where one by nonzeros remains, it is not searched for."""
    with pytest.warns(plancc.PlanccWarning, match="left out: hp;"):
        plan = plancc.compile(
            graph_of("star", 400), "auto", 64, effort="fast", candidates="hp,libra"
        )
    tried = {each["model"]: each for each in json.loads(plan.provenance["candidates"])}
    assert "row 0 has 400 nonzeros, 21.4 times the even share" in tried["hp"]["failed"]
    assert not tried["libra"]["failed"]
    assert tried["libra"]["chosen"]


def test_stochastic_declines_hubs(monkeypatch):
    """A row that all need: owners are those of a quick search for the volume."""
    graph = normalize(graph_of("star", 300), "sym", self_loops=True)
    model = make_model("stochastic-hp", {})
    assert model.unfit(graph, 8) == ""
    monkeypatch.setattr(stochastic, "MAX_HUB_GAINS", 300 * 8 - 1)
    assert "row 0 is needed by 300 of 300 rows" in model.unfit(graph, 8)
    with pytest.warns(plancc.PlanccWarning, match="'stochastic-hp' is not made for this graph"):
        plan = plancc.compile(graph_of("star", 300), "stochastic-hp", 8)
    check(plan, graph_of("star", 300), "stochastic-hp")
    steps = [each["step"] for each in json.loads(plan.provenance["tried"])]
    assert not any("refined for" in step or "V-cycle" in step for step in steps)


def steps_of(plan):
    return [each["step"] for each in json.loads(plan.provenance["tried"])]


@pytest.mark.parametrize("seed", [1, 4, *(pytest.param(k, marks=long) for k in (0, 2, 3, 5))])
def test_least_volume(seed):
    """Against every partition within the limits."""
    rng, n, num_parts = np.random.default_rng(seed), 7, 3
    weight = rng.integers(1, 4, (n, 1 + seed % 2))
    members = [np.flatnonzero(rng.random(n) < 0.7) for _ in range(3)]
    members = [each for each in members if len(each) > 1] + [np.arange(n)]
    ptr = np.concatenate([[0], np.cumsum([len(each) for each in members])])
    cost = rng.integers(1, 5, len(members))
    pins = np.concatenate(members).astype(np.int32)
    nets = nets_of(Hypergraph(ptr, pins, weight, net_costs=cost))
    limits = Limits(nets.weight, num_parts, 0.1, (1.0, 2.0, 1.5) if seed > 3 else None)
    volumes = []
    for owner in itertools.product(range(num_parts), repeat=n):
        loads = np.zeros((num_parts, weight.shape[1]), dtype=np.int64)
        np.add.at(loads, list(owner), weight)
        if limits.overload(loads) == 0:
            spread = [len({owner[v] for v in each}) for each in members]
            volumes.append(sum(c * (s - 1) for c, s in zip(cost, spread, strict=True)))
    assert 0 < least_volume(nets, limits) <= min(volumes)


def test_a_search_ends_at_the_least_volume():
    """The hubs of a split are in every part whatever is tried: one split, nothing after it."""
    graph = graph_of("hubs", 600)
    plan = plancc.compile(graph, "medium-grain", 16, effort="fast")
    check(plan, graph, "medium-grain")
    assert steps_of(plan)[-1].startswith("split 1")
    assert plan.metrics().volume <= 20 * 15
    plan = plancc.compile(graph_of("path", 300), "medium-grain", 4, effort="fast")
    assert steps_of(plan)[-1].startswith("nonzeros")


def test_full_rows(monkeypatch):
    assert FullRows.of(graph_of("clique", 60), 8) is None  # small
    monkeypatch.setattr(full_rows, "MAX_GAINS", 0)
    clique, hubs = FullRows.of(graph_of("clique", 60), 8), FullRows.of(graph_of("hubs", 200), 64)
    assert (clique.rows, clique.columns, clique.share, clique.hubs) == (60, 60, 1.0, False)
    assert (hubs.rows, hubs.columns, hubs.hubs) == (10, 10, True)
    assert hubs.share == 1
    assert str(hubs).startswith("10 rows and 10 columns are more than half full and hold 100% of")
    for shape in ("path", "loops", "empty", "components"):
        assert FullRows.of(graph_of(shape, 200), 16) is None


@pytest.mark.parametrize(
    ("shape", "model"),
    [
        ("clique", "medium-grain"),
        pytest.param("clique", "fine-grain", marks=long),
        ("hubs", "fine-grain"),
    ],
)
def test_declined(monkeypatch, shape, model):
    """One sentence up front, then owners that are quick to have."""
    monkeypatch.setattr(full_rows, "MAX_GAINS", 0)
    graph = graph_of(shape, 120)
    with pytest.warns(plancc.PlanccWarning, match=f"'{model}' is not made for this graph"):
        plan = plancc.compile(graph, model, 64 if shape == "hubs" else 16)
    check(plan, graph, model)
    assert plan.provenance["warnings"].startswith(f"model '{model}' is not made for this graph")
    assert not any("cycle" in step or "split" in step for step in steps_of(plan))
    if model in ("medium-grain", "fine-grain"):
        assert steps_of(plan) == ["libra"]


@pytest.mark.parametrize(
    ("shape", "best"), [("clique", "cagnet-3d:grid=1x1x64"), ("hubs", "libra")]
)
def test_auto_with_full_rows(monkeypatch, shape, best):
    monkeypatch.setattr(full_rows, "MAX_GAINS", 0)
    with pytest.warns(plancc.PlanccWarning, match="these candidates do not suit the graph"):
        plan = plancc.compile(graph_of(shape, 200), "auto", 64)
    assert plan.provenance["chosen_model"] == best


def test_auto_with_candidates_that_all_decline(monkeypatch):
    monkeypatch.setattr(full_rows, "MAX_GAINS", 0)
    graph = graph_of("clique", 60)
    plan = plancc.compile(graph, "auto", 8, candidates="medium-grain,fine-grain")
    check(plan, graph, "auto")
