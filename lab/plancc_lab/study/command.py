"""`plancc study`: compiles several graphs with several models, and compares the plans."""

from __future__ import annotations

from typing import Any

import click

from plancc.errors import InputError
from plancc.fields import options_of
from plancc.models.weights import DEFAULT_BALANCE
from plancc.options import SearchOptions
from plancc_cli import options
from plancc_cli.progress import progress, verbosity
from plancc_cli.words import say

KEPT = "plancc-study.jsonl"
"""Default file of kept rows."""
OF_ONE = (
    *("seed", "partitioner", "preset", "time_limit", "capacities", "topology", "fixed", "stop"),
)
"""Options of the search that a study cannot set for all plans."""
OF_SEARCH = [each.name for each in options_of(SearchOptions) if each.name not in OF_ONE]
OF_ALL = (*OF_SEARCH, "balance", "normalize")
"""Parameters that become keywords of `plancc.compile`."""
SETTINGS: dict[str, dict[str, Any]] = {
    "epsilon": {"default": 0.01},
    "threads": {"default": 1},
    "balance": {"otherwise": f"{DEFAULT_BALANCE}, for partitioners too"},
}
"""Settings of some options. Kept rows record epsilon and threads, so these have fixed defaults."""


def _seeds(context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) < 2**31 for word in words):
        raise InputError(f"--seeds '{text}': give whole numbers, such as 1,2,3")
    return list(dict.fromkeys(map(int, words)))


@click.command(
    cls=options.Sections,
    sections={
        "Study": ("models", "parts", "seeds", "baseline", "results"),
        "Output": ("as_json", "as_csv", "table_columns", "plot"),
        "Every plan": OF_ALL,
        options.READING_TOPIC: options.READING_FLAGS,
    },
)
@click.argument("graphs", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--models",
    required=True,
    metavar="NAME,...",
    help="Models, or partitioners, with options as in hp:effort=best; LABEL=hp:effort=best "
    'gives another name. A value cannot have a comma, or "=" after a colon.',
)
@click.option(
    "-p", "--parts", required=True, metavar="P,...", help="Numbers of parts: 16,64,256 or 16..256."
)
@click.option(
    "--seeds",
    default="1",
    show_default=True,
    callback=_seeds,
    metavar="S,...",
    help="Random seeds.",
)
@click.option(
    "--baseline", metavar="NAME", help="Show ratios to this model or partitioner, such as metis."
)
@click.option(
    "--results",
    type=click.Path(),
    default=KEPT,
    show_default=True,
    help="File that keeps the results, from which an interrupted study resumes.",
)
@options.as_data
@click.option(
    "--table-columns",
    metavar="NAME,...",
    help="Columns of the table, in this order, such as label,parts,volume,volume_ratio.",
)
@click.option("--plot", metavar="FILE", help="Draw volume and predicted epoch over parts.")
@options.with_options(
    options.field_option(options.FIELDS[name], **{"default": None} | SETTINGS.get(name, {}))
    for name in OF_ALL
)
@options.reading_flags
@verbosity
def command(
    graphs: tuple[str, ...],
    models: str,
    parts: str,
    seeds: list[int],
    baseline: str | None,
    results: str,
    table_columns: str | None,
    plot: str | None,
    **given: Any,
) -> None:
    """Compile GRAPHS with every model for every number of parts, and compare the plans.

    \b
        plancc study a.mtx b.mtx --models hp,rp,metis -p 16,64 --baseline metis
        plancc study a.mtx --models hp,mine=file:part=parts/{graph}.part.{p} -p 16,64 --csv

    A partitioner such as metis solves model hp, or gp if it supports only graphs. Only models with
    a search use --effort. If a study is interrupted, the same command continues it.
    """
    from plancc_lab.contenders import parse_contenders, parse_numbers
    from plancc_lab.plot import check_plot, plot_study
    from plancc_lab.study import render
    from plancc_lab.study.study import study

    contenders = parse_contenders(models, baseline)
    numbers = parse_numbers(parts)
    chosen = render.parse_columns(table_columns, baseline, options.form())
    if plot is not None:
        check_plot(plot)
        options.check_output(plot, *graphs)
    options.check_output(results, *graphs, plot)
    names = (*OF_ALL, *options.READING_FLAGS)
    settings = {name: given[name] for name in names if given[name] is not None}
    with progress(given["budget"]) as shown:
        found = study(
            graphs,
            contenders,
            numbers,
            seeds=seeds,
            baseline=baseline,
            settings=settings,
            results=results,
            observer=shown.stage,
        )
    if not any(row.figures for row in found.rows):
        row = found.rows[0]
        raise InputError(f"the study has no plan: {row.graph}, {row.label}: {row.why}")
    if plot is not None:
        plot_study(found, plot)
    render.print_study(found, options.form(), chosen)
    if found.num_kept and not options.form():
        kept = f"{found.num_kept} of {len(found.rows)} rows are from {results}"
        say(f"{kept}; --results names another file")
