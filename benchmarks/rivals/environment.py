"""Environments of their own for rivals whose libraries would not stand beside plancc's."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from plancc.errors import BackendUnavailable

STAMP = "plancc-requirements.txt"  # in an environment: what it was made of, once it works
TIMEOUT = 1800


@dataclass(frozen=True)
class Environment:
    """A virtual environment with packages of PyPI.

    Attributes:
        name: Of its folder.
        module: What must be importable in it.
        requirements: For pip, with their dependencies; wheels only.
        pythons: The versions of Python that have wheels; None for the running one.
    """

    name: str
    module: str
    requirements: tuple[str, ...]
    pythons: tuple[str, ...] | None = None

    def python(self, folder: Path, make: bool = True) -> Path:
        """Its Python in ``folder / name``; made if it is not there, or of other requirements.

        Raises:
            BackendUnavailable: If it cannot be made, or is not there and must not be.
        """
        place = folder.absolute() / self.name
        python = place / "bin" / "python"
        text = "".join(f"{line}\n" for line in self.requirements)
        stamp = place / STAMP
        if stamp.exists() and stamp.read_text() == text:
            return python
        if not make:
            raise BackendUnavailable(f"{self.name}: its environment is not made yet")
        base = self._base()
        self._run("making its environment", base, "-m", "venv", "--clear", "--without-pip", place)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
        wheels = ("--no-cache-dir", "--only-binary", ":all:", "--retries", "1")
        self._run("installing it with pip", *pip, "install", "--quiet", *wheels, *self.requirements)
        self._run(
            "importing it", "env", "DGLBACKEND=pytorch", python, "-c", f"import {self.module}"
        )
        stamp.write_text(text)
        return python

    def _base(self) -> str:
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        if self.pythons is None or running in self.pythons:
            return sys.executable
        found = [shutil.which(f"python{each}") for each in self.pythons]
        for path in filter(None, found):
            return path
        raise BackendUnavailable(
            f"{self.name}: there are no wheels of {self.requirements[0]} for Python {running} on "
            f"{platform.machine()}; have one of Python {', '.join(self.pythons)} in the path"
        )

    def _run(self, step: str, *command: object) -> None:
        try:
            done = subprocess.run(
                list(map(str, command)),
                timeout=TIMEOUT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendUnavailable(f"{self.name}: {step} failed: {error}") from error
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            errors = [line for line in lines if "error" in line.lower()] or lines or ["no message"]
            raise BackendUnavailable(f"{self.name}: {step} failed: {errors[-1]}")


def _own(package: str) -> str:
    """The requirement of the version that runs here, whatever its build ("+cpu")."""
    return f"{package}=={version(package).partition('+')[0]}"


PYG = Environment(
    "pyg", "torch_geometric", (_own("torch"), "torch_geometric==2.8.1", _own("scikit-learn"))
)

# The torch of that time is a CUDA build on PyPI, and does not load without the CUDA libraries.
# It was built for numpy 1. DGL and torchdata import more than they require.
DGL = Environment(
    "dgl",
    "dgl",
    (
        "dgl==2.1.0",
        "torch==2.2.1",
        "torchdata==0.7.1",
        "numpy==1.26.4",
        "pandas==2.2.3",
        "pydantic>=2",
        "pyyaml>=6",
        "setuptools<71",
    ),
    pythons=("3.11", "3.12"),
)
