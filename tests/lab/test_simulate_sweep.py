"""`plancc simulate --sweep`: a table, JSON, a figure, and one sentence for what makes no sense."""

import json
from pathlib import Path

import pytest
from cli_helpers import as_json, ok

from plancc.predict.machine_files import find_machine
from plancc_lab.simulate.scaling import Cell, Sweep
from plancc_lab.simulate.sweep_command import print_sweep

NEEDED = "latency = 1e-6\nbandwidth = 1e10\nmultiply_adds = 5e9\n"
SWEEP = ("--sweep", "p=2,4", "--dims", "8,6,4")
NUMBERS = ("--vertices", 10**7, "--nonzeros", 10**8)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("machine") / "mine.toml"
    path.write_text(f'name = "mine"\n{NEEDED}[node]\nmemory = 9000.0\n')
    return path


def test_json_and_figure(graph: Path, machine: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "scaling.png"
    words = ("simulate", graph, *SWEEP, "--models", "rp,cagnet-1.5d:replication=4,mop")
    said = ok(*words, "--machine", machine, "--json", "--plot", plot)
    found = json.loads(said)
    assert found["models"] == ["rp", "cagnet-1.5d:replication=4", "mop"]
    assert found["ranks"] == [2, 4]
    assert len(found["cells"]) == 6
    cell = found["cells"][0]
    assert (found["machine"]["name"], found["dims"]) == ("mine", [8, 6, 4])
    assert cell["seconds"] == pytest.approx(cell["communication"] + cell["computation"])
    assert cell["speedup"] == pytest.approx(found["sequential_seconds"] / cell["seconds"])
    assert found["cells"][2]["seconds"] is None
    assert "ranks by replication" in found["cells"][2]["why"]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_default_machine_and_widths() -> None:
    words = ("simulate", "--sweep", "p=4", *NUMBERS, "--models", "rp")
    found = as_json(*words)
    assert (found["dims"], found["machine"]["name"]) == ([128, 128, 16], "cpu-cluster")
    assert "dims 128,128,16, machine cpu-cluster;" in ok(*words)


def test_numbers_in_place_of_a_graph(machine: Path) -> None:
    words = ("--models", "hp,rp,cagnet-1d,cagnet-2d", "--boundary", "hp=2:0.1,8:0.4")
    said = ok("simulate", *SWEEP, *NUMBERS, *words, "--machine", machine)
    assert said.startswith("no graph: 10,000,000 vertices, 100,000,000 nonzeros")
    assert "hp: assumed boundary fractions\n" in said
    assert "rp: assumed boundary fractions of a random matrix\n" in said


def test_an_epoch_of_no_time_has_speed_up_0(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell("rp", 2, seconds=0.0)
    print_sweep(Sweep("none", 0, 0, [1, 1], find_machine("simple"), 0.0, [2], ["rp"], [cell]))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "rp" in line]
    assert [row[1] for row in rows] == ["0"] * 4
