"""A study as tables, CSV and LaTeX. Formats; computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError
from plancc.registry import check_choice
from plancc.report.table import Table
from plancc.study import PAYS, RATIOS
from plancc_cli.render_epochs import payoff_words
from plancc_cli.tables import (
    digits,
    number,
    print_data,
    print_latex,
    print_table,
    say,
)

if TYPE_CHECKING:
    from plancc.study import Row, Study

FIGURES: dict[str, tuple[str, Callable[[Any], str]]] = {
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
COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    **{name: (name, str) for name in ("graph", "model", "partitioner", "seed")},
    **{"parts": ("p", str), "vertices": ("vertices", number), "nonzeros": ("nonzeros", number)},
    **FIGURES,
    "pays_random": ("pays: random", payoff_words),
    "pays_baseline": ("pays: base", payoff_words),
}
"""All that can be a column."""
OF_TEXT = ("graph", "model", "partitioner")
LABELS = ("model", "seed")
"""Columns that are repeated where a table is split."""
IN_ROWS = {"volume": "volume", "max_volume": "busiest part"}
OF_RATIOS = ("volume", "messages", "epoch_seconds")
"""Figures whose ratios to the baseline are averaged."""
BESIDE = ("volume", "epoch_seconds")
"""Those that have a column with their ratio, unless columns are chosen."""
RATIO = "_ratio"
"""How the name of a ratio's column ends, as in CSV."""


def parse_columns(text: str | None, baseline: str | None, form: str) -> list[str]:
    """Names of columns with commas between them; none where no text is given.

    Raises:
        InputError: A name is unknown or there twice, a ratio has no baseline, or `form` has all
            columns.
    """
    if text is None:
        return []
    if form not in ("", "latex"):
        raise InputError(f"`table_columns` and --{form}, which has all columns: give one of them")
    found = [word.strip() for word in text.split(",")]
    for name in found:
        check_choice("column", name, [*COLUMNS, *(each + RATIO for each in RATIOS)])
        if found.count(name) > 1:
            raise InputError(f"`table_columns` '{text}': '{name}' is there twice")
        if (name.endswith(RATIO) or name == PAYS[1]) and baseline is None:
            raise InputError(f"`table_columns` '{text}': '{name}' needs a `baseline`")
    return found


def print_study(study: Study, form: str = "", columns: Sequence[str] = ()) -> None:
    """Its rows in a form of `plancc_cli.options.form`; tables with these columns, or the usual."""
    names = list(columns) or _usual(study, form)
    if form == "latex":
        rows = sorted(study.rows, key=lambda row: study.graphs.index(row.graph))
        print_latex(_table(study, rows, names, OF_TEXT, "graph"), _basis(study, names))
    elif form:
        found = study.as_dict()
        print_data(form, found, found["rows"])
    else:
        _print_tables(study, names)


def _print_tables(study: Study, names: Sequence[str]) -> None:
    """A table for every graph; ratios to the baseline, on average over graphs; what failed."""
    for graph in study.graphs:
        rows = [row for row in study.rows if row.graph == graph]
        first = rows[0]
        title = f"{graph}: {first.vertices:,} vertices, {first.nonzeros:,} nonzeros as read"
        print_table(_table(study, rows, names, LABELS, "parts", title))
    averaged = [name for name in OF_RATIOS if {name, name + RATIO} & set(names)]
    if study.baseline is not None and averaged and len(study.graphs) * len(study.seeds) > 1:
        print_table(_means(study, averaged))
    say(_basis(study, names))
    for row in study.rows:
        if row.why:
            say(f"-  {row.graph}, {row.label}, p = {row.parts}: {row.why}")
    noted = sum(bool(row.notes) for row in study.rows)
    if noted:
        say(f"{noted} of {len(study.rows)} rows have warnings of the compiler: --csv shows them")


def _basis(study: Study, names: Sequence[str]) -> str:
    """What the figures in these columns are of."""
    of, words = {name.removesuffix(RATIO) for name in names}, []
    if rows := [word for name, word in IN_ROWS.items() if name in of]:
        words.append(f"{' and '.join(rows)} in rows")
    if of & {"epoch_seconds", *PAYS}:
        dims = ",".join(map(str, study.dims))
        words.append(f"epoch predicted for machine {study.machine}, dims {dims}")
    if of & {*PAYS}:
        others = "random" if study.baseline is None else f"random and {study.baseline}"
        words.append(f"pays: epochs until the search has paid, over {others}")
    words.append(f"row plans balance {study.balance}")
    if any(name.endswith(RATIO) for name in names):
        words.append(f"ratio: over {study.baseline}")
    return "; ".join(words)


def _usual(study: Study, form: str) -> list[str]:
    """Columns where none are chosen."""
    names = ["graph"] * (form == "latex") + ["parts", "model", *["seed"] * (len(study.seeds) > 1)]
    for name in FIGURES:
        names += [name, *[name + RATIO] * (study.baseline is not None and name in BESIDE)]
    return [*names, *PAYS[: 1 + (study.baseline is not None)]]


def _heads(names: Sequence[str]) -> list[str]:
    """Heads of columns; that of a ratio says of what, unless it stands beside that."""
    heads = []
    for before, name in pairwise(["", *names]):
        of = name.removesuffix(RATIO)
        head = COLUMNS[of][0]
        ratio = "ratio" if before == of else f"{_unitless(head)} (ratio)"
        heads.append(head if name == of else ratio)
    return heads


def _unitless(head: str) -> str:
    return head.partition(",")[0]


def _cells(study: Study, row: Row, names: Sequence[str]) -> list[str]:
    values, cells = row.as_dict() | study.pays(row) | {"model": row.label}, []
    for name in names:
        of = name.removesuffix(RATIO)
        value = values.get(name) if name == of else study.ratio(row, of)
        show = COLUMNS[of][1] if name == of else "{:.2f}".format
        cells.append("-" if value is None else show(value))
    return cells


def _table(
    study: Study,
    rows: Sequence[Row],
    names: Sequence[str],
    flush_left: Sequence[str],
    section: str,
    title: str = "",
) -> Table:
    """Rows with these columns, and a line where the value of `section` changes."""
    table = Table(_heads(names), title, left=0)
    table.justify = ["left" if name in flush_left else "right" for name in names]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        last = following is not None and getattr(following, section) != getattr(row, section)
        table.add_row(*_cells(study, row, names), end_section=last)
    return table


def _means(study: Study, names: Sequence[str]) -> Table:
    """Geometric means of these figures' ratios over graphs and seeds."""
    count = len(study.graphs)
    of = f"{count} graphs" if count > 1 else f"{len(study.seeds)} seeds"
    title = f"over {study.baseline}, geometric mean of {of}"
    table = Table(("p", "model", *(_unitless(FIGURES[n][0]) for n in names)), title, left=0)
    table.justify[1] = "left"
    for parts in study.parts:
        for label in study.labels:
            if label != study.baseline:
                means = [study.mean_ratio(label, parts, name) for name in names]
                shown = ("-" if mean is None else f"{mean:.2f}" for mean in means)
                table.add_row(str(parts), label, *shown, end_section=label == study.labels[-1])
    return table
