"""`refine`: a plan with the same matrix and better owners. Beside `plancc.pipeline`, on one page.

plan -> matrix, owners -> better owners (pass, numbers for the topology) -> plan
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
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
from plancc.models.weights import BATCH, DEFAULT_BALANCE, Balance
from plancc.options import EPSILON, RefineOptions, SearchOptions
from plancc.owners.numbering import STEP, mapped, with_better_numbers
from plancc.owners.provenance import empty_parts, provenance
from plancc.owners.task import REFINED, Observer, Report
from plancc.partitioners.run import balance_notes
from plancc.passes.context import Context
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.nets import nets_of
from plancc.passes.migration import with_all_placed
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower, with_links
from plancc.plan.matrix import ends_of_links, typed_graph_of
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.plan.routes import routed_like
from plancc.predict.forecast import RECORDED, Forecast
from plancc.predict.predictor import Predictor
from plancc.predict.widths import DataWidths
from plancc.registry import check_choice
from plancc.report.epochs import Basis
from plancc.report.payback import search_seconds
from plancc.report.routes import recorded_topology
from plancc.search.record import Judge, Record
from plancc.text import shown

OF_EXPECTATION = (
    *("theta", "delta", "hoeffding_nets", "hoeffding_batches", "nets_per_batch"),
    *("batches", "vertices_seen", "nonzeros_seen"),
)
"""Entries of a provenance about the expected volume that owners were found for."""


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
    asked = RefineOptions(objective, **options)
    assert not isinstance(asked.machine, str)  # it is found
    with observer("load"):
        plan = _loaded(plan, part)
        recorded = plan.provenance
        widths = DataWidths.of(plan.vertex_data)
        predictor = Basis.of(recorded, widths, asked.dims, asked.machine).predictor
        dims = tuple(predictor.dims)
        mask = plan.vertex_data.train_mask
        mask = None if mask is None else mask[plan.places()]  # in vertex order
        wanted, epsilon = asked_balance(plan, asked.balance, asked.epsilon, dims, mask)
        given = {"objective": objective, "seed": asked.seed, "capacities": asked.capacities}
        search = search_options(plan, predictor, **given)
        predictor = search.predictor
        wanted = replace(wanted, capacities=search.capacities)
    with observer("matrix"):
        whole, owner = directed_matrix_of(plan), plan.owner()
        matrix = without_relations(whole)
        limits = wanted.limits(matrix, plan.num_parts, epsilon)
        problem = hypergraph_of(matrix, limits)
        epoch = search.time(matrix, plan.num_parts)
    with observer("refine"):
        from plancc.passes.refine import refiner

        judge = Judge(matrix, objective, epoch, limits)
        record = Record(report)
        record.add("as given", 0.0, judge.of(Owners(owner)))
        start = wall_seconds()
        refinement = refiner(objective, asked.cycles, asked.max_extra_volume)
        deadline = Deadline.after(asked.budget)
        context = Context(limits, asked.seed, asked.threads, deadline, epoch)
        found = refinement.refine(owner, problem, context).owner
        step = f"refined for {objective}, seed {asked.seed}"
        record.add(step, wall_seconds() - start, judge.of(Owners(found)))
        result = record.result([])
        better = result.owners.rows
        topology = recorded_topology(recorded, plan.num_parts)
        same = np.array_equal(better, plan.owner())
        if topology is not None and not same:
            better = mapped(Owners(better), matrix, topology, search.capacities).rows
        elif objective == "time" and not (topology or plan.header.grid):
            start = wall_seconds()
            better = with_better_numbers(matrix, result.owners, plan.num_parts, search).rows
            if better is not result.owners.rows:
                record.add(STEP, wall_seconds() - start, judge.of(Owners(better)))
                result, same = record.result([]), False
    with observer("lower"):
        refined = plan if same else _with_owners(plan, whole, better)

    notes = empty_parts(better, plan.num_parts)
    notes += balance_notes(better, limits, REFINED)
    if not same and "expected_volume" in recorded:
        notes.append(
            f"the plan was made for mini-batches ({recorded.get('sampler')}): refined for "
            f"{objective} it may move more rows in them (inspect it with `batches`)"
        )
    for note in notes:
        warn(note)
    reached = limits.imbalance(limits.load(better)).tolist()
    stale = ("budget",) if topology is not None else ("budget", "topology")
    kept = kept_of(recorded, *stale)
    forecast = Forecast.of(predictor, refined, matrix)
    made: dict[str, Any] = {
        "refined_from": plan.content_sha256(),
        "objective": objective,
        "search_seconds": (search_seconds(recorded) or 0.0) + record.seconds,
    }
    if asked.budget is not None:
        made["budget"] = float(asked.budget)
    return replace(
        refined,
        provenance=provenance(
            kept,
            command or "plancc.refine(...)",
            wanted,
            reached,
            replace(search, epsilon=epsilon),
            {**forecast.provenance(), **made, "tried": result.tried_json()},
            notes,
        ),
    )


def search_options(plan: Plan, predictor: Predictor, **given: Any) -> SearchOptions:
    """Options of the search, with a capacity for every part where ranks are of unequal speed."""
    grid, dims = plan.header.grid, tuple(predictor.dims)
    search = SearchOptions(dims=dims, machine=predictor.machine, grid=grid, **given)
    if grid is None or grid.scheme == "1d":
        return search.of_parts(plan.num_parts)
    if search.capacities is not None:
        raise InputError(f"`capacities`: the parts of grid '{grid}' are all of one size")
    return search


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
        _with_owners(plan, matrix, owner),
        provenance=provenance | who | {"model_part": given},
    )


def with_rows_placed(
    owner: npt.NDArray[np.int32], matrix: Graph, num_parts: int
) -> npt.NDArray[np.int32]:
    """Owners with a part for every vertex, also where they have -1."""
    limits = Balance().limits(matrix, num_parts, EPSILON)
    return with_all_placed(owner, nets_of(hypergraph_of(matrix, limits)), Context(limits))


def _with_owners(plan: Plan, matrix: Graph, owner: npt.NDArray[np.int32]) -> Plan:
    """The plan of other owners, with everything else that `plan` carries; `matrix` is its own."""
    new = lowered_like(plan, matrix, Owners(owner))
    if plan.links is not None:
        new = with_links(
            new, ends_of_links(plan), plan.links.kind, plan.links.number, plan.header.links or 0
        )
    return replace(
        new,
        vertex_data=plan.vertex_data.take(plan.places()[new.global_id]),
        original_id=plan.original_id,
        provenance=plan.provenance,
        baseline=plan.baseline,
    )


def lowered_like(plan: Plan, matrix: Graph, owners: Owners) -> Plan:
    """The plan of a matrix that was normalised as that of `plan`, with its grid and hops."""
    header = plan.header
    new = lower(
        matrix,
        owners,
        plan.num_parts,
        normalization=header.normalization,
        self_loops=header.self_loops,
    )
    if header.grid is not None:
        new = with_grid(new, header.grid)
    return routed_like(new, plan)


def kept_of(recorded: dict[str, Any], *stale: str) -> dict[str, Any]:
    """What a provenance says that holds for other owners too, without the names in `stale`."""
    stale = (*stale, *OF_EXPECTATION, *RECORDED)
    return {
        name: value
        for name, value in recorded.items()
        if name not in stale and not name.startswith("expected_")
    }


def directed_matrix_of(plan: Plan) -> Graph:
    """The matrix that the plan distributes, directed as its source was."""
    return replace(typed_graph_of(plan), directed=plan.header.directed)


def asked_balance(
    plan: Plan,
    balance: str | None,
    epsilon: float | None,
    dims: Sequence[int],
    train_mask: npt.NDArray[np.bool_] | None,
) -> tuple[Balance, float]:
    """The balance and the imbalance that are asked for or recorded.

    An imbalance without a balance stands in place of all that are recorded.

    Parameters:
        train_mask: In vertex order.
    """
    recorded = str(plan.provenance.get("balance", "nnz"))
    try:
        wanted = Balance.parse(balance or recorded, dims)
    except InputError as error:
        if balance:
            raise
        raise InputError(
            f"the plan records balance '{shown(recorded)}', of another version of plancc: give "
            f"`balance`, such as {DEFAULT_BALANCE}"
        ) from error
    for name, of in (("weights", "of the graph file"), (BATCH, "of mini-batches")):
        if name in wanted.names:
            raise InputError(
                f"balance '{wanted}': cannot balance by the '{name}' {of}, which a plan "
                "does not keep; choose another (`balance`)"
            )
    wanted = replace(wanted, train_mask=train_mask)
    if epsilon is None:
        return wanted, _recorded_epsilon(plan.provenance)
    return wanted if balance else wanted.without_limits(), epsilon


def _recorded_epsilon(provenance: dict[str, Any]) -> float:
    """Allowed imbalance, where the provenance has one."""
    epsilon = provenance.get("epsilon")
    known = isinstance(epsilon, int | float) and math.isfinite(epsilon) and epsilon >= 0
    return float(epsilon) if known else EPSILON  # type: ignore[arg-type]
