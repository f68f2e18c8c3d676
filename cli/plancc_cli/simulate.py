"""`plancc simulate`: how long an epoch takes on a machine, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError
from plancc.predict.passes import COMMON_PASSES, DEAD_ROWS, PASSES
from plancc_cli import options
from plancc_cli.generated import flag_of, with_options
from plancc_cli.progress import verbosity
from plancc_cli.run_options import refuse_twice, run_option
from plancc_cli.sweep import is_given, refuse, run_sweep, sweep_options

APPROXIMATE = ("boundary_sampling", "fold", "delay")
"""Parameters that say what an epoch leaves out."""

if TYPE_CHECKING:
    from plancc.plan.convolutions import Convolution
    from plancc.plan.values import Header
    from plancc.predict.batches import BatchPrediction
    from plancc.predict.machine import Machine
    from plancc.predict.pipelines import Pipeline
    from plancc.predict.predictor import Predictor
    from plancc.predict.schedules import Approximation, LinkTask, Tables
    from plancc.report.epochs import Basis
    from plancc.sampling import Sampler

CONVOLUTION = ("model", "model_options", "aggregator", "heads")
"""Parameters that say what layers compute."""
LINK_TASK = ("task", "decoder", "negatives")
"""Parameters that say how links are learnt."""
OF_ONE_PLAN = (
    "ranks",
    "target",
    "split",
    "dtype",
    "per_rank",
    *APPROXIMATE,
    *CONVOLUTION,
    *LINK_TASK,
    "pipeline",
    "batches",
)
"""Parameters that a sweep does not have."""
OF_BATCHES = ("sampler", *options.sampler_fields(), "draw")
"""Parameters that say how mini-batches are drawn."""


@click.command()
@click.argument("plan", metavar="PLAN|GRAPH", required=False, type=click.Path())
@options.predicted_epoch
@click.option(
    "--passes",
    metavar="NAME,...",
    callback=lambda context, parameter, text: _parse_passes(text),
    help=f"Passes: {', '.join(COMMON_PASSES)} and, of row plans, {DEAD_ROWS}; or none.  [default: "
    f"{','.join(COMMON_PASSES)}]",
)
@with_options(
    run_option(name, default=None)
    for name in (*CONVOLUTION, *LINK_TASK, "target", "split", *APPROXIMATE)
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="Type of rows and weights.  [default: float32]",
)
@click.option(
    "--pipeline",
    metavar="auto|STAGES",
    help="Of a feature plan with one group: batches of rows whose messages and products overlap.",
)
@click.option(
    "--batches",
    type=click.IntRange(max=2**31 - 1),
    metavar="NUMBER",
    help="A step of training in mini-batches: the mean over the first ones of --seed.",
)
@options.sampling("the plan's own, or uniform")
@with_options([run_option("draw", default=None)])
@click.option("-p", "--ranks", type=int, help="Ranks; parts are merged if there are more.")
@click.option("--ranks-per-node", type=click.IntRange(min=1), help="Overrides the machine file.")
@click.option("--per-rank", is_flag=True, help="One line for every rank.")
@options.as_data
@verbosity
@sweep_options
def command(
    plan: str | None,
    dims: list[int] | None,
    machine: Machine | None,
    passes: tuple[str, ...],
    ranks_per_node: int | None,
    **given: Any,
) -> None:
    """Predict the time of an epoch of PLAN, step by step, from its tables and a machine's numbers.

    With --batches: of the mean step on a mini-batch.
    With --sweep: of GRAPH, compiled with several models for several numbers of ranks.
    """
    from plancc.plan.reader import PlanFile
    from plancc.predict.predictor import default_predictor
    from plancc.report.epochs import Basis
    from plancc.report.plans import check_plan

    def asked(predictor: Predictor) -> Predictor:
        if ranks_per_node is not None:
            predictor = with_node(predictor, ranks_per_node)
        return replace(predictor, passes=passes)

    if given["sweep"] is not None:
        if DEAD_ROWS in passes:
            raise InputError(
                f"--passes {','.join(passes)}: {DEAD_ROWS} is for one plan, not for --sweep"
            )
        for name in (*OF_ONE_PLAN, *OF_BATCHES):
            if is_given(given.pop(name)):
                raise InputError(f"{flag_of(name)} is for one plan: drop it, or --sweep")
        run_sweep(plan, asked(default_predictor(dims, machine)), given)
        return
    drawn = options.of_batches(given["batches"], {name: given.pop(name) for name in OF_BATCHES})
    seed, given["seed"] = given["seed"], None
    if given["batches"] is not None and seed is not None:
        drawn["seed"] = seed
    refuse(given)
    refuse_twice(given)
    if plan is None:
        raise InputError("nothing to predict: give a plan, or a graph and --sweep")
    if is_graph(plan):
        raise InputError(f"{plan}: a graph, not a plan: compile it first, or give --sweep p=4..64")
    task = None
    with PlanFile(plan) as file:
        check_plan(file)
        header = file.header
        told = {n: given[n] for n in (*LINK_TASK, "split") if given[n] is not None}
        if given["batches"] is None:
            task = link_task(header, told | ({} if seed is None else {"seed": seed}))
        basis = Basis.read(file, dims, machine, links=task is not None)
    if given["batches"] is None and task is None and given["split"] is None:
        refuse(given | {"seed": seed})
    if given["split"] is not None:
        given["split"] = _split(given, seed, passes)
    basis.check(f"{plan}: ")
    given["task"] = task
    _simulate(plan, replace(basis, predictor=asked(basis.predictor)), header, given, drawn)


def _split(
    given: dict[str, Any], seed: int | None, passes: tuple[str, ...]
) -> tuple[tuple[float, ...], int]:
    """Shares and seed of the training vertices that the pass for dead rows asks for."""
    from plancc_runtime.options import TrainOptions

    shares = given["split"]
    if DEAD_ROWS not in passes or given["batches"] is not None:
        raise InputError(f"`split` {','.join(map(str, shares))}: is for the pass {DEAD_ROWS}")
    return shares, TrainOptions.seed if seed is None else seed


def link_task(header: Header, told: dict[str, Any]) -> LinkTask | None:
    """How links are learnt, by these options of a run; None: vertices are."""
    from plancc.predict.schedules import LinkTask
    from plancc_runtime.options import TrainOptions, learns_links

    asked = TrainOptions(**told)
    if not learns_links(header, asked):
        return None
    return LinkTask(asked.decoder, asked.negatives, asked.seed)


def with_node(predictor: Predictor, ranks: int) -> Predictor:
    """The predictor for a machine with another number of ranks per node."""
    machine = predictor.machine
    return replace(predictor, machine=replace(machine, node=replace(machine.node, ranks=ranks)))


def is_graph(path: str) -> bool:
    """Whether a path has the name of a graph."""
    from plancc.graph.formats import find_format

    try:
        return bool(find_format(path))
    except InputError:
        return False


def _simulate(
    plan: str, basis: Basis, header: Header, given: dict[str, Any], drawn: dict[str, Any]
) -> None:
    from plancc.plan.reader import PlanFile
    from plancc.predict.schedules import read_tables
    from plancc_cli.render_simulation import print_prediction
    from plancc_cli.tables import print_data, rows_of

    approximation = _approximation(given)
    if approximation is not None and given["ranks"] is not None:
        raise InputError("--ranks cannot be combined with --boundary-sampling or --fold")
    dims, passes = basis.predictor.dims, basis.predictor.passes
    convolution = _convolution(plan, given, header)
    if header.types is not None:
        from plancc_runtime.typed_data import with_weights

        with PlanFile(plan) as file:
            convolution = with_weights(convolution, file, dims, given["target"])
    live = DEAD_ROWS in passes and given["batches"] is None
    tables = read_tables(
        plan,
        given["ranks"],
        copies=approximation is not None,
        live_layers=len(dims) - 1 if live else 0,
        target=given["target"],
        task=given["task"],
        split=given["split"],
    )
    predictor = replace(
        basis.predictor,
        approximation=approximation,
        convolution=convolution,
        pipeline=_pipeline(plan, tables, given["pipeline"]),
    )
    basis = replace(basis, predictor=predictor)
    word_bytes = 8 if given["dtype"] == "float64" else 4
    if given["batches"] is None:
        result = predictor.epoch(tables, word_bytes)
        bound = predictor.bound_of(tables, word_bytes)
    else:
        result = mean_step(
            plan, predictor, range(given["batches"]), word_bytes, given["ranks"], drawn
        )
        bound = result.bound
    form = options.form()
    if form:
        where = {"dims_from": basis.dims_from, "machine_from": basis.machine_from}
        figures = result.as_dict(given["per_rank"]) | {"bound_seconds": bound, **where}
        print_data(form, figures, rows_of(figures["ranks"], "rank") if given["per_rank"] else None)
    else:
        print_prediction(result, basis, bound, given["per_rank"])


def mean_step(
    plan: str,
    predictor: Predictor,
    numbers: Sequence[int],
    word_bytes: int,
    num_ranks: int | None,
    drawn: dict[str, Any],
) -> BatchPrediction:
    """The mean step on the mini-batches of these numbers; `drawn`: how they are drawn."""
    import numpy as np

    from plancc.predict.batches import predict_batches
    from plancc_runtime.layouts.draws import BY_OWNERS, check_draw, owners_are_quicker

    choice = drawn.pop("draw", "auto")

    def owners_draw(sampler: Sampler, tables: Tables) -> bool:
        check_draw(choice, sampler)
        if choice != "auto" or type(sampler) not in BY_OWNERS:
            return bool(choice == "owners")
        step = tables.expand.step
        most = np.array([step.messages_received.max(), step.received.max()])
        sizes = int(tables.rows.sum()), int(tables.nonzeros.sum()), tables.num_ranks
        return owners_are_quicker(sampler, *sizes, most)[0]

    return predict_batches(
        plan, predictor, numbers, owners_draw, num_ranks=num_ranks, word_bytes=word_bytes, **drawn
    )


def _approximation(given: dict[str, Any]) -> Approximation | None:
    """What the epoch leaves out; None: nothing."""
    from plancc.predict.schedules import Approximation

    if given["delay"] is not None and given["fold"] != "delayed":
        raise InputError(f"--delay {given['delay']}: give --fold delayed too")
    asked = {name: given[name] for name in APPROXIMATE if given[name] is not None}
    found = Approximation(**asked)
    return None if found.is_exact else found


def _convolution(plan: str, given: dict[str, Any], header: Header) -> Convolution:
    from plancc_runtime.options import TrainOptions

    asked = {name: given[name] for name in CONVOLUTION if given[name] is not None}
    told = TrainOptions(**asked)
    has_types = header.types is not None
    if has_types or given["target"] is not None:
        from plancc_runtime.execution.choice import check_layout

        others = {name: given[name] for name in ("target", *APPROXIMATE) if given[name] is not None}
        check_layout(header, replace(told, **others))
        if given["batches"] is not None:
            raise InputError(f"`batches` {given['batches']}: is for plans of one type of vertices")
    return options.convolution_of(told.model, told.conv_options(CONVOLUTION), has_types, plan)


def _pipeline(plan: str, tables: Tables, text: str | None) -> Pipeline | None:
    from plancc.plan.matrix import graph_of
    from plancc.plan.reader import PlanFile
    from plancc.predict.pipelines import Pipeline
    from plancc.predict.schedules import check_pipelined

    if text is None:
        return None
    if text != "auto" and not text.isdecimal():
        raise InputError(f"--pipeline '{text}': give auto, or a number of stages")
    check_pipelined(tables)
    with PlanFile(plan) as file:
        matrix = graph_of(file.read_plan())
    return Pipeline.of(matrix, None if text == "auto" else int(text))


def _parse_passes(text: str | None) -> tuple[str, ...]:
    if text is None:
        return COMMON_PASSES
    passes = tuple(word for word in text.split(",") if word != "none")
    for name in passes:
        if name not in PASSES:
            raise InputError(f"--passes '{text}': give none, or of {', '.join(PASSES)}")
    return passes
