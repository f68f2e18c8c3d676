"""`plancc compare`: shows the figures of several plans side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plancc.errors import warn
from plancc.registry import check_choice
from plancc_cli import options
from plancc_cli.progress import progress

if TYPE_CHECKING:
    from plancc.predict.machine import Machine


@click.command(
    cls=options.Sections,
    sections={
        "Figures": ("baseline",),
        "Epoch": ("dims", "machine"),
        "Mini-batches": options.OF_BATCHES,
        "Output": options.OUTPUT,
    },
)
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@options.predicted_epoch
@click.option(
    "--baseline",
    metavar="PLAN",
    help="Show ratios to this plan, one of PLANS.  [default: to an even random partition]",
)
@options.fresh_batches
@options.as_data
def command(
    plans: tuple[str, ...],
    dims: list[int] | None,
    machine: Machine | None,
    baseline: str | None,
    batches: int | None,
    **given: Any,
) -> None:
    """Show several PLANS side by side, with ratios to a random partition, or to one of them.

    To compare with another tool, turn its part vector into a plan: `plancc compile --model file
    --part`.
    """
    from plancc.plan.reader import PlanFile
    from plancc.report.batches import batch_reports
    from plancc.report.epochs import Basis
    from plancc.report.plans import other_graph, report
    from plancc_cli.render_comparison import print_batch_comparison, print_comparison
    from plancc_cli.tables import print_data

    drawn = options.of_batches(batches, given)
    if baseline is not None:
        check_choice("baseline", baseline, plans)
    found = []
    for path in plans:
        with PlanFile(path) as file:
            found.append(Basis.read(file, dims, machine))
    basis = Basis.shared(found)  # times of plans are comparable only for one machine
    reports = [report(path, dims=dims, basis=basis, random_epoch=True) for path in plans]
    for other, path in zip(reports[1:], plans[1:], strict=True):
        if why := other_graph(reports[0], other, plans[0], path):
            warn(why)
    on_batches = []
    if batches is not None:
        with progress() as shown, shown.stage("batches"):
            on_batches = batch_reports(plans, batches, **drawn)
    form = options.form()
    if form:
        figures = [each.as_dict() for each in reports]
        for of_plan, each in zip(figures, reports, strict=True):
            of_plan["search_seconds"] = each.spending.search
            of_plan["pays_random"] = each.pays_over()
            of_plan["pays"] = [
                {"over": other.path, "epochs": each.pays_over(other)}
                for other in reports
                if other is not each
            ]
        for of_plan, of_batches in zip(figures, on_batches, strict=False):
            of_plan["batches"] = of_batches.as_dict()
        print_data(form, figures, figures)
    else:
        print_comparison(reports, baseline)
        if on_batches:
            print_batch_comparison(on_batches)
