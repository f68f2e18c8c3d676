"""`plancc patch`: makes a new plan from an old plan and the changes of its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plancc.clock import wall_seconds
from plancc.errors import InputError
from plancc.fields import options_of
from plancc.options import PatchOptions
from plancc_cli import options
from plancc_cli.progress import command_line, progress, verbosity
from plancc_cli.words import say

if TYPE_CHECKING:
    from plancc.plan.plan import Plan

COUNTS = ("rows_moved", "rows_added", "rows_removed")
"""Names of the figures that the provenance of a patched plan has."""
LISTS: Any = {"type": click.Path(), "multiple": True, "metavar": "EDGES"}
"""Settings of --add and --remove; for plans with types, each relation has a file."""


@click.command(
    cls=options.Sections,
    sections={
        "Plan": ("output", "compress", "migration"),
        "Changes": ("graph", "add", "remove", "data"),
        **options.sections_of(options_of(PatchOptions)),
        "Output": options.OUTPUT,
    },
)
@click.argument("plan", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@click.option("--graph", type=click.Path(), help="The whole changed graph.")
@click.option("--add", **LISTS, help="Edges that the graph gains.")
@click.option("--remove", **LISTS, help="Edges that the graph loses, before it gains others.")
@options.searching("data", "Features, labels and masks of all vertices, if some vertices are new.")
@click.option(
    "--migration",
    type=click.Path(),
    metavar="FILE.csv",
    help="Write the rows that change their owner: row,from,to (-1: no part).",
)
@click.option("--compress", is_flag=True, help="Compress the plan file (smaller, slower).")
@options.with_options(options.field_option(each) for each in options_of(PatchOptions))
@options.as_json
@verbosity
def command(
    plan: str,
    output: str,
    graph: str | None,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    data: tuple[str, ...],
    migration: str | None,
    compress: bool,
    **settings: Any,
) -> None:
    """Make the plan of a changed graph from PLAN; few rows change their owner.

    EDGES is a file with lines "u v" or "u v weight"; u and v are ids of PLAN's source. For a plan
    with types, RELATION=EDGES gives the file of one relation; its lines begin with the destination.
    The file of --graph is read with the reading options that PLAN records; a folder of `plancc
    convert` needs no options.
    """
    import plancc
    from plancc.patching import moves_of, write_moves
    from plancc.report.provenance import decoded
    from plancc_cli.render import print_patch
    from plancc_cli.tables import print_json

    inputs = (plan, graph, *data, *(text.partition("=")[2] or text for text in (*add, *remove)))
    options.check_plan_output(output, *inputs)
    if migration is not None:
        options.check_output(migration, output, *inputs)
    start = wall_seconds()
    with progress(None) as shown:
        with shown.stage("read"):
            given = plancc.load(plan)
            lists = {"add": add, "remove": remove}
            settings |= {name: _edges(given, name, texts) for name, texts in lists.items()}
        how: dict[str, Any] = {"command": command_line(), "observer": shown.stage}
        patched = plancc.patch(given, graph, data=data or None, **how, **settings)
        rows = moves_of(given, patched)
        with shown.stage("write"):
            digest = patched.save(output, compress=compress)
            if migration is not None:
                write_moves(rows, migration)
    seconds = wall_seconds() - start
    if not options.form():
        print_patch(given, patched, output, digest, seconds)
        if migration is not None:
            say(f"{migration}: {len(rows):,} rows with another owner")
        return
    found, both = patched.provenance, {"before": given, "after": patched}
    figures = {
        "output": output,
        "content_sha256": digest,
        "patched_from": found["patched_from"],
        "seconds": seconds,
        **{name: found[name] for name in COUNTS},
        "metrics": {when: each.metrics().figures() for when, each in both.items()},
        "provenance": decoded(found),
    }
    print_json(figures)


def _edges(plan: Plan, name: str, texts: tuple[str, ...]) -> Any:
    """Return the file of --add or --remove (or None); with types, a dict of files by relation."""
    if plan.header.types is not None:
        return options.parsed_pairs(f"--{name}", texts, "RELATION=EDGES: the plan has types")
    if len(texts) > 1:
        raise InputError(f"--{name} '{texts[1]}': give one file only; the plan has no types")
    return texts[0] if texts else None
