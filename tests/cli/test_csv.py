"""`--csv` holds the figures of `--json`, in flat rows."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import as_json, ok

pytestmark = pytest.mark.usefixtures("opened_once")


def rows(*words: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(ok(*words, "--csv", warned=True))))


def at(value: Any, name: str) -> Any:
    """The entry of a JSON value that a column's name with dots stands for."""
    for key in name.split("."):
        value = value[key]
    return value


def text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def assert_row(row: dict[str, str], value: dict[str, Any]) -> None:
    assert len(row) > 2
    for name, cell in row.items():
        assert cell == text(at(value, name)), name


def leaves(value: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, each in value.items():
        if isinstance(each, dict):
            yield from leaves(each, f"{prefix}{name}.")
        elif isinstance(each, int | float | str):
            yield prefix + name


def test_a_row_of_a_plan(plan: Path) -> None:
    words = ("inspect", plan, "--dims", "5,16,4")
    shown = as_json(*words)
    [row] = rows(*words)
    assert_row(row, shown)
    assert set(leaves(shown)) <= set(row)
    per_part = rows("inspect", plan, "--per-part")
    parts = as_json("inspect", plan, "--per-part")["parts"]
    assert [row.pop("part") for row in per_part] == [str(part) for part in range(7)]
    for part, row in enumerate(per_part):
        assert row == {name: str(column[part]) for name, column in parts.items()}


def test_a_row_for_every_plan_of_a_comparison(plan: Path) -> None:
    words = ("compare", plan, plan)
    for row, shown in zip(rows(*words), as_json(*words), strict=True):
        assert_row(row, shown)


def test_a_row_of_what_is_made(graph: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    [row] = rows("compile", graph, "-p", 4, "--model", "rp", "-o", plan)
    shown = as_json("inspect", plan)
    assert (row["output"], row["content_sha256"]) == (str(plan), shown["content_sha256"])
    assert row["metrics.volume"] == str(shown["metrics"]["volume"])
    [row] = rows("refine", plan, "-o", tmp_path / "better.h5")
    assert row["metrics.before.volume"] == str(shown["metrics"]["volume"])
    [row] = rows("verify", plan)
    assert row["valid"] == "true"


def test_predictions(graph: Path, plan: Path) -> None:
    [row] = rows("simulate", plan)
    assert_row(row, as_json("simulate", plan))
    ranks = as_json("simulate", plan, "--per-rank")["ranks"]
    for rank, row in enumerate(rows("simulate", plan, "--per-rank")):
        assert row.pop("rank") == str(rank)
        assert all(cell == str(at(ranks, name)[rank]) for name, cell in row.items())
    words = ("simulate", graph, "--sweep", "p=2,4", "--models", "rp,cagnet-1d")
    cells = as_json(*words)["cells"]
    for row, cell in zip(rows(*words), cells, strict=True):
        assert (row["name"], row["vertices"]) == ("graph.mtx", "90")
        for name in ("label", "num_ranks", "communication", "speedup"):
            assert row[name] == text(cell[name])


def test_rehearsals(plan: Path) -> None:
    [row] = rows("rehearse", plan, "--epochs", 1, "--hidden", 4)
    assert row["num_ranks"] == "7"
    assert float(row["seconds"]) > 0
    per_rank = rows("rehearse", plan, "--epochs", 1, "--hidden", 4, "--per-rank")
    assert [row["rank"] for row in per_rank] == [str(rank) for rank in range(7)]


@pytest.mark.parametrize("what", ["models", "partitioners", "samplers", "machines", "objectives"])
def test_listings(what: str) -> None:
    shown = as_json(what)
    found = rows(what)
    assert [row["name"] for row in found] == list(shown)
    for row in found:
        assert row["what"] == shown[row["name"]]["what"]


def test_accelerators() -> None:
    found = rows("accelerators", "--dataset", "reddit")
    [graph] = as_json("accelerators", "--dataset", "reddit")["graphs"]
    assert [row["machine"] for row in found] == [each["machine"] for each in graph["machines"]]
    assert {row["nonzeros"] for row in found} == {text(graph["nonzeros"])}
