"""`plancc compare`: plans side by side."""

from __future__ import annotations

import click

from plancc_cli import options


@click.command()
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@options.dims_option("Widths d0,d1,...,dL: adds words, bytes and memory of training a GCN.")
@options.as_json
def command(plans: tuple[str, ...], dims: list[int] | None, as_json: bool) -> None:
    """Show several PLANS side by side, with ratios to a random partition."""
    from plancc.cost.report import report
    from plancc_cli.render import print_comparison, print_json

    reports = [report(plan, dims=dims) for plan in plans]
    if as_json:
        print_json([each.as_dict() for each in reports])
    else:
        print_comparison(reports)
