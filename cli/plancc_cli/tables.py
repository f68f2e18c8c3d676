"""What tables, sentences and JSON on stdout are made of. Formats values; knows no plan."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Row
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


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A row of CSV: entries of mappings get names with dots; lists of mappings are left out.

    Numbers are in full; lists have commas between their entries; None is empty.
    """
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list | tuple):
            found[prefix + name] = _plain(value)
        elif not any(isinstance(each, Mapping | list | tuple) for each in value):
            found[prefix + name] = ",".join(str(_plain(each)) for each in value)
    return found


def _plain(value: Any) -> Any:
    """Truth values as JSON has them."""
    return str(value).lower() if isinstance(value, bool) else value


def rows_of(columns: Mapping[str, Any], number: str) -> list[dict[str, Any]]:
    """Rows of lists of the same length, which may stand in mappings; `number` names the rows."""
    lists: dict[str, Any] = {}

    def collect(entries: Mapping[str, Any], prefix: str) -> None:
        for name, value in entries.items():
            if isinstance(value, Mapping):
                collect(value, f"{prefix}{name}.")
            else:
                lists[prefix + name] = value

    collect(columns, "")
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
    """A cell of CSV: a text is printable, and begins with none of `FORMULAS` unless it is a number.

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


def print_table(table: Table | str, out: Console | None = None, boxed: bool | None = None) -> None:
    """Print a table within the width of the lines, as several where it is wider.

    Each of them repeats the labels of the rows, which are the columns up to the last that is flush
    left, or the first column. Figures are neither cut nor broken.

    Parameters:
        table: A sentence is printed where there is nothing to put into a table.
        out: What it is printed with.  [default: stdout]
        boxed: Whether lines are drawn.  [default: on a terminal]
    """
    out = out or console()
    if isinstance(table, str):
        say(table, out)
        return
    if boxed is None:
        boxed = sys.stdout.isatty()
    light = boxed and table.has_heads and not out.options.ascii_only
    out.print()
    if table.title:
        out.print(printable(table.title), style="italic")
    for place, columns in enumerate(_side_by_side(_printable_columns(table), out.width)):
        if place:
            out.print()
        one = Grid(
            box=box.SIMPLE_HEAD if light else None,
            padding=(0, GAP - 1 if light else GAP, 0, 0),
            show_header=table.has_heads,
            show_edge=False,
            pad_edge=False,
        )
        one.columns = [replace(column, _index=index) for index, column in enumerate(columns)]
        one.rows = [Row(end_section=row in table.breaks) for row in range(len(table.rows))]
        out.print(one)
    if table.caption:
        out.print()
        out.print(_lines(table.caption), style="dim")


def _printable_columns(table: Table) -> list[Column]:
    """The columns of a table, their cells printable."""
    return [
        Column(
            header=printable(name),
            justify=justify,
            style="" if table.has_heads or place else "bold",
            _cells=[printable(row[place]) for row in table.rows],
        )
        for place, (name, justify) in enumerate(zip(table.columns, table.justify, strict=True))
    ]


def _side_by_side(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns with their widths, for the number of tables that the width asks for."""
    left = [column.justify == "left" for column in columns]
    count = max((place for place, is_left in enumerate(left) if is_left), default=0) + 1
    labels, figures = columns[:count], columns[count:]
    if not figures:
        *labels, text = labels
        shown = [_wide(column) for column in labels]
        return [[*shown, _limited(_wide(text), width - _used(shown))]]
    wide = [_wide(column) for column in (*labels, *figures)]
    if _used(wide) - GAP <= width:
        return [wide]
    narrow = [_limited(_wide(column), _least(column, LABEL_WIDTH // count)) for column in labels]
    room = width - _used(narrow)
    shown = [_limited(_wide(column), min(_least(column), room)) for column in figures]
    groups: list[list[Column]] = [[]]
    for column in shown:
        if groups[-1] and _used([*groups[-1], column]) - GAP > room:
            groups.append([])
        groups[-1].append(column)
    return [[*_spread(labels, narrow, room - _used(group) + GAP), *group] for group in groups]


def _used(columns: Sequence[Column]) -> int:
    """Characters of columns, with the spaces after each."""
    return sum((column.width or 0) + GAP for column in columns)


def _wide(column: Column) -> Column:
    """A column as wide as its longest line, which is folded where it is made narrower."""
    width = max(map(cell_len, [str(column.header), *map(str, column.cells)]), default=1)
    return replace(column, width=max(width, 1), no_wrap=False, overflow="fold")


def _limited(column: Column, most: int) -> Column:
    return replace(column, width=max(1, min(column.width or 1, most)))


def _least(column: Column, of_cells: int | None = None) -> int:
    """Width that a column needs: that of its cells, or at least `of_cells`; no word is folded
    unless it is longer than `WORD_WIDTH`."""
    words = str(column.header).split()
    if of_cells is None:
        of_cells = max(map(cell_len, map(str, column.cells)), default=1)
    else:
        words += [word for cell in column.cells for word in str(cell).split()]
    return max(of_cells, min(WORD_WIDTH, max(map(cell_len, words), default=1)))


def _spread(labels: Sequence[Column], narrow: Sequence[Column], free: int) -> list[Column]:
    """Labels that take the characters that are left, the first of them first."""
    found = []
    for column, least in zip(labels, narrow, strict=True):
        shown = _limited(_wide(column), (least.width or 1) + free)
        free -= (shown.width or 1) - (least.width or 1)
        found.append(shown)
    return found


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
