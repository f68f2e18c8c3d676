"""Training as a person would: optimisers, schedules, early stopping, scores, logs and timelines.

Against a dense float64 loop in plain torch.
"""

import json
import math
import re
from dataclasses import asdict, replace

import click
import numpy as np
import pytest
import reference
import torch
from cases import long
from runs import trained
from sklearn.metrics import accuracy_score, f1_score

from plancc.errors import OutputError, PlanccError
from plancc.graph.vertexdata import VertexData
from plancc.sampling.splits import random_split
from plancc_cli.run_command import SECTIONS, command
from plancc_runtime.options import OPTION_NAMES, TrainOptions
from plancc_runtime.train import prepared
from plancc_runtime.transport.local import run_ranks

N, PARTS, CLASSES, WIDTH, HIDDEN = 60, 3, 4, 7, 6
COMMON = {
    "hidden": HIDDEN,
    "parametrization": "paper",  # as `reference.Dense` has it
    "epochs": 5,
    "optimizer": "sgd",
    "dtype": "float64",
    "threads": 1,
    "kernel": "torch",
}


def make_case(multi_label=False, signal=0.0, **masks):
    """(dense matrix, vertex data, header and parts); `signal` says how easily it is learnt."""
    random = np.random.default_rng(5)
    labels = random.integers(0, CLASSES, N).astype(np.int32)
    likely = np.where(labels[:, None] == labels, 0.06 + 0.05 * signal, 0.06 - 0.02 * signal)
    a = reference.normalised(random.random((N, N)) < likely)
    owner = random.integers(0, PARTS, N)
    features = random.standard_normal((N, WIDTH)).astype(np.float32)
    features[np.arange(N), labels] += signal
    wrong = np.flatnonzero(random.random(N) < 0.25)
    labels[wrong] = random.integers(0, CLASSES, len(wrong))  # so that it can be learnt too well
    features[3] = 0
    if not masks:
        fold = random.integers(0, 3, N)
        masks = {name: fold == k for k, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    if multi_label:
        truth = {"targets": random.random((N, CLASSES)) < 0.4}
    else:
        labels[:4] = -1
        truth = {"labels": labels}
    data = VertexData(features=features, **truth, **masks)
    return a, data, reference.make_parts(a, owner, PARTS, data)


def run(case, ranks, options, report=None):
    """The results of all ranks, on 1 or `PARTS` of them."""
    a, data, plan = case
    if ranks == 1:
        plan = reference.make_parts(a, np.zeros(N, int), 1, data)
    return trained(plan, TrainOptions(**{**COMMON, **options}), report=report)


RANKS = pytest.mark.parametrize("ranks", [PARTS, pytest.param(1, marks=long)])


def dense_of(a, data):
    def loss(z, truth):
        if truth.ndim == 1:
            return -torch.log_softmax(z, 1)[range(len(z)), truth.long()].mean()
        y = truth.double()
        return -(y * torch.log(torch.sigmoid(z)) + (1 - y) * torch.log(1 - torch.sigmoid(z))).mean()

    return reference.Dense(a, data, [WIDTH, HIDDEN, CLASSES], loss)


OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


@RANKS
@pytest.mark.parametrize(
    ("optimizer", "decay", "schedule", "momentum", "clip"),
    [
        ("sgd", 0.02, "none", 0.0, math.inf),
        ("sgd", 0.0, "step", 0.9, 0.1),
        ("adam", 0.1, "cosine", 0.0, 0.05),
        ("adamw", 0.1, "plateau", 0.0, math.inf),
    ],
)
def test_training_is_that_of_a_dense_loop(optimizer, decay, schedule, momentum, clip, ranks):
    case = make_case()
    epochs, lr = 30, 0.3
    options = {
        **{"optimizer": optimizer, "weight_decay": decay, "schedule": schedule},
        **{"epochs": epochs, "lr": lr, "eval_every": 2},
        **({"clip_norm": clip} if clip < math.inf else {}),
    }
    own = {"momentum": momentum} if momentum else {}
    results = run(case, ranks, options | own)
    dense = dense_of(*case[:2])
    steps = OPTIMIZERS[optimizer](dense.weights, lr=lr, weight_decay=decay, **own)
    best, waited, rate, losses, rates, validation = math.inf, 0, lr, [], [], []
    for epoch in range(epochs):
        validation.append(dense.loss("val").item() if epoch % 2 == 0 else None)
        if epoch % 2 == 0:
            waited = 0 if validation[-1] < best else waited + 1
            best = min(best, validation[-1])
            if schedule == "plateau" and waited and waited % 5 == 0:
                rate /= 2
        if schedule == "step":
            rate = lr * (1 if epoch < 15 else 0.1 if epoch < 22.5 else 0.01)
        if schedule == "cosine":
            rate = lr * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        steps.param_groups[0]["lr"] = rate
        losses.append(dense.step(steps, clip))
        rates.append(rate)
    assert (dense.clipped > 3) == (clip < math.inf), "the case tells nothing of clipping"
    if schedule == "plateau":
        assert rate < lr, "the case tells nothing of the schedule"
    for result in results:
        np.testing.assert_allclose([e.loss for e in result.epochs], losses, rtol=1e-9)
        np.testing.assert_allclose([e.learning_rate for e in result.epochs], rates, rtol=1e-12)
        for epoch, expected in zip(result.epochs, validation, strict=True):
            assert bool(epoch.accuracy) == (expected is not None)
            if expected is None:
                assert epoch.val_loss is None
            else:
                assert epoch.val_loss == pytest.approx(expected, rel=1e-9)
        for found, w in zip(result.weights.values(), dense.weights, strict=True):
            np.testing.assert_allclose(found, w.detach().numpy(), rtol=0, atol=1e-9)


@RANKS
@pytest.mark.parametrize("own_pass", [False, True])
def test_early_stopping_goes_back_to_the_best_weights(ranks, own_pass):
    """Evaluation is a pass of its own where training leaves out rows, or the training pass."""
    case = make_case(signal=2.0)
    lr, patience = 0.03, 4
    options = {"optimizer": "adam", "lr": lr, "epochs": 200, "eval_every": 3, "patience": patience}
    result = run(case, ranks, options if own_pass else {**options, "passes": ()})[0]
    assert all(
        bool(e.evaluation_words) == (own_pass and ranks > 1 and e.epoch % 3 == 0)
        for e in result.epochs
    )
    dense = dense_of(*case[:2])
    steps = torch.optim.Adam(dense.weights, lr=lr)
    best, waited, epoch = math.inf, 0, 0
    while waited < patience:
        if epoch % 3 == 0:
            loss = dense.loss("val").item()
            waited += 1
            if loss < best:
                best, waited, best_epoch = loss, 0, epoch
                kept = [w.detach().clone().numpy() for w in dense.weights]
        dense.step(steps)
        epoch += 1
    assert 3 < best_epoch < epoch < 200, "the case tells nothing of early stopping"
    assert len(result.epochs) == epoch
    assert result.best_epoch == best_epoch
    assert result.final.val_loss == pytest.approx(best, rel=1e-8)
    for found, w in zip(result.weights.values(), kept, strict=True):
        np.testing.assert_allclose(found, w, rtol=0, atol=1e-8)


@pytest.mark.parametrize("multi_label", [False, True])
def test_scores_are_those_of_scikit_learn(multi_label):
    case = make_case(multi_label)
    results = run(case, PARTS, {"epochs": 12, "lr": 0.1, "optimizer": "adam", "eval_every": 4})
    assert all(result.final.f1_macro == results[0].final.f1_macro for result in results)
    dense = dense_of(*case[:2])
    steps = torch.optim.Adam(dense.weights, lr=0.1)
    rows = [e for e in (*results[0].epochs, results[0].final) if e.accuracy]
    assert [e.epoch for e in rows] == [0, 4, 8, 12]
    for epoch in range(13):
        if epoch % 4 == 0:
            row, z = rows[epoch // 4], dense.outputs().detach().numpy()
            found = z > 0 if multi_label else z.argmax(axis=1)
            assert row.loss == pytest.approx(dense.loss().item(), rel=1e-9)
            for split, chosen in dense.rows.items():
                pair = dense.truth[chosen], found[chosen]
                average = {
                    name: f1_score(*pair, average=name, zero_division=0)
                    for name in ("micro", "macro")
                }
                assert row.accuracy[split] == pytest.approx(accuracy_score(*pair))
                assert row.f1_micro[split] == pytest.approx(average["micro"])
                assert row.f1_macro[split] == pytest.approx(average["macro"])
                if not multi_label:
                    assert row.f1_micro[split] == pytest.approx(row.accuracy[split])
        dense.step(steps)
    assert results[0].target == ("classes" if multi_label else "class")


@pytest.mark.parametrize(
    ("what", "options", "words"),
    [
        ("features", {}, "rank 1: the plan: features of this rank are not finite after"),
        ("later features", {}, "rank 1: the loss of epoch 1 is nan: features of this rank are"),
        ("later features", {"input_dropout": 0.5}, "rank 1: the loss of epoch 1 is nan: features"),
        ("values", {}, "rank 1: the loss of split train in epoch 0 is nan: values of the matrix"),
        ("weights", {}, "rank 1: the loss of split train in epoch 0 is nan: weights of the"),
        ("all weights", {}, "the loss of split train in epoch 0 is nan: the outputs are not"),
        ("later weights", {"lr": 0.25}, "the loss of epoch 1 is nan: try a smaller `lr` than 0.25"),
    ],
)
def test_a_number_that_is_not_finite_names_its_rank(what, options, words):
    """Plans with such numbers are refused: here they appear once a rank has read its own."""
    header, parts = make_case()[2]

    def main(transport):
        wrong, part = transport.rank == 1, parts[transport.rank]
        if what == "values" and wrong:
            value = np.where(np.arange(len(part.value)) == 3, np.nan, part.value)
            part = replace(part, value=value)
        if what == "features" and wrong:
            features = part.vertex_data.features.copy()
            features[5] = np.inf
            part = replace(part, vertex_data=replace(part.vertex_data, features=features))
        run = prepared(
            (header, part), TrainOptions(**{**COMMON, "epochs": 2, **options}), transport
        )
        if "later" in what:
            run.epoch(0)
        if what in ("all weights", "later weights") or (what == "weights" and wrong):
            next(run._learner.network.parameters()).data[0, 0] = np.nan
        if what == "later features" and wrong:
            view = run._execution.view(1)
            for x in (run._data.features, view.x, view.fixed):
                if x is not None:
                    x[:] = np.nan
        if "later" in what:
            run.epoch(1)
        run.loop(None)

    with pytest.raises(PlanccError, match=f"^{re.escape(words)}") as raised:
        run_ranks(PARTS, main)
    assert "rank 0" not in str(raised.value)
    assert "ranks" not in str(raised.value)


def test_a_split_is_drawn_where_the_plan_has_no_masks():
    case = make_case(train_mask=None)
    options = {"epochs": 2, "split": (0.5, 0.3, 0.2), "eval_every": 1}
    alone, several = (run(case, ranks, options)[0] for ranks in (1, PARTS))
    assert alone.split_sizes == several.split_sizes
    assert sum(alone.split_sizes.values()) == N - 4  # four have no label
    assert several.final.accuracy == pytest.approx(alone.final.accuracy)
    masks = random_split(np.arange(40000, dtype=np.int32), (0.5, 0.3, 0.1), seed=3)
    assert np.stack(masks).sum(axis=0).max() == 1
    np.testing.assert_allclose([m.mean() for m in masks], [0.5, 0.3, 0.1], atol=0.01)
    some = np.array([5, 17, 39999], dtype=np.int32)
    for mask, whole in zip(random_split(some, (0.5, 0.3, 0.1), 3), masks, strict=True):
        np.testing.assert_array_equal(mask, whole[some])
    other = random_split(np.arange(40000, dtype=np.int32), (0.5, 0.3, 0.1), seed=4)
    assert abs((other[0] & masks[0]).mean() - 0.25) < 0.01


def test_features_are_divided_by_the_sum_of_their_magnitudes():
    a, data, _ = case = make_case()
    result = run(case, PARTS, {"epochs": 3, "lr": 0.5, "scale_features": "rows"})[0]
    total = np.abs(data.features.astype(np.float64)).sum(axis=1, keepdims=True)
    dense = dense_of(a, replace(data, features=data.features / np.where(total > 0, total, 1)))
    steps = torch.optim.SGD(dense.weights, lr=0.5)
    for epoch in result.epochs:
        assert epoch.loss == pytest.approx(dense.step(steps), rel=1e-6)


def test_every_option_of_training_is_one_of_the_command_line_in_a_section():
    parameters = {p.name: p for p in command.params if isinstance(p, click.Option)}
    assert set(OPTION_NAMES) <= set(parameters)
    sections = [name for names in SECTIONS.values() for name in names]
    assert sorted([*sections, "version", "quiet", "verbose"]) == sorted(parameters)
    context = command.make_context("plancc-run", ["plan.h5"])
    settings = {name: context.params[name] for name in OPTION_NAMES}
    assert TrainOptions(**settings) == TrainOptions()
    given = ["plan.h5", "--passes", "order,overlap", "--split", "0.6,0.2,0.1", "--no-bias"]
    settings = command.make_context("plancc-run", given).params
    assert settings["passes"] == ("order", "overlap")
    assert settings["split"] == (0.6, 0.2, 0.1)
    assert settings["bias"] is False
    assert command.make_context("plancc-run", ["p", "--passes", "none"]).params["passes"] == ()


@RANKS
def test_the_log_has_a_line_per_epoch_as_it_happens(ranks, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("of an earlier run\n")
    lines_then = []

    def report(measure):
        lines_then.append((measure.epoch, len(path.read_text().splitlines())))

    options = {"epochs": 4, "eval_every": 2, "log": path}
    result = run(make_case(), ranks, options, report)[0]
    assert sorted(lines_then) == [(k, k + 1) for k in range(4) for _ in range(ranks)]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [json.loads(json.dumps(asdict(epoch))) for epoch in result.epochs]
    assert all(row["words_sent"] > 0 for row in rows) == (ranks > 1)


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match="no-such-folder"):
        run(make_case(), PARTS, {"log": tmp_path / "no-such-folder" / "run.jsonl"})
