"""What wrong input gets: one line that names file, line and value, an exit code, and no file."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
from cases import pairs
from cli_helpers import SLOWER, Outcome, execute, fails, ok, plancc


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


# -- plans -----------------------------------------------------------------------------------------


def test_names_that_are_no_text(graph: Path, tmp_path: Path) -> None:
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


def test_the_command_as_a_module() -> None:
    words = [sys.executable, "-m", "plancc_cli", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (said.returncode, said.stdout) == (0, ok("--version"))
