"""The kit for GPUs, on the CPU and small graphs: that it cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import long

from benchmarks import gpu

KIT = Path(gpu.__file__)


def run(tmp_path: Path, *words: str, **environment: str) -> tuple[str, dict]:
    path = tmp_path / "gpu.json"
    command = [sys.executable, KIT, "--device", "cpu", "--quick", "--json", path, *words]
    done = subprocess.run(
        list(map(str, command)),
        **{"capture_output": True, "text": True, "timeout": 1200},
        env={**os.environ, **environment},
        check=True,
    )
    return done.stdout, json.loads(path.read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run(tmp_path_factory.mktemp("kit"))


def rows(found, section):
    return [row for row in found[1]["rows"] if row["section"] == section]


@long
@pytest.mark.timeout(1300)  # of a busy machine; 45 s of processor time
def test_every_section_has_its_rows(found):
    assert not [row for row in found[1]["rows"] if row["name"] == "did not end"]
    assert rows(found, "rates")[1]["GB/s"] > 0.1
    layouts = [row["name"].split(" ")[-1] for row in rows(found, "correctness")[:-1]]
    assert layouts == ["row"] * 3 + ["edge"] * 2 + ["grid"] * 2 + ["feature"] * 2
    assert [row["right"] for row in rows(found, "correctness")] == [True] * 10
    assert [row["right"] for row in rows(found, "products")] == [True] * 2
    assert [row["right"] for row in rows(found, "exchange")] == [True]
    assert [row["ms"] > 0 for row in rows(found, "epochs")] == [True] * 6
    assert rows(found, "tests") == [
        {"section": "tests", "name": "left out", "why": "they need a GPU"}
    ]
    assert "nothing is wrong" in found[0]


def test_a_library_that_is_missing_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "find_spec", lambda name: None if name == "numba" else object())
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--json", str(tmp_path / "a.json")])
    gpu.main()
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["rows"] == [{"section": "missing", "name": "numba"}]


def test_a_section_that_is_killed_leaves_what_it_had(capsys, monkeypatch):
    """The clock of the first section goes off when its first row is there, that of others never."""

    class Timer:
        def __init__(self, seconds, kill):
            self.kill, self.alive = kill, True
            timers.append(self)

        def start(self): ...

        cancel = start

        def is_alive(self):
            return self.alive

    def row_of(line):
        if len(timers) == 1:
            timers[0].alive = False
            timers[0].kill()
        return gpu._row_of_json(line)

    timers = []
    monkeypatch.setattr(gpu.threading, "Timer", Timer)
    program = "import json, time; print(json.dumps({'section': 's', 'name': 'one'}), flush=True); "
    for end, why in (
        ("time.sleep(600)", "stopped after its share of 2 s"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ):
        rows = gpu._lines("s", [sys.executable, "-c", program + end], 2, row_of)
        assert [row["name"] for row in rows] == ["one", "did not end"]
        assert rows[1]["why"] == why


def test_wheels_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--wheels", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"there is no \.whl in this folder"):
        gpu.main()
