"""Starts real ranks by mpirun or torchrun, and makes sure that none is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
MPIRUN = shutil.which("mpirun", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")

ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE_"))},
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMP_NUM_THREADS": "1",
}


def run(
    ranks: int | None,
    *arguments: object,
    timeout: float = 120,
    launcher: str = "mpirun",
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run python with `arguments` on `ranks` ranks (None: no launcher); a hang is a failure."""
    command = [sys.executable, *map(str, arguments)]
    if ranks is not None and launcher == "torchrun":
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command[1:1] = torchrun
    elif ranks is not None:
        if MPIRUN is None:
            pytest.skip("no mpirun on this machine")
        command = [MPIRUN, "-n", str(ranks), "--oversubscribe", *command]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **environment},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # the launchers end their ranks on SIGTERM; SIGKILL alone would leave them running
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        pytest.fail(f"still running after {timeout:g} s: {' '.join(command)}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def plancc_run(ranks: int | None, *arguments: object, **kw) -> subprocess.CompletedProcess[str]:
    return run(ranks, "-m", "plancc_cli.run", *arguments, **kw)


def sentences(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What plancc-run itself said on stderr, without the launcher's own words."""
    return [line for line in result.stderr.splitlines() if line.startswith("plancc-run: error")]
