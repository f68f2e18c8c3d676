"""Requests for owners, and the answers.

Task       model, number of parts, options of the search: refuses combinations without meaning
Unowned    a matrix, with task and balance
Ownership  owners, how they were found, what the user should know of them
"""

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
"""Called with the name of a stage; the context manager spans the stage."""
Report = Callable[[Trial], None]
"""Called with every step of a search as it ends."""

REFINED, REBALANCED = "the refined partition", "the rebalanced partition"
"""Names of partitions in warnings."""


@dataclass(frozen=True)
class Task:
    """Owners to be found; a combination that makes no sense is an InputError.

    Attributes:
        name: The model's name in `plancc.models.MODELS`.
        model: With its options.
    """

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
        """Objectives of the model to choose from; none where no objective is named."""
        if self.options.objective is None or self.model.layout == "any":
            return ()
        return (*self.model.own_objectives, *OBJECTIVES)

    @property
    def wish(self) -> str:
        """The first option that asks for a search; a budget also asks for a refinement alone."""
        if self.model.layout == "any":
            return ""
        given = {**self.options.wishes, "fixed": self.options.fixed}
        if self.objective is not None and not self.searches:
            given.pop("budget", None)
        return next((name for name, value in given.items() if value is not None), "")

    @property
    def searches(self) -> bool:
        """Whether plancc chooses partitioners and passes itself.

        A model whose default objective is its own is searched on request only: model gp without any
        wish is the paper's, few cut edges by METIS alone.
        """
        model, options = self.model, self.options
        if not model.searched or options.named:
            return False
        own = model.own_objectives
        asked = bool(options.wishes) or options.fixed is not None
        return asked or (options.objective or model.default_objective) not in own

    @property
    def objective(self) -> str | None:
        """What a search, or a refinement after a partitioner, minimises; None: neither takes place.

        A search for a model's own objective is one for the volume.
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
        """Whether a partitioner of the model's problem minimises it without refinement."""
        if objective in self.model.own_objectives:
            return True
        partitioner = self.options.partitioner
        if self.model.problem is WeightedGraph and partitioner != AUTO:
            return objective in PARTITIONERS[partitioner].objectives
        return objective in self.model.minimised

    @property
    def handed_on(self) -> dict[str, str]:
        """The objective where the model's partitioner minimises it, as an option of the model."""
        asked = self.options.objective
        if asked is None or self.objective is not None or not self.model.own_objectives:
            return {}
        return {"objective": asked}

    @property
    def effort(self) -> str:
        """Effort of the search."""
        return self.options.effort or EFFORT

    @property
    def search_options(self) -> SearchOptions:
        """Options of the search, with the objective that it minimises."""
        objective = None if self.model.of_batches else self.objective
        return replace(self.options, objective=objective)

    def wishes(self) -> dict[str, Any]:
        """Objective, what asks for a search, and the number of fixed rows, for the provenance."""
        objective = self.objective or (self.options.objective if self.model.searched else None)
        found = ({} if objective is None else {"objective": objective}) | self.options.wishes
        if self.options.fixed is not None:
            found["fixed_rows"] = int(np.count_nonzero(self.options.fixed >= 0))
        return found


@dataclass(frozen=True, eq=False)
class Unowned:
    """A normalised matrix whose rows are to get owners.

    Attributes:
        observer, report: See `plancc.compile`.
    """

    matrix: Graph
    task: Task
    balance: Balance = Balance()
    observer: Observer = nullcontext
    report: Report | None = None


@dataclass(frozen=True)
class Ownership:
    """Owners and how they were found.

    Attributes:
        how: For the provenance of a plan.
        about_run, about_owners: What the user should know of how the owners were found, and of the
            owners themselves.
        balance: What the parts share evenly, where that is not what was asked for.
        limits: None where only owners are known.
        others: Owners as balanced, which may be quicker under numbers for the machine, or in hops.
        grid, topology: Of the plan, where model auto chose a process grid, or hops between nodes.
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
