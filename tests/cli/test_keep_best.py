"""`--keep-best`: Ctrl-C ends the search, and the best plan so far is written."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from cases import long
from cli_helpers import PLANCC, ok

import plancc as library
from plancc.owners.find import STOPPED
from plancc.passes.deadline import Deadline
from plancc_cli.signals import KeepBest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
PATIENCE = 120.0


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "grid.mtx"
    ok("dataset", "grid", "--rows", "40", "--cols", "40", "-o", path)
    return path


@pytest.mark.parametrize(
    ("number", "model"),
    [(signal.SIGINT, "hp"), pytest.param(signal.SIGTERM, "medium-grain", marks=long)],
)
def test_the_best_plan_so_far_is_written(graph, tmp_path, number, model):
    command = [PLANCC, "compile", graph, "-p", "8", "--effort", "best", "--budget", "300"]
    command += ["--keep-best", "-v", "--threads", "2", "--model", model, "-o", tmp_path / "out.h5"]
    with subprocess.Popen(
        [*map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "best: " in line or "polished" in line:
                break
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert STOPPED in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5"]
    ok("verify", tmp_path / "out.h5")
    assert STOPPED in library.load(tmp_path / "out.h5").provenance["warnings"]


def test_before_the_first_step_there_is_nothing_to_keep():
    told = []
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with KeepBest(told.append) as keep:
        assert keep() == ""
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        keep.report("step")
        signal.raise_signal(signal.SIGINT)
        end = time.monotonic() + PATIENCE
        while not keep() and time.monotonic() < end:
            time.sleep(0.01)
        assert keep() == "SIGINT"
    assert told == ["step"]


def test_deadlines():
    never, soon = Deadline(), Deadline.after(100.0)
    assert never.earlier(5.0).at == np.inf
    assert 94 < soon.earlier(5.0).seconds_left() < 95.1
    asked = Deadline.after(None, lambda: True)
    assert asked.passed()
    assert asked.stopped()
    assert asked.earlier(1.0).passed()
    assert asked.seconds_left() == -np.inf
    assert Deadline(-np.inf).earlier(-np.inf).passed()
