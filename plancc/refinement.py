"""`refine`: a plan with the same matrix and better owners. Beside `plancc.pipeline`, on one page.

plan -> matrix, owners -> better owners (pass, numbers for the topology) -> plan
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.errors import InputError, warn
from plancc.fields import options_of, taking
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.union import without_relations
from plancc.models.file import part_vector
from plancc.models.hypergraph import hypergraph_of
from plancc.options import RefineOptions
from plancc.owners.numbering import STEP, mapped, with_better_numbers
from plancc.owners.task import Observer, Report
from plancc.passes.context import Context
from plancc.passes.deadline import Deadline
from plancc.plan.matrix import typed_graph_of
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.predict.widths import DataWidths
from plancc.registry import check_choice
from plancc.report.provenance import recorded_topology
from plancc.revision import (
    Revision,
    kept_of,
    lowered_like,
    revised_options,
    with_rows_placed,
)
from plancc.search.record import Judge, Record


@taking(RefineOptions)
def refine(
    plan: Plan | str | os.PathLike[str],
    objective: str = "volume",
    *,
    part: str | os.PathLike[str] | npt.ArrayLike | None = None,
    command: str = "",
    observer: Observer = nullcontext,
    report: Report | None = None,
    **options: Any,
) -> Plan:
    """Look for better owners of a plan's rows, starting from those that it has.

    The result is never worse than what was given: parts above the allowed imbalance are brought
    below it first, then the objective counts. If nothing better is found, it has the same owners.

    Parameters:
        part (path or int[num_vertices], optional): Owners to start from instead of the plan's, see
            `with_part`.
        command: Recorded in the provenance.
        observer: Called with the name of each stage; returns a context manager around it.
        report: Called with the given owners and with the refined ones, each a
            `plancc.search.Trial`.
        **options

    Returns:
        With the same matrix, grid, vertex data, original ids and baseline. New owners are numbered
        for the topology that the plan was compiled for. The provenance is the same but for what
        refining changed; ``refined_from`` is the content hash of the plan that was given (with
        `part`, of the plan with these owners), ``tried`` what was reached.

    Raises:
        InputError: An option out of range; a balance that the plan has no data for; an edge plan.
        PlanError: The file is damaged.

    Warns:
        PlanccWarning: A balance that is missed.
    """
    known = [each.name for each in options_of(RefineOptions)]
    for name in options:
        check_choice("option of refine", name, [*known, "part", "observer", "report"])
    asked, record = RefineOptions(objective, **options), Record(report)
    with observer("load"):
        plan = _loaded(plan, part)
        mask = plan.vertex_data.train_mask
        mask = None if mask is None else mask[plan.places()]  # in vertex order
        given = revised_options(plan, DataWidths.of(plan.vertex_data), mask, asked)
    with observer("matrix"):
        revision = Revision.of(plan, directed_matrix_of(plan), *given)
    with observer("refine"):
        owners = _better(revision, asked, record)
    same = np.array_equal(owners.rows, plan.owner())
    with observer("lower"):
        refined = plan if same else _with_owners(plan, revision.whole, owners)
    recorded, notes = plan.provenance, revision.notes(owners)
    if not same and "expected_volume" in recorded:
        notes.append(
            f"the plan was made for mini-batches ({recorded.get('sampler')}): refined for "
            f"{objective} it may move more rows in them (inspect it with `batches`)"
        )
    for note in notes:
        warn(note)
    unknown = recorded_topology(recorded, plan.num_parts) is None
    about: dict[str, Any] = {"refined_from": plan.content_sha256()}
    if asked.budget is not None:
        about["budget"] = float(asked.budget)
    made = revision.provenance(
        *(refined, owners, record, kept_of(recorded, "budget", *["topology"] * unknown), about),
        *(command or "plancc.refine(...)", notes),
    )
    return replace(refined, provenance=made)


def _better(revision: Revision, asked: RefineOptions, record: Record) -> Owners:
    """The refined owners, or those of the plan; with numbers for the machine."""
    plan, matrix, search = revision.plan, revision.matrix, revision.search
    from plancc.passes.refine import refiner

    epoch = search.time(matrix, plan.num_parts)
    judge = Judge(matrix, asked.objective, epoch, revision.limits)
    before = plan.owner()
    record.add("as given", 0.0, judge.of(Owners(before)))
    start = wall_seconds()
    refinement = refiner(asked.objective, asked.cycles, asked.max_extra_volume)
    deadline = Deadline.after(asked.budget)
    context = Context(revision.limits, asked.seed, asked.threads, deadline, epoch)
    problem = hypergraph_of(matrix, revision.limits)
    refined = Owners(refinement.refine(before, problem, context).owner)
    step = f"refined for {asked.objective}, seed {asked.seed}"
    record.add(step, wall_seconds() - start, judge.of(refined))
    found = record.found().owners
    topology = recorded_topology(plan.provenance, plan.num_parts)
    if topology is not None:
        same = np.array_equal(found.rows, before)
        return found if same else mapped(found, matrix, topology, search.capacities)
    if asked.objective != "time" or plan.header.grid is not None:
        return found
    start = wall_seconds()
    better = with_better_numbers(matrix, found, plan.num_parts, search)
    if better is not found:
        record.add(STEP, wall_seconds() - start, judge.of(better))
    return better


def _loaded(
    plan: Plan | str | os.PathLike[str],
    part: str | os.PathLike[str] | npt.ArrayLike | None,
) -> Plan:
    """The plan to refine, under owners made elsewhere if there are any."""
    if not isinstance(plan, Plan):
        plan = load(plan)
    if part is not None:
        plan = with_part(plan, part)
    if plan.fold is not None:
        raise InputError(
            "refine changes the owners of rows, and this is an edge plan: compile it again "
            "with another `effort` or `objective`, or name owners of rows (`part`)"
        )
    return plan


def with_part(plan: Plan, part: str | os.PathLike[str] | npt.ArrayLike) -> Plan:
    """The same matrix and vertex data under owners made elsewhere.

    Parameters:
        part (path or int[num_vertices]): Of every vertex, counted from 0, as for model "file"; -1:
            where it costs the fewest rows, within the default imbalance of nonzeros.

    Returns:
        Its provenance keeps what it says of the source, of balance and of the machine, and names
        model "file", for the blocks of a grid plan. Parts have the numbers of the vector, whatever
        topology there was.

    Raises:
        InputError: For a wrong part vector; the message names file, line and value.
    """
    matrix = directed_matrix_of(plan)
    owner = part_vector(part, plan.num_vertices, plan.num_parts, -1)
    if (owner < 0).any():
        owner = with_rows_placed(owner, without_relations(matrix), plan.num_parts)
    kept = ("balance", "dims", "epsilon", "machine")
    provenance = {
        name: value
        for name, value in plan.provenance.items()
        if name in kept or name.startswith("source_")
    }
    given = os.fspath(part) if isinstance(part, str | os.PathLike) else f"<{type(part).__name__}>"
    who = {"model": "file"}
    if plan.header.grid is not None:
        who = {"model": str(plan.provenance.get("model", "")), "blocks": "file"}
    return replace(
        _with_owners(plan, matrix, Owners(owner)),
        provenance=provenance | who | {"model_part": given},
    )


def _with_owners(plan: Plan, matrix: Graph, owners: Owners) -> Plan:
    """The plan of other owners, with everything else that `plan` carries; `matrix` is its own."""
    new = lowered_like(plan, matrix, owners)
    return replace(
        new,
        vertex_data=plan.vertex_data.take(plan.places()[new.global_id]),
        original_id=plan.original_id,
        provenance=plan.provenance,
        baseline=plan.baseline,
    )


def directed_matrix_of(plan: Plan) -> Graph:
    """The matrix that the plan distributes, directed as its source was."""
    return replace(typed_graph_of(plan), directed=plan.header.directed)
