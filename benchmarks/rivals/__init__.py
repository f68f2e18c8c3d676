"""What plancc's epochs are measured against: other ways to train the same network on one machine.

Every rival is a script that reads a problem (`problem.write_problem`) in a process and, where its
library needs one, an environment of its own, and prints one JSON line. All start from the same
weights, so all must report the same losses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rivals.environment import DGL, PYG, Environment
from plancc.errors import BackendError, BackendUnavailable

SCRIPTS: dict[str, tuple[str, Environment | None]] = {
    "torch-csr": ("torch_csr.py", None),
    "pyg-csr": ("pyg_gcnconv.py", PYG),
    "pyg-scatter": ("pyg_gcnconv.py", PYG),
    "dgl": ("dgl_graphconv.py", DGL),
    "dgl-sage": ("dgl_graphconv.py", DGL),
}
"""Name -> script, and the environment that it runs in (None: the one that runs this)."""
OF_GCN = ("torch-csr", "pyg-csr", "pyg-scatter", "dgl")
"""Those that train a GCN from the same weights."""

TIMEOUT = 1800
"""Seconds for one run."""


@dataclass(frozen=True)
class Rival:
    """One way to train.

    Attributes:
        command: Takes the problem and the options of `harness.py`; empty if not available.
        why_not: One sentence, "" if available.
    """

    name: str
    command: tuple[str, ...]
    available: bool
    why_not: str


def rivals(folder: Path, names: Sequence[str] = OF_GCN, make: bool = True) -> list[Rival]:
    """The rivals, with the environments that they need.

    Parameters:
        folder: Environments are made in ``folder / "environments"`` and found there again; that of
            DGL takes 5 GB.
        names: Keys of `SCRIPTS`.
        make: Whether environments that are not there are made first.
    """
    found = []
    for name in names:
        script, environment = SCRIPTS[name]
        try:
            python = Path(sys.executable)
            if environment is not None:
                python = environment.python(folder / "environments", make)
        except BackendUnavailable as error:
            found.append(Rival(name, (), False, str(error)))
        else:
            command = (str(python), str(Path(__file__).parent / script), name)
            found.append(Rival(name, command, True, ""))
    return found


def run(
    rival: Rival,
    problem: Path,
    hidden: int,
    epochs: int,
    threads: int,
    *,
    lr: float = 0.1,
    seed: int = 0,
) -> dict[str, Any]:
    """Train in a new process; call it in turns for measurements that share the machine's mood.

    Parameters:
        rival: An available one.
        problem: Of `problem.write_problem`.
        hidden, epochs, threads: Width of the hidden layers, epochs that are timed, threads of
            OpenMP and MKL.
        lr: Of plain SGD.
        seed: Of the initial weights, those of `plancc_runtime.nn.conv.glorot`.

    Returns:
        ``rival``, ``dims``, ``threads``; ``seconds`` of every timed epoch, their ``median`` and
        ``minimum``; ``losses`` of every epoch, the two of the warm-up first; ``peak_rss`` of the
        process in bytes (None where the system does not tell).

    Raises:
        BackendError: If the process fails or hangs.
    """
    options = {"--hidden": hidden, "--epochs": epochs, "--lr": lr, "--seed": seed}
    command = [*rival.command, problem, *(word for pair in options.items() for word in pair)]
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "DGLBACKEND": "pytorch",
    }
    environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            list(map(str, command)),
            env=environment,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"{rival.name}: still running after {TIMEOUT} s") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BackendError(f"{rival.name}: ended with code {done.returncode}: {reason}")
    return dict(json.loads(done.stdout.splitlines()[-1]))
