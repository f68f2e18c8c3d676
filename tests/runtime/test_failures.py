"""A rank that sleeps, dies or fails ends the whole job in time, and the right ranks say why."""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from cases import long, some
from launcher import run

from plancc.errors import InputError
from plancc_runtime.transport.base import TransportError
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.messages import name_ranks, unfinished

MAIN = Path(__file__).with_name("failure_main.py")
SECONDS = 2  # the timeout of the jobs
LOADED = 60  # more seconds that a launcher may take to end where others use the machine too


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def said(result) -> list[str]:
    return sorted(line for line in result.stderr.splitlines() if line.startswith("rank "))


def job(ranks, transport, fault, launcher="mpirun"):
    """What ends sooner than the rank that sleeps, which does so for ten minutes."""
    return run(ranks, MAIN, transport, fault, SECONDS, launcher=launcher, timeout=250)


TIMEOUT = f"timeout of {SECONDS} s: still waiting for"
COLLECTIVE = "another rank to reach the collective call that this one is in"


@pytest.mark.mpi
def test_mpi_a_rank_that_sleeps():
    result = job(5, "mpi", "sleeps")
    waits = (
        "a message from rank 4",
        "rank 4 to accept a message",
        COLLECTIVE,
        "a broadcast of rank 4",
    )
    assert said(result) == [f"rank {rank}: {TIMEOUT} {wait}" for rank, wait in enumerate(waits)]
    assert result.returncode == 1


@pytest.mark.mpi
def test_mpi_a_rank_that_dies():
    result = job(2, "mpi", "dies")
    assert result.returncode != 0
    assert said(result) == []  # nobody is at fault but the dead, for whom the launcher speaks
    assert "signal 9" in result.stderr


FAULTS = {  # ranks, transport, fault, and what sentences have
    "raises": (2, "mpi", "raises", ["rank 1: something is damaged"]),
    "gloo, sleeps": (
        *(3, "gloo", "sleeps"),
        [f"{TIMEOUT} a message from rank 2", f"{TIMEOUT} a message to rank 2"],
    ),
    "holds the lock": (2, "mpi", "holds the lock", [f"rank 0: {TIMEOUT} {COLLECTIVE}"]),
    "starts late": (2, "mpi", "starts late", [f"rank 0: {TIMEOUT} the other ranks to start MPI"]),
    "never ends": (2, "mpi", "stays", [f"rank 0: {TIMEOUT} the other ranks to end"]),
    "queue of a device": (1, "mpi", "device", [f"rank 0: {TIMEOUT} a device"]),
    "gloo, raises": (2, "gloo", "raises", ["rank 1: something is damaged"]),
}


@pytest.mark.mpi
@some(lambda name: not name.startswith("gloo"), name=FAULTS)
def test_ranks_say_what_they_wait_for(name):
    *given, words = FAULTS[name]
    result = job(*given)
    assert all(each in result.stderr for each in words)
    assert result.returncode == 1


@pytest.mark.parametrize(
    "launcher",
    [pytest.param("mpirun", marks=pytest.mark.mpi), pytest.param("torchrun", marks=long)],
)
def test_a_rank_that_is_stopped(launcher):
    result = job(2, "auto", "stops", launcher)
    assert said(result) == [f"rank 0: {TIMEOUT} {COLLECTIVE}"]
    assert result.returncode == 1
    [late] = re.findall(r"late (\d+) ([0-9.]+)", result.stdout)
    assert time.time() - float(late[1]) < SECONDS + 35 + LOADED  # torchrun waits 30 s
    end = time.monotonic() + 30  # a process that is killed first gives its memory back
    while lives(int(late[0])) and time.monotonic() < end:
        time.sleep(0.05)
    assert not lives(int(late[0]))


@long
def test_gloo_a_rank_that_dies():
    result = job(2, "gloo", "dies", "torchrun")
    assert result.returncode == 1
    assert all("lost the connection" in sentence for sentence in said(result))


def test_threads_a_rank_that_raises():
    def work(transport):
        if transport.rank == 1:
            raise InputError("no such thing")
        transport.allreduce_sum(np.ones(2))

    with pytest.raises(InputError, match=r"^rank 1: no such thing$"):
        run_ranks(3, work)


def test_threads_a_defect_in_a_rank():
    def work(transport):
        if transport.rank == 2:
            raise IndexError("out of range")
        exchange = transport.exchange([], [(2, np.ones(3))])
        exchange.start()
        return list(exchange.arrivals())

    with pytest.raises(IndexError, match="out of range") as caught:
        run_ranks(3, work)
    assert caught.value.__notes__ == ["in rank 2"]


def test_threads_that_abort():
    def work(transport):
        if transport.rank == 1:
            transport.abort(2)
        transport.gather(None)

    with pytest.raises(SystemExit) as caught:
        run_ranks(2, work)
    assert caught.value.code == 2


def test_threads_a_rank_that_sleeps():
    awake = []

    def work(transport):
        if transport.rank == 3:
            time.sleep(1.5)
            awake.append(transport.rank)
            return
        mine = [(3, np.ones(4))]
        if transport.rank < 2:
            exchange = transport.exchange(*(([], mine), (mine, []))[transport.rank])
            exchange.start()
            for k in range(transport.rank):
                exchange.send(k)
            exchange.finish()
        transport.gather(None)

    with pytest.raises(TransportError) as caught:
        run_ranks(4, work, timeout=0.5)
    late = "timeout of 0.5 s: still waiting for"
    assert str(caught.value) == (
        f"rank 0: {late} a message from rank 3; rank 1: {late} rank 3 to accept a message; "
        f"rank 2: {late} ranks 0, 1, 3 to reach a collective call"
    )
    assert awake == [3]  # it was waited for, since nothing ends a thread


def test_threads_are_interrupted():
    def work(transport):
        if transport.rank == 0:
            os.kill(os.getpid(), signal.SIGINT)
            return
        transport.gather(None)

    with pytest.raises(KeyboardInterrupt):
        run_ranks(2, work, timeout=250)  # no TransportError


def test_names_of_ranks():
    assert name_ranks([3]) == "rank 3"
    assert name_ranks([2, 1, 2]) == "ranks 1, 2"
    assert name_ranks(range(20)) == "ranks 0, 1, 2, 3, 4, 5, 6, 7, ..."
    assert unfinished([4, 1], []) == "a message from ranks 1, 4"
    assert unfinished([1], [2, 3]) == "a message from rank 1 and ranks 2, 3 to accept a message"
