"""`find_owners`: find owners for a task, by a search, by a partitioner or by the model itself."""

from __future__ import annotations

from dataclasses import replace

from plancc.owners.task import Ownership, Task, Unowned

STOPPED = "the search was stopped before its end; these are the best owners so far"


def find_owners(asked: Unowned) -> Ownership:
    """Find owners of the rows of a matrix; if the plan is an edge plan, also of its nonzeros.

    With a topology, parts are numbered such that parts on the same node exchange many rows.
    """
    task = asked.task
    if task.model.layout == "edge":
        from plancc.owners.edges import find_edge_owners as find
    else:
        from plancc.owners.rows import find_row_owners as find
    found, nodes = find(asked), task.options.nodes
    if nodes is not None and "topology" not in found.how:
        owners = found.owners
        by_time = task.objective == "time"  # then `numbered` chooses the numbers by time
        if task.options.fixed is None and not (by_time and task.model.searched):
            from plancc.owners.numbering import mapped

            with asked.observer("map to nodes"):
                owners = mapped(owners, asked.matrix, nodes, task.options.capacities)
        found = replace(found, owners=owners, how=found.how | {"topology": str(nodes)})
    return with_stop_note(found, task)


def with_stop_note(found: Ownership, task: Task) -> Ownership:
    """Return the owners; if the user has stopped the search, add a note that says so."""
    stopped = task.options.stop is not None and task.options.stop()
    if not stopped or STOPPED in found.about_run:
        return found
    return replace(found, about_run=[*found.about_run, STOPPED])
