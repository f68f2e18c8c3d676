"""A study as tables, CSV and LaTeX. Formats; computes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plancc.text import printable
from plancc_cli.tables import (
    console,
    digits,
    number,
    print_data,
    print_table,
    say,
    table_of,
)

if TYPE_CHECKING:
    from rich.table import Table

    from plancc.study import Row, Study

COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "volume": ("volume", number),
    "max_volume": ("busiest", number),
    "messages": ("messages", number),
    "nonzero_imbalance": ("imb. nnz", "{:.3f}".format),
    "row_imbalance": ("imb. rows", "{:.3f}".format),
    "replication_factor": ("copies", "{:.2f}".format),
    "epoch_seconds": ("epoch, ms", lambda seconds: digits(1e3 * seconds)),
    "seconds": ("seconds", "{:.2f}".format),
}
"""Figures of a row: their heads, and how they are shown."""
OF_RATIOS = ("volume", "messages", "epoch_seconds")
"""Figures whose ratios to the baseline are averaged."""
BESIDE = ("volume", "epoch_seconds")
"""Those that have a column with their ratio in the table of every graph."""
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "[": "{[}",  # after a line break it would be an option
}


def print_study(study: Study, form: str = "") -> None:
    """Its rows in a form of `plancc_cli.options.form`."""
    if form == "latex":
        _print_latex(study)
    elif form:
        found = study.as_dict()
        print_data(form, found, found["rows"])
    else:
        _print_tables(study)


def _print_tables(study: Study) -> None:
    """A table for every graph; ratios to the baseline, on average over graphs; what failed."""
    for graph in study.graphs:
        rows = [row for row in study.rows if row.graph == graph]
        print_table(_table(study, graph, rows))
    if study.baseline is not None and len(study.graphs) * len(study.seeds) > 1:
        print_table(_means(study))
    say(_basis(study))
    for row in study.rows:
        if row.why:
            say(f"-  {row.graph}, {row.label}, p = {row.parts}: {row.why}")
    noted = sum(bool(row.notes) for row in study.rows)
    if noted:
        say(f"{noted} of {len(study.rows)} rows have warnings of the compiler: --csv shows them")


def _basis(study: Study) -> str:
    dims = ",".join(map(str, study.dims))
    beside = "" if study.baseline is None else f"; ratio: over {study.baseline}"
    return (
        f"volume and busiest part in rows; epoch predicted for machine {study.machine}, dims "
        f"{dims}; row plans balance {study.balance}{beside}"
    )


def _heads(study: Study) -> list[str]:
    heads = ["p", "model", *["seed"] * (len(study.seeds) > 1)]
    for name, (head, _) in COLUMNS.items():
        heads += [head, *["ratio"] * _has_ratio(study, name)]
    return heads


def _has_ratio(study: Study, name: str) -> bool:
    return study.baseline is not None and name in BESIDE


def _cells(study: Study, row: Row) -> list[str]:
    """The cells of a row under `_heads`."""
    cells = [str(row.parts), row.label, *[str(row.seed)] * (len(study.seeds) > 1)]
    for name, (_, show) in COLUMNS.items():
        value = row.figures.get(name)
        cells.append("-" if value is None else show(value))
        if _has_ratio(study, name):
            ratio = study.ratio(row, name)
            cells.append("-" if ratio is None else f"{ratio:.3f}")
    return cells


def _table(study: Study, graph: str, rows: list[Row]) -> Table:
    first = rows[0]
    title = f"{graph}: {first.vertices:,} vertices, {first.nonzeros:,} nonzeros as read"
    table = table_of(_heads(study), title, left=0)
    _show_labels(table)
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        last = following is not None and following.parts != row.parts
        table.add_row(*_cells(study, row), end_section=last)
    return table


def _show_labels(table: Table) -> None:
    """Make the first columns labels, which are repeated where a table is split."""
    for column in table.columns:
        if column.header in ("model", "seed"):
            column.justify = "left"


def _means(study: Study) -> Table:
    """Geometric means of the ratios over graphs and seeds."""
    count = len(study.graphs)
    of = f"{count} graphs" if count > 1 else f"{len(study.seeds)} seeds"
    title = f"over {study.baseline}, geometric mean of {of}"
    table = table_of(("p", "model", *(COLUMNS[name][0] for name in OF_RATIOS)), title, left=0)
    _show_labels(table)
    for parts in study.parts:
        for label in study.labels:
            if label != study.baseline:
                means = [study.mean_ratio(label, parts, name) for name in OF_RATIOS]
                shown = ("-" if mean is None else f"{mean:.3f}" for mean in means)
                table.add_row(str(parts), label, *shown, end_section=label == study.labels[-1])
    return table


def _print_latex(study: Study) -> None:
    """A table with the rules of booktabs; text is escaped."""
    heads = ["graph", *_heads(study)]
    lines = [
        f"% {_basis(study)}",
        rf"\begin{{tabular}}{{lrl{'r' * (len(heads) - 3)}}}",
        r"\toprule",
        " & ".join(map(_escaped, heads)) + r" \\",
    ]
    for graph in study.graphs:
        lines.append(r"\midrule")
        for row in study.rows:
            if row.graph == graph:
                lines.append(" & ".join(map(_escaped, [graph, *_cells(study, row)])) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    console().print("\n".join(lines), soft_wrap=True)


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}\[]", lambda match: LATEX[match[0]], printable(text))
