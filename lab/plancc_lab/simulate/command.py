"""`plancc simulate` of plancc_cli, extended by steps on mini-batches and by sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError
from plancc.predict.passes import DEAD_ROWS
from plancc_cli import options
from plancc_cli import simulate as core
from plancc_cli.progress import quiet
from plancc_cli.run_options import run_option
from plancc_lab.simulate.sweep_command import is_given, refuse, run_sweep, sweep_options

if TYPE_CHECKING:
    from plancc.predict.predictor import Predictor
    from plancc.predict.schedules import Tables
    from plancc.sampling import Sampler
    from plancc_lab.simulate.batches import BatchPrediction

OF_BATCHES = (*options.SAMPLING, "draw")
"""Parameters of drawing mini-batches."""
OF_ONE_PLAN = (
    *("ranks", "target", "split", "dtype", "per_rank", "pipeline"),
    *(*core.APPROXIMATE, *core.CONVOLUTION, *core.LINK_TASK),
    *("batches", *OF_BATCHES),
)
"""Parameters that cannot be combined with a sweep."""
FIGURES = {"seconds": "step", "words": "words", "words_drawn": "words for drawing"}
"""Figures of a mini-batch, with words for each."""


@click.command(cls=options.Sections, sections={options.READING_TOPIC: options.READING_FLAGS})
@click.argument("plan", metavar="PLAN|GRAPH", required=False, type=click.Path())
@options.with_options(each for each in core.command.params if isinstance(each, click.Option))
@click.option(
    "--batches",
    type=click.IntRange(max=2**31 - 1),
    metavar="NUMBER",
    help="Predict the mean step of mini-batch training, over this many batches of --seed.",
)
@options.sampling("the plan's own, or uniform")
@options.with_options([run_option("draw", default=None)])
@sweep_options
@quiet
def command(plan: str | None, **given: Any) -> None:
    """Predict the time of an epoch of PLAN on a machine, step by step, without running the epoch.

    With --batches, predict the mean step on a mini-batch. With --sweep, find owners for GRAPH with
    several models and numbers of ranks, and predict each epoch.
    """
    if given["sweep"] is not None:
        _sweep(plan, given)
        return
    drawn = options.of_batches(given["batches"], {name: given[name] for name in OF_BATCHES})
    refuse(given)
    if plan is None:
        raise InputError("there is nothing to predict; give a plan, or a graph and --sweep")
    if core.is_graph(plan):
        raise InputError(f"{plan}: is a graph, not a plan; compile it, or give --sweep p=4..64")
    if given["batches"] is None:
        core.show_epoch(plan, given)
    else:
        _show_step(plan, given, drawn)


def _sweep(graph: str | None, given: dict[str, Any]) -> None:
    from plancc.predict.predictor import default_predictor

    passes = given["passes"]
    if DEAD_ROWS in passes:
        raise InputError(
            f"--passes {','.join(passes)}: drop {DEAD_ROWS}, which cannot be combined with --sweep"
        )
    for name in OF_ONE_PLAN:
        if is_given(given[name]):
            raise InputError(f"{options.flag_of(name)} cannot be combined with --sweep; drop one")
    predictor = default_predictor(given["dims"], given["machine"])
    run_sweep(graph, replace(predictor, passes=passes), given)


def _show_step(plan: str, given: dict[str, Any], drawn: dict[str, Any]) -> None:
    """Predict the mean step on mini-batches, and print it."""
    from plancc.plan.reader import PlanFile

    with PlanFile(plan) as file:
        if file.header.types is not None:
            raise InputError(f"`batches` {given['batches']}: needs a plan without types")
    if given["seed"] is not None:
        drawn["seed"] = given["seed"]
    basis, _, word_bytes = core.prepared(plan, given, epoch=False)
    numbers = range(given["batches"])
    result = mean_step(plan, basis.predictor, numbers, word_bytes, given["ranks"], drawn)
    head = (
        f"mini-batches: the first {len(result.batches):,} of seed {result.seed}, sampler "
        f"{result.sampler}"
    )
    words = {"what": "step", "head": [head], "foot": [_of_batches(result)]}
    core.show(result, basis, result.bound, given["per_rank"], **words)


def _of_batches(prediction: BatchPrediction) -> str:
    """Return a line about the seconds and words of a step, with 95% intervals."""
    from plancc_cli.tables import duration, number

    said, expected = [], prediction.expected_words
    for name, figure in prediction.estimates.items():
        shown = duration if name == "seconds" else number
        spread = ""
        if figure.low is not None and figure.high is not None:
            spread = f" (95%: {shown(figure.low)} to {shown(figure.high)})"
        if figure.mean or name == "words":
            said.append(f"{FIGURES[name]} {shown(figure.mean)}{spread}")
    if expected is not None:
        said.append(f"expected words {number(expected)}, exactly")
    return "; ".join(said)


def mean_step(
    plan: str,
    predictor: Predictor,
    numbers: Sequence[int],
    word_bytes: int,
    num_ranks: int | None,
    drawn: dict[str, Any],
) -> BatchPrediction:
    """Return the predicted mean step on the mini-batches `numbers`, counted from 0."""
    from plancc_lab.simulate.batches import predict_batches
    from plancc_runtime.layouts.draws import BY_OWNERS, check_draw, owners_are_quicker

    choice = drawn.pop("draw", "auto")

    def owners_draw(sampler: Sampler, tables: Tables) -> bool:
        check_draw(choice, sampler)
        if choice != "auto" or type(sampler) not in BY_OWNERS:
            return bool(choice == "owners")
        step = tables.expand.step
        most = int(step.messages_received.max()), int(step.received.max())
        sizes = int(tables.rows.sum()), int(tables.nonzeros.sum()), tables.num_ranks
        return owners_are_quicker(sampler, *sizes, most)[0]

    return predict_batches(
        plan, predictor, numbers, owners_draw, num_ranks=num_ranks, word_bytes=word_bytes, **drawn
    )
