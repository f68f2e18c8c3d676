"""What a command imports and compiles when it starts, and what `plancc warm-up` takes off it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import cli_helpers
import pytest
from cases import long
from cli_helpers import ok, plancc

from plancc import clock, jit
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header
from plancc_cli import warm_up
from plancc_cli.group import COMMANDS
from plancc_cli.list import command as listing
from plancc_cli.progress import COMPILING

PLAN = Path(__file__).parents[1] / "golden" / "plan-1.5.h5"


HEAVY = ("torch", "numba", "mpi4py", "h5py", "scipy", "networkx")
TELLING = [["--version"], ["--help"]]
LISTING = (
    [["list", name] for name in listing.commands]
    + [["list", "models", "hp"]]
    + [[n, "--help"] for n in COMMANDS]
)
READING = [["verify", str(PLAN)], ["inspect", str(PLAN)]]
# A program's command lines, one after the other, and the packages that they have imported.
IN_TURN = """
import json, sys
from importlib import import_module
main = import_module(sys.argv[1]).command.main
for words in json.loads(sys.argv[2]):
    main(words, "plancc", standalone_mode=False)
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""


def imported(module: str, *lines: list[str]) -> set[str]:
    """The packages that the command lines of a program import, all of them in one new process."""
    command = [sys.executable, "-c", IN_TURN, module, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("module", "lines", "not_imported"),
    [
        ("plancc_cli.group", TELLING, {*HEAVY, "numpy", "rich"}),
        ("plancc_cli.group", LISTING, {*HEAVY}),
        ("plancc_cli.run_command", [["--help"]], {*HEAVY}),
        ("plancc_cli.group", READING, {*HEAVY} - {"h5py", "scipy"}),
    ],
    ids=["telling", "lists and helps", "run", "verify and inspect"],
)
def test_a_command_imports_what_it_uses(module, lines, not_imported):
    found = imported(module, *lines)
    assert {"plancc", "click"} <= found
    assert not found & not_imported


def test_a_run_refuses_a_plan_before_torch_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.h5").write_text("not a plan\n")
    Path("kept").mkdir()
    lines = [
        (["missing.h5"], "missing.h5: no such file"),
        (["text.h5"], "text.h5: is not a plan"),
        (["text.h5", "--resume", "--checkpoint", "kept"], "text.h5: is not a plan"),
        ([str(PLAN), "--ranks", "9"], "9 ranks for a plan of"),
    ]
    code = (
        "import json, sys; from plancc_cli import run\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    sys.argv[1:] = words\n"
        "    try: run._work()\n"
        "    except SystemExit as end: assert end.code\n"
        "print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, json.dumps([words for words, _ in lines])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "False\n", done.stderr
    for (words, said), line in zip(lines, done.stderr.splitlines(), strict=True):
        assert line.startswith(f"plancc-run: error: {words[0]}")
        assert said in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["verify", PLAN], True),
        (["predict", PLAN, "--weights", "missing.npz", "-o", "a.csv"], True),
        (["patch", PLAN, "--add", "missing.txt", "-o", "b.h5"], True),
        (["patch", PLAN, "--add", "missing.txt", "-o", "b.h5", "-q"], False),
    ],
)
def test_every_command_says_once_that_it_compiles_kernels(words, told, tmp_path, monkeypatch):
    """A kernel that takes long is stood for by one at the header of the plan."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(clock, "ANNOUNCED_AFTER", 0.0)
    read, listener = PlanFile._read_header, clock.compilation()

    def slow(self: PlanFile) -> Header:
        listener.on_start(None)
        if listener._timer is not None:
            listener._timer.join(100)  # all is said
        listener.on_end(None)
        return read(self)

    monkeypatch.setattr(PlanFile, "_read_header", slow)
    monkeypatch.setattr(cli_helpers, "without_progress", str)
    assert plancc(*words).err.count(f"plancc: {COMPILING}\n") == told


def test_compile_imports_no_torch(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(warm_up.EDGES)
    words = ["compile", str(tmp_path / "edges.csv"), "-p", "2", "-o", str(tmp_path / "plan.h5")]
    found = imported("plancc_cli.group", [*words, "--model", "block"])
    assert {"numba", "scipy"} <= found
    assert not found & {"torch", "mpi4py", "networkx"}


def test_the_edge_list_that_warm_up_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text(warm_up.EDGES)
    (line,) = (line for line in sum(warm_up.STAGES, ()) if " edges.csv " in line)
    ok(*line.split(), warned=True)


@long  # kernels are compiled; `make test` itself begins with `plancc warm-up`
@pytest.mark.parametrize("portable", [False, True])
def test_after_warm_up_the_same_command_compiles_nothing(portable, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    if not portable:
        monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(kept))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kept))
    jit.folder.cache_clear()
    try:
        line = f"inspect {PLAN}"
        monkeypatch.setattr(warm_up, "STAGES", ((line,),))
        said = ok("warm-up", *(["--portable", str(kept)] if portable else []))
    finally:
        jit.folder.cache_clear()
    assert line in said
    compiled = set(kept.glob("*.kernel"))
    assert compiled
    assert f"{kept}: {len(compiled)} kernels compiled" in said
    code = f"from plancc import jit, load; load({str(PLAN)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=os.environ)
    assert set(kept.glob("*.kernel")) == compiled


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--level", "x86-64-v3"], "--level needs --portable"),
        (["--level", ""], "--level needs --portable"),
        (["--portable", "kernels", "--level", ""], "--level '': this processor has "),
        (["--portable", ""], "--portable '': give a folder that you, but not"),
        (["--portable", __file__], f"--portable '{__file__}': give a folder that you, but not"),
        (["--portable", "kernels", "--level", "i386"], "--level 'i386': this processor has "),
    ],
)
def test_levels_that_warm_up_refuses(words: list[str], sentence: str) -> None:
    done = plancc("warm-up", *words)
    assert done.code == 2
    assert sentence in done.error


def test_a_command_that_fails_ends_a_warm_up(tmp_path, monkeypatch):
    """Also under a launcher, of which the commands know nothing."""
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(warm_up, "STAGES", (("inspect nowhere.h5",),))
    done = plancc("warm-up")
    assert done.code == 1
    assert done.error.startswith("inspect nowhere.h5 failed: plancc: error: nowhere.h5")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_warm_up_says_which_kernels_it_has_written(tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        (tmp_path / "a.kernel").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(warm_up.subprocess, "run", interrupted)
    done = plancc("warm-up", "--portable", tmp_path)
    assert (done.code, done.error) == (
        *(1, f"interrupted; {tmp_path} with 1 kernel was written before"),
    )


def test_warm_up_says_what_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path / "file" / "kernels"))
    done = plancc("warm-up")
    assert done.code == 1
    assert f"no folder for kernels can be written ({tmp_path}/file/kernels)" in done.error
