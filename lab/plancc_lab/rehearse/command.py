"""`plancc rehearse`: executes epochs of a plan on this computer, for all ranks of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError, PlanccError
from plancc.fields import options_of
from plancc.predict.passes import COMMON_PASSES, DEAD_ROWS, DEFAULT_DIMS, DELAY, PASSES
from plancc_cli import options
from plancc_cli.progress import progress, verbosity
from plancc_cli.run_options import FIELDS, run_option
from plancc_cli.simulate import LINK_TASK, is_graph, link_task
from plancc_lab.simulate.command import mean_step

if TYPE_CHECKING:
    from plancc.plan.values import Header
    from plancc.predict.machine import Machine
    from plancc.predict.predictor import Predictor
    from plancc.predict.schedules import LinkTask, Tables
    from plancc.predict.simulation import Prediction
    from plancc.report.epochs import Basis
    from plancc_lab.rehearse.links import Links
    from plancc_runtime.execution.drawn import Drawn
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.results import Measure

WIDTHS = {
    "layers": "Number of layers.  [default: as many as --dims has]",
    "hidden": "Width of the hidden layers.  [default: that of --dims]",
    "random_features": "Width of features, for a plan without features.  [default: as --dims]",
    "classes": "Classes of random labels, or where not all occur.  [default: as --dims]",
}
"""Parameters that are widths, with their help texts in this command."""
LEFT_OUT = {"patience", "eval_every", "threads", "device", "aggregate_on"}
"""Fields of `TrainOptions` that a rehearsal lacks, besides options that name files to write."""
OF_RUNS = [
    name
    for name, field in FIELDS.items()
    if field.metadata["section"] != "Checkpoints and results" and name not in LEFT_OUT
]
"""Options of `plancc-run` that a rehearsal has too; they are hidden in its help."""
MOST_BATCHES = 100
"""Largest number of mini-batches of an epoch that are predicted."""
EPOCHS = 3
"""Default number of epochs."""
WORD_BYTES = {"float32": 4, "float64": 8, "bfloat16": 4}
"""Bytes of a word in the prediction that is shown beside the rehearsal."""
SLACK, PER_RANK, ONCE = 1.2, 4 << 20, 100 << 20
"""Factor on the predicted memory, for allocators; bytes of every rank, for its thread and Python
objects; bytes of all libraries. With them, 4 and 64 ranks took 0.7 to 0.9 of the estimate."""


def _options() -> Iterator[click.Option]:
    """Yield the options of training that a rehearsal accepts; the help does not show them."""
    for name in OF_RUNS:
        if name in WIDTHS:
            yield run_option(name, hidden=True, help=WIDTHS[name], default=None)
        elif name == "epochs":
            words, least = f"Number of epochs.  [default: {EPOCHS}]", click.IntRange(min=1)
            yield run_option(name, hidden=True, default=EPOCHS, type=least, help=words)
        else:
            yield run_option(name, hidden=True)


CPU_RATE = 1e10
"""Multiply-adds per second of sparse products that no core of a CPU reaches."""


@click.command(
    cls=options.Sections,
    epilog="The command also has the training options of plancc-run (see plancc-run --help all). "
    f"By default the widths are those of --dims, and {EPOCHS} epochs are executed.",
)
@click.argument("plan", type=click.Path())
@options.predicted_epoch
@click.option("--ranks", type=int, help="Number of ranks; surplus parts are merged.")
@click.option(
    "--trace",
    type=click.Path(),
    help="Write a timeline of all ranks in virtual time, for Perfetto or chrome://tracing.",
)
@click.option("--per-rank", is_flag=True, help="Print a line for every rank.")
@options.as_data
@verbosity
@options.with_options(_options())
def command(
    plan: str,
    machine: Machine | None,
    ranks: int | None,
    dims: list[int] | None,
    trace: str | None,
    per_rank: bool,
    **settings: Any,
) -> None:
    """Rehearse epochs of PLAN: execute all ranks on this computer, one rank after the other.

    Every rank really computes its products, and the CPU time of its thread is measured. Messages
    take the time that they would take on the given machine. Losses are the same as with plancc-run.
    """
    from plancc.predict.schedules import read_tables
    from plancc_cli.tables import print_data, rows_of
    from plancc_lab.rehearse.render import as_dict, print_rehearsal
    from plancc_runtime.launch import need_torch

    if is_graph(plan):
        raise InputError(f"{plan}: is a graph, not a plan; compile it first")
    need_torch("a rehearsal")
    from plancc_lab.rehearse.rehearsal import rehearse

    if trace is not None:
        options.check_output(trace, plan, settings["init"])
    basis, asked, drawn, task = _asked(plan, dims, machine, ranks, settings)
    predictor = basis.predictor
    tables = read_tables(
        plan,
        ranks,
        copies=predictor.approximation is not None and ranks is None,
        live_layers=len(predictor.dims) - 1 if DEAD_ROWS in predictor.passes and not drawn else 0,
        target=asked.target,
        task=task,
        split=None if asked.split is None else (asked.split, asked.seed),
    )
    if asked.exchange != "auto":
        tables = tables.flat() if asked.exchange == "flat" else replace(tables, topology=None)
    links = links_of(predictor.machine, tables.num_ranks)
    prediction, note = _predicted(predictor, tables, asked, drawn)
    check_memory(plan, prediction)
    with progress() as shown, shown.stage("rehearse"):

        def report(measure: Measure) -> None:
            shown.note(f"{measure.epoch + 1} of {asked.epochs} epochs, loss {measure.loss:.4f}")

        found = rehearse(plan, asked, links, report)
    if predictor.machine.multiply_adds > CPU_RATE:
        slower = (
            f"products are made by this computer, not by machine {predictor.machine.title}: only "
            "messages take that machine's time; plancc calibrate measures this computer"
        )
        note = f"{note}; {slower}" if note else slower
    if trace is not None:
        found.write_trace(trace)
    form = options.form()
    if form:
        figures = as_dict(basis, found, prediction, note)
        of_ranks = figures.pop("ranks") if form == "csv" else {}
        print_data(form, figures, rows_of(of_ranks, "rank") if per_rank else None)
    else:
        print_rehearsal(basis, tables, found, prediction, note, per_rank)


def _asked(
    plan: str,
    dims: list[int] | None,
    machine: Machine | None,
    ranks: int | None,
    settings: dict[str, Any],
) -> tuple[Basis, TrainOptions, Drawn | None, LinkTask | None]:
    """Return what the command line asks for: machine and widths, options, mini-batches, links.

    Mini-batches are None for full batches. Links are None without link prediction.
    """
    from plancc.plan.reader import PlanFile
    from plancc.predict.widths import DataWidths
    from plancc.report.epochs import Basis
    from plancc_runtime.execution.choice import agree
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.slices import run_header
    from plancc_runtime.tasks import task_of

    with PlanFile(plan) as file:
        header = run_header(file.header)
        task = link_task(header, {name: settings[name] for name in (*LINK_TASK, "seed")})
        links = task is not None
        basis, data = Basis.read(file, dims, machine, links), DataWidths.read(file)
        if links:
            data = DataWidths(data.features)
        size = file.checked_ranks(ranks)
    given = {name: settings.pop(name) for name in WIDTHS}
    if given["classes"] is None:
        basis.check(f"{plan}: ")
    first, *hidden, last = basis.predictor.dims
    layers = given["layers"] or len(hidden) + 1
    if links:
        hidden.append(last)
    if given["hidden"] is None and len(set(hidden)) > 1:
        widths = ",".join(map(str, basis.predictor.dims))
        raise InputError(
            f"`dims` {widths}: all hidden layers of a run{' and its output layer' * links} have "
            "the same width; give it by `hidden`"
        )
    width = given["hidden"] or (hidden[0] if hidden else DEFAULT_DIMS[1])
    features, classes = (
        given["random_features"] or first,
        given["classes"] or (width if links else last),
    )
    changed = [features, *[width] * (layers - 1), classes]
    if any(given.values()):
        basis = replace(basis, dims_from="given")
        try:
            data.check(changed)
        except InputError as error:
            raise InputError(f"{plan}: {error}") from None
    asked = TrainOptions(
        layers=layers,
        hidden=width,
        random_features=None if data.features else features,
        classes=given["classes"] if links or data.classes == classes else classes,
        **settings,
    )
    drawn = agree(plan, task_of(header, asked), size)
    predictor = replace(basis.predictor, dims=changed, **_epoch(asked, header))
    if header.types is not None:
        from plancc_runtime.tasks.types import with_weights

        with PlanFile(plan) as file:
            network = with_weights(predictor.convolution, file, changed, asked.target)
        predictor = replace(predictor, convolution=network)
    return replace(basis, predictor=predictor), asked, drawn, task


def _epoch(asked: TrainOptions, header: Header) -> dict[str, Any]:
    """Return the arguments of a `Predictor` for an epoch of this plan with these options."""
    from plancc.predict.schedules import Approximation
    from plancc_runtime.nn import model_of

    if asked.sampling.active:
        return {"passes": tuple(name for name in COMMON_PASSES if name in asked.passes)}
    known = PASSES if header.layout == "row" else COMMON_PASSES
    has_types = header.types is not None
    names = {*model_of(asked.model, has_types).option_names()} - {"order"}  # `passes` has it
    late = Approximation(fold=asked.fold, delay=asked.delay or DELAY)
    return {
        "passes": tuple(name for name in known if name in asked.passes),
        "approximation": None if late.is_exact else late,
        "convolution": options.convolution_of(asked.model, asked.conv_options(names), has_types),
    }


def _predicted(
    predictor: Predictor, tables: Tables, asked: TrainOptions, drawn: Drawn | None
) -> tuple[Prediction, str]:
    """Return the predicted epoch, and a note on what is predicted ("" if nothing is unusual).

    If the network cannot be predicted, the epoch of a GCN is predicted; the note says why.
    """
    word_bytes, why = WORD_BYTES[asked.dtype], ""
    if asked.sampling.active:
        why = " with a full batch"
    try:
        if drawn is not None:
            return _steps(predictor, tables, asked, drawn)
        found = predictor.epoch(tables, word_bytes)
    except InputError as error:
        passes = tuple(name for name in predictor.passes if name in COMMON_PASSES)
        plain = type(predictor)(predictor.dims, predictor.machine, passes)
        found = plain.epoch(tables, word_bytes)
        why = f", since the epoch itself is not predicted: {error}"
    return found, f"the prediction is that of a GCN{why}" if why else ""


def _steps(
    predictor: Predictor, tables: Tables, asked: TrainOptions, drawn: Drawn
) -> tuple[Prediction, str]:
    """Return the predicted epoch of training on mini-batches, and a note on how it was found."""
    number = min(drawn.per_epoch, MOST_BATCHES)
    batches = {each.name: getattr(drawn.sampler, each.name) for each in options_of(drawn.sampler)}
    batches |= {"sampler": drawn.sampler.name, "seed": asked.seed, "draw": asked.draw}
    step = mean_step(
        *(tables.name, predictor, range(number), WORD_BYTES[asked.dtype]),
        *(tables.num_ranks, batches),
    )
    of_epoch = [
        each._replace(slowest=drawn.per_epoch * each.slowest, mean=drawn.per_epoch * each.mean)
        for each in step.steps
    ]
    said = f"the prediction is {drawn.per_epoch:,} times the mean step on {number:,} mini-batches"
    return replace(step, steps=of_epoch), f"{said}; rehearsed ranks draw in their steps"


def links_of(machine: Machine, num_ranks: int) -> Links:
    """Return times of messages and speeds of the ranks of a machine, for a replay."""
    from plancc_lab.rehearse.collectives import collective_times
    from plancc_lab.rehearse.links import Link, Links

    seconds = collective_times(machine)
    return Links(
        ranks_per_node=machine.node.ranks,
        inside=Link(machine.inside_latency, machine.inside_bandwidth),
        between=Link(machine.latency, machine.bandwidth),
        injection=machine.injection,
        overlap=machine.overlap.communication,
        cores=machine.node.cores or machine.node.ranks,
        slowness=tuple((1 / machine.speeds(num_ranks)).tolist()),
        collective=lambda collective: seconds(*collective),
    )


def check_memory(plan: str, prediction: Prediction) -> None:
    """Raise PlanccError if the free memory is known, and too small for all ranks of a rehearsal."""
    from plancc.memory import available_memory
    from plancc_cli.tables import size

    ranks, there = prediction.schedule.num_ranks, available_memory()
    # what arrives in an epoch is kept once more
    needed = int(SLACK * prediction.memory_of_rank.sum()) + prediction.words * prediction.word_bytes
    needed += ranks * PER_RANK + ONCE
    if there is not None and needed > there:
        raise PlanccError(
            f"{plan}: rehearsing {ranks:,} ranks takes about {size(needed)}, but this computer "
            f"has only {size(there)} free; give fewer `ranks`, or smaller `dims`"
        )
