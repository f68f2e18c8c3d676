"""`plancc compare`: plans side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plancc_cli import options
from plancc_cli.progress import progress

if TYPE_CHECKING:
    from plancc.predict.machine import Machine


@click.command()
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@options.dims_option("Widths d0,d1,...,dL: adds words, bytes, memory and time of training a GCN.")
@options.machine_option(
    "Latency, bandwidth and multiply_adds for the time of --dims; the plans' own if it is the same."
)
@options.fresh_batches
@options.as_json
def command(
    plans: tuple[str, ...],
    dims: list[int] | None,
    machine: Machine | None,
    batches: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Show several PLANS side by side, with ratios to a random partition."""
    from plancc.predict.machine import Machine
    from plancc.report.batches import batch_reports
    from plancc.report.plans import report
    from plancc_cli.render import print_batch_comparison, print_comparison, print_json

    drawn = options.of_batches(batches, given)
    reports = [report(plan, dims=dims, machine=machine) for plan in plans]
    timed = {each.machine for each in reports if each.header.grid is None}
    if len(timed) > 1:  # times compare on one machine only
        reports = [
            report(each.path, dims=dims, machine=None if each.header.grid else Machine())
            for each in reports
        ]
    on_batches = []
    if batches is not None:
        with progress() as shown, shown.stage("batches"):
            on_batches = batch_reports(plans, batches, **drawn)
    if as_json:
        figures = [each.as_dict() for each in reports]
        for of_plan, of_batches in zip(figures, on_batches, strict=False):
            of_plan["batches"] = of_batches.as_dict()
        print_json(figures)
    else:
        print_comparison(reports)
        if on_batches:
            print_batch_comparison(on_batches)
