"""Momentum and clipping on plans of every layout, against dense matrices; and the defaults."""

import json

import numpy as np
import pytest
import reference
from cases import long
from launcher import alone
from runs import trained

import plancc
from plancc_runtime.options import TrainOptions

N, DIMS, EPOCHS, LR = 40, [5, 6, 3], 4, 0.5


@pytest.fixture(scope="module")
def problem():
    """A graph whose classes a network can learn: its edges, vertex data, and the dense matrix."""
    random = np.random.default_rng(4)
    labels = (np.arange(N) % DIMS[-1]).astype(np.int32)
    pattern = np.triu(random.random((N, N)) < np.where(labels[:, None] == labels, 0.3, 0.03), 1)
    means = 2 * random.standard_normal((DIMS[-1], DIMS[0]))
    features = means[labels] + random.standard_normal((N, DIMS[0]))
    train_mask = random.random(N) < 0.6
    data = plancc.VertexData(
        features=features.astype(np.float32),
        labels=labels,
        train_mask=train_mask,
        test_mask=~train_mask,
    )
    pattern |= pattern.T
    return np.stack(np.nonzero(pattern)), data, reference.normalised(pattern)


PLANS = [("rp", 2), ("libra", 3), ("cagnet-2d", 4), ("mop", 3)]


@pytest.mark.parametrize(
    ("model", "ranks", "optimizer"),
    [
        *((*plan, ("sgd", "adam")[k % 2]) for k, plan in enumerate(PLANS)),
        *(pytest.param(*plan, ("adam", "sgd")[k % 2], marks=long) for k, plan in enumerate(PLANS)),
    ],
)
def test_the_norm_is_that_of_all_ranks(problem, model, ranks, optimizer, tmp_path):
    edges, data, a = problem
    plan = tmp_path / "plan.h5"
    plancc.compile((N, edges), model, ranks, data=data, value_dtype="float64").save(plan)
    own = {"momentum": 0.9 * (optimizer == "sgd"), "clip_norm": 0.2}
    options = TrainOptions(
        **{"epochs": EPOCHS, "hidden": DIMS[1], "lr": LR, "optimizer": optimizer, **own},
        **{"parametrization": "paper", "dtype": "float64", "threads": 1},
    )
    case = a, data.features, data.labels, data.train_mask
    start = reference.glorot_weights(DIMS, 0)
    losses, weights, _ = reference.train_dense(*case, start, EPOCHS, LR, optimizer, "relu", **own)
    for name in own:
        other = {**own, name: {"momentum": 0.0, "clip_norm": np.inf}[name]}
        if other != own:
            less = reference.train_dense(*case, start, EPOCHS, LR, optimizer, "relu", **other)[0]
            assert not np.allclose(less, losses, rtol=1e-3), "the case tells nothing"
    for result in trained(plan, options, ranks):
        np.testing.assert_allclose([e.loss for e in result.epochs], losses[:-1], rtol=1e-9)
        assert result.final.loss == pytest.approx(losses[-1], rel=1e-9)
        for found, w in zip(result.weights.values(), weights, strict=True):
            np.testing.assert_allclose(found, w, rtol=0, atol=1e-9)


def test_a_run_without_options_learns(problem, tmp_path):
    edges, data, _ = problem
    plan, found = tmp_path / "plan.h5", tmp_path / "run.json"
    plancc.compile((N, edges), "rp", 1, data=data, seed=1).save(plan)
    done = alone(plan, "--json", found)
    assert done.returncode == 0, done.stderr
    assert "adam, lr 0.01" in done.stdout
    assert json.loads(found.read_text())["final"]["accuracy"]["test"] > 0.9
    words = ("--optimizer", "sgd", "--momentum", 0.9, "--clip-norm", 1)
    done = alone(plan, "--epochs", 2, "--eval-every", 0, *words, "--json", found)
    assert "sgd, lr 0.01, momentum 0.9, clip norm 1" in done.stdout
    accuracy = json.loads(found.read_text())["final"]["accuracy"]
    [last] = [line for line in done.stdout.splitlines() if line.lstrip().startswith("final")]
    assert last.split()[2:4] == [f"{accuracy[split]:.4f}" for split in ("train", "test")]
