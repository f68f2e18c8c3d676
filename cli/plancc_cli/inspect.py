"""`plancc inspect`: shows what a plan costs, compared with a random partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from plancc_cli import options
from plancc_cli.progress import progress

if TYPE_CHECKING:
    from plancc.predict.machine import Machine
    from plancc.report.plans import Report


FIGURES = "Figures"
SECTIONS = {
    FIGURES: ("per_part", "ranks", "topology"),
    "Epoch": ("dims", "machine", "boundary_sampling"),
    "Mini-batches": options.OF_BATCHES,
    "Output": options.OUTPUT,
}


@click.command(cls=options.Sections, sections=SECTIONS)
@click.argument("plan", type=click.Path())
@options.predicted_epoch
@click.option(
    "--boundary-sampling",
    metavar="P,...",
    **options.shares("shares between 0 and 1, such as 0.1 or 1,0.1,0", most=1),
    help="Shares of boundary rows that an epoch keeps (BNS-GCN); with --dims, add the words and "
    "the memory for every share.",
)
@click.option("--per-part", is_flag=True, help="Print a line for every part.")
@click.option("--ranks", type=int, help="Show figures for fewer ranks; parts are merged.")
@options.searching(
    "topology", "Nodes x ranks per node (4x8): show rows between nodes.  [default: the plan's]"
)
@options.fresh_batches
@options.as_data
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show provenance, the steps of the search and all figures.",
)
def command(
    plan: str,
    dims: list[int] | None,
    per_part: bool,
    ranks: int | None,
    machine: Machine | None,
    batches: int | None,
    verbose: bool,
    add: Callable[[Report], Report] | None = None,
    **given: Any,
) -> None:
    """Show the sizes and costs of PLAN, and the costs of an even random partition of its matrix."""
    from plancc.plan.reader import PlanFile
    from plancc.plan.topology import Topology
    from plancc.report import plans
    from plancc.report.epochs import Basis
    from plancc_cli.render import print_report
    from plancc_cli.render_comparison import print_on_batches
    from plancc_cli.tables import print_data, rows_of

    topology, rates = given.pop("topology"), given.pop("boundary_sampling") or ()
    if dims is not None:  # before the plan is checked
        with PlanFile(plan) as file:
            Basis.read(file, dims, machine)
    drawn, on_batches = options.of_batches(batches, given), None
    if batches is not None:  # first: it refuses options before it reads
        from plancc.report.batches import batch_reports

        with progress() as shown, shown.stage("batches"):
            (on_batches,) = batch_reports([plan], batches, num_ranks=ranks, **drawn)
    result = plans.report(
        plan,
        dims=dims,
        num_ranks=ranks,
        machine=machine,
        topology=None if topology is None else Topology.parse(topology),
        boundary_sampling=rates,
    )
    if add is not None:  # adds figures of another command
        result = add(result)
    form = options.form()
    if form:
        figures = result.as_dict(per_part)
        figures |= {"batches": on_batches.as_dict()} if on_batches else {}
        print_data(form, figures, rows_of(figures["parts"], "part") if per_part else None)
    else:
        print_report(result, per_part, verbose)
        if on_batches:
            print_on_batches(result, on_batches)
