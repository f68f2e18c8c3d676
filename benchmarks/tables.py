"""How a comparison is shown: rows as they are finished, tables of means, Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.comparison import (
    COUNTS,
    LEGEND,
    Comparison,
    Row,
    mean_over_method,
    mean_over_random,
)

CELL = ("volume", "busiest", "messages")
"""Counts in a cell of the Markdown table of all graphs; imbalance and seconds follow them."""

_NAME, _WIDTH = 20, 10
_HEAD = ["seconds", *COUNTS.values(), "imbalance"]


class RowPrinter:
    """Prints a line per row, and a heading where graph or number of parts change."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.shown: tuple[str, int] | None = None

    def __call__(self, row: Row) -> None:
        if self.shown != (row.graph, row.num_parts):
            self.shown = row.graph, row.num_parts
            self._print(f"\n{row.graph}, p = {row.num_parts}", style="bold")
            self._print(_line("method, over random", _HEAD), style="dim")
        if row.failed:
            self._print(f"{row.method:<{_NAME}}  {row.failed}", style="yellow")
            return
        ratios = [_digits(row.over_random[name]) for name in COUNTS]
        self._print(_line(row.method, [_seconds(row.seconds), *ratios, _digits(row.imbalance)]))

    def _print(self, text: str, style: str = "") -> None:
        self.console.print(text, style=style, soft_wrap=True, markup=False, highlight=False)


@dataclass
class Table:
    """A title, the heads of the columns, rows of text; the first `left` columns are names."""

    title: str
    head: list[str]
    left: int = 1
    rows: list[list[str]] = field(default_factory=list)

    def show(self, console: Console) -> None:
        table = RichTable(
            title=self.title,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for column, name in enumerate(self.head):
            table.add_column(name, justify="left" if column < self.left else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)

    def markdown(self) -> str:
        rule = ["---"] * self.left + ["--:"] * (len(self.head) - self.left)
        lines = [f"| {' | '.join(row)} |" for row in (self.head, rule, *self.rows)]
        return "\n".join([self.title + ":", "", *lines])


def summaries(table: Comparison, reference: str | None) -> Iterator[Table]:
    """Means over random and, with a `reference`, over that method, per number of parts."""
    for num_parts in table.parts():
        of_random = Table(
            f"Geometric means over random, p = {num_parts}",
            ["method", "graphs", "seconds", *COUNTS.values(), "worst imb."],
        )
        for method in table.methods():
            rows = table.select(num_parts, method)
            if rows:
                means = mean_over_random(rows)
                ratios = [_digits(means[name], 4) for name in COUNTS]
                worst = _digits(max(row.imbalance or 0.0 for row in rows))
                cells = [str(len(rows)), _seconds(means["seconds"]), *ratios, worst]
                of_random.rows.append([method, *cells])
        yield of_random

        if reference is None or not table.select(num_parts, reference):
            continue
        of_method = Table(
            f"Geometric means of the ratios to {reference}, p = {num_parts}",
            ["method", "graphs", "seconds", *COUNTS.values()],
        )
        for method in table.methods():
            found = mean_over_method(table, table.select(num_parts, method), reference)
            if found["graphs"]:
                ratios = [_digits(found[name]) for name in ("seconds", *COUNTS)]
                of_method.rows.append([method, f"{found['graphs']:g}", *ratios])
        yield of_method


def markdown(table: Comparison, reference: str | None) -> str:
    """Everything as Markdown: a table of all graphs, the tables of means, what failed and why."""
    machine, options, methods = table.environment, table.options, table.methods()
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    every = Table(
        f"{' / '.join(CELL).capitalize()} (each over random) / imbalance / seconds",
        ["graph", "p", *methods],
    )
    for graph in table.graphs():
        for num_parts in table.parts():
            cells = [_cell(table.get(graph, num_parts, method)) for method in methods]
            if any(cells):
                every.rows.append([graph, str(num_parts), *cells])
    for num_parts in table.parts():
        cells = [_mean_cell(table.select(num_parts, method)) for method in methods]
        every.rows.append(["**geometric mean**", str(num_parts), *cells])

    texts = [
        f"Epsilon {options.epsilon:g}, seed {options.seed}, {options.threads} threads, "
        f"balance {options.balance}, dims {options.widths}; "
        f"{machine['processor']}, {machine['cores']} cores; {versions}.",
        LEGEND[0].upper() + LEGEND[1:] + ".",
        every.markdown(),
        *(each.markdown() for each in summaries(table, reference)),
    ]
    failed: dict[tuple[str, str], list[str]] = {}
    for row in table.rows:
        if row.failed:
            where = failed.setdefault((row.method, row.failed), [])
            where.append(f"{row.graph} p = {row.num_parts}")
    if failed:
        lines = [f"- {method}: {why} ({', '.join(at)})" for (method, why), at in failed.items()]
        texts.append("\n".join(["Without a result:", "", *lines]))
    return "\n\n".join(texts) + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    ratios = [_digits(row.over_random[name]) for name in CELL]
    return " / ".join([*ratios, _digits(row.imbalance), _seconds(row.seconds)])


def _mean_cell(rows: list[Row]) -> str:
    if not rows:
        return ""
    means = mean_over_random(rows)
    first, *others = (_digits(means[name], 4) for name in CELL)
    return " / ".join([f"**{first}**", *others]) + f" / / {_seconds(means['seconds'])}"


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<{_NAME}}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells)


def _digits(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"
