"""Tables fold labels to the width of the lines, and show every figure whole."""

import re
from pathlib import Path

import pytest
from cli_helpers import as_json, ok

from plancc.report.table import Table
from plancc_cli.tables import console, duration, print_table, say

pytestmark = pytest.mark.usefixtures("opened_once")


@pytest.fixture(scope="module")
def commands(plan: Path) -> dict[str, tuple[object, ...]]:
    name, others = plan.name, [plan.name] * 4
    return {
        "inspect": ("inspect", name, "--dims", "5,16,4", "--per-part"),
        "compare": ("compare", *others, "--dims", "5,16,4", "--batches", 5,
                    "--batch-size", 20),
        "simulate": ("simulate", name, "--per-rank", "--dims", "5,16,4"),
        "sweep": ("simulate", "--sweep", "p=2..64", "--models", "rp,cagnet-1d",
                  "--vertices", 10**7, "--nonzeros", 10**8, "--dims", "602,128,41"),
        "accelerators": ("accelerators",),
    }  # fmt: skip


def figures(text: str) -> set[str]:
    """All numbers, and the units that follow them."""
    return set(re.findall(r"(?<![\w.])[\d][\d,.]*[%*]?", text))


@pytest.mark.parametrize("name", ["inspect", "compare", "simulate", "sweep", "accelerators"])
def test_figures_are_whole_whatever_the_width(name, commands, plan, monkeypatch):
    monkeypatch.chdir(plan.parent)
    monkeypatch.setenv("COLUMNS", "1000")
    expected = {figure for figure in figures(ok(*commands[name])) if len(figure) <= 20}
    for width in (60, 110):
        monkeypatch.setenv("COLUMNS", str(width))
        text = ok(*commands[name])
        assert name != "inspect" or max(map(len, text.splitlines())) <= width
        assert "…" not in text
        assert expected <= figures(text), width


def printed(table_width: int, capsys: pytest.CaptureFixture[str], monkeypatch, table) -> str:
    monkeypatch.setenv("COLUMNS", str(table_width))
    print_table(table)
    return capsys.readouterr().out


def test_a_wide_table_has_long_lines(capsys, monkeypatch) -> None:
    table = Table(("", *(f"column {k}" for k in range(9))), caption="the caption")
    for row in range(3):
        table.add_row(f"row {row}", *(f"{10**9 * (row + 1) + k:,}" for k in range(9)))
    heads, *rows, _, caption = printed(60, capsys, monkeypatch, table).strip().splitlines()
    assert heads.split("  ")[0] == "column 0"
    assert rows[0].split() == ["row", "0", *(f"{10**9 + k:,}" for k in range(9))]
    assert len(rows) == 3
    assert caption == "the caption"


def test_long_labels_and_headers_are_folded_and_nothing_is_markup(capsys, monkeypatch) -> None:
    path = "/a/very/long/path/" + 8 * "folder/" + "[red]plan:smile:.h5"
    table = Table(("", path, "figure"))
    table.add_row(path, "1,234,567,890,123", "2")
    text = printed(60, capsys, monkeypatch, table)
    assert max(map(len, text.splitlines())) <= 60
    assert "1,234,567,890,123" in text
    label = "".join(line[:38].split("  ")[0] for line in text.splitlines() if line[:1].strip())
    assert path in label.replace(" ", "")


def test_the_width_is_columns_else_the_terminals(monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width == 110
    monkeypatch.setenv("COLUMNS", "73")
    assert console().width == 73


def test_a_sentence_in_a_pipe_is_one_line(graph: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = ok("compile", graph, "-p", 4, "--model", "rp", "-o", tmp_path / "plan.h5")
    assert sum(line.startswith("predicted epoch") for line in text.splitlines()) == 1
    shown = as_json("inspect", tmp_path / "plan.h5")
    assert text.splitlines()[-1] == f"content {shown['content_sha256']}"


def test_text_from_outside_is_printable(capsys):
    from plancc_cli.tables import print_csv, print_json

    table = Table(("name", "what"), "title \x1b[2J", "caption \x07", left=2)
    table.add_row("a\x1b[31m", "\u202eb")
    print_table(table)
    say("sentence \x9b2J")
    print_csv([{"name": "a\x1b[31m", "formula": "=1+1", "number": "-2.5", "value": -3}])
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.splitlines())
    assert shown.splitlines()[-1] == "a\ufffd[31m,'=1+1,-2.5,-3"
    print_json({"name": "a\x1b"})
    assert "\\u001b" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (1.2e-3, "1.200 ms"),
        (1.2645e-3, "1.264 ms"),
        (0.03, "30.00 ms"),
        (0.25, "250.0 ms"),
        (5, "5.000 s"),
        (1234.5, "1,234 s"),
        (0, "0 us"),
    ],
)
def test_times_that_are_compared_have_as_many_digits(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
