"""Starts real ranks by mpirun or torchrun, and makes sure that none is left behind.

What tests no launch is done by ranks that wait (`ranks.Pool`), in this process (`alone`), or in
a fork of a warm one (`forks.run`, `interrupted`).
"""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import forks
import pytest
from ranks import ENVIRONMENT, MPIRUN, PROGRAMS


def run(
    ranks: int | None,
    *arguments: object,
    timeout: float = 200,
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
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True},
        env={**ENVIRONMENT, **environment},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # the launchers end their ranks on SIGTERM; SIGKILL alone would leave them running
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        pytest.fail(f"still running after {timeout:g} s: {' '.join(command)}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def plancc_run(ranks: int | None, *arguments: object, **kw) -> subprocess.CompletedProcess[str]:
    return run(ranks, "-m", "plancc_cli.run", *arguments, **kw)


def interrupted(
    number: int, begun: Callable[[], bool], *words: object
) -> subprocess.CompletedProcess[str]:
    """`plancc-run WORDS` in a process of its own, which gets a signal once it has begun."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(forks.run, ["plancc-run", *words], timeout=250)
        while not begun() and not running.done():
            time.sleep(0.001)
        if not running.done():
            server = forks._Server.started.process.pid
            [job] = Path(f"/proc/{server}/task/{server}/children").read_text().split()
            os.kill(int(job), number)
        return running.result()


def alone(
    *arguments: object, program: str = "plancc-run", encoding: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    """A program on one rank, or on threads, in this process, which saves the start of another."""
    argv = [program, *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    handler = signal.getsignal(signal.SIGTERM)
    code: object = 0
    try:
        with (
            patch.object(sys, "argv", argv),
            redirect_stdout(out),
            redirect_stderr(err),
            patch.object(os, "_exit", sys.exit),  # the end of a job on threads
        ):
            import_module(PROGRAMS[program]).main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert isinstance(code, int), f"exit code {code!r}"
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode(encoding))
    return subprocess.CompletedProcess(argv, code, *said)


def sentences(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What plancc-run itself said on stderr, without the launcher's own words."""
    return [line for line in result.stderr.splitlines() if line.startswith("plancc-run: error")]
