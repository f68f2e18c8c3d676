"""`plancc upgrade`: write an older plan file in the newest format version."""

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
    """Write PLAN, of an older format version, in the newest one.

    The new file has the same rows, messages, numbers and provenance. Ranks read and check their own
    slice of it alone; of an older file each of them reads the whole first.
    """
    from plancc.plan.upgrade import upgrade
    from plancc_cli.tables import print_data

    options.check_plan_output(output)
    digest = upgrade(plan, output, compress=compress)
    form = options.form()
    if form:
        print_data(form, {"plan": plan, "output": output, "content_sha256": digest})
        return
    say(f"wrote {output}")
    say(f"content {digest}")
