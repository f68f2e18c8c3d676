"""`plancc predict`: predictions of a saved network for the vertices of a plan."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError
from plancc_cli import options
from plancc_cli.ranks import RankJob, checked_header
from plancc_cli.run_options import run_option
from plancc_cli.simulate import is_graph
from plancc_cli.words import predictions_line, say
from plancc_runtime import launch
from plancc_runtime.rowfiles import check_name

if TYPE_CHECKING:
    from plancc_runtime.transport.base import Transport


@click.command(cls=options.Sections)
@click.argument("plan", type=click.Path())
@click.option(
    "--weights",
    required=True,
    type=click.Path(),
    help="Weights that plancc-run --save has written; the file describes the network too.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="The file to write: .csv or .npz.  [default: stdout, with --ids]",
)
@click.option(
    "--ids",
    metavar="ID,...|FILE",
    help="Predict only these vertices: ids of the source, or a file with one id a line.",
)
@click.option(
    "--links",
    type=click.Path(),
    help="Score pairs, if the weights are for link prediction: a file with lines source,target.",
)
@options.with_options(
    [
        run_option("embeddings", help="Write the outputs of this layer (1: the first) too."),
        click.Option(
            ["--ranks"],
            type=click.IntRange(min=1),
            help="Ranks, as threads of this process.  [default: 1; for a grid plan, all its ranks]",
        ),
        *map(run_option, ("threads", "device", "timeout")),
    ]
)
def command(
    plan: str,
    weights: str,
    output: str | None,
    ids: str | None,
    links: str | None,
    embeddings: int | None,
    ranks: int | None,
    threads: int | None,
    device: str,
    timeout: float,
) -> None:
    """Predict the class of every vertex of PLAN, or its target values, with saved weights.

    \b
        plancc-run plan.h5 --epochs 100 --save weights.npz
        plancc predict other.h5 --weights weights.npz -o classes.csv
        plancc predict plan.h5 --weights weights.npz --ids 17,42 --ranks 4

    If classes are predicted, the output also has their probabilities. Every line begins with an id
    of the source, in the order of the source. The file of weights describes the network. Under
    mpirun or torchrun every process is a rank.
    """
    if is_graph(plan):
        raise InputError(f"{plan}: is a graph, not a plan; compile it first")
    if output is not None:
        check_name(output)
    if ranks is None:
        launch.check_no_singleton()
    header = checked_header(plan, ranks)
    if ranks is None and header is not None:
        ranks = 1 if header.grid is None else header.grid.num_ranks

    def work(transport: Transport) -> None:
        from plancc_runtime.predict import predict, score_links

        transport.check_alike({"output": output})
        with transport.agreement():
            if output is None and ids is None and links is None:
                raise InputError("-o: give the file to write, or give --ids to print predictions")
            if links is not None and (ids is not None or embeddings is not None):
                raise InputError("--links excludes --ids and --embeddings; drop --links or these")
            if output is not None:
                options.check_output(output, plan, weights, ids, links)
        with ExitStack() as stack:
            path = output or ""
            if not path:
                folder = stack.enter_context(TemporaryDirectory())
                path = transport.gather(os.path.join(folder, "answers.csv"))[0]
            execution: Any = {"threads": threads, "device": device}
            if links is not None:
                found = score_links(plan, weights, links, path, transport, **execution)
            else:
                found = predict(plan, weights, path, transport, embeddings, ids, **execution)
            if transport.rank:
                return
            if output is None:
                click.echo(Path(path).read_text(), nl=False)
        if links is not None:
            say(f"{output or 'stdout'}: {found.num_vertices:,} links scored", err=output is None)
            return
        line = predictions_line(output or "stdout", found.num_vertices, found.counts)
        if ids is not None:
            line += f"; {found.words:,} words sent, {found.words_of_all:,} for all vertices"
        say(line, err=output is None)

    job = RankJob("plancc predict", command)
    several = ranks if ranks != 1 else None
    sys.exit(job.run(several, "single" if ranks == 1 else "auto", timeout, work))
