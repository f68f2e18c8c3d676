"""`plancc study`: tables, CSV, JSON, a figure."""

import csv
import gzip
import io
import math
import re
from pathlib import Path

import pytest
from cli_helpers import as_json, ok, plancc

from plancc_lab.study.study import Row, _Cases

pytestmark = pytest.mark.usefixtures("opened_once")

TWO_4_RP = ("two.mtx.gz", 4, "rp")
MODELS = ("--models", "hp,rp,cagnet-2d", "-p", "2,4", "--effort", "fast", "--baseline", "metis")


@pytest.fixture
def words(graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    monkeypatch.chdir(tmp_path)
    return ("study", graph, *MODELS)


def test_the_table(words: tuple[object, ...], tmp_path: Path) -> None:
    said = ok(*words)
    assert "graph.mtx: 90 vertices" in said
    assert said.count("cagnet-2d") == 3  # in the table, and why it has no plan of 2
    assert "geometric mean" not in said  # of one graph
    assert "-  graph.mtx, cagnet-2d, p = 2: 2 ranks are not a perfect square" in said
    assert len((tmp_path / "plancc-study.jsonl").read_text().splitlines()) == 7
    again = ok(*words)  # seconds too: all rows are kept
    assert again.startswith(said)
    assert "\n7 of 8 rows are from plancc-study.jsonl" in again


def test_csv_and_json(words: tuple[object, ...]) -> None:
    rows = list(csv.DictReader(io.StringIO(ok(*words, "--csv"))))
    found = as_json(*words)
    assert found["labels"] == ["hp", "rp", "cagnet-2d", "metis"]
    assert len(rows) == len(found["rows"]) == 8
    for line, row in zip(rows, found["rows"], strict=True):
        assert line["label"] == row["label"]
        if row["why"]:
            assert line["volume_ratio"] == ""
        else:
            assert float(line["volume"]) == row["volume"]
            assert float(line["volume_ratio"]) == row["volume_ratio"]


def test_chosen_columns(words: tuple[object, ...]) -> None:
    """In their order, with the figures and ratios of the rows; what is said of no other column."""
    rows = as_json(*words)["rows"]
    chosen = ("--table-columns", "label,max_volume,volume_ratio,volume,messages,messages_ratio")
    said = ok(*words, *chosen)
    assert (
        "volume and max_volume in rows; row plans balance nnz:0.1,rows; ratio: over metis" in said
    )
    title, heads, *lines = said.strip().splitlines()
    assert title.startswith("graph.mtx: 90 vertices")
    assert heads.split() == chosen[1].split(",")
    lines = [line for line in lines if line]
    for row, line in zip(rows, lines, strict=False):
        names = ("max_volume", "volume_ratio", "volume", "messages", "messages_ratio")
        values = ["-"] * 5 if row["why"] else [row[name] for name in names]
        shown = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
        assert line.split() == [row["label"], *shown]
    said = ok(*words, "--table-columns", "label,seed")
    assert said.splitlines()[2].split() == ["label", "seed"]
    assert "epoch" not in said
    assert "in rows" not in said


def test_means_over_seeds_and_graphs(words, graph, tmp_path):
    """Rows are means and sample deviations, by hand; geometric means close the table."""
    (tmp_path / "two.mtx.gz").write_bytes(gzip.compress(graph.read_bytes()))
    words = (*words, tmp_path / "two.mtx.gz", "--seeds", "1,2,3")
    rows = [row for row in as_json(*words)["rows"] if not row["why"]]
    chosen = ("--table-columns", "graph,parts,label,volume,volume_ratio,epoch_seconds_ratio")
    lines = [re.split(" {2,}", line.strip()) for line in ok(*words, *chosen).splitlines()]
    volumes = [r["volume"] for r in rows if (r["graph"], r["parts"], r["label"]) == TWO_4_RP]
    mean, base = sum(volumes) / 3, [r["volume"] for r in rows if r["label"] == "metis"]
    deviation = math.sqrt(sum((v - mean) ** 2 for v in volumes) / 2)
    places = 1 if mean >= 100 else 2
    (line,) = (line for line in lines if line[:3] == ["two.mtx.gz", "4", "rp"])
    assert line[3] == f"{mean:,.{places}f} ± {deviation:.{places}f}"
    assert len(base) == 12
    ratios = [r["volume_ratio"] for r in rows if (r["parts"], r["label"]) == TWO_4_RP[1:]]
    (line,) = (line for line in lines if line[:2] == ["4", "rp"] and len(line) == 4)
    assert line[2] == f"{math.prod(ratios) ** (1 / 6):.2f}"
    said = ok(*words, *chosen[:1], "label,seed,volume")
    assert "±" not in said
    assert "geometric mean of 2 graphs" in said
    assert "±" in ok(*words)


def test_a_figure(words: tuple[object, ...], tmp_path: Path) -> None:
    """Lines are named in a legend, bars of one number of parts below them; ticks are round."""
    pytest.importorskip("matplotlib")
    for number in ("2,4", "4"):
        ok(*words, "-p", number, "--plot", tmp_path / "study.svg", "--csv")
        text = (tmp_path / "study.svg").read_text()
        assert text.count("<svg") == 1
        shown = re.findall(r"<text[^>]*>([^<]+)</text>", text)
        panels = 2 if number == "4" else 1
        assert [shown.count(name) for name in ("hp", "rp", "metis")] == [panels, panels, 1]
        axes = re.split(r'<g id="axes_\d+">', text)[1:]
        for each in axes:
            across = re.split(r'<g id="matplotlib.axis_\d+">', each)[2]
            values = [float(v) for v in re.findall(r"<text[^>]*>([\d.]+)</text>", across)]
            step = f"{values[1] - values[0]:.4e}"
            assert float(step.partition("e")[0]) in (1, 2, 5)


def test_an_interruption_names_the_rows_once_there_are_some(words, tmp_path, monkeypatch):
    for rows in (0, 2):
        left = [rows]

        def row(self: _Cases, *case: object, row=_Cases.row, left=left) -> Row:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return row(self, *case)

        with monkeypatch.context() as patched:
            patched.setattr(_Cases, "row", row)
            ended = plancc(*words)
        assert ended.code == 1
        said = "plancc-study.jsonl was written before" if rows else "nothing was written"
        assert ended.error == f"interrupted; {said}"
        assert bool(list(tmp_path.glob("*.jsonl"))) == bool(rows)
