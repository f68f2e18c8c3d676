"""Dropout of attention in whole runs: the same losses and weights however they are executed.

That the mask is what it says, and what is made of it, `test_network_models` compares with dense
matrices and a hash in Python's integers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import plancc
from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import TrainResult
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

N, WIDTH, CLASSES, RATE = 60, 5, 3, 0.4
OPTIONS = TrainOptions(
    model="gat",
    **{"heads": 3, "attention_dropout": RATE, "layers": 3, "hidden": 6, "epochs": 2},
    **{"dtype": "float64", "lr": 0.02, "eval_every": 1, "threads": 1},
)
WAYS = {
    "plain": {"passes": ()},
    "dead rows": {"passes": ("order", "dead-rows")},
    "all passes": {},
    "recompute": {"recompute": True},
}
EPOCHS = {
    "full batch": {},
    "edges sampled": {"drop_edge": 0.7},
    "uniform": {"sampler": "uniform", "batch_size": 20, "steps": 3},
    "neighbour": {"sampler": "neighbour", "fanouts": (3, 2, 2), "batch_size": 8, "steps": 3},
}


@pytest.fixture(scope="module")
def plan_of(tmp_path_factory):
    random = np.random.default_rng(4)
    graph = csr_matrix((random.random((N, N)) < 0.07).astype(float))
    data = VertexData(
        features=random.standard_normal((N, WIDTH)).astype(np.float32),
        labels=random.integers(0, CLASSES, N).astype(np.int32),
        train_mask=np.arange(N) % 6 == 0,
        val_mask=np.arange(N) % 6 == 1,
    )
    folder, found = tmp_path_factory.mktemp("plans"), {}
    for model, parts in (("rp", 1), ("rp", 4), ("libra", 2)):
        plan = plancc.compile(graph, model, parts, data=data, value_dtype="float64")
        found[model, parts] = folder / f"{model}-{parts}.h5"
        plan.save(found[model, parts])
    return found


def run(plan, ranks: int, options: TrainOptions) -> TrainResult:
    return run_ranks(ranks, lambda transport: train(plan, options, transport), 60)[0]


def losses(result: TrainResult) -> list[float]:
    return [epoch.loss for epoch in result.epochs]


@pytest.mark.parametrize("epochs", EPOCHS)
def test_a_run_is_the_same_on_any_number_of_ranks_and_with_any_pass(epochs, plan_of):
    options = replace(OPTIONS, **EPOCHS[epochs])
    expected = run(plan_of["rp", 1], 1, replace(options, passes=()))
    kept = run(plan_of["rp", 1], 1, replace(options, passes=(), attention_dropout=0.0))
    assert np.abs(np.subtract(losses(expected), losses(kept))).min() > 1e-4
    for way in WAYS.values():
        if options.mini_batches and way.get("passes") == ("order", "dead-rows"):
            continue
        found = run(plan_of["rp", 4], 4, replace(options, **way))
        assert losses(found) == pytest.approx(losses(expected), rel=1e-9)
        for name, w in expected.weights.items():
            np.testing.assert_allclose(found.weights[name], w, rtol=0, atol=1e-8)


@pytest.mark.parametrize("ranks", [1, 4])
def test_evaluations_drop_nothing(ranks, plan_of):
    """Those of the first epoch, before any update, are of the same weights."""
    options = replace(OPTIONS, epochs=1, passes=())
    dropped = run(plan_of["rp", ranks], ranks, options).epochs[0]
    plain = run(plan_of["rp", ranks], ranks, replace(options, attention_dropout=0.0)).epochs[0]
    assert dropped.loss != pytest.approx(plain.loss, rel=1e-3)
    assert dropped.val_loss == pytest.approx(plain.val_loss, rel=1e-12)
    assert dropped.accuracy == plain.accuracy


def test_what_travels_is_told_before_and_the_vertices_of_halo_rows_are_not_in_it(plan_of):
    result = run(plan_of["rp", 4], 4, replace(OPTIONS, eval_every=0))
    plain = run(plan_of["rp", 4], 4, replace(OPTIONS, eval_every=0, attention_dropout=0.0))
    assert [e.words_sent for e in result.epochs] == [e.words_sent for e in plain.epochs]


@pytest.mark.parametrize(
    ("plan", "given", "said"),
    [
        (("rp", 1), {"model": "gcn", "heads": 1}, "`attention_dropout` 0.4: model gcn has no such"),
        (("rp", 1), {"attention_dropout": 1.0}, "`attention_dropout` 1.0: must be at least 0 and"),
        (("libra", 2), {}, "`model` gat: needs a plan of layout row"),
    ],
)
def test_where_it_does_not_apply(plan, given, said, plan_of):
    with pytest.raises(InputError, match=said):
        run(plan_of[plan], plan[1], replace(OPTIONS, **given))
