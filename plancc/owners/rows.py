"""Find owners of rows, for row plans.

A model without a search assigns the rows itself. Otherwise `plancc.search` or a partitioner that
the user names finds the owners. A partitioner's owners are refined if the partitioner cannot
minimise the objective, or rebalanced if a part is above one of several limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from plancc.clock import wall_seconds
from plancc.errors import BackendUnavailable, InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.models import build_problem
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import hypergraph_of
from plancc.models.limits import Limits
from plancc.models.problem import Assignment, Hypergraph, WeightedGraph
from plancc.models.random import random_owner
from plancc.models.stochastic import AUTO as EXACT_OR_ENOUGH
from plancc.models.stochastic import StochasticModel
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.owners.nodes import search_on_nodes
from plancc.owners.provenance import empty_parts
from plancc.owners.task import REBALANCED, REFINED, Ownership, Report, Task, Unowned
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import TRIVIAL, balance_notes, checked_owner, partition
from plancc.passes.context import Context
from plancc.passes.deadline import Deadline
from plancc.passes.rebalance import rebalance
from plancc.passes.refine import refiner
from plancc.search.effort import search
from plancc.search.record import Judge, Record, SearchResult, Trial
from plancc.version import __version__

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation

CLUSTER_EPSILON = 0.1
"""Allowed imbalance of clusters."""


@dataclass(frozen=True)
class _Rows:
    """The task of finding owners of rows, with limits and an objective computed from the task.

    Attributes:
        limits: Limits of the parts.
        expectation: The expected volume of mini-batches, if the model minimises it; else None.
    """

    asked: Unowned
    limits: Limits
    expectation: Expectation | None


def find_row_owners(asked: Unowned) -> Ownership:
    """Find owners of the rows of a matrix; see `plancc.owners.find.find_owners`."""
    matrix, task, observer = asked.matrix, asked.task, asked.observer
    model, options, num_parts = task.model, task.options, task.num_parts
    balance = replace(asked.balance, capacities=options.capacities)
    limits = balance.limits(matrix, num_parts, options.epsilon)
    expectation = _expectation(asked, limits)
    job = _Rows(asked, limits, expectation)
    problem = None
    if not task.searches:
        with observer(f"model {task.name}"):
            problem = build_problem(model, matrix, num_parts, balance=balance, seed=options.seed)
    with observer("partition"):
        if problem is None:
            found = _searched(job)
        elif isinstance(problem, Assignment):
            who = f"model '{task.name}'"
            rows = checked_owner(who, problem.rows, matrix.num_vertices, num_parts)
            notes = empty_parts(rows, num_parts)
            found = Ownership(Owners(rows), dict(problem.notes), about_owners=notes)
        else:
            found = partitioned(problem, task, limits)
    if isinstance(problem, Hypergraph | WeightedGraph) and model.searched:
        left = _left_to_do(found, job)
        if left:
            with observer(left):
                found = _improved(found, problem, job)
    if job.expectation is not None:
        how, notes = job.expectation.about(found.owners.rows, num_parts)
        random = random_owner(matrix.num_vertices, num_parts, options.seed, options.capacities)
        how["expected_volume_random"] = job.expectation.value(random, num_parts)
        found = replace(found, how=found.how | how, about_owners=[*found.about_owners, *notes])
    return replace(found, limits=limits)


def _expectation(asked: Unowned, limits: Limits) -> Expectation | None:
    """Return the expected volume as an objective, for a model of mini-batches; else None."""
    task, model, options = asked.task, asked.task.model, asked.task.options
    if not isinstance(model, StochasticModel):
        if model.of_batches:
            told = "has mini-batches, so it must derive from StochasticModel"
            raise BackendUnavailable(f"model '{task.name}' {told}")
        return None
    from plancc.search.expectation import expectation_of

    with asked.observer("mini-batches"):
        weights, parts = limits.vertex_weights, task.num_parts
        return expectation_of(model, asked.matrix, weights, parts, options.seed, options.threads)


def _searched(job: _Rows) -> Ownership:
    """Find owners by a search for parts, or in two levels: nodes, then parts within each node.

    See `plancc.owners.nodes`.
    """
    task, expectation = job.asked.task, job.expectation
    how: Any = {"model": task.model, "expectation": expectation}

    def find(
        matrix: Graph, num_parts: int, options: SearchOptions, limits: Any, report: Report | None
    ) -> SearchResult:
        limits = limits or job.limits
        return search(matrix, num_parts, options, limits=limits, report=report, **how)

    # whether parts may be numbered by node
    free = expectation is None and task.options.fixed is None
    shared = job.limits if free else None
    return found_by_search(search_on_nodes(find, job.asked, shared), task)


def found_by_search(result: SearchResult, task: Task) -> Ownership:
    """Convert the result of a search to an `Ownership`, with entries for the provenance."""
    how = {
        "partitioner": "plancc",
        "partitioner_version": __version__,
        "partitioner_versions": _versions(result.tried),
        "effort": task.effort,
        **task.wishes(),
        "threads": task.options.threads,
        "search_seconds": result.seconds,
        "tried": result.tried_json(),
        **result.how,
    }
    others = result.others if task.options.fixed is None else []
    return Ownership(result.owners, how, result.warnings, others=others)


def _versions(tried: Sequence[Trial]) -> str:
    """Return names and versions of the partitioners that made the steps in `tried`."""
    names = dict.fromkeys(trial.step.split()[0] for trial in tried)
    used = [name for name in names if name in PARTITIONERS]
    return ", ".join(f"{name} {PARTITIONERS[name].version()}".strip() for name in used)


def partitioned(problem: Hypergraph | WeightedGraph, task: Task, limits: Limits) -> Ownership:
    """Find owners of the vertices of `problem` by the one partitioner that the options name."""
    result = partition(problem, task.num_parts, task.options, limits=limits)
    how = {
        "partitioner": result.partitioner,
        "partitioner_version": result.version,
        "preset": result.preset,
        "threads": task.options.threads,
        "search_seconds": result.seconds,
        **task.wishes(),
    }
    return Ownership(Owners(result.owner), how, result.about_run, result.about_owners)


def _left_to_do(found: Ownership, job: _Rows) -> str:
    """Return "refine" or "rebalance" if a partitioner's owners need this step, else "".

    Owners are refined if the partitioner cannot minimise the objective. But if the user gives a
    number of mini-batches to sample, the partitioner's owners stay, as in Demirci et al. 2022.
    """
    if found.how["partitioner"] == TRIVIAL:
        return ""
    batches = getattr(job.asked.task.model, "batches", EXACT_OR_ENOUGH)
    if job.asked.task.objective is not None and batches == EXACT_OR_ENOUGH:
        return "refine"
    limits = job.limits
    if len(limits.names) == 1 and not limits.unequal:
        return ""
    return "rebalance" if limits.overload(limits.load(found.owners.rows)) > 0 else ""


def _improved(found: Ownership, problem: Hypergraph | WeightedGraph, job: _Rows) -> Ownership:
    """Refine a partitioner's owners for an objective that it cannot minimise, or rebalance them."""
    task, matrix, limits = job.asked.task, job.asked.matrix, job.limits
    num_parts, goal = task.num_parts, task.objective
    epoch = task.search_options.time(matrix, num_parts)
    seed = task.options.seed
    judge = Judge(matrix, goal or "volume", epoch, limits, job.expectation)
    record = Record(job.asked.report)
    partitioner, given = found.how["partitioner"], found.owners.rows
    kind = problem.objective if isinstance(problem, WeightedGraph) else ""
    words = partitioner, kind, task.options.preset, f"seed {seed}"
    spent = found.how["search_seconds"]
    record.add(" ".join(filter(None, words)), spent, judge.of(found.owners))

    start = wall_seconds()
    if isinstance(problem, Hypergraph):
        hypergraph = replace(problem, vertex_weights=limits.vertex_weights)
    else:
        hypergraph = hypergraph_of(matrix, limits)
    about_run = list(found.about_run)
    context = Context(limits, seed, task.options.threads, time=epoch)
    if goal is None:
        step, who = f"rebalanced, seed {seed}", REBALANCED
        owner = rebalance(given, hypergraph, context)
        if owner is not given:
            told = f"is above epsilon ({limits.described}): plancc moved rows between its parts"
            about_run.append(f"{partitioner} {told}")
    else:
        step, who = f"refined for {goal}, seed {seed}", REFINED
        if job.expectation is None:
            refinement = refiner(goal)
        else:
            hypergraph, refinement = job.expectation.problem, job.expectation.refiner()
        deadline = Deadline.after(task.options.budget, task.options.stop)
        owner = refinement.refine(given, hypergraph, replace(context, deadline=deadline)).owner
    record.add(step, wall_seconds() - start, judge.of(Owners(owner)))

    result = record.result(about_run)
    notes = balance_notes(result.owners.rows, limits, who)
    how = found.how | {"tried": result.tried_json(), "search_seconds": record.seconds}
    return Ownership(result.owners, how, about_run, notes)


def with_clusters(
    data: VertexData, matrix: Graph, clusters: int, seed: int, time_limit: float | None
) -> VertexData:
    """Return the vertex data with clusters of about equal size, which a partitioner finds."""
    if data.clusters is not None:
        raise InputError(f"cannot add {clusters} clusters: the vertex data has clusters already")
    check_num_parts(matrix.num_vertices, clusters, "cluster")
    problem = GraphModel().build(matrix, clusters, balance="rows", seed=seed)
    options = PartitionOptions(epsilon=CLUSTER_EPSILON, seed=seed, time_limit=time_limit)
    return replace(data, clusters=partition(problem, clusters, options).owner)
