"""`plancc join`: a plan that is in pieces as one file."""

from __future__ import annotations

import click

from plancc_cli import options
from plancc_cli.words import say


@click.command()
@click.argument("plan", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, help="The plan file to write.")
@click.option("--compress", is_flag=True, help="Deflate the datasets: smaller and slower.")
@options.as_data
def command(plan: str, output: str, compress: bool) -> None:
    """Write PLAN, the head of a plan in pieces, as one file.

    Several ranks that compile together (mpirun plancc compile) write one piece each. Every command
    reads such a plan as it is; other programs may want one file. The content stays the same.
    """
    from plancc.plan.join import join
    from plancc_cli.tables import print_data

    options.check_plan_output(output, plan)
    digest = join(plan, output, compress=compress)
    form = options.form()
    if form:
        print_data(form, {"plan": plan, "output": output, "content_sha256": digest})
        return
    say(f"wrote {output}")
    say(f"content {digest}")
