"""`plancc compile`: graph file to plan file."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from plancc.graph.graph import NORMALIZATIONS
from plancc.models import MODELS
from plancc.partitioners import PARTITIONERS
from plancc_cli import options


@click.command()
@click.argument("graph", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@click.option("-p", "--parts", required=True, type=int, help="Number of parts (MPI ranks).")
@click.option(
    "--model",
    default="hp",
    show_default=True,
    metavar="NAME",
    help=f"What is partitioned: {', '.join(MODELS)}.",
)
@click.option("--objective", help="For gp: cut (edges) or volume (rows moved).  [default: cut]")
@click.option("--part", type=click.Path(), help="For file: a part vector, one number per line.")
@click.option(
    "--partitioner",
    default="auto",
    show_default=True,
    metavar="NAME",
    help=f"For gp and hp: auto, {', '.join(PARTITIONERS)}.",
)
@click.option("--preset", metavar="NAME", help="Preset of the partitioner (its own names).")
@click.option(
    "--epsilon", default=0.01, show_default=True, help="Allowed imbalance, max / mean - 1."
)
@click.option(
    "--balance",
    default="nnz",
    show_default=True,
    metavar="NAME",
    help="What parts share evenly: nnz, rows, or weights (the graph's own).",
)
@click.option("--seed", default=1, show_default=True, help="Same seed, same plan.")
@click.option(
    "--threads",
    default=1,
    show_default=True,
    help="Of the partitioner; more than one may give another plan in every run.",
)
@click.option("--time-limit", type=float, metavar="SECONDS", help="For the partitioner.  [6 hours]")
@click.option(
    "--normalize",
    default="sym",
    show_default=True,
    type=click.Choice(NORMALIZATIONS),
    help="D^-1/2 (A+I) D^-1/2, row mean, or nothing.",
)
@click.option("--no-self-loops", is_flag=True, help="Do not add the identity.")
@click.option(
    "--data", type=click.Path(), help="Features, labels and masks (.npz) to carry in the plan."
)
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
    from plancc.files import check_target
    from plancc_cli.render import print_json, print_summary

    check_target(output)
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
            command=shlex.join(["plancc", *sys.argv[1:]]),
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
