"""A fork (`forks.run`) is to a user what the console script is."""

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forks
import pytest
from cases import long
from cli_helpers import PROGRAMS, family
from hostile.signals import answers

PLAN = Path(__file__).parents[1] / "golden" / "plan-1.5.h5"
VERSION = ["plancc", "--version"]


@pytest.mark.parametrize(
    "line",
    [
        f"plancc inspect {PLAN}",
        pytest.param("plancc verify none.h5", marks=long),
        pytest.param("plancc-run none.h5", marks=long),
    ],
)
def test_same_streams_and_code_as_the_console_script(line: str, tmp_path: Path) -> None:
    words = line.split()
    given = {"cwd": tmp_path, "env": os.environ}
    real = [PROGRAMS / words[0], *words[1:]]
    told = subprocess.run(real, capture_output=True, text=True, timeout=120, **given)
    done = forks.run(words, **given)
    assert done.returncode == told.returncode
    assert (done.stdout, done.stderr) == (told.stdout, told.stderr)


def test_folder_environment_and_streams_are_those_given(tmp_path: Path) -> None:
    words = ["plancc", "dataset", "karate", "-o", "karate.mtx"]
    assert forks.run(words, cwd=tmp_path).returncode == 0
    assert (tmp_path / "karate.mtx").exists()
    compiling = ["plancc", "compile", "karate.mtx", "-p", 2, "--model", "rp", "-o", "plan.h5"]
    when = os.environ | {"SOURCE_DATE_EPOCH": "86400"}
    assert forks.run(compiling, cwd=tmp_path, env=when).returncode == 0
    with open(tmp_path / "out", "w") as out:
        done = forks.run(["plancc", "inspect", tmp_path / "plan.h5", "--json"], stdout=out)
    assert (done.stdout, done.stderr) == ("", "")
    assert '"created": "1970-01-02' in (tmp_path / "out").read_text()


@pytest.mark.skipif(
    sys.gettrace() is not None, reason="signals are not answered while it is traced"
)
def test_a_fork_answers_signals() -> None:
    """As every console script, and in a session of its own."""
    assert forks.run(VERSION).returncode == 0
    server = forks._Server.started
    assert server is not None
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(forks.run, ["plancc", "compile", "--help", "all"], stdout=writer)
        running.add_done_callback(lambda _: os.close(writer))
        os.read(reader, 1)  # of more than the pipe holds
        ((pid, words),) = family(server.process.pid).items()
        assert answers(pid)
        os.close(reader)
        assert running.result().returncode == 1
    assert int(words[3]) == pid
