"""What a run says of its own learning: by hand, and from runs that learn or cannot."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from launcher import alone

import plancc
from plancc_runtime.options import TrainOptions
from plancc_runtime.remarks import constant_score, remarks
from plancc_runtime.results import Scores
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

N = 200


def history(losses, val_losses=None):
    found = [SimpleNamespace(loss=loss, val_loss=None) for loss in losses]
    for k, loss in (val_losses or {}).items():
        found[k].val_loss = loss
    return found


def scores(accuracy, shares, split="test"):
    value = {split: accuracy}
    return Scores({split: 1.0}, value, value, value, {split: shares})


@pytest.mark.parametrize(
    ("shares", "multi_label", "expected"),
    [
        ([0.2, 0.5, 0.3], False, 0.5),
        ([0.2, 0.4, 0.1], True, 0),  # nothing is said of any vertex
        ([0.8, 0.6, 0.1], True, 2 * 1.4 / (2 + 1.5)),
    ],
)
def test_constant_score(shares, multi_label, expected):
    assert constant_score(shares, multi_label) == pytest.approx(expected)


def test_near_the_largest_class():
    falling = history(np.linspace(2, 1.9, 30))
    options = TrainOptions(epochs=30)
    [said] = remarks(options, falling, scores(0.52, [0.5, 0.5]), True, False)
    assert said == (
        "the test accuracy 0.5200 is near 0.5000, the share of the largest class: the network has "
        "hardly learnt; try `optimizer` adam, `standardize_features`, `norm` layer, more `epochs` "
        "than 30, another `lr` than 0.01"
    )
    assert not remarks(options, falling, scores(0.6, [0.5, 0.5]), True, False)
    tried = TrainOptions(epochs=300, optimizer="adam", norm="batch")
    [said] = remarks(tried, falling, scores(0.3, [0.5, 0.5], "val"), False, False)
    assert said.startswith("the val accuracy 0.3000")
    assert said.endswith("; try another `lr` than 0.01")
    assert not remarks(options, [], scores(0.5, [0.5, 0.5]), True, False)
    [said] = remarks(options, falling, scores(0.01, [0.3, 0.1]), True, True)
    assert "the test micro F1 0.0100 is near 0.0000, that of the same answer for every" in said


def test_still_improving():
    options, good = TrainOptions(epochs=20, optimizer="adam"), scores(0.9, [0.5, 0.5])
    [said] = remarks(options, history(np.linspace(2, 1, 20)), good, True, False)
    assert said == (
        "the training loss still falls quickly, from 1.1579 to 1.0000 in the last 4 epochs; try "
        "more `epochs` than 20"
    )
    done = 0.3 + 1.7 * np.exp(-np.arange(20) / 3)
    assert not remarks(options, history(done), good, True, False)
    noisy = 1 + np.random.default_rng(0).normal(size=20) / 3
    assert not remarks(options, history(noisy), good, True, False)
    # the validation loss has risen: more epochs would not help
    learnt = history(np.linspace(2, 1, 20), {0: 2.0, 10: 1.0, 19: 1.1})
    assert not remarks(options, learnt, good, True, False)
    assert not remarks(options, history([2, 1, 0.5]), good, True, False)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Classes that a layer can tell, of features that are far from 0."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, N).astype(np.int32)
    likely = np.where(labels[:, None] == labels, 0.1, 0.01)
    edge = np.triu(random.random((N, N)) < likely, 1)
    features = (np.eye(3)[labels] + random.normal(size=(N, 3)) + 50).astype(np.float32)
    data = plancc.VertexData(features=features, labels=labels)
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    plancc.compile((N, np.stack(np.nonzero(edge | edge.T))), "rp", 2, data=data).save(path)
    return path


def test_a_run_that_does_what_it_is_told_learns(plan):
    def last(**options):
        chosen = TrainOptions(split=(0.6, 0.2, 0.2), threads=1, eval_every=0, **options)
        return run_ranks(2, lambda t: train(plan, chosen, t), 60)

    untold = last(epochs=5)
    assert len({tuple(result.remarks) for result in untold}) == 1
    assert "`standardize_features`" in untold[0].remarks[0]
    told = last(epochs=100, optimizer="adam", standardize_features=True)[0]
    assert told.final.accuracy["test"] > 0.9
    assert told.remarks == []


def test_the_command_says_it_in_its_own_words(plan, tmp_path):
    bare = tmp_path / "bare.h5"
    plancc.compile((4, np.array([[0, 1, 2], [1, 2, 3]])), "rp", 1).save(bare)
    done = alone(plan, "--epochs", 5)
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(said) == 1
    assert said[0].startswith("plancc-run: warning: the train accuracy ")
    assert "try --optimizer adam, --standardize-features, --norm layer, more --epochs" in said[0]
    silent = alone(bare, "--epochs", 5)  # random labels: nothing to learn
    assert "warning" not in silent.stderr
