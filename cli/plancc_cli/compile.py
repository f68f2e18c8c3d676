"""`plancc compile`: graph file to plan file."""

from __future__ import annotations

import time
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import click

from plancc.cost.objectives import OBJECTIVES
from plancc.models import MODELS
from plancc.models.auto import CANDIDATES
from plancc.options import EFFORT, EFFORTS, SearchOptions
from plancc.owners.grids import prepared
from plancc.owners.task import Task
from plancc.partitioners import PARTITIONERS
from plancc_cli import options
from plancc_cli.progress import command_line, progress

AUTO = "auto"
OF_MODELS = (
    *("part", "sampler", "batch_size", "fanouts", "walk_length", "keep"),
    *("batches", "theta", "delta", "grid", "threshold", "candidates"),
    *("replication", "sparse", "groups", "blocks"),
)
"""Options that a model may have."""


@click.command()
@click.argument("graph", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@click.option(
    "-p",
    "--parts",
    required=True,
    type=int,
    help="Number of parts (MPI ranks); of process grids and mop the ranks.",
)
@click.option(
    "--model",
    default="hp",
    show_default=True,
    type=options.NameIn("model", MODELS),
    help=f"What is partitioned: {', '.join(MODELS)}.",
)
@click.option(
    "--objective",
    metavar="NAME",
    help=f"What the plan shall have little of: {', '.join(OBJECTIVES)}; for gp also cut.  "
    "[default: volume; checkerboard: messages; auto: time; gp without --effort and --budget: cut]",
)
@click.option(
    "--effort",
    metavar="NAME",
    type=options.NameIn("effort", EFFORTS),
    help=f"How long to search: {', '.join(EFFORTS)}; gp then searches for volume.  "
    f"[default: {EFFORT}]",
)
@options.budget("For the search, or the refinement after --partitioner; best uses all of it.")
@options.sampling("uniform")
@click.option(
    "--batches",
    metavar="auto|NUMBER",
    callback=options.auto_or_number,
    help="For stochastic-hp: exact probabilities, or as many batches as it takes (auto), or the "
    "nets of so many batches.  [default: auto]",
)
@click.option(
    "--theta",
    type=float,
    help="For stochastic-hp: error of the expected connectivity.  [default: 0.1]",
)
@click.option(
    "--delta",
    type=float,
    help="For stochastic-hp: probability of a larger error.  [default: 0.5]",
)
@click.option(
    "--clusters", type=int, help="Carry so many clusters of vertices, for the sampler cluster."
)
@click.option(
    "--grid",
    metavar="RxC|RxCxL",
    help="For checkerboard, cagnet-2d and (with layers) cagnet-3d: the process grid.  "
    "[default: square, cube]",
)
@click.option(
    "--replication",
    type=int,
    metavar="C",
    help="For cagnet-1.5d: ranks that share a block of rows.  [default: 2]",
)
@click.option(
    "--sparse",
    is_flag=True,
    default=None,
    help="For cagnet-1d and -1.5d: send needed rows only, in messages.",
)
@click.option(
    "--groups",
    type=int,
    metavar="NUMBER",
    help="For mop: groups of ranks, which share the rows of the matrix.  [default: 1]",
)
@click.option(
    "--blocks",
    metavar="MODEL",
    help="For cagnet-* and mop: the row model that assigns rows to blocks; options of the search "
    "are its.  [default: rp]",
)
@click.option(
    "--threshold",
    type=click.IntRange(min=0),
    metavar="NONZEROS",
    help="For hub-split: heavier rows are split.  [default: 2% of an average part's nonzeros]",
)
@click.option(
    "--candidates",
    metavar="MODEL,...",
    help=f"For auto: the models that compete.  [default: {','.join(CANDIDATES)}]",
)
@click.option(
    "--part",
    type=click.Path(),
    help="For file, and --blocks file: a part vector, one number per line.",
)
@click.option(
    "--partitioner",
    default=AUTO,
    show_default=True,
    type=options.NameIn("partitioner", [AUTO, *PARTITIONERS]),
    help=f"For the searched models: auto (search), or one alone: {', '.join(PARTITIONERS)}.",
)
@click.option("--preset", metavar="NAME", help="Preset of the partitioner (its own names).")
@options.epsilon(0.01)
@options.balancing(
    None,
    "What parts share evenly  [default: nnz; objective time: work]",
    "Features, labels and masks (.npz) to carry in the plan.",
    "Widths d0,d1,...,dL of the layers, for balance work and objective time.",
)
@options.machine_option("Latency, bandwidth and multiply_adds, for objective time.")
@options.topology_option("Number parts so that those which exchange much share a node, as 4x8.")
@options.seed
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="INTEGER",
    help="Of search and partitioner; more than one may give another plan in every run.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, options.MAX_SECONDS, min_open=True),
    metavar="SECONDS",
    callback=options.not_negative,
    help="For one native partitioner.  [default: 6 hours]",
)
@options.normalizing("sym")
@click.option("--no-self-loops", is_flag=True, help="Do not add the identity.")
@click.option(
    "--value-dtype",
    default="float32",
    show_default=True,
    type=click.Choice(("float32", "float64")),
    help="Of the matrix in the plan.",
)
@click.option("--compress", is_flag=True, help="Deflate the plan file (smaller, slower).")
@options.reading
@options.as_json
def command(
    graph: str,
    output: str,
    parts: int,
    no_self_loops: bool,
    compress: bool,
    format: str | None,
    pattern: bool,
    symmetrize: bool,
    transpose: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Compile GRAPH into a communication plan."""
    import plancc
    from plancc.report.costs import product_of
    from plancc.report.provenance import decoded, reached, read_tried
    from plancc_cli.render import print_json, print_summary

    options.check_output(output, graph, settings["part"], settings["data"])
    for name in OF_MODELS:
        if settings[name] is None:
            del settings[name]
    task = _task(parts, settings)
    named = task.options.partitioner
    who = named if named != AUTO else task.options.preset or task.name
    if task.searches:
        who = task.effort
    start = time.perf_counter()
    with progress() as shown:
        with shown.stage("read"):
            source = plancc.read_graph(
                graph, format, pattern=pattern, symmetrize=symmetrize, transpose=transpose
            )
        plan = plancc.compile(
            source,
            num_parts=parts,
            self_loops=not no_self_loops,
            command=command_line(),
            observer=shown.stage,
            report=partial(shown.incumbent, who, task.objective or "volume"),
            **settings,
        )
        with shown.stage("write"):
            digest = plan.save(output, compress=compress)
    seconds = time.perf_counter() - start
    if as_json:
        tried, product = read_tried(plan.provenance), product_of(plan)
        print_json(
            {
                "output": output,
                "content_sha256": digest,
                "seconds": seconds,
                "objective": task.objective or ("volume" if tried else None),
                "value": reached(tried),
                "tried": tried,
                "metrics": plan.metrics().figures(),
                "random": plan.baseline.figures() if plan.baseline else None,
                **({} if product is None else {"product": asdict(product)}),
                "provenance": decoded(plan.provenance),
            }
        )
    else:
        print_summary(plan, output, digest, seconds)


def _task(parts: int, settings: dict[str, Any]) -> Task:
    """How owners will be found; refuses what no graph can make right."""
    of_model = {name: settings[name] for name in OF_MODELS if name in settings}
    names = {field.name for field in fields(SearchOptions)} & settings.keys()
    options = SearchOptions(**{name: settings[name] for name in names})
    _, task, _ = prepared(settings["model"], parts, of_model, options, settings["balance"])
    return task
