"""`plancc simulate`: predicts how long an epoch takes on a machine, without running the epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError
from plancc.predict.passes import COMMON_PASSES, DEAD_ROWS, PASSES
from plancc_cli import options
from plancc_cli.run_options import refuse_twice, run_option

APPROXIMATE = ("boundary_sampling", "fold", "delay")
"""Parameters of approximate epochs, which leave out messages."""

if TYPE_CHECKING:
    from plancc.plan.convolutions import Convolution
    from plancc.plan.values import Header
    from plancc.predict.pipelines import Pipeline
    from plancc.predict.schedules import Approximation, LinkTask, Tables
    from plancc.predict.simulation import Prediction
    from plancc.report.epochs import Basis

CONVOLUTION = ("model", "model_options", "aggregator", "heads")
"""Parameters of the layers."""
LINK_TASK = ("task", "decoder", "negatives")
"""Parameters of link prediction."""


@click.command(cls=options.Sections)
@click.argument("plan", type=click.Path())
@options.predicted_epoch
@click.option(
    "--passes",
    metavar="NAME,...",
    callback=lambda context, parameter, text: _parse_passes(text),
    help=f"Passes: {', '.join(COMMON_PASSES)}; for row plans also {DEAD_ROWS}; or none.  [default: "
    f"{','.join(COMMON_PASSES)}]",
)
@options.with_options(
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
    help="For a feature plan with one group: stages of its pipeline; auto: chosen from the matrix.",
)
@click.option("--ranks", type=int, help="Number of ranks; surplus parts are merged.")
@click.option("--per-rank", is_flag=True, help="Print a line for every rank.")
@options.as_data
@options.searching("seed", default=None)
def command(plan: str, **given: Any) -> None:
    """Predict the time of an epoch of PLAN on a machine, step by step, without running it."""
    show_epoch(plan, given)


def show_epoch(plan: str, given: dict[str, Any]) -> None:
    """Predict an epoch with the options of `command`, and print the prediction."""
    basis, tables, word_bytes = prepared(plan, given)
    result = basis.predictor.epoch(tables, word_bytes)
    show(result, basis, basis.predictor.bound_of(tables, word_bytes), given["per_rank"])


def prepared(plan: str, given: dict[str, Any], *, epoch: bool = True) -> tuple[Basis, Tables, int]:
    """Return what a prediction needs: machine and widths, tables, and bytes of a word.

    `epoch`: whether a whole epoch is predicted, not a step. Only the prediction of a whole epoch
    takes link prediction and the pass "dead-rows" into account.
    """
    from plancc.plan.reader import PlanFile
    from plancc.predict.schedules import read_tables
    from plancc.report.epochs import Basis
    from plancc.report.plans import check_plan

    refuse_twice(given)
    if is_graph(plan):
        raise InputError(f"{plan}: is a graph, not a plan; compile it first")
    seed, task, split = given["seed"], None, None
    with PlanFile(plan) as file:
        check_plan(file)
        header = file.header
        told = {n: given[n] for n in (*LINK_TASK, "split", "seed") if given[n] is not None}
        if epoch:
            task = link_task(header, told)
        basis = Basis.read(file, given["dims"], given["machine"], links=task is not None)
    if epoch and seed is not None and task is None and given["split"] is None:
        raise InputError(f"`seed` {seed}: nothing is random without links or `split`; drop `seed`")
    live = epoch and DEAD_ROWS in given["passes"]
    if given["split"] is not None:
        split = _split(given, seed, live)
    basis.check(f"{plan}: ")
    approximation = _approximation(given)
    if approximation is not None and given["ranks"] is not None:
        raise InputError("--ranks excludes --boundary-sampling and --fold; drop --ranks or these")
    dims = basis.predictor.dims
    convolution = _convolution(given, header)
    if header.types is not None:
        from plancc_runtime.tasks.types import with_weights

        with PlanFile(plan) as file:
            convolution = with_weights(convolution, file, dims, given["target"])
    tables = read_tables(
        plan,
        given["ranks"],
        copies=approximation is not None,
        live_layers=len(dims) - 1 if live else 0,
        target=given["target"],
        task=task,
        split=split,
    )
    predictor = replace(
        basis.predictor,
        passes=given["passes"],
        approximation=approximation,
        convolution=convolution,
        pipeline=_pipeline(plan, tables, given["pipeline"]),
    )
    return replace(basis, predictor=predictor), tables, 8 if given["dtype"] == "float64" else 4


def show(result: Prediction, basis: Basis, bound: float, per_rank: bool, **words: Any) -> None:
    """Print a prediction as text, JSON or CSV.

    Parameters:
        bound, per_rank, words: See `print_prediction`.
    """
    from plancc_cli.render_simulation import print_prediction
    from plancc_cli.tables import print_data, rows_of

    form = options.form()
    if form:
        where = {"dims_from": basis.dims_from, "machine_from": basis.machine_from}
        figures = result.as_dict(per_rank) | {"bound_seconds": bound, **where}
        print_data(form, figures, rows_of(figures["ranks"], "rank") if per_rank else None)
    else:
        print_prediction(result, basis, bound, per_rank, **words)


def _split(given: dict[str, Any], seed: int | None, live: bool) -> tuple[tuple[float, ...], int]:
    """Return the shares in the option `split`, and the seed that draws the vertices of each split.

    Raises InputError if `live` is false, i.e. the pass `DEAD_ROWS` is off, since only this pass
    depends on the shares.
    """
    from plancc_runtime.options import TrainOptions

    shares = given["split"]
    if not live:
        raise InputError(f"`split` {','.join(map(str, shares))}: only the pass {DEAD_ROWS} uses it")
    return shares, TrainOptions.seed if seed is None else seed


def link_task(header: Header, told: dict[str, Any]) -> LinkTask | None:
    """Return the task of link prediction; None if a run with options `told` predicts no links."""
    from plancc.predict.schedules import LinkTask
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.tasks import learns_links

    asked = TrainOptions(**told)
    if not learns_links(header, asked):
        return None
    return LinkTask(asked.decoder, asked.negatives, asked.seed)


def is_graph(path: str) -> bool:
    """Return whether a path has the extension of a graph, or is a folder that holds a graph."""
    from plancc.graph.formats import find_format

    try:
        return bool(find_format(path))
    except InputError:
        return False


def _approximation(given: dict[str, Any]) -> Approximation | None:
    """Return how the epoch approximates its exchanges of rows; None if the epoch is exact."""
    from plancc.predict.schedules import Approximation

    if given["delay"] is not None and given["fold"] != "delayed":
        raise InputError(f"--delay {given['delay']}: give --fold delayed too")
    asked = {name: given[name] for name in APPROXIMATE if given[name] is not None}
    found = Approximation(**asked)
    return None if found.is_exact else found


def _convolution(given: dict[str, Any], header: Header) -> Convolution:
    from plancc_runtime.options import TrainOptions

    asked = {name: given[name] for name in CONVOLUTION if given[name] is not None}
    told = TrainOptions(**asked)
    has_types = header.types is not None
    if has_types or given["target"] is not None:
        from plancc_runtime.execution.choice import check_layout
        from plancc_runtime.tasks import task_of

        others = {name: given[name] for name in ("target", *APPROXIMATE) if given[name] is not None}
        check_layout(task_of(header, replace(told, **others)))
    return options.convolution_of(told.model, told.conv_options(CONVOLUTION), has_types)


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
            raise InputError(f"--passes '{text}': give 'none', or some of {', '.join(PASSES)}")
    return passes
