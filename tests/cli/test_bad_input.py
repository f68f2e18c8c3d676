"""What wrong input gets: one line that names file, line and value, an exit code, and no file."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import sealing
from cases import pairs, turns
from cli_helpers import SLOWER, Outcome, execute, fails, ok, plancc, plancc_run
from scipy import sparse

from plancc.text import message

MTX = "%%MatrixMarket matrix coordinate real general\n"
DIGITS = "nnz, rows, weights, work, train, batch"

GRAPHS = {
    # name: (file, its content, what the message says)
    "row too large": ("g.mtx", MTX + "2 2 1\n3 2 1\n", ["g.mtx, line 3", "row", "'3'", "1..2"]),
    "truncated": ("g.mtx", MTX + "2 2 3\n1 1 1\n2 2 1\n", ["g.mtx", "2 of 3"]),
    "negative sum": ("g.mtx", MTX + "2 2 2\n1 2 -1\n2 1 1\n", ["g.mtx", "vertex 0", "--normalize"]),
    "binary": ("g.mtx", "\x00\x01\x7f" * 50, ["g.mtx, line 1"]),
    "not gzip": ("g.mtx.gz", MTX + "1 1 1\n1 1 1\n", ["g.mtx.gz"]),
    "npz: text": ("g.npz", "hello", ["g.npz"]),
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


def test_damaged_archives(tmp_path: Path, graph: Path) -> None:
    zipped = tmp_path / "g.mtx.gz"
    zipped.write_bytes(gzip.compress(graph.read_bytes())[:-20])
    assert str(zipped) in fails(tmp_path, "compile", zipped, "-p", 2, "-o", tmp_path / "p.h5")
    whole = tmp_path / "g.npz"
    sparse.save_npz(whole, sparse.random(20, 20, 0.2, format="csr", rng=1))
    bytes_of = whole.read_bytes()
    for name, content in (
        ("cut.npz", bytes_of[: len(bytes_of) // 2]),
        ("flipped.npz", bytes_of[:200] + bytes([bytes_of[200] ^ 255]) + bytes_of[201:]),
    ):
        (tmp_path / name).write_bytes(content)
        error = fails(tmp_path, "compile", tmp_path / name, "-p", 2, "-o", tmp_path / "p.h5")
        assert name in error


MODELS = (
    "hp, stochastic-hp, gp, medium-grain, fine-grain, checkerboard, hub-split, libra, auto, "
    "rcm, block, rp, file, cagnet-1d, cagnet-1.5d, cagnet-2d, cagnet-3d, mop"
)
OBJECTIVES = "volume, max-volume, messages, time"
PARTITIONERS = "auto, mtkahypar, kahypar, metis, kaminpar, builtin"
OPTIONS = {
    # options of `compile graph.mtx -o plan.h5`, what the message says
    "-p 0": ["0 parts", "at least 1"],
    "-p 91": ["91 parts", "90 vertices"],
    "-p two": ["--parts", "'two'"],
    "-p 2.5": ["--parts", "'2.5'"],
    "": ["--parts"],
    "-p 2 --model foo": ["unknown model 'foo'", MODELS],
    "-p 2 --partitioner foo": ["unknown partitioner 'foo'", PARTITIONERS],
    "-p 2 --partitioner metis --model rp": ["--partitioner metis", "'rp'"],
    "-p 2 --partitioner metis --model hp": ["'metis'", "hypergraph", "mtkahypar, kahypar, builtin"],
    "-p 2 --preset foo": ["unknown preset", "'foo'", "default, quality", "deterministic"],
    "-p 2 --preset foo --model rp": ["--preset foo", "'rp'"],
    "-p 2 --balance foo": ["unknown balance 'foo'", DIGITS],
    "-p 2 --balance nnz:0.1,rows:x": ["balance 'rows:x'", "'x' is no allowed imbalance"],
    "-p 2 --balance work --dims 16": ["--dims", "'16'"],
    "-p 2 --normalize foo": ["--normalize", "'foo'", "'sym', 'row', 'none'"],
    "-p 2 --value-dtype foo": ["--value-dtype", "'foo'", "'float32', 'float64'"],
    "-p 2 --objective cut": ["'cut'", "model gp's", "'hp'", OBJECTIVES],
    "-p 2 --objective foo": ["unknown objective 'foo'", OBJECTIVES],
    "-p 2 --objective volume --model rp": ["'rp'", "--objective"],
    "-p 2 --objective time --dims 4,2 --machine none.toml": ["none.toml"],
    "-p 2 --effort foo": ["unknown effort 'foo'", "fast, balanced, best"],
    "-p 2 --effort best --model rcm": ["--effort", "hp, stochastic-hp, gp", "'rcm'"],
    "-p 2 --budget 5 --model file": ["--budget", "hp, stochastic-hp, gp", "'file'"],
    "-p 2 --effort fast --model gp --partitioner metis": [
        "--effort chooses partitioners itself: drop --partitioner metis"
    ],
    "-p 2 --effort fast --preset quality": ["--effort", "drop --preset quality"],
    "-p 2 --budget 5 --partitioner builtin": ["--budget", "drop --partitioner builtin"],
    "-p 2 --effort fast --model gp --objective cut": ["--effort", "drop --objective cut"],
    "-p 2 --budget 0": ["--budget '0'", "above 0"],
    "-p 2 --budget -5s": ["--budget '-5s'"],
    "-p 2 --budget 5x": ["--budget '5x'", "5m"],
    "-p 2 --budget 1e9h": ["--budget '1e9h'"],
    "-p 2 --topology 2x3": ["2x3", "6 ranks", "2 parts"],
    "-p 2 --topology two": ["'two'", "4x8"],
    "-p 2 --part x": ["'hp'", "part"],
    "-p 12 --model cagnet-2d": ["12 ranks: not a perfect square", "9 or 16", "4x3, 3x4, 6x2"],
    "-p 12 --model cagnet-2d --grid 4x4": ["'4x4'", "grids of 12 ranks are 4x3, 3x4, 6x2"],
    "-p 13 --model cagnet-1.5d --replication 3": [
        "choose replication 1 or 13, or take 12 or 15 ranks"
    ],
    "-p 6 --model mop --groups 4": [
        "cannot divide 6 ranks into 4 equal groups; choose 1, 2, 3 or 6"
    ],
    "-p 100 --model cagnet-2d": ["100 ranks for 90 vertices"],
    "-p 16 --model cagnet-2d --dims 9,3": ["'2d 4x4'", "3 wide", "at most 3 process columns"],
    "-p 4 --model cagnet-2d --blocks libra": ["blocks 'libra'", "hp, gp, rcm, block, rp or file"],
    "-p 4 --model cagnet-2d --effort fast": ["--effort", "'rp'", "'cagnet-2d'", "--blocks"],
    "-p 4 --model cagnet-2d --part x": ["blocks 'file'", "--part"],
    "-p 4 --model cagnet-2d --blocks file": ["part vector", "--part"],
    "-p 4 --model cagnet-2d --sparse": ["'cagnet-2d'", "--sparse", "--blocks, --part, --grid"],
    "-p 4 --model hp --groups 2": ["'hp'", "--groups", "mop's"],
    "-p 4 --model auto --candidates hp,cagnet-1d": ["unknown candidate 'cagnet-1d'"],
    "-p 2 --format foo": ["unknown format 'foo'", "mtx, metis, edgelist, npz"],
    "-p 2 --format npz": ["graph.mtx", "npz"],
    "-p 2 --epsilon -0.1": ["--epsilon", "-0.1"],
    "-p 2 --epsilon x": ["--epsilon", "'x'"],
    "-p 2 --seed -1": ["--seed -1: must be at least 0"],
    "-p 2 --threads 0": ["--threads", "0"],
    "-p 2 --time-limit 0": ["--time-limit", "0"],
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
        for name in ("metis", "kaminpar")
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


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def _garbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 8000] = b"\xa5" * 8000
    path.write_bytes(content)


def _text(path: Path) -> None:
    path.write_text("not a plan\n")


def _other_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = 1


def _edit(change):
    def edit(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return edit


def _newer(file: h5py.File) -> None:
    sealing.note(file, format_version="2.0")


def _without_rows(file: h5py.File) -> None:
    del file["rows/global_id"]


def _short(file: h5py.File) -> None:
    del file["rows/part_ptr"]
    file["rows/part_ptr"] = np.zeros(3, "<i8")


def _linked(file: h5py.File) -> None:
    del file["rows/global_id"]
    file["rows/global_id"] = h5py.SoftLink("/matrix/column")


DAMAGES = {
    "truncated": _truncated,
    "garbled": _garbled,
    "text": _text,
    "other": _other_hdf5,
    "newer": _edit(_newer),
    "hole": _edit(_without_rows),
    "short": _edit(_short),
    "link": _edit(_linked),
}


@turns(damage=DAMAGES, command=["inspect", "verify", "against", "compare", "export"])
def test_damaged_plans(damage: str, command: str, plan: Path, graph: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copy(plan, tmp_path / "broken.h5"))
    DAMAGES[damage](broken)
    words = {
        "inspect": ["inspect", broken, "--dims", "5,4"],
        "verify": ["verify", broken],
        "against": ["verify", broken, "--against", graph],
        "compare": ["compare", plan, broken, "--dims", "5,4"],
        "export": ["export", broken, "-o", tmp_path / "x.part.7"],
    }
    assert fails(tmp_path, *words[command], code=1).startswith(str(broken))


def test_a_wrong_number_is_found_by_verify(plan: Path, graph: Path, tmp_path: Path) -> None:
    def value(file: h5py.File) -> None:
        file["matrix/value"][17] *= 1.5

    def mask(file: h5py.File) -> None:
        rows = file["expand/send_row"]
        rows[0] = rows[0] + 1 if rows[1] != rows[0] + 1 else rows[0] - 1

    def figure(file: h5py.File) -> None:
        file["metrics"].attrs["volume"] -= 1

    for number, change in enumerate((value, mask, figure)):
        broken = Path(shutil.copy(plan, tmp_path / f"broken{number}.h5"))
        _edit(change)(broken)
        assert fails(tmp_path, "verify", broken, code=1).startswith(str(broken))


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
    assert str(graph) in fails(tmp_path, "export", graph, "-o", tmp_path / "x.part.7", code=1)
    assert str(graph) in fails(tmp_path, "inspect", graph, code=1)
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
    "foo": ["unknown dataset 'foo'", "digits, karate, rmat, grid, sbm, web, geometric"],
    "rmat --scale 0": ["--scale 0: must be at least 1"],
    "rmat --scale x": ["--scale", "'x'", "plancc dataset rmat --help"],
    "rmat --a 0.9": ["'a', 'b', 'c'", "1"],
    "rmat --seed -1": ["seed", "-1"],
    "karate --bogus 1": ["--bogus", "plancc dataset karate --help"],
}


@pytest.mark.parametrize(("words", "says"), DATASETS.items(), ids=DATASETS.keys())
def test_datasets(words: str, says: list[str], tmp_path: Path) -> None:
    error = fails(tmp_path, "dataset", *words.split(), "-o", tmp_path / "x.mtx")
    assert not [word for word in says if word not in error], error


def test_dataset_writes_both_files_or_none(tmp_path: Path) -> None:
    assert ".mtx, .graph, .metis" in fails(tmp_path, "dataset", "karate", "-o", tmp_path / "x.npz")
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


def _flipped_bit(path: Path) -> None:
    """One bit of the stored values, as a disk might flip it."""
    with h5py.File(path) as file:
        offset = file["matrix/value"].id.get_offset()
    stored = bytearray(path.read_bytes())
    stored[offset + 7] ^= 4
    path.write_bytes(stored)


def _without_hash(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file.attrs["content_sha256"]


@pairs(
    damage=[_changed_value, _flipped_bit, _without_hash],
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
        (("plancc", "compile", "g", "-p", 2, "-o", "p", "--threads", 0), "must be at least 1"),
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
