"""What wrong input gets: one line that names file, line and value, an exit code, and no file."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import damages
import h5py
import numpy as np
import pytest
from cases import pairs, turns
from cli_helpers import SLOWER, Outcome, execute, fails, ok, plancc, plancc_run

from plancc.text import message

MTX = "%%MatrixMarket matrix coordinate real general\n"

GRAPHS = {
    # name: (file, its content, what the message says)
    "row too large": ("g.mtx", MTX + "2 2 1\n3 2 1\n", ["g.mtx, line 3", "row", "'3'", "1..2"]),
    "negative sum": ("g.mtx", MTX + "2 2 2\n1 2 -1\n2 1 1\n", ["g.mtx", "vertex 0", "--normalize"]),
    "no extension": ("g", "0 1\n", ["--format", "mtx", "metis", "edgelist", "npz"]),
}


@pytest.mark.parametrize(("name", "content", "says"), GRAPHS.values(), ids=GRAPHS.keys())
def test_graphs(name: str, content: str, says: list[str], tmp_path: Path) -> None:
    source = tmp_path / name
    source.write_text(content)
    error = fails(tmp_path, "compile", source, "-p", 1, "-o", tmp_path / "plan.h5")
    assert not [word for word in says if word not in error], error
    if "--normalize" not in error:  # export reads graphs too
        assert error.startswith(str(source))
        assert fails(tmp_path, "export", source, "-o", tmp_path / "x.mtx") == error


OPTIONS = {
    # options of `compile graph.mtx -o plan.h5`, what the message says; what the library refuses is
    # in its own tests, and stands here where the message names options as flags
    "-p 91": ["91 parts", "90 vertices"],
    "-p two": ["--parts", "'two'"],
    "-p 2.5": ["--parts", "'2.5'"],
    "": ["--parts"],
    "-p 2 --partitioner metis --model rp": ["--partitioner metis", "'rp'"],
    "-p 2 --balance work --dims 16": ["--dims", "'16'"],
    "-p 2 --normalize foo": ["--normalize", "'foo'", "'sym', 'row', 'none'"],
    "-p 2 --effort best --model rcm": ["--effort", "hp, stochastic-hp, gp", "'rcm'"],
    "-p 2 --effort fast --model gp --partitioner metis": [
        "--effort chooses partitioners itself: drop --partitioner metis"
    ],
    "-p 2 --budget 0": ["--budget '0'", "above 0"],
    "-p 2 --budget -5s": ["--budget '-5s'"],
    "-p 2 --budget 5x": ["--budget '5x'", "5m"],
    "-p 2 --budget 1e9h": ["--budget '1e9h'"],
    "-p 2 --topology two": ["'two'", "4x8"],
    "-p 4 --model cagnet-2d --effort fast": ["--effort", "'rp'", "'cagnet-2d'", "--blocks"],
    "-p 4 --model cagnet-2d --part x": ["blocks 'file'", "--part"],
    "-p 4 --model cagnet-2d --sparse": ["'cagnet-2d'", "--sparse", "--blocks, --part, --grid"],
    "-p 4 --model hp --groups 2": ["'hp'", "--groups", "mop's"],
    "-p 2 --format foo": ["unknown format 'foo'", "mtx, metis, edgelist, npz"],
    "-p 2 --epsilon x": ["--epsilon", "'x'"],
    "-p 2 --seed -1": ["--seed -1: must be at least 0"],
    "-p 2 --time-limit 1e30": ["--time-limit"],
    "-p 2 --bogus": ["--bogus", "plancc compile --help"],
    "-p 2 other.mtx": ["other.mtx"],
}


@pytest.mark.parametrize(("options", "says"), OPTIONS.items(), ids=[key or "-" for key in OPTIONS])
def test_options(options: str, says: list[str], graph: Path, tmp_path: Path) -> None:
    error = fails(tmp_path, "compile", graph, *options.split(), "-o", tmp_path / "plan.h5")
    assert not [word for word in says if word not in error], error


def unasked(done: Outcome) -> str:
    """What a command says on stderr, but that a plan is slow or a graph directed."""
    lines = done.err.splitlines()
    return "\n".join(line for line in lines if SLOWER not in line)


def test_a_tiny_time_limit(graph: Path, tmp_path: Path) -> None:
    words = ["compile", graph, "-p", 3, "--time-limit", 1e-6, "-o", tmp_path / "plan.h5"]
    error = fails(tmp_path, *words, "--partitioner", "mtkahypar", code=1)
    assert error == "mtkahypar was stopped after 1e-06 s without a partition; " + (
        "try --partitioner builtin"
    )
    done = plancc(*words)  # auto falls back, and says so
    assert done.code == 0
    said = unasked(done).splitlines()
    assert said == [
        f"plancc: warning: left out: {name} was stopped after 1e-06 s without a partition"
        for name in ("kaminpar", "metis")
    ]
    assert "by plancc" in done.out
    done = plancc(*words, "--preset", "default")
    assert done.code == 0
    assert re.fullmatch("plancc: warning: mtkahypar was stopped after 1e-06 s.*", unasked(done))
    assert "by builtin" in done.out


def test_paths(graph: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    missing = tmp_path / "missing"
    for source, words in ((missing, "no such file"), (folder, "folder")):
        error = fails(tmp_path, "compile", source, "-p", 2, "-o", tmp_path / "plan.h5")
        assert error.startswith(f"{source}: ")
        assert words in error
    for target, words in (
        (missing / "plan.h5", f"the folder {missing} does not exist"),
        (folder, "it is a folder"),
        ("/dev/null", "not a regular file"),
        (graph / "plan.h5", f"{graph} is not a folder"),
        (tmp_path / ("x" * 300), "name is too long"),
    ):
        error = fails(tmp_path, "compile", graph, "-p", 2, "-o", target, code=1)
        assert error == message(f"cannot write {target}: {error.partition(': ')[2]}")
        assert words in error
    existing = tmp_path / "old.h5"
    existing.write_text("keep me")
    fails(tmp_path, "compile", graph, "-p", 91, "-o", existing)
    assert existing.read_text() == "keep me"


def test_an_input_is_never_written_over(graph: Path, data: Path, plan: Path, tmp_path: Path):
    mine = {path.name: Path(shutil.copy(path, tmp_path)) for path in (graph, data, plan)}
    vector = tmp_path / "v.part"
    vector.write_text("0\n" * 90)
    link = tmp_path / "link.h5"
    link.symlink_to(mine["graph.mtx"])
    words = ["compile", mine["graph.mtx"], "-p", 1, "--data", mine["data.npz"]]
    words += ["--model", "file", "--part", vector, "-o"]
    for target in (*mine.values(), vector, link):
        if target != mine["plan.h5"]:
            assert str(target) in fails(tmp_path, *words, target)
    fails(tmp_path, "export", mine["graph.mtx"], "--pattern", "-o", mine["graph.mtx"])


def test_part_vectors(graph: Path, tmp_path: Path) -> None:
    """What is wrong with their lines is in tests/graph/test_partvector.py."""
    words = ["compile", graph, "-p", 2, "--model", "file", "-o", tmp_path / "plan.h5"]
    assert "--part" in fails(tmp_path, *words)
    assert "no such file" in fails(tmp_path, *words, "--part", tmp_path / "none")
    assert "folder" in fails(tmp_path, *words, "--part", tmp_path)
    vector = tmp_path / "graph.part.2"
    vector.write_text("0\n" * 3 + "2\n" + "0\n" * 86)
    error = fails(tmp_path, *words, "--part", vector)
    assert error.startswith(f"{vector}: vertex 3 is in part 2")


def test_vertex_data(graph: Path, plan: Path, tmp_path: Path) -> None:
    """What is wrong with their arrays is in tests/graph/test_vertexdata.py."""
    short = tmp_path / "data.npz"
    np.savez(short, features=np.ones((89, 2)))
    for path in (short, graph, plan, tmp_path, tmp_path / "missing.npz"):
        error = fails(tmp_path, "compile", graph, "-p", 2, "--data", path, "-o", tmp_path / "p.h5")
        assert error.startswith(str(path))


# -- plans -----------------------------------------------------------------------------------------


@turns(
    damage=["cut off", "missing", "soft link", "shorter"],
    command=["inspect", "verify", "against", "compare", "export"],
)
def test_damaged_plans(damage: str, command: str, plan: Path, graph: Path, tmp_path: Path) -> None:
    """All damages are in tests/plan/test_hostile.py."""
    broken = Path(shutil.copy(plan, tmp_path / "broken.h5"))
    if damage == "cut off":
        broken.write_bytes(broken.read_bytes()[:3000])
    else:
        damages.damage(broken, "rows/global_id", damage)
    words = {
        "inspect": ["inspect", broken, "--dims", "5,4"],
        "verify": ["verify", broken],
        "against": ["verify", broken, "--against", graph],
        "compare": ["compare", plan, broken, "--dims", "5,4"],
        "export": ["export", broken, "-o", tmp_path / "x.part.7"],
    }
    assert fails(tmp_path, *words[command], code=1).startswith(str(broken))


def test_other_arguments_of_plan_commands(plan: Path, graph: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for command in ("inspect", "verify", "compare"):
        assert "no such file" in fails(tmp_path, command, tmp_path / "missing.h5")
        assert str(folder) in fails(tmp_path, command, folder)
    for ranks in (0, -1, 8):
        error = fails(tmp_path, "inspect", plan, "--ranks", ranks)
        assert error == f"{plan} cannot run on {ranks} ranks; choose 1 to 7"
    assert "'x'" in fails(tmp_path, "inspect", plan, "--ranks", "x")
    for dims in ("", "x", "3", "3,", "3,-1", "3,0", "3,2.5", "3,,4", "3 4", f"3,{2**31}", "9" * 30):
        error = fails(tmp_path, "inspect", plan, "--dims", dims)
        assert f"--dims '{dims}'" in error
        assert "602,128,41" in error
    assert "602,128,41" in fails(tmp_path, "compare", plan, "--dims", "3,0")
    for rates in ("", "1.1", "nan", "0.1,2"):
        words = ("--dims", "4,2", "--boundary-sampling", rates)
        assert f"--boundary-sampling '{rates}'" in fails(tmp_path, "inspect", plan, *words)
    assert "dims" in fails(tmp_path, "inspect", plan, "--boundary-sampling", "0.5")
    assert "PLANS" in fails(tmp_path, "compare")
    error = fails(tmp_path, "export", plan, "-o", tmp_path / "x.part.5")
    assert "7 parts, not 5" in error
    assert str(graph) in fails(tmp_path, "export", graph, "-o", tmp_path / "x.part.7")
    assert str(graph) in fails(tmp_path, "inspect", graph)
    assert "no such file" in fails(tmp_path, "verify", plan, "--against", tmp_path / "none.mtx")


def test_exports(graph: Path, tmp_path: Path) -> None:
    for name in ("x.foo", "x.txt", "x.npz", "x.hgr.gz", "x", "x.part.mtx.y"):
        error = fails(tmp_path, "export", graph, "-o", tmp_path / name)
        assert error.startswith(str(tmp_path / name))
        assert ".mtx, .graph, .metis, .hgr, .part.K" in error
    assert "does not exist" in fails(
        tmp_path, "export", graph, "-o", tmp_path / "none" / "x.hgr", code=1
    )
    assert "unknown balance 'foo'" in fails(
        tmp_path, "export", graph, "--balance", "foo", "-o", tmp_path / "x.mtx"
    )
    for name in ("x.mtx", "x.part"):
        error = fails(tmp_path, "export", graph, "--balance", "rows", "-o", tmp_path / name)
        assert error.startswith(f"{tmp_path / name}: this format has no weights")
    for balance, words in (
        ("work", "--dims"),
        ("train", "--data"),
        ("nnz,rows", "one weight"),
        ("nnz:0.1", "no limits"),
    ):
        error = fails(tmp_path, "export", graph, "--balance", balance, "-o", tmp_path / "x.hgr")
        assert words in error
    error = fails(tmp_path, "export", graph, "-o", tmp_path / "x.graph")  # it is directed
    assert error.startswith(str(tmp_path / "x.graph"))
    lonely = tmp_path / "lonely.mtx"
    lonely.write_text(MTX + "3 3 0\n")
    assert "pin" in fails(tmp_path, "export", lonely, "-o", tmp_path / "x.hgr")


DATASETS = {
    "rmat --scale 0": ["--scale 0: must be at least 1"],
    "rmat --scale x": ["--scale", "'x'", "plancc dataset rmat --help"],
    "karate --bogus 1": ["--bogus", "plancc dataset karate --help"],
}


@pytest.mark.parametrize(("words", "says"), DATASETS.items(), ids=DATASETS.keys())
def test_datasets(words: str, says: list[str], tmp_path: Path) -> None:
    error = fails(tmp_path, "dataset", *words.split(), "-o", tmp_path / "x.mtx")
    assert not [word for word in says if word not in error], error


def test_dataset_writes_both_files_or_none(tmp_path: Path) -> None:
    assert ".mtx, .graph, .metis" in fails(tmp_path, "dataset", "karate", "-o", tmp_path / "x.npz")
    assert "output extension" in fails(tmp_path, "dataset", "karate", "-o", tmp_path / "folder")
    assert "name a folder" in fails(tmp_path, "dataset", "ratings", "-o", tmp_path / "x.mtx")
    (tmp_path / "k.npz").mkdir()
    error = fails(tmp_path, "dataset", "karate", "-o", tmp_path / "k.mtx", code=1)
    assert error == f"cannot write {tmp_path / 'k.npz'}: it is a folder"


def test_commands() -> None:
    for words, says in (
        (
            ["bogus"],
            "unknown command 'bogus': choose from compile, refine, patch, study, estimate, inspect",
        ),
        (["--bogus"], "(see plancc --help)"),
        (["compile"], "(see plancc compile --help)"),
    ):
        done = plancc(*words)
        assert done.code == 2
        assert says in done.error


def test_names_that_are_no_text(graph: Path, tmp_path: Path) -> None:
    line_feed = tmp_path / "two\nlines.mtx"
    error = fails(tmp_path, "compile", line_feed, "-p", 2, "-o", tmp_path / "plan.h5")
    assert "lines.mtx: no such file" in error
    latin1 = tmp_path.as_posix().encode() + b"/gr\xfcn.mtx"
    words = ["compile", latin1.decode(errors="surrogateescape"), "-p", 2]
    done = execute(*words, "-o", tmp_path / "plan.h5")  # whose streams are text
    assert (done.code, done.out) == (2, "")
    assert "no such file" in done.error
    assert list(tmp_path.iterdir()) == []
    with open(latin1, "wb") as copy:
        copy.write(graph.read_bytes())
    ok(*words, "--model", "block", "-o", tmp_path / "plan.h5")
    ok("verify", tmp_path / "plan.h5", "--against", graph)


def _changed_value(path: Path) -> None:
    """Another value, whose checksum HDF5 has computed anew."""
    with h5py.File(path, "r+") as file:
        file["matrix/value"][3] += 1


def _without_hash(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file.attrs["content_sha256"]


@pairs(
    damage=[_changed_value, _without_hash],
    command=["inspect", "compare", "simulate"],
    form=["", "--json", "--csv"],
)
def test_no_figures_of_a_plan_whose_content_is_not_what_was_written(
    damage: Callable[[Path], None], command: str, form: str, plan: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copy(plan, tmp_path / "broken.h5"))
    damage(broken)
    words = [command, *([plan] if command == "compare" else []), broken, *form.split()]
    error = fails(tmp_path, *words, code=1)
    assert str(broken) in error
    assert "damaged" in error or "content_sha256" in error


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_a_folder_that_takes_no_files(graph: Path, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gets so far")
    error = fails(tmp_path, "export", graph, "-o", "/proc/x.mtx", code=1)
    assert error == "cannot write /proc/x.mtx: its folder takes no new files, or is gone"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plancc-run", "p.h5", "--epochs", "x"), "'--epochs': 'x' is not a whole number"),
        (("plancc-run", "p.h5", "--lr", "x"), "'--lr': 'x' is not a number"),
        (("plancc", "compile", "g.mtx", "-p", "x", "-o", "p.h5"), "'x' is not a whole number"),
        (("plancc", "compile", "g", "-p", 2, "-o", "p", "--threads", "x"), "is not a whole number"),
    ],
)
def test_numbers_that_are_none(words: tuple[object, ...], says: str) -> None:
    program = {"plancc": plancc, "plancc-run": plancc_run}[str(words[0])]
    done = program(*words[1:])
    assert done.code == 2
    assert says in done.err
    assert "is not a valid" not in done.err


def test_the_command_as_a_module() -> None:
    words = [sys.executable, "-m", "plancc_cli", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (said.returncode, said.stdout) == (0, ok("--version"))


@pytest.mark.parametrize("name", ["plan.txt", "plan.MTX.gz", "plan.npz", "plan.json"])
def test_a_plan_with_the_name_of_something_else(graph: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    said = fails(tmp_path, "compile", graph, "-p", 2, "-o", out)
    assert said == f"{out}: plans are HDF5 files: choose a name that ends in .h5"


def test_far_more_threads_than_parts_are_not_started(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them would find out by itself, after all of them were started."""

    def started(*arguments: object) -> None:
        raise AssertionError("threads were started")

    monkeypatch.setattr("plancc_runtime.transport.local.run_ranks", started)
    done = plancc_run(plan, "--ranks", 999_999)
    assert done.code == 2
    assert done.err == (
        f"plancc-run: error: {plan}: 999999 ranks for a plan of 7 parts; start at most 7 ranks, or "
        "compile the plan for more parts\n"
    )
    words = "predict", plan, "--weights", tmp_path / "w.npz", "-o", tmp_path / "out.csv"
    assert "999999 ranks for a plan of 7 parts" in fails(tmp_path, *words, "--ranks", 999_999)
