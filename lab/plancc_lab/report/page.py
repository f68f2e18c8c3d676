"""The page of a report: its contents, and the template that shows them.

The template escapes all text from files, and the page's security policy forbids scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plancc.report.plans import Report
from plancc.report.table import Table
from plancc.text import printable
from plancc.version import __version__
from plancc_cli.render import facts_table
from plancc_cli.render_comparison import comparison_table
from plancc_cli.render_epochs import basis_words, why_none
from plancc_cli.render_figures import report_tables
from plancc_cli.tables import duration, ratio
from plancc_lab.report import charts
from plancc_lab.report.charts import MOST_CELLS, Chart
from plancc_lab.report.notebook import KEY_FIGURES, key_figures, what_it_is
from plancc_lab.report.pictures import Density, MatrixPictures
from plancc_lab.report.runs import RunLog, Timeline

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PIXELS_OF_PARTS, PIXELS_OF_ROWS = 512, 256
"""Largest width in pixels of the volume matrix, and of pictures of nonzeros."""
HEAVIEST = 8
"""Largest number of pairs of parts that are listed."""
MOST_BORDERS = 32
"""Largest number of parts for which the picture in plan order has lines between parts."""
COMPARED = ("communication and balance", "predicted time of an epoch", "training a GCN of")
"""Beginnings of the titles of tables that are shown once for all plans, if there are several."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan on the page, with its figures and pictures.

    Attributes:
        volume: Picture of rows that parts send each other, at most `PIXELS_OF_PARTS` pixels wide.
        heaviest: Pairs of parts that exchange the most rows: sender, receiver, number of rows.
        matrix: Pictures of the nonzeros, at most `PIXELS_OF_ROWS` pixels wide.
        log, timeline: Epochs and timeline of a run of this plan; None if no run is given.
    """

    report: Report
    volume: Density
    heaviest: list[tuple[int, int, int]]
    matrix: MatrixPictures
    log: RunLog | None = None
    timeline: Timeline | None = None


@dataclass(frozen=True)
class Section:
    """The section of one plan on the page, with the texts, charts and tables that it shows."""

    letter: str
    name: str
    sentence: str
    warnings: list[str]
    tiles: list[tuple[str, str, str]]
    volume: Chart
    heaviest: Table
    before: Chart
    after: Chart
    tables: list[Table | str]
    times: Chart | None
    strips: Chart | None


def render(plans: Sequence[Planned], command: str) -> str:
    """Return the HTML of a page about `plans`, which are at most as many as `LETTERS`."""
    template = _template()
    lettered = list(zip(LETTERS, plans, strict=False))
    reports = [each.report for each in plans]
    logs = [(letter, each.log) for letter, each in lettered if each.log is not None]
    several, sources = len(plans) > 1, [plan.matrix.before.counts for plan in plans]
    span = charts.span_of([plan.volume for plan in plans])
    with charts.style():
        page: str = template.render(
            title=" and ".join(_name(r) for r in reports)
            if len(plans) < 3
            else f"{len(plans)} plans",
            several=several,
            plans=[_section(letter, each, span, several) for letter, each in lettered],
            one_source=all(np.array_equal(sources[0], each) for each in sources),
            beside=_beside_first(reports) if several else [],
            facts=_facts(reports),
            comparison=comparison_table(reports) if several else None,
            basis=basis_words(reports[0].epoch.basis),
            on_grids=any(report.header.grid is not None for report in reports),
            loads=charts.measures([(letter, each.report.parts) for letter, each in lettered]),
            convergence=charts.convergence(logs),
            command=command,
            version=__version__,
            style=(Path(__file__).parent / "style.css").read_text("utf-8"),
        )
    return page


def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return (
            printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        )

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markup"] = Markup  # of our own files and drawings alone
    return environment.get_template("report.html")


def _name(report: Report) -> str:
    return Path(report.path).name


def _section(letter: str, plan: Planned, span: tuple[float, float], several: bool) -> Section:
    report = plan.report
    before, after = _matrix(letter, plan.matrix)
    return Section(
        letter=letter,
        name=_name(report),
        sentence=what_it_is(report.header, report.provenance),
        warnings=[
            re.sub(r"`(\w+)`", lambda name: "--" + name[1].replace("_", "-"), line)
            for line in str(report.provenance.get("warnings") or "").splitlines()
        ],
        tiles=_tiles(report),
        volume=_volume(letter, plan, span),
        heaviest=_heaviest(plan),
        before=before,
        after=after,
        tables=list(_tables(report, several)),
        times=None if plan.log is None else charts.epoch_times(letter, plan.log),
        strips=None if plan.timeline is None else charts.strips(letter, plan.timeline),
    )


def _tables(report: Report, several: bool) -> Iterable[Table | str]:
    """Yield the tables of a plan, or sentences in place of empty tables.

    If the page has several plans, tables in `COMPARED` are left out: the page shows them once.
    """
    for table in report_tables(report, per_part=report.num_ranks <= MOST_CELLS):
        if not several or isinstance(table, str) or not table.title.startswith(COMPARED):
            yield table


def _facts(reports: Sequence[Report]) -> list[tuple[str, list[str]]]:
    """Return facts about how plans were made: a value per plan, or one value if all are equal."""
    of_plans = [dict(facts_table(report).rows) for report in reports]
    rows = []
    for name in dict.fromkeys(name for facts in of_plans for name in facts):
        values = [facts.get(name, "-") for facts in of_plans]
        rows.append((name, values if len(set(values)) > 1 else values[:1]))
    return rows


def _tiles(report: Report) -> list[tuple[str, str, str]]:
    """Return the key figures of a plan: for each, its name, its value and a comparison in words."""
    tiles, times = key_figures(report.metrics, report.random), report.epoch
    if (proven := report.more.get("certificate")) is not None:
        share = f"{ratio(proven.volume, report.metrics.volume)} of the rows moved"
        tiles = [*tiles, ("no plan below", f"{proven.volume:,} rows", share)]
    if times.seconds is None:
        return [*tiles, ("predicted epoch", "-", why_none(times))]
    bases = (times.random, "random"), (times.bound, "the bound")
    against = ", ".join(f"{ratio(times.seconds, base)} of {of}" for base, of in bases if base)
    return [*tiles, ("predicted epoch", duration(times.seconds), against)]


def _beside_first(reports: Sequence[Report]) -> list[tuple[str, list[tuple[str, str, float]]]]:
    """Return key figures of several plans: for each figure, a name and an entry per plan.

    An entry has the plan's value, its ratio to the first plan's value, and its percentage of the
    greatest value.
    """
    figures = [(words, [getattr(r.metrics, name) for r in reports]) for name, words in KEY_FIGURES]
    figures.append(("predicted epoch", [report.epoch.seconds for report in reports]))
    rows = []
    for words, values in figures:
        share, top, cells = words.startswith("imbalance"), max(v or 0 for v in values), []
        for place, value in enumerate(values):
            text, times = "-" if value is None else f"{value:.1%}", ""
            if value is not None and not share:
                text = f"{value:,}" if isinstance(value, int) else duration(value)
                times = f"{ratio(value, values[0])}x" if place and values[0] else ""
            cells.append((text, times, round(100 * (value or 0) / (top or 1), 3)))
        rows.append((words, cells))
    return rows


def _volume(letter: str, plan: Planned, span: tuple[float, float]) -> Chart:
    """Return a chart of the rows that parts send each other; colours stand for the range `span`."""
    density, report = plan.volume, plan.report
    parts, metrics = report.parts, report.metrics
    if not metrics.volume:
        return Chart("", "", "No part sends anything")
    busiest = int(parts.sent.argmax())
    pairs = density.size * (density.size - 1)
    note = (
        f"{metrics.messages:,} of {pairs:,} pairs of parts talk"
        if parts.fold is None
        else f"{metrics.messages:,} messages in expand and fold"
    )
    note += (
        f"; the busiest part, {busiest}, sends {int(parts.sent[busiest]):,} rows, "
        f"{parts.sent[busiest] / parts.sent.mean():.2f}x the mean"
    )
    if density.per_pixel > 1:
        note += f"; a pixel is {density.per_pixel} x {density.per_pixel} parts"
    return charts.volume(density, f"volume {letter}", note, span)


def _heaviest(plan: Planned) -> Table:
    """Return the table of the pairs of parts that exchange the most rows."""
    table = Table(("from part", "to part", "rows", "of all"), left=2)
    for sender, receiver, rows in plan.heaviest:
        share = f"{rows / plan.report.metrics.volume:.1%}"
        table.add_row(str(sender), str(receiver), f"{rows:,}", share)
    return table


def _matrix(letter: str, pictures: MatrixPictures) -> tuple[Chart, Chart]:
    """Return charts of the nonzeros: in the source's order, and in plan order."""
    step, total = pictures.before.per_pixel, pictures.total
    scale = f"; a pixel is {step} x {step} entries" if step > 1 else ""
    inside = f"{pictures.inside / max(1, total):.1%} of the nonzeros use rows of their own part"
    borders = pictures.part_ptr[1:-1].tolist() if len(pictures.part_ptr) - 1 <= MOST_BORDERS else []
    order = "The nonzeros in the order of the source", "The nonzeros in plan order, part by part"
    before = f"{total:,} nonzeros as the source numbers the vertices{scale}"
    after = f"{inside} (the blocks of the diagonal); the others need received rows{scale}"
    return (
        charts.matrix(pictures.before, f"before {letter}", (order[0], before)),
        charts.matrix(pictures.after, f"after {letter}", (order[1], after), borders),
    )
