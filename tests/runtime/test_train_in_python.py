"""`plancc.train` from a script: against dense matrices, and against the command line."""

import json
import re
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import reference
import worlds
from launcher import alone
from rank_tasks import in_python
from runs import on_ranks
from worlds import CLASSES, WIDTH, N

import plancc
from plancc.errors import BackendUnavailable, InputError

PARTS, SPLITS = 3, ("train", "val", "test")
OPTIONS = {
    **{"epochs": 5, "hidden": 5, "lr": 0.3, "optimizer": "sgd", "dtype": "float64"},
    **{"parametrization": "paper", "threads": 1},
}
IDS = np.arange(N) * 3 + 7


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A plan file, the plan, initial weights, and what dense matrices make of them."""
    folder = tmp_path_factory.mktemp("train")
    plan = replace(worlds.plan("undirected", "row", PARTS), original_id=IDS)
    plan.save(folder / "plan.h5")
    random = np.random.default_rng(1)
    weights = [random.standard_normal(shape) / 2 for shape in ((WIDTH, 5), (5, CLASSES))]
    np.savez(folder / "init.npz", **{f"convs.{k}.weight": w for k, w in enumerate(weights)})
    data = worlds.data()
    dense = reference.train_dense(
        *(worlds.array("undirected"), data.features, data.labels, data.train_mask),
        *(weights, 5, 0.3, "sgd", "relu"),
    )
    return folder, plan, dense


def check(trained, dense) -> None:
    losses, weights, logits = dense
    np.testing.assert_allclose([*trained.history["loss"], trained.loss], losses, rtol=1e-10)
    for k, weight in enumerate(weights):
        np.testing.assert_allclose(trained.weights[f"convs.{k}.weight"], weight, atol=1e-10)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(trained.probabilities, shares, atol=1e-6)
    assert trained.predictions.tolist() == logits.argmax(axis=1).tolist()
    assert trained.ids.tolist() == IDS.tolist()


@pytest.mark.parametrize("size", [1, 3])
def test_against_dense_matrices(size, case):
    folder, _, dense = case

    def work(transport):
        init = folder / "init.npz"
        return plancc.train(folder / "plan.h5", transport=transport, init=init, **OPTIONS)

    first, *others = on_ranks(size, work)
    check(first, dense)
    for other in others:
        assert (other.predictions, other.probabilities, other.ids) == (None, None, None)
        assert other.loss == first.loss


def test_a_plan_in_memory_and_the_command_line(case, tmp_path):
    folder, plan, dense = case
    trained = plancc.train(plan, init=folder / "init.npz", **OPTIONS)
    check(trained, dense)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    written = tmp_path / "run.json", tmp_path / "weights.npz", tmp_path / "mine.npz"
    alone(folder / "plan.h5", "--init", folder / "init.npz", *words, "--json", written[0],
          "--save", written[1])  # fmt: skip
    found = json.loads(written[0].read_text())
    assert trained.history["loss"].tolist() == [each["loss"] for each in found["epochs"]]
    assert trained.accuracy == found["final"]["accuracy"]
    evaluated = [each["accuracy"].get("val", np.nan) for each in found["epochs"]]
    np.testing.assert_array_equal(trained.history["val"], evaluated)
    trained.save(written[2])
    assert written[1].read_bytes() == written[2].read_bytes()


def test_ranks_that_are_threads(case):
    """Gathered arrays, from a file and from memory; `report` is called once for an epoch."""
    folder, plan, dense = case
    for given in (folder / "plan.h5", plan):
        epochs = []
        options = {**OPTIONS, "init": folder / "init.npz", "report": epochs.append}
        trained = plancc.train(given, ranks=3, **options)
        check(trained, dense)
        assert trained.result.num_ranks == 3
        scores = ", ".join(f"{split} {trained.accuracy[split]:.4f}" for split in SPLITS)
        assert (
            repr(trained)
            == str(trained)
            == (
                f"Trained(model gcn, epochs 5, ranks 3, loss {dense[0][-1]:.4f}, accuracy {scores})"
            )
        )
        assert [each.epoch for each in epochs] == [0, 1, 2, 3, 4]


REFUSED = {
    "modle": ({"modle": "sage"}, r"option of training 'modle' \(did you mean model\?\): help"),
    "save": ({"save": "x.npz"}, r"'save'; call trained\.save\(path\) on what plancc\.train ret"),
    "rank": ({"rank": 3}, r"'rank' \(did you mean ranks\?\)"),
    "text": ({"batch_size": "64"}, "`batch_size` '64': give a number of vertices, or full"),
    "size": ({"batch_size": 0}, "`batch_size` 0: must be at least 1"),
    "epochs": ({"epochs": "5"}, "`epochs` '5': a whole number is needed"),
    "rate": ({"lr": "0.1"}, "`lr` '0.1': a number is needed"),
    "switch": ({"resume": "no"}, "`resume` 'no': True or False is needed"),
    "path": ({"init": 5}, "`init` 5: a path is needed"),
    "file": ({"predict": 3}, "`predict` 3: a path is needed"),
    "twice": (
        {"model": "gat", "heads": 1, "model_options": {"heads": 4}},  # 1 is the default
        "`heads` 1 and `model_options` heads=4 differ",
    ),
    "mapping": ({"model_options": 5}, "`model_options` 5: a mapping of names to values is needed"),
    "names": ({"passes": "all"}, "`passes` 'all': several names are needed, as a tuple or list"),
    "shares": ({"split": 5}, "`split` 5: several numbers are needed"),
    "none": ({"ranks": 0}, "`ranks` 0: at least 1 is needed"),
    "many": ({"ranks": 9}, "plan.h5: cannot start 9 ranks for a plan of 3 parts; start at most"),
    "transport": ({"ranks": 2, "transport": "mpi"}, "`ranks` 2 starts threads"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_options_that_are_refused(what, case):
    given, words = REFUSED[what]
    with pytest.raises(InputError, match=words) as raised:
        plancc.train(case[0] / "plan.h5", **given)
    assert len(str(raised.value)) < 200


def test_what_is_refused(case, monkeypatch):
    folder, plan, _ = case
    for data in (worlds.data(), {"x": 1}, None):
        with pytest.raises(
            InputError, match=r"^an object of type \w+ is not a plan .* compile the data fir"
        ):
            plancc.train(data)
    with monkeypatch.context() as patched:
        patched.setenv("OMPI_COMM_WORLD_SIZE", "2")
        patched.setenv("OMPI_COMM_WORLD_RANK", "0")
        with pytest.raises(InputError, match="the launcher started 2 ranks"):
            plancc.train(folder / "plan.h5", ranks=2)
    with pytest.raises(InputError, match="3 ranks need a plan file; give the path"):
        on_ranks(3, lambda transport: plancc.train(plan, transport=transport, epochs=1))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BackendUnavailable, match="pip install"):
        plancc.train(folder / "plan.h5", epochs=1)


def test_random_data_are_told_once_and_predict_nothing(case, tmp_path):
    folder, plan, _ = case
    data = plan.vertex_data
    for lacks, words, predicts in (
        ({"labels": None}, "no labels: .* random ones", False),
        ({"features": None}, "labels but no features: .* random", True),
        (dict.fromkeys(("features", "labels")), "neither labels nor features: .* ran", False),
    ):
        made = replace(plan, vertex_data=replace(data, **lacks))
        made.save(tmp_path / "plan.h5")

        def work(transport):
            return plancc.train(tmp_path / "plan.h5", transport=transport, threads=1, epochs=1)

        with pytest.warns(plancc.PlanccWarning) as caught:
            trained = on_ranks(2, work)[0]
        assert sum(bool(re.search(words, str(each.message))) for each in caught) == 1
        assert [trained.predictions is None, trained.probabilities is None] == [not predicts] * 2
        if not predicts:
            with pytest.raises(InputError, match=r"`predict` x.csv: .*has no labels.*labels or y"):
                plancc.train(made, predict="x.csv", epochs=1)
    with pytest.warns(plancc.PlanccWarning, match="neither labels") as caught:
        plancc.train(tmp_path / "plan.h5", ranks=2, threads=1, epochs=1)
    assert [each.filename for each in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plancc.train(folder / "plan.h5", threads=1, epochs=0)


@pytest.mark.mpi
def test_ranks_of_mpi(case, ranks):
    folder, _, dense = case
    given = {"init": folder / "init.npz", **OPTIONS}
    (losses, classes), (_, none) = ranks.call(2, in_python, folder / "plan.h5", **given)
    np.testing.assert_allclose(losses, dense[0][:-1], rtol=1e-10)
    assert (classes.tolist(), none) == (dense[2].argmax(axis=1).tolist(), None)
