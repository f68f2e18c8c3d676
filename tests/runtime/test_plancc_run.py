"""`plancc-run` as a user meets it: real plan files, real mpirun, one sentence when it fails."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import forks
import h5py
import numpy as np
import pytest
import rank_tasks
import reference
import sealing
import worlds
from launcher import alone, plancc_run, sentences
from worlds import CLASSES, WIDTH, N

from plancc.graph.vertexdata import VertexData
from plancc_cli import ranks as job
from plancc_cli.run_command import command
from plancc_runtime.transport.local import run_ranks

pytestmark = pytest.mark.mpi
PARTS = 3
NAMES = ("convs.0.weight", "convs.1.weight")


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """plan.h5 with real data and a file of initial weights, and what they were made from."""
    folder = tmp_path_factory.mktemp("plan")
    plan = worlds.plan("undirected", "row", PARTS)
    plan.save(folder / "plan.h5")
    replace(plan, vertex_data=VertexData()).save(folder / "bare.h5")
    worlds.plan("undirected", "row", 1).save(folder / "one.h5")
    random = np.random.default_rng(1)
    weights = [random.standard_normal(shape) / 2 for shape in ((WIDTH, 5), (5, CLASSES))]
    np.savez(folder / "init.npz", **dict(zip(NAMES, weights, strict=True)))
    return folder, weights


def training(folder, ranks) -> list:
    """Arguments of a run on so many ranks; what it writes is named after them."""
    return [
        *(folder / "plan.h5", "--epochs", 5, "--hidden", 5, "--lr", 0.3),
        *("--dtype", "float64", "--init", folder / "init.npz", "--passes", "none"),
        *("--optimizer", "sgd", "--parametrization", "paper"),  # as the dense reference has it
        *("--json", folder / f"{ranks}.json", "--save", folder / f"{ranks}.npz"),
    ]


@pytest.mark.parametrize("size", [2, 3])
def test_any_number_of_ranks_up_to_the_parts(size, case, ranks):
    """Two of MPI, and three threads of a process that is no test's."""
    (folder, weights), data = case, worlds.data()
    a, owner = worlds.array("undirected"), worlds.owners(N, PARTS)
    words = training(folder, size)
    forked = ["plancc-run", *words, "--ranks", 3]
    result = ranks.run(2, *words) if size == 2 else forks.run(forked)
    assert result.returncode == 0, result.stderr
    assert not sentences(result)
    losses, trained, logits = reference.train_dense(
        *(a, data.features, data.labels, data.train_mask), *(weights, 5, 0.3, "sgd", "relu")
    )
    found = json.loads((folder / f"{size}.json").read_text())
    rows = [*found["epochs"], found["final"]]
    np.testing.assert_allclose([e["loss"] for e in rows], losses, rtol=1e-10)
    with np.load(folder / f"{size}.npz") as file:
        for k, w in enumerate(trained):
            np.testing.assert_allclose(file[NAMES[k]], w, rtol=0, atol=1e-10)
    hits = logits.argmax(axis=1) == data.labels
    for split, accuracy in found["final"]["accuracy"].items():
        counted = getattr(data, f"{split}_mask") & (data.labels >= 0)
        assert accuracy == pytest.approx(hits[counted].mean())
    first_part = np.arange(size + 1) * PARTS // size  # contiguous blocks of parts are merged
    rank_of = np.searchsorted(first_part, owner, side="right") - 1
    volume = reference.volume(a, rank_of)
    assert found["num_ranks"] == size
    for epoch in found["epochs"]:
        assert epoch["words_sent"] == volume * sum(x + y for x, y in pairwise(found["dims"]))
    table = [line for line in result.stdout.splitlines() if line.lstrip().startswith("final")]
    assert len(table) == 1  # printed once
    assert f"{losses[-1]:.6f}" in table[0]


def test_random_data_by_default_printed_in_any_encoding(case, tmp_path):
    out = tmp_path / "run.json"
    plan = tmp_path / "pl\N{LATIN SMALL LETTER A WITH DIAERESIS}n.h5"
    shutil.copy(case[0] / "bare.h5", plan)
    done = alone(plan, "--json", out, encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert "pl\\xe4n.h5" in done.stdout
    assert "final" in done.stdout
    found = json.loads(out.read_text())
    assert found["random_features"]
    assert found["random_labels"]
    assert found["dims"] == [64, 16, 8]


def fails(result, code: int, *words: str, begun: bool = False) -> None:
    """Exit code, exactly one sentence with these words, no traceback; a run that had begun has
    said what it is and the rows of its epochs, and no final one."""
    said = sentences(result)
    assert len(said) == 1, result.stderr
    for word in words:
        assert word in said[0]
    assert "Traceback" not in result.stderr
    assert result.returncode == code, result.stderr
    assert ("passes: " in result.stdout) == bool(result.stdout.strip()) == begun
    assert "final" not in result.stdout


@pytest.fixture(scope="module")
def damaged(case):
    """The folder with plans of another layout, with a damaged slice, and no plan; other weights."""
    folder, weights = case
    shutil.copy(folder / "plan.h5", folder / "edge.h5")
    with h5py.File(folder / "edge.h5", "r+") as file:
        sealing.note(file, layout="edge")
    content = bytearray((folder / "plan.h5").read_bytes())
    with h5py.File(folder / "plan.h5") as file:
        values = file["matrix/value"].id
        start, size = values.get_offset(), values.get_storage_size()
    for byte in range(start, start + size):
        content[byte] ^= 0x55
    (folder / "torn.h5").write_bytes(content)
    (folder / "bad.h5").write_bytes(b"not HDF5 at all")
    np.savez(folder / "other.npz", **{k: w + 1 for k, w in zip(NAMES, weights, strict=True)})
    return folder


def test_a_rank_that_alone_has_a_wrong_command_line(monkeypatch, capsys):
    monkeypatch.setattr(job, "ALONE", 0.01)
    monkeypatch.setattr(job.launch, "announced", lambda: (2, 3))
    assert job.RankJob("plancc-run", command).say_alone("no such option", 2) == 2
    assert capsys.readouterr().err == "plancc-run: error: rank 2: no such option\n"


def test_missing_file(tmp_path, ranks):
    for result in (ranks.run(2, tmp_path / "none.h5"), alone(tmp_path / "none.h5")):
        fails(result, 2, "none.h5")
        assert "rank" not in sentences(result)[0]  # no rank is special


MANY, NOWHERE = "plan.h5 --epochs 1000000000", "/no/such/folder"
INIT = "plan.h5 --hidden 5 --no-bias --init"


@pytest.mark.parametrize(
    ("first", "second", "code", "words"),
    [
        ("one.h5", "", 2, ["2 ranks", "1 part"]),
        ("bad.h5", "", 1, ["bad.h5"]),
        ("edge.h5", "", 1, ["edge.h5", "fold"]),
        ("torn.h5", "", 1, ["torn.h5"]),
        (f"{MANY} --json {NOWHERE}/x", "", 1, [NOWHERE]),
        (f"{MANY} --save {NOWHERE}/x", "", 1, [NOWHERE]),
        ("plan.h5 --lr 1e38", "", 1, ["loss of epoch", "--lr"]),
        ("plan.h5", "gone.h5", 2, ["rank 1", "gone.h5"]),
        ("plan.h5", "bare.h5", 1, ["different plans", "rank 0: ", "rank 1: "]),
        ("plan.h5 --epochs 2", "plan.h5 --epochs 3", 2, ["--epochs is 2 on rank 0, 3 on rank 1"]),
        (
            "plan.h5 --threads 1 --predict a.npz --lr 0.5",
            "plan.h5 --threads 2 --no-bias --passes none",
            2,
            [
                "--lr is 0.5 on rank 0, 0.01 on rank 1",
                "--no-bias is not given on rank 0, False on rank 1",
                "and 1 more differs",
            ],
        ),
        ("plan.h5 --log log", "plan.h5", 2, ["--log is given on rank 0, not given on rank 1"]),
        (
            *(f"{INIT} init.npz", f"{INIT} other.npz", 2),
            ["init.npz: the initial weights (--init)", "rank 0", "rank 1"],
        ),
    ],
)
def test_two_ranks_refuse_in_one_sentence(first, second, code, words, damaged, ranks, monkeypatch):
    monkeypatch.chdir(damaged)
    done = ranks.run(2, each=[first.split(), (second or first).split()])
    fails(done, code, *words, begun="loss of epoch" in words)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("--lr nan", 2, "lr"),
        ("--no-bias --model-option bias=true", 2, "--bias/--no-bias and --model-option bias ex"),
        ("--model-option heads=4 --model-option heads=8", 2, "'heads=8': heads is given twice"),
        ("--sampler-option a=4 --sampler-option a=4", 2, "'a=4': a is given twice"),
        ("--init /no/such/file.npz", 2, "file.npz"),
        ("--json plan.h5", 2, "plan.h5"),
        ("--save plan.h5", 2, "plan.h5 is used twice; choose another output"),
        ("--epochs 1000000000 --json .", 1, "it is a folder"),  # before the work
        ("--epochs 1000000000 --save .", 1, "it is a folder"),
    ],
)
def test_wrong_options(case, arguments, code, words, monkeypatch):
    monkeypatch.chdir(case[0])
    before = (case[0] / "plan.h5").read_bytes()
    fails(alone("plan.h5", *arguments.split()), code, words)
    assert (case[0] / "plan.h5").read_bytes() == before


def test_a_defect_on_one_rank_ends_all(monkeypatch, capsys):
    """The others wait for it: it speaks, and aborts. By mpirun: test_failures."""
    monkeypatch.setenv("PLANCC_TRACEBACK", "1")
    this = job.RankJob("plancc-run", command)

    def work(transport):
        return this.together(transport, lambda: [][0]) if transport.rank else transport.gather(None)

    with pytest.raises(SystemExit) as caught:
        run_ranks(2, work)
    assert caught.value.code == 1
    said = capsys.readouterr().err
    [line] = [line for line in said.splitlines() if line.startswith("plancc-run: error")]
    assert line.startswith("plancc-run: error: rank 1: unexpected IndexError")
    assert "Traceback" in said  # asked for


def test_ranks_without_mpi4py_or_torch(case, monkeypatch, ranks):
    first, _ = ranks.call(
        2, rank_tasks.without, dict.fromkeys(range(2), "mpi4py"), case[0] / "plan.h5"
    )
    fails(first, 1, "mpi4py", "pip install 'plancc[run]'")
    first, _ = ranks.call(2, rank_tasks.without, {1: "torch"}, case[0] / "plan.h5")
    fails(first, 1, "rank 1", "torch", "pip install 'plancc[run]'")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert alone(case[0] / "plan.h5").returncode == 0  # one rank needs none


def test_usage_and_help_are_printed_once(ranks):
    """A launcher ends the ranks that wait to speak after rank 0."""
    fails(plancc_run(2, "--no-such-option"), 2, "--no-such-option")
    shown = ranks.run(2, "--help")
    assert shown.returncode == 0
    assert shown.stdout.count("Usage:") == 1


def test_results_that_cannot_be_printed(case):
    with open("/dev/full", "w") as full:
        done = forks.run(["plancc-run", case[0] / "plan.h5", "--epochs", 1], stdout=full)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "plancc-run: error: cannot print the results: the disk is full"
    ]


def test_rows_appear_when_they_are_known(case, tmp_path):
    """Into a pipe, as wide as a narrow terminal: the first are there while the run goes on."""
    words = [case[0] / "plan.h5", "--epochs", 10**6, "--eval-every", 1000, "--checkpoint", "run"]
    command = [sys.executable, "-m", "plancc_cli.run", *map(str, words)]
    kinds = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    kinds["env"] = os.environ | {"COLUMNS": "60"}
    with subprocess.Popen(command, cwd=tmp_path, **kinds) as process:
        lines = iter(process.stdout)
        assert any(line.split()[:2] == ["epoch", "loss"] for line in lines)
        assert next(lines).split()[0].isdecimal()
        assert process.poll() is None
        process.terminate()
