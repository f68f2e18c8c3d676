"""What a run says of its own learning: by hand, and from runs that learn or cannot."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import worlds
from launcher import alone
from runs import file_of, trained, with_data

import plancc
from plancc.errors import PlanccError
from plancc.plan.convolutions import GCNOptions
from plancc.plan.layers import Aggregate
from plancc_runtime.options import TrainOptions
from plancc_runtime.remarks import option_remarks, remarks
from plancc_runtime.results import Scores
from plancc_runtime.targets import ManyClasses, OneClass
from plancc_runtime.tasks.base import LearningTask

N, SPLIT = 200, {"split": (0.6, 0.2, 0.2)}


def path_of_four(file, **data):
    """A plan of a directed path."""
    made = plancc.VertexData(**data) if data else None
    plancc.compile((4, np.array([[0, 1, 2], [1, 2, 3]])), "rp", 1, data=made).save(file)
    return file


def scores(accuracy, shares, split="test"):
    value = {split: accuracy}
    return Scores(
        loss={split: 1.0},
        **dict.fromkeys(("accuracy", "f1_micro", "f1_macro"), value),
        class_shares={split: shares},
    )


@pytest.mark.parametrize(
    ("shares", "kind", "expected"),
    [
        ([0.2, 0.5, 0.3], OneClass, 0.5),
        ([0.2, 0.4, 0.1], ManyClasses, 0),  # nothing is said of any vertex
        ([0.8, 0.6, 0.1], ManyClasses, 2 * 1.4 / (2 + 1.5)),
    ],
)
def test_constant_score(shares, kind, expected):
    assert kind.constant(shares) == pytest.approx(expected)


def test_near_the_largest_class():
    ran = [SimpleNamespace(epoch=0)]
    options, told = TrainOptions(), TrainOptions(scale_features="columns")
    [said] = remarks(options, ran, scores(0.52, [0.5, 0.5]), True, OneClass)
    assert said == (
        "the test accuracy 0.5200 is near 0.5000, the share of the largest class: the network has "
        "hardly learnt; try `scale_features` columns, more `epochs`, or another `optimizer` or `lr`"
    )
    assert not remarks(options, ran, scores(0.6, [0.5, 0.5]), True, OneClass)
    assert not remarks(options, [], scores(0.5, [0.5, 0.5]), True, OneClass)
    [said] = remarks(told, ran, scores(0.3, [0.5, 0.5], "val"), True, OneClass)
    assert said.startswith("the val accuracy 0.3000 is below 0.5000, the share of the largest")
    assert said.endswith("; try more `epochs`, or another `optimizer` or `lr`")
    [said] = remarks(options, ran, scores(0.46, [0.5, 0.5]), True, OneClass)
    assert said.startswith("the test accuracy 0.4600 is near 0.5000")
    [said] = remarks(options, ran, scores(0.01, [0.3, 0.1]), True, ManyClasses)
    assert "the test micro F1 0.0100 is near 0.0000, that of the same answer for every" in said
    [said] = remarks(options, ran, scores(0.5, [0.5, 0.5]), False, OneClass)
    assert said.endswith("the network has hardly learnt, as its features are random")
    assert not remarks(options, ran, scores(0.9, [0.5, 0.5]), False, OneClass)


@pytest.mark.parametrize(
    ("options", "cores", "words"),
    [
        ({"layers": 1, "hidden": 64}, 4, ["`hidden` 64 has no effect: nothing is between"]),
        ({"layers": 1, "norm": "layer"}, 4, ["`norm` layer has no effect"]),
        ({"layers": 2, "hidden": 64, "threads": 4}, 4, []),
        ({"threads": 4}, 1, ["`threads` 4: more than the 1 of the machine's cores that each rank"]),
    ],
)
def test_options_without_effect(options, cores, words):
    found = option_remarks(TrainOptions(**options), LearningTask.between, cores)
    assert len(found) == len(words)
    assert all(a in b for a, b in zip(words, found, strict=True))


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
        return trained(plan, TrainOptions(**SPLIT, threads=1, eval_every=0, **options), 2)

    untold = last(epochs=5, optimizer="sgd")
    assert len({tuple(result.remarks) for result in untold}) == 1
    assert "`scale_features` columns" in untold[0].remarks[0]
    told = last(epochs=100, optimizer="adam", scale_features="columns")[0]
    assert told.final.accuracy["test"] > 0.9
    assert told.remarks == []


def test_the_command_says_it_in_its_own_words(plan, tmp_path):
    bare = path_of_four(tmp_path / "bare.h5")
    done = alone(plan, "--epochs", 5, "--optimizer", "sgd")
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(said) == 1
    assert said[0].startswith("plancc-run: warning: the train accuracy ")
    assert "try --scale-features columns, more --epochs, or another --optimizer or --lr" in said[0]
    untested = "200 vertices train, but none is tested: the plan has no test mask; --split 0.6"
    assert untested in done.stdout
    assert "none is tested" not in alone(plan, "--epochs", 1, "--split", "0.6,0.2,0.2").stdout
    random = alone(bare, "--epochs", 5, "--ranks", 1)  # labels of which there is nothing to learn
    [line] = random.stderr.splitlines()
    assert line.startswith("plancc-run: warning: the plan has neither labels nor features: ")
    assert "(key labels or y of --data)" in line
    assert "none is tested" not in random.stdout


def test_split_stands_in_place_of_masks(tmp_path):
    """The split is the one that is drawn for a plan without masks."""
    every = np.arange(worlds.N)
    bare = replace(worlds.data(), train_mask=None, val_mask=None, test_mask=None)
    masks = {"train_mask": every < 2, "test_mask": every > 30}
    found = {}
    for name, more in (("with", masks), ("without", {})):
        plan = with_data(
            worlds.plan("directed", "row", 2), replace(bare, **more), tmp_path / f"{name}.h5"
        )
        found[name] = trained(plan, TrainOptions(**SPLIT, threads=1, epochs=5), 2)[0]
    assert found["with"].split_sizes == found["without"].split_sizes
    assert found["with"].final.loss == found["without"].final.loss
    assert found["with"].replaced_masks == ["train", "test"]
    assert found["without"].replaced_masks == []
    done = alone(tmp_path / "with.h5", "--split", "0.6,0.2,0.2", "--batch-size", 10)
    assert done.returncode == 2
    assert "mini-batches are drawn from the plan's own train mask" in done.stderr


def test_a_mask_of_nothing_names_the_plan(tmp_path):
    nothing = {"labels": np.zeros(4, np.int32), "train_mask": np.zeros(4, bool)}
    done = alone(path_of_four(tmp_path / "empty.h5", **nothing))
    assert done.returncode == 2
    assert "empty.h5: no vertex of the train mask has a label; give --split" in done.stderr


@pytest.mark.parametrize("passes", [(), ("order", "constant", "dead-rows", "overlap")])
def test_a_layer_that_moves_what_its_steps_do_not_say(passes, monkeypatch):
    path, steps = file_of("directed", "row", 3), GCNOptions.steps
    options = TrainOptions(layers=2, hidden=4, epochs=2, threads=1, passes=passes)

    def forgetful(self, d_in, d_out, last):
        """Leaves out the product of the last layer."""
        kept = (s for s in steps(self, d_in, d_out, last) if not (last and type(s) is Aggregate))
        return [*kept]

    said = trained(path, options, 3)[0].remarks
    monkeypatch.setattr(GCNOptions, "steps", forgetful)
    for result in trained(path, options, 3):
        [more] = [each for each in result.remarks if each not in said]
        assert re.fullmatch(
            r"layer 2 \(GCNConv\) sends [1-9]\d* words forward on rank \d, but its steps say 0; "
            "list its messages in `Options.steps`, else its words and predictions are wrong",
            more,
        )


def plan_with(row, path):
    """A plan whose vertices have these features all, and labels of two classes."""
    plan = worlds.plan("directed", "row", 2)
    features = np.tile(np.float32(row), (worlds.N, 1))
    data = plancc.VertexData(features=features, labels=np.arange(worlds.N, dtype=np.int32) % 2)
    return with_data(plan, data, path)


@pytest.mark.parametrize("wire", ["fp32", "bf16"])
def test_a_run_that_diverges_names_its_rate(wire, tmp_path):
    path = plan_with([6e4] * 3, tmp_path / "plan.h5")
    with pytest.raises(PlanccError, match=r"try a smaller `lr` than 1e\+30$"):
        trained(path, TrainOptions(epochs=9, wire=wire, lr=1e30), 2)


@pytest.mark.parametrize("options", [{}, {"eval_every": 0}, {"batch_size": 9}, {"epochs": 0}])
def test_outputs_that_are_not_finite_before_a_step_name_features_and_weights(options, tmp_path):
    path = plan_with([3e38] * 3, tmp_path / "plan.h5")
    why = r"before the first step: .* the features.* `scale_features` .* weights \(`init`\)$"
    with pytest.raises(PlanccError, match=why):
        trained(path, TrainOptions(**{"epochs": 9, **options}), 2)
