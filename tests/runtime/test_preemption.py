"""Runs that a signal stops save, end with a code of their own, and resume to the same bits."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import long
from launcher import ENVIRONMENT, MPIRUN, alone, interrupted

from plancc.errors import Stopped
from plancc_cli import run_command, signals
from plancc_cli.ranks import RankJob
from plancc_cli.signals import StopSignals
from plancc_runtime.options import TrainOptions
from plancc_runtime.run import Run
from plancc_runtime.train import train, trained
from plancc_runtime.transport.local import run_ranks

PLAN = Path(__file__).parents[1] / "golden" / "row-1.7.h5"
EPOCHS, ENOUGH = 30, 17
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
            return "SIGTERM" if transport.rank == ranks - 1 and len(calls) > ENOUGH else ""

        try:
            trained(PLAN, chosen, transport, None, None, stop)
        finally:
            stopped.append(str(transport.agreed_error))

    with pytest.raises(Stopped) as caught:
        run_ranks(ranks, work)
    assert caught.value.exit_code == 75
    said = f"stopped by SIGTERM after {ENOUGH} of {EPOCHS} epochs; resume with `resume`"
    assert stopped == [said] * ranks
    chosen = replace(chosen, resume=True)
    resumed = run_ranks(ranks, lambda t: train(PLAN, chosen, t))[0]
    assert [e.epoch for e in resumed.epochs] == list(range(ENOUGH, EPOCHS))
    assert same_bits(resumed, whole[ranks])
    # asking all ranks before every epoch is not counted
    for one, other in zip(resumed.epochs, whole[ranks].epochs[ENOUGH:], strict=True):
        assert (one.words_sent, one.messages_sent) == (other.words_sent, other.messages_sent)
        assert one.loss == other.loss
    assert epochs_of(tmp_path) == list(range(EPOCHS))


@pytest.mark.parametrize(("ignored", "names"), [(True, ["HUP"]), (False, ["INT", "HUP"])])
def test_background_jobs_of_a_shell_go_on_ignoring_ctrl_c(ignored, names, monkeypatch, tmp_path):
    def asked(names, *answers):
        seen.extend(names)
        return StopSignals(names, *answers)

    seen: list[str] = []
    monkeypatch.setattr(run_command, "StopSignals", asked)
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)
    words = (PLAN, *WORDS, "--epochs", 1, "--checkpoint", tmp_path, "--signal", "hup")
    assert alone(*words).returncode == 0
    assert seen == names


def test_without_checkpoints_nobody_is_asked(whole):
    def stop() -> str:
        raise AssertionError

    result, _ = run_ranks(2, lambda t: trained(PLAN, OPTIONS, t, None, None, stop))[0]
    assert same_bits(result, whole[2])


def endless(folder, *words) -> list:
    """The words of a job that would take minutes."""
    log = ("--log", folder / "log")
    return [PLAN, *WORDS, "--epochs", 10**6, *log, "--checkpoint", folder / "run", *words]


def epochs_of(folder) -> list[int]:
    """The epochs that the log of a job has."""
    log = folder / "log"
    *whole, _ = log.read_text().split("\n") if log.exists() else [""]
    return [json.loads(line)["epoch"] for line in whole]


def begun(folder):
    """Whether a job has trained some epochs, as a question."""
    return lambda: len(epochs_of(folder)) > 2


def wait_for(happened) -> None:
    deadline = time.monotonic() + 200
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("SIGTERM", ()),
        pytest.param("SIGUSR1", ("--signal", "USR1"), marks=long),
        pytest.param("SIGHUP", ("--signal", "hup"), marks=long),
        pytest.param("SIGINT", (), marks=long),
    ],
)
def test_a_signal_saves_and_ends_with_75(number, words, tmp_path):
    done = interrupted(getattr(signal, number), begun(tmp_path), *endless(tmp_path, *words))
    assert done.returncode == 75, done.stderr
    epochs = epochs_when_stopped(done.stderr, number)
    assert sorted(os.listdir(tmp_path / "run")) == ["best.safetensors", "last.safetensors"]
    chosen = replace(OPTIONS, epochs=epochs + 5)
    resumed = alone(
        *(PLAN, *WORDS, "--epochs", epochs + 5, "--checkpoint", tmp_path / "run", "--resume"),
        *("--save", tmp_path / "resumed.npz"),
    )
    assert resumed.returncode == 0, resumed.stderr
    with np.load(tmp_path / "resumed.npz") as file:
        for name, weight in run_ranks(1, lambda t: train(PLAN, chosen, t))[0].weights.items():
            np.testing.assert_array_equal(file[name], weight)


def epochs_when_stopped(err: str, number: str) -> int:
    """What a job says when it ends."""
    [line] = [line for line in err.splitlines() if "stopped" in line]
    said = rf"plancc-run: stopped by {number} after (\d+) of 1000000 epochs; resume with --resume"
    epochs = int(re.fullmatch(said, line)[1])
    assert epochs > 2
    return epochs


def test_a_signal_in_a_long_epoch_is_answered_at_once(tmp_path, monkeypatch):
    """Long: an epoch does not end before the sentence is there."""
    said, epoch = [], Run.epoch

    def held(run, number):
        if number == 2:
            signal.raise_signal(signal.SIGTERM)
            wait_for(lambda: said)
        return epoch(run, number)

    monkeypatch.setattr(Run, "epoch", held)
    monkeypatch.setattr(RankJob, "say", lambda job, sentence, *_, **__: said.append(sentence))
    assert alone(PLAN, *WORDS, "--epochs", 9, "--checkpoint", tmp_path).returncode == 75
    first, last = said
    assert first == "SIGTERM: a checkpoint is saved at the end of this epoch"
    assert last.startswith("stopped by SIGTERM after 3 of 9 epochs")


def test_without_a_checkpoint_a_signal_interrupts(tmp_path):
    words = (PLAN, *WORDS, "--epochs", 10**6, "--log", tmp_path / "log")
    done = interrupted(signal.SIGTERM, begun(tmp_path), *words)
    assert done.returncode == 1
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.mpi
@pytest.mark.skipif(MPIRUN is None, reason="no mpirun on this machine")
def test_mpirun_passes_the_signal_on_and_the_code_back(tmp_path, ranks):
    """It gives its ranks a terminal, on which lines are whole all the same."""
    split = ("--split", "0.6,0.2,0.2")
    command = [MPIRUN, "-n", 2, "--oversubscribe", sys.executable, "-m", "plancc_cli.run"]
    job = subprocess.Popen(
        [str(word) for word in (*command, *endless(tmp_path, "--signal", "USR1", *split))],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True},
        env=ENVIRONMENT,
    )
    try:
        wait_for(lambda: begun(tmp_path)() or job.poll() is not None)
        job.send_signal(signal.SIGUSR1)
        out, err = job.communicate(timeout=200)
    except subprocess.TimeoutExpired:
        job.terminate()
        job.communicate(timeout=20)
        pytest.fail("still running minutes after the signal")
    assert job.returncode == 75, err
    epochs = epochs_when_stopped(err, "SIGUSR1")
    lines = out.replace("\r", "").splitlines()
    assert lines.count("--split replaces the plan's masks (train, val, test)") == 1
    [network] = [line for line in lines if line.startswith("GCN")]
    assert network.endswith("labels from the plan")
    assert len(network) > 80
    more = ("--epochs", epochs + 5, "--resume")
    resumed = ranks.run(2, *endless(tmp_path, *split, *more))
    assert resumed.returncode == 0, resumed.stderr
    assert epochs_of(tmp_path) == list(range(epochs + 5))


def test_a_second_signal_ends_at_once_but_not_one_that_comes_with_the_first(monkeypatch):
    ends = []
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    with StopSignals(["USR1"], lambda: ends.append(0)) as stop:
        assert signal.getsignal(signal.SIGUSR1) is not before[signal.SIGUSR1]
    assert before == {number: signal.getsignal(number) for number in before}
    monkeypatch.setattr(signals, "TWICE", 1000)
    with StopSignals(["USR1"], lambda: ends.append(0)) as stop:
        assert stop() == ""
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
            signal.raise_signal(number)
        wait_for(stop)
        assert stop() == "SIGUSR1"
        time.sleep(0.1)
        assert not ends
        monkeypatch.setattr(signals, "TWICE", 0)
        signal.raise_signal(signal.SIGTERM)
        wait_for(lambda: ends)
        assert set(ends) == {0}
        assert stop() == "SIGUSR1"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--signal", "USR1"), "--signal USR1 needs --checkpoint; give a folder with it"),
        (("--signal", "KILL", "--checkpoint", "x"), "'KILL' is not one of"),
    ],
)
def test_signals_that_cannot_be_answered_are_refused(words, sentence):
    found = alone(PLAN, *words)
    assert found.returncode == 2
    assert sentence in found.stderr
