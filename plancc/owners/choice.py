"""Model ``auto``: find owners with each of several candidates, and choose the best owners.

A candidate is a model. Its *forms* are the ways to set its options; only the best form is compared,
by the user's objective or by the predicted epoch. A form is searched only if its *price*, the epoch
time predicted before any search, is low (`plancc.owners.prices`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from plancc.models.full_rows import HUB, FullRows
from plancc.owners.find import find_owners, with_stop_note
from plancc.owners.numbering import numbered
from plancc.owners.prices import Form, PricedForms
from plancc.owners.task import Ownership, Task, Unowned
from plancc.plan.lowering import lower
from plancc.plan.metrics import imbalance, summarize
from plancc.plan.routes import with_routes
from plancc.plan.topology import Topology
from plancc.predict.schedules import tables_of
from plancc.registry import check_choice

BESIDE_EPSILON = 0.01
"""A candidate counts as balanced if its imbalance exceeds epsilon by at most this number. If no
candidate is balanced, the smallest imbalance of a candidate takes the place of epsilon."""


@dataclass(frozen=True)
class Candidate:
    """An entry of the table of candidates in the provenance.

    Attributes:
        model: Name of the model, followed by its options.
        objective: Objective of the search; "" for a model without a search.
        memory: Predicted bytes of memory on the rank that needs most.
        value: Value of the objective by which candidates are compared.
        seconds: Seconds that it took to find the owners.
        failed: Reason why no owners were found (the figures are then 0), or "".
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


@dataclass
class Contest:
    """A comparison of all candidates, which model auto tries one after the other.

    A *candidate* is a model, and a *form* is a candidate with fixed options. The *price* of a form
    is its predicted epoch time before any search.

    Attributes:
        goal: The objective by which candidates are compared.
        hops: Whether the plan may have node-aware exchange.
        why: Name of a candidate -> reason why it is not tried; "" if it is tried.
        forms: The forms, in the order in which they are tried.
        begin, priced: Time at which pricing began, and seconds of pricing.
        table: For every form so far, its entry in the table of candidates.
        answers: For every form so far, its owners; None if no owners were found.
        least: Seconds of the quickest search that exceeded its budget; 0 without such a search.
        late: Names of the candidates for which too little of the budget was left.
    """

    asked: Unowned
    goal: str
    hops: bool
    why: dict[str, str]
    prices: PricedForms
    forms: list[Form]
    begin: float
    priced: float
    table: list[Candidate] = field(default_factory=list)
    answers: list[Ownership | None] = field(default_factory=list)
    least: float = 0.0
    late: list[str] = field(default_factory=list)

    def try_form(self, form: Form) -> None:
        """Find owners by a form (model with options); add figures, or an error, to `table`."""
        start, found = wall_seconds(), None
        spent, left = start - self.begin, self.forms[len(self.table) :]
        searched = sum(each.searched and not self.why.get(each.name) for each in left)
        task = _task(self.asked.task, form, self.goal, spent, max(searched, 1))
        limited = task.options.budget is not None and not self.why.get(form.name)
        if limited and any(self.answers):
            self._check_time(form, max((self.asked.task.options.budget or 0.0) - spent, 0.0))
        why = self.why.get(form.name, "")
        entry = Candidate(form.label, task.objective or "", failed=why)
        if not why:
            try:
                entry, found = self._tried(entry, form, task)
            except (BackendError, BackendUnavailable) as error:
                entry = replace(entry, failed=str(error))
            seconds = wall_seconds() - start
            entry = replace(entry, seconds=seconds)
            if found and seconds > (task.options.budget or math.inf):
                self.least = min(self.least or seconds, seconds)
        self.table.append(entry)
        self.answers.append(found)

    def _check_time(self, form: Form, left: float) -> None:
        """Mark `form` as not tried, in `why`, if `left` seconds are too few for its search."""
        if left < self.least:
            self.late.append(form.name)
            least = f"no search so far took less than {self.least:.1f} s"
            self.why[form.name] = f"{left:.1f} s were left of it, and {least}"

    def _tried(self, entry: Candidate, form: Form, task: Task) -> tuple[Candidate, Ownership]:
        """Find owners by the model of `form`; return `entry` with their figures, and the owners."""
        shared, grid = self.prices.balance_of(form), form.assigner.grid
        asked = replace(self.asked, task=task, balance=shared)
        with asked.observer(f"candidate {form.label}"):
            found = find_owners(asked)
        found = replace(found, balance=shared, grid=grid)
        if grid is None:

            def value(found: Ownership) -> float:
                return self._judged(entry, found)[0].value

            found = numbered(asked, found, value)
        return self._judged(entry, found)

    def _judged(self, entry: Candidate, found: Ownership) -> tuple[Candidate, Ownership]:
        """Return `entry` with the figures of the owners `found`, and these owners.

        The owners get a topology if node-aware exchange is allowed and shortens the predicted
        epoch.
        """
        matrix, task, grid = self.asked.matrix, self.asked.task, found.grid
        predictor = task.options.predictor
        num_parts = task.num_parts if grid is None else grid.num_parts
        parts = traffic(matrix, found.owners, num_parts)
        metrics = summarize(parts)
        relative = relative_capacities(num_parts, task.options.capacities)
        epoch = predictor.of_owners(matrix, found.owners, num_parts, grid)
        node = predictor.machine.node.ranks
        if self.hops and grid is None and 1 < node < num_parts and num_parts % node == 0:
            topology = Topology(((num_parts // node, node),))
            plan = lower(matrix, found.owners, num_parts, normalization="none", self_loops=False)
            routed = predictor.epoch(tables_of(with_routes(plan, topology)))
            if routed.seconds < epoch.seconds:
                epoch, found = routed, replace(found, topology=topology)
                entry = replace(entry, model=f"{entry.model}:topology={topology}")
        value: float = epoch.seconds
        if self.goal != "time":
            value = float(objective_value(self.goal, parts, found.owners))
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

    def winner(self, unfits: Mapping[str, str]) -> Ownership:
        """Return the best owners, with the table of candidates and notes for the user.

        `unfits` says, for each candidate, why it does not suit the graph; "" if it does.
        """
        task, options, goal = self.asked.task, self.asked.task.options, self.goal
        memory = options.predictor.machine.node.memory if goal == "time" else None
        first = _able(self.table, options.epsilon if goal != "time" else math.inf, memory)[0]
        best = self.table[first] = replace(self.table[first], chosen=True)
        found = self.answers[first]
        assert found is not None
        how: dict[str, Any] = {
            "chosen_model": best.model,
            "chosen_by": goal,
            "candidates": json.dumps([asdict(entry) for entry in self.table]),
            "search_seconds": self.priced + sum(entry.seconds for entry in self.table),
            "effort": task.effort,
            "threads": options.threads,
            **({} if options.budget is None else {"budget": float(options.budget)}),
            **({} if found.grid is None else {"blocks": self.forms[first].assigner.model}),
            **({} if found.topology is None else {"topology": str(found.topology)}),
        }
        notes = [*found.about_owners, *self._notes(best, unfits)]
        return with_stop_note(replace(found, how=found.how | how, about_owners=notes), task)

    def _notes(self, best: Candidate, unfits: Mapping[str, str]) -> Iterator[str]:
        """Yield notes on candidates left out, and on a `best` worse than a random partition."""
        left_out = ", ".join(name for name, said in unfits.items() if said)
        if left_out:
            yield (
                f"these candidates do not suit the graph and are left out: {left_out}; the "
                "others are searched with effort fast"
            )
        if self.late:
            names = ", ".join(self.late)
            yield f"the budget was too short to search {names}: {self.why[self.late[0]]}"
        num_parts = self.asked.task.num_parts
        if self.goal != "time" and num_parts > 1:  # for "time", the compiler adds such a note
            value = OBJECTIVES[self.goal].value
            assert value is not None
            random = value(random_traffic(self.asked.matrix, num_parts))
            if best.value > random:
                yield (
                    f"an even random partition is better than every candidate: its {self.goal} is "
                    f"{random:.4g}, that of '{best.model}' {best.value:.4g}"
                )


def choose(asked: Unowned, *, grids: bool = False, hops: bool = False) -> Ownership:
    """Find owners by every candidate of an `AutoModel`; return the owners with the best objective.

    The default objective is "time". All searches together take the budget of the task.

    Parameters:
        grids: Whether the plan may have a process grid.
        hops: Whether to try node-aware exchange too. Used only if the objective is "time" and the
            model names no candidates.
    """
    task, matrix = asked.task, asked.matrix
    assert isinstance(task.model, AutoModel)
    goal, free = task.options.objective or "time", task.model.candidates is None
    check_choice("objective", goal, OBJECTIVES)
    grids = grids and goal == "time" and task.options.capacities is None
    names = _names(task.model, {"row": True, "edge": matrix.types is None}, grids)
    unfits = _unfits(matrix, task, names)
    if any(unfits.values()):  # on an extreme graph, a longer search gains little
        task = replace(task, options=replace(task.options, effort="fast"))
        asked = replace(asked, task=task)
    begin, prices, why = wall_seconds(), PricedForms(matrix, task, asked.balance), dict(unfits)
    with asked.observer("price"):
        forms = [form for name in names for form in prices.best_form(name, bool(why.get(name)))]
        if free and goal == "time":
            why |= prices.left_out(forms, unfits)
    if not forms:
        raise InputError(
            f"candidates {', '.join(names)}: no {task.num_parts}-rank grid suits the layer widths"
        )
    hops, priced = hops and free and goal == "time", wall_seconds() - begin
    contest = Contest(asked, goal, hops, why, prices, forms, begin, priced)
    for form in contest.forms:
        contest.try_form(form)
    return contest.winner(unfits)


def _names(model: AutoModel, layouts: Mapping[str, bool], grids: bool) -> tuple[str, ...]:
    """Return the names of the candidates whose kind of plan is allowed.

    `layouts` says whether row plans and edge plans are allowed; `grids`, whether all other kinds
    are. InputError is raised if the user names a candidate that is not allowed.
    """
    names = model.names()
    known = {name: each for name, each in MODELS.loaded().items() if each.competes}
    if not names:
        raise InputError(f"model 'auto' needs candidates; choose from {', '.join(known)}")
    for name in names:
        check_choice("candidate", name, known)
    others = [name for name in names if not layouts.get(known[name].layout, grids)]
    if others and model.candidates is not None:
        if known[others[0]].layout == "edge":
            raise InputError(f"candidate '{others[0]}': a typed graph needs a row plan")
        raise InputError(
            f"candidate '{others[0]}': a process grid needs objective 'time', and allows no "
            "capacities, topology, vertex types, links, edge features or several relations"
        )
    return tuple(name for name in names if name not in others)


def _unfits(matrix: Graph, task: Task, names: Sequence[str]) -> dict[str, str]:
    """Return, for every candidate in `names`, why it does not suit the graph; "" if it does.

    The dict is empty if there is only one candidate, or if no candidate would be left.

    A hub is a row or column with more than ``HUB * sqrt(num_parts)`` times the nonzeros of an
    average part. A row plan gives a hub to one part. So if there are a hub and a candidate for edge
    plans, row plans are left out. Of the candidates that search for edge plans, only the first is
    kept. With many hubs, searches gain little: edge plans without a search are kept, if there are
    any.
    """
    if len(names) < 2:
        return {}
    known = {name: MODELS[name] for name in names}
    unfits = {name: make_model(name, {}).unfit(matrix, task.num_parts) for name in names}
    full = FullRows.of(matrix, task.num_parts)
    if full is not None and full.hubs:
        by_nonzeros = [name for name in names if known[name].layout == "edge" and not unfits[name]]
        assigned = [name for name in by_nonzeros if not known[name].searched]
        kept = assigned or by_nonzeros or list(names)
        for name in names:
            if name not in kept:
                unfits[name] = unfits[name] or f"{full}; {kept[0]} is as good, or quicker"
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
    """Return the task to find owners by a form (a model with fixed options) after `spent` seconds.

    If the form needs a search, the search gets 1 / `num_searched` of the seconds that are left of
    the budget. `num_searched` is the number of forms that still need a search.
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
    """Return the indices in `table` of the candidates that can be chosen, the best value first.

    Such a candidate is balanced, and no rank needs more than `memory` bytes. If no candidate is
    balanced, the smallest imbalance is allowed; if all need more memory, memory is ignored. For
    objective "time", `epsilon` is infinite, since imbalance already makes the slowest part slower.
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
