"""The pool of ranks that wait for work (`ranks.Pool`)."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cases import long
from ranks import Ended, Pool

from plancc_runtime import launch
from plancc_runtime.transport.mpi import load_mpi

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as pool:
        yield pool


def seen(transport, word):
    world = load_mpi().COMM_WORLD
    total = np.array([10.0**transport.rank])
    transport.allreduce_sum(total)
    return word, transport.rank, transport.size, world.size, launch.announced(), total[0]


def fails(transport, ranks):
    """Ranks that do not fail wait for those that do."""
    if transport.rank in ranks:
        raise ValueError(f"no {transport.rank}")
    transport.allreduce_sum(np.ones(1))


def ends(transport, how):
    if transport.rank == 1 and how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if transport.rank == 1 and how == "aborts":
        transport.abort(3)
    time.sleep(300)


def works(pool):
    for size in (1, 2):
        totals = [0, 1.0, 11.0]
        expected = [("x", r, size, size, (r, size), totals[size]) for r in range(size)]
        assert pool.call(size, seen, "x") == expected


def test_an_error_of_all_ranks_leaves_them_alive(pool):
    works(pool)
    job = pool._job
    with pytest.raises(ValueError, match=r"no [01]") as error:
        pool.call(2, fails, [0, 1])
    assert "in fails" in error.value.__notes__[0]  # where it was raised
    works(pool)
    assert pool._job is job


def test_an_error_that_others_wait_for_ends_the_ranks(pool, monkeypatch):
    works(pool)
    monkeypatch.setattr("ranks.END", 1.0)
    with pytest.raises(ValueError, match="no 1"):
        pool.call(2, fails, [1])
    assert pool._job is None


@pytest.mark.parametrize(
    ("how", "timeout", "words"),
    [
        ("killed", 200, "mpirun ends"),
        pytest.param("aborts", 200, "with 3", marks=long),
        ("hangs", 1, "in ends"),
    ],
)
def test_ranks_that_end_are_started_again(how, timeout, words, pool):
    works(pool)
    with pytest.raises(Ended, match=words):
        pool.call(2, ends, how, timeout=timeout)
    assert pool._job is None


def test_commands(ranks, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    done = ranks.run(2, "none.h5", "--epochs", 1)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["plancc-run: error: none.h5: no such file"]
    done = ranks.run(2, each=[["--version"], ["--help"]])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("plancc-run, version")  # results come from rank 0
    done = ranks.run(2, "compile", "none.mtx", "--parts", 2, "-o", "p.h5", program="plancc")
    assert done.returncode == 2
    assert "none.mtx" in done.stderr
    assert done.stderr.count("error") == 1
    assert not list(Path(tmp_path).iterdir())
    assert capfd.readouterr() == ("", "")
