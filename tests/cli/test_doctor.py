"""`plancc doctor` says what is there, what is missing, and never hangs."""

import json
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import h5py
import pytest
from cases import long
from cli_helpers import environment, plancc

from plancc_cli import doctor


def test_what_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", environment()["PATH"])
    done = plancc("doctor", "--json", "-q")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["works"] is True
    checks = {(check["section"], check["name"]): check for check in found["checks"]}
    for name in ("numpy", "scipy", "click", "rich", "numba", "networkx"):
        check = checks["versions", name]
        assert (check["state"], check["found"]) == ("ok", metadata.version(name))
    assert checks["versions", "h5py"]["found"].endswith(f"HDF5 {h5py.version.hdf5_version}")
    assert checks["partitioners", "builtin"]["state"] == "ok"
    assert checks["compiler", "trial plan"]["state"] == "ok"
    assert str(os.cpu_count()) in checks["machine", "cores"]["found"]
    for check in found["checks"]:
        assert check["state"] in ("ok", "missing", "failed")
        assert check["state"] == "ok" or check["advice"] or check["section"] == "GPU"


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the trials out that take seconds."""
    for name in ("_versions", "_partitioners", "_mpi", "_gpu"):
        monkeypatch.setattr(doctor, name, lambda: iter(()))


def test_a_compiler_that_does_not_work_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(doctor, "KERNELS", "print('here')")
    monkeypatch.setattr(doctor, "COMPILER", "raise OSError('libhdf5.so is lost')")
    done = plancc("doctor", "-q")
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
    ("user", "cores", "given", "asks"),
    [
        (0, 2, {}, "as root: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "
                   "2 cores: mpirun -n 4 needs --oversubscribe"),
        (0, 1, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
         "1 core: mpirun -n 4 needs --oversubscribe"),
        (7, 16, {}, "16 cores: mpirun -n 17 needs --oversubscribe"),
        (7, 2, {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}, ""),
    ],
)  # fmt: skip
def test_what_the_launcher_asks(
    user: int, cores: int, given: dict[str, str], asks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("OMPI_", "PRTE_"))]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(doctor, "usable_cores", lambda: set(range(cores)))
    said = {"--version": (True, "mpirun (Open MPI) 5.0.11")}
    monkeypatch.setattr(doctor, "trial", lambda words, seconds=0.0: said[words[-1]])
    monkeypatch.setattr(doctor, "_installed", lambda name: False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/bin/mpirun")
    launcher = next(doctor._mpi())
    assert (launcher.state, launcher.advice) == ("ok", asks)
    said["--version"] = (True, "HYDRA build details:")
    assert next(doctor._mpi()).advice == ""


def test_numbers_of_cores() -> None:
    assert doctor._ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


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


@pytest.mark.parametrize("broken", [pytest.param("numba", marks=long), "h5py"])
def test_a_broken_library_is_diagnosed(broken: str, tmp_path: Path) -> None:
    """What is slow and needs none of them is left out."""
    (tmp_path / f"{broken}.py").write_text("raise ImportError('libbroken.so is lost')\n")
    code = (
        "import sys\n"
        "from plancc_cli import doctor, main\n"
        "doctor._partitioners = doctor._mpi = doctor._gpu = lambda: iter(())\n"
        "sys.argv = ['plancc', 'doctor', '--json', '-q']\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        timeout=120,
    )
    assert done.returncode == 1
    checks = json.loads(done.stdout)["checks"]
    assert any("libbroken.so is lost" in check["found"] for check in checks)


def test_the_first_sentence_of_an_error_is_whole() -> None:
    said = (
        "-----\nprterun has detected an attempt to run as root.\n\n"
        "Running as root is *strongly* discouraged as any mistake (e.g., in\ndefining TMPDIR) or\n"
    )
    assert doctor._reason(said) == "prterun has detected an attempt to run as root."
    assert (
        doctor._reason("mistakes (e.g., in\nTMPDIR) are\nbad") == "mistakes (e.g., in TMPDIR) are"
    )
    assert doctor._reason(f"{'x' * 300}.") == "x" * 200


@pytest.fixture
def in_job(tmp_path, monkeypatch):
    """Sets variables, where none of a scheduler was set before, beside two files of hosts."""
    (tmp_path / "hosts").write_text("a\nb\nb\n")
    (tmp_path / "empty").touch()
    monkeypatch.chdir(tmp_path)
    for name in [*os.environ]:
        if name.startswith(("SLURM_", "LSB_", "PBS_", "JOB_", "KUBERNETES_")):
            monkeypatch.delenv(name)

    def set_all(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


@pytest.mark.parametrize(
    ("scheduler", "variables", "found"),
    [
        (
            "Slurm",
            {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "8"},
            "SLURM_JOB_ID=7, nodes: 2, ranks: 8",
        ),
        ("LSF", {"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": "hosts"}, "LSB_JOBID=7, .* 2, ranks: 3"),
        ("PBS", {"PBS_JOBID": "7.a", "PBS_NODEFILE": "hosts"}, "PBS_JOBID=7.a, .* 2, ranks: 3"),
        ("PBS", {"PBS_JOBID": "7.a", "PBS_NODEFILE": "lost"}, "!PBS_NODEFILE=lost: No such.*"),
        ("PBS", {"PBS_JOBID": "7.a"}, "!PBS_NODEFILE is not set"),
        ("LSF", {"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": "empty"}, "!LSB_.*=empty: has no host"),
        (
            "Slurm",
            {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "abc"},
            "!SLURM_NTASKS=abc: no whole number",
        ),
        ("Kubernetes", {"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETION_INDEX=0"),
        ("Kubernetes", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "KUBERNETES_SERVICE_HOST=10.0.0.1"),
    ],
)
def test_the_scheduler_of_a_job(scheduler, variables, found, in_job):
    in_job(variables)
    [check] = doctor._job()
    assert check.name == scheduler
    assert re.fullmatch(found.strip("!"), check.found), check.found
    assert check.state == ("failed" if found[0] == "!" else "ok")
    assert check.advice


def test_schedulers_within_others(in_job):
    """Each has numbers of its own, and one that fails hides no other."""
    assert list(doctor._job()) == []
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "8"}
    lost = {"LSB_JOBID": "8", "LSB_DJOB_HOSTFILE": "lost"}
    pod = {"JOB_COMPLETION_INDEX": "0", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    in_job({**slurm, **lost, "PBS_JOBID": "9", "PBS_NODEFILE": "hosts", **pod})
    checks = {check.name: check for check in doctor._job()}
    assert {name: check.found for name, check in checks.items()} == {
        "Slurm": "SLURM_JOB_ID=7, nodes: 1, ranks: 8",
        "LSF": "LSB_DJOB_HOSTFILE=lost: No such file or directory",
        "PBS": "PBS_JOBID=9, nodes: 2, ranks: 3",
        "Kubernetes": "JOB_COMPLETION_INDEX=0, KUBERNETES_SERVICE_HOST=10.0.0.1",
    }
    assert all("plancc-run plan.h5" in checks[name].advice for name in checks.keys() - {"LSF"})
    in_job({"LSB_DJOB_HOSTFILE": "hosts"})
    [lsf] = [check for check in doctor._job() if check.name == "LSF"]
    assert lsf.advice == "mpirun --hostfile $LSB_DJOB_HOSTFILE plancc-run plan.h5"
