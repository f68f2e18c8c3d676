"""What tables, sentences and JSON on stdout are made of. Formats values; knows no plan."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid

from plancc.report.table import Table
from plancc.text import four_digits, printable

WIDTH = 110
"""Width of what does not go to a terminal, unless COLUMNS says it."""
LABEL_WIDTH = 24
"""Width down to which labels of rows may be wrapped."""
WORD_WIDTH = 20
"""Width from which a word of a header or a label is folded, such as a path."""
GAP = 2
"""Spaces between two columns."""
FORMULAS = ("=", "+", "-", "@")
"""How a text begins that spreadsheets compute."""


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_data(form: str, value: Any, rows: Iterable[Mapping[str, Any]] | None = None) -> None:
    """Print a value as JSON, or as CSV: its rows, or itself as the only one."""
    if form == "json":
        print_json(value)
    else:
        print_csv([value] if rows is None else list(rows))


def _entries(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values; entries of inner mappings have names with dots."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of CSV: entries of mappings get names with dots; lists of mappings are left out.

    Numbers are in full; lists have commas between their entries; None is empty.
    """
    found: dict[str, Any] = {}
    for name, value in _entries(row):
        if not isinstance(value, list | tuple):
            found[name] = _plain(value)
        elif not any(isinstance(each, Mapping | list | tuple) for each in value):
            found[name] = ",".join(str(_plain(each)) for each in value)
    return found


def _plain(value: Any) -> Any:
    """Truth values as JSON has them."""
    return str(value).lower() if isinstance(value, bool) else value


def rows_of(columns: Mapping[str, Any], number: str) -> list[dict[str, Any]]:
    """Rows of lists of the same length, which may stand in mappings; `number` names the rows."""
    lists = dict(_entries(columns))
    rows = zip(*lists.values(), strict=True)
    return [{number: place} | dict(zip(lists, row, strict=True)) for place, row in enumerate(rows)]


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as CSV (see `flat`), the names of the columns first."""
    import csv

    rows = [flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    """A cell of CSV: printable text, which begins like a formula only if it is a number.

    Spreadsheets take such a text for a formula; an apostrophe before it makes it a text.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    if len(text) > 1 and text.startswith(FORMULAS):
        try:
            float(text)
        except ValueError:
            return f"'{text}"
    return text


def screen_width() -> int:
    """Characters of a line: COLUMNS, else the terminal's, else `WIDTH`."""
    return shutil.get_terminal_size((WIDTH, 0)).columns


def line_width() -> int | None:
    """Characters of a line that are to be kept: COLUMNS, else the terminal's.

    None for what has no width: a pipe, a file, the terminal that Open MPI puts before either.
    """
    if os.environ.get("COLUMNS", "").isdecimal():
        return screen_width()
    return shutil.get_terminal_size((0, 0)).columns or None if sys.stdout.isatty() else None


def console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """What writes to a file, stdout unless told otherwise, in lines of `screen_width()`."""
    return Console(
        file=file, highlight=False, markup=False, emoji=False, width=width or screen_width()
    )


def say(sentence: str, out: Console | None = None) -> None:
    """Print a sentence; its lines are broken where there is a width to keep, not in a pipe."""
    (out or console()).print(_lines(sentence), soft_wrap=line_width() is None)


def _lines(text: object) -> str:
    """The text with its own lines, each of them printable."""
    return "\n".join(map(printable, str(text).split("\n")))


def print_table(table: Table | str) -> None:
    """Print a table; labels and heads are folded where it is wider than the lines.

    Figures are neither cut nor broken: lines may be longer than the width.

    Parameters:
        table: A sentence is printed where there is nothing to put into a table.
    """
    if isinstance(table, str):
        say(table)
        return
    out = console()
    out.print()
    if table.title:
        out.print(printable(table.title), style="italic")
    shown = Grid(
        box=None,
        padding=(0, GAP, 0, 0),
        show_header=table.has_heads,
        show_edge=False,
        pad_edge=False,
    )
    labels, wanted = table.justify.count("left"), -GAP
    for place, (head, justify) in enumerate(zip(table.columns, table.justify, strict=True)):
        widest = max((cell_len(printable(row[place])) for row in table.rows), default=1)
        word = max(map(cell_len, head.split()), default=1)
        least = max(widest, min(word, WORD_WIDTH))
        if justify == "left":
            least = min(least, LABEL_WIDTH // labels)
        wanted += least + GAP
        shown.add_column(
            printable(head),
            justify=justify,
            style="" if table.has_heads or place else "bold",
            min_width=least,
            no_wrap=justify != "left" and cell_len(head) <= least,
            overflow="fold",
        )
    for row in table.rows:
        shown.add_row(*map(printable, row))
    if wanted > out.width:  # else rich leaves columns out
        shown.width = wanted
    out.print(shown, crop=False)
    if table.caption:
        out.print()
        out.print(_lines(table.caption), style="dim")


def count_of(number: int, what: str) -> str:
    """Such as "1 rank" and "1,234 ranks"; `what` is of one."""
    first, *rest = what.split(" ", 1)
    return " ".join([f"{number:,} {first}{'s' * (number != 1)}", *rest])


def number(value: float | None) -> str:
    """1234567 -> 1,234,567; 123.456 -> 123.5; 1.23456 -> 1.23; 0.01234 -> 0.0123."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
    return f"{value:,.{decimals}f}"


def short(value: float, digits: int = 3) -> str:
    """1234567 -> 1.23 M, for ticks."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.{digits}g} {unit}"
    return f"{value:.{digits}g}"


def size(num_bytes: float) -> str:
    """Bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"


def duration(seconds: float) -> str:
    """Seconds with a unit: 0.0012 -> 1.200 ms."""
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= length:
            return f"{four_digits(seconds / length)} {unit}"
    return f"{four_digits(seconds / 1e-6)} us"


def digits(value: float) -> str:
    """Three significant ones, all before the point: 0.0123, 1.23, 12,345."""
    if not value or abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def ratio(value: float, base: float) -> str:
    share = value / base if base else None
    if share is None:
        return "-"
    return f"{share:.1g}" if 0 < share < 0.005 else f"{share:.2f}"  # few are not none


def amount(value: float | None) -> str:
    """Rows or messages as they are; seconds in four digits, however few they are."""
    return four_digits(value) if isinstance(value, float) else number(value)


def objective_words(objective: str, value: float | None) -> str:
    """What an objective reached: seconds for "time", rows or messages else."""
    return duration(value) if objective == "time" and value is not None else amount(value)
