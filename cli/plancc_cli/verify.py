"""`plancc verify`: check every invariant of a plan file."""

from __future__ import annotations

import click

from plancc_cli import options
from plancc_cli.words import say


@click.command(cls=options.Sections)
@click.argument("plan", type=click.Path())
@click.option(
    "--against",
    type=click.Path(),
    metavar="GRAPH",
    help="Also check that the parts make up the normalised matrix of this graph.",
)
@options.as_json
def command(plan: str, against: str | None) -> None:
    """Check every invariant of PLAN.

    With --against, also check that the parts of PLAN make up the matrix of GRAPH. GRAPH is read
    with the reading options that PLAN records; a folder of `plancc convert` needs no options.
    """
    from plancc.graph.csr import reading_like
    from plancc.graph.formats import read_graph
    from plancc.plan.reader import PlanFile
    from plancc.plan.verify import verify_file
    from plancc_cli.tables import print_json

    graph = None
    if against is not None:
        with PlanFile(plan) as file:
            provenance = file.attributes("provenance")
        graph = read_graph(against, **reading_like(provenance, against))
    done = verify_file(plan, graph)
    if options.form():
        print_json({"plan": plan, "valid": True, "checked": done})
        return
    for check in done:
        say(f"  ok  {check}")
    say(f"{plan}: valid")
