"""Runs that a signal stops save, end with a code of their own, and resume to the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import long
from launcher import ENVIRONMENT, MPIRUN, alone

from plancc.errors import Stopped
from plancc_cli import stopping
from plancc_cli.stopping import StopSignals
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train, trained
from plancc_runtime.transport.local import run_ranks

PLAN = Path(__file__).parents[1] / "golden" / "plan-1.0.h5"
EPOCHS = 120
OPTIONS = TrainOptions(
    **{"epochs": EPOCHS, "threads": 1, "kernel": "numba", "optimizer": "adam", "dropout": 0.4},
    **{"eval_every": 7, "lr": 0.03},
)
WORDS = ("--threads", 1, "--kernel", "numba", "--optimizer", "adam", "--dropout", 0.4)
WORDS = (*WORDS, "--eval-every", 7, "--lr", 0.03)


@pytest.fixture(scope="module")
def whole():
    """Runs that nothing stopped, on one and on two ranks."""
    return {ranks: run_ranks(ranks, lambda t: train(PLAN, OPTIONS, t))[0] for ranks in (1, 2)}


def same_bits(result, whole) -> bool:
    return all(w.tobytes() == result.weights[name].tobytes() for name, w in whole.weights.items())


@pytest.mark.parametrize("ranks", [1, 2])
def test_all_ranks_stop_when_one_is_asked(whole, ranks, tmp_path):
    chosen = replace(OPTIONS, checkpoint=tmp_path, log=tmp_path / "log")
    stopped = []

    def work(transport):
        calls = []

        def stop() -> str:
            calls.append(0)
            return "SIGTERM" if transport.rank == ranks - 1 and len(calls) > 40 else ""

        try:
            trained(PLAN, chosen, transport, None, None, stop)
        finally:
            stopped.append(str(transport.agreed_error))

    with pytest.raises(Stopped) as caught:
        run_ranks(ranks, work)
    assert caught.value.exit_code == 75
    assert stopped == [f"stopped by SIGTERM after 40 of {EPOCHS} epochs; resume with `resume`"] * (
        ranks
    )
    chosen = replace(chosen, resume=True)
    resumed = run_ranks(ranks, lambda t: train(PLAN, chosen, t))[0]
    assert [e.epoch for e in resumed.epochs] == list(range(40, EPOCHS))
    assert same_bits(resumed, whole[ranks])
    # asking all ranks before every epoch is not counted
    for one, other in zip(resumed.epochs, whole[ranks].epochs[40:], strict=True):
        assert (one.words_sent, one.messages_sent) == (other.words_sent, other.messages_sent)
        assert one.loss == other.loss
    lines = [json.loads(line)["epoch"] for line in (tmp_path / "log").read_text().splitlines()]
    assert lines == list(range(EPOCHS))


def test_without_checkpoints_nobody_is_asked(whole):
    def stop() -> str:
        raise AssertionError

    result, _ = run_ranks(2, lambda t: trained(PLAN, OPTIONS, t, None, None, stop))[0]
    assert same_bits(result, whole[2])


def started(folder, *launcher, words=()) -> subprocess.Popen[str]:
    """A job that would take minutes; it has trained some epochs."""
    command = [*launcher, sys.executable, "-m", "plancc_cli.run", PLAN, *WORDS]
    command += ["--epochs", 10**6, "--checkpoint", folder / "run", "--log", folder / "log", *words]
    log = folder / "log"
    before = log.read_text().count("\n") if log.exists() else 0
    job = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and job.poll() is None:
        if log.exists() and log.read_text().count("\n") > before + 2:
            return job
        time.sleep(0.01)
    job.kill()
    raise AssertionError(job.communicate())


def ended(job) -> tuple[int, str]:
    try:
        _, err = job.communicate(timeout=200)
    except subprocess.TimeoutExpired:
        job.terminate()
        job.communicate(timeout=20)
        pytest.fail("still running minutes after the signal")
    return job.returncode, err


def check_resumes(folder, ranks, words) -> None:
    """From where the job was stopped, it ends with the weights of one that never was."""
    epoch = int(words.split(" of 1000000 epochs")[0].split()[-1])
    assert epoch > 2
    more = ("--epochs", epoch + 5)
    resumed = alone(
        *(PLAN, *WORDS, *more, "--checkpoint", folder / "run", "--resume"),
        *("--save", folder / "resumed.npz"),
        *(("--ranks", ranks) if ranks > 1 else ()),
    )
    assert resumed.returncode == 0, resumed.stderr
    chosen = replace(OPTIONS, epochs=epoch + 5)
    whole = run_ranks(ranks, lambda t: train(PLAN, chosen, t))[0]
    with np.load(folder / "resumed.npz") as file:
        for name, weight in whole.weights.items():
            np.testing.assert_array_equal(file[name], weight)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("SIGTERM", ()),
        pytest.param("SIGUSR1", ("--signal", "USR1"), marks=long),
        ("SIGHUP", ("--signal", "hup")),
    ],
)
def test_a_signal_saves_and_ends_with_75(number, words, tmp_path):
    job = started(tmp_path, words=words)
    job.send_signal(getattr(signal, number))
    code, err = ended(job)
    assert code == 75, err
    [line] = [line for line in err.splitlines() if "stopped" in line]
    assert line.startswith(f"plancc-run: stopped by {number} after ")
    assert line.endswith(" of 1000000 epochs; resume with --resume")
    assert sorted(os.listdir(tmp_path / "run")) == ["best.safetensors", "last.safetensors"]
    check_resumes(tmp_path, 1, line)


@pytest.mark.mpi
@pytest.mark.skipif(MPIRUN is None, reason="no mpirun on this machine")
def test_mpirun_passes_the_signal_on_and_the_code_back(tmp_path):
    launcher = (MPIRUN, "-n", 2, "--oversubscribe")
    job = started(tmp_path, *launcher, words=("--signal", "USR1"))
    job.send_signal(signal.SIGUSR1)
    code, err = ended(job)
    assert code == 75, err
    [line] = [line for line in err.splitlines() if "stopped" in line]
    assert line.startswith("plancc-run: stopped by SIGUSR1 after ")
    job = started(tmp_path, *launcher, words=("--signal", "USR1", "--resume"))
    job.send_signal(signal.SIGUSR1)
    code, again = ended(job)
    assert code == 75, again
    epochs = [int(text.split(" of 1000000")[0].split()[-1]) for text in (err, again)]
    assert 2 < epochs[0] < epochs[1]
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(epochs[1]))


def wait_for(happened) -> None:
    deadline = time.monotonic() + 100
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_second_signal_ends_at_once_but_not_one_that_comes_with_the_first(monkeypatch):
    ends = []
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    with StopSignals(["USR1"], lambda: ends.append(0)) as stop:
        assert signal.getsignal(signal.SIGUSR1) is not before[signal.SIGUSR1]
    assert before == {number: signal.getsignal(number) for number in before}
    monkeypatch.setattr(stopping, "TWICE", 1000)
    with StopSignals(["USR1"], lambda: ends.append(0)) as stop:
        assert stop() == ""
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
            signal.raise_signal(number)
        wait_for(stop)
        assert stop() == "SIGUSR1"
        time.sleep(0.1)
        assert not ends
        monkeypatch.setattr(stopping, "TWICE", 0)
        signal.raise_signal(signal.SIGTERM)
        wait_for(lambda: ends)
        assert set(ends) == {0}
        assert stop() == "SIGUSR1"
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--signal", "USR1"), "--signal USR1: give --checkpoint, the folder, too"),
        (
            ("--signal", "USR1", "--checkpoint", "x", "--fold", "delayed"),
            "--signal USR1: a run with --fold delayed cannot resume",
        ),
        (("--signal", "KILL", "--checkpoint", "x"), "'KILL' is not one of"),
    ],
)
def test_signals_that_cannot_be_answered_are_refused(words, sentence):
    found = alone(PLAN, *words)
    assert found.returncode == 2
    assert sentence in found.stderr
