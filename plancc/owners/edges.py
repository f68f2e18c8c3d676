"""Who owns which row and which nonzero, for the models whose plans have an expand and a fold.

The counterpart of `plancc.owners.rows` for layout "edge".

    searched     a searched model, no partitioner named   plancc.search.edges
    partitioned  a searched model, a named partitioner    exactly its answer; refined if it cannot
                                                          minimise the objective by itself
    assigned     any other model                          the model's own nonzeros; rows of H where
                                                          they save most (`VectorOwners`)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models import build_problem
from plancc.models.limits import Limits
from plancc.models.problem import Assignment, EdgeProblem
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.owners.nodes import search_on_nodes
from plancc.owners.provenance import empty_parts
from plancc.owners.rows import found_by_search, partitioned
from plancc.owners.task import REFINED, Observer, Ownership, Report, Task
from plancc.partitioners.run import TRIVIAL, balance_notes, checked_owner
from plancc.passes.context import Context
from plancc.passes.deadline import Deadline
from plancc.search.record import Judge, Record, SearchResult


def find_edge_owners(
    matrix: Graph, task: Task, balance: Balance, observer: Observer, report: Report | None = None
) -> Ownership:
    """Owners of the rows and nonzeros of `matrix`; see `plancc.owners.find.find_owners`.

    The balance is that of the nonzeros; there is no other here.
    """
    if balance.names != ("nnz",):
        raise InputError(f"balance {balance}: model '{task.name}' shares nonzeros evenly (nnz)")
    epsilon = balance.epsilon("nnz", task.options.epsilon)
    task = replace(task, options=replace(task.options, epsilon=epsilon))
    balance = replace(balance, capacities=task.options.capacities)
    taken = task.model.taken(matrix, task.num_parts)
    found = _found(matrix, task, balance, observer, report)
    return replace(found, how=found.how | taken, limits=_limits(matrix, task))


def _found(
    matrix: Graph, task: Task, balance: Balance, observer: Observer, report: Report | None
) -> Ownership:
    """The same, under whatever numbers the parts have."""
    if task.searches:
        with observer("partition"):
            return _searched(matrix, task, report)
    with observer(f"model {task.name}"):
        problem = build_problem(
            task.model,
            matrix,
            task.num_parts,
            balance=balance,
            seed=task.options.seed,
            takes=(Assignment, EdgeProblem),
        )
    with observer("partition"):
        if isinstance(problem, Assignment):
            found = _assigned(matrix, problem, task)
        else:
            found = partitioned(problem.hypergraph, task, _limits(matrix, task))
            found = replace(found, owners=problem.owners(found.owners.rows))
    if task.objective is not None and found.how.get("partitioner") != TRIVIAL:
        with observer("refine"):
            found = _refined(matrix, found, task, report)
    return found


def _searched(matrix: Graph, task: Task, report: Report | None) -> Ownership:
    """What `plancc.search` finds."""
    model: Any = task.model
    options = task.search_options
    from plancc.search.edges import search_edges

    def find(
        matrix: Graph, num_parts: int, options: SearchOptions, limits: Any, report: Report | None
    ) -> SearchResult:
        return search_edges(matrix, model, num_parts, options, report=report)

    shared = _limits(matrix, task) if options.fixed is None else None  # to get numbers by nodes
    asked = task.options.objective in OBJECTIVES
    found = search_on_nodes(find, matrix, task.num_parts, options, shared, report, asked)
    return found_by_search(found, task)


def _assigned(matrix: Graph, problem: Assignment, task: Task) -> Ownership:
    """A model's own nonzeros, and the owners of rows that suit them."""
    from plancc.passes.vector_owners import VectorOwners

    who, num_parts, options = f"model '{task.name}'", task.num_parts, task.options
    rows = checked_owner(who, problem.rows, matrix.num_vertices, num_parts)
    owners, limits = Owners(rows, problem.of_nonzeros(matrix)), _limits(matrix, task)
    if num_parts > 1:
        owners = VectorOwners().refine(owners, matrix, Context(limits, options.seed))
    notes = empty_parts(owners.rows, num_parts)
    notes += balance_notes(owners.of_nonzeros(matrix), limits, who)
    return Ownership(owners, dict(problem.notes), about_owners=notes)


def _refined(matrix: Graph, found: Ownership, task: Task, report: Report | None) -> Ownership:
    """A partitioner's answer, refined for an objective that it does not have."""
    from plancc.passes.edges import RefineEdges

    assert task.objective is not None
    goal, start = task.objective, wall_seconds()
    epoch = task.search_options.time(matrix, task.num_parts)
    record, options, limits = Record(report), task.options, _limits(matrix, task)
    deadline = Deadline.after(options.budget, options.stop)
    context = Context(limits, options.seed, deadline=deadline, time=epoch)
    result = RefineEdges(goal).refine(found.owners, matrix, context)
    seconds = wall_seconds() - start

    judge = Judge(matrix, goal, epoch, limits)
    spent = found.how["search_seconds"]
    record.add(found.how["partitioner"], spent, judge.of(found.owners))
    record.add(f"refined for {goal}", seconds, judge.of(result.owners))
    best = record.result(found.about_run)
    return Ownership(
        best.owners,
        found.how | {"tried": best.tried_json(), "search_seconds": record.seconds},
        found.about_run,
        balance_notes(best.owners.of_nonzeros(matrix), limits, REFINED),
    )


def _limits(matrix: Graph, task: Task) -> Limits:
    """Limits of the nonzeros of parts."""
    epsilon, capacities = task.options.epsilon, task.options.capacities
    return Limits.of_nonzeros(matrix.num_nonzeros, task.num_parts, epsilon, capacities)
