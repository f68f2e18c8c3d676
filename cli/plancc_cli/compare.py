"""`plancc compare`: plans side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plancc_cli import options
from plancc_cli.progress import progress, verbosity

if TYPE_CHECKING:
    from plancc.predict.machine import Machine


@click.command()
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@options.dims_option(
    "Widths d0,d1,...,dL, for the epoch's time: adds words, bytes and memory of training a GCN.  "
    "[default: the plans', if all agree]"
)
@options.machine_option(
    "Machine, for the epoch's time (see plancc machines).  [default: the plans', if all agree]"
)
@options.fresh_batches
@options.as_json
@verbosity
def command(
    plans: tuple[str, ...],
    dims: list[int] | None,
    machine: Machine | None,
    batches: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Show several PLANS side by side, with ratios to a random partition."""
    from plancc.plan.reader import PlanFile
    from plancc.report.batches import batch_reports
    from plancc.report.epochs import Basis
    from plancc.report.plans import report
    from plancc_cli.render import print_batch_comparison, print_comparison
    from plancc_cli.tables import print_json

    drawn = options.of_batches(batches, given)
    found = []
    for path in plans:
        with PlanFile(path) as file:
            found.append(Basis.read(file, dims, machine))
    basis = Basis.shared(found)  # times compare on one machine only
    reports = [report(path, dims=dims, basis=basis) for path in plans]
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
