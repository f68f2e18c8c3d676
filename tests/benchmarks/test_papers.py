"""Claims of papers: the page is what the rows give, and items run on graphs of one's own."""

import json
import math
from collections import OrderedDict
from itertools import pairwise

import numpy as np
import pytest
from worlds import write_mtx

from benchmarks.inputs import name_of
from benchmarks.papers import ITEMS, PAGE, PAPERS, ROWS, items, main
from benchmarks.papers.cache_reuse import reuse
from benchmarks.papers.items import (
    NOT_HERE,
    REFUTED,
    REPRODUCED,
    SHAPE,
    VERDICTS,
    Bench,
    Claim,
    Finding,
    Item,
    Rows,
    Store,
    geometric_mean,
    least,
    most,
    number,
    points,
    verdict,
)
from benchmarks.papers.page import findings, page
from plancc.graph.canonical import build_graph


def test_the_page_is_made_of_the_rows():
    assert page(PAPERS, Store.read(ROWS)) == PAGE.read_text()


def test_every_claim_is_judged():
    store, claims = Store.read(ROWS), 0
    for paper in PAPERS:
        for item, claim, finding in findings(paper, store):
            claims += 1
            assert finding is not None, f"{item.name}: {claim.text}"
            assert finding.verdict in VERDICTS
            assert "nan" not in finding.here, f"{item.name}: {finding.here}"
            assert claim.published, claim.text
            assert claim.where.strip("-"), claim.text
    assert claims >= 74
    names = [item.name for paper in PAPERS for item in paper.items]
    assert len(names) == len(set(names))
    assert set(store.items) == set(ITEMS)


@pytest.mark.parametrize(
    ("published", "found", "judged"),
    [
        (number(0.47), [0.54], REPRODUCED),
        (number(0.47), [0.59], SHAPE),  # a factor of 1.25
        (number(0.98), [0.54], REFUTED),  # no effect is published, there is one
        (number(0.48), [0.996], REFUTED),  # there is none
        (number(0.37), [1.26], REFUTED),
        (number(12), [16, 29.2, 7.6, 71.3], SHAPE),  # of the right kind, none is near
        (number(12), [10, 14], REPRODUCED),
        (number(1.57, 3.03), [2.84, 7.21, 5.37], SHAPE),
        (number(3.1, 3.4), [3.1 / 1.25, 3.4 * 1.25], REPRODUCED),
        (number(3.1, 3.4), [1.64, 5.35, 5.01], SHAPE),
        (number(1.1, 1.3), [1.0], REFUTED),  # within the factor, but no speed-up
        (least(1), [1.32, 0.77, 1.17, 0.7], SHAPE),  # a half
        (least(1), [1.32, 0.77, 0.9, 0.7], REFUTED),
        (least(1), [1.32, 1.0], REPRODUCED),
        (most(0.05), [0.06], REFUTED),
        (points(-0.2, 0.27), [-0.5, 0.5], REPRODUCED),
        (points(0.06, 0.22), [-0.3, -0.2, -0.9, -1.3], SHAPE),
        (points(-3.47, -0.31), [-43.9], SHAPE),
        (points(0), [2.1], REFUTED),
    ],
)
def test_one_rule_judges(published, found, judged):
    assert verdict({"": published}, {"": found}) == judged


def test_every_figure_of_a_claim_is_held():
    both = {"HP": number(0.47), "GP": number(0.98)}
    claim = Claim("epoch", "Table 2", both, lambda rows: {"HP": 0.54, "GP": 0.54, "rows": 0.69})
    assert str(claim) == "HP 0.47; GP 0.98"
    finding = claim.finding(Rows([{}]))
    assert finding == Finding("HP 0.54; GP 0.54", REFUTED, "rows 0.69")
    with pytest.raises(KeyError):
        Claim("epoch", "Table 2", both, lambda rows: {"HP": 0.54}).finding(Rows([{}]))


def test_claims_that_no_figure_can_reproduce():
    exact = {"published": {"": number(2)}, "find": lambda rows: {"": {"g": 2.0}}}
    assert Claim("a", "b", **exact).finding(Rows([{}])) == Finding("g 2", REPRODUCED)
    assert Claim("a", "b", **exact, fitted=True).finding(Rows([{}])) == Finding("g 2", SHAPE)
    missing = Claim("a", "b", **exact, missing="no GPUs").finding(Rows([{}]))
    assert missing == Finding("no GPUs; g 2", NOT_HERE)
    assert Claim("a", "b", {"": number(2)}, missing="no GPUs").finding(Rows()).here == "no GPUs"


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
    assert "Libra's imbalance" in said
    kept = json.loads(rows.read_text())["replication-factors"]["rows"]
    assert [row["p"] for row in kept] == [2, 4, 8]
    assert all(1 <= row["replication factor"] <= row["p"] for row in kept)
    assert papers(*words) == 0
    assert "graph ring.of.40, p " not in capsys.readouterr().out  # nothing is measured again
    assert papers(*words, "--again") == 0
    assert capsys.readouterr().out.count("graph ring.of.40, p ") == 3
    assert papers("--page", tmp_path / "page.md", "--rows", rows) == 0
    assert "measured by plancc" in (tmp_path / "page.md").read_text()


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


def test_graphs_that_are_missing_are_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(items, "SHARED", tmp_path)
    (tmp_path / "dblp-2010.mtx.gz").touch()
    for words in ([], ["blocking", "few-epochs"]):
        with pytest.raises(SystemExit) as stop:
            papers(*words, "--rows", tmp_path / "rows.json")
        assert stop.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"error: {tmp_path} has no " in err
        assert "fb100-Cornell5.mtx.gz" in err
        assert "Cora.mtx.gz" in err
        assert "dblp-2010" not in err
        assert err.count("soc-Slashdot0902.mtx.gz") == 1
        assert err.count("\n") == 1
        assert "--graphs" in err
    assert not (tmp_path / "rows.json").exists()


def test_rows_are_judged_only_where_they_are_enough(tmp_path):
    claim = Claim(
        "faster",
        "Table 1",
        {"": number(0.7)},
        lambda rows: {"": rows.ratios("s", {"way": "new"}, {"way": "old"})},
    )
    item = Item("one", "here", [claim], lambda bench: None)
    store = Store(tmp_path / "rows.json")
    assert claim.finding(store.rows("one")) is None
    bench = Bench(item, store, report=lambda line: None)
    bench.row({"graph": "g", "way": "old"}, lambda: {"s": 4.0})
    assert claim.finding(store.rows("one")) is None
    bench.row({"graph": "g", "way": "new"}, lambda: {"s": 3.0})
    assert claim.finding(store.rows("one")) == Finding("g 0.75", REPRODUCED)
    assert Store.read(store.path).items == store.items
    assert Rows([{"p": 1}, {"p": 2}]).values("p") == [1, 2]
    rows = [{"graph": "g", "p": p, "way": way, "s": p + way} for p in (1, 2) for way in (0, 1)]
    ratios = Rows(rows).ratios("s", {"way": 1}, {"way": 0}, "graph", "p")
    assert ratios == {"g, 1": 2.0, "g, 2": 1.5}
    assert math.isnan(geometric_mean([]))


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("capacity", [2, 5, 100])
def test_reuse_in_a_cache(blocks, capacity):
    ends = np.random.default_rng(3).integers(30, size=(2, 200))
    graph = build_graph(30, *ends)
    bounds = np.linspace(0, 30, blocks + 1).astype(int)
    held: OrderedDict[tuple[str, int], None] = OrderedDict()
    loads = 0
    for low, high in pairwise(bounds):
        for row in range(30):
            for column in graph.indices[graph.indptr[row] : graph.indptr[row + 1]]:
                for name in [("out", row), ("in", int(column))] if low <= column < high else []:
                    loads += name not in held
                    held[name] = None
                    held.move_to_end(name)
                    if len(held) > capacity:
                        held.popitem(last=False)
    assert reuse(graph, blocks, capacity) == graph.num_nonzeros / loads


@pytest.mark.parametrize(
    ("path", "name"),
    [("USA-road.NY.mtx.gz", "USA-road.NY"), ("a.b", "a.b"), ("folder", "folder"), ("x.txt", "x")],
)
def test_names_of_graphs(path, name, tmp_path):
    assert name_of(tmp_path / path) == name
