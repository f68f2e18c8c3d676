"""`plancc convert`: write a graph as a folder of arrays that are mapped into memory."""

from __future__ import annotations

from typing import Any

import click

from plancc_cli import options
from plancc_cli.progress import progress, quiet
from plancc_cli.words import in_flags, say


@click.command(
    cls=options.Sections,
    sections={
        "Folder": ("output", "data", "split", "memory"),
        options.READING_TOPIC: options.READING,
        "Output": options.OUTPUT,
    },
)
@click.argument("graph", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, help="The folder to make.")
@options.reading
@options.searching("data", "Features, labels and masks.  [default: the data of GRAPH]")
@click.option(
    "--split-name", "split", metavar="NAME", help="Name of the split, if the data have several."
)
@options.searching("memory", "Memory limit (16G).  [default: the free memory]")
@options.as_json
@quiet
def command(graph: str, output: str, data: tuple[str, ...], **given: Any) -> None:
    """Write GRAPH as a folder of .npy files, with the nonzeros sorted by row.

    Commands that read the folder map its files into memory, so they need little memory. A
    MatrixMarket file or an edge list that does not fit into memory is sorted on the disk, in
    temporary files beside the folder.

    \b
        plancc convert graph.mtx.gz -o graph --memory 8G
        plancc compile graph -p 64 -o plan.h5
    """
    from plancc.graph.folders import to_folder
    from plancc_cli.tables import print_json

    with progress() as shown, shown.stage("convert"):
        made = to_folder(graph, output, data=data or None, **given)
    kind = "directed" if made.directed else "undirected"
    if options.form():
        facts = {
            "folder": output,
            "num_vertices": made.num_vertices,
            "num_nonzeros": made.num_nonzeros,
            "directed": made.directed,
            "weighted": made.values is not None,
        }
        print_json(facts)
        return
    say(f"{output}: {made.num_vertices} vertices, {made.num_nonzeros} nonzeros, {kind}")
    if made.values is not None:
        say(f"weights of the edges: {made.source.weights_in_words}")
    if made.source.counts:
        say(in_flags(made.source.counts, None))
