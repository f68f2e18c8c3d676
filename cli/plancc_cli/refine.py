"""`plancc refine`: plan file to a plan file with better owners."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError
from plancc_cli import options
from plancc_cli.progress import Progress, command_line, progress

if TYPE_CHECKING:
    from plancc import Plan

HDF5 = b"\x89HDF\r\n\x1a\n"
OF_GRAPHS = {  # parameters that tell how a graph is read, and their options
    "parts": "--parts",
    "normalize": "--normalize",
    "no_self_loops": "--no-self-loops",
    "data": "--data",
    "format": "--format",
    "pattern": "--pattern",
    "symmetrize": "--symmetrize",
    "transpose": "--transpose",
}


def _parse_share(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)(%?)", text.strip(), re.ASCII)
    if not found:
        raise InputError(f"--max-extra-volume '{text}': give a share such as 3% or 0.03")
    return float(found[1]) / (100 if found[2] else 1)


@click.command()
@click.argument("source", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The plan file to write.")
@click.option(
    "--objective",
    default="volume",
    show_default=True,
    type=options.NameIn("objective", OBJECTIVES),
    metavar="NAME",
    help=f"What shall be small: {', '.join(OBJECTIVES)}.",
)
@options.budget("Start nothing new after that long.")
@click.option("--cycles", type=click.IntRange(min=0), metavar="INTEGER", help="V-cycles at most.")
@click.option(
    "--max-extra-volume",
    metavar="SHARE",
    callback=_parse_share,
    help="How much the volume may rise for another objective.  [default: 3% for max-volume, 5%]",
)
@click.option(
    "--part", type=click.Path(), help="Start from this part vector; SOURCE may then be a graph."
)
@click.option(
    "-p", "--parts", type=int, help="Of a graph.  [default: the highest in --part, plus 1]"
)
@options.epsilon(None, "  [default: the plan's, or 0.01]")
@options.balancing(
    None,
    "What parts share evenly (the plan's if not given, or nnz)",
    "Of a graph: features, labels and masks (.npz) to carry in the plan.",
    "Widths d0,d1,...,dL of the layers, for balance work and objective time.",
)
@options.machine_option(
    "Latency, bandwidth and multiply_adds, for objective time; the plan's own by default."
)
@options.seed
@options.normalizing("sym")
@click.option("--no-self-loops", is_flag=True, help="Do not add the identity to a graph.")
@click.option("--compress", is_flag=True, help="Deflate the plan file (smaller, slower).")
@options.reading
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    source: str,
    output: str,
    part: str | None,
    parts: int | None,
    data: str | None,
    normalize: str,
    no_self_loops: bool,
    compress: bool,
    format: str | None,
    pattern: bool,
    symmetrize: bool,
    transpose: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Look for better owners of the rows of SOURCE, a plan, starting from those that it has.

    With --part it starts from that part vector; SOURCE may then also be a graph file, which is
    compiled first. The result is never worse than what was given.
    """
    import plancc
    from plancc.refinement import with_part
    from plancc.report.provenance import decoded, read_tried
    from plancc_cli.render import print_json, print_refinement

    options.check_output(output, source, part, data)
    of_graph = _is_graph(source)
    if of_graph and part is None:
        raise InputError(
            f"{source}: not a plan; to refine owners of a graph, name them with --part FILE"
        )
    if not of_graph:
        _refuse_graph_options(context, source)
    start = time.perf_counter()
    with progress() as shown:
        if of_graph:
            assert part is not None
            reading = {"pattern": pattern, "symmetrize": symmetrize, "transpose": transpose}
            given = _compiled(
                shown,
                source,
                part,
                parts,
                reading=reading | {"format": format},
                normalize=normalize,
                self_loops=not no_self_loops,
                data=data,
            )
        else:
            with shown.stage("read"):
                given = plancc.load(source)
                if part is not None:
                    given = with_part(given, part)
        better = plancc.refine(
            given,
            command=command_line(),
            observer=shown.stage,
            report=partial(shown.incumbent, "refine", settings["objective"]),
            **settings,
        )
        with shown.stage("write"):
            digest = better.save(output, compress=compress)
    seconds = time.perf_counter() - start
    before, after = read_tried(better.provenance)
    improved = bool(after["best"])
    if not as_json:
        print_refinement(given, better, output, digest, seconds)
        return
    print_json(
        {
            "output": output,
            "content_sha256": digest,
            "refined_from": better.provenance["refined_from"],
            "seconds": seconds,
            "objective": settings["objective"],
            "improved": improved,
            "value": {"before": before["value"], "after": (after if improved else before)["value"]},
            "metrics": {"before": given.metrics().figures(), "after": better.metrics().figures()},
            "provenance": decoded(better.provenance),
        }
    )


def _is_graph(source: str) -> bool:
    """Whether a file is there and no HDF5, as every plan is."""
    try:
        with open(source, "rb") as file:
            return file.read(len(HDF5)) != HDF5
    except OSError:  # whoever reads it says why
        return False


def _refuse_graph_options(context: click.Context, source: str) -> None:
    for name, option in OF_GRAPHS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{option} is for a graph; {source} is a plan")


def _compiled(
    shown: Progress,
    source: str,
    part: str,
    parts: int | None,
    *,
    reading: dict[str, Any],
    **settings: Any,
) -> Plan:
    """The plan of a graph under the owners of a part vector."""
    import plancc
    from plancc.graph.partvector import read_part_vector

    with shown.stage("read"):
        graph = plancc.read_graph(source, **reading)
        if parts is None:
            parts = int(read_part_vector(part, graph.num_vertices).max()) + 1
    return plancc.compile(graph, "file", parts, part=part, observer=shown.stage, **settings)
