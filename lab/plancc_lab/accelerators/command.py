"""`plancc accelerators`: a model of neighbour aggregation on sparse accelerators."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from plancc.errors import InputError
from plancc_cli import options
from plancc_lab.accelerators.design import CPU, SHIPPED

if TYPE_CHECKING:
    from plancc_lab.accelerators.design import Accelerator
    from plancc_lab.accelerators.published import Comparison
    from plancc_lab.accelerators.study import AcceleratorRow, Subject

    Shown = list[tuple[Subject, list[AcceleratorRow]]]

MASK_DENSITY = 0.5
"""Default share of the outputs that the mask keeps."""
GRAPH_DIMS = (128, 128, 128, 128)
"""Default widths of a GCN on a graph of the user."""
PLAN = ".h5"
"""Extension of plans."""


@click.command(cls=options.Sections)
@click.argument("graph", type=click.Path(), required=False)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    help="One of the paper's graphs: reddit, orkut, twitter, friendster, papers100m. Give the "
    "option again for another graph.  [default: all]",
)
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="NAME|FILE",
    help=f"{', '.join(SHIPPED)}, or a TOML file. Give the option again for another machine.  "
    "[default: all]",
)
@options.searching(
    "dims",
    "Widths d0,d1,...,dL of a GCN.  [default: the paper's for its graphs, else 128,128,128,128]",
)
@click.option(
    "--mask-density",
    type=float,
    default=MASK_DENSITY,
    show_default=True,
    metavar="P",
    help="Share of the outputs that the mask of dropout and ReLU leaves.",
)
@options.as_data
def command(
    graph: str | None,
    datasets: tuple[str, ...],
    machines: tuple[str, ...],
    dims: list[int] | None,
    mask_density: float,
) -> None:
    """Model neighbour aggregation on sparse accelerators: time, speed-up over a CPU, energy.

    GRAPH is a graph file or a plan (.h5); the model needs only its numbers of vertices and
    nonzeros. Without GRAPH, the command models the five graphs of the MixGCN paper, and shows the
    published figures beside its own.

    \b
        plancc accelerators
        plancc accelerators --dataset reddit --machine mixgcn-spu --machine own.toml
        plancc accelerators graph.mtx --dims 602,128,41 --mask-density 1
    """
    from plancc_lab.accelerators.design import accelerator
    from plancc_lab.accelerators.published import DATASETS
    from plancc_lab.accelerators.study import Subject, published_beside, study

    if not (math.isfinite(mask_density) and 0 <= mask_density <= 1):
        raise InputError(f"--mask-density {mask_density:g}: give a share between 0 and 1")
    if graph is not None and datasets:
        raise InputError(f"{graph} and --dataset {datasets[0]} exclude each other; give one")
    chosen = {name: accelerator(name) for name in machines or SHIPPED}
    if graph is not None:
        subjects = [_of_file(graph, dims or GRAPH_DIMS, mask_density)]
    else:
        names = dict.fromkeys(datasets or DATASETS)
        subjects = [Subject.of_dataset(name, dims, mask_density) for name in names]
    shown = [(subject, study(subject, chosen)) for subject in subjects]
    beside = published_beside(subjects, chosen)
    form = options.form()
    if form:
        _print_data(form, shown, beside)
    else:
        _print(shown, beside, chosen)


def _of_file(path: str, dims: list[int] | tuple[int, ...], mask_density: float) -> Subject:
    from plancc.graph.formats import read_graph
    from plancc.plan.reader import PlanFile
    from plancc_lab.accelerators.model import gcn_aggregations
    from plancc_lab.accelerators.study import Subject

    if path.endswith(PLAN):
        with PlanFile(path) as file:
            vertices, nonzeros = file.header.num_vertices, file.header.num_nonzeros
    else:
        graph = read_graph(path)
        vertices, nonzeros = graph.num_vertices, graph.num_nonzeros
    try:
        work = gcn_aggregations(vertices, nonzeros, dims, mask_density)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Subject(path, tuple(dims), work)


def _print_data(form: str, shown: Shown, beside: list[Comparison]) -> None:
    from plancc_cli.tables import print_data

    graphs = [
        {
            "name": subject.name,
            "vertices": subject.work.vertices,
            "nonzeros": subject.work.nonzeros,
            "dims": subject.dims,
            "mask_density": subject.work.mask_density,
            "machines": [row.as_dict() for row in rows],
        }
        for subject, rows in shown
    ]
    published = [{**asdict(each), "factor": each.factor} for each in beside]
    rows = [
        graph | row.as_dict() for graph, (_, of) in zip(graphs, shown, strict=True) for row in of
    ]
    print_data(form, {"graphs": graphs, "published": published}, rows)


def _print(shown: Shown, beside: list[Comparison], machines: dict[str, Accelerator]) -> None:
    from plancc.report.table import Table
    from plancc_cli.tables import duration, print_table, say, size
    from plancc_lab.accelerators.design import accelerator

    for subject, rows in shown:
        work = subject.work
        columns = ("", "additions", "memory", "limit", "time", "over CPU", "energy")
        published = any(row.published_joules is not None for row in rows)
        table = Table(
            (*columns, *["published"] * published),
            f"{subject.name}: {work.vertices:,.0f} vertices, {work.nonzeros:,.0f} nonzeros, "
            f"dims {','.join(map(str, subject.dims))}, {work.mask_density:.0%} of outputs kept",
        )
        for row in rows:
            cost = row.estimate
            table.add_row(
                machines[row.machine].name,
                f"{cost.additions:.3g}",
                size(cost.bytes),
                "adders" if cost.compute_seconds > cost.memory_seconds else "memory",
                duration(cost.seconds),
                f"{row.speedup_over_cpu:.2f}",
                _joules(cost.joules),
                *[_joules(row.published_joules)] * published,
            )
        print_table(table)
    if beside:
        _print_comparison(beside, machines)
    say(
        f"One epoch, forward and back. Over CPU: {accelerator(CPU).name}. A model: nothing was "
        "measured."
    )


def _print_comparison(beside: list[Comparison], machines: dict[str, Accelerator]) -> None:
    """Print modelled and published speed-ups (MixGCN, Figure 12), and how much they differ."""
    from plancc.report.table import Table
    from plancc_cli.tables import print_table, say
    from plancc_lab.accelerators.published import SPEEDUPS

    speedups = [each for each in beside if each.figure == "speed-up"]
    if speedups:
        names = dict.fromkeys(each.dataset for each in speedups)
        table = Table(("over", *names, "published"), "speed-up of MixGCN-SPU (Figure 12)")
        for machine in dict.fromkeys(each.machine for each in speedups):
            cells = [f"{each.value:.2f}" for each in speedups if each.machine == machine]
            low, high = SPEEDUPS[machine]
            table.add_row(machines[machine].name, *cells, f"{low:.2f} to {high:.2f}")
        print_table(table)
    for figure in ("speed-up", "energy"):
        factors = [each.factor for each in beside if each.figure == figure]
        if factors:
            say(
                f"{figure}: within a factor {math.ceil(100 * max(factors)) / 100:.2f} of the "
                "published"
            )
    if any(each.machine == CPU for each in beside):
        say(
            "Of the CPU a graph's published speed-up is inferred from the energies, which are "
            "divided by 1,000; see the documentation."
        )


def _joules(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f} J" if value >= 0.1 else f"{value:.3g} J"
