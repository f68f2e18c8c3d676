"""Functions that print tables, sentences, JSON and CSV on stdout, and that format values."""

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
"""Characters of a line outside a terminal, if COLUMNS is not set."""
LABEL_WIDTH = 24
"""Least width in characters to which labels of rows are wrapped."""
WORD_WIDTH = 20
"""Width in characters from which one word of a header or a label, such as a path, is folded."""
GAP = 2
"""Spaces between two columns."""
FORMULAS = ("=", "+", "-", "@")
"""First characters of texts that spreadsheets take for formulas."""


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_data(form: str, value: Any, rows: Iterable[Mapping[str, Any]] | None = None) -> None:
    """Print `value` as "json", or `rows` as "csv"; without `rows`, `value` is the only row."""
    if form == "json":
        print_json(value)
    else:
        print_csv([value] if rows is None else list(rows))


def _entries(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield pairs (name, value) of nested mappings; dots join the names of all levels."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of CSV, without inner mappings: names of their entries are joined with dots.

    A list becomes a string with commas; a list of mappings or of lists is left out.
    """
    found: dict[str, Any] = {}
    for name, value in _entries(row):
        if not isinstance(value, list | tuple):
            found[name] = _plain(value)
        elif not any(isinstance(each, Mapping | list | tuple) for each in value):
            found[name] = ",".join(str(_plain(each)) for each in value)
    return found


def _plain(value: Any) -> Any:
    """Return "true" or "false" for a truth value, and any other value as it is."""
    return str(value).lower() if isinstance(value, bool) else value


def rows_of(columns: Mapping[str, Any], number: str) -> list[dict[str, Any]]:
    """Return a dict for every row of a table whose columns are lists of equal length.

    The added column `number` counts the rows from 0.
    """
    lists = dict(_entries(columns))
    rows = zip(*lists.values(), strict=True)
    return [{number: place} | dict(zip(lists, row, strict=True)) for place, row in enumerate(rows)]


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the names of the columns, then the rows as CSV (see `flat`)."""
    import csv

    rows = [flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    """Return a cell of CSV; an apostrophe precedes a string that begins like a formula."""
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
    """Return the number of characters per line.

    This is the environment variable COLUMNS, else the terminal's width, else `WIDTH`.
    """
    return shutil.get_terminal_size((WIDTH, 0)).columns


def line_width() -> int | None:
    """Return the width of a line: the environment's COLUMNS, else the terminal's; None: no limit.

    Pipes, files and the pseudo-terminals of Open MPI's ranks have no width.
    """
    if os.environ.get("COLUMNS", "").isdecimal():
        return screen_width()
    return shutil.get_terminal_size((0, 0)).columns or None if sys.stdout.isatty() else None


def console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console that writes to `file` (default: stdout).

    Lines have up to `width` characters (default: `screen_width()`).
    """
    return Console(
        file=file, highlight=False, markup=False, emoji=False, width=width or screen_width()
    )


def say(sentence: str, out: Console | None = None) -> None:
    """Print a sentence; lines are broken at `line_width()`, if the output has a width."""
    (out or console()).print(_lines(sentence), soft_wrap=line_width() is None)


def _lines(text: object) -> str:
    """Return a text with the unprintable characters of every line replaced."""
    return "\n".join(map(printable, str(text).split("\n")))


def print_table(table: Table | str) -> None:
    """Print a table, or a sentence; in a table that is too wide, labels and headings are wrapped.

    Figures are neither cut nor broken, so lines may become longer than the width.
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
    """Return a number and its noun, such as "1 rank" or "1,234 ranks"; `what` is the singular."""
    first, *rest = what.split(" ", 1)
    return " ".join([f"{number:,} {first}{'s' * (number != 1)}", *rest])


def number(value: float | None) -> str:
    """Format a number: 1234567 -> 1,234,567; 123.456 -> 123.5; 1.234 -> 1.23; 0.01234 -> 0.0123."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
    return f"{value:,.{decimals}f}"


def short(value: float, digits: int = 3) -> str:
    """Format a number with `digits` digits and k, M or G, for axes of charts: 1234567 -> 1.23 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.{digits}g} {unit}"
    return f"{value:.{digits}g}"


def size(num_bytes: float) -> str:
    """Format bytes with a binary unit: 1536 -> 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"


def duration(seconds: float) -> str:
    """Format seconds with a unit: 0.0012 -> 1.200 ms."""
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= length:
            return f"{four_digits(seconds / length)} {unit}"
    return f"{four_digits(seconds / 1e-6)} us"


def digits(value: float) -> str:
    """Format a number with three significant digits, or as a whole number: 0.0123, 1.23, 12,345."""
    if not value or abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def ratio(value: float, base: float) -> str:
    share = value / base if base else None
    if share is None:
        return "-"
    return f"{share:.1g}" if 0 < share < 0.005 else f"{share:.2f}"  # a small share is not 0.00


def amount(value: float | None) -> str:
    """Format an integer in full, and a float (seconds) with four digits; None -> "-"."""
    return four_digits(value) if isinstance(value, float) else number(value)


def objective_words(objective: str, value: float | None) -> str:
    """Format the value of an objective: seconds for "time", else rows or messages."""
    return duration(value) if objective == "time" and value is not None else amount(value)
