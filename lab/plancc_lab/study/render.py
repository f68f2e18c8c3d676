"""Tables, CSV and JSON of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from statistics import stdev
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError
from plancc.registry import check_choice
from plancc.report.table import Table
from plancc_cli.render_epochs import payoff_words
from plancc_cli.tables import digits, number, print_data, print_table, say
from plancc_lab.study.study import PAYS, RATIOS

if TYPE_CHECKING:
    from plancc_lab.study.study import Row, Study

    Line = tuple[Row, list[str]]

COLUMNS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("graph", "label", "model", "partitioner", "parts", "seed"), str),
    **dict.fromkeys(("vertices", "nonzeros", "volume", "max_volume", "messages"), number),
    **dict.fromkeys(("nonzero_imbalance", "row_imbalance"), "{:.3f}".format),
    "replication_factor": "{:.2f}".format,
    "epoch_seconds": digits,
    "seconds": "{:.2f}".format,
    **dict.fromkeys(PAYS, payoff_words),
}
"""Names of columns, as in CSV, with the function that formats a value."""
USUAL = ("volume", "max_volume", "messages", "epoch_seconds", "seconds")
"""Figures that a table shows by default."""
LABELS = ("label", "model", "seed")
"""Columns that are aligned left."""
IN_ROWS = ("volume", "max_volume")
OF_RATIOS = ("volume", "messages", "epoch_seconds")
"""Figures whose ratios to the baseline are averaged."""
BESIDE = ("volume", "epoch_seconds")
"""Figures for which a table also shows the ratio to the baseline by default."""
RATIO = "_ratio"
"""End of the name of a column of ratios, as in CSV."""


def parse_columns(text: str | None, baseline: str | None, form: str) -> list[str]:
    """Return the names of columns in a comma-separated string; [] if there is no string.

    Raises InputError for unknown or repeated names, and for ratios without a baseline.
    """
    if text is None:
        return []
    if form:
        raise InputError(f"`table_columns` and --{form}, which has all columns, exclude each other")
    found = [word.strip() for word in text.split(",")]
    for name in found:
        check_choice("column", name, [*COLUMNS, *(each + RATIO for each in RATIOS)])
        if found.count(name) > 1:
            raise InputError(f"`table_columns` '{text}': '{name}' is given twice")
        if (name.endswith(RATIO) or name == PAYS[1]) and baseline is None:
            raise InputError(f"`table_columns` '{text}': '{name}' needs a `baseline`")
    return found


def print_study(study: Study, form: str = "", columns: Sequence[str] = ()) -> None:
    """Print the rows of a study as "json", as "csv", or as tables with the given `columns`.

    If a table has no column "seed", it shows means and standard deviations over seeds.
    """
    if form:
        found = study.as_dict()
        print_data(form, found, found["rows"])
        return
    names, shown = list(columns) or _usual(study), study
    spreads: list[Row | None] = [None] * len(study.rows)
    if len(study.seeds) > 1 and "seed" not in names:
        shown, spreads = study.over_seeds(), [*study.over_seeds(stdev).rows]
    lines = [
        (row, _cells(shown, row, names, spread))
        for row, spread in zip(shown.rows, spreads, strict=True)
    ]
    _print_tables(study, names, lines)


def _print_tables(study: Study, names: Sequence[str], lines: Sequence[Line]) -> None:
    """Print a table for every graph, then the mean ratios to the baseline, then what failed."""
    for graph in study.graphs:
        of_graph = [line for line in lines if line[0].graph == graph]
        first = of_graph[0][0]
        title = f"{graph}: {first.vertices:,} vertices, {first.nonzeros:,} nonzeros as read"
        print_table(_table(of_graph, names, title))
    of = {name.removesuffix(RATIO) for name in names}
    averaged = ["parts", "label", *(name + RATIO for name in OF_RATIOS if name in of)]
    title = f"over {study.baseline}, geometric mean of {len(study.graphs)} graphs"
    means = Table(averaged, title, left=0)
    means.justify[1] = "left"
    _add_means(means, study, averaged)
    if means.rows:
        print_table(means)
    say(_basis(study, names))
    for row in study.rows:
        if row.why:
            say(f"-  {row.graph}, {row.label}, p = {row.parts}: {row.why}")
    noted = sum(bool(row.notes) for row in study.rows)
    if noted:
        say(f"{noted} of {len(study.rows)} rows have warnings of the compiler: --csv shows them")


def _basis(study: Study, names: Sequence[str]) -> str:
    """Return a line that explains the figures in these columns: machine, widths and units."""
    of, words = {name.removesuffix(RATIO) for name in names}, []
    if rows := [name for name in IN_ROWS if name in of]:
        words.append(f"{' and '.join(rows)} in rows")
    if of & {"epoch_seconds", *PAYS}:
        dims = ",".join(map(str, study.dims))
        words.append(f"epoch predicted for machine {study.machine}, dims {dims}")
    if of & {*PAYS}:
        others = "random" if study.baseline is None else f"random and {study.baseline}"
        words.append(f"pays: epochs that repay the search, against {others}")
    words.append(f"row plans balance {study.balance}")
    if any(name.endswith(RATIO) for name in names):
        words.append(f"ratio: over {study.baseline}")
    if len(study.seeds) > 1 and "seed" not in names:
        words.append(f"mean ± standard deviation of {len(study.seeds)} seeds")
    return "; ".join(words)


def _usual(study: Study) -> list[str]:
    """Return the names of the columns that tables have by default."""
    names = ["parts", "label"]
    for name in USUAL:
        names += [name, *[name + RATIO] * (study.baseline is not None and name in BESIDE)]
    return names


def _cells(study: Study, row: Row, names: Sequence[str], spread: Row | None) -> list[str]:
    values, cells = row.as_dict() | study.pays(row), []
    for name in names:
        of = name.removesuffix(RATIO)
        value = values.get(name) if name == of else study.ratio(row, of)
        show = COLUMNS[of] if name == of else "{:.2f}".format
        cell = "-" if value is None else show(value)
        around = None if spread is None or name not in row.figures else spread.figures.get(name)
        if around is not None:  # a deviation has as many decimals as the mean
            places = len(cell.partition(".")[2])
            cell += f" ± {show(around) if 'e' in cell else f'{around:,.{places}f}'}"
        cells.append(cell)
    return cells


def _table(lines: Sequence[Line], names: Sequence[str], title: str) -> Table:
    """Return a table with these lines, and with `names` as columns."""
    table = Table(names, title, left=0)
    table.justify = ["left" if name in LABELS else "right" for name in names]
    for _, cells in lines:
        table.add_row(*cells)
    return table


def _add_means(table: Table, study: Study, names: Sequence[str]) -> None:
    """Add the geometric means of ratios over several graphs and all seeds."""
    if study.baseline is None or len(study.graphs) == 1 or len(names) == 2:
        return
    for parts, label in product(study.parts, study.labels):
        if label != study.baseline:
            cells = {"parts": str(parts), "label": label}
            for name in names:
                if name.endswith(RATIO):
                    mean = study.mean_ratio(label, parts, name.removesuffix(RATIO))
                    cells[name] = "-" if mean is None else f"{mean:.2f}"
            table.add_row(*(cells[name] for name in names))
