"""Who owns which row and which nonzero, for the models whose plans have an expand and a fold.

The counterpart of `plancc.owners.rows` for layout "edge". Knows models, partitioners, passes and
the search; no plan, no file, no terminal.

    searched     medium-grain, hub-split, fine-grain,   plancc.search.edges and .checkerboard
                 checkerboard, partitioner "auto"
    partitioned  the first three, a named partitioner   exactly its answer; refined if it cannot
                                                        minimise the objective by itself
    assigned     libra                                  the model's own nonzeros; rows of H where
                                                        they save most (`VectorOwners`)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.cost.edge_owners import traffic_of_edge_owners
from plancc.cost.objectives import objective_value
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.checkerboard import CheckerboardModel
from plancc.models.hub_split import HubSplitModel
from plancc.models.problem import EdgeAssignment
from plancc.models.weights import Balance
from plancc.owners.provenance import empty_parts
from plancc.owners.rows import (
    EFFORT,
    REFINED,
    Found,
    Method,
    Observer,
    Report,
    found_by_search,
    partitioned,
)
from plancc.partitioners.run import TRIVIAL, balance_notes, checked_owner
from plancc.search.record import Record, SearchResult


def find_edge_owners(
    matrix: Graph,
    method: Method,
    model: Any,
    balance: Balance,
    observer: Observer,
    report: Report | None = None,
) -> Found:
    """Owners of the rows and of the nonzeros of `matrix`.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    method : Method
    model : a model of `plancc.models` with layout "edge"
    balance : Balance
        Of nonzeros; there is no other here.
    observer, report
        See `plancc.compile`.

    Raises
    ------
    InputError, BackendUnavailable, BackendError
    """
    _check(method, balance)
    about_model = _defaults(matrix, method, model)
    if method.searches:
        with observer("partition"):
            found = _searched(matrix, method, model, report)
        return replace(found, how=found.how | about_model)
    with observer(f"model {method.model}"):
        problem = model.build(matrix, method.num_parts, balance=balance, seed=method.seed)
    with observer("partition"):
        if isinstance(problem, EdgeAssignment):
            found = _assigned(matrix, problem, method)
        else:
            found = partitioned(problem.hypergraph, method, model, tuple(balance.names))
            owners = problem.owners(found.owner)
            found = replace(found, owner=owners.owner, nonzero_owner=owners.nonzero_owner)
    if method.goal is not None and found.how.get("partitioner") != TRIVIAL:
        with observer("refine"):
            found = _refined(matrix, found, method, report)
    return replace(found, how=found.how | about_model)


def _check(method: Method, balance: Balance) -> None:
    if balance.names != ("nnz",):
        raise InputError(f"balance {balance}: model '{method.model}' shares nonzeros evenly (nnz)")
    if method.topology is not None:
        raise InputError(
            f"topology {method.nodes}: parts of model '{method.model}' cannot be mapped to nodes"
        )


def _searched(matrix: Graph, method: Method, model: Any, report: Report | None) -> Found:
    """What `plancc.search` finds."""
    assert method.goal is not None
    search: Callable[..., SearchResult]
    if isinstance(model, CheckerboardModel):
        from plancc.search.checkerboard import search_checkerboard as search
    else:
        from plancc.search.edges import search_edges as search
    result = search(
        matrix,
        model,
        method.num_parts,
        effort=method.effort or EFFORT,
        objective=method.goal,
        epsilon=method.epsilon,
        seed=method.seed,
        threads=method.threads,
        budget=method.budget,
        time_limit=method.time_limit,
        rates=method.rates,
        report=report,
    )
    return found_by_search(result, method)


def _defaults(matrix: Graph, method: Method, model: Any) -> dict[str, Any]:
    """What the model takes for options that were left to it, for the provenance."""
    if isinstance(model, CheckerboardModel):
        rows, columns = model.shape(method.num_parts)
        return {"grid": f"{rows}x{columns}"}
    if isinstance(model, HubSplitModel):
        return {"hub_threshold": model.threshold_of(matrix, method.num_parts)}
    return {}


def _assigned(matrix: Graph, problem: EdgeAssignment, method: Method) -> Found:
    """A model's own nonzeros, and the owners of rows that suit them."""
    from plancc.passes.vector_owners import VectorOwners

    model = f"model '{method.model}'"
    owner = checked_owner(model, problem.owner, matrix.num_vertices, method.num_parts)
    nonzero_owner = problem.nonzero_owner
    if method.num_parts > 1:
        passed = VectorOwners(epsilon=method.epsilon, seed=method.seed)
        owner, nonzero_owner = passed.run(matrix, owner, nonzero_owner, method.num_parts)
    return Found(
        owner,
        dict(problem.notes),
        about_owners=[
            *empty_parts(owner, method.num_parts),
            *_balance_notes(nonzero_owner, method, model),
        ],
        nonzero_owner=nonzero_owner,
    )


def _refined(matrix: Graph, found: Found, method: Method, report: Report | None) -> Found:
    """A partitioner's answer, refined for an objective that it does not have."""
    from plancc.passes.edges import RefineEdges

    assert method.goal is not None
    assert found.nonzero_owner is not None
    goal, start = method.goal, time.perf_counter()
    record = Record(report)
    refinement = RefineEdges(
        objective=goal,
        epsilon=method.epsilon,
        seed=method.seed,
        budget=method.budget,
        rates=method.rates,
    )
    result = refinement.run(matrix, found.owner, found.nonzero_owner, method.num_parts)
    seconds = time.perf_counter() - start

    def note(
        step: str,
        seconds: float,
        owner: npt.NDArray[np.int32],
        nonzero_owner: npt.NDArray[np.int32],
        over: float,
    ) -> None:
        parts = traffic_of_edge_owners(matrix, owner, nonzero_owner, method.num_parts)
        value = objective_value(goal, parts, method.rates)
        record.add(step, seconds, owner, over, value, int(parts.sent.sum()), nonzero_owner)

    partitioner, spent = found.how["partitioner"], found.how["partition_seconds"]
    note(partitioner, spent, found.owner, found.nonzero_owner, result.overload_before)
    note(f"refined for {goal}", seconds, result.owner, result.nonzero_owner, result.overload)
    best = record.result(found.about_run)
    assert best.nonzero_owner is not None
    return Found(
        best.owner,
        found.how | {"tried": best.tried_json()},
        found.about_run,
        _balance_notes(best.nonzero_owner, method, REFINED),
        best.nonzero_owner,
    )


def _balance_notes(nonzero_owner: npt.NDArray[np.int32], method: Method, who: str) -> list[str]:
    """What to say where parts differ more in nonzeros than asked for."""
    even = np.ones(len(nonzero_owner), dtype=np.int64)
    return balance_notes(nonzero_owner, even, method.num_parts, method.epsilon, who, ())
