"""What tables, sentences and JSON on stdout are made of. Formats values; knows no plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 110
"""Width of tables that do not go to a terminal."""
MARKS = ("best", "chosen")
"""Columns of marks, which are centred."""


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows with the same keys as CSV, the keys first; numbers in full."""
    import csv

    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def console() -> Console:
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDTH)


def say(sentence: str) -> None:
    """Print a sentence without line breaks of its own."""
    console().print(sentence, soft_wrap=True)


def count_of(number: int, what: str) -> str:
    """Such as "1 rank" and "1,234 ranks"; `what` is of one."""
    first, *rest = what.split(" ", 1)
    return " ".join([f"{number:,} {first}{'s' * (number != 1)}", *rest])


def table_of(
    columns: Iterable[str], title: str = "", caption: str = "", left: int = 1, **every: Any
) -> Table:
    """An empty table whose first `left` columns are flush left; `every`: options of all columns."""
    table = Table(title=title or None, title_justify="left")
    for place, name in enumerate(columns):
        right: Any = "center" if name in MARKS else "right"
        table.add_column(name, justify="left" if place < left else right, **every)
    add_caption(table, caption)
    return table


def add_caption(table: Table, caption: str) -> None:
    """Set the caption of a table, unless it is empty."""
    if caption:
        table.caption, table.caption_justify = caption, "left"


def number(value: float | None) -> str:
    """1234567 -> 1,234,567; 0.01234 -> 0.0123."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4f}"


def size(num_bytes: float) -> str:
    """Bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"


def duration(seconds: float) -> str:
    """Seconds with a unit: 0.00123 -> 1.23 ms."""
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= length:
            return f"{seconds / length:.4g} {unit}" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{seconds / 1e-6:.4g} us"


def digits(value: float) -> str:
    """Three significant ones, all before the point: 0.0123, 1.23, 12,345."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def ratio(value: float, base: float) -> str:
    return f"{value / base:.3f}" if base else "-"


def amount(value: float | None) -> str:
    """Rows or messages as they are; seconds in four digits, however few they are."""
    return f"{value:.4g}" if isinstance(value, float) else number(value)


def objective_words(objective: str, value: float | None) -> str:
    """What an objective reached: seconds for "time", rows or messages else."""
    return duration(value) if objective == "time" and value is not None else amount(value)
