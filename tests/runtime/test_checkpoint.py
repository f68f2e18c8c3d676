"""Checkpoints: training that was cut short goes on to the same bits, and from nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference
from launcher import ENVIRONMENT, plancc_run
from safetensors import safe_open
from scipy.sparse import csr_matrix

from plancc import files
from plancc.errors import InputError, OutputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.lowering import lower
from plancc_runtime.checkpoint import CheckpointError
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

N, PARTS = 50, 2
OPTIONS = {
    **{"epochs": 12, "hidden": 5, "threads": 1, "optimizer": "adam"},
    **{"lr": 0.2, "dropout": 0.4, "eval_every": 2, "every": 3},
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> list[Path]:
    """Two plans of other graphs."""
    folder, result = tmp_path_factory.mktemp("plans"), []
    for seed in (1, 2):
        random = np.random.default_rng(seed)
        labels = random.integers(0, 3, N).astype(np.int32)
        likely = np.where(labels[:, None] == labels, 0.16, 0.04)
        sparse = csr_matrix(reference.normalised(random.random((N, N)) < likely))
        graph = Graph(sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), sparse.data)
        owner = random.integers(0, PARTS, N).astype(np.int32)
        fold = random.integers(0, 2, N)
        data = VertexData(
            features=(random.standard_normal((N, 6)) + 2 * np.eye(3, 6)[labels]).astype(np.float32),
            # some are wrong, so that they can be learnt too well
            labels=np.where(random.random(N) < 0.3, 0, labels).astype(np.int32),
            train_mask=fold == 0,
            val_mask=fold == 1,
        )
        plan = lower(graph, Owners(owner), PARTS, normalization="sym", self_loops=True)
        result.append(folder / f"{seed}.h5")
        replace(plan, vertex_data=data.take(plan.global_id)).save(result[-1])
    return result


class Cut(Exception):
    """The end of a job, as the user's `report` sees it."""


def run(plan, ranks, folder, cut=None, **options):
    """Results of all ranks; cut short after `cut` epochs."""

    def report(measure):
        if cut is not None and measure.epoch + 1 == cut:
            raise Cut

    chosen = TrainOptions(**{**OPTIONS, "checkpoint": folder, **options})
    return run_ranks(ranks, lambda t: train(plan, chosen, t, report))


def contents(path) -> tuple[dict, dict[str, np.ndarray]]:
    with safe_open(path, "np") as file:
        names = file.keys()
        return json.loads(file.metadata()["plancc"]), {
            name: file.get_tensor(name) for name in names
        }


WAYS = [
    {"schedule": "cosine"},
    {"schedule": "plateau", "patience": 9, "eval_every": 1, "epochs": 16, "lr": 0.5},
    {"patience": 6, "eval_every": 1, "epochs": 60},
    {"optimizer": "sgd", "dropout": 0.0, "norm": "batch"},
    {"batch_size": 15, "steps": 2, "optimizer": "adamw", "weight_decay": 0.1},
]


@pytest.mark.parametrize("ranks", [1, PARTS])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(map(str, way)))
def test_a_resumed_run_ends_with_the_same_bits(plans, ranks, way, tmp_path):
    log = tmp_path / "run.jsonl"
    whole = run(plans[0], ranks, tmp_path / "whole", **way)[0]
    with pytest.raises(Cut):
        run(plans[0], ranks, tmp_path / "cut", cut=5, log=log, **way)
    assert contents(tmp_path / "cut" / "last.safetensors")[0]["epoch"] == 3
    resumed = run(plans[0], ranks, tmp_path / "cut", resume=True, log=log, **way)[0]
    if "patience" in way and way["epochs"] == 60:
        assert 5 < len(whole.epochs) < 60, "the case tells nothing of early stopping"
    assert [e.epoch for e in resumed.epochs] == [e.epoch for e in whole.epochs[3:]]
    for one, other in zip(whole.epochs[3:], resumed.epochs, strict=True):
        for name in ("loss", "learning_rate", "val_loss", "accuracy", "f1_macro"):
            assert getattr(one, name) == getattr(other, name), name
    assert whole.final.loss == resumed.final.loss
    assert whole.best_epoch == resumed.best_epoch
    for name, weight in whole.weights.items():
        assert weight.tobytes() == resumed.weights[name].tobytes()
    ends = [contents(tmp_path / name / "last.safetensors") for name in ("whole", "cut")]
    for name, value in ends[0][1].items():
        assert value.tobytes() == ends[1][1][name].tobytes(), name
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [e.epoch for e in whole.epochs]
    assert [line["loss"] for line in lines] == [e.loss for e in whole.epochs]


def test_a_finished_run_goes_on_where_more_epochs_are_asked_for(plans, tmp_path):
    whole = run(plans[0], 1, tmp_path / "whole", epochs=9)[0]
    run(plans[0], 1, tmp_path / "part", epochs=4)
    assert contents(tmp_path / "part" / "last.safetensors")[0]["epoch"] == 4
    more = run(plans[0], 1, tmp_path / "part", epochs=9, resume=True)[0]
    again = run(plans[0], 1, tmp_path / "part", epochs=9, resume=True)[0]
    assert [len(r.epochs) for r in (whole, more, again)] == [9, 5, 0]
    assert whole.final.loss == more.final.loss == again.final.loss


def test_the_best_weights_are_kept_beside_the_last(plans, tmp_path):
    run(plans[0], PARTS, tmp_path, epochs=20, eval_every=1, every=1)
    losses = []
    for epochs in range(20):  # every run is the beginning of the next
        result = run(plans[0], PARTS, None, epochs=epochs, every=None)[0]
        losses.append((result.final.val_loss, epochs, result.weights))
    loss, epochs, weights = min(losses, key=lambda entry: entry[0])
    facts, best = contents(tmp_path / "best.safetensors")
    assert 0 < epochs < 19, "the case tells nothing of the best"
    assert (facts["epoch"], facts["best"]["loss"]) == (epochs, pytest.approx(loss, rel=1e-5))
    assert best.keys() == weights.keys()
    for name, weight in weights.items():
        np.testing.assert_allclose(best[name], weight, rtol=0, atol=1e-6)
    assert contents(tmp_path / "last.safetensors")[0]["epoch"] == 20


@pytest.mark.parametrize("ranks", [1, PARTS])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "sage"}, "model gcn, which cannot become sage"),
        ({"hidden": 6}, "hidden 5, which cannot become 6"),
        ({"optimizer": "sgd"}, "optimizer adam, which cannot become sgd"),
        ({"seed": 4}, "seed 0, which cannot become 4"),
        ({"plan": 1}, "belongs to another plan"),
        ({"resume": False}, "of an earlier run; set `resume` to go on"),
    ],
)
def test_other_plans_and_settings_are_refused(plans, ranks, options, words, tmp_path):
    run(plans[0], PARTS, tmp_path, epochs=1)
    before = (tmp_path / "last.safetensors").read_bytes()
    chosen = {"plan": 0, "resume": True, **options}
    plan = plans[chosen.pop("plan")]
    with pytest.raises(InputError, match=words):
        run(plan, ranks, tmp_path, **chosen)
    assert (tmp_path / "last.safetensors").read_bytes() == before


def test_a_schedule_over_all_epochs_keeps_their_number(plans, tmp_path):
    run(plans[0], 1, tmp_path, schedule="cosine", epochs=2)
    with pytest.raises(InputError, match="epochs 2, which cannot become 3"):
        run(plans[0], 1, tmp_path, schedule="cosine", epochs=3, resume=True)


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "text", "none"])
def test_damaged_files_are_one_sentence(plans, damage, tmp_path):
    run(plans[0], PARTS, tmp_path, epochs=1)
    path = tmp_path / "last.safetensors"
    raw = bytearray(path.read_bytes())
    if damage == "flipped":
        raw[-3] ^= 4
    path.write_bytes({"cut": raw[:-40], "emptied": b"", "text": b"weights\n" * 40}.get(damage, raw))
    if damage == "none":
        path.unlink()
    error = InputError if damage == "none" else CheckpointError
    with pytest.raises(error, match=r"last\.safetensors") as caught:
        run(plans[0], PARTS, tmp_path, resume=True)
    assert "\n" not in str(caught.value)


def test_a_write_that_fails_leaves_the_checkpoint_before_it(plans, tmp_path, monkeypatch):
    """The disk fills up while the second checkpoint is written."""
    writes = []

    def full(path, flags, real=files._sync):
        if path.endswith(".safetensors") and "last" in path:
            writes.append(path)
            if len(writes) == 2:
                raise OSError(28, "No space left on device")
        real(path, flags)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_sync", full)
        with pytest.raises(OutputError, match="disk is full"):
            run(plans[0], PARTS, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["best.safetensors", "last.safetensors"]
    assert contents(tmp_path / "last.safetensors")[0]["epoch"] == 3
    whole = run(plans[0], PARTS, tmp_path / "whole")[0]
    assert run(plans[0], PARTS, tmp_path, resume=True)[0].final.loss == whole.final.loss


def test_a_killed_job_goes_on_from_the_command_line(plans, tmp_path):
    """SIGKILL at any moment; the same command with --resume ends like a job that was not killed."""
    chosen = TrainOptions(threads=1, epochs=120, dropout=0.5, optimizer="adam")
    whole = run_ranks(2, lambda t: train(plans[0], chosen, t))[0]
    last = tmp_path / "cut" / "last.safetensors"
    arguments = ("--ranks", 2, "--threads", 1, "--epochs", 120, "--dropout", 0.5)
    arguments = (*arguments, "--optimizer", "adam", "--checkpoint", last.parent)
    job = subprocess.Popen(
        [sys.executable, "-m", "plancc_cli.run", *map(str, (plans[0], *arguments, "--every", 1))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    try:
        deadline = time.monotonic() + 100
        while not last.exists() and time.monotonic() < deadline:
            time.sleep(0.001)
    finally:
        job.kill()
        job.wait()
    epoch = contents(last)[0]["epoch"]
    assert 0 < epoch < 120
    more = (*arguments, "--resume", "--save", tmp_path / "cut.npz")
    resumed = plancc_run(None, plans[0], *more)
    assert resumed.returncode == 0, resumed.stderr
    with np.load(tmp_path / "cut.npz") as file:
        assert sorted(file.files) == sorted([*whole.weights, "network"])
        for name, weight in whole.weights.items():
            assert file[name].tobytes() == weight.tobytes()
