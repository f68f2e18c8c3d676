"""`inspect`, `compare`, `verify`, `export` and `refine` of an edge plan."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import worlds
from cli_helpers import as_json, fails, ok
from test_inspect import assert_shown, table

from plancc_cli.render_figures import FIGURES

pytestmark = pytest.mark.usefixtures("opened_once")

PARTS = 5


@pytest.fixture(scope="module")
def edges(tmp_path_factory) -> tuple[Path, np.ndarray, dict[tuple[int, int], int]]:
    """An edge plan of the graph, with the owners of rows and of every nonzero."""
    path = tmp_path_factory.mktemp("edges") / "edges.h5"
    worlds.plan("hubs", "edge", PARTS).save(path)
    matrix, owner = worlds.graph("hubs"), worlds.owners(90, PARTS)
    held = worlds.nonzero_owners(matrix, owner, PARTS).tolist()
    return path, owner, dict(zip(worlds.places(matrix), held, strict=True))


def test_inspect_tables_and_json_hold_the_same(edges) -> None:
    path, owner, of_pair = edges
    words = ["inspect", path, "-v", "--dims", "7,3,5", "--per-part"]
    text, shown = ok(*words), as_json(*words)
    assert f"{PARTS} parts of an edge plan" in text
    expand = {(of_pair[i, j], j) for i, j in of_pair if of_pair[i, j] != owner[j]}
    fold = {(of_pair[i, j], i) for i, j in of_pair if of_pair[i, j] != owner[i]}
    metrics = shown["metrics"]
    assert metrics["expand_volume"] == len(expand)
    assert metrics["fold_volume"] == len(fold)
    assert metrics["volume"] == len(expand) + len(fold)
    assert metrics["expand_messages"] == len({(owner[j], m) for m, j in expand})
    assert metrics["fold_messages"] == len({(m, owner[i]) for m, i in fold})
    copies = expand | fold | {(m, i) for i, m in enumerate(owner.tolist())}
    assert metrics["replication_factor"] == pytest.approx(len(copies) / 90)
    rows = table(text, "communication and balance")
    assert [row[0] for row in rows] == [words.strip() for _, words in FIGURES]
    for row, (name, _) in zip(rows, FIGURES, strict=True):
        assert_shown(row[1], metrics[name])
        assert_shown(row[2], shown["random"][name])
    rows = table(text, "per part")
    for part, row in enumerate(rows):
        assert row[-2] == str(sum(m == part for m, _ in fold))
        assert row[-1] == str(sum(m == part for m, _ in copies))
    assert [cost["passes"] for cost in shown["training"]["passes"]][-1] == ["order", "constant"]
    assert "dead-rows is for row" in " ".join(text.split())


def test_compare_with_a_row_plan(edges, tmp_path: Path, monkeypatch) -> None:
    path, plan = edges[0], tmp_path / "row.h5"
    worlds.plan("hubs").save(plan)
    both = as_json("compare", path, plan)
    assert [each["header"]["layout"] for each in both] == ["edge", "row"]
    monkeypatch.setenv("COLUMNS", "600")
    text = ok("compare", path, plan)
    rows = {row[0]: row[1:] for row in table(text, "figure (ratio to an even random partition)")}
    fold = f"{both[0]['metrics']['fold_volume']:,}"
    assert rows["by the fold"] == [f"{fold} (-)", "0 (-)"]
    assert "by the fold" not in ok("compare", plan, plan)
    assert "by the fold" not in ok("inspect", "-v", plan)


def test_verify_against_the_graph(edges, graph: Path) -> None:
    assert "every folded row has a nonzero" in ok("verify", edges[0], "--against", graph)


def test_export(edges, tmp_path: Path) -> None:
    path, owner, of_pair = edges
    ok("export", path, "-o", tmp_path / "graph.part.5")
    assert np.loadtxt(tmp_path / "graph.part.5", dtype=int).tolist() == owner.tolist()
    ok("export", path, "-o", tmp_path / "graph.part.mtx")
    found = scipy.io.mmread(tmp_path / "graph.part.mtx").tocoo()
    entries = zip(found.row.tolist(), found.col.tolist(), found.data.tolist(), strict=True)
    assert {(i, j): part - 1 for i, j, part in entries} == of_pair


def test_what_is_for_row_plans_is_refused(edges, tmp_path: Path) -> None:
    path = edges[0]
    for words in (["--batches", 3], ["--dims", "7,5"]):
        more = ["--boundary-sampling", "0.5"] if words[0] == "--dims" else []
        assert "for row plans" in fails(tmp_path, "inspect", path, *words, *more)
    words = fails(tmp_path, "refine", path, "-o", tmp_path / "better.h5")
    assert "this is an edge plan: compile it again" in words
