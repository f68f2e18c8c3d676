"""What networks learn beside classes, and what runs follow: numbers, areas under curves, weights.

Against dense float64 loops in plain torch, and scikit-learn.
"""

import json
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import reference
import torch
from cases import long
from click.testing import CliRunner
from runs import on_ranks, trained
from sklearn.metrics import (
    average_precision_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional

import plancc
from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc_cli.run_command import command
from plancc_runtime import curves, load_network
from plancc_runtime.data import read_class_weights
from plancc_runtime.metrics import METRICS
from plancc_runtime.options import TrainOptions
from plancc_runtime.predict import predict
from plancc_runtime.targets import Numbers
from plancc_runtime.transport.single import SingleTransport

N, PARTS, WIDTH = 60, 3, 5
COMMON = {
    "hidden": 6,
    "parametrization": "paper",
    "epochs": 6,
    "dtype": "float64",
    "threads": 1,
    "kernel": "torch",
    "eval_every": 2,
    "lr": 0.05,
}
RANKS = pytest.mark.parametrize("ranks", [PARTS, pytest.param(1, marks=long)])


def make_case(kind, seed=4):
    """(dense matrix, vertex data) of one kind of targets; some vertices have none."""
    random = np.random.default_rng(seed)
    a = reference.normalised(random.random((N, N)) < 0.08)
    x = random.standard_normal((N, WIDTH)).astype(np.float32)
    fold = random.integers(0, 3, N)
    masks = {f"{name}_mask": fold == k for k, name in enumerate(("train", "val", "test"))}
    if kind == "numbers":
        targets = (2000 + x[:, :2] @ random.standard_normal((2, 2))).astype(np.float32)
        targets[[5, 17]] = np.nan
        return a, VertexData(features=x, targets=targets, **masks)
    if kind == "classes":
        return a, VertexData(features=x, targets=x[:, :3] > [0, 0.3, 0.8], **masks)
    labels = (x[:, 0] > 0.2).astype(np.int32) + (x[:, 1] > 0.7)
    labels[[5, 17]] = -1
    return a, VertexData(features=x, labels=labels, **masks)


def run(case, ranks, **options):
    a, data = case
    owner = np.random.default_rng(1).integers(0, ranks, N)
    return trained(reference.make_parts(a, owner, ranks, data), TrainOptions(**COMMON | options))[0]


def check(case, width, loss, result, rel=1e-9):
    """The losses, before every update and at the end, are those of a dense loop; that model."""
    dense = reference.Dense(*case, [WIDTH, COMMON["hidden"], width], loss)
    steps = torch.optim.Adam(dense.weights, lr=COMMON["lr"])
    losses = [dense.step(steps) for _ in result.epochs]
    assert len(losses) == COMMON["epochs"]
    np.testing.assert_allclose([epoch.loss for epoch in result.epochs], losses, rtol=rel)
    assert result.final.loss == pytest.approx(dense.loss().item(), rel=rel)
    assert result.final.val_loss == pytest.approx(dense.loss("val").item(), rel=rel)
    return dense


# -- numbers ---------------------------------------------------------------------------------------


@RANKS
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("auto", functional.mse_loss),
        ("mae", functional.l1_loss),
        ("huber", partial(functional.huber_loss, delta=1.0)),
    ],
)
def test_losses_and_scores_of_numbers(name, loss, ranks):
    """The targets are near 2000: R2 must not lose its digits."""
    case = make_case("numbers")
    result = run(case, ranks, loss=name)
    dense = check(case, 2, lambda z, t: loss(z, t.double()), result)
    assert (result.target, result.metrics) == ("numbers", ("rmse", "mae", "r2"))
    for split in ("train", "val", "test"):
        z, t = dense.of(split)
        pair = t.double().numpy(), z.detach().numpy()
        assert result.final.rmse[split] == pytest.approx(root_mean_squared_error(*pair), rel=1e-9)
        assert result.final.mae[split] == pytest.approx(mean_absolute_error(*pair), rel=1e-9)
        assert result.final.r2[split] == pytest.approx(r2_score(*pair), rel=1e-9)
    assert not result.final.accuracy


@pytest.mark.parametrize("error", [0.0, 0.5])
def test_r2_of_a_constant_target_is_that_of_scikit_learn(error):
    """The other target varies; two ranks have a share each, and the centre is another number."""
    truth = torch.tensor([[7.1, 1.0], [7.1, 2.0], [7.1, 4.0], [7.1, 3.0]], dtype=torch.float64)
    outputs = truth + torch.tensor([error, 0.1])
    target = Numbers(centre=torch.tensor([3.3, 2.0], dtype=torch.float64))
    counts = sum(target.count(outputs[rows], truth[rows], 4) for rows in (slice(1), slice(1, 4)))
    assert target.scores(counts, 4)["r2"] == pytest.approx(r2_score(truth, outputs), rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "score", "more"),
    [("numbers", "r2", {}), ("class", "accuracy", {"class_weights": "balanced"})],
)
def test_mini_batches_learn_alike_on_any_number_of_ranks(kind, score, more):
    case, options = make_case(kind), {"sampler": "uniform", "batch_size": 20}
    one, three = (run(case, ranks, **options, **more) for ranks in (1, PARTS))
    for mine, other in zip(one.epochs, three.epochs, strict=True):
        assert mine.loss == pytest.approx(other.loss, rel=1e-9)
        assert kind == "class" or not mine.accuracy
    scores = (getattr(result.final, score)["test"] for result in (one, three))
    assert next(scores) == pytest.approx(next(scores), rel=1e-9)
    if more:
        plain = run(case, 1, **options).epochs[0].loss
        assert one.epochs[0].loss != pytest.approx(plain, rel=1e-3)


# -- areas under curves ----------------------------------------------------------------------------


def shares(rows, ranks, random):
    """Which of the rows a rank has; one may have none."""
    owner = random.integers(0, max(1, ranks - 1), rows)
    return [owner == rank for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("values", [0, 4, 1])
def test_areas_are_those_of_scikit_learn(ranks, values):
    """Over several splits and classes; `values`: how many different scores there are, 0: many."""
    random = np.random.default_rng(ranks + values)
    groups = []
    for rows in (1, 40, 333):
        scores = random.standard_normal((rows, 3))
        if values:
            scores = np.floor(random.random((rows, 3)) * values) - 1
        truth = random.random((rows, 3)) < [0.5, 0.1, 0.9]
        truth[:, 2] &= rows < 300  # a class without vertices
        groups.append((scores, truth, shares(rows, ranks, random)))
    results = on_ranks(
        ranks, lambda t: curves.areas([(s[own[t.rank]], y[own[t.rank]]) for s, y, own in groups], t)
    )
    for auc, ap in results:
        for g, (scores, truth, _) in enumerate(groups):
            for c in range(3):
                y, s = truth[:, c], scores[:, c]
                if 0 < y.sum() < len(y):
                    assert auc[g, c] == pytest.approx(roc_auc_score(y, s), abs=1e-12)
                else:
                    assert np.isnan(auc[g, c])
                if y.any():
                    assert ap[g, c] == pytest.approx(average_precision_score(y, s), abs=1e-12)
                else:
                    assert np.isnan(ap[g, c])


@RANKS
@pytest.mark.parametrize("kind", ["classes", "class"])
def test_early_stopping_follows_the_area(kind, ranks):
    case = make_case(kind)
    options = {"metric": "auc", "eval_every": 1, "epochs": 40, "lr": 0.2}
    a, data = case
    parts = reference.make_parts(a, np.arange(N) % ranks, ranks, data)
    result = trained(parts, TrainOptions(**COMMON | options | {"patience": 4}))[0]
    values = [epoch.auc["val"] for epoch in result.epochs]
    assert 4 <= len(values) < 40, "the case tells nothing of early stopping"
    assert result.best_epoch == int(np.argmax(values))
    assert result.final.auc["val"] == max(values)
    assert result.metrics == ("auc", "ap")
    assert result.auc_of_classes["val"]
    assert len(result.ap_of_classes["val"]) == 3
    stopped = run(case, ranks, **options | {"epochs": result.best_epoch, "metric": "loss"})
    assert not stopped.final.auc
    for mine, other in zip(result.weights.values(), stopped.weights.values(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "metric"), [("class", "ap"), ("numbers", "r2")])
def test_a_resumed_run_follows_the_same_metric(kind, metric, tmp_path):
    """The best checkpoint, and where early stopping ends, are those of a run without a break."""
    case, options = make_case(kind), {"metric": metric, "eval_every": 1, "lr": 0.1, "patience": 50}
    whole = run(case, PARTS, epochs=20, checkpoint=tmp_path / "whole", **options)
    run(case, PARTS, epochs=9, checkpoint=tmp_path / "parts", **options)
    again = {"checkpoint": tmp_path / "parts", "resume": True}
    resumed = run(case, PARTS, epochs=20, **again, **options)
    assert resumed.first_epoch == 9
    assert (resumed.best_epoch, resumed.final.loss) == (whole.best_epoch, whole.final.loss)
    values = {epoch.epoch: getattr(epoch, metric)["val"] for epoch in whole.epochs}
    values[whole.final.epoch] = getattr(whole.final, metric)["val"]
    assert getattr(whole.final, metric)["val"] == max(values.values())
    with pytest.raises(InputError, match="`metric`"):
        run(case, PARTS, epochs=20, **again, **options | {"metric": "loss"})


def test_words_of_epochs_are_those_of_a_run_without_areas():
    """Scores travel in evaluations of their own."""
    case = make_case("classes")
    with_areas, without = (run(case, PARTS, metric=metric) for metric in ("ap", "loss"))
    for mine, other in zip(with_areas.epochs, without.epochs, strict=True):
        assert (mine.words_sent, mine.messages_sent) == (other.words_sent, other.messages_sent)
        assert mine.loss == other.loss
        assert (mine.evaluation_words > 0) == bool(mine.ap)


def test_an_area_that_no_class_has_is_not_followed():
    a, data = make_case("class")
    case = a, replace(data, labels=np.where(data.val_mask, 1, data.labels).astype(np.int32))
    assert "val" not in run(case, PARTS, metric="auc").final.auc
    with pytest.raises(InputError, match="`metric` auc: is not defined, as every class"):
        run(case, PARTS, metric="auc", patience=3)


def test_of_two_classes_the_second_is_ranked():
    a, data = make_case("class")
    labels = np.minimum(data.labels, 1)
    result = run((a, replace(data, labels=labels)), PARTS, metric="auc")
    assert [len(each) for each in result.auc_of_classes.values()] == [1, 1, 1]


# -- weights of classes ----------------------------------------------------------------------------


@RANKS
def test_balanced_weights_are_those_of_scikit_learn(ranks):
    case = make_case("class")
    data = case[1]
    labels = data.labels[data.train_mask & (data.labels >= 0)]
    expected = torch.tensor(compute_class_weight("balanced", classes=np.arange(3), y=labels))
    result = run(case, ranks, class_weights="balanced")
    check(case, 3, lambda z, t: functional.cross_entropy(z, t.long(), expected), result)


@RANKS
def test_given_weights_of_several_classes_are_those_of_their_vertices(ranks, tmp_path):
    case, weights = make_case("classes"), [0.5, 2, 7.25]
    np.savetxt(tmp_path / "weights.txt", weights)
    loss = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weights).double())
    result = run(case, ranks, class_weights=str(tmp_path / "weights.txt"))
    check(case, 3, lambda z, t: loss(z, t.double()), result)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2", "holds 2 class weights of shape .2,., but there are 3 classes; give one weight"),
        ("1\n-2\n3", "the weight of class 1 is -2.0; give 0 or more"),
        ("1\nnan\n3", "the weight of class 1 is nan; give 0 or more"),
        ("1\ntwo\n3", "is not a list of class weights"),
        (None, "is not a list of class weights"),
    ],
)
def test_wrong_files_of_weights(text, words, tmp_path):
    path = tmp_path / "weights.txt"
    if text is not None:
        path.write_text(text)
    with warnings.catch_warnings(), pytest.raises(InputError, match=f"weights.txt: {words}"):
        read_class_weights(str(path), 3)
    with pytest.raises(InputError, match=words):
        run(make_case("class"), PARTS, class_weights=str(path))


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("class", {"loss": "mse"}, "`loss` mse: the plan has the class of every vertex; `loss`"),
        ("classes", {"metric": "r2"}, "`metric` r2: the plan has any number of classes"),
        ("numbers", {"metric": "auc"}, "`metric` may be loss, rmse, mae, r2"),
        ("numbers", {"class_weights": "balanced"}, "`class_weights`: the plan has real numbers"),
    ],
)
def test_options_that_do_not_go_with_the_targets(kind, options, words):
    with pytest.raises(InputError, match=words):
        run(make_case(kind), PARTS, **options)


# -- from a source to predictions ------------------------------------------------------------------


@pytest.fixture
def plan_of_numbers(tmp_path):
    a, data = make_case("numbers")
    plan = plancc.compile(
        (N, np.stack(np.nonzero(a - np.diag(np.diag(a))))),
        "rp",
        PARTS,
        data={"x": data.features, "y": data.targets[:, 0] - 2000, "train_mask": data.train_mask,
              "test_mask": data.test_mask},
    )  # fmt: skip
    plan.save(tmp_path / "plan.h5")
    return tmp_path / "plan.h5"


def predicted(plan, weights, path):
    """How many vertices are of each class."""
    return predict(plan, weights, path, SingleTransport(), threads=1)[1]


def test_predictions_of_numbers(plan_of_numbers, tmp_path):
    """From Python, from the run, and from the weights alone: one column beside the target."""
    trained = plancc.train(plan_of_numbers, ranks=2, epochs=4, eval_every=2, seed=0)
    assert trained.probabilities is None
    assert trained.predictions.shape == (N,)
    assert np.isfinite(trained.history["test"][[0, 2]]).all()
    assert f"test {trained.result.final.rmse['test']:.5g}" in repr(trained)
    trained.save(tmp_path / "weights.npz")
    assert predicted(plan_of_numbers, tmp_path / "weights.npz", tmp_path / "out.npz") == []
    with np.load(tmp_path / "out.npz") as found:
        assert set(found) == {"id", "prediction", "target", "split"}
        np.testing.assert_allclose(found["prediction"], trained.predictions, rtol=1e-6)
        assert np.flatnonzero(np.isnan(found["target"])).tolist() == [5, 17]
        assert set(found["split"][[5, 17]]) == {""}
    network = load_network(tmp_path / "weights.npz")
    with pytest.raises(InputError, match="predicts numbers, which have no probabilities"):
        network.probabilities(torch.zeros(2, 1))


@pytest.mark.parametrize(
    ("options", "title", "first"), [([], "RMSE", "rmse"), (["--metric", "r2"], "R2", "r2")]
)
def test_what_a_run_prints_of_numbers(options, title, first, plan_of_numbers, tmp_path):
    shared = ["--epochs", "2", "--eval-every", "1", "--json", str(tmp_path / "out.json")]
    done = CliRunner().invoke(command, [str(plan_of_numbers), *shared, *options])
    assert done.exit_code == 0, done.stderr
    final = json.loads((tmp_path / "out.json").read_text())["final"]
    table, _, end = done.stdout.partition(f"\n{title} per split; times")
    [row] = (line.split() for line in table.splitlines() if line.startswith("final"))
    form = METRICS[first].form
    assert row[2:4] == [f"{final[first][split]:{form}}" for split in ("train", "test")]
    assert f"test: {title} {row[3]}, " in end
    assert all(
        f"{METRICS[name].title} {final[name]['test']:{METRICS[name].form}}" in end
        for name in ("rmse", "mae", "r2")
    )


def test_weights_of_numbers_do_not_predict_classes(plan_of_numbers, tmp_path):
    plancc.train(plan_of_numbers, epochs=1).save(tmp_path / "weights.npz")
    plan = plancc.load(plan_of_numbers)
    classes = replace(plan.vertex_data, targets=None, labels=np.zeros(N, np.int32))
    replace(plan, vertex_data=classes).save(tmp_path / "classes.h5")
    with pytest.raises(InputError, match="has classes, but the network predicts real numbers"):
        predicted(tmp_path / "classes.h5", tmp_path / "weights.npz", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
