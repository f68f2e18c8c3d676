"""`plancc simulate --sweep`: a table, JSON, a figure, and one sentence for what makes no sense."""

import json
import sys
from pathlib import Path

import pytest
from cli_helpers import as_json, fails, ok, plancc

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


def test_the_table(graph: Path, machine: Path) -> None:
    said = ok("simulate", graph, *SWEEP, "--machine", machine)
    lines = said.splitlines()
    assert lines[0].startswith("graph.mtx: 90 vertices")
    assert "machine mine" in lines[0]
    heads = [line.split()[0] for line in lines if "p=2" in line and "p=4" in line]
    assert heads == ["epoch", "communication", "computation", "speed-up"]
    models = ["hp", "gp", "rp", "cagnet-1d", "cagnet-1.5d", "cagnet-2d", "mop", "libra"]
    rows = [line.split() for line in lines if line.split()[:1] in [[model] for model in models]]
    assert [row[0] for row in rows] == 4 * models
    first = rows[:8]
    # one mark for the fastest in every column, unless none has the memory
    assert all(sum("*" in row[k] for row in first) <= 1 for k in (1, 2))
    assert "*" in said
    assert "!" in said  # 9,000 bytes are too few for some
    assert [row[1] for row in first if row[0] == "cagnet-2d"] == ["-"]
    assert "-  cagnet-2d, p = 2: 2 ranks: not a perfect square" in said
    assert "out of memory" in said


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
    assert "rp: assumed boundary fractions, those of a random matrix\n" in said


def test_without_matplotlib(
    graph: Path, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ("--machine", machine, "--plot", tmp_path / "s.png")
    done = plancc("simulate", graph, *SWEEP, *words)
    assert done.code == 1
    assert "pip install 'plancc[report]'" in done.error


BAD = {
    "range": (["GRAPH", "--sweep", "p=9..15", "--dims", "8,4"], "no power of two in 9..15"),
    "no range": (["GRAPH", "--sweep", "many", "--dims", "8,4"], "'many'"),
    "unknown model": (["GRAPH", *SWEEP, "--models", "rp,nope"], "'nope'"),
    "unknown option": (["GRAPH", *SWEEP, "--models", "rp:c=2"], "unknown option of 'rp' 'c'"),
    "twice": (["GRAPH", *SWEEP, "--models", "rp,rp"], "twice"),
    "balance": (["GRAPH", *SWEEP, "--balance", "cheese"], "cheese"),
    "no balance here": (["GRAPH", *SWEEP, "--balance", "nnz,train"], "'train'"),
    "plot": (["GRAPH", *SWEEP, "--plot", "s.gif"], ".png, .pdf, .svg"),
    "no graph": ([*SWEEP], "--vertices and --nonzeros"),
    "both": (["GRAPH", *SWEEP, *NUMBERS], "drop"),
    "half": ([*SWEEP, "--vertices", 10], "--nonzeros"),
    "other half": (["GRAPH", *SWEEP, "--nonzeros", 10], "--vertices"),
    "too few": ([*SWEEP, "--vertices", 10, "--nonzeros", 3, "--models", "mop"], "--nonzeros 3"),
    "reading": ([*SWEEP, *NUMBERS, "--pattern"], "--pattern"),
    "no fractions": ([*SWEEP, *NUMBERS, "--models", "hp"], "--boundary, as in hp="),
    "fractions": ([*SWEEP, *NUMBERS, "--models", "hp", "--boundary", "2:x"], "'2:x'"),
    "no such plan": ([*SWEEP, *NUMBERS, "--models", "hp", "--boundary", "x.h5"], "x.h5"),
    "edges": ([*SWEEP, *NUMBERS, "--models", "libra"], "'libra'"),
    "no sweep": (["GRAPH", "--models", "rp", "--dims", "8,4"], "--sweep"),
    **{
        f"of one plan: {option}": (["GRAPH", *SWEEP, *option.split()], said)
        for option, said in (
            ("--per-rank", "--per-rank is for one plan"),
            ("--dtype float64", "--dtype is for one plan"),
            ("--ranks 3", "--ranks is for one plan"),
            ("--passes dead-rows", "dead-rows is for one plan"),
            ("--boundary-sampling 0", "--boundary-sampling is for one plan"),
            ("--model gat", "--model is for one plan"),
            ("--model-option x=1", "--model-option is for one plan"),
            ("--fold none", "--fold is for one plan"),
            ("--batches 2", "--batches is for one plan"),
        )
    },
    "no such graph": (["none.mtx", *SWEEP], "none.mtx"),
}


@pytest.mark.parametrize(("words", "says"), BAD.values(), ids=BAD.keys())
def test_bad_input(
    words: list[object],
    says: str,
    graph: Path,
    machine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [graph if word == "GRAPH" else word for word in words]
    assert says in fails(tmp_path, "simulate", *given, "--machine", machine)


def test_an_epoch_of_no_time_has_speed_up_0(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell("rp", 2, seconds=0.0)
    print_sweep(Sweep("none", 0, 0, [1, 1], find_machine("simple"), 0.0, [2], ["rp"], [cell]))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "rp" in line]
    assert [row[1] for row in rows] == ["0"] * 4
