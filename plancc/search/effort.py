"""`search`: how much work goes into a partition, and what it consists of.

========  ========================================================================================
fast      a quick partition, by the kind of graph, then one round of sweeps on the finest level
balanced  a quick and a good start, V-cycles from each, both combined, minimum cuts
best      a population from all partitioners that stays diverse: see `plancc.search.memetic`
========  ========================================================================================

Every effort minimises the volume first and refines for another objective from there; for the
expected volume of mini-batches balanced and best also start from the strongest partitioner's cut.
Where a model says that it is not made for a graph (`StochasticModel.unfit`), fast is all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.hypergraph import HypergraphModel
from plancc.models.loads import Loads
from plancc.models.stochastic import EXPECTED_VOLUME
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners.run import balance_notes, strongest
from plancc.passes.deadline import Deadline
from plancc.passes.multilevel import Owner
from plancc.search.job import Job, Member
from plancc.search.memetic import evolve
from plancc.search.record import Record, SearchResult, Trial

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation

CYCLES: dict[str, tuple[int, int | None]] = {
    "hubs": (1, 2),
    "even": (1, 2),
    "thin": (1, None),
    "dense": (2, None),
    "wide": (3, None),
}
"""Most V-cycles after the first and the second start of effort balanced, by kind of graph; None: no
second start."""
SECOND_SHARE = 0.5
"""Share of the time left for the second start."""
CUT_SHARE = 0.5
"""Share of the time left that the strong partitioner gets, for an expected volume."""
FEW_ROWS = 0.05
"""Share of the rows below which a volume is small."""
OBJECTIVE_STARTS = 4
"""Number of the best members that are refined for another objective than the volume."""
OBJECTIVE_SHARE = 0.4
"""Share of a budget kept for another objective than the volume."""


def search(
    matrix: Graph,
    num_parts: int,
    options: SearchOptions | None = None,
    *,
    model: Model | None = None,
    loads: Loads | None = None,
    expectation: Expectation | None = None,
    report: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Find owners of the rows of `matrix`, by the exact objective.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    num_parts : int
    options : SearchOptions, optional
        A budget ends what is new; effort best uses all of it for the volume, and what its passes
        need for another objective. Without a budget and with one thread the same seed gives the
        same owners.
    model : Model, optional
        Says which kind of problem partitioners are given beside the graph; one that does not start
        from the cut gives the problem of the first start. None: `HypergraphModel`. The objective is
        exact all the same.
    loads : Loads, optional
        What the parts share evenly; None: nonzeros of the rows, within the epsilon of the options.
    expectation : Expectation, optional
        The expected volume of mini-batches, in place of the objective.
    report : callable, optional
        Called with every `Trial` as it ends.

    Raises
    ------
    InputError
        An unknown name, a number out of range.
    """
    options, model = options or SearchOptions(), model or HypergraphModel()
    effort, objective = options.for_search()
    seed, budget = options.seed, options.budget
    if loads is None:
        loads = _nonzeros(matrix, options)
    check_num_parts(matrix.num_vertices, num_parts)
    if expectation is not None:
        objective = EXPECTED_VOLUME
    hopeless = expectation is not None and bool(model.unfit(matrix, num_parts))
    if hopeless:
        effort = "fast"

    record, deadline = Record(report), Deadline.after(budget, options.stop)
    if expectation is not None:
        expectation.deadline = deadline
    kept = 0.0 if objective == "volume" or budget is None else OBJECTIVE_SHARE * budget
    hypergraph = HypergraphModel().build(matrix, num_parts, balance="nnz", seed=seed)
    hypergraph = replace(hypergraph, vertex_weights=loads.weights)
    job = Job(
        matrix=matrix,
        hypergraph=hypergraph,
        loads=loads,
        num_parts=num_parts,
        options=options,
        objective=objective,
        time=options.time(matrix, num_parts),
        model=model,
        expectation=expectation,
        record=record,
        deadline=deadline.earlier(kept),
    )
    owners = _EFFORTS[effort](job)
    if hopeless:  # no refinement of the expectation
        owners = []
    job.deadline = deadline
    if expectation is not None and owners and effort != "fast" and not job.deadline.passed():
        # The limit of small batches is the edge cut, which the strongest partitioner is mostly best
        # at; where few rows move at all, as in meshes, it is quick and good with hypergraphs too.
        job.start(job.graph, seed=seed, share=CUT_SHARE, needed=False)
        job.start(job.graph, strongest(job.graph), seed=seed, share=CUT_SHARE, needed=False)
        if record.least_volume < FEW_ROWS * matrix.num_vertices:
            strong = strongest(job.hypergraph)
            job.start(job.hypergraph, strong, seed=seed, share=CUT_SHARE, needed=False)
    if objective in ("time", EXPECTED_VOLUME) and owners and record.owners is not None:
        # Less volume is not always less time: start from the best owners by the objective too.
        best = record.owners.rows
        owners = [best, *(owner for owner in owners if owner is not best)]
    cycles = 1 if effort == "fast" else None
    found = job.refine_objective(owners, cycles)
    while expectation is not None and found and effort != "fast" and not deadline.passed():
        latest = min(found, key=lambda member: (member.overload, member.value))
        if not expectation.grow(latest.owner, num_parts, record.best[1]):
            break
        assert record.owners is not None
        found = job.refine_objective([record.owners.rows], cycles)
    result = job.record.result(job.warnings)
    notes = balance_notes(result.owners.rows, loads, num_parts, f"effort {effort}")
    return replace(result, warnings=[*dict.fromkeys(result.warnings), *notes])


def by_rows(
    options: SearchOptions, effort: str, seed: int, budget: float | None, objective: str = "volume"
) -> SearchOptions:
    """Options of a search by rows inside a search by `options`."""
    return replace(options, objective=objective, effort=effort, seed=seed, budget=budget)


def rows_of_search(
    matrix: Graph, num_parts: int, options: SearchOptions
) -> tuple[Owner, list[str]]:
    """Owners of rows that a search finds, and its warnings but those of balance.

    Whoever searches on says which balance is missed in the end.
    """
    found = search(matrix, num_parts, options)
    rows = found.owners.rows
    who = f"effort {options.effort}"
    told = balance_notes(rows, _nonzeros(matrix, options), num_parts, who)
    return rows, [warning for warning in found.warnings if warning not in told]


def _nonzeros(matrix: Graph, options: SearchOptions) -> Loads:
    """Nonzeros of the rows, within the epsilon of the options."""
    nonzeros = matrix.row_nonzeros().astype(np.int64, copy=False)
    return Loads({"nnz": nonzeros}, options.epsilon, options.capacities)


def _fast(job: Job) -> list[Owner]:
    owner = job.first("fast")
    return [] if owner is None else [job.chain(owner, job.options.seed, 0).owner]


def _balanced(job: Job) -> list[Owner]:
    seed, first = job.options.seed, job.first("balanced")
    if first is None:
        return []
    others = [each for each in job.beginnings("balanced") if not job.has_begun(each, seed)]
    one, two = CYCLES[job.kind]
    cuts = job.kind != "even"  # there they are worth their time at the end

    def second() -> Member | None:
        if not others or two is None:
            return None
        owner = job.begin(others[0], seed, SECOND_SHARE)
        return None if owner is None else job.chain(owner, seed + 1, two, cuts)

    found = job.side_by_side(
        lambda task: task(), [(partial(job.chain, first, seed, one, cuts),), (second,)]
    )
    best, *rest = sorted(member for member in found if member is not None)
    if rest and not job.deadline.passed():
        rng = np.random.default_rng([seed, 0])
        best = min(best, job.cycle(best.owner, rng, "combined", rest[0].owner, cuts))
    if job.kind in ("even", "thin") and not job.deadline.passed():
        best = min(best, job.polish(best.owner, np.random.default_rng([seed, 1])))
    return [best.owner]


def _best(job: Job) -> list[Owner]:
    return [member.owner for member in evolve(job)[:OBJECTIVE_STARTS]]


_EFFORTS: dict[str, Callable[[Job], list[Owner]]] = {
    "fast": _fast,
    "balanced": _balanced,
    "best": _best,
}
