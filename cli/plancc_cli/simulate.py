"""`plancc simulate`: how long an epoch takes on a machine, without running anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError
from plancc.predict.passes import COMMON_PASSES
from plancc_cli import options
from plancc_cli.sweep import refuse, run_sweep, sweep_options

if TYPE_CHECKING:
    from plancc.predict.machine import Machine
    from plancc.predict.predictor import Predictor

DEFAULT_MACHINE = "cpu-cluster"
"""Machine unless told otherwise."""
OF_ONE_PLAN = ("ranks", "dtype", "per_rank")
"""Parameters that a sweep does not have."""


@click.command()
@click.argument("plan", metavar="PLAN|GRAPH", required=False, type=click.Path())
@options.dims_option(
    "Widths d0,d1,...,dL of the layers.  [default: those that the plan was compiled for]"
)
@options.machine_option(
    f"A machine that comes with plancc, or a file of yours.  [default: {DEFAULT_MACHINE}]"
)
@click.option(
    "--passes",
    metavar="NAME,...",
    callback=lambda context, parameter, text: _parse_passes(text),
    help=f"Passes: {', '.join(COMMON_PASSES)}, or none.  [default: {','.join(COMMON_PASSES)}]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="Type of rows and weights.  [default: float32]",
)
@click.option("-p", "--ranks", type=int, help="Ranks, fewer than parts (parts are merged).")
@click.option("--ranks-per-node", type=click.IntRange(min=1), help="Replace those of the machine.")
@click.option("--per-rank", is_flag=True, help="One line for every rank.")
@options.as_json
@sweep_options
def command(
    plan: str | None,
    dims: list[int] | None,
    machine: Machine | None,
    passes: tuple[str, ...],
    ranks_per_node: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Predict the time of an epoch of PLAN, step by step, from its tables and a machine's numbers.

    With --sweep: of GRAPH, compiled with several models for several numbers of ranks.
    """
    from plancc.plan.reader import PlanFile
    from plancc.predict.machine_files import find_machine
    from plancc.predict.predictor import Predictor
    from plancc.report.provenance import recorded_dims

    chosen = machine or find_machine(DEFAULT_MACHINE)
    if ranks_per_node is not None:
        chosen = replace(chosen, node=replace(chosen.node, ranks=ranks_per_node))
    if given["sweep"] is not None:
        for name in OF_ONE_PLAN:
            if given.pop(name):
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} is for one plan: drop it, or --sweep")
        if dims is None:
            raise InputError(
                "--sweep needs the widths of the layers: give --dims such as 602,128,41"
            )
        run_sweep(plan, Predictor(dims, chosen, passes), as_json, given)
        return
    refuse(given)
    if plan is None:
        raise InputError("nothing to predict: give a plan, or a graph and --sweep")
    if _is_graph(plan):
        raise InputError(f"{plan}: a graph, not a plan: compile it first, or give --sweep p=4..64")
    if dims is None:
        with PlanFile(plan) as file:
            dims = recorded_dims(file.attributes("provenance"))
    if dims is None:
        raise InputError(
            f"{plan}: does not say the widths of the layers: give --dims such as 602,128,41"
        )
    _simulate(plan, Predictor(dims, chosen, passes), as_json, given)


def _is_graph(path: str) -> bool:
    from plancc.graph.formats import find_format

    try:
        return bool(find_format(path))
    except InputError:
        return False


def _simulate(plan: str, predictor: Predictor, as_json: bool, given: dict[str, Any]) -> None:
    from plancc.predict.schedules import read_tables
    from plancc_cli.render import print_json
    from plancc_cli.render_simulation import print_prediction

    word_bytes = 8 if given["dtype"] == "float64" else 4
    result = predictor.epoch(read_tables(plan, given["ranks"]), word_bytes)
    if as_json:
        print_json(result.as_dict(given["per_rank"]))
    else:
        print_prediction(result, given["per_rank"])


def _parse_passes(text: str | None) -> tuple[str, ...]:
    if text is None:
        return COMMON_PASSES
    passes = tuple(word for word in text.split(",") if word not in ("", "none"))
    for name in passes:
        if name not in COMMON_PASSES:
            raise InputError(f"--passes '{text}': give none, or of {', '.join(COMMON_PASSES)}")
    return passes
