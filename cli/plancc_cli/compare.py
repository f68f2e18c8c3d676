"""`plancc compare`: plans side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from plancc_cli import options

if TYPE_CHECKING:
    from plancc.cost.machine import Machine


@click.command()
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@options.dims_option("Widths d0,d1,...,dL: adds words, bytes, memory and time of training a GCN.")
@options.machine_option(
    "Latency, bandwidth and multiply_adds for the time of --dims; the plans' own if it is the same."
)
@options.as_json
def command(
    plans: tuple[str, ...], dims: list[int] | None, machine: Machine | None, as_json: bool
) -> None:
    """Show several PLANS side by side, with ratios to a random partition."""
    from plancc.cost.machine import Machine
    from plancc.cost.report import report
    from plancc_cli.render import print_comparison, print_json

    reports = [report(plan, dims=dims, machine=machine) for plan in plans]
    if len({each.machine for each in reports}) > 1:  # times compare on one machine only
        reports = [report(plan, dims=dims, machine=Machine()) for plan in plans]
    if as_json:
        print_json([each.as_dict() for each in reports])
    else:
        print_comparison(reports)
