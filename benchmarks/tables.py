"""How a comparison is shown: rows as they are finished, tables of means, Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.comparison import (
    COUNTS,
    LEGEND,
    SAME_BALANCE,
    TIMES,
    Comparison,
    Row,
    figure,
    mean_over_method,
    mean_over_random,
    ratios_to,
)
from benchmarks.means import kind_of, mean_of_kinds, mean_over_kinds

STAR = "; a star: less balanced than the limit"

_NAME, _WIDTH = 20, 10
_HEAD = [*TIMES.values(), *COUNTS.values(), "imbalance"]


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
        times = [_seconds(row.seconds), _seconds(row.cpu_seconds)]
        self._print(_line(row.method, [*times, *ratios, _digits(row.imbalance)]))

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
            ["method", "graphs", *TIMES.values(), *COUNTS.values(), "worst imb."],
        )
        for method in table.methods():
            rows = table.select(num_parts, method)
            if rows:
                means = mean_over_random(rows)
                times = [_seconds(means[name]) for name in TIMES]
                ratios = [_digits(means[name], 4) for name in COUNTS]
                worst = _digits(max(row.imbalance or 0.0 for row in rows))
                of_random.rows.append([method, str(len(rows)), *times, *ratios, worst])
        yield of_random

        if reference is None or not table.select(num_parts, reference):
            continue
        of_method = Table(
            f"Ratios to {reference}, geometric means over kinds of equal weight, p = {num_parts}",
            ["method", "graphs", *TIMES.values(), *COUNTS.values()],
        )
        for method in table.methods():
            found = mean_over_method(table, table.select(num_parts, method), reference)
            if found["graphs"]:
                ratios = [_digits(found[name]) for name in (*TIMES, *COUNTS)]
                of_method.rows.append([method, f"{found['graphs']:g}", *ratios])
        yield of_method
        for name, what in (("volume", "Volume"), ("cpu_seconds", "CPU seconds")):
            yield _by_kind(table, num_parts, reference, name, what)


def _by_kind(table: Comparison, num_parts: int, reference: str, name: str, what: str) -> Table:
    """One figure over that of a method: geometric mean of every kind of graph, all, the worst."""
    kinds = list(dict.fromkeys(map(kind_of, table.graphs())))
    found = Table(f"{what} over {reference}'s, p = {num_parts}", ["method", *kinds, "all", "worst"])
    for method in table.methods():
        ratios = figure(ratios_to(table, table.select(num_parts, method), reference), name)
        if ratios:
            means = mean_of_kinds(ratios)
            cells = [_digits(means.get(kind)) for kind in kinds]
            worst = _digits(max(ratios.values()))
            found.rows.append([method, *cells, _digits(mean_over_kinds(ratios)), worst])
    return found


def markdown(table: Comparison, reference: str | None) -> str:
    """Everything as Markdown: means, then rows moved and CPU seconds of all graphs, what failed."""
    machine, options = table.environment, table.options
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    texts = [
        "# Quality of plans: all tables",
        f"Epsilon {options.epsilon:g}, seed {options.seed}, {options.threads} threads, "
        f"balance {options.balance}, dims {options.widths}; "
        f"{machine['processor']}, {machine['cores']} cores; {versions}.",
        LEGEND[0].upper() + LEGEND[1:] + ".",
        *(each.markdown() for each in summaries(table, reference)),
    ]
    for num_parts in table.parts():
        at = f"p = {num_parts}"
        texts += [
            _all_graphs(table, f"Rows moved, {at}{STAR}", num_parts, _rows_moved).markdown(),
            _all_graphs(table, f"CPU seconds, {at}", num_parts, _cpu).markdown(),
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


def _all_graphs(
    table: Comparison, title: str, num_parts: int, cell: Callable[[Row, float], str]
) -> Table:
    """A row per graph, a column per method."""
    methods = [name for name in table.methods() if table.select(num_parts, name)]
    found = Table(title, ["graph", *methods])
    for graph in table.graphs():
        rows = [table.get(graph, num_parts, method) for method in methods]
        if any(rows):
            epsilon = table.options.epsilon
            found.rows.append([graph, *("" if r is None else cell(r, epsilon) for r in rows)])
    return found


def _rows_moved(row: Row, epsilon: float) -> str:
    loose = row.imbalance is not None and row.imbalance > epsilon + SAME_BALANCE
    return f"{row.counts['volume']:,}" + "*" * loose


def _cpu(row: Row, epsilon: float) -> str:
    return _seconds(row.cpu_seconds)


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<{_NAME}}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells)


def _digits(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"
