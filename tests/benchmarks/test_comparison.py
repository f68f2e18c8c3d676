"""The quality benchmark on a tiny directed graph: figures against plain numpy, JSON, resuming."""

from __future__ import annotations

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import quality
from benchmarks.comparison import Comparison, Row, geometric_mean, mean_over_method, ratio
from benchmarks.inputs import Inputs
from benchmarks.methods import OURS, Options
from plancc.graph.owners import Owners

N, PARTS = 60, 5


@pytest.fixture
def graph(tmp_path):
    """A random directed pattern of 60 vertices as .mtx, and the same as a dense matrix."""
    dense = np.random.default_rng(3).random((N, N)) < 0.05
    entries = "".join(f"{i + 1} {j + 1}\n" for i, j in np.argwhere(dense))
    head = f"%%MatrixMarket matrix coordinate pattern general\n{N} {N} {dense.sum()}\n"
    (tmp_path / "tiny.mtx").write_text(head + entries)
    return tmp_path / "tiny.mtx", dense


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


def run(path, folder, *arguments, methods="rp,block"):
    options = ["-p", PARTS, "--methods", methods, "--json", folder / "out.json", *arguments]
    quality.main(list(map(str, [path, *options])))
    content = json.loads((folder / "out.json").read_text())
    return {row["method"]: row for row in content["rows"]}


def test_figures_are_those_of_plain_numpy(graph, tmp_path, capsys):
    path, dense = graph
    mine = np.random.default_rng(9).integers(0, PARTS, N)
    np.savetxt(tmp_path / f"tiny.{PARTS}.txt", mine, fmt="%d")
    options = ["--save", tmp_path / "parts", "--markdown", tmp_path / "out.md"]
    options += ["--part", f"mine={tmp_path}/{{graph}}.{{parts}}.txt", "--reference", "block"]
    rows = run(path, tmp_path, *options, methods="metis-cut,block,rp")

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
        assert (row["seconds"] is None) == (name == "mine")

    text = capsys.readouterr().out
    shown = f"{rows['metis-cut']['over_random']['volume']:.3f}"
    assert shown in text
    assert "ratios to block" in text
    assert f"| tiny | {PARTS} | 1.000 / 1.000 / 1.000 / " in (tmp_path / "out.md").read_text()


def test_resume_keeps_what_is_there_and_tries_failed_rows_again(graph, tmp_path, monkeypatch):
    path, _ = graph
    asked = []

    def search(matrix, num_parts, options, *, loads):
        asked.append((num_parts, options.effort, options.objective, options.budget))
        if [num_parts for num_parts, *_ in asked].count(PARTS) == 1:  # the first after warming up
            raise RuntimeError("not today")
        trial = SimpleNamespace(step="first", seconds=0.5, value=np.int64(7))
        owners = Owners(np.arange(matrix.num_vertices) % num_parts)
        return SimpleNamespace(owners=owners, warnings=[], tried=[trial])

    monkeypatch.setitem(sys.modules, "plancc.search", SimpleNamespace(search=search))
    methods = "rp,plancc-messages,plancc-best"
    first = run(path, tmp_path, "--part", f"none={tmp_path}/none", methods=methods)
    assert first["plancc-messages"]["failed"] == "RuntimeError: not today"
    assert "--budget" in first["plancc-best"]["failed"]  # its reference was not run
    assert "none" in first["none"]["failed"]

    second = run(path, tmp_path, "--resume", methods=f"{methods},block")
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
        run(path, tmp_path, "--resume", methods=f"{methods},rcm")
    quality.main(["--resume", "--json", str(tmp_path / "out.json")])  # tables only


@pytest.mark.parametrize("balance", ["nnz", "rows,work"])
def test_all_searches_run(graph, tmp_path, balance):
    path, dense = graph
    options = ["--budget", 0.5, "--dims", "16,8", "--balance", balance, "--objective-effort"]
    options += ["fast", "--epsilon", 0.1, "--threads", 1, "--save", tmp_path]
    rows = run(path, tmp_path, *options, methods=",".join(OURS))
    assert list(rows) == list(OURS)
    for name, row in rows.items():
        assert row["failed"] == ""
        owner = np.loadtxt(tmp_path / f"tiny.{name}.part.{PARTS}", int)
        assert row["counts"] == expected(dense, owner)[0]
        assert min(trial["value"] for trial in row["tried"]) > 0
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["options"]["dims"] == [16, 8]


def test_best_gets_a_multiple_of_the_time_of_its_reference(graph, tmp_path, monkeypatch):
    path, _ = graph
    budgets = []

    def search(matrix, num_parts, options, *, loads):
        budgets.append(options.budget)
        owners = Owners(np.arange(matrix.num_vertices) % num_parts)
        return SimpleNamespace(owners=owners, warnings=[], tried=[])

    monkeypatch.setitem(sys.modules, "plancc.search", SimpleNamespace(search=search))
    monkeypatch.setattr("benchmarks.comparison.REFERENCE", "block")
    rows = run(path, tmp_path, methods="block,plancc-best")
    assert budgets[-1] == 5 * rows["block"]["seconds"]
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

    names = ("volume", "max_sent", "max_received", "busiest", "max_exchanged")
    names += ("messages", "max_messages")

    def row(graph, method, count, seconds):
        counts = dict.fromkeys(names, count)
        return Row(graph, 4, method, seconds, 0.0, counts, dict.fromkeys(names, 100))

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
    assert found["seconds"] == pytest.approx(0.25)


def test_report_has_something_to_measure_without_the_shared_graphs(tmp_path, monkeypatch):
    monkeypatch.setattr(quality, "SHARED", tmp_path / "none")
    monkeypatch.setattr(quality, "RIVALS", ("rp", "block"))
    monkeypatch.setattr(quality, "TARGETS", (("rcm", "block", {"volume": 5.0, "seconds": 1e9}),))
    report = quality.run(Inputs(tmp_path, quick=True))
    assert [figure.name for figure in report.figures] == [
        "p = 64: rcm / block: volume",
        "p = 64: rcm / block: seconds",
        "p = 64: plancc-best / best single method of a graph: volume, without 2 graphs",
        "  worst graph (none)",
    ]
    assert [figure.reached for figure in report.figures] == [True, True, None, False]
    assert "generated" in report.notes[0]
    assert len(json.loads((tmp_path / "quality.json").read_text())["rows"]) == 6
