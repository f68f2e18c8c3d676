"""The benchmark of defaults on tiny graphs: one search serves all machines, results are kept."""

import math

import pytest
from cases import long

import plancc
from benchmarks import defaults
from benchmarks.defaults import DEFAULT, PAPER, Cell, Way, bench_of, run, tables
from benchmarks.inputs import Inputs

PLACES = (("cpu-cluster", "128,128,16"), ("summit", "128,128,16"), ("summit", "50,50,50"))


@pytest.fixture
def small(monkeypatch):
    """Few ways and places."""
    monkeypatch.setattr(defaults, "PLACES", PLACES)
    timed = Way({"objective": "time"}, PLACES[:2], of_machine=True, of_dims=True, parts=(64,))
    ways = {name: defaults.WAYS[name] for name in (PAPER, DEFAULT)} | {"time": timed}
    monkeypatch.setattr(defaults, "WAYS", ways)
    monkeypatch.setattr(defaults, "QUICK_WAYS", tuple(ways))
    monkeypatch.setattr(defaults, "QUICK_PARTS", (64,))


@long
@pytest.mark.filterwarnings("ignore::plancc.PlanccWarning")
def test_epochs_are_those_of_plans_compiled_for_each_machine(small, tmp_path, capsys, monkeypatch):
    report = run(Inputs(tmp_path, quick=True))
    bench, _ = bench_of(Inputs(tmp_path, quick=True))
    graph = plancc.read_graph(bench.graphs["rmat"])
    for way, place in ((PAPER, PLACES[1]), (DEFAULT, PLACES[2]), ("time", PLACES[1])):
        machine, dims = place
        plan = plancc.compile(
            graph,
            "hp",
            64,
            effort="fast",
            machine=machine,
            dims=[*map(int, dims.split(","))],
            **bench.ways[way].settings,
        ).provenance
        ratio = plan["epoch_seconds"] / plan["random_epoch_seconds"]
        assert bench.epochs(way, "fast", 64, place)["rmat"] == pytest.approx(ratio, rel=1e-12)
    assert bench.epochs("time", "fast", 64, PLACES[2]) == {}

    ratios = [*bench.epochs(DEFAULT, "fast", 64, PLACES[0]).values()]
    assert len(ratios) == 2
    mean = math.sqrt(ratios[0] * ratios[1])
    found = {figure.name: figure.value for figure in report.figures}
    assert found["p = 64, fast: epoch / random's"] == pytest.approx(mean)
    assert found["p = 64, fast: epoch / random's, worst graph"] == max(ratios)
    shown = "\n".join(table.markdown() for table in tables(bench))
    assert f"{mean:.3f} / {max(ratios):.3f}" in shown
    assert f"{mean:.3f} / {max(ratios):.3f}" in capsys.readouterr().out

    def compiled(*args, **options):
        raise AssertionError("it was kept")

    monkeypatch.setattr(plancc, "compile", compiled)
    assert run(Inputs(tmp_path, quick=True)).figures == report.figures


def test_a_search_serves_what_it_does_not_depend_on():
    ways, place = defaults.WAYS, ("h100", "50,50,50")
    assert ways[DEFAULT].place(place) == defaults.HOME
    assert ways["work"].place(place) == ("cpu-cluster", "50,50,50")
    assert ways["time, hp"].place(place) is None
    assert ways["time, hp"].place(("h100", "128,128,16")) == ("h100", "128,128,16")


def test_graphs_with_few_rows_per_part_are_left_out(small, tmp_path):
    bench, _ = bench_of(Inputs(tmp_path, quick=True))
    assert bench.measured(Cell("rmat", 128, PAPER, "fast")) == {}
