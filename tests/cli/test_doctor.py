"""`plancc doctor` says what is there, what is missing, and never hangs."""

import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest
from cli_helpers import environment, plancc

from plancc_cli import doctor


def test_what_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", environment()["PATH"])
    done = plancc("doctor", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["works"] is True
    checks = {(check["section"], check["name"]): check for check in found["checks"]}
    for name in ("numpy", "scipy", "click", "rich", "numba", "networkx"):
        check = checks["versions", name]
        assert (check["state"], check["found"]) == ("ok", metadata.version(name))
    assert checks["compiler", "trial plan"]["state"] == "ok"
    for check in found["checks"]:
        assert check["state"] in ("ok", "missing", "failed")
        assert check["state"] == "ok" or check["advice"] or check["section"] == "GPU"


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the trials out that take seconds."""
    for name in ("_versions", "_mpi", "_gpu"):
        monkeypatch.setattr(doctor, name, lambda: iter(()))


def test_a_compiler_that_does_not_work_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(doctor, "COMPILER", "raise OSError('libhdf5.so is lost')")
    done = plancc("doctor")
    assert done.code == 1
    assert "OSError: libhdf5.so is lost" in " ".join(done.out.split())
    assert "the compiler does not work" in done.out


def test_a_launcher_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\nsleep 100 & wait\n")
    mpirun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    begin = time.monotonic()
    assert doctor.trial([str(mpirun)], 0.5) == (False, "did not end within 0.5 s")
    assert time.monotonic() - begin < 90  # of the 100 that its child sleeps
    good, text = doctor.trial([str(tmp_path / "nothing")])
    assert not good
    assert "No such file" in text


def test_what_is_missing_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert [check.advice for check in doctor._mpi()] == [
        "pip install 'plancc[mpi]'",
        "pip install 'plancc[run]'",
    ]
    missing = {check.name: check for check in doctor._versions() if check.state != "ok"}
    assert missing["torch"].advice == "pip install 'plancc[run]'"
    assert (missing["torch"].needed, missing["numpy"].needed) == (False, True)


@pytest.mark.parametrize(
    ("user", "allowed", "asks"),
    [
        (0, "", "as root: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "),
        (0, "1", ""),
        (7, "", ""),
    ],
)
def test_what_the_launcher_asks(user, allowed, asks, monkeypatch):
    for name in doctor.AS_ROOT:
        monkeypatch.setenv(name, allowed)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(doctor, "usable_cores", lambda: {0, 3})
    said = {"--version": (True, "mpirun (Open MPI) 5.0.11\nmore")}
    monkeypatch.setattr(doctor, "trial", lambda words, seconds=0.0: said[words[-1]])
    monkeypatch.setattr(doctor, "_installed", lambda name: False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/bin/mpirun")
    launcher = next(doctor._mpi())
    advice = f"{asks}more ranks than the 2 cores need mpirun --oversubscribe"
    assert (launcher.state, launcher.advice) == ("ok", advice)
    said["--version"] = (True, "HYDRA build details:")
    assert next(doctor._mpi()).advice == ""


def test_plancc_without_torch(plan: Path, tmp_path: Path) -> None:
    """Every program that needs torch says so, in a sentence."""
    lines = (
        ("run", [plan]),
        ("run", [plan, "--ranks", 2]),
        ("main", ["rehearse", plan]),
        ("main", ["calibrate", "--ranks", 1, "--quick", "-o", tmp_path / "m.toml"]),
    )
    for module, words in lines:
        code = (
            "import sys; sys.modules['torch'] = None\n"
            f"sys.argv[1:] = {[*map(str, words)]}\n"
            f"from plancc_cli.{module} import main\nmain()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 1, done.stderr
        (said,) = done.stderr.splitlines()
        assert "needs torch; install it with: pip install 'plancc[run]'" in said
    assert not any(tmp_path.iterdir())
