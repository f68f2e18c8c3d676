"""`plancc report`: writes a page about plans, which any browser shows without internet access."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from plancc.errors import InputError
from plancc_cli import options
from plancc_cli.missing import require
from plancc_cli.progress import command_line, progress
from plancc_cli.words import say

if TYPE_CHECKING:
    from plancc.predict.machine import Machine
    from plancc_lab.report.runs import RunLog, Timeline


@click.command(cls=options.Sections)
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@click.option("-o", "--output", required=True, type=click.Path(), help="The page to write (.html).")
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=click.Path(),
    help="Log written by plancc-run --log; one for each plan, in the order of PLANS.",
)
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(),
    help="Timeline written by `rehearse --trace`; one for each plan, in the order of PLANS.",
)
@click.option(
    "--certificate", is_flag=True, help="Show a lower bound on rows moved, for the same balance."
)
@options.predicted_epoch
def command(
    plans: tuple[str, ...],
    output: str,
    runs: tuple[str, ...],
    traces: tuple[str, ...],
    certificate: bool,
    dims: list[int] | None,
    machine: Machine | None,
) -> None:
    """Write a page about PLANS: figures, pictures and tables, side by side.

    \b
        plancc report plan.h5 -o report.html
        plancc report plan.h5 --run run.jsonl --trace trace.json -o report.html
        plancc report plan.h5 other.h5 -o report.html
    """
    from plancc.files import atomic_write
    from plancc.plan.reader import PlanFile
    from plancc.report.epochs import Basis
    from plancc.report.plans import report
    from plancc_lab.inspect.certificate import with_certificate
    from plancc_lab.report.page import (
        HEAVIEST,
        LETTERS,
        PIXELS_OF_PARTS,
        PIXELS_OF_ROWS,
        Planned,
        render,
    )
    from plancc_lab.report.pictures import (
        heaviest_pairs,
        matrix_pictures,
        send_tables,
        volume_density,
    )

    options.check_output(output, *plans, *runs, *traces)
    if not output.lower().endswith((".html", ".htm")):
        raise InputError(f"{output}: the page is HTML; choose a name that ends in .html")
    require("a report", "jinja2", "matplotlib")
    if len(plans) > len(LETTERS):
        raise InputError(f"{len(plans)} plans: a page shows {len(LETTERS)} at most")
    for flag, files in (("--run", runs), ("--trace", traces)):
        if len(files) > len(plans):
            raise InputError(f"{flag} {files[len(plans)]}: give at most one {flag} for every plan")
    with progress() as shown, shown.stage("report"):
        found, contents = [], []
        for path in plans:
            with PlanFile(path) as file:
                found.append(Basis.read(file, dims, machine))
                contents.append(file.content_sha256)
        basis = Basis.shared(found)  # times of plans are comparable only for one machine
        shown_plans = []
        for place, path in enumerate(plans):
            figures = report(path, dims=dims, basis=basis)
            if certificate:
                figures = with_certificate(figures)
            log, timeline = _left_behind(
                runs[place : place + 1], traces[place : place + 1], path, figures.num_ranks
            )
            _check_plan(log, path, contents[place])
            _check_plan(timeline, path, contents[place])
            with PlanFile(path) as file:
                plan = file.read_plan()
            sends = send_tables(plan.exchanges)
            shown_plans.append(
                Planned(
                    figures,
                    volume_density(plan.num_parts, sends, PIXELS_OF_PARTS),
                    heaviest_pairs(plan.num_parts, sends, HEAVIEST),
                    matrix_pictures(plan.all_parts, PIXELS_OF_ROWS),
                    log,
                    timeline,
                )
            )
        page = render(shown_plans, command_line())
        with atomic_write(output) as temporary:
            temporary.write_text(page, encoding="utf-8")
    say(f"{output}: {len(page.encode()) / 1e6:.2f} MB, open it in a browser")


def _left_behind(
    run: tuple[str, ...], trace: tuple[str, ...], plan: str, num_ranks: int
) -> tuple[RunLog | None, Timeline | None]:
    """Return log and timeline of a run of a plan, or None for a file that is not given.

    Raises InputError if the timeline has ranks that the plan lacks, or epochs that the log lacks.
    """
    from plancc_lab.report.runs import read_log, read_timeline

    log = read_log(run[0]) if run else None
    timeline = read_timeline(trace[0]) if trace else None
    if timeline is not None:
        ranks = len(timeline.all_ranks)
        if timeline.all_ranks[-1] + 1 > num_ranks:
            raise InputError(
                f"{timeline.path}: has rank {timeline.all_ranks[-1]}, but {plan} runs on at most "
                f"{num_ranks} rank{'s' * (num_ranks != 1)}; give a timeline of this plan"
            )
        if timeline.all_ranks[-1] + 1 != ranks:
            raise InputError(f"{timeline.path}: has {ranks} of ranks 0..{timeline.all_ranks[-1]}")
        if log is not None and (others := sorted(set(timeline.epochs) - set(log.epoch.tolist()))):
            raise InputError(
                f"{timeline.path}: is of another run: {log.path} has no epoch {others[0]}"
            )
    return log, timeline


def _check_plan(file: RunLog | Timeline | None, plan: str, content: str) -> None:
    """Raise InputError if a log or a timeline names a plan with another content hash."""
    if file is not None and file.plan and content and file.plan != content:
        raise InputError(
            f"{file.path}: belongs to another plan (content hash {file.plan[:12]}; {plan} has "
            f"{content[:12]})"
        )
