"""Dropout of attention in whole runs: the same losses and weights however they are executed.

That the mask is what it says, and what is made of it, `test_network_models` compares with dense
matrices and a hash in Python's integers.
"""

from dataclasses import replace

import numpy as np
import pytest
from cases import long
from runs import file_of, trained

from plancc_runtime.options import TrainOptions
from plancc_runtime.results import TrainResult

OPTIONS = TrainOptions(
    model="gat",
    **{"heads": 3, "attention_dropout": 0.4, "layers": 3, "hidden": 6, "epochs": 2},
    **{"dtype": "float64", "lr": 0.02, "eval_every": 1, "threads": 1},
)
WAYS = {"plain": {"passes": ()}, "all passes": {}, "recompute": {"recompute": True}}
EPOCHS = {
    "full batch": {},
    "edges sampled": {"drop_edge": 0.7},
    "uniform": {"sampler": "uniform", "batch_size": 20, "steps": 3},
    "neighbour": {"sampler": "neighbour", "fanouts": (3, 2, 2), "batch_size": 3, "steps": 3},
}


def run(ranks: int, options: TrainOptions) -> TrainResult:
    return trained(file_of("directed", "row", ranks), options, ranks)[0]


def losses(result: TrainResult) -> list[float]:
    return [epoch.loss for epoch in result.epochs]


@pytest.mark.parametrize(
    "epochs",
    [pytest.param(e, marks=long if e in ("edges sampled", "uniform") else ()) for e in EPOCHS],
)
def test_a_run_is_the_same_on_any_number_of_ranks_and_with_any_pass(epochs):
    options = replace(OPTIONS, **EPOCHS[epochs])
    expected = run(1, replace(options, passes=()))
    kept = run(1, replace(options, passes=(), attention_dropout=0.0))
    assert np.abs(np.subtract(losses(expected), losses(kept))).min() > 1e-4
    for way in WAYS.values():
        found = run(3, replace(options, **way))
        assert losses(found) == pytest.approx(losses(expected), rel=1e-9)
        for name, w in expected.weights.items():
            np.testing.assert_allclose(found.weights[name], w, rtol=0, atol=1e-8)


def test_evaluations_drop_nothing():
    """Those of the first epoch, before any update, are of the same weights."""
    options = replace(OPTIONS, epochs=1, passes=())
    dropped = run(2, options).epochs[0]
    plain = run(2, replace(options, attention_dropout=0.0)).epochs[0]
    assert dropped.loss != pytest.approx(plain.loss, rel=1e-3)
    assert dropped.val_loss == pytest.approx(plain.val_loss, rel=1e-12)
    assert dropped.accuracy == plain.accuracy


def test_what_travels_is_told_before_and_the_vertices_of_halo_rows_are_not_in_it():
    result = run(3, replace(OPTIONS, eval_every=0))
    plain = run(3, replace(OPTIONS, eval_every=0, attention_dropout=0.0))
    assert [e.words_sent for e in result.epochs] == [e.words_sent for e in plain.epochs]
