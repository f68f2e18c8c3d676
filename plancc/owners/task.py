"""Types for the step that finds owners: its input (`Task`, `Unowned`) and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from plancc.cost.objectives import OBJECTIVES
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.base import Model
from plancc.models.limits import Limits
from plancc.models.problem import WeightedGraph
from plancc.models.weights import Balance
from plancc.options import EFFORT, TASKS, SearchOptions, refuse
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.options import AUTO
from plancc.plan.grid import Grid
from plancc.plan.topology import Topology
from plancc.registry import check_choice
from plancc.search.record import Trial

Observer = Callable[[str], AbstractContextManager[Any]]
"""A function that is called with the name of a stage; its context manager spans the stage."""
Report = Callable[[Trial], None]
"""A function that is called with every step of a search when the step ends."""

REFINED, REBALANCED = "the refined partition", "the rebalanced partition"
"""What warnings call the two kinds of partition."""


@dataclass(frozen=True)
class Task:
    """The task of finding owners by a model; options must suit the model and each other."""

    name: str
    model: Model
    num_parts: int
    options: SearchOptions = field(default_factory=SearchOptions)

    def __post_init__(self) -> None:
        refuse(TASKS, self)
        if self.objectives:
            check_choice("objective", str(self.options.objective), self.objectives)
        if self.model.problem is not None and self.options.partitioner != AUTO:
            from plancc.partitioners.run import check_accepts

            check_accepts(self.options.partitioner, self.model.problem)
        if self.options.nodes is not None:
            self.options.nodes.check(self.num_parts)
        for asked in self.handed_on.values():
            object.__setattr__(self, "model", self.model.with_objective(asked))

    @property
    def objectives(self) -> tuple[str, ...]:
        """The model's allowed objectives; empty if the user names no objective or model is auto."""
        if self.options.objective is None or self.model.layout == "any":
            return ()
        return (*self.model.own_objectives, *OBJECTIVES)

    @property
    def wish(self) -> str:
        """Name of the first option that the user gives and that asks for a search; "" if none does.

        If owners are only refined, without a search, option `budget` limits the refinement, and
        asks for no search.
        """
        if self.model.layout == "any":
            return ""
        given = {**self.options.wishes, "fixed": self.options.fixed}
        if self.objective is not None and not self.searches:
            given.pop("budget", None)
        return next((name for name, value in given.items() if value is not None), "")

    @property
    def searches(self) -> bool:
        """Whether plancc searches for owners; it then chooses partitioners and refinements itself.

        If the user names a partitioner, there is no search. If only this model has the objective,
        as gp has the edge cut, plancc searches only if the user gives options of the search;
        otherwise METIS finds the owners.
        """
        model, options = self.model, self.options
        if not model.searched or options.named:
            return False
        own = model.own_objectives
        asked = bool(options.wishes) or options.fixed is not None
        return asked or (options.objective or model.default_objective) not in own

    @property
    def objective(self) -> str | None:
        """Objective of the search, or of the refinement of a partitioner's owners.

        None if there is neither. If the user names no objective, a search minimises the model's
        default objective, or the volume if the default is one of the model's own objectives.
        """
        model, asked = self.model, self.options.objective
        if model.of_batches:
            return model.default_objective
        if self.searches:
            default = model.default_objective
            return asked or ("volume" if default in model.own_objectives else default)
        if model.searched and asked is not None and not self._minimised(asked):
            return asked
        return None

    def _minimised(self, objective: str) -> bool:
        """Whether the partitioner minimises the objective itself. If so, no refinement follows."""
        if objective in self.model.own_objectives:
            return True
        partitioner = self.options.partitioner
        if self.model.problem is WeightedGraph and partitioner != AUTO:
            return objective in PARTITIONERS[partitioner].objectives
        return objective in self.model.minimised

    @property
    def handed_on(self) -> dict[str, str]:
        """{"objective": the user's objective} if the model must get it as an option, else {}.

        A model with objectives of its own must get it: no search runs then, and the model's
        partitioner minimises the objective.
        """
        asked = self.options.objective
        if asked is None or self.objective is not None or not self.model.own_objectives:
            return {}
        return {"objective": asked}

    @property
    def effort(self) -> str:
        """Effort of the search; the default effort if the user gives none."""
        return self.options.effort or EFFORT

    @property
    def search_options(self) -> SearchOptions:
        """The user's options, with the search's objective (None for models of mini-batches)."""
        objective = None if self.model.of_batches else self.objective
        return replace(self.options, objective=objective)

    def wishes(self) -> dict[str, Any]:
        """Return entries for the provenance: objective, search options and number of fixed rows."""
        objective = self.objective or (self.options.objective if self.model.searched else None)
        found = ({} if objective is None else {"objective": objective}) | self.options.wishes
        if self.options.fixed is not None:
            found["fixed_rows"] = int(np.count_nonzero(self.options.fixed >= 0))
        return found


@dataclass(frozen=True, eq=False)
class Unowned:
    """A normalised matrix without owners, with the task of finding them.

    Attributes:
        balance: Balance of the parts.
        observer, report: See `plancc.compile`.
    """

    matrix: Graph
    task: Task
    balance: Balance = Balance()
    observer: Observer = nullcontext
    report: Report | None = None


@dataclass(frozen=True)
class Ownership:
    """Owners, with entries for the provenance and notes for the user.

    Attributes:
        how: Entries for the provenance of the plan.
        about_run, about_owners: Notes for the user about the run, and about the owners.
        balance: Balance of the parts; None if it is the balance that was asked for.
        limits: Limits of the parts; None if they are not known.
        others: Other owners, at least as balanced. After renumbering, or with a node-aware
            exchange, their epochs may be quicker.
        grid, topology: The process grid, and the topology, that model auto chose; None if it chose
            none.
    """

    owners: Owners
    how: dict[str, Any] = field(default_factory=dict)
    about_run: list[str] = field(default_factory=list)
    about_owners: list[str] = field(default_factory=list)
    balance: Balance | None = None
    limits: Limits | None = None
    others: Sequence[Owners] = ()
    grid: Grid | None = None
    topology: Topology | None = None

    @property
    def warnings(self) -> list[str]:
        return [*self.about_run, *self.about_owners]
