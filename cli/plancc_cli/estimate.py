"""`plancc estimate`: memory of a compile, without a graph."""

from __future__ import annotations

import click

from plancc.errors import InputError
from plancc.graph.graph import MAX_VERTICES
from plancc.options import EFFORT
from plancc.report.table import Table
from plancc_cli import options
from plancc_cli.tables import print_data, print_table


@click.command()
@click.option("--vertices", required=True, type=int, metavar="N", help="Vertices of the graph.")
@click.option(
    "--nonzeros", required=True, type=int, metavar="M", help="Nonzeros, both directions counted."
)
@click.option("--directed", is_flag=True, help="A nonzero may lack its mirror image.")
@click.option("--even", is_flag=True, help="No vertex has many neighbours, as in roads and meshes.")
@click.option("--folder", is_flag=True, help="The graph is a folder of `plancc convert`.")
@click.option(
    "--features", default=0, type=int, metavar="F", help="Numbers (float32) of every vertex."
)
@options.searching("effort", default=EFFORT)
@click.option(
    "--ranks", type=int, metavar="R", help="Number of ranks that compile together, from a folder."
)
@options.searching("memory", "Available memory.  [default: this computer's]")
@options.as_data
def command(
    vertices: int,
    nonzeros: int,
    directed: bool,
    even: bool,
    folder: bool,
    features: int,
    effort: str,
    ranks: int | None,
    memory: int | None,
) -> None:
    """Say what memory `plancc compile` takes for a row plan of a graph of these sizes.

    Below the effort is what effort fast takes, for more than 16 parts. With --ranks it is the
    memory of one rank, whatever the effort.
    """
    from plancc.owners.memory import allowed_memory
    from plancc.partitioners.adapter import LARGE
    from plancc.search.footprint import ProblemSizes, Work, shown, work, work_of_rank

    most = {"vertices": MAX_VERTICES, "nonzeros": vertices**2}
    given = {"vertices": vertices, "nonzeros": nonzeros, "features": features, "ranks": ranks}
    for name, value in given.items():
        least = int(name in ("vertices", "ranks"))
        if value is not None and value < least:
            raise InputError(f"`{name}` {value}: at least {least} is needed")
        if value is not None and value > most.get(name, value):
            raise InputError(f"`{name}` {value}: at most {most[name]} are possible")
    allowed = allowed_memory(memory)
    mirrored = 0.0 if directed else 1.0
    data = 0 if folder or ranks else 4 * features * vertices
    sizes = ProblemSizes(
        vertices, nonzeros + vertices, mirrored, uneven=not even, data=data, mapped=folder
    )
    hubs = not even and nonzeros >= LARGE  # then effort fast starts from clusters
    efforts = dict.fromkeys((effort, "fast"))
    found = [work(sizes, each, hubs and each == "fast") for each in efforts]
    if ranks:
        found = [work_of_rank(sizes, ranks)]

    def fits(way: Work) -> bool:
        return allowed is None or way.peak <= allowed

    form = options.form()
    if form:
        rows = [
            {"effort": way.effort, "fits": fits(way), "peak": way.peak, "stages": way.stages}
            for way in found
        ]
        print_data(form, {"memory": allowed, "ways": rows}, rows)
        return
    stages = list(dict.fromkeys(stage for way in found for stage in way.stages))
    title = (
        "memory of all processes together" if ranks is None else f"memory of each of {ranks} ranks"
    )
    if allowed is not None:
        title += f"; allowed are {shown(allowed)}"
    heads = ("effort", *stages, "peak", "fits")
    table = Table(heads, title)
    for way in found:
        sizes_of = [shown(way.stages[stage]) if stage in way.stages else "" for stage in stages]
        table.add_row(way.effort, *sizes_of, shown(way.peak), "yes" if fits(way) else "no")
    print_table(table)
