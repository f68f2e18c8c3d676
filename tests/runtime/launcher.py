"""Starts real ranks by mpirun or torchrun, and makes sure that none is left behind."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from plancc_cli.run import main

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


def alone(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`plancc-run` on one rank in this process, which saves the start of another."""
    argv = ["plancc-run", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    code: object = 0
    try:
        with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert isinstance(code, int), f"exit code {code!r}"
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


def one_after_another(
    commands: Sequence[Sequence[Sequence[object]]], folder: Path
) -> list[subprocess.CompletedProcess[str]]:
    """`plancc-run` several times on the same ranks, whose start costs more than most commands.

    Parameters
    ----------
    commands : list of commands, each a list of arguments for every rank
        None may end a job before its other ranks have ended it too.
    folder : Path
        For what the ranks print.
    """
    ranks = len(commands[0])
    words = [[list(map(str, arguments)) for arguments in command] for command in commands]
    (folder / "commands.json").write_text(json.dumps(words))
    done = run(ranks, Path(__file__).with_name("commands_main.py"), folder)
    assert done.returncode == 0, done.stderr
    results = []
    for k, command in enumerate(words):
        out, err, codes = (
            [(folder / f"{k}.{rank}.{end}").read_text() for rank in range(ranks)]
            for end in ("out", "err", "code")
        )
        assert len(set(codes)) == 1, codes  # all ranks end with the same one
        results.append(
            subprocess.CompletedProcess(command[0], int(codes[0]), "".join(out), "".join(err))
        )
    return results


def sentences(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What plancc-run itself said on stderr, without the launcher's own words."""
    return [line for line in result.stderr.splitlines() if line.startswith("plancc-run: error")]
