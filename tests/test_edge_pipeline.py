"""Edge models through the whole compiler, and the choice among models."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long, turns
from worlds import epoch_seconds, rows_moved

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.models import MODELS, make_model
from plancc.options import SearchOptions
from plancc.owners import choice
from plancc.owners.task import Task
from plancc.plan.matrix import graph_of, matrix_of, owners_of
from plancc.predict.machine_files import find_machine
from plancc.report.provenance import read_candidates

N, PARTS = 60, 4
pytestmark = pytest.mark.filterwarnings("ignore::plancc.PlanccWarning")
EDGE_MODELS = [name for name in MODELS if MODELS[name].layout == "edge"]


def star_and_ring(directed):
    """Two hubs that all others are joined to, a ring, an isolated vertex at the end."""
    array = np.zeros((N, N))
    array[0, 1:-1] = array[7, :-1] = 1
    array[np.arange(N - 2), np.arange(1, N - 1)] = 1
    np.fill_diagonal(array, 0)
    return sp.csr_array(array if directed else np.maximum(array, array.T))


def volume_of(plan):
    """Rows moved by expand and fold, counted one by one from who holds which nonzero."""
    owners = owners_of(plan)
    moved = rows_moved(graph_of(plan), owners.rows, owners.nonzeros)
    return [sum(step == name for step, *_ in moved) for name in ("expand", "fold")]


@turns(model=EDGE_MODELS, directed=[False, True])
def test_every_edge_model(model, directed, tmp_path):
    matrix = star_and_ring(directed)
    plan = plancc.compile(matrix, model, PARTS, effort=None)
    graph = plancc.as_graph(matrix)
    assert plan.header.layout == "edge"
    assert plan.header.directed is directed
    plan.save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5", graph)
    expand, fold = volume_of(plan)
    metrics = plan.metrics()
    assert (metrics.volume, metrics.fold_volume) == (expand + fold, fold)


@turns(model=EDGE_MODELS, num_parts=[N, 1])
def test_one_part_and_one_row_each(model, num_parts):
    matrix = star_and_ring(False)
    plan = plancc.compile(matrix, model, num_parts, normalize="none", value_dtype="float64")
    plancc.verify(plan, plancc.as_graph(matrix))
    assert abs(matrix_of(plan) - (matrix + sp.eye_array(N))).max() == 0
    if num_parts == 1:
        assert plan.metrics().volume == 0


@pytest.mark.parametrize("model", ["medium-grain", pytest.param("fine-grain", marks=long)])
def test_a_named_partitioner(model):
    """Its answer as it is, and refined for an objective that it does not have."""
    matrix = star_and_ring(False)
    plain = plancc.compile(matrix, model, PARTS, partitioner="builtin")
    refined = plancc.compile(matrix, model, PARTS, partitioner="builtin", objective="max-volume")
    assert plain.provenance["partitioner"] == "builtin"
    assert "tried" not in plain.provenance
    tried = json.loads(refined.provenance["tried"])
    assert [trial["step"] for trial in tried] == ["builtin", "refined for max-volume"]
    assert tried[0]["value"] == plain.metrics().max_volume


def test_auto_keeps_the_best_and_shows_all():
    matrix = star_and_ring(False)
    names = "hp,medium-grain,fine-grain,libra"
    plan = plancc.compile(matrix, "auto", PARTS, objective="volume", candidates=names, epsilon=0.1)
    alone = {
        name: plancc.compile(
            *(matrix, name, PARTS),
            epsilon=0.1,
            objective=None if name == "libra" else "volume",
            balance="nnz",
        )
        for name in names.split(",")
    }
    table = json.loads(plan.provenance["candidates"])
    assert [entry["model"] for entry in table] == names.split(",")
    for entry in table:
        metrics = alone[entry["model"]].metrics()
        assert (entry["volume"], entry["messages"]) == (metrics.volume, metrics.messages)
        assert entry["value"] == metrics.volume
    [chosen] = [entry for entry in table if entry["chosen"]]
    assert plan.provenance["chosen_model"] == chosen["model"]
    assert plan.content_sha256() == alone[chosen["model"]].content_sha256()
    balanced = [e for e in table if round(e["nonzero_imbalance"], 12) <= 0.1]
    assert chosen["value"] == min(e["value"] for e in balanced or table)


def test_auto_predicts_an_epoch():
    """Without an objective the machine decides: messages that take for ever leave a grid or 1D."""
    matrix = star_and_ring(False)
    simple = find_machine("simple")
    slow, wide = replace(simple, latency=1.0), replace(simple, bandwidth=1.0)
    dims, chosen = (8, 8, 4), {}
    for name, machine in (("messages", slow), ("volume", wide)):
        plan = plancc.compile(*(matrix, "auto", PARTS), machine=machine, epsilon=0.5, dims=dims)
        table = json.loads(plan.provenance["candidates"])
        chosen[name] = next(entry for entry in table if entry["chosen"])
        reached = epoch_seconds(plan, dims, machine)
        assert chosen[name]["epoch_seconds"] == reached
        found = [each["epoch_seconds"] for each in table if not each["failed"]]
        assert chosen[name]["value"] == reached == min(found)
        assert plan.provenance["chosen_by"] == "time"
    assert chosen["messages"]["messages"] <= chosen["volume"]["messages"]
    assert chosen["volume"]["volume"] <= chosen["messages"]["volume"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "medium-grain", "topology": "3x5"}, ["3x5", "15"]),
        ({"model": "medium-grain", "objective": "cut"}, ["cut", "medium-grain"]),
        ({"model": "auto", "candidates": "hp,magic"}, ["magic"]),
        ({"model": "auto", "candidates": "auto"}, ["auto"]),
        ({"model": "auto", "candidates": "hp,file"}, ["'file'"]),
        ({"model": "auto", "candidates": "stochastic-hp"}, ["'stochastic-hp'"]),
        ({"model": "auto", "candidates": ()}, ["needs candidates"]),
        ({"model": "auto", "topology": "3x5"}, ["3x5", "15"]),
        ({"model": "auto", "objective": "cut"}, ["cut"]),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(InputError) as caught:
        plancc.compile(star_and_ring(False), num_parts=PARTS, **options)
    for word in words:
        assert word in str(caught.value)


def test_auto_shares_a_budget_among_the_searched():
    """What is left of it, after what the candidates before have taken."""
    task = Task("auto", make_model("auto", {}), PARTS, SearchOptions(budget=6.0))
    for name, spent, searched, budget in (
        ("hp", 0, 3, 2.0),
        ("hp", 5, 1, 1.0),
        ("libra", 0, 3, None),
    ):
        form = choice.Form.of(name, PARTS, {})
        assert choice._task(task, form, "time", spent, searched).options.budget == budget


def test_auto_leaves_out_what_the_budget_is_too_short_for():
    """Models that assign rows or nonzeros are tried still."""
    names = ["hp", "medium-grain", "libra"]
    words = "the budget was too short to search medium-grain: 0.0 s were left of it, and no search"
    with pytest.warns(PlanccWarning, match=words):
        plan = plancc.compile(star_and_ring(False), "auto", PARTS, candidates=names, budget=1e-4)
    failed = {each["model"]: each["failed"] for each in read_candidates(plan.provenance)}
    assert [name for name in names if failed[name]] == ["medium-grain"]


@pytest.mark.parametrize(
    ("epsilon", "balance"), [(0.02, "nnz:0.1,rows"), pytest.param(0.2, "nnz,rows", marks=long)]
)
def test_auto_balances_row_plans_as_models_of_rows_do(epsilon, balance):
    matrix = sp.diags_array([np.ones(N - 1)] * 2, offsets=[-1, 1]).tocsr()
    options = {"num_parts": PARTS, "epsilon": epsilon, "effort": "fast", "objective": "time"}
    alone = plancc.compile(matrix, "hp", **options)
    found = plancc.compile(matrix, "auto", candidates="hp", **options)
    assert found.content_sha256() == alone.content_sha256()
    assert found.provenance["balance"] == alone.provenance["balance"] == balance
    assert found.provenance["balance_imbalance"] == alone.provenance["balance_imbalance"]


def test_auto_notes_what_was_asked_for():
    """And not the share of one candidate, nor what a model without a search leaves out."""
    names = ["block", "libra"]
    plan = plancc.compile(
        *(star_and_ring(False), "auto", PARTS), candidates=names, effort="fast", budget=5
    )
    noted = {"model_candidates": "block,libra", "effort": "fast", "budget": 5.0, "threads": 1}
    assert plan.provenance | noted == plan.provenance
