"""From a task to owners: a search, a partitioner or the model itself, in every layout.

Model ``auto`` finds owners for every candidate and keeps the best. They are judged by predicted
epochs (`plancc.predict.predictor`) unless an objective is named; the table of all of them goes into
the provenance.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES, objective_value
from plancc.cost.owners import random_traffic, traffic
from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.graph.graph import Graph
from plancc.models import MODELS, make_model
from plancc.models.auto import AutoModel
from plancc.models.base import Model
from plancc.models.capacities import relative_capacities
from plancc.models.crowd import HUB, Crowd
from plancc.models.weights import Balance
from plancc.owners.edges import find_edge_owners
from plancc.owners.numbering import mapped, numbered
from plancc.owners.rows import find_row_owners
from plancc.owners.task import Observer, Ownership, Report, Task
from plancc.plan.metrics import imbalance, summarize
from plancc.registry import check_choice

STOPPED = "the search was stopped before its end; these are the best owners so far"
BESIDE_EPSILON = 0.01
"""A candidate may miss the balance by this much more than the best balanced one."""


@dataclass(frozen=True)
class Candidate:
    """One model's answer, as the provenance keeps it.

    Attributes:
        objective: What it was searched for; "" for a model that searches for nothing.
        volume, messages, max_volume, nonzero_imbalance, row_imbalance: See
            `plancc.plan.metrics.Metrics`.
        epoch_seconds: The predicted epoch.
        value: Of the objective that decides.
        seconds: That it took to find.
        failed: Why there is no answer; then the figures are 0.
    """

    model: str
    objective: str
    volume: int = 0
    messages: int = 0
    max_volume: int = 0
    nonzero_imbalance: float = 0.0
    row_imbalance: float = 0.0
    epoch_seconds: float = 0.0
    value: float = 0.0
    seconds: float = 0.0
    failed: str = ""
    chosen: bool = False


def find_owners(
    matrix: Graph,
    task: Task,
    balance: Balance,
    observer: Observer,
    report: Report | None = None,
) -> Ownership:
    """Owners of the rows of `matrix`, and of its nonzeros for an edge plan.

    Parameters:
        matrix: The normalised matrix.
        observer, report: See `plancc.compile`.

    Raises:
        InputError, BackendUnavailable
        BackendError: Of model ``auto``: every candidate failed.
    """
    found = _found(matrix, task, balance, observer, report)
    if task.options.stop is not None and task.options.stop():
        found = replace(found, about_run=[*found.about_run, STOPPED])
    return found


def _found(
    matrix: Graph, task: Task, balance: Balance, observer: Observer, report: Report | None
) -> Ownership:
    """The same, of a search that may go on; parts have numbers for the nodes of a topology."""
    find = {"row": find_row_owners, "edge": find_edge_owners, "any": choose}[task.model.layout]
    found, nodes = find(matrix, task, balance, observer, report), task.options.nodes
    if nodes is None or task.model.layout == "any" or "topology" in found.how:
        return found
    with observer("map to nodes"):
        owners = mapped(found.owners, matrix, nodes, task.options.capacities)
    return replace(found, owners=owners, how=found.how | {"topology": str(nodes)})


def choose(
    matrix: Graph,
    task: Task,
    balance: Balance,
    observer: Observer,
    report: Report | None = None,
) -> Ownership:
    """The owners of the candidate of an `AutoModel` that is best by the objective.

    Parameters and errors are those of `find_owners`. The objective is "time" if none is named.
    Searches share the budget. The balance is that of row plans, nonzeros, or nonzeros and rows;
    edge plans share nonzeros.
    """
    assert isinstance(task.model, AutoModel)
    names, options = task.model.names(), task.options
    known = {name: model for name, model in MODELS.loaded().items() if model.competes}
    if not names:
        raise InputError(f"model 'auto' without candidates: choose from {', '.join(known)}")
    for name in names:
        check_choice("candidate", name, known)
    if balance.names not in (("nnz",), ("nnz", "rows")):
        raise InputError(
            f"balance {balance}: model 'auto' shares nonzeros (nnz) or nonzeros and rows (nnz,rows)"
        )
    of_edges = balance
    if "rows" in balance.names:
        of_edges = replace(balance, names=("nnz",), allowed={})
    goal = options.objective or "time"
    check_choice("objective", goal, OBJECTIVES)
    predictor = options.predictor
    epoch = predictor.time(matrix, task.num_parts)
    relative = relative_capacities(task.num_parts, options.capacities)
    num_searched = sum(known[name].searched for name in names)
    table: list[Candidate] = []
    answers: list[Ownership | None] = []
    unfits = _unfits(matrix, task, names, known)
    if any(unfits.values()):  # an extreme graph, on which much search gains little
        task = replace(task, options=replace(options, effort="fast"))
    begin, least, late = wall_seconds(), 0.0, list[str]()
    for name in names:
        start = wall_seconds()
        candidate = _task(task, name, goal, start - begin, max(num_searched, 1))
        num_searched -= known[name].searched
        share = candidate.options.budget
        if share is not None and any(answers) and not unfits.get(name):
            assert options.budget is not None
            left = max(options.budget - (start - begin), 0.0)
            if left < least:
                late.append(name)
                least_words = f"no search so far took less than {least:.1f} s"
                unfits[name] = f"{left:.1f} s were left of it, and {least_words}"
        by_rows = known[name].layout == "row"
        shared = balance if by_rows else of_edges
        entry = Candidate(name, candidate.objective or "")
        found = None
        if unfits.get(name):
            table.append(replace(entry, failed=unfits[name]))
            answers.append(None)
            continue
        try:
            with observer(f"candidate {name}"):
                found = _found(matrix, candidate, shared, observer, report)
            found = replace(numbered(matrix, found, candidate, report), balance=shared)
        except (BackendError, BackendUnavailable) as error:
            entry = replace(entry, failed=str(error))
        if found is not None:
            parts = traffic(matrix, found.owners, task.num_parts)
            metrics = summarize(parts)
            entry = replace(
                entry,
                volume=metrics.volume,
                messages=metrics.messages,
                max_volume=metrics.max_volume,
                nonzero_imbalance=imbalance(parts.nonzeros, relative),
                row_imbalance=imbalance(parts.rows, relative),
                epoch_seconds=epoch.seconds(found.owners),
                value=float(objective_value(goal, parts, found.owners, epoch)),
            )
        seconds = wall_seconds() - start
        if share is not None and seconds > share:  # the least that a search needs
            least = min(least or seconds, seconds)
        table.append(replace(entry, seconds=seconds))
        answers.append(found)
    best = _best(table, options.epsilon if goal != "time" else math.inf)
    table[best] = replace(table[best], chosen=True)
    found = answers[best]
    assert found is not None
    how: dict[str, Any] = {
        "chosen_model": names[best],
        "chosen_by": goal,
        "candidates": json.dumps([asdict(entry) for entry in table]),
        "effort": task.effort,
        "threads": options.threads,
        **({} if options.budget is None else {"budget": float(options.budget)}),
    }
    left_out = ", ".join(name for name, why in unfits.items() if why and name not in late)
    notes = found.about_owners
    if left_out:
        why = f"the graph is not made for these candidates, which are left out: {left_out}"
        notes = [*notes, f"{why}; the others are searched with effort fast"]
    if late:
        notes = [*notes, f"the budget was too short to search {', '.join(late)}: {unfits[late[0]]}"]
    if goal != "time" and task.num_parts > 1:  # of the time the compiler itself says it
        value = OBJECTIVES[goal].value
        assert value is not None
        random = value(random_traffic(matrix, task.num_parts))
        if table[best].value > random:
            notes = [
                *notes,
                f"an even random partition is better than every candidate: its {goal} is "
                f"{random:.4g}, that of '{names[best]}' {table[best].value:.4g}",
            ]
    return replace(found, how=found.how | how, about_owners=notes)


def _unfits(
    matrix: Graph, task: Task, names: Sequence[str], known: Mapping[str, type[Model]]
) -> dict[str, str]:
    """Why each candidate is not made for the graph, "" where it is; nothing where none is left.

    A row plan cannot share a hub: where one keeps another candidate from being even, candidates
    by rows are left out if its row, or its column, is more than two parts may hold and one by
    nonzeros remains; of those that are searched the first is enough.
    In a crowd searches take long, so of the candidates by nonzeros, if there are any, those that
    assign them are enough for hubs; among rows that are alike only a grid does better than random.
    """
    if len(names) < 2:
        return {}
    unfits = {name: make_model(name, {}).unfit(matrix, task.num_parts) for name in names}
    crowd = Crowd.of(matrix, task.num_parts)
    if crowd is not None:
        by_nonzeros = [name for name in names if known[name].layout == "edge" and not unfits[name]]
        best = [name for name in by_nonzeros if known[name].searched != crowd.hubs]
        kept = best or by_nonzeros or list(names)
        for name in names:
            if name not in kept:
                unfits[name] = unfits[name] or f"{crowd}; {kept[0]} is as good, or quicker"
    lines = (matrix.row_nonzeros(), np.bincount(matrix.indices, minlength=matrix.num_vertices))
    heaviest = max(lines, key=lambda line: int(line.max()))
    vertex, share = int(heaviest.argmax()), matrix.num_nonzeros / task.num_parts
    by_nonzeros = [name for name in names if known[name].layout == "edge" and not unfits[name]]
    if not any(unfits.values()) or not by_nonzeros or heaviest[vertex] <= HUB * share:
        return {} if all(unfits.values()) else unfits
    kind = "row" if heaviest is lines[0] else "column"
    hub = (
        f"{kind} {vertex} has {heaviest[vertex]:,} nonzeros, {heaviest[vertex] / share:.1f} times "
        "the even share of a part"
    )
    searched = [name for name in by_nonzeros if known[name].searched]
    for name in names:
        if known[name].layout == "row":
            unfits[name] = unfits[name] or f"{hub}, and model '{name}' gives a row to one part"
        elif name in searched[1:]:
            unfits[name] = f"{hub}, which '{searched[0]}' shares among parts too"
    return unfits


def _task(task: Task, name: str, goal: str, spent: float, num_searched: int) -> Task:
    """How a candidate's owners are found: searched for by the objective that decides.

    `num_searched` searches share what is left of the budget after `spent` seconds.
    """
    model: Model = make_model(name, {})
    given = task.options
    if not model.takes_capacities():
        given = replace(given, capacities=None)
    if model.searched:
        options = replace(
            given,
            objective=goal,
            budget=None if given.budget is None else max(given.budget - spent, 0.1) / num_searched,
        )
    else:
        options = replace(given, objective=None, effort=None, budget=None)
    return Task(name, model, task.num_parts, options)


def _best(table: list[Candidate], epsilon: float) -> int:
    """The candidate of least value among those that are balanced, or nearest to it.

    The slowest part's time knows of imbalance by itself: then `epsilon` is infinite.
    """
    there = [k for k, entry in enumerate(table) if not entry.failed]
    if not there:
        raise BackendError(f"model 'auto': {table[0].model}: {table[0].failed}")
    least = min(table[k].nonzero_imbalance for k in there)
    limit = max(epsilon, least) + BESIDE_EPSILON
    balanced = [k for k in there if table[k].nonzero_imbalance <= limit]
    return min(balanced, key=lambda k: (table[k].value, k))
