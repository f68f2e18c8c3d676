"""`plancc compare`: plans side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError, warn
from plancc.registry import check_choice
from plancc_cli import options
from plancc_cli.progress import progress, verbosity

if TYPE_CHECKING:
    from pathlib import Path

    from plancc.predict.machine import Machine


@click.command(
    cls=options.Sections,
    sections={
        "Figures": ("baseline",),
        "Epoch": ("dims", "machine"),
        "Fresh mini-batches": options.batch_names(),
        "Output": options.OUTPUT,
    },
)
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@options.epoch_of_plans
@click.option(
    "--baseline",
    metavar="PLAN",
    help="Show ratios to this one of the plans.  [default: to an even random partition]",
)
@options.fresh_batches
@options.as_data
@verbosity
def command(
    plans: tuple[str, ...],
    dims: list[int] | None,
    machine: Machine | None,
    baseline: str | None,
    batches: int | None,
    **given: Any,
) -> None:
    """Show several PLANS side by side, with ratios to a random partition, or to one of them.

    Part vectors (graph.part.64 of METIS, hMETIS, PaToH ...) can stand among the plans: their parts
    own the rows of the first plan's matrix.
    """
    from plancc.files import scratch_folder

    with scratch_folder() as folder:
        _compare(plans, _as_plans(plans, folder), dims, machine, baseline, batches, given)


def _is_part_vector(path: str) -> bool:
    """Whether a file may be a part vector; one with the name of a plan is a damaged plan."""
    return options.is_no_plan(path) and not path.lower().endswith((".h5", ".hdf5"))


def _as_plans(given: Sequence[str], folder: Path) -> list[str]:
    """Files of plans, those of part vectors made here: their parts own the first plan's rows."""
    from plancc.files import open_file
    from plancc.graph.partvector import read_part_vector
    from plancc.owners.provenance import empty_parts
    from plancc.plan.reader import load
    from plancc.refinement import with_part

    for path in given:
        if _is_part_vector(path) and os.path.exists(path):
            with open_file(path) as file:
                if file.read(2) == b"%%":
                    raise InputError(f"{path}: a graph, not a plan: compile it first")
    first = next((path for path in given if not _is_part_vector(path)), None)
    if first is None:
        raise InputError(f"{given[0]}: not a plan; part vectors need a plan beside them")
    found, plan = [], None
    for number, path in enumerate(given):
        if not _is_part_vector(path):
            found.append(path)
            continue
        plan = plan or load(first)
        owner = read_part_vector(path, plan.num_vertices)
        parts = int(owner.max()) + 1
        for note in empty_parts(owner, parts):
            warn(f"{path}: {note}")
        found.append(str(folder / f"{number}.h5"))
        with_part(plan, path, parts).save(found[-1])
    return found


def _compare(
    names: Sequence[str],
    plans: Sequence[str],
    dims: list[int] | None,
    machine: Machine | None,
    baseline: str | None,
    batches: int | None,
    given: dict[str, Any],
) -> None:
    """Compare the files `plans` under their `names`."""
    from plancc.plan.reader import PlanFile
    from plancc.report.batches import batch_reports
    from plancc.report.epochs import Basis
    from plancc.report.plans import other_graph, report
    from plancc_cli.render_comparison import print_batch_comparison, print_comparison
    from plancc_cli.tables import print_data

    drawn = options.of_batches(batches, given)
    if baseline is not None:
        check_choice("baseline", baseline, names)
    found = []
    for path in plans:
        with PlanFile(path) as file:
            found.append(Basis.read(file, dims, machine))
    basis = Basis.shared(found)  # times compare on one machine only
    reports = [
        replace(report(path, dims=dims, basis=basis, random_epoch=True), path=name)
        for name, path in zip(names, plans, strict=True)
    ]
    for other, path in zip(reports[1:], plans[1:], strict=True):
        if why := other_graph(reports[0], other, plans[0], path):
            warn(why)
    on_batches = []
    if batches is not None:
        with progress() as shown, shown.stage("batches"):
            on_batches = batch_reports(plans, batches, **drawn)
        on_batches = [replace(e, path=n) for n, e in zip(names, on_batches, strict=True)]
    form = options.form()
    if form:
        figures = [each.as_dict() for each in reports]
        for of_plan, each in zip(figures, reports, strict=True):
            of_plan["search_seconds"] = each.spending.search
            of_plan["pays_random"] = each.pays_over()
            of_plan["pays"] = [
                {"over": other.path, "epochs": each.pays_over(other)}
                for other in reports
                if other is not each
            ]
        for of_plan, of_batches in zip(figures, on_batches, strict=False):
            of_plan["batches"] = of_batches.as_dict()
        print_data(form, figures, figures)
    else:
        print_comparison(reports, baseline)
        if on_batches:
            print_batch_comparison(on_batches)
