"""`plancc compile`: graph file to plan file."""

from __future__ import annotations

import math
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from plancc.errors import InputError
from plancc.models import MODELS
from plancc.models.weights import Balance
from plancc.partitioners import PARTITIONERS
from plancc_cli import options

AUTO = "auto"
MAX_SECONDS = 2_000_000  # what the system can wait for in one call


def _not_negative(
    context: click.Context, parameter: click.Parameter, value: float | None
) -> float | None:
    """Refuse what no range of click's refuses: NaN and infinity."""
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise click.BadParameter(f"{value:g} is not a number that is at least 0.")
    return value


@click.command()
@click.argument("graph", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@click.option("-p", "--parts", required=True, type=int, help="Number of parts (MPI ranks).")
@click.option(
    "--model",
    default="hp",
    show_default=True,
    type=options.NameIn("model", MODELS),
    help=f"What is partitioned: {', '.join(MODELS)}.",
)
@click.option("--objective", help="For gp: cut (edges) or volume (rows moved).  [default: cut]")
@click.option("--part", type=click.Path(), help="For file: a part vector, one number per line.")
@click.option(
    "--partitioner",
    default=AUTO,
    show_default=True,
    type=options.NameIn("partitioner", [AUTO, *PARTITIONERS]),
    help=f"For gp and hp: auto, {', '.join(PARTITIONERS)}.",
)
@click.option("--preset", metavar="NAME", help="Preset of the partitioner (its own names).")
@click.option(
    "--epsilon",
    default=0.01,
    show_default=True,
    callback=_not_negative,
    help="Allowed imbalance, max / mean - 1.",
)
@options.balancing(
    "nnz", "What parts share evenly", "Features, labels and masks (.npz) to carry in the plan."
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2**31 - 1),
    metavar="INTEGER",
    help="Same seed, same plan.",
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="INTEGER",
    help="Of the partitioner; more than one may give another plan in every run.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, MAX_SECONDS, min_open=True),
    metavar="SECONDS",
    callback=_not_negative,
    help="For the partitioner.  [default: 6 hours]",
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
    part: str | None,
    objective: str | None,
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
    from plancc_cli.render import print_json, print_summary

    options.check_output(output, graph, part, settings["data"])
    _check_needed(settings)
    model_options: dict[str, Any] = {"part": part, "objective": objective}
    start = time.perf_counter()
    with _progress() as observer, _warnings_on_stderr():
        with observer("read"):
            source = plancc.read_graph(
                graph, format, pattern=pattern, symmetrize=symmetrize, transpose=transpose
            )
        plan = plancc.compile(
            source,
            num_parts=parts,
            self_loops=not no_self_loops,
            command=_command(),
            observer=observer,
            **settings,
            **{name: value for name, value in model_options.items() if value is not None},
        )
        with observer("write"):
            digest = plan.save(output, compress=compress)
    seconds = time.perf_counter() - start
    if as_json:
        print_json(
            {
                "output": output,
                "content_sha256": digest,
                "seconds": seconds,
                "metrics": plan.metrics().as_dict(),
                "random": plan.baseline.as_dict() if plan.baseline else None,
                "provenance": plan.provenance,
            }
        )
    else:
        print_summary(plan, output, digest, seconds)


def _check_needed(settings: dict[str, Any]) -> None:
    """Refuse what no graph can make right: a wrong balance, options that the model cannot use."""
    Balance.parse(settings["balance"], settings["dims"])
    model, partitioner = settings["model"], settings["partitioner"]
    if MODELS[model].partitioners:
        return
    for option, given in (
        ("--partitioner", None if partitioner == AUTO else partitioner),
        ("--preset", settings["preset"]),
    ):
        if given is not None:
            raise InputError(f"{option} {given}: model '{model}' needs no partitioner")


def _command() -> str:
    """The command line as it was typed, for the provenance, which is UTF-8."""
    line = shlex.join(["plancc", *sys.argv[1:]])
    return line.encode("utf-8", "backslashreplace").decode()


@contextmanager
def _progress() -> Iterator[Any]:
    """An observer that shows the stage at work on stderr, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("") as status:

        @contextmanager
        def stage(name: str) -> Iterator[None]:
            start = time.perf_counter()
            status.update(f"{name} ...")
            yield
            if console.is_terminal:
                console.print(f"  {name}: {time.perf_counter() - start:.1f} s", style="dim")

        yield stage


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Show the compiler's warnings as they come, one line each."""
    from plancc.pipeline import PlanccWarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, PlanccWarning):
            click.echo(f"plancc: warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", PlanccWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
