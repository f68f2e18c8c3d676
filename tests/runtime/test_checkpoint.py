"""Checkpoints: training that was cut short goes on to the same bits, and from nothing else."""

import errno
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import psutil
import pytest
import safetensors
import torch
import worlds
from cases import long, some
from launcher import alone, interrupted
from ranks import ENVIRONMENT
from runs import trained, with_data
from safetensors import safe_open
from safetensors.torch import save

from plancc import files
from plancc.errors import InputError, OutputError
from plancc_cli.signals import StopSignals
from plancc_runtime.checkpoint import Checkpoints, _digest
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import prepared
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

pytestmark = pytest.mark.usefixtures("opened_once")
PARTS = 2
RANKS = pytest.mark.parametrize("ranks", [PARTS, pytest.param(1, marks=long)])
OPTIONS = {
    **{"epochs": 12, "hidden": 5, "threads": 1, "optimizer": "adam"},
    **{"lr": 0.2, "dropout": 0.4, "eval_every": 2, "every": 3},
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> list[Path]:
    """Two row plans and an edge plan.

    Features tell the labels, some of which are wrong, so that they can be learnt too well.
    """
    folder, data = tmp_path_factory.mktemp("plans"), worlds.data()
    wrong = np.random.default_rng(1).random(worlds.N) < 0.3
    told = 2 * np.eye(worlds.CLASSES, worlds.WIDTH, dtype=np.float32)[data.labels]
    labels = np.where(wrong, 0, data.labels).astype(np.int32)
    data = replace(data, features=data.features + told, labels=labels)
    return [
        with_data(worlds.plan(name, layout, PARTS), data, folder / f"{name}-{layout}.h5")
        for name, layout in (("undirected", "row"), ("directed", "row"), ("undirected", "edge"))
    ]


@pytest.fixture(scope="module")
def checkpoint(plans, tmp_path_factory) -> bytes:
    """The file after two epochs."""
    folder = tmp_path_factory.mktemp("checkpoint")
    run(plans[0], PARTS, folder, epochs=2)
    return (folder / "last.safetensors").read_bytes()


class Cut(Exception):
    """The end of a job, as the user's `report` sees it."""


def run(plan, ranks, folder, cut=None, **options):
    """Results of all ranks; cut short after `cut` epochs."""

    def report(measure):
        if cut is not None and measure.epoch + 1 == cut:
            raise Cut

    chosen = TrainOptions(**{**OPTIONS, "checkpoint": folder, **options})
    return trained(plan, chosen, ranks, report)


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
    {"optimizer": "sgd", "momentum": 0.9, "clip_norm": 0.2},
    {"batch_size": 15, "steps": 2, "optimizer": "adamw", "weight_decay": 0.1},
    {"dtype": "bfloat16", "kernel": "numba"},
    {"scale_features": "columns", "kernel": "numba"},
    {"plan": 2},
]


ON_ONE = [WAYS[k] for k in (2, 3, 4, 6, 7)]  # which ranks have nothing to agree on


@some(lambda way, ranks: ranks == (1 if way in ON_ONE else PARTS), way=WAYS, ranks=(1, PARTS))
def test_a_resumed_run_ends_with_the_same_bits(plans, way, ranks, tmp_path):
    log, plan = tmp_path / "run.jsonl", plans[way.get("plan", 0)]
    way = {"epochs": 9, **way}
    way.pop("plan", None)
    whole = run(plan, ranks, tmp_path / "whole", **way)[0]
    with pytest.raises(Cut):
        run(plan, ranks, tmp_path / "cut", cut=5, log=log, **way)
    assert contents(tmp_path / "cut" / "last.safetensors")[0]["epoch"] == 3
    resumed = run(plan, ranks, tmp_path / "cut", resume=True, log=log, **way)[0]
    if way["epochs"] == 60:
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
    assert ("standardization.scale" in ends[1][1]) == ("scale_features" in way)
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


ASKED = (
    "--model sage --aggregator max --hidden 5 --split 0.6,0.2,0.2 --passes none",
    "--sampler neighbour --fanouts 2,2 --batch-size 9 --no-bias --schedule cosine",
)


@some(lambda words: "sampler" in words, words=ASKED)
def test_a_resumed_run_takes_the_options_of_its_checkpoint(plans, words, tmp_path):
    """Those that are not given, on the command line; it says first where it goes on."""
    plan, options = plans[0], [*words.split(), "--seed", 3, "--threads", 1]
    whole, cut = tmp_path / "whole.npz", tmp_path / "cut.npz"
    done = alone(plan, *options, "--epochs", 4, "--save", whole)
    assert done.returncode == 0, done.stderr
    asked = iter(["", "", "SIGTERM", "SIGTERM"])
    with patch.object(StopSignals, "__call__", lambda self: next(asked)):
        done = alone(plan, *options, "--epochs", 4, "--checkpoint", tmp_path / "run")
    assert done.returncode == 75, done.stderr
    resume = ["--checkpoint", tmp_path / "run", "--resume", "--threads", 1]
    done = alone(plan, *resume, "--save", cut)
    assert done.returncode == 0, done.stderr
    last = tmp_path / "run" / "last.safetensors"
    assert done.stdout.splitlines()[0] == f"resumed from {last}, epoch 2 of 4"
    with np.load(whole) as one, np.load(cut) as other:
        assert one.files == other.files
        assert all(one[name].tobytes() == other[name].tobytes() for name in one.files)
    done = alone(plan, *resume, "--json", tmp_path / "run.json")
    assert done.returncode == 0, done.stderr
    line = f"resumed from {last}, epoch 4 of 4: nothing is left to do; a larger --epochs continues"
    assert done.stdout.splitlines()[0] == line
    result = json.loads((tmp_path / "run.json").read_text())
    assert (result["epochs"], result["first_epoch"], result["ended"]) == ([], 4, True)
    done = alone(plan, *resume, "--hidden", 7)
    assert done.returncode == 2
    assert "; cannot resume with 7: leave --hidden out" in done.stderr


def test_the_best_weights_are_kept_beside_the_last(plans, tmp_path):
    result = run(plans[0], PARTS, tmp_path, epochs=20, eval_every=1, every=1, seed=0)[0]
    losses = [e.val_loss for e in result.epochs]  # before the update of every epoch
    epochs = int(np.argmin(losses))
    assert 0 < epochs < 19, "the case tells nothing of the best"
    assert losses[epochs] < result.final.val_loss
    then = run(plans[0], PARTS, None, epochs=epochs, every=None, seed=0)[0]
    facts, best = contents(tmp_path / "best.safetensors")
    assert facts["epoch"] == epochs
    assert facts["best"]["loss"] == pytest.approx(then.final.val_loss, rel=1e-5)
    assert best.keys() == then.weights.keys()
    for name, weight in then.weights.items():
        np.testing.assert_allclose(best[name], weight, rtol=0, atol=1e-6)
    assert contents(tmp_path / "last.safetensors")[0]["epoch"] == 20


def epochs_of(folder) -> dict[str, int]:
    """The files of a folder of checkpoints, with their epochs."""
    return {path.name: contents(path)[0]["epoch"] for path in sorted(folder.glob("*.safetensors"))}


@pytest.mark.parametrize(("keep", "epochs"), [(1, [12]), (3, [12, 9, 6])])
def test_so_many_checkpoints_are_kept(plans, keep, epochs, tmp_path):
    run(plans[0], PARTS, tmp_path, keep_last=keep)
    found = epochs_of(tmp_path)
    del found["best.safetensors"]
    names = ["last.safetensors", "last-1.safetensors", "last-2.safetensors"]
    assert found == dict(zip(names, epochs, strict=False))
    run(plans[0], PARTS, tmp_path, keep_last=1, epochs=13, resume=True)
    del found, names[1:]
    assert {k: v for k, v in epochs_of(tmp_path).items() if k != "best.safetensors"} == {
        "last.safetensors": 13
    }


@RANKS
@some(lambda damage: damage != "flipped", damage=["cut", "flipped", "missing", "folder"])
def test_the_checkpoint_before_stands_in_for_a_damaged_one(plans, damage, ranks, tmp_path):
    whole = run(plans[0], ranks, tmp_path / "whole")[0]
    folder = tmp_path / "cut"
    with pytest.raises(Cut):
        run(plans[0], ranks, folder, cut=8)
    assert epochs_of(folder)["last.safetensors"] == 6
    last = folder / "last.safetensors"
    raw = bytearray(last.read_bytes())
    raw[-9] ^= 1
    if damage in ("missing", "folder"):
        last.unlink()
    if damage == "folder":
        last.mkdir()
        with pytest.raises(InputError, match=r"last\.safetensors: is not a regular file"):
            run(plans[0], ranks, folder, resume=True)
        assert contents(folder / "last-1.safetensors")[0]["epoch"] == 3
        return
    if damage != "missing":
        last.write_bytes(raw[:-5] if damage == "cut" else raw)
    resumed = run(plans[0], ranks, folder, resume=True)[0]
    assert [e.epoch for e in resumed.epochs] == list(range(3, 12))
    [remark] = [each for each in resumed.remarks if "training resumes from" in each]
    assert str(last) in remark
    assert f"{folder / 'last-1.safetensors'}, after 3 epochs" in remark
    for name, weight in whole.weights.items():
        assert weight.tobytes() == resumed.weights[name].tobytes()
    if damage != "missing":  # it is kept
        kept = folder / "last.safetensors.damaged"
        assert kept.read_bytes() == (raw[:-5] if damage == "cut" else raw)
        kept.unlink()
    assert epochs_of(folder) == epochs_of(tmp_path / "whole")


@RANKS
@pytest.mark.parametrize("why", ["format", "other", "system"])
def test_a_checkpoint_that_this_version_cannot_read_is_an_error(
    plans, why, ranks, tmp_path, monkeypatch
):
    """It is no damage: nothing is passed over, and nothing is removed."""
    run(plans[0], ranks, tmp_path, epochs=7)
    last = tmp_path / "last.safetensors"
    words = {"format": "has format 2; this", "other": "is not a checkpoint", "system": "error"}
    if why == "format":
        rewritten(last, with_value("format", value=2))
    elif why == "other":
        last.write_bytes(save({"x": torch.zeros(3)}))
    else:
        real = safetensors.safe_open

        def fails(path, *rest):
            if Path(path) == last:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(path, *rest)

        monkeypatch.setattr(safetensors, "safe_open", fails)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "last-1.safetensors" in before
    with pytest.raises(InputError, match=rf"last\.safetensors: .*{words[why]}"):
        run(plans[0], ranks, tmp_path, resume=True)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_ranks_that_read_different_files_do_not_resume(plans, checkpoint, tmp_path):
    """Each is whole, and they have one path on machines with disks of their own."""
    folders = [tmp_path / str(rank) for rank in range(PARTS)]
    for folder in folders:
        folder.mkdir()
        (folder / "last.safetensors").write_bytes(checkpoint)
    rewritten(folders[1] / "last.safetensors", lambda text: text + " ")

    def resume(transport):
        ready = prepared(plans[0], TrainOptions(**{**OPTIONS, "every": None}), transport)
        options = TrainOptions(**OPTIONS, checkpoint=folders[transport.rank], resume=True)
        with closing(Checkpoints(options, ready.content, transport)) as kept:
            kept.load(ready._learner)

    with pytest.raises(InputError, match=r"last\.safetensors: is not the same file on all ranks"):
        run_ranks(PARTS, resume)


def test_a_damaged_checkpoint_never_takes_the_place_of_a_whole_one(plans, tmp_path, monkeypatch):
    """The job is killed again while the first checkpoint after a fall-back is written."""
    with pytest.raises(Cut):
        run(plans[0], 1, tmp_path, cut=8)
    (tmp_path / "last.safetensors").write_bytes(b"half")
    renames, real = [], os.replace

    def killed(source, target):
        if str(target).endswith(("last.safetensors", "last-1.safetensors")):
            renames.append(target)
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            run(plans[0], 1, tmp_path, resume=True)
    assert renames
    assert epochs_of(tmp_path)["last-1.safetensors"] == 3
    whole = run(plans[0], 1, tmp_path / "whole")[0]
    assert run(plans[0], 1, tmp_path, resume=True)[0].final.loss == whole.final.loss


def rewritten(path, change=str, steps=None) -> None:
    """Change the JSON of a checkpoint, or the updates it counts, and its checksum with it."""
    with safe_open(path, "pt") as file:
        text = file.metadata()["plancc"]
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    text = change(text)
    if steps is not None:
        tensors["optimizer/convs.0.weight/steps"].fill_(steps)
    path.write_bytes(save(tensors, {"plancc": text, "sha256": _digest(text, tensors)}))


def with_value(*keys, value):
    """A change of one value; "gone": it is left out."""

    def change(text):
        facts = json.loads(text)
        inner = facts
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        if value == "gone":
            del inner[keys[-1]]
        return json.dumps(facts)

    return change


WRONG = [
    *[("epoch", value) for value in ("x", -1, 2.5, None, True, float("nan"), 10**400, "gone")],
    *[("options", value) for value in (None, [], "x", 3, "gone")],
    *(("options", "epochs", "x"), ("options", "lr", [1]), ("options", "passes", [3])),
    *(("options", "model_options", 2), ("options", "residual", 1)),
    *[("plan", value) for value in (None, 5, ["x"], "gone")],
    *[("best", value) for value in (None, [], "x", {}, "gone")],
    *[("format", value) for value in (None, True, 2, "1", [1], "gone")],
    *[("best", "loss", value) for value in ("x", float("nan"), float("inf"), [], 10**400, True)],
    *[("best", "epoch", value) for value in (-1, 5, "x", None, 1.5, "gone")],
    *[("best", "since", value) for value in (-1, None, 1e400, "gone")],
    *[("best", "drops", value) for value in (-1, None, 10**30)],
]


def test_metadata_that_no_run_wrote_is_one_sentence(plans, checkpoint, tmp_path):
    """The checksum fits; the file is refused all the same, or what it says is used."""
    last, transport = tmp_path / "last.safetensors", SingleTransport()
    chosen = {**OPTIONS, "epochs": 3, "every": None}
    ready = prepared(plans[0], TrainOptions(**chosen), transport)
    chosen = TrainOptions(**chosen, checkpoint=tmp_path, resume=True)
    changes = [with_value(*keys, value=value) for *keys, value in WRONG]
    texts = ("", "x", "[]", "7", "null", "[" * 10**5, "{}", "NaN")
    changes += [lambda _, text=text: text for text in texts]
    changes.append(lambda text: text[:-1] + ', "more": ' + "[" * 10**5 + "]" * 10**5 + "}")
    changes.append(lambda text: text[:-1] + f', "more": "{"x" * 10**7}"' + "}")
    for number, change in enumerate(changes):
        last.write_bytes(checkpoint)
        rewritten(last, change)
        with (
            closing(Checkpoints(chosen, ready.content, transport)) as kept,
            pytest.raises(InputError, match=r"last\.safetensors: (is|has)") as caught,
        ):
            kept.load(ready._learner)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400, number


def test_leftovers_of_killed_runs_go_and_nothing_else(plans, tmp_path):
    run(plans[0], 1, tmp_path, epochs=2)
    token = "0123456789abcdef01"  # of another machine
    gone = [f".last.{token}.tmp.safetensors", f".best.{token}.tmp.safetensors"]
    stay = [
        f".last.{token.upper()}.tmp.safetensors",
        f".last.{token[:12]}.tmp.safetensors",
        f".last.{token}.tmp.npz",
        f".other.{token}.tmp.safetensors",
        f"last.{token}.tmp.safetensors",
        os.path.basename(files.temporary_name(str(tmp_path / "last.safetensors"))),  # we live
    ]
    for name in (*gone, *stay):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / f".last.{token[::-1]}.tmp.safetensors").mkdir()
    (tmp_path / f".last.{'0' * 18}.tmp.safetensors").symlink_to(tmp_path / "best.safetensors")
    before = set(os.listdir(tmp_path))
    run(plans[0], PARTS, tmp_path, resume=True, epochs=2)
    assert before - set(os.listdir(tmp_path)) == set(gone)


def test_two_runs_do_not_share_a_folder(plans, tmp_path):
    code = (
        "import sys; from plancc.files import FolderLock; lock = FolderLock(sys.argv[1]); "
        "assert lock.holds; print('locked', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
    )
    try:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match=f"another run writes into it .process {other.pid} on"):
            run(plans[0], PARTS, tmp_path, epochs=1)
        assert os.listdir(tmp_path) == [".lock"]
    finally:
        other.kill()
        other.wait()
    run(plans[0], PARTS, tmp_path, epochs=1)  # the lock ended with its process
    assert ".lock" not in os.listdir(tmp_path)


@some(lambda error: error == files.NO_LOCKS[0], error=files.NO_LOCKS)
def test_a_file_system_without_locks_is_told(plans, error, monkeypatch, tmp_path):
    """The process that `.lock` names is looked up on its own machine alone."""

    def refused(*_):
        raise OSError(error, "no locks here")

    monkeypatch.setattr(files.fcntl, "flock", refused)
    lock, here = tmp_path / ".lock", f"process {os.getppid()} on {platform.node()}"
    lock.write_text(here)
    with pytest.raises(InputError, match=f"writes into it .{here}; this file system has no locks"):
        run(plans[0], PARTS, tmp_path, epochs=1)
    assert lock.read_text() == here
    for text, more in (("process 7 on elsewhere\n", "see that process 7 on elsewhere"), ("x", "")):
        lock.write_text(text)
        remarks = run(plans[0], PARTS, tmp_path, epochs=1)[0].remarks
        [said] = [each for each in remarks if "has no locks" in each]
        assert more in said
        assert not lock.exists()
        (tmp_path / "last.safetensors").unlink()


@pytest.mark.parametrize("what", ["symlink", "fifo", "folder"])
def test_a_lock_that_cannot_be_taken_is_one_sentence(plans, what, tmp_path):
    lock = tmp_path / ".lock"
    {"symlink": lambda: lock.symlink_to("x"), "fifo": lambda: os.mkfifo(lock)}.get(
        what, lock.mkdir
    )()
    with pytest.raises(OutputError, match=r"cannot lock .*\.lock: "):
        run(plans[0], PARTS, tmp_path, epochs=1)
    assert os.listdir(tmp_path) == [".lock"]


OTHER = [
    ({}, {"model": "sage"}, "model gcn; cannot resume with sage"),
    ({}, {"clip_norm": 1.0}, "clip-norm none; cannot resume with 1.0"),
    ({}, {"seed": 4}, "seed 1; cannot resume with 4"),
    ({}, {"scale_features": "columns"}, "with scale-features none; cannot resume with columns"),
    ({}, {"plan": 1}, "belongs to another plan"),
    ({}, {"resume": False}, "of an earlier run; set `resume` to continue"),
    # values that no run wrote are shown with care
    ({"epoch": 10**15}, {}, "was saved after 1000000000000000 epochs"),
    ({"plan": "\x1b[31m" + "x" * 99}, {}, "belongs to another plan"),
    ({"options hidden": [[[[[[[["x" * 999]]]]]]]]}, {}, "or damaged: its option 'hidden'"),
    ({"options lr": "\x1b]0;title\x07"}, {}, "or damaged: its option 'lr'"),
    ({"options model": "gone"}, {}, "or damaged: its option 'model' is 'missing'"),
    *(({"steps": steps}, {}, "does not count updates") for steps in (-1, 2**53, 2**63 - 1)),
]


@RANKS
@pytest.mark.parametrize(("changed", "options", "words"), OTHER, ids=lambda value: str(value)[:30])
def test_other_plans_settings_and_values_are_refused(
    plans, checkpoint, ranks, changed, options, words, tmp_path
):
    last = tmp_path / "last.safetensors"
    last.write_bytes(checkpoint)
    for key, value in changed.items():
        if key == "steps":
            rewritten(last, steps=value)
        else:
            rewritten(last, with_value(*key.split(), value=value))
    before = last.read_bytes()
    chosen = {"plan": 0, "resume": True, **options}
    with pytest.raises(InputError, match=words) as caught:
        run(plans[chosen.pop("plan")], ranks, tmp_path, **chosen)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
    assert last.read_bytes() == before


def test_a_schedule_over_all_epochs_keeps_their_number(plans, tmp_path):
    run(plans[0], 1, tmp_path, schedule="cosine", epochs=2)
    with pytest.raises(InputError, match="epochs 2; cannot resume with 3"):
        run(plans[0], 1, tmp_path, schedule="cosine", epochs=3, resume=True)


def test_damaged_files_are_one_sentence(plans, checkpoint, tmp_path):
    """Without one before it; and where all are damaged, all are named."""
    path, flipped = tmp_path / "last.safetensors", bytearray(checkpoint)
    flipped[-3] ^= 4
    for damaged in (checkpoint[:-40], b"", flipped, b"weights\n" * 40, None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"last\.safetensors") as caught:
            run(plans[0], PARTS, tmp_path, resume=True)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"")
    (tmp_path / "last-1.safetensors").write_bytes(b"weights" * 20)
    words = r"last\.safetensors: is damaged.*last-1\.safetensors: is damaged"
    with pytest.raises(InputError, match=words):
        run(plans[0], PARTS, tmp_path, resume=True)


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


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=long)])
def test_a_killed_job_goes_on_from_the_command_line(plans, ranks, tmp_path):
    """SIGKILL at any moment; the same command with --resume ends like a job that was not killed."""
    last = tmp_path / "cut" / "last.safetensors"
    arguments = ("--ranks", ranks, "--threads", 1, "--dropout", 0.5, "--optimizer", "adam")
    arguments = (plans[0], *arguments, "--checkpoint", last.parent, "--epochs")
    done = interrupted(signal.SIGKILL, last.exists, *arguments, 10**6, "--every", 1)
    assert done.returncode == -signal.SIGKILL, done.stderr
    epochs = contents(last)[0]["epoch"] + 5
    chosen = TrainOptions(threads=1, epochs=epochs, dropout=0.5, optimizer="adam")
    whole = trained(plans[0], chosen, ranks)[0]
    saved, late = tmp_path / "cut.npz", time.monotonic() + 60
    resumed = alone(*arguments, epochs, "--resume", "--save", saved)
    while "another run writes into it" in resumed.stderr and time.monotonic() < late:
        resumed = alone(*arguments, epochs, "--resume", "--save", saved)  # its child still ends
    assert resumed.returncode == 0, resumed.stderr
    with np.load(saved) as file:
        assert sorted(file.files) == sorted([*whole.weights, "network"])
        for name, weight in whole.weights.items():
            assert file[name].tobytes() == weight.tobytes()


@pytest.mark.parametrize("plan", ["row", "edge"])
def test_a_checkpoint_resumes_on_other_numbers_of_ranks(plan, tmp_path):
    path = with_data(worlds.plan("undirected", plan, 4), worlds.data(), tmp_path / "plan.h5")
    way = {"epochs": 9, "dtype": "float64"}
    whole = run(path, 1, tmp_path / "whole", **way)[0]
    run(path, 1, tmp_path / "moved", **way | {"epochs": 3})
    run(path, 4, tmp_path / "moved", resume=True, **way | {"epochs": 6})
    moved = run(path, 2, tmp_path / "moved", resume=True, **way)[0]
    assert [epoch.epoch for epoch in moved.epochs] == [6, 7, 8]
    for one, other in zip(whole.epochs[6:], moved.epochs, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-10)
    for name, weight in whole.weights.items():
        np.testing.assert_allclose(moved.weights[name], weight, rtol=0, atol=1e-9)


def test_resume_if_any_begins_and_goes_on(plans, tmp_path):
    words = plans[0], "--threads", 1, "--resume", "if-any"
    without = alone(*words, "--checkpoint", tmp_path / "job")
    assert without.returncode == 2
    assert "--resume if-any: give --checkpoint FOLDER and --every EPOCHS" in without.stderr
    words = *words, "--checkpoint", tmp_path / "job", "--every", 2, "--epochs"
    resumed = alone(*words, 4, "--resume")
    assert resumed.returncode == 2
    assert "--resume: there is no checkpoint" in resumed.stderr
    begun = alone(*words, 4, "--ranks", 2)
    assert begun.returncode == 0, begun.stderr
    assert "resumed" not in begun.stdout
    gone_on = alone(*words, 6)
    assert gone_on.returncode == 0, gone_on.stderr
    assert "last.safetensors, epoch 4 of 6" in gone_on.stdout


@long
@pytest.mark.timeout(400)
def test_torchrun_restarts_on_the_node_that_is_left(tmp_path):
    """One of two torchruns is killed with its two ranks; the two of the other go on."""
    plan = with_data(worlds.plan("undirected", "row", 4), worlds.data(), tmp_path / "plan.h5")
    last, port = tmp_path / "job" / "last.safetensors", free_port()
    times = "last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=2"
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=2"),
        *("--max-restarts=3", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}"),
        *("--rdzv-id=job", f"--rdzv-conf={times}", "-m", "plancc_cli.run", plan),
        *("--threads", "1", "--epochs", str(10**6), "--checkpoint", last.parent, "--every", "1"),
        *("--resume", "if-any", "--timeout", "20"),
    ]
    nodes = []
    try:
        with open(tmp_path / "first.log", "w") as log, open(tmp_path / "second.log", "w") as other:
            for out in (log, other):
                nodes.append(subprocess.Popen(command, stdout=out, stderr=out, env=ENVIRONMENT))
        log = tmp_path / "first.log"
        wait_for(last.exists, log)
        kill_tree(nodes[1].pid)
        wait_for(lambda: "resumed from" in log.read_text(), log)
        text = log.read_text()
        assert "ranks 4, threads" in text
        assert "ranks 2, threads" in text[text.index("resumed from") :]
    finally:
        for node in nodes:
            kill_tree(node.pid)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return int(server.getsockname()[1])


def wait_for(done, log: Path) -> None:
    late = time.monotonic() + 150
    while not done():
        assert time.monotonic() < late, log.read_text()[-2000:]
        time.sleep(0.1)


def kill_tree(pid: int) -> None:
    """Kill a launcher and its ranks, which have sessions of their own."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
