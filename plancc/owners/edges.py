"""Find owners of rows and nonzeros, for models of edge plans.

A model without a search assigns the nonzeros; each row gets the owner with which the fewest rows
are sent (`VectorOwners`). Otherwise `plancc.search.edges` or a partitioner that the user names
finds the owners. A partitioner's owners are refined if it cannot minimise the objective.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plancc.clock import wall_seconds
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models import build_problem
from plancc.models.limits import Limits
from plancc.models.problem import Assignment, EdgeProblem
from plancc.options import SearchOptions
from plancc.owners.nodes import search_on_nodes
from plancc.owners.provenance import empty_parts
from plancc.owners.rows import found_by_search, partitioned
from plancc.owners.task import REFINED, Ownership, Report, Task, Unowned
from plancc.partitioners.run import TRIVIAL, balance_notes, checked_owner
from plancc.passes.context import Context
from plancc.passes.deadline import Deadline
from plancc.search.record import Judge, Record, SearchResult


def find_edge_owners(asked: Unowned) -> Ownership:
    """Find owners of the rows and nonzeros of a matrix; see `plancc.owners.find.find_owners`.

    The parts share the nonzeros evenly, whatever the option `balance` says.
    """
    task, balance = asked.task, asked.balance
    epsilon = balance.epsilon("nnz", task.options.epsilon)
    task = replace(task, options=replace(task.options, epsilon=epsilon))
    balance = replace(balance, capacities=task.options.capacities)
    taken = task.model.taken(asked.matrix, task.num_parts)
    found = _found(replace(asked, task=task, balance=balance))
    return replace(found, how=found.how | taken, limits=_limits(asked.matrix, task))


def _found(asked: Unowned) -> Ownership:
    """Find owners for `find_edge_owners`, which then sets the limits of the result."""
    matrix, task = asked.matrix, asked.task
    if task.searches:
        with asked.observer("partition"):
            return _searched(asked)
    with asked.observer(f"model {task.name}"):
        how: Any = {"balance": asked.balance, "seed": task.options.seed}
        how["takes"] = Assignment, EdgeProblem
        problem = build_problem(task.model, matrix, task.num_parts, **how)
    with asked.observer("partition"):
        if isinstance(problem, Assignment):
            found = _assigned(matrix, problem, task)
        else:
            found = partitioned(problem.hypergraph, task, _limits(matrix, task))
            found = replace(found, owners=problem.owners(found.owners.rows))
    if task.objective is not None and found.how.get("partitioner") != TRIVIAL:
        with asked.observer("refine"):
            found = _refined(asked, found)
    return found


def _searched(asked: Unowned) -> Ownership:
    """Find owners by a search in one level, or in two levels (see `plancc.owners.nodes`)."""
    task = asked.task
    model: Any = task.model
    from plancc.search.edges import search_edges

    def find(
        matrix: Graph, num_parts: int, options: SearchOptions, limits: Any, report: Report | None
    ) -> SearchResult:
        return search_edges(matrix, model, num_parts, options, report=report)

    free = task.options.fixed is None  # whether parts may be numbered by node
    shared = _limits(asked.matrix, task) if free else None
    return found_by_search(search_on_nodes(find, asked, shared), task)


def _assigned(matrix: Graph, problem: Assignment, task: Task) -> Ownership:
    """Return the model's owners of nonzeros, and owners of rows that make the volume small.

    `VectorOwners` chooses the rows' owners, and may move nonzeros on the diagonal with their rows.
    """
    from plancc.passes.vector_owners import VectorOwners

    who, num_parts, options = f"model '{task.name}'", task.num_parts, task.options
    rows = checked_owner(who, problem.rows, matrix.num_vertices, num_parts)
    owners, limits = Owners(rows, problem.of_nonzeros(matrix)), _limits(matrix, task)
    if num_parts > 1:
        owners = VectorOwners().refine(owners, matrix, Context(limits, options.seed))
    notes = empty_parts(owners.rows, num_parts)
    notes += balance_notes(owners.of_nonzeros(matrix), limits, who)
    return Ownership(owners, dict(problem.notes), about_owners=notes)


def _refined(asked: Unowned, found: Ownership) -> Ownership:
    """Refine a partitioner's owners for an objective that the partitioner cannot minimise."""
    from plancc.passes.edges import RefineEdges

    matrix, task = asked.matrix, asked.task
    assert task.objective is not None
    goal, start = task.objective, wall_seconds()
    epoch = task.search_options.time(matrix, task.num_parts)
    record, options, limits = Record(asked.report), task.options, _limits(matrix, task)
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
    """Return the limits on the number of nonzeros of every part."""
    epsilon, capacities = task.options.epsilon, task.options.capacities
    return Limits.of_nonzeros(matrix.num_nonzeros, task.num_parts, epsilon, capacities)
