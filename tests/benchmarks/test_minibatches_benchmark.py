"""The benchmark of mini-batches on a tiny directed graph: figures, JSON, resuming, the report."""

import json
import math

import numpy as np
import pytest
from cases import long
from worlds import write_mtx

from benchmarks import minibatches
from benchmarks.minibatch_methods import OURS, RIVALS, WAYS, Bench, Found, Options
from benchmarks.minibatch_results import Results, better, mean_over, over
from benchmarks.report import Report
from plancc.sampling import Population, parse_sampler

N, BATCHES = 60, 30


@pytest.fixture
def graph(tmp_path):
    """A random directed pattern of 60 vertices as .mtx, and the same as a dense matrix."""
    dense = np.random.default_rng(3).random((N, N)) < 0.08
    return write_mtx(tmp_path / "tiny.mtx", dense), dense


@pytest.fixture(autouse=True)
def quick_partitioners(monkeypatch):
    """Mt-KaHyPar's child processes take seconds: our own partitioner stands in for it."""
    monkeypatch.setattr(Bench, "_warm_up", lambda *_: None)
    for name, way in WAYS.items():
        if way.partitioner == "mtkahypar" or name == "hp":
            quick = type(way)(way.model, "builtin", way.batches)
            monkeypatch.setitem(WAYS, name, quick)


def run(path, folder, *arguments, parts="3", shares="0.25", studies="sizes"):
    options = ["--graphs", path, "-p", parts, "--shares", shares, "--batches", BATCHES]
    options += ["--studies", studies, "--json", folder / "out.json", "--threads", 1, *arguments]
    minibatches.main(list(map(str, options)))
    return json.loads((folder / "out.json").read_text())["found"]


def moved(dense, owner, inside):
    """Rows that a batch of the vertices `inside` moves."""
    kept = dense & inside[:, None] & inside[None, :]
    return sum(
        owner[j] != part and kept[owner == part, j].any()
        for j in range(len(owner))
        for part in range(owner.max() + 1)
    )


def test_figures_are_those_of_plain_numpy(graph, tmp_path):
    path, dense = graph
    (cell,) = run(path, tmp_path, "--markdown", tmp_path / "out.md").values()
    assert cell["sampler"] == "uniform batch_size=15"
    assert list(cell["rows"]) == ["rp", *RIVALS, OURS]

    sampler, population = parse_sampler(cell["sampler"]), Population(N)
    batches = [
        np.isin(np.arange(N), sampler.batch(population, 0, k).vertices()) for k in range(BATCHES)
    ]
    volume = {}
    for name in ("rp", *RIVALS):
        with np.load(tmp_path / "out.owners" / f"tiny.{name.replace(' ', '-')}.3.npz") as kept:
            volume[name] = np.array([moved(dense, kept["owner"], each) for each in batches])
        row = cell["rows"][name]
        assert row["mean"] == pytest.approx(volume[name].mean())
        error = volume[name].std(ddof=1) / BATCHES**0.5
        assert row["high"] - row["mean"] == pytest.approx(2.0452 * error, rel=1e-4)  # t of 29
    for name in RIVALS:
        found = cell["rows"]["rp"]["over"][name]["mean"]
        assert found == pytest.approx(volume["rp"].mean() / volume[name].mean())
    ours = cell["rows"][OURS]
    text = (tmp_path / "out.md").read_text()
    assert f"| tiny | 3 | uniform 25% | {ours['over'][RIVALS[0]]['mean']:.3f} [" in text
    assert f"({ours['expected']:.3g})" in text


def test_resume_does_the_rest(graph, tmp_path, monkeypatch):
    path, _ = graph
    asked = []

    def broken(self, matrix, num_parts, way, *rest):
        asked.append((num_parts, way))
        if num_parts == 3 and way == WAYS[OURS] and len(asked) < 15:
            raise KeyboardInterrupt
        return Found(np.arange(matrix.num_vertices) % num_parts, 0.5, [])

    monkeypatch.setattr(Bench, "_find", broken)
    with pytest.raises(SystemExit) as caught:
        run(path, tmp_path, parts="2,3")
    assert caught.value.code == 130
    first = json.loads((tmp_path / "out.json").read_text())["found"]
    assert [cell["num_parts"] for cell in first.values()] == [2]

    asked += [None] * 15
    second = run(path, tmp_path, "--resume", parts="2,3", shares="0.25,0.5")
    assert second.items() >= first.items()
    # owners that do not depend on the batches were kept
    assert asked[27:] == [(p, WAYS[OURS]) for p in (2, 3, 3)]
    assert all(cell["rows"].keys() == {"rp", *RIVALS, OURS} for cell in second.values())
    with pytest.raises(SystemExit) as caught:
        run(path, tmp_path, "--resume", "--seed", "2")
    assert caught.value.code == 2


@long
def test_all_studies_run_and_report(graph, tmp_path, monkeypatch):
    path, dense = graph
    monkeypatch.setattr(minibatches, "BUILDS", {"exact": minibatches.BUILDS["exact"]})
    found = run(path, tmp_path, parts="9", studies=",".join(minibatches.STUDIES))
    studies = [each["study"] for each in found.values()]
    assert studies == ["sizes", "recipe", *["samplers"] * 3, "drawing", "building"]
    for each in found.values():
        for name, row in each.get("rows", {}).items():
            assert "failed" not in row, f"{each['draw']}, {name}: {row['failed']}"
            whole = parse_sampler(each["sampler"]).batch_size == N
            assert row["high"] > row["mean"] or whole
    drawing, building = list(found.values())[-2:]
    assert drawing["nonzeros"] == (dense | np.eye(N, dtype=bool)).sum()  # 20,000 are all of them
    column_nets = (dense | np.eye(N, dtype=bool)).sum(axis=0)
    pins = column_nets[column_nets > 1].sum() / column_nets.sum()
    assert building["pins_per_nonzero"] == pytest.approx(pins)

    report = Report()
    minibatches.add_figures(report, Results(Options(), {}, found))
    figures = {figure.name: figure for figure in report.figures}
    assert figures["closed form - mean, in half intervals, worst"].reached
    assert figures["building, exact"].target == 10
    assert math.isnan(figures["6%: stochastic-hp / hp, mean of 0"].value)


def test_ratios_where_nothing_moves():
    def rows(ours, hp):
        even = {"mean": ours / hp if hp else None, "low": None, "high": None}
        row = {"mean": ours, "over": {"hp": even if hp else None}}
        return {OURS: row, "hp": {"mean": hp}, "gp METIS": {"failed": "not there"}}

    assert better(rows(1.0, 2.0)) == "hp"
    assert over(rows(1.0, 2.0), OURS, "hp")["mean"] == 0.5
    assert over(rows(0.0, 0.0), OURS, "hp")["low"] == 1
    assert over(rows(1.0, 0.0), OURS, "hp")["low"] == math.inf
    assert over(rows(1.0, 2.0), OURS, "gp METIS") is None
    assert mean_over([{"rows": rows(1.0, 2.0)}, {"rows": rows(8.0, 1.0)}], "hp") == pytest.approx(2)


@pytest.mark.parametrize("arguments", [["--batches", "1"], ["--studies", "nope"], ["--resume"]])
def test_wrong_usage(arguments):
    with pytest.raises(SystemExit) as caught:
        minibatches.main(["--graphs", "none", *arguments])
    assert caught.value.code == 2


def test_missing_graphs_are_named(capsys):
    minibatches.main(["--graphs", "no-such-graph"])
    assert "no-such-graph: skipped" in capsys.readouterr().out
