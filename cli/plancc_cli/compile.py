"""`plancc compile`: reads a graph, and writes a plan."""

from __future__ import annotations

from dataclasses import Field, asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from plancc.clock import wall_seconds
from plancc.errors import InputError
from plancc.fields import options_of
from plancc.graph.links import OF_VALUES
from plancc.models import DEFAULT_MODEL, MODELS
from plancc.options import BATCHES
from plancc.partitioners.options import AUTO
from plancc_cli import options
from plancc_cli.progress import QUIET, command_line, progress, verbosity, verbosity_level
from plancc_cli.run import started_by_launcher
from plancc_runtime.launch import TIMEOUT

if TYPE_CHECKING:
    from plancc.owners.task import Task
    from plancc.plan.plan import Plan

TAKEN = options.taken()
"""Names of options that an option of a model cannot have."""
OF_MODELS: dict[str, dict[str, Field[Any]]] = {}
"""Options of all models, also of other packages: for every option, a dict from model to field."""
for who, kind in MODELS.loaded().items():
    for each in options_of(kind):
        if each.name not in TAKEN:
            OF_MODELS.setdefault(each.name, {})[who] = each
OF_BATCHES = [k for k, models in OF_MODELS.items() if any(MODELS[m].of_batches for m in models)]
"""Options of the models of mini-batches; the help shows them in one section."""
COMMON = (
    *("output", "parts", "model", "objective", "effort", "budget", "seed", "threads"),
    *("balance", "weights", "epsilon", "dims", "machine", "partitioner", "normalize"),
    *("data", "symmetrize", "transpose", "sampler", "batch_size", "quiet", "verbose"),
)
"""Options that people use first."""
BY_HAND = ("self_loops", "data", "split", "keys", "stop")
"""Options that this module defines itself, because their names or meanings differ."""
GIVEN_FILES = ("part", "weights", "fixed", "links", "link_times")
"""Options that name files to read, beside the graph and vertex data."""
OF_COMPILE = [each for name, each in options.FIELDS.items() if name not in BY_HAND]


def _sections() -> dict[str, tuple[str, ...]]:
    """Return, for the title of each section of the help, the names of the section's parameters."""
    found = options.sections_of(OF_COMPILE)
    return {
        "Plan": ("output", "parts", *found["Plan"], "compress"),
        "Model": ("model", *found["Model"], "no_self_loops"),
        "Search": found["Search"],
        "Partitioners": found["Partitioners"],
        "Balance": found["Balance"],
        "Vertex data": ("data", "no_data", "split_name", "edge_features"),
        "Links": found["Links"],
        options.READING_TOPIC: options.READING,
        BATCHES: (*options.SAMPLING, *OF_BATCHES, *found[BATCHES]),
        "Single models": tuple(OF_MODELS),
    }


@click.command(
    cls=options.Sections,
    sections=_sections(),
    common=COMMON,
    context_settings={"max_content_width": 100},
)
@click.argument("graph", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@click.option("-p", "--parts", required=True, type=int, help="Number of parts, one for each rank.")
@click.option(
    "--model",
    type=options.NameIn("model", MODELS),
    metavar="NAME",
    default=DEFAULT_MODEL,
    show_default=True,
    help=f"Partitioning model: {', '.join(MODELS)}.",
)
@options.with_options(
    options.option_of(*of_models.values(), who="" if name in OF_BATCHES else ", ".join(of_models))
    for name, of_models in OF_MODELS.items()
    if name not in options.SAMPLING
)
@options.sampling("uniform")
@options.with_options(map(options.field_option, OF_COMPILE))
@options.searching("data", otherwise="the data of GRAPH")
@click.option("--no-data", is_flag=True, help="Do not store GRAPH's vertex data.")
@click.option("--split-name", metavar="NAME", help="Name of the split, if the data have several.")
@click.option(
    "--timeout",
    default=TIMEOUT,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds that a rank waits for others, apart from partitioning; 0: no limit.",
)
@click.option("--no-self-loops", is_flag=True, help="Do not add self loops (the identity).")
@click.option("--compress", is_flag=True, help="Compress the plan file (smaller, slower).")
@options.reading
@options.as_json
@verbosity
def command(
    graph: str,
    output: str,
    parts: int,
    no_self_loops: bool,
    compress: bool,
    no_data: bool,
    split_name: str | None,
    timeout: float,
    **settings: Any,
) -> None:
    """Compile GRAPH into a communication plan.

    \b
        plancc compile graph.mtx -p 8 -o plan.h5
        mpirun -n 4 plancc compile folder -p 64 -o plan.h5   # see plancc convert

    For the best plan: --objective time --machine YOURS --effort best --budget 10m. An entry (i, j)
    means that row i needs row j. --transpose replaces every (i, j) by (j, i); --symmetrize keeps
    (i, j) and adds (j, i).
    """
    if settings["data"] and no_data:
        raise InputError("`data` and `no_data` exclude each other; give one of them")
    data, given_files = settings["data"], (settings[name] for name in GIVEN_FILES)
    inputs = graph, *given_files, *data
    settings |= {"data": data or (False if no_data else None), "split": split_name}
    settings["self_loops"] = not no_self_loops
    settings |= options.named_options(settings)
    unset = {*OF_MODELS, *options.SAMPLING}
    settings = {k: v for k, v in settings.items() if k not in unset or v is not None}
    if started_by_launcher():
        from plancc_cli.compile_ranks import compile_on_ranks

        compile_on_ranks(settings)
        return
    options.refuse_given(["timeout"], "is only for several ranks, which a launcher starts")
    options.check_plan_output(output, *inputs)
    import plancc
    from plancc.graph.folders import check_reading
    from plancc.graph.read_source import read_source
    from plancc.memory import give_back_at_once
    from plancc.owners.memory import allowed_memory
    from plancc_cli.render import print_summary
    from plancc_cli.tables import print_json

    reading = {name: settings.pop(name) for name in options.READING}
    model = settings.pop("model")
    settings = options.of_class(settings, MODELS[model].option_fields())
    task = _checked(model, parts, settings)
    options.check_inputs(*(path for path in inputs if path != OF_VALUES))
    start = wall_seconds()
    give_back_at_once()
    with progress(settings["budget"]) as shown:
        with shown.stage("read"):
            check_reading(graph, allowed_memory(settings["memory"]), format=reading["format"])
            reading |= {name: settings[name] for name in ("split", "edge_features")}
            source = read_source(graph, settings["data"], settings["link_times"], **reading)
        how: Any = {"command": command_line(), "observer": shown.stage}
        how["report"] = partial(shown.incumbent, *_searching(task))
        plan = plancc.compile(source, model, parts, **how, **settings)
        with shown.stage("write"):
            digest = plan.save(output, compress=compress)
    seconds = wall_seconds() - start
    if not options.form():
        print_summary(plan, output, digest, seconds, verbosity_level() == QUIET)
        return
    found = {"output": output, "content_sha256": digest, "seconds": seconds}
    print_json(found | _figures(plan, task.objective))


def _checked(model: str, parts: int, settings: dict[str, Any]) -> Task:
    """Check the options of a compilation, and return its task.

    Raises:
        InputError: If an option is wrong.
    """
    from plancc.owners.request import Request

    task = Request.of(model, parts, settings).task
    if task.model.problem is None and task.model.layout != "any":
        options.refuse_given(["time_limit"], f"only limits partitioners; '{task.name}' uses none")
    return task


def _searching(task: Task) -> tuple[str, str]:
    """Return the name of the search or partitioner, and of the objective, for progress lines."""
    named, goal = task.options.partitioner, task.objective
    who = named if named != AUTO else task.options.preset or task.name
    goal = goal or ("time" if task.model.layout == "any" else "volume")
    return task.effort if task.searches else who, "expected rows" if task.model.of_batches else goal


def _figures(plan: Plan, objective: str | None) -> dict[str, Any]:
    """Return the figures of a plan for ``--json``."""
    from plancc.report.costs import product_of
    from plancc.report.epochs import EpochTimes
    from plancc.report.provenance import decoded, reached, read_tried

    tried, product = read_tried(plan.provenance), product_of(plan)
    features = plan.edge_features
    return {
        "objective": objective or ("volume" if tried else None),
        "value": reached(tried),
        "tried": tried,
        "epoch": EpochTimes.of_plan(plan).as_dict(),
        "metrics": plan.metrics().figures(),
        "random": plan.baseline.figures() if plan.baseline else None,
        **({} if product is None else {"product": asdict(product)}),
        "vertex_data": plan.vertex_data.sizes(),
        **({} if features is None else {"edge_features": features.shape[1]}),
        "provenance": decoded(plan.provenance),
    }
