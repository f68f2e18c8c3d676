"""`plancc refine`: plan file to a plan file with better owners."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError
from plancc.fields import options_of
from plancc.options import RefineOptions
from plancc_cli import options
from plancc_cli.progress import command_line, progress, verbosity

OF_GRAPHS = ("parts", "normalize", "no_self_loops", "data", *options.READING)
"""Parameters that are for a graph."""


OBJECTIVE = {"objective": {"type": options.NameIn("objective", OBJECTIVES)}}
"""Settings of the option that is not as for `compile`."""


@click.command(
    cls=options.Sections,
    sections={
        "Plan": ("output", "compress"),
        **options.sections_of(options_of(RefineOptions)),
        "Start from a part vector": ("part", "parts", "fixed"),
        "Graph file": ("data", "normalize", "no_self_loops", *options.READING),
        "Output": options.OUTPUT,
    },
)
@click.argument("source", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@options.with_options(
    options.field_option(each, **OBJECTIVE.get(each.name, {})) for each in options_of(RefineOptions)
)
@click.option(
    "--part",
    type=click.Path(),
    help="Part vector to start from; SOURCE may then be a graph. -1, of a plan: choose.",
)
@options.searching("fixed", "Parts of rows that never move, a number a line; -1: this row may.")
@click.option(
    "-p",
    "--parts",
    type=int,
    help="Number of parts of a graph.  [default: the highest in --part, plus 1]",
)
@options.searching(
    "data", "Features, labels and masks of a graph, to store in the plan (as for compile)."
)
@options.searching("normalize")
@click.option("--no-self-loops", is_flag=True, help="Do not add the identity to a graph.")
@click.option("--compress", is_flag=True, help="Deflate the plan file (smaller, slower).")
@options.reading
@options.as_data
@verbosity
def command(
    source: str,
    output: str,
    part: str | None,
    fixed: str | None,
    parts: int | None,
    data: tuple[str, ...],
    normalize: str,
    no_self_loops: bool,
    compress: bool,
    **settings: Any,
) -> None:
    """Search for better owners of the rows of the plan SOURCE, starting from its own.

    With --part the search starts from a part vector; SOURCE may then be a graph, which is compiled
    first. The result is never worse than the start.
    """
    import plancc
    from plancc.graph.partvector import read_part_vector
    from plancc.refinement import with_part
    from plancc.report.epochs import EpochTimes
    from plancc.report.provenance import decoded, reached, read_tried
    from plancc_cli.render import print_refinement
    from plancc_cli.tables import print_data

    options.check_plan_output(output, source, part, fixed, *data)
    reading = {name: settings.pop(name) for name in options.READING}
    of_graph = options.is_no_plan(source)
    if of_graph and part is None:
        raise InputError(f"{source}: not a plan; to refine owners of a graph, give them by `part`")
    if not of_graph:
        options.refuse_given(OF_GRAPHS, f"is for a graph; {source} is a plan")
    start = wall_seconds()
    with progress(settings["budget"]) as shown:
        if of_graph:
            with shown.stage("read"):
                graph = plancc.read_graph(source, **reading)
                assert part is not None
                if parts is None:
                    parts = int(read_part_vector(part, graph.num_vertices).max()) + 1
            given = plancc.compile(
                graph,
                "file",
                parts,
                part=part,
                normalize=normalize,
                self_loops=not no_self_loops,
                data=data or False,
                observer=shown.stage,
            )
        else:
            with shown.stage("read"):
                given = plancc.load(source)
                if part is not None:
                    given = with_part(given, part)
        better = plancc.refine(
            given,
            fixed=fixed,
            command=command_line(),
            observer=shown.stage,
            report=partial(shown.incumbent, "refine", settings["objective"]),
            **settings,
        )
        with shown.stage("write"):
            digest = better.save(output, compress=compress)
    seconds = wall_seconds() - start
    form = options.form()
    if not form:
        print_refinement(given, better, output, digest, seconds)
        return
    times, tried = EpochTimes.of_plan(better), read_tried(better.provenance)
    print_data(
        form,
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
        },
    )
