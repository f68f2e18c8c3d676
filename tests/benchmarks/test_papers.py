"""Claims of papers: the page is what the rows give, and items run on graphs of one's own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from worlds import write_mtx

from benchmarks.inputs import name_of
from benchmarks.papers import ITEMS, PAGE, PAPERS, ROWS, main
from benchmarks.papers.items import (
    REFUTED,
    REPRODUCED,
    VERDICTS,
    Bench,
    Claim,
    Finding,
    Item,
    Rows,
    Store,
    TooFewRows,
    geometric_mean,
    listed,
)
from benchmarks.papers.page import findings, page


def test_the_page_is_made_of_the_rows():
    assert page(PAPERS, Store.read(ROWS)) == PAGE.read_text()


def test_every_claim_is_judged():
    store = Store.read(ROWS)
    for paper in PAPERS:
        for item, claim, finding in findings(paper, store):
            assert finding is not None, f"{item.name}: {claim.text}"
            assert finding.verdict in VERDICTS
            assert "nan" not in finding.here, f"{item.name}: {finding.here}"
    names = [item.name for paper in PAPERS for item in paper.items]
    assert len(names) == len(set(names))
    assert set(store.items) == set(ITEMS)


@pytest.fixture
def graph(tmp_path):
    eye = np.eye(40, dtype=bool)
    ring = np.roll(eye, 1, axis=1) | np.roll(eye, 2, axis=1)
    return write_mtx(tmp_path / "ring.of.40.mtx", ring)


def papers(*words: object) -> int:
    return main([str(word) for word in words])


def test_an_item_goes_on_where_it_ended(graph, tmp_path, capsys):
    rows = tmp_path / "mine.json"
    words = ["replication-factors", "--graphs", graph, "--rows", rows, "--quick"]
    assert papers(*words) == 0
    said = capsys.readouterr().out
    assert said.count("graph ring.of.40, p ") == 3
    assert "Libra balances edges" in said
    kept = json.loads(rows.read_text())["replication-factors"]["rows"]
    assert [row["p"] for row in kept] == [2, 4, 8]
    assert all(1 <= row["replication factor"] <= row["p"] for row in kept)
    assert papers(*words) == 0
    assert "graph ring.of.40, p " not in capsys.readouterr().out  # nothing is measured again
    assert papers(*words, "--again") == 0
    assert capsys.readouterr().out.count("graph ring.of.40, p ") == 3
    assert papers("--page", tmp_path / "page.md", "--rows", rows) == 0
    assert "| ring.of.40 | 2 |" in (tmp_path / "page.md").read_text()


def test_what_cannot_be_measured(graph, tmp_path, capsys):
    rows = ("--rows", tmp_path / "rows.json")
    for words, said in (
        (["nothing"], "unknown item 'nothing'"),
        (["few-epochs", "--graphs", tmp_path / "no.mtx", *rows], "there is no"),
        (["few-epochs", "--graphs", graph], "--graphs: give --rows FILE too"),
        (["few-epochs", "--quick"], "--quick: give --rows FILE too"),
        (
            ["few-epochs", "--rows", tmp_path / "no" / "rows.json"],
            "rows.json: there is no such folder",
        ),
        (["--page", tmp_path / "no" / "page.md"], "page.md: there is no such folder"),
        (["few-epochs", "--graphs", graph, *rows], "needs ring.of.40.npz with features and labels"),
    ):
        with pytest.raises(SystemExit) as stop:
            papers(*words)
        assert stop.value.code == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "rows.json").exists()


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"one": 3}', '{"one": {"machine": "", "rows": [1]}}']
)
def test_files_that_are_no_rows(text, tmp_path, capsys):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(SystemExit) as stop:
        papers("few-epochs", "--rows", tmp_path / "rows.json")
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("rows.json: not a file of rows") == 1
    assert (tmp_path / "rows.json").read_text() == text


def test_rows_are_judged_only_where_they_are_enough(tmp_path):
    def judge(rows):
        found = rows.ratios("s", {"way": "new"}, {"way": "old"})
        return Finding(
            listed(found), REPRODUCED if geometric_mean([*found.values()]) < 1 else REFUTED
        )

    claim = Claim("faster", "Table 1", "0.5", judge)
    item = Item("one", "here", [claim], lambda bench: None)
    store = Store(tmp_path / "rows.json")
    assert claim.finding(store.rows("one")) is None
    bench = Bench(item, store, report=lambda line: None)
    bench.row({"graph": "g", "way": "old"}, lambda: {"s": 4.0})
    assert claim.finding(store.rows("one")) is None
    bench.row({"graph": "g", "way": "new"}, lambda: {"s": 3.0})
    assert claim.finding(store.rows("one")) == Finding("g 0.75", REPRODUCED)
    assert Store.read(store.path).items == store.items
    with pytest.raises(TooFewRows):
        listed({"a": float("nan")})
    assert Rows([{"p": 1}, {"p": 2}]).values("p") == [1, 2]


@pytest.mark.parametrize(
    ("path", "name"),
    [("USA-road.NY.mtx.gz", "USA-road.NY"), ("a.b", "a.b"), ("folder", "folder"), ("x.txt", "x")],
)
def test_names_of_graphs(path, name, tmp_path):
    assert name_of(tmp_path / path) == name
