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
