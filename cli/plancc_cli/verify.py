"""`plancc verify`: check every invariant of a plan file."""

from __future__ import annotations

import os
from typing import Any

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
@options.reading
@options.as_data
def command(plan: str, against: str | None, format: str | None, **flags: Any) -> None:
    """Check every invariant of PLAN.

    With --against, the graph is read as the plan records it (--symmetrize and the like; --format
    if the file has the same name), unless such options are given.
    """
    from plancc.graph.csr import not_converted
    from plancc.graph.formats import FORMATS, LARGE, read_graph, reading_of
    from plancc.plan.reader import PlanFile
    from plancc.plan.verify import verify_file
    from plancc_cli.tables import print_data

    graph = None
    if against is None:
        options.refuse_given(options.READING, "is for the graph of `against`")
    else:
        with PlanFile(plan) as file:
            provenance = file.attributes("provenance")
        if not any(value for name, value in flags.items() if name != LARGE):
            flags |= reading_of(str(provenance.get("source_reading", "")))
            if provenance.get("source_format") != "csr":  # a folder is read as it was converted
                flags = not_converted(against, flags)
        same_name = os.path.basename(against) == provenance.get("source_name")
        if format is None and same_name and provenance.get("source_format") in FORMATS:
            format = provenance["source_format"]
        graph = read_graph(against, format, **flags)
    done = verify_file(plan, graph)
    form = options.form()
    if form:
        print_data(form, {"plan": plan, "valid": True, "checked": done})
        return
    for check in done:
        say(f"  ok  {check}")
    say(f"{plan}: valid")
