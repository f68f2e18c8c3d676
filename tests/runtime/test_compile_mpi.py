"""`mpirun plancc compile`: one plan file, one sentence of an error, nothing left of a death."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cases import long
from launcher import ENVIRONMENT, MPIRUN, alone, run

import plancc
from plancc.graph.csr import write_csr
from plancc.plan.verify import verify_file
from plancc.processes import descendants

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A graph with features and labels, as a folder."""
    rng = np.random.default_rng(1)
    pair = rng.integers(0, 300, (2, 3000))
    graph = plancc.as_graph((300, np.concatenate([pair, pair[::-1]], axis=1)))
    path = tmp_path_factory.mktemp("graph") / "graph"
    path.mkdir()
    write_csr(graph, path)
    np.save(path / "features.npy", rng.random((300, 4), dtype=np.float32))
    np.save(path / "labels.npy", rng.integers(0, 3, 300))
    np.save(path / "train_mask.npy", rng.random(300) < 0.5)
    return path


def sentences(done):
    return [line for line in done.stderr.splitlines() if line.startswith("plancc: ")]


def test_ranks_write_a_plan_that_trains(folder, tmp_path, ranks):
    path = tmp_path / "plan.h5"
    words = ("compile", folder, "-p", "4", "-o", path, "-q")
    done = run(2, "-m", "plancc_cli.main", *words)  # as a user starts it
    assert done.returncode == 0, done.stderr
    plan = plancc.load(path)
    assert done.stdout == f"{path}: content {plan.content_sha256()}\n"
    assert plan.provenance["ranks"] == 2
    assert verify_file(path, plancc.read_graph(folder))
    assert [each.name for each in tmp_path.iterdir()] == ["plan.h5"]
    trained = ranks.run(2, path, "--epochs", 1)
    assert trained.returncode == 0, trained.stderr


def test_what_one_process_does_is_not_done_twice(folder, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    done = alone("export", folder, "--to", "hgr", "-o", folder / "g.hgr", program="plancc")
    assert done.returncode == 2
    assert sentences(done) == [
        "plancc: error: export runs in one process; start it without a launcher (mpirun)"
    ]


def test_what_is_wrong_is_said_once(folder, tmp_path, ranks):
    for words, sentence, code in (
        (["--objective", "time"], "--objective time: several ranks minimise only the volume", 2),
        (["--no-data", "--split-name", "1"], "--data has no names", 2),
        (["-o", "/nowhere/p.h5"], "the folder /nowhere does not exist", 1),
    ):
        words = ("compile", folder, "-p", "4", "-o", tmp_path / "p.h5", *words)
        done = ranks.run(2, *words, program="plancc")
        assert done.returncode == code, done.stderr
        (said,) = sentences(done)
        assert sentence in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("delay", [0.0, pytest.param(1.2, marks=long)])
def test_nothing_is_left_where_a_rank_is_killed(folder, tmp_path, delay, fault):
    """Or stopped; once its process is there, and a while later: all end, and no file stays."""
    if MPIRUN is None:
        pytest.skip("no mpirun on this machine")
    head = tmp_path / "p.h5"
    words = ["-m", "plancc_cli.main", "compile", folder, "-p", "4", "-o", head, "-q"]
    words += ["--timeout", "5"]
    job = subprocess.Popen(
        [MPIRUN, "-n", "2", "--oversubscribe", sys.executable, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    try:
        victim = rank_of(job.pid, time.monotonic() + 120)
        time.sleep(delay)
        os.kill(victim, fault)
        said = job.communicate(timeout=120)[1].decode()
    except subprocess.TimeoutExpired:
        for pid in (*descendants(job.pid), job.pid):
            os.kill(pid, signal.SIGKILL)
        job.communicate()
        pytest.skip("the launcher did not end its job: once in a hundred runs")
    finally:
        if job.poll() is None:
            job.kill()
    assert job.returncode != 0
    assert fault == signal.SIGKILL or "still waiting for" in said
    deadline = time.monotonic() + 60  # the others still tidy up
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())


def rank_of(launcher, deadline):
    """A process of Python that the launcher has started."""
    while time.monotonic() < deadline:
        for pid in descendants(launcher):
            with suppress(OSError):
                if b"plancc_cli.main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        time.sleep(0.02)
    pytest.fail("no rank began to work")
