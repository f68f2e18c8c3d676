"""From a task to owners: a search, a partitioner or the model itself, whatever its layout."""

from __future__ import annotations

from dataclasses import replace

from plancc.graph.graph import Graph
from plancc.models.weights import Balance
from plancc.owners.choice import choose
from plancc.owners.edges import find_edge_owners
from plancc.owners.rows import find_row_owners
from plancc.owners.task import Observer, Ownership, Report, Task

STOPPED = "the search was stopped before its end; these are the best owners so far"


def find_owners(
    matrix: Graph,
    task: Task,
    balance: Balance,
    observer: Observer,
    report: Report | None = None,
) -> Ownership:
    """Owners of the rows of `matrix`, and of its nonzeros for an edge plan.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    task : Task
    balance : Balance
    observer, report
        See `plancc.compile`.

    Raises
    ------
    InputError, BackendUnavailable, BackendError
    """
    find = {"row": find_row_owners, "edge": find_edge_owners, "any": choose}[task.model.layout]
    found = find(matrix, task, balance, observer, report)
    if task.options.stop is not None and task.options.stop():
        found = replace(found, about_run=[*found.about_run, STOPPED])
    return found
