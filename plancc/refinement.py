"""`refine` makes a plan with the same matrix and better owners.

plan -> matrix, owners -> better owners -> parts numbered for the topology -> plan
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.errors import InputError, warn
from plancc.fields import options_of, taking
from plancc.files import StrPath
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.union import without_relations
from plancc.graph.vertexdata import VertexData
from plancc.models.file import part_vector
from plancc.models.hypergraph import hypergraph_of
from plancc.models.limits import Limits
from plancc.models.weights import DEFAULT_BALANCE, Balance
from plancc.options import EPSILON, REVISIONS, RefineOptions, SearchOptions, refuse
from plancc.owners.numbering import STEP, mapped, with_better_numbers
from plancc.owners.provenance import empty_parts, provenance
from plancc.owners.task import REFINED, Observer, Report
from plancc.partitioners.run import balance_notes
from plancc.passes.context import Context
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.nets import nets_of
from plancc.passes.migration import place_all
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower, with_links
from plancc.plan.matrix import ends_of_links, typed_graph_of
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.plan.routes import routed_like
from plancc.plan.topology import Topology
from plancc.predict.forecast import RECORDED, Forecast
from plancc.predict.widths import DataWidths
from plancc.registry import check_choice
from plancc.report.epochs import Basis
from plancc.report.payback import search_seconds
from plancc.search.record import Judge, Record
from plancc.text import shown

EXPECTATION_ENTRIES = (
    *("theta", "delta", "hoeffding_nets", "hoeffding_batches", "nets_per_batch"),
    *("batches", "vertices_seen", "nonzeros_seen"),
)
"""Names of entries of a provenance about mini-batches, if the search for owners minimised their
expected volume."""


@taking(RefineOptions)
def refine(
    plan: Plan | StrPath,
    objective: str = "volume",
    *,
    part: StrPath | npt.ArrayLike | None = None,
    command: str = "",
    observer: Observer = nullcontext,
    report: Report | None = None,
    **options: Any,
) -> Plan:
    """Look for better owners of a plan's rows, starting from its present owners.

    First, parts above the allowed imbalance are brought below it. Then the objective is lowered; it
    never rises in this step. If no better owners are found, the owners stay the same. The
    options are the fields of `RefineOptions`.

    Parameters:
        part (path or int[num_vertices], optional): Owners to start from, in place of the plan's;
            see `with_part`.
        command: Text for the provenance.
        observer: Function that is called with the name of each stage, and returns a context manager
            in which the stage runs.
        report: Function that is called with a `plancc.search.Trial` for the given owners, and then
            with another `Trial` for the refined owners.
        **options

    Returns:
        The plan, with the same matrix, grid, vertex data, original ids and baseline. If owners have
        changed, the parts are numbered anew to suit the topology, if any, that the plan was
        compiled for. The provenance differs only in entries that depend on the owners or on
        refining. Of these, ``refined_from`` is the content hash of the given plan (or of the plan
        with the owners `part`), and ``tried`` lists the steps of the search with their figures.

    Raises:
        InputError: If an option is out of range, if the plan is an edge plan, or if it has no data
            for the balance.
        PlanError: If the plan's file is damaged.

    Warns:
        PlanccWarning: If the balance is missed.
    """
    known = [each.name for each in options_of(RefineOptions)]
    for name in options:
        check_choice("option of refine", name, [*known, "part", "observer", "report"])
    asked, record = RefineOptions(objective, **options), Record(report)
    with observer("load"):
        plan = _loaded(plan, part)
        given = revised_options(plan, plan.vertex_data, asked, plan.places())
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
    unknown = Topology.recorded(recorded, plan.num_parts) is None
    about: dict[str, Any] = {"refined_from": plan.content_sha256()}
    if asked.budget is not None:
        about["budget"] = float(asked.budget)
    made = revision.provenance(
        *(refined, owners, record, kept_of(recorded, "budget", *["topology"] * unknown), about),
        *(command or "plancc.refine(...)", notes),
    )
    return replace(refined, provenance=made)


def _better(revision: Revision, asked: RefineOptions, record: Record) -> Owners:
    """Return the refined owners, or the plan's owners if these are better.

    New owners of a plan with a topology are numbered to suit its nodes. Without a topology, owners
    of a row plan are numbered to suit the machine's nodes if the objective is "time".
    """
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
    topology = Topology.recorded(plan.provenance, plan.num_parts)
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


def _loaded(plan: Plan | StrPath, part: StrPath | npt.ArrayLike | None) -> Plan:
    """Return the plan to refine, with the owners `part` if they are given."""
    plan = plan if isinstance(plan, Plan) else load(plan)
    if part is not None:
        plan = with_part(plan, part)
    if plan.fold is not None:
        raise InputError(
            "refine changes the owners of rows, but this is an edge plan; compile the graph again "
            "with another `effort` or `objective`, or name owners of rows (`part`)"
        )
    return plan


def with_part(plan: Plan, part: StrPath | npt.ArrayLike) -> Plan:
    """Return a plan with the same matrix and vertex data, and with other owners.

    In the provenance, the entry "model" (in a grid plan "blocks") gets the value "file". Parts are
    not renumbered for a topology. An InputError names file, line and value of the fault.

    Parameters:
        part (path or int[num_vertices]): Part of every vertex, from 0. A vertex with -1 gets the
            part with which the volume grows least, within the default imbalance of nonzeros.
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
    """Return `plan` with other owners and all its other data; `matrix` is the plan's matrix."""
    new = lowered_like(plan, matrix, owners)
    return replace(
        new,
        vertex_data=plan.vertex_data.take(plan.places()[new.global_id]),
        original_id=plan.original_id,
        provenance=plan.provenance,
        baseline=plan.baseline,
    )


def directed_matrix_of(plan: Plan) -> Graph:
    """Return the matrix of the plan, directed if its source was."""
    return replace(typed_graph_of(plan), directed=plan.header.directed)


@dataclass(frozen=True, eq=False)
class Revision:
    """A matrix for which new owners are found, and the plan whose owners they replace.

    Attributes:
        whole: The normalised matrix.
        matrix: The matrix `whole`, with parallel edges of several relations merged.
        search: Options of the search.
        limits: For every part, the allowed weight of rows; in an edge plan, number of nonzeros.
    """

    plan: Plan
    whole: Graph
    matrix: Graph
    search: SearchOptions
    balance: Balance
    limits: Limits

    @classmethod
    def of(cls, plan: Plan, whole: Graph, search: SearchOptions, balance: Balance) -> Self:
        """Make a revision from these attributes, and compute its `matrix` and `limits`."""
        matrix, shared = without_relations(whole), (plan.num_parts, search.epsilon)
        limits = balance.limits(matrix, *shared)
        if plan.fold is not None:
            limits = Limits.of_nonzeros(matrix.num_nonzeros, *shared, balance.capacities)
        return cls(plan, whole, matrix, search, balance, limits)

    def notes(self, owners: Owners) -> list[str]:
        """Return warnings about empty parts and about a missed balance."""
        empty = empty_parts(owners.rows, self.plan.num_parts)
        return empty + balance_notes(owners.sharers, self.limits, REFINED)

    def provenance(
        self,
        made: Plan,
        owners: Owners,
        record: Record,
        first: Mapping[str, Any],
        about: Mapping[str, Any],
        command: str,
        notes: Sequence[str],
    ) -> dict[str, Any]:
        """Return the provenance of the new plan.

        `first` has entries of the previous plan (`kept_of`), `about` entries about the command.
        """
        before = search_seconds(self.plan.provenance) or 0.0
        found = {
            **Forecast.of(self.search.predictor, made, self.matrix).provenance(),
            **about,
            "objective": self.search.objective,
            "search_seconds": before + record.seconds,
            "tried": record.result([]).tried_json(),
        }
        reached = self.limits.reached(owners.sharers)
        return provenance(first, command, self.balance, reached, self.search, found, notes)


def revised_options(
    plan: Plan, data: VertexData, asked: RefineOptions, places: Any = slice(None)
) -> tuple[SearchOptions, Balance]:
    """Return options of the search, and the balance; what `asked` leaves open is as in the plan.

    `places` has the row of each vertex in the arrays of `data`.
    """
    assert not isinstance(asked.machine, str)  # its options have found the machine
    predictor = Basis.of(plan.provenance, DataWidths.of(data), asked.dims, asked.machine).predictor
    dims, grid = tuple(predictor.dims), plan.header.grid
    balance, epsilon = _asked_balance(plan, asked.balance, asked.epsilon, dims)
    search = SearchOptions(
        objective=asked.objective,
        seed=asked.seed,
        epsilon=epsilon,
        capacities=asked.capacities,
        dims=dims,
        machine=predictor.machine,
        grid=grid,
    )
    if grid is None or grid.scheme == "1d":
        search = search.of_parts(plan.num_parts)
    elif search.capacities is not None:
        raise InputError(f"`capacities`: the parts of grid '{grid}' must have equal sizes")
    mask = None if data.train_mask is None else data.train_mask[places]
    return search, replace(balance, train_mask=mask, capacities=search.capacities)


def lowered_like(
    plan: Plan, matrix: Graph, owners: Owners, ends: npt.NDArray[np.int32] | None = None
) -> Plan:
    """Return the plan of a matrix, with the grid, hops and links of `plan`.

    `matrix` must be normalised like the plan's. `ends`, int32[2, links], has the links of `plan` as
    vertices of `matrix`; None: the same vertices.
    """
    header, links = plan.header, plan.links
    how: Any = {"normalization": header.normalization, "self_loops": header.self_loops}
    new = lower(matrix, owners, plan.num_parts, **how)
    if header.grid is not None:
        new = with_grid(new, header.grid)
    new = routed_like(new, plan)
    if links is None:
        return new
    ends = ends_of_links(plan) if ends is None else ends
    return with_links(new, ends, links.kind, links.number, header.links or 0)


def with_rows_placed(
    owner: npt.NDArray[np.int32], matrix: Graph, num_parts: int
) -> npt.NDArray[np.int32]:
    """Return the owners, with a part for every vertex whose owner was -1."""
    limits = Balance().limits(matrix, num_parts, EPSILON)
    return place_all(owner, nets_of(hypergraph_of(matrix, limits)), Context(limits))


def kept_of(recorded: Mapping[str, Any], *stale: str) -> dict[str, Any]:
    """Return the provenance entries, except `stale`, that stay valid if the owners change."""
    stale = (*stale, *EXPECTATION_ENTRIES, *RECORDED)
    return {
        name: value
        for name, value in recorded.items()
        if name not in stale and not name.startswith("expected_")
    }


def _asked_balance(
    plan: Plan, balance: str | None, epsilon: float | None, dims: Sequence[int]
) -> tuple[Balance, float]:
    """Return the balance and the allowed imbalance: as given, or else as recorded in the plan.

    A given imbalance without a balance replaces all recorded imbalances.
    """
    recorded = str(plan.provenance.get("balance", "nnz"))
    try:
        wanted = Balance.parse(balance or recorded, dims)
    except InputError as error:
        if balance:
            raise
        raise InputError(
            f"the plan records balance '{shown(recorded)}', of another version of plancc; give "
            f"`balance`, such as {DEFAULT_BALANCE}"
        ) from error
    refuse(REVISIONS, wanted)
    if plan.fold is not None and wanted.names != ("nnz",):
        raise InputError(f"balance {wanted}: edge plans only balance nonzeros (nnz)")
    if epsilon is None:
        return wanted, _recorded_epsilon(plan.provenance)
    return wanted if balance else wanted.without_limits(), epsilon


def _recorded_epsilon(provenance: dict[str, Any]) -> float:
    """Return the allowed imbalance that a provenance records, or the default."""
    epsilon = provenance.get("epsilon")
    known = isinstance(epsilon, int | float) and math.isfinite(epsilon) and epsilon >= 0
    return float(epsilon) if known else EPSILON  # type: ignore[arg-type]
