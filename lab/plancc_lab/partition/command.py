"""`plancc partition`: partitions the hypergraph in a file, and writes a part vector."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from plancc_cli import options
from plancc_cli.progress import progress, verbosity
from plancc_cli.words import say


@click.command(cls=options.Sections)
@click.argument("hypergraph", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The part vector to write.")
@click.option("-p", "--parts", required=True, type=int, help="Number of parts.")
@click.option(
    "--part", type=click.Path(), help="Part vector to start from; -1 lets plancc choose the part."
)
@click.option(
    "--fixed", type=click.Path(), help="Part vector of fixed vertices; -1: the vertex may move."
)
@options.searching("epsilon")
@options.searching("effort")
@options.searching("budget")
@options.searching("seed")
@options.searching("threads")
@click.option(
    "--allow-large",
    is_flag=True,
    help="Accept a file that declares far more than its size suggests.",
)
@options.as_json
@verbosity
def command(
    hypergraph: str,
    output: str,
    parts: int,
    part: str | None,
    fixed: str | None,
    allow_large: bool,
    **search: Any,
) -> None:
    """Partition the hypergraph in an hMETIS file so that its connectivity-1 cut is small.

    The cut is the sum over all nets of cost x (number of the net's parts - 1). With 2 parts it is
    the total cost of the nets that touch both parts. No part weighs more than (1 + epsilon) times
    the mean, rounded up.

    \b
        plancc partition circuit.hgr -p 2 --epsilon 0.02 --effort best -o circuit.part.2
        plancc partition circuit.hgr -p 2 --epsilon 0.02 --part circuit.part.2 -o better.part.2
    """
    from plancc.errors import warn
    from plancc.graph.partvector import write_part_vector
    from plancc.options import SearchOptions
    from plancc_cli.tables import print_json
    from plancc_lab.partition.hmetis import read_hmetis
    from plancc_lab.partition.hypergraphs import partition_hypergraph

    options.check_output(output, hypergraph, part, fixed)
    with progress(search["budget"]) as shown:
        with shown.stage("read"):
            problem = read_hmetis(hypergraph, allow_large=allow_large)
        with shown.stage("search"):
            report = partial(shown.incumbent, "partition", "volume")
            found = partition_hypergraph(
                problem, parts, SearchOptions(**search), part=part, fixed=fixed, report=report
            )
        for each in found.warnings:
            warn(each)
        write_part_vector(found.owner, output)
    facts = {
        "output": output,
        "connectivity": found.connectivity,
        "nets_cut": found.nets_cut,
        "imbalance": found.imbalance,
        "seconds": found.seconds,
    }
    if options.form():
        print_json(facts)
        return
    say(
        f"{output}: connectivity {found.connectivity}, cost of the nets cut {found.nets_cut}, "
        f"imbalance {found.imbalance:.4f}, {found.seconds:.1f} s"
    )
