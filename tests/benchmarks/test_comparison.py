"""The quality benchmark on a tiny directed graph: figures against plain numpy, JSON, resuming."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cases import long
from worlds import write_mtx

from benchmarks import methods, quality
from benchmarks.comparison import Comparison, Row, mean_over_method, over_best, ratio
from benchmarks.inputs import Inputs
from benchmarks.means import KINDS, geometric_mean, kind_of, mean_of_kinds, mean_over_kinds
from benchmarks.methods import OURS, Options
from benchmarks.report import Report
from plancc.graph.owners import Owners

N, PARTS = 60, 5


@pytest.fixture
def graph(tmp_path):
    """A random directed pattern of 60 vertices as .mtx, and the same as a dense matrix."""
    dense = np.random.default_rng(3).random((N, N)) < 0.05
    return write_mtx(tmp_path / "tiny.mtx", dense), dense


def expected(dense, owner):
    """Counts of a partition, and the imbalance of nonzeros, of dense + identity."""
    matrix = dense | np.eye(N, dtype=bool)
    moved = np.zeros((PARTS, PARTS), dtype=int)  # from, to
    for part in range(PARTS):
        needed = matrix[owner == part].any(axis=0)
        for other in set(range(PARTS)) - {part}:
            moved[other, part] = (needed & (owner == other)).sum()
    sent, received = moved.sum(axis=1), moved.sum(axis=0)
    load = np.array([matrix[owner == part].sum() for part in range(PARTS)])
    return {
        "volume": moved.sum(),
        "max_sent": sent.max(),
        "max_received": received.max(),
        "busiest": np.maximum(sent, received).max(),
        "max_exchanged": (sent + received).max(),
        "messages": (moved > 0).sum(),
        "max_messages": (moved > 0).sum(axis=1).max(),
    }, load.max() / load.mean() - 1


def run(path, folder, *arguments, names="rp,block"):
    options = ["-p", PARTS, "--methods", names, "--json", folder / "out.json", *arguments]
    quality.main(list(map(str, [path, *options])))
    content = json.loads((folder / "out.json").read_text())
    return {row["method"]: row for row in content["rows"]}


def test_figures_are_those_of_plain_numpy(graph, tmp_path, capsys):
    path, dense = graph
    mine = np.random.default_rng(9).integers(0, PARTS, N)
    np.savetxt(tmp_path / f"tiny.{PARTS}.txt", mine, fmt="%d")
    options = ["--save", tmp_path / "parts", "--markdown", tmp_path / "out.md"]
    options += ["--part", f"mine={tmp_path}/{{graph}}.{{parts}}.txt", "--reference", "block"]
    rows = run(path, tmp_path, *options, names="metis-cut,block,rp")

    assert list(rows) == ["rp", "block", "metis-cut", "mine"]
    owner = {
        name: np.loadtxt(tmp_path / "parts" / f"tiny.{name}.part.{PARTS}", int) for name in rows
    }
    assert (owner["mine"] == mine).all()
    random, _ = expected(dense, owner["rp"])  # seed 1: the baseline itself
    for name, row in rows.items():
        counts, imbalance = expected(dense, owner[name])
        assert row["counts"] == counts
        assert row["random"] == random
        assert row["imbalance"] == pytest.approx(imbalance)
        for figure, value in row["over_random"].items():
            assert value == pytest.approx(counts[figure] / random[figure])
        assert (row["seconds"] is None) == (row["cpu_seconds"] is None) == (name == "mine")

    text = capsys.readouterr().out
    shown = f"{rows['metis-cut']['over_random']['volume']:.3f}"
    assert shown in text
    assert "Ratios to block" in text
    volumes = [f"{row['counts']['volume']:,}" for row in rows.values()]
    stars = ["*" * (row["imbalance"] > 0.013) for row in rows.values()]
    line = " | ".join(volume + star for volume, star in zip(volumes, stars, strict=True))
    assert f"| tiny | {line} |" in (tmp_path / "out.md").read_text()


def test_processor_time_counts_children():
    def work():
        burn = "import time\nwhile time.process_time() < 0.2: pass"
        subprocess.run([sys.executable, "-S", "-c", burn], check=True)

    assert 0.2 <= methods._timed(work).cpu_seconds < 20


def test_resume_keeps_what_is_there_and_tries_failed_rows_on_request(graph, tmp_path, monkeypatch):
    path, _ = graph
    asked = []

    def search(matrix, num_parts, options, *, limits):
        asked.append((num_parts, options.effort, options.objective, options.budget))
        if [num_parts for num_parts, *_ in asked].count(PARTS) == 1:  # the first after warming up
            raise RuntimeError("not today")
        trial = SimpleNamespace(step="first", seconds=0.5, value=np.int64(7), best=True)
        worse = SimpleNamespace(step="second", seconds=0.5, value=np.int64(8), best=False)
        owners = Owners(np.arange(matrix.num_vertices) % num_parts)
        return SimpleNamespace(owners=owners, warnings=[], tried=[trial, worse])

    monkeypatch.setitem(sys.modules, "plancc.search", SimpleNamespace(search=search))
    chosen = "rp,plancc-messages,plancc-best"
    first = run(path, tmp_path, "--part", f"none={tmp_path}/none", names=chosen)
    assert first["plancc-messages"]["failed"] == "RuntimeError: not today"
    assert "--budget" in first["plancc-best"]["failed"]  # its reference was not run
    assert "none" in first["none"]["failed"]

    kept = run(path, tmp_path, "--resume", names=chosen)
    assert kept["plancc-messages"]["failed"]

    second = run(path, tmp_path, "--resume", "--again", names=f"{chosen},block")
    assert second["rp"] == first["rp"]  # its seconds too
    assert "block" in second
    row = second["plancc-messages"]
    assert row["failed"] == ""
    assert row["tried"] == [{"step": "first", "seconds": 0.5, "value": 7}]
    assert (PARTS, "balanced", "messages", None) in asked

    with pytest.raises(SystemExit):
        run(path, tmp_path, "--resume", "--seed", "2")
    monkeypatch.setattr(quality, "environment", lambda: {"processor": "another"})
    with pytest.raises(SystemExit):
        run(path, tmp_path, "--resume", names=f"{chosen},rcm")
    tables_only = ["--resume", "--json", str(tmp_path / "out.json"), "--epsilon", "0.5"]
    quality.main(tables_only)  # of the file's options


@long
@pytest.mark.parametrize("balance", ["nnz", "rows,work"])
def test_all_searches_run(graph, tmp_path, balance):
    path, dense = graph
    options = ["--budget", 0.5, "--dims", "16,8", "--balance", balance, "--objective-effort"]
    options += ["fast", "--epsilon", 0.1, "--threads", 1, "--save", tmp_path]
    rows = run(path, tmp_path, *options, names=",".join(OURS))
    assert list(rows) == list(OURS)
    for name, row in rows.items():
        assert row["failed"] == ""
        owner = np.loadtxt(tmp_path / f"tiny.{name}.part.{PARTS}", int)
        assert row["counts"] == expected(dense, owner)[0]
        assert min(trial["value"] for trial in row["tried"]) > 0
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["options"]["dims"] == [16, 8]


def test_best_gets_a_multiple_of_the_processor_time_of_another(graph, tmp_path, monkeypatch):
    path, _ = graph
    budgets, threads = [], []

    def search(matrix, num_parts, options, *, limits):
        budgets.append(options.budget)
        threads.append(options.threads)
        owners = Owners(np.arange(matrix.num_vertices) % num_parts)
        return SimpleNamespace(owners=owners, warnings=[], tried=[])

    monkeypatch.setitem(sys.modules, "plancc.search", SimpleNamespace(search=search))
    monkeypatch.setattr("benchmarks.comparison.BUDGET_OF", "block")
    rows = run(path, tmp_path, "--threads", 2, names="block,plancc-best")
    assert budgets[-1] == 3 * rows["block"]["cpu_seconds"]
    assert threads[-1] == 1
    assert rows["plancc-best"]["notes"] == [f"budget {budgets[-1]:.1f} s"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such.mtx"],
        ["--methods", "rp,nope"],
        ["--part", "rp=x"],
        ["--balance", "luck"],
        ["--dims", "3"],
        [],
    ],
)
def test_wrong_usage(graph, arguments):
    path, _ = graph
    graphs = [] if not arguments or arguments == ["no-such.mtx"] else [str(path)]
    with pytest.raises(SystemExit) as caught:
        quality.main([*graphs, *arguments])
    assert caught.value.code == 2


def test_means():
    assert geometric_mean([2, 8]) == pytest.approx(4)
    assert geometric_mean([0, 8]) == 0
    assert math.isnan(geometric_mean([]))
    assert (ratio(0, 0), ratio(1, 0)) == (1, math.inf)

    assert kind_of("wiki-Vote") == "social"
    assert kind_of("mine") == "other"
    values = {"wiki-Vote": 1.0, "email-Enron": 4.0, "Cora": 8.0, "mine": 1.0}
    assert mean_of_kinds(values) == pytest.approx({"social": 2.0, "citation": 8.0, "other": 1.0})
    assert mean_over_kinds(values) == pytest.approx(16 ** (1 / 3))
    names_of_graphs = [name for graphs in KINDS.values() for name in graphs]
    assert len(names_of_graphs) == len(set(names_of_graphs))

    names = ("volume", "max_sent", "max_received", "busiest", "max_exchanged")
    names += ("messages", "max_messages")

    def row(graph, method, count, seconds):
        counts = dict.fromkeys(names, count)
        baseline = dict.fromkeys(names, 100)
        return Row(graph, 4, method, seconds, seconds, 0.0, counts, baseline)

    table = Comparison(
        Options(),
        [
            row("a", "rp", 20, 1.0),
            row("a", "block", 10, None),
            row("b", "rp", 80, 1.0),
            row("b", "block", 10, 4.0),
            row("c", "rp", 10, 1.0),
            Row("c", 4, "block", failed="no"),
        ],
    )
    found = mean_over_method(table, table.select(4, "rp"), "block")
    assert found["graphs"] == 2
    assert found["volume"] == pytest.approx(4)
    assert found["seconds"] == found["cpu_seconds"] == pytest.approx(0.25)

    loose = replace(row("c", "block", 2, 1.0), imbalance=0.05)
    table.put(loose)  # fewer rows, but out of balance: no comparison
    assert mean_over_method(table, table.select(4, "rp"), "block")["graphs"] == 2
    table.put(row("b", "metis-cut", 40, 1.0))
    table.put(row("b", "plancc-fast", 5, 1.0))  # not among the others
    table.put(row("b", "plancc-best", 20, 1.0))
    assert over_best(table, 4, "plancc-best") == {"b": 2.0}


def test_few_parts_have_their_own_targets():
    counts = dict.fromkeys(("volume", "max_sent", "max_received", "busiest", "messages"), 100)
    for num_parts, targets in ((16, [0.95, 1.05]), (64, [0.95, 1.0])):
        rows = [
            Row("a", num_parts, name, 1.0, 1.0, 0.0, counts, counts)
            for name in ("plancc-fast", "metis-volume")
        ]
        report = Report()
        quality._add_ratios(report, Comparison(Options(), rows), num_parts, 1)
        of_volume = report.figures[:2]
        assert of_volume[0].name == f"p = {num_parts}: plancc-fast / metis-volume: volume"
        assert [figure.target for figure in of_volume] == targets
        others = any("plancc-messages" in figure.name for figure in report.figures)
        assert others == (num_parts > 16)


def test_report_has_something_to_measure_without_the_shared_graphs(tmp_path, monkeypatch):
    monkeypatch.setattr(quality, "SHARED", tmp_path / "none")
    monkeypatch.setattr(quality, "RIVALS", ("rp", "block"))
    targets = ("rcm", "block", {"volume": (5.0, 6.0), "cpu_seconds": (1e9, None)})
    monkeypatch.setattr(quality, "TARGETS", (targets,))
    report = quality.run(Inputs(tmp_path, quick=True))
    assert [figure.name for figure in report.figures if "worst" not in figure.name] == [
        "p = 64: rcm / block: volume, without 1 graph",
        "p = 64: rcm / block: cpu_seconds, without 1 graph",
        "p = 64: plancc-best / best other method of a graph: volume, without 2 graphs",
    ]
    assert [figure.reached for figure in report.figures] == [True, True, True, False, False]
    assert "generated" in report.notes[0]
    assert len(json.loads((tmp_path / "quality.json").read_text())["rows"]) == 6
