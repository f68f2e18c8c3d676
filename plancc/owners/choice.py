"""The best of several layouts: owners of every candidate of model ``auto``, compared.

They are judged by predicted epochs (`plancc.predict.predictor`) unless an objective is named; the
table of all of them goes into the provenance. A candidate takes part in its best form, such as the
best process grid; its *price* (`plancc.owners.prices`) says whether it is searched for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
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
from plancc.models.capacities import relative_capacities
from plancc.models.crowd import HUB, Crowd
from plancc.models.weights import Balance
from plancc.owners.find import find_owners, told_of_stop
from plancc.owners.numbering import numbered
from plancc.owners.prices import Form, PricedForms
from plancc.owners.task import Observer, Ownership, Report, Task
from plancc.plan.lowering import lower
from plancc.plan.metrics import imbalance, summarize
from plancc.plan.routes import with_routes
from plancc.plan.topology import Topology
from plancc.predict.schedules import tables_of
from plancc.registry import check_choice

BESIDE_EPSILON = 0.01
"""A candidate may miss the balance by this much more than the best balanced one."""


@dataclass(frozen=True)
class Candidate:
    """One model's answer, as the provenance keeps it.

    Attributes:
        model: Its name, with the options of its form.
        objective: What it was searched for; "" for a model that searches for nothing.
        volume, messages, max_volume, nonzero_imbalance, row_imbalance: See
            `plancc.plan.metrics.Metrics`.
        epoch_seconds: The predicted epoch.
        memory: Bytes of the fullest rank, as predicted.
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
    memory: int = 0
    value: float = 0.0
    seconds: float = 0.0
    failed: str = ""
    chosen: bool = False


def choose(
    matrix: Graph,
    task: Task,
    balance: Balance,
    observer: Observer,
    report: Report | None = None,
    *,
    grids: bool = False,
    hops: bool = False,
) -> Ownership:
    """The owners of the candidate of an `AutoModel` that is best by the objective.

    The objective is "time" if none is named. Searches share the budget. The balance is that of row
    plans, nonzeros, or nonzeros and rows; edge plans share nonzeros. Where no candidates are named,
    `MOST` at most are searched for.

    Parameters:
        matrix, observer, report: As of `find_owners`.
        grids: Whether the plan may be that of a process grid.
        hops: Whether rows may travel in hops between the nodes of the machine where that is
            quicker; only where no candidates are named.

    Raises:
        InputError
        BackendError: Every candidate failed.
    """
    assert isinstance(task.model, AutoModel)
    options, free = task.options, task.model.candidates is None
    goal = options.objective or "time"
    check_choice("objective", goal, OBJECTIVES)
    grids = grids and goal == "time" and options.capacities is None
    names = _names(task, balance, {"row": True, "edge": matrix.types is None}, grids)
    unfits = _unfits(matrix, task, names)
    if any(unfits.values()):  # an extreme graph, on which much search gains little
        task = replace(task, options=replace(options, effort="fast"))
    begin, least, late = wall_seconds(), 0.0, list[str]()
    prices = PricedForms(matrix, task, balance)
    with observer("price"):
        forms = [form for name in names for form in prices.best_form(name, bool(unfits.get(name)))]
        why = dict(unfits) | (prices.left_out(forms, unfits) if free and goal == "time" else {})
    priced = wall_seconds() - begin
    if not forms:
        raise InputError(
            f"candidates {', '.join(names)}: no grid has {task.num_parts} ranks and these widths"
        )
    num_searched = sum(form.searched and not why.get(form.name) for form in forms)
    hops = hops and free and goal == "time"
    table: list[Candidate] = []
    answers: list[Ownership | None] = []
    for form in forms:
        start, found = wall_seconds(), None
        shared, grid = prices.balance_of(form), form.assigner.grid
        candidate = _task(task, form, goal, start - begin, max(num_searched, 1))
        num_searched -= form.searched and not why.get(form.name)
        share = candidate.options.budget
        if share is not None and any(answers) and not why.get(form.name):
            assert options.budget is not None
            left = max(options.budget - (start - begin), 0.0)
            if left < least:
                late.append(form.name)
                least_words = f"no search so far took less than {least:.1f} s"
                why[form.name] = f"{left:.1f} s were left of it, and {least_words}"
        entry = Candidate(form.label, candidate.objective or "", failed=why.get(form.name, ""))
        try:
            if not entry.failed:
                with observer(f"candidate {form.label}"):
                    found = find_owners(matrix, candidate, shared, observer, report)
                found = replace(found, balance=shared, grid=grid)
                if grid is None:

                    def in_the_end(found: Ownership, entry: Candidate = entry) -> float:
                        return _judged(entry, matrix, found, task, goal, hops)[0].value

                    found = numbered(matrix, found, candidate, report, in_the_end)
                entry, found = _judged(entry, matrix, found, task, goal, hops)
        except (BackendError, BackendUnavailable) as error:
            entry, found = replace(entry, failed=str(error)), None
        seconds = wall_seconds() - start
        if found and share is not None and seconds > share:  # the least that a search needs
            least = min(least or seconds, seconds)
        table.append(entry if why.get(form.name) else replace(entry, seconds=seconds))
        answers.append(found)
    memory = options.predictor.machine.node.memory if goal == "time" else None
    first = _able(table, options.epsilon if goal != "time" else math.inf, memory)[0]
    best = table[first] = replace(table[first], chosen=True)
    found = answers[first]
    assert found is not None
    how: dict[str, Any] = {
        "chosen_model": best.model,
        "chosen_by": goal,
        "candidates": json.dumps([asdict(entry) for entry in table]),
        "search_seconds": priced + sum(entry.seconds for entry in table),
        "effort": task.effort,
        "threads": options.threads,
        **({} if options.budget is None else {"budget": float(options.budget)}),
        **({} if found.grid is None else {"blocks": forms[first].assigner.model}),
        **({} if found.topology is None else {"topology": str(found.topology)}),
    }
    notes = list(found.about_owners)
    left_out = ", ".join(name for name, said in unfits.items() if said)
    if left_out:
        notes.append(
            f"the graph is not made for these candidates, which are left out: {left_out}; the "
            "others are searched with effort fast"
        )
    if late:
        notes.append(f"the budget was too short to search {', '.join(late)}: {why[late[0]]}")
    if goal != "time" and task.num_parts > 1:  # of the time the compiler itself says it
        value = OBJECTIVES[goal].value
        assert value is not None
        random = value(random_traffic(matrix, task.num_parts))
        if best.value > random:
            notes.append(
                f"an even random partition is better than every candidate: its {goal} is "
                f"{random:.4g}, that of '{best.model}' {best.value:.4g}"
            )
    return told_of_stop(replace(found, how=found.how | how, about_owners=notes), task)


def _names(task: Task, balance: Balance, layouts: dict[str, bool], grids: bool) -> tuple[str, ...]:
    """The candidates, checked: of layouts that may compete, and of process grids if they may."""
    assert isinstance(task.model, AutoModel)
    names = task.model.names()
    known = {name: model for name, model in MODELS.loaded().items() if model.competes}
    if not names:
        raise InputError(f"model 'auto' without candidates: choose from {', '.join(known)}")
    for name in names:
        check_choice("candidate", name, known)
    if balance.names not in (("nnz",), ("nnz", "rows")):
        raise InputError(
            f"balance {balance}: model 'auto' shares nonzeros (nnz) or nonzeros and rows (nnz,rows)"
        )
    others = [name for name in names if not layouts.get(known[name].layout, grids)]
    if others and task.model.candidates is not None:
        if known[others[0]].layout == "edge":
            raise InputError(f"candidate '{others[0]}': a graph of types trains by row plans alone")
        raise InputError(
            f"candidate '{others[0]}': process grids compete for objective time alone, and not "
            "with capacities, a topology, types, links, features of edges or several relations"
        )
    return tuple(name for name in names if name not in others)


def _judged(
    entry: Candidate, matrix: Graph, found: Ownership, task: Task, goal: str, hops: bool
) -> tuple[Candidate, Ownership]:
    """The figures of owners, and the owners: with hops, where these are allowed and quicker."""
    predictor, grid = task.options.predictor, found.grid
    num_parts = task.num_parts if grid is None else grid.num_parts
    parts = traffic(matrix, found.owners, num_parts)
    metrics = summarize(parts)
    relative = relative_capacities(num_parts, task.options.capacities)
    epoch = predictor.of_owners(matrix, found.owners, num_parts, grid)
    node = predictor.machine.node.ranks
    if hops and grid is None and 1 < node < num_parts and num_parts % node == 0:
        topology = Topology(((num_parts // node, node),))
        plan = lower(matrix, found.owners, num_parts, normalization="none", self_loops=False)
        routed = predictor.epoch(tables_of(with_routes(plan, topology)))
        if routed.seconds < epoch.seconds:
            epoch, found = routed, replace(found, topology=topology)
            entry = replace(entry, model=f"{entry.model}:topology={topology}")
    value: float = epoch.seconds
    if goal != "time":
        value = float(objective_value(goal, parts, found.owners))
    entry = replace(
        entry,
        volume=metrics.volume,
        messages=metrics.messages,
        max_volume=metrics.max_volume,
        nonzero_imbalance=imbalance(parts.nonzeros, relative),
        row_imbalance=imbalance(parts.rows, relative),
        epoch_seconds=epoch.seconds,
        memory=int(epoch.memory_of_rank.max()),
        value=value,
    )
    return entry, found


def _unfits(matrix: Graph, task: Task, names: Sequence[str]) -> dict[str, str]:
    """Why each candidate is not made for the graph, "" where it is; nothing where none is left.

    A row plan cannot share a hub: where a row, or a column, is more than `HUB` times the even share
    of a line of a square grid of the parts, candidates by rows are left out if one by nonzeros
    remains; of searched ones the first is enough.
    In a crowd of hubs searches take long, and candidates that assign nonzeros are as good.
    """
    if len(names) < 2:
        return {}
    known = {name: MODELS[name] for name in names}
    unfits = {name: make_model(name, {}).unfit(matrix, task.num_parts) for name in names}
    crowd = Crowd.of(matrix, task.num_parts)
    if crowd is not None and crowd.hubs:
        by_nonzeros = [name for name in names if known[name].layout == "edge" and not unfits[name]]
        assigned = [name for name in by_nonzeros if not known[name].searched]
        kept = assigned or by_nonzeros or list(names)
        for name in names:
            if name not in kept:
                unfits[name] = unfits[name] or f"{crowd}; {kept[0]} is as good, or quicker"
    lines = (matrix.row_nonzeros(), np.bincount(matrix.indices, minlength=matrix.num_vertices))
    heaviest = max(lines, key=lambda line: int(line.max()))
    vertex, share = int(heaviest.argmax()), matrix.num_nonzeros / task.num_parts
    by_nonzeros = [name for name in names if known[name].layout == "edge" and not unfits[name]]
    too_heavy = heaviest[vertex] > HUB * share * math.sqrt(task.num_parts)
    if not by_nonzeros or not too_heavy:
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


def _task(task: Task, form: Form, goal: str, spent: float, num_searched: int) -> Task:
    """How a candidate's owners are found: searched for by the objective that decides.

    `num_searched` searches share what is left of the budget after `spent` seconds.
    """
    assigner = form.assigner
    model = make_model(assigner.model, assigner.options)
    given = replace(task.options, grid=assigner.grid)
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
    return Task(assigner.model, model, assigner.num_parts, options)


def _able(table: list[Candidate], epsilon: float, memory: float | None) -> list[int]:
    """Candidates with enough memory that are balanced, or nearest to it; of least value first.

    The slowest part's time knows of imbalance by itself: then `epsilon` is infinite. Where no
    candidate has enough memory, all of them are taken.
    """
    there = [k for k, entry in enumerate(table) if not entry.failed]
    if not there:
        raise BackendError(f"model 'auto': {table[0].model}: {table[0].failed}")
    if memory is not None:
        there = [k for k in there if table[k].memory <= memory] or there
    least = min(table[k].nonzero_imbalance for k in there)
    limit = max(epsilon, least) + BESIDE_EPSILON
    balanced = [k for k in there if table[k].nonzero_imbalance <= limit]
    return sorted(balanced, key=lambda k: table[k].value)
