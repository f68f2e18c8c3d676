"""`plancc refine`: reads a plan, and writes a plan whose rows have better owners."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES
from plancc.fields import options_of
from plancc.options import RefineOptions
from plancc_cli import options
from plancc_cli.progress import command_line, progress, verbosity

OBJECTIVE = {"objective": {"type": options.NameIn("objective", OBJECTIVES)}}
"""Settings of the option whose choices differ from those of `compile`."""


@click.command(
    cls=options.Sections,
    sections={
        "Plan": ("output", "compress"),
        **options.sections_of(options_of(RefineOptions)),
        "Start from a part vector": ("part",),
        "Output": options.OUTPUT,
    },
)
@click.argument("plan", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@options.with_options(
    options.field_option(each, **OBJECTIVE.get(each.name, {})) for each in options_of(RefineOptions)
)
@click.option("--part", type=click.Path(), help="Part vector to start from; -1: plancc chooses.")
@click.option("--compress", is_flag=True, help="Compress the plan file (smaller, slower).")
@options.as_json
@verbosity
def command(plan: str, output: str, part: str | None, compress: bool, **settings: Any) -> None:
    """Search for better owners of the rows of PLAN, from its owners or from a part vector.

    If the first owners keep the allowed imbalance, the search never returns worse owners. Otherwise
    it first restores the balance, and the objective may then become worse.
    """
    import plancc
    from plancc.refinement import with_part
    from plancc.report.epochs import EpochTimes
    from plancc.report.provenance import decoded, reached, read_tried
    from plancc_cli.render import print_refinement
    from plancc_cli.tables import print_json

    options.check_plan_output(output, plan, part)
    start = wall_seconds()
    with progress(settings["budget"]) as shown:
        with shown.stage("read"):
            given = plancc.load(plan)
            if part is not None:
                given = with_part(given, part)
        better = plancc.refine(
            given,
            command=command_line(),
            observer=shown.stage,
            report=partial(shown.incumbent, "refine", settings["objective"]),
            **settings,
        )
        with shown.stage("write"):
            digest = better.save(output, compress=compress)
    seconds = wall_seconds() - start
    if not options.form():
        print_refinement(given, better, output, digest, seconds)
        return
    times, tried = EpochTimes.of_plan(better), read_tried(better.provenance)
    print_json(
        {
            "output": output,
            "content_sha256": digest,
            "refined_from": better.provenance["refined_from"],
            "seconds": seconds,
            "objective": settings["objective"],
            "improved": digest != better.provenance["refined_from"],
            "value": {"before": tried[0]["value"], "after": reached(tried)},
            "epoch": times.as_dict() | {"before_seconds": times.beside(given)},
            "metrics": {"before": given.metrics().figures(), "after": better.metrics().figures()},
            "provenance": decoded(better.provenance),
        }
    )
