"""Programs outside this project: Pythons with other libraries, compilers, the system's MPI."""

import os
import shutil
import subprocess
import sys
from functools import cache
from glob import glob
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOADERS = HERE / "loaders"


@cache
def python_with(module: str, variable: str, *others: str) -> str:
    """A Python that can import `module`; skips the test if there is none."""
    for python in (os.environ.get(variable, ""), sys.executable, *others):
        if python and shutil.which(python):
            words = [python, "-c", f"import {module}"]
            if not subprocess.run(words, capture_output=True, env=_environment()).returncode:
                return python
    pytest.skip(f"no Python with {module.split(',')[0]}: name one in {variable}")


def _environment() -> dict[str, str]:
    """Sources of this project in a Python that it is not installed in; the system's programs."""
    sources = [ROOT, *(ROOT / name for name in ("runtime", "cli", "datasets", "lab"))]
    petsc = sorted(glob("/usr/lib/petscdir/petsc*/*-real"))  # where Debian's petsc4py lies
    return {
        "PETSC_DIR": petsc[-1] if petsc else "",
        **{name: value for name, value in os.environ.items() if not name.startswith("OPAL_")},
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "DGLBACKEND": "pytorch",
    }


def run(*words: object, **environment: str) -> str:
    """What a program says that gets these words."""
    done = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        env=_environment() | environment,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def system_mpi() -> list[str]:
    """The system's mpirun, which its libraries go with; skips the test where there is none."""
    path = "/usr/bin/mpirun"
    if not os.path.exists(path):
        pytest.skip("no MPI of the system")
    return [path, "--allow-run-as-root", "--oversubscribe", "-n", "4"]
