"""What a command imports and compiles when it starts, and what `plancc warm-up` takes off it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import long
from cli_helpers import ok, plancc

from plancc import jit
from plancc_cli import warm_up

PLAN = Path(__file__).parents[1] / "golden" / "plan-1.5.h5"


def imported(*words: object, code: int = 0) -> set[str]:
    """The modules that a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_help_of_a_run_imports_neither_torch_nor_numba() -> None:
    found = imported("plancc_cli.run", "--help")
    assert "plancc_cli.run_command" in found
    assert not found & {"torch", "numba", "mpi4py", "h5py", "scipy"}


def test_compile_imports_no_torch(tmp_path: Path) -> None:
    words = ("compile", tmp_path / "none.mtx", "-p", 2, "-o", tmp_path / "plan.h5")
    found = imported("plancc_cli", *words, code=2)
    assert {"plancc.pipeline", "numba"} <= found
    assert not found & {"torch", "mpi4py"}


@pytest.mark.parametrize(
    "line",
    [line for line in sum(warm_up.STAGES, ()) if " edges.csv " in line or " edges.txt " in line],
)
def test_edge_lists_that_warm_up_reads(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in warm_up.EDGES.items():
        Path(name).write_text(text)
    ok(*line.split(), warned=True)


@long  # kernels are compiled; `make test` itself begins with `plancc warm-up`
def test_after_warm_up_the_same_command_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(kept))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kept))
    jit.folder.cache_clear()
    try:
        line = f"inspect {PLAN}"
        monkeypatch.setattr(warm_up, "STAGES", ((line,),))
        said = ok("warm-up")
    finally:
        jit.folder.cache_clear()
    assert line in said
    compiled = set(kept.glob("*.kernel"))
    assert compiled
    assert f"{kept}: {len(compiled)} kernels compiled" in said
    command = [sys.executable, "-m", "plancc_cli", "inspect", str(PLAN)]
    subprocess.run(command, check=True, capture_output=True, timeout=120, env=os.environ)
    assert set(kept.glob("*.kernel")) == compiled


def test_warm_up_says_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path / "file" / "kernels"))
    done = plancc("warm-up")
    assert done.code == 1
    assert f"no folder for kernels can be written ({tmp_path}/file/kernels)" in done.error
